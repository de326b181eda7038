# SPDX-License-Identifier: GPL-3.0-or-later
"""`modprobe` and `systemctl` of the guest, as far as they need no guest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from openbach_run.guest.programs import modprobe, systemctl
from openbach_run.paths import REPOSITORY

CONFIG = (REPOSITORY / "kernel/config").read_text()


@pytest.mark.parametrize("symbol", sorted(modprobe.BUILT_IN.values()))
def test_what_modprobe_says_is_built_in_is_in_the_kernels_configuration(symbol: str) -> None:
    assert re.search(rf"^CONFIG_{symbol}=y$", CONFIG, re.MULTILINE)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of ip that are called, on a host with ifb0 and ifb1."""
    called: list[str] = []
    for name in ("ifb0", "ifb1", "to_st"):
        (tmp_path / name).mkdir()
    (tmp_path / "controls").write_text("cubic bbr\n")
    monkeypatch.setattr(modprobe, "INTERFACES", tmp_path)
    monkeypatch.setattr(modprobe, "CONTROLS", tmp_path / "controls")
    monkeypatch.setattr(modprobe, "_ip", lambda *words: called.append(" ".join(words)) or 0)  # type: ignore[func-returns-value]
    return called


def test_ifb_is_removed_and_made_with_as_many_as_are_asked_for(
    host: list[str], tmp_path: Path
) -> None:
    assert modprobe.main(["modprobe", "ifb"]) == 0
    assert host == []
    assert modprobe.main(["modprobe", "-r", "ifb"]) == 0
    assert host == ["link delete ifb0", "link delete ifb1"]
    for name in ("ifb0", "ifb1"):
        (tmp_path / name).rmdir()
    assert modprobe.main(["modprobe", "ifb", "numifbs=1"]) == 0
    assert host[2:] == ["link add ifb0 type ifb"]


@pytest.mark.parametrize("name", ["tcp_bbr", "sch_netem", "xt-mark"])
def test_what_is_built_in_loads(host: list[str], name: str) -> None:
    assert modprobe.main(["modprobe", name]) == 0


def test_what_is_not_there_is_refused_in_words(
    host: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert modprobe.main(["modprobe", "tcp_probe", "port=5001"]) == 1
    assert "tcp_probe is not in the guest's kernel" in capsys.readouterr().err


UNIT = """\
[Unit]
Description=A
[Service]
Type=forking
Environment=A=1 B=2
ExecStart=/usr/sbin/a \\
    --start
ExecStop=/usr/sbin/a stop
[Install]
WantedBy=x
"""


def test_a_unit_file_is_read() -> None:
    unit = systemctl._service_of(UNIT)
    assert unit["ExecStart"] == ["/usr/sbin/a      --start"]
    assert systemctl._environment(unit) == {"A": "1", "B": "2"}
    assert "WantedBy" not in unit


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["enable", "x"], 0, ""),
        (["start", "nowhere"], 5, "no Debian package in the guest has such a service"),
        (["edit", "x"], 1, "the guest has start"),
        (["is-active", "nowhere"], 3, ""),
    ],
)
def test_what_cannot_be_done_is_said(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert systemctl.main(words) == code
    assert said in capsys.readouterr().err
