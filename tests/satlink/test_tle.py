# SPDX-License-Identifier: GPL-3.0-or-later
"""Links over published orbits: elements that are ours, and those that are damaged."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sgp4.api import WGS72, Satrec, jday
from sgp4.exporter import export_tle

from openbach_jobs import constellation, link_file
from openbach_run.errors import InputError
from satlink import command as link
from satlink import tle

START = datetime(2025, 1, 29, 12, tzinfo=UTC)
PLACES = ["--terminal", "43.60,1.44", "--gateway", "44.78,-0.57"]
LEO = constellation.Constellation()


def sidereal_deg() -> float:
    """Greenwich's sidereal time at START, by the formula of the Astronomical Almanac."""
    day, fraction = jday(2025, 1, 29, 12, 0, 0)
    return float((280.46061837 + 360.98564736629 * (day + fraction - 2451545.0)) % 360)


def elements(planes: int, satellites_per_plane: int) -> str:
    """Elements of a part of our own first shell, as a file with names."""
    rows = []
    day, fraction = jday(2025, 1, 29, 12, 0, 0)
    for plane in range(planes):
        for number in range(satellites_per_plane):
            satellite = Satrec()
            phase_rad = LEO.phase_rad(constellation.Satellite(plane, number))
            satellite.sgp4init(
                WGS72,
                "i",
                plane * satellites_per_plane + number + 1,
                day + fraction - 2433281.5,
                0.0,
                0.0,
                0.0,
                1e-6,
                0.0,
                math.radians(LEO.inclination_deg),
                phase_rad % math.tau,
                LEO.motion_rad_per_s * 60,
                (math.tau * plane / LEO.planes + math.radians(sidereal_deg())) % math.tau,
            )
            rows += [f"OURS {plane}-{number}", *export_tle(satellite)]
    return "\n".join(rows) + "\n"


WHOLE = elements(LEO.planes, LEO.satellites_per_plane)
FEW = "\n".join(WHOLE.splitlines()[:6]) + "\n"


def test_our_own_shell_has_the_delays_of_the_constellation(tmp_path: Path) -> None:
    """The Earth is an ellipsoid here and a sphere there; oblateness moves orbits here."""
    (tmp_path / "leo.tle").write_text(WHOLE)
    out = tmp_path / "leo.csv"
    words = [str(tmp_path / "leo.tle"), *PLACES, "--duration-s", "300", "-o", str(out)]
    assert link.main(["tle", *words]) == 0
    mine = {one.time_s: one.state.delay_ms for one in link_file.read(out)}
    theirs = {}
    for change in constellation.changes():
        if change.time_s >= 300:
            break
        theirs[change.time_s] = change.state.delay_ms
    both = sorted(mine.keys() & theirs.keys())
    assert len(both) > 200
    off_ms = [abs(mine[time_s] - theirs[time_s]) for time_s in both]
    assert sum(off_ms) / len(off_ms) < 0.1 and max(off_ms) < 1.5


def test_a_file_is_read_with_names_or_without(tmp_path: Path) -> None:
    path = tmp_path / "few.tle"
    path.write_text(FEW)
    found = tle.read(path)
    assert found.names == ["OURS 0-0", "OURS 0-1"]
    assert abs((found.newest - START).total_seconds()) < 0.01
    path.write_text("".join(f"{one}\r\n" for one in FEW.splitlines() if one[:2] in ("1 ", "2 ")))
    assert tle.read(path).names == ["00001", "00002"]


LINES = FEW.splitlines()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no elements in it"),
        ("nothing like it\n", "no elements in it"),
        (f"{LINES[1]}\n", "line 1: it is cut off"),
        (f"{LINES[2]}\n", "line 1: a second line of elements without the first"),
        (f"{LINES[1]}\n{LINES[5]}\n", "line 2: satellite 00002 after 00001"),
        (f"{LINES[1]}\n{LINES[2][:-1]}\n", "has 68 characters"),
        (f"{LINES[1]}\n{LINES[2][:-1]}{(int(LINES[2][-1]) + 1) % 10}\n", "it is damaged"),
        (f"{LINES[1]}\nname\n{LINES[2]}\n", "line 1: the second line of elements is missing"),
    ],
)
def test_damaged_elements_are_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "elements").write_text(text)
    with pytest.raises(ValueError, match=said):
        tle.read(tmp_path / "elements")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--terminal", "43.60", "--gateway", "0,0"], "--terminal 43.60: give it as"),
        (["--terminal", "91,0", "--gateway", "0,0"], "a latitude is from -90 to 90"),
        ([*PLACES, "--start", "yesterday"], "--start yesterday: give it like"),
        ([*PLACES, "--start", "2026-01-01"], "more than 14 days away"),
        ([*PLACES, "--elevation-mask-deg", "95"], "--elevation-mask-deg 95"),
        ([*PLACES, "--elevation-mask-deg", "85"], "no satellite stands 85 degrees high"),
        ([*PLACES, "--like", "geo"], "it has no reconfigurations"),
        ([*PLACES, "--like", "starlink", "--outage-ms", "5"], "the satellite has it"),
    ],
)
def test_what_is_wrong_is_told(words: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "few.tle").write_text(FEW)
    with pytest.raises(InputError, match=said):
        link.main(["tle", str(tmp_path / "few.tle"), *words, "-o", str(tmp_path / "link.csv")])
    assert not (tmp_path / "link.csv").exists()


def test_reconfigurations_of_a_satellite_are_on_top(tmp_path: Path) -> None:
    (tmp_path / "leo.tle").write_text(WHOLE)
    out = tmp_path / "link.csv"
    words = [str(tmp_path / "leo.tle"), *PLACES, "--like", "starlink_isl", "--duration-s", "60"]
    assert link.main(["tle", *words, "-o", str(out)]) == 0
    first = out.read_bytes()
    summary = link_file.check(out)
    assert summary.forward.outages > 3 and summary.forward.loss_pct.greatest == 100
    assert summary.back.delay_ms.mean > summary.forward.delay_ms.mean
    assert link.main(["tle", *words, "-o", str(out)]) == 0 and out.read_bytes() == first
    assert link.main(["tle", *words, "--seed", "2", "-o", str(out)]) == 0
    assert out.read_bytes() != first


@given(st.integers(0, len(FEW)), st.text(max_size=20), st.integers(0, 80))
@example(11, "00000000000\N{SUPERSCRIPT TWO}", 12)
def test_any_damage_is_read_or_named(
    tmp_path_factory: pytest.TempPathFactory, place: int, added: str, dropped: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.tle"
    path.write_text(FEW[:place] + added + FEW[place + dropped :], errors="replace")
    try:
        assert tle.read(path).satellites
    except link_file.LinkFileError as error:
        assert "damaged.tle" in str(error)
