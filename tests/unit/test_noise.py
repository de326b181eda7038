# SPDX-License-Identifier: GPL-3.0-or-later
"""The noise of hosts: what a file may say, which runs have it, and what the kernel is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.campaign import noise
from openbach_run.campaign.options import Options
from openbach_run.errors import InputError
from openbach_run.guest.noise import STEPS, US, quantiles_ns

FLAT = {"receive_us": [[0, 20]], "timer_us": [[0, 5]]}


def written(tmp_path: Path, content: Any) -> str:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(content))
    return str(file)


def test_quantiles_lie_between_the_points() -> None:
    found = quantiles_ns([[0, 10], [0.5, 20], [1, 120]])
    assert (found[0], found[STEPS // 4], found[STEPS // 2], found[STEPS]) == (
        10_000,
        15_000,
        20_000,
        120_000,
    )


def test_outside_of_the_points_the_nearest_one_counts() -> None:
    found = quantiles_ns([[0.25, 10], [0.75, 30]])
    assert found[0] == found[STEPS // 4] == 10_000
    assert found[STEPS] == found[STEPS * 3 // 4] == 30_000


points = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 10_000)), min_size=1, unique_by=lambda pair: pair[0]
).map(lambda pairs: [*zip(sorted(p for p, _ in pairs), sorted(us for _, us in pairs), strict=True)])


@given(points)
def test_quantiles_rise_from_the_first_point_to_the_last(points: list[tuple[float, float]]) -> None:
    found = quantiles_ns(points)
    assert len(found) == STEPS + 1
    assert found == sorted(found)
    assert round(US * points[0][1]) <= found[0] <= found[-1] <= round(US * points[-1][1])


def test_ours_is_a_file_like_those_of_others() -> None:
    assert noise.read_noise([str(noise.FILE), noise.HOST, noise.OFF]).keys() == {str(noise.FILE)}
    assert noise.distributions(noise.HOST, None)
    assert noise.distributions(noise.OFF, None) is None
    with pytest.raises(InputError, match="by the command line"):
        noise.distributions("mine.json", None)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"receive_us": [[0, 1]]}, "timer_us"),
        ({**FLAT, "receive_us": []}, "at least one"),
        ({**FLAT, "receive_us": [[0, 1, 2]]}, "probability from 0 to 1"),
        ({**FLAT, "receive_us": [[2, 1]]}, "probability from 0 to 1"),
        ({**FLAT, "timer_us": [[0, 5], [0.5, 4]]}, "should rise"),
        ({**FLAT, "timer_us": [[0, 5], [0, 6]]}, "should rise"),
        ({**FLAT, "timer_us": [[0, -5]]}, "0"),
        ({**FLAT, "timer_us": [[0, 1e9]]}, "10000"),
        ({**FLAT, "other": 1}, "other"),
    ],
)
def test_a_wrong_file_is_refused_in_words(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        noise.read_noise([written(tmp_path, content)])


def test_a_wrong_name_is_no_file() -> None:
    with pytest.raises(InputError, match="noise=hosts: host, off, or a JSON file"):
        noise.read_noise(["hosts"])


@pytest.mark.parametrize("options", [Options(engine="native"), Options(clock="real")])
def test_in_real_time_hosts_have_their_own(options: Options) -> None:
    noise.check_engine([noise.HOST], options)
    with pytest.raises(InputError, match="their own noise"):
        noise.check_engine([noise.OFF], options)
