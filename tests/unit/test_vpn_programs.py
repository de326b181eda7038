# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of VPNs: built for the runs that need them, and what is said when one cannot be built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openbach_run.engine.virtual import programs
from openbach_run.engine.virtual.programs import ensure_programs
from openbach_run.errors import SetupError

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "vpn-configs"
TOLD: list[tuple[str, float]] = []


def made_up_vpn(folder: Path, monkeypatch: pytest.MonkeyPatch, builder: str) -> dict[str, Path]:
    """A VPN `mine`, whose program is built by the lines of `builder`, and `other`, which is `mine` with other values."""
    (folder / "mine").mkdir(parents=True)
    recipe = {"crate": "mine", "version": "1.0.0", "sha256": "0"}
    (folder / "mine/vpn.json").write_text(json.dumps({"programs": {"mined": recipe}}))
    (folder / "other").mkdir()
    (folder / "other/vpn.json").write_text(json.dumps({"base": "mine"}))
    (folder / "builder.py").write_text(builder)
    monkeypatch.setattr(programs, "BUILDER", folder / "builder.py")
    return {f"vpn-configs/{name}": folder / name for name in ("mine", "other")}


def progress(text: str, part: float) -> None:
    TOLD.append((text, part))


def test_a_program_is_built_once_and_only_for_who_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = "import sys; print('0.5 compiling', flush=True); open(sys.argv[3] + '/mined', 'x').write(sys.argv[1])"
    parts = made_up_vpn(tmp_path / "vpns", monkeypatch, builder)
    other = {name: folder for name, folder in parts.items() if name.endswith("other")}
    assert ensure_programs(tmp_path / "cache", other, progress) == {}
    assert not (tmp_path / "cache").exists()
    TOLD.clear()
    first = ensure_programs(tmp_path / "cache", parts, progress)
    assert first["bin/mined"].read_text() == str(tmp_path / "vpns/mine")
    assert TOLD == [("building mined 1.0.0: compiling", 0.5)]
    assert ensure_programs(tmp_path / "cache", parts, progress) == first


def test_what_cannot_be_built_says_why_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = made_up_vpn(tmp_path / "vpns", monkeypatch, "import sys; sys.exit('cargo is missing on this machine')")
    with pytest.raises(SetupError, match=r"building mined 1\.0\.0 failed: cargo is missing on this machine"):
        ensure_programs(tmp_path / "cache", parts, progress)
    assert not [entry for entry in (tmp_path / "cache").iterdir() if entry.suffix == ""]


def test_without_cargo_the_command_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        SetupError, match=r"vpncloud 2\.3\.0 is built from crates\.io, and cargo is missing on this machine"
    ):
        ensure_programs(tmp_path / "cache", {"vpn-configs/vpncloud": CONFIGS / "vpncloud"}, progress)


@pytest.mark.parametrize("kind", sorted(file.parent.name for file in CONFIGS.glob("*/vpn.json")))
def test_a_crate_is_pinned_by_its_hash(kind: str) -> None:
    for recipe in json.loads((CONFIGS / kind / "vpn.json").read_text()).get("programs", {}).values():
        assert set(recipe) >= {"crate", "version", "sha256"}
        assert len(bytes.fromhex(recipe["sha256"])) == 32
