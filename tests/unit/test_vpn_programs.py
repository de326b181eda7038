# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of VPNs: which runs need which, and what is said when one cannot be built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openbach_run.engine.virtual.programs import ensure_vpn_programs, vpns_named
from openbach_run.errors import SetupError

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "vpn-configs"
JOB = ROOT / "jobs/vpn/files"
TOLD: list[tuple[str, float]] = []


def made_up_job(folder: Path, builder: str) -> Path:
    """A vpn job with one VPN `mine`, whose program is built by the lines of `builder`."""
    (folder / "vpn-configs/mine").mkdir(parents=True)
    recipe = {"crate": "mine", "version": "1.0.0", "sha256": "0"}
    (folder / "vpn-configs/mine/vpn.json").write_text(json.dumps({"programs": {"mined": recipe}}))
    (folder / "vpn-configs/other").mkdir()
    (folder / "vpn-configs/other/vpn.json").write_text(json.dumps({"base": "mine"}))
    (folder / "vpn_program.py").write_text(builder)
    return folder


def progress(text: str, part: float) -> None:
    TOLD.append((text, part))


def test_vpns_are_found_wherever_a_value_names_them() -> None:
    functions = [{"start_job_instance": {"vpn": {"kind": "nebula", "server": {}}}, "label": "wireguard tunnel"}]
    assert vpns_named([{"vpn": ("vpncloud", "none"), "size": "30M"}, functions], CONFIGS) == {"vpncloud", "nebula"}
    assert vpns_named({"vpn": "../vpn-configs/nebula", "other": "$vpn"}, CONFIGS) == set()


def test_a_program_is_built_once_and_only_for_who_needs_it(tmp_path: Path) -> None:
    builder = "import sys; print('0.5 compiling', flush=True); open(sys.argv[3] + '/mined', 'x').write(sys.argv[1])"
    job = made_up_job(tmp_path / "job", builder)
    assert ensure_vpn_programs(tmp_path / "cache", job, [], progress) == {}
    assert not (tmp_path / "cache").exists()
    TOLD.clear()
    first = ensure_vpn_programs(tmp_path / "cache", job, ["other"], progress)
    assert first["bin/mined"].read_text() == "mine"
    assert TOLD == [("building mined 1.0.0: compiling", 0.5)]
    assert ensure_vpn_programs(tmp_path / "cache", job, ["mine", "other"], progress) == first


def test_what_cannot_be_built_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    job = made_up_job(tmp_path / "job", "import sys; sys.exit('cargo is missing on this machine')")
    with pytest.raises(SetupError, match=r"building mined 1\.0\.0 failed: cargo is missing on this machine"):
        ensure_vpn_programs(tmp_path / "cache", job, ["mine"], progress)
    assert not [entry for entry in (tmp_path / "cache").iterdir() if entry.suffix == ""]


def test_without_cargo_the_command_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        SetupError, match=r"vpncloud 2\.3\.0 is built from crates\.io, and cargo is missing on this machine"
    ):
        ensure_vpn_programs(tmp_path / "cache", JOB, ["vpncloud"], progress)


@pytest.mark.parametrize("kind", sorted(file.parent.name for file in CONFIGS.glob("*/vpn.json")))
def test_a_crate_is_pinned_by_its_hash(kind: str) -> None:
    for recipe in json.loads((CONFIGS / kind / "vpn.json").read_text()).get("programs", {}).values():
        assert set(recipe) >= {"crate", "version", "sha256"}
        assert len(bytes.fromhex(recipe["sha256"])) == 32
