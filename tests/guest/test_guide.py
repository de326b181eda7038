# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of docs/guide.md, executed in their order.

Each sweep is executed in its first cell, with little data.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from helpers import own_files
from helpers.guest_runs import REPOSITORY, command

TRANSFER = {"vpn": "none", "cc": "cubic", "pep": "none", "loss": "0", "size": "100k"}
SHORT: dict[str, dict[str, str]] = {
    "web": {"vpn": "none", "cc": "cubic", "pep": "none", "http": "2", "loads": "1"},
    "voip": {"vpn": "none", "background": "none", "loss": "0", "duration_s": "5"},
    "geo_loss_table": {"pep": "none", "size": "100k"},
    "library/topologies/lan.json": {"size": "100k"},
    "video": {"duration_s": "8"},
    "link": {},
    "report": {},
}
"""By scenario or command: what is given to it where the guide says nothing. All others transfer
files."""


def one_cell(line: str) -> list[str]:
    """The words of a command, of each argument the first value."""
    words = shlex.split(line)[1:]
    short = SHORT.get(words[0], TRANSFER)
    if not short:
        return words
    given = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    named = {**short, **{name: values.split(",")[0] for name, values in given.items()}}
    if "size" in named:
        named["size"] = short["size"]
    options = [word for word in words[1:] if "=" not in word and word not in ("--seeds", "5")]
    return [
        words[0],
        *(f"{name}={value}" for name, value in named.items()),
        *options,
        "--seeds",
        "1",
    ]


def test_its_commands(tmp_path: Path) -> None:
    for entry in REPOSITORY.iterdir():
        if entry.name not in ("results", "reports"):
            (tmp_path / entry.name).symlink_to(entry)
    (tmp_path / "reports").mkdir()
    # The last report is of its results, too.
    others = command(*one_cell("./openbach-run leo_loss vpn=wireguard"), cwd=tmp_path)
    assert others.returncode == 0, others.stderr
    lines = own_files.commands("guide.md")
    assert len(lines) > 10
    for line in lines:
        done = command(*one_cell(line), cwd=tmp_path)
        assert done.returncode == 0, f"{line}: {done.stderr}"
    assert (tmp_path / "leo.svg").exists() and (tmp_path / "reports/mine/report.pdf").exists()
