# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles of impairment, and what lan_link tells tc of them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from helpers.job_code import load

lan_link, impairment = load("lan_link"), load("lan_link", "impairment")
ORDER = ("baseline", "low", "medium", "high")


def test_ours_are_in_order() -> None:
    """Each is at least as bad as the one before it, in everything."""
    assert {file.stem for file in impairment.FOLDER.glob("*.json")} == set(ORDER)
    found = [tuple(impairment.find(name)) for name in ("none", *ORDER)]
    assert found[0] == found[1] == (0, 0, 0, 0, 0)
    for better, worse in pairwise(found[1:]):
        assert all(a <= b for a, b in zip(better, worse, strict=True)) and better != worse


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"loss": 1}, "loss: a profile has delay_ms, jitter_ms"),
        ({"loss_pct": 101}, "loss_pct is 101: a number from 0 to 100"),
        ({"delay_ms": "1"}, "delay_ms is '1': a number from 0 to 10000"),
        ({"duplicate_pct": True}, "duplicate_pct is True"),
        ({"reorder_pct": 1}, "reorder_pct: packets overtake"),
        ([], "should be a JSON object"),
    ],
)
def test_what_is_no_profile(tmp_path: Path, content: Any, said: str) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=said):
        impairment.find("mine", tmp_path)


def test_a_profile_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("{}")
    with pytest.raises(ValueError, match="there is no profile yours; there are mine"):
        impairment.find("yours", tmp_path)


def test_the_profiles_delay_comes_on_top() -> None:
    arguments = lan_link.parse(["eth0", "--delay-ms", "1", "--impairment", "high"])
    profile = impairment.find("high")
    assert (
        lan_link.profile_options(arguments)
        == f" delay {round(1000 * (1 + profile.delay_ms))}us {round(1000 * profile.jitter_ms)}us"
        f" distribution normal reorder {profile.reorder_pct:g}% duplicate"
        f" {profile.duplicate_pct:g}% loss random {profile.loss_pct:g}%"
    )


def test_without_anything_the_link_is_left_alone() -> None:
    assert lan_link.changes_nothing(lan_link.parse(["eth0", "--impairment", "baseline"]))
    for words in (["--rate", "1M"], ["--impairment", "low"], ["--delay-ms", "1"], ["--loss", "1"]):
        assert not lan_link.changes_nothing(lan_link.parse(["eth0", *words]))


@pytest.mark.parametrize(
    "words",
    [
        ["--rate", "2G"],
        ["--rate", "x"],
        ["--queue-packets", "0"],
        ["--impairment", "x"],
        ["--impairment", "low", "--loss", "1"],
    ],
)
def test_what_lan_link_refuses(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        lan_link.parse(["eth0", *words])
