# SPDX-License-Identifier: GPL-3.0-or-later
"""A congestion control of the user's own, outside the checkout.

Docs/congestion-controls.md, word for word.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from helpers import own_files
from helpers.guest_runs import Run, command, records

(COMMAND,) = (
    line.removeprefix("./openbach-run ") for line in own_files.commands("congestion-controls.md")
)
MOST_LINES = 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The guide's files, where it says."""
    files = own_files.write("congestion-controls.md", tmp_path)
    (tmp_path / "alone").mkdir()
    assert [file.name for file in files] == ["profile.json", "Kbuild", "tcp_aimd.c"]
    return files[0].parent


def compare(place: Path, words: str = COMMAND) -> tuple[int, str, str]:
    """A command in `place`: exit code, what it prints, and its errors."""
    ended = command(
        *shlex.split(words), "--seeds", "1", "--results", str(place / "results"), cwd=place
    )
    return ended.returncode, ended.stdout, ended.stderr


def capture(run: Run) -> str:
    return str(json.loads((run.record / "record.json").read_text())["capture_hash"])


def test_the_guide(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exit_code, table, errors = compare(tmp_path)
    assert exit_code == 0, errors
    assert {"aimd", "bbr2", "cubic"} <= set(table.split())
    runs = {(run.row["cc"], run.row["loss"]): run for run in records(tmp_path / "results")}
    assert len(runs) == 6
    times_s = {cell: float(run.row["transfer_time_s"]) for cell, run in runs.items()}
    assert times_s["bbr2", "0.5"] < times_s["aimd", "0.5"] < times_s["cubic", "0.5"]
    for (cc, _), run in runs.items():
        sent = [
            line["congestion_control"]
            for line in run.statistics("file_transfer")
            if "congestion_control" in line
        ]
        assert sent == [cc]
        loaded = re.findall(
            r"(\w+): loading out-of-tree module", (run.record / "console.log").read_text()
        )
        assert loaded == ([] if cc == "cubic" else [f"tcp_{cc}"]), (
            "a run loads its own module and no other"
        )
    exit_code, _, errors = compare(tmp_path / "alone", "geo vpn=none cc=bbr2,cubic")
    assert exit_code == 0, errors
    for run in records(tmp_path / "alone/results"):
        assert capture(run) == capture(runs[run.row["cc"], "0"]), (
            "another module beside it changes no packet"
        )
    lines = {file.name: file.read_text().count("\n") for file in folder.iterdir()}
    needed = sum(lines.values()) - lines["tcp_aimd.c"]
    assert needed <= MOST_LINES
    with capsys.disabled():
        print(
            f"\na congestion control of one's own: {needed} lines beside {lines['tcp_aimd.c']} of C"
        )


def test_a_source_that_does_not_compile(folder: Path, tmp_path: Path) -> None:
    source = folder / "tcp_aimd.c"
    source.write_text(source.read_text().replace("max(", "maximum("))
    exit_code, _, errors = compare(tmp_path)
    assert exit_code == 1
    assert f"building the module {folder} failed" in errors
    assert "implicit declaration of function" in errors and "maximum" in errors


def test_a_module_of_another_name(folder: Path, tmp_path: Path) -> None:
    (folder / "tcp_aimd.c").rename(folder / "aimd.c")
    (folder / "Kbuild").write_text("obj-m += aimd.o\n")
    exit_code, _, errors = compare(tmp_path)
    assert exit_code == 1
    assert "should make tcp_aimd.ko" in errors and "it makes aimd.ko" in errors


def test_a_module_that_the_kernel_refuses(folder: Path, tmp_path: Path) -> None:
    """Its own name is there already."""
    source = folder / "tcp_aimd.c"
    source.write_text(source.read_text().replace('"aimd"', '"cubic"'))
    exit_code, _, errors = compare(tmp_path, "geo vpn=none cc=aimd,cubic size=100k --with mine")
    assert exit_code == 1
    assert f"its record: {tmp_path / 'results/runs'}" in errors
    refused, good = sorted(records(tmp_path / "results"), key=lambda run: run.row["cc"])
    assert (refused.row["status"], good.row["status"]) == ("Finished Ko", "Finished Ok")
    error = json.loads((refused.record / "record.json").read_text())["error"]
    assert error.startswith(
        "the kernel does not take the module of aimd: Device or resource busy; it says:\n"
    )
    assert error.splitlines()[-1] == "TCP: cubic already registered or non-unique key"


def test_the_profile_is_checked_before_anything_runs(folder: Path, tmp_path: Path) -> None:
    (folder / "profile.json").write_text(json.dumps({"description": "", "sysctl": {}}))
    exit_code, _, errors = compare(tmp_path)
    assert exit_code == 2
    assert f"{folder / 'profile.json'}: sysctl: no such key; did you mean sysctls?" in errors
    assert not (tmp_path / "results").exists() or not list((tmp_path / "results").glob("runs/*"))
