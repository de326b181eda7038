# SPDX-License-Identifier: GPL-3.0-or-later
"""Which runs of an artifact are repeated, and what its README.md says of them."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.made_up import write_results
from helpers.records import RECORD
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.bundle.artifact import Chosen, Claimed, Facts, ListedCell, differences, some_of
from openbach_run.bundle.artifact_files import _copy, put_sums
from openbach_run.bundle.artifact_readme import readme
from openbach_run.errors import InputError


def figure(number: int, command: str = "geo vpn=none", *wall_s: float) -> ListedCell:
    times = wall_s or (1.0, 2.0)
    seeds = tuple(range(1, len(times) + 1))
    runs = tuple(f"{number:08x}{seed:08x}" for seed in seeds)
    text = f"{command} --seeds {','.join(map(str, seeds))}"
    shown = ("transfer_time_s", "transfer time", "s", 2.0, 1.9, 2.1)
    return ListedCell(f"R{number}", "small", text, seeds, runs, *shown, 0, 0, times)


def claim(name: str, *figures: str) -> Claimed:
    one = ("a <b> | c", "says", "reproduced", "0.9 to 1.1", "ratio")
    return Claimed(name, *one, (("wireguard", 1.01),), figures)


FIGURES = (
    figure(1, "geo vpn=none", 1.0, 2.0),
    figure(2, "geo vpn=wireguard", 5.0, 6.0),
    figure(3, "leo vpn=none", 3.0, 1.5),
)
ABOUT = {
    "title": "T",
    "version": "1.0",
    "commands": ["./openbach-run geo"],
    "licence": "",
    "kernel": "7.2",
    "packages": 9,
    "own": [],
    "directories": ["results/geo"],
    "memory": "512M",
    "unpacked_mb": 700,
    "unpacked_s": 2.0,
    "bundle_mb": 280,
}


def taken(seconds: float) -> dict[str, tuple[int, ...]]:
    return {one.cell.name: one.seeds for one in some_of(FIGURES, seconds)}


def test_what_is_different_comes_before_what_is_cheap() -> None:
    assert taken(7.5) == {"R1": (1,), "R2": (1,), "R3": (2,)}
    assert taken(9.5) == {"R1": (1, 2), "R2": (1,), "R3": (2,)}
    assert taken(1000) == {"R1": (1, 2), "R2": (1, 2), "R3": (1, 2)}


def test_one_run_is_repeated_however_little_time_there_is() -> None:
    assert taken(0.001) == {"R1": (1,)}


@given(st.floats(0, 100))
def test_no_more_than_the_time_is_taken(seconds: float) -> None:
    chosen = some_of(FIGURES, seconds)
    runs = [seed for one in chosen for seed in one.seeds]
    assert len(runs) == 1 or sum(one.wall_s for one in chosen) <= seconds


def test_figures_and_claims_are_found_by_name() -> None:
    said = Facts(FIGURES, (claim("C1 GEO", "R1", "R2"), claim("C1 LEO", "R3"), claim("C2", "R2")))

    def named(*names: str) -> list[str]:
        return [one.name for one in said.named(names)]

    assert named("r3", "C2") == ["R2", "R3"]
    assert named("C1") == ["R1", "R2", "R3"]
    assert named("c1 leo") == ["R3"]
    with pytest.raises(InputError, match="there are R1 to R3, C1, C2"):
        named("R4")


def test_a_repeated_run_that_differs_says_in_what() -> None:
    other = replace(RECORD, measures={"transfer_time_s": 28.4}, capture_hash="cd")
    assert differences(RECORD, RECORD) == ""
    assert differences(RECORD, replace(RECORD, wall_s=9.0)) == ""
    assert differences(RECORD, other) == "transfer_time_s: 28.5 then, 28.4 now"
    assert differences(RECORD, replace(RECORD, capture_hash="cd")) == "other packets"
    assert differences(RECORD, None) == "it left no record"
    failed = replace(RECORD, status="Finished Ko", error="no")
    assert differences(RECORD, failed) == "Finished Ok then, Finished Ko now (no)"
    assert "ended at 30.0 s then, at 31.0 s" in differences(RECORD, replace(RECORD, virtual_s=31.0))


def test_a_table_is_one_line_for_each_whatever_the_words_are() -> None:
    said = Facts((figure(1), figure(2, "geo vpn='a|b'")), (claim("C1", "R1"),))
    text = readme(said, [Chosen(said.results[0], (1,))], {**ABOUT, "title": "a\n# b"})
    assert text.startswith("# a\\n# b\n")
    rows = [line for line in text.splitlines() if line.startswith(("| R", "| **C1"))]
    assert [line.replace("\\|", "").count("|") for line in rows] == [6, 6, 6]
    assert "a &lt;b> \\| c" in text


def test_a_readme_names_what_is_there_and_draws_the_figures() -> None:
    bare, own = (
        readme(Facts((figure(1),), ()), (), {**ABOUT, "own": has}) for has in ([], ["files"])
    )
    assert "`files/`" not in bare and "`files/`" in own and "additions" not in own
    assert "./openbach report results/geo --paper column -o ~/figures" in bare


def test_runs_that_fail_are_a_result() -> None:
    failed = replace(figure(1), median=None, failed=2)
    assert "| 2 of 2 runs fail |" in readme(Facts((failed,), ()), (), ABOUT)
    table = replace(figure(1), median=None, parts=36)
    assert "| a table of 36 values |" in readme(Facts((table,), ()), (), ABOUT)
    some = replace(figure(1), failed=1)
    shown = readme(Facts((some,), ()), (), ABOUT)
    assert "| transfer time 2.00 [1.90–2.10] s, 1 of 2 runs fail |" in shown
    assert "## Claims" not in shown


def test_what_a_guest_has_left_but_files_is_in_no_artifact(tmp_path: Path) -> None:
    """The hash of a host's file was in SHA256SUMS, and a FIFO ended the command."""
    made = write_results(tmp_path / "geo", 1, vpn=("none",), loss=("0",)) / "runs/0000000000000000"
    (made / "shadow").symlink_to("/etc/shadow")
    os.mkfifo(made / "pipe")
    _copy(tmp_path / "geo", None, tmp_path / "copy")
    put_sums(tmp_path / "copy")
    assert (tmp_path / "copy/runs" / made.name / "record.json").exists()
    assert not re.search("shadow|pipe", (tmp_path / "copy/SHA256SUMS").read_text())
