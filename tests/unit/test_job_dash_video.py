# SPDX-License-Identifier: GPL-3.0-or-later
"""The video that dash_video serves, its manifest, and the rule that chooses bitrates."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from helpers.job_code import load
from hypothesis import given
from hypothesis import strategies as st

video, bola, dash_video = (load("dash_video", name) for name in ("video", "bola", "dash_video"))
BITRATES_BPS = video.of_length(8).bitrates_bps


def test_the_video_lasts_as_long_as_is_wanted() -> None:
    assert video.of_length(120).segments == 30
    assert video.of_length(121).segments == 31
    assert list(BITRATES_BPS) == sorted(BITRATES_BPS)


def test_a_manifest_says_what_the_video_is() -> None:
    film = video.of_length(10)
    assert video.read(video.manifest(film).encode()) == film


def test_segments_have_the_size_of_their_bitrate(tmp_path: Path) -> None:
    film = video.Video(4, 3, (8000, 16000))
    video.write(tmp_path, film)
    assert video.path(8000, 3) == "8000/3.m4s"
    for bitrate_bps, size in ((8000, 4000), (16000, 8000)):
        files = [tmp_path / video.path(bitrate_bps, number) for number in (1, 2, 3)]
        assert {len(file.read_bytes()) for file in files} == {size}
        assert len({file.stat().st_ino for file in files}) == 1


def test_an_empty_buffer_has_the_least_bitrate_and_a_full_one_the_most() -> None:
    assert bola.choice(BITRATES_BPS, 0, 6) == BITRATES_BPS[0]
    assert bola.choice(BITRATES_BPS, 5, 6) == BITRATES_BPS[-1]


@given(st.floats(0, 5), st.floats(0, 5))
def test_a_fuller_buffer_never_lowers_the_bitrate(one_level: float, other_level: float) -> None:
    low, high = sorted((one_level, other_level))
    assert bola.choice(BITRATES_BPS, low, 6) <= bola.choice(BITRATES_BPS, high, 6)


def test_bitrates_change_where_the_paper_s_scores_cross() -> None:
    """Scores of two bitrates S1 < S2 are equal at Q = V (gp - v2 S1 / (S2 - S1)), as v1 is 0."""
    weight = (6 - 1) / (math.log(4) + bola.GAMMA_P)
    crossing = weight * (bola.GAMMA_P - math.log(4) * 1 / (4 - 1))
    assert bola.choice((1000, 4000), crossing - 0.001, 6) == 1000
    assert bola.choice((1000, 4000), crossing + 0.001, 6) == 4000


@pytest.mark.parametrize("words", ["server --duration-s 4", "client 10.0.0.1 --buffer-s 4"])
def test_a_value_beyond_its_limits_is_refused(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        dash_video.parse(words.split())
    assert ": from 8 to " in capsys.readouterr().err
