# SPDX-License-Identifier: GPL-3.0-or-later
"""The link over a constellation.

Its geometry against the textbook's, its handovers, the same numbers again.
"""

from __future__ import annotations

import io
import math
from itertools import islice, pairwise, takewhile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbach_jobs import constellation, link_file
from openbach_jobs.constellation import DEFAULT, EARTH_RADIUS_KM, Constellation, Satellite
from openbach_jobs.link_file import Change

ONE_OVER_0_0 = Constellation(
    planes=1,
    satellites_per_plane=1,
    phasing=0,
    inclination_deg=0,
    terminal_latitude_deg=0,
    terminal_longitude_deg=0,
    gateway_latitude_deg=0,
    gateway_longitude_deg=0,
)
"""One satellite, which stands in the zenith of both places at 0 s."""


def elevation_deg(slant_km: float, orbit_km: float) -> float:
    """From the triangle Earth's centre - place - satellite, by the law of cosines."""
    sine = (orbit_km**2 - EARTH_RADIUS_KM**2 - slant_km**2) / (2 * EARTH_RADIUS_KM * slant_km)
    return math.degrees(math.asin(max(-1.0, min(sine, 1.0))))


def changed(parameters: Constellation, **values: float) -> Constellation:
    return Constellation(**{**vars(parameters), **values})


def minutes(parameters: Constellation = DEFAULT, count: int = 10) -> list[Change]:
    return list(
        takewhile(lambda change: change.time_s < 60 * count, constellation.changes(parameters))
    )


def test_in_the_zenith_the_slant_range_is_the_altitude() -> None:
    assert constellation.slant_ranges_km(ONE_OVER_0_0, Satellite(0, 0), 0) == pytest.approx(
        (550, 550)
    )
    first = next(constellation.changes(ONE_OVER_0_0))
    assert first.state.delay_ms == pytest.approx(15 + 2 * 550 / 299.792458, abs=0.0005)


def test_the_slant_range_is_that_between_points_in_space() -> None:
    """A satellite and a place, put down coordinate by coordinate.

    The module has other formulas for them.
    """
    parameters = Constellation(planes=4, satellites_per_plane=8, phasing=0, inclination_deg=90)
    over_the_pole = Satellite(plane=1, number=2)
    latitude = math.radians(parameters.terminal_latitude_deg)
    terminal = (EARTH_RADIUS_KM * math.cos(latitude), EARTH_RADIUS_KM * math.sin(latitude))
    distance_km = math.dist(terminal, (0, parameters.orbit_km))
    assert constellation.slant_ranges_km(parameters, over_the_pole, 0)[0] == pytest.approx(
        distance_km
    )


def test_a_satellite_is_back_after_a_turn() -> None:
    """Kepler: at 550 km a turn takes 95.5 minutes."""
    turn_s = math.tau / DEFAULT.motion_rad_per_s
    assert turn_s / 60 == pytest.approx(95.5, abs=0.1)
    at_start = constellation.slant_ranges_km(ONE_OVER_0_0, Satellite(0, 0), 0)
    turned_with_the_earth = math.tau / (
        DEFAULT.motion_rad_per_s - constellation.EARTH_TURNS_RAD_PER_S
    )
    assert constellation.slant_ranges_km(
        ONE_OVER_0_0, Satellite(0, 0), turned_with_the_earth
    ) == pytest.approx(at_start)


def test_terminal_and_gateway_may_change_places() -> None:
    swapped = changed(
        DEFAULT,
        terminal_latitude_deg=DEFAULT.gateway_latitude_deg,
        terminal_longitude_deg=DEFAULT.gateway_longitude_deg,
        gateway_latitude_deg=DEFAULT.terminal_latitude_deg,
        gateway_longitude_deg=DEFAULT.terminal_longitude_deg,
    )
    assert minutes(swapped) == minutes()


def test_both_directions_are_alike() -> None:
    played = minutes()
    assert [one.direction for one in played[:4]] == ["forward", "return", "forward", "return"]
    assert [one._replace(direction="return") for one in played[::2]] == played[1::2]


def test_the_same_numbers_again() -> None:
    assert minutes() == minutes()
    assert minutes()[:100] == list(islice(constellation.changes(), 100))


def test_every_second_is_there_and_every_handover_comes_at_its_time() -> None:
    played = minutes()[::2]
    satellites = [constellation.chosen(DEFAULT, slot) for slot in range(40)]
    handovers_s = [15.0 * slot for slot in range(1, 40) if satellites[slot] != satellites[slot - 1]]
    assert len(handovers_s) > 5
    assert [one.time_s for one in played if one.state.rate_bps == 0] == handovers_s
    assert {one.time_s for one in played} == {
        *map(float, range(600)),
        *(time_s + 0.03 for time_s in handovers_s),
    }
    assert all(one.state.loss_pct == 0 for one in played)


def test_the_delay_jumps_at_handovers_only() -> None:
    played = [one for one in minutes()[::2] if one.time_s.is_integer()]
    steps = {
        after.time_s: abs(after.state.delay_ms - before.state.delay_ms)
        for before, after in pairwise(played)
    }
    assert max(step for time_s, step in steps.items() if time_s % 15) < 0.05
    assert max(step for time_s, step in steps.items() if time_s % 15 == 0) > 0.2


def test_round_trips_are_those_of_a_low_orbit() -> None:
    rtts = [2 * one.state.delay_ms for one in minutes()]
    assert (
        2 * (15 + 2 * 550 / 299.8)
        < min(rtts)
        < constellation.mean_rtt_ms()
        < max(rtts)
        < 2 * (15 + 2 * 1124 / 299.8)
    )
    assert sum(rtts) / len(rtts) == pytest.approx(constellation.mean_rtt_ms(), abs=0.1)


def test_without_a_gap_for_a_day() -> None:
    assert all(constellation.chosen(DEFAULT, slot) for slot in range(0, 5760, 16))


def test_a_gap_is_told_with_its_time_and_the_mask() -> None:
    with pytest.raises(
        ValueError, match="from 15 to 30 s no satellite stands 70 degrees high over both"
    ):
        minutes(changed(ONE_OVER_0_0, elevation_mask_deg=70))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("planes", 0),
        ("altitude_km", 35786),
        ("handover_s", 0),
        ("outage_ms", 1000),
        ("elevation_mask_deg", 90),
        ("phasing", 72),
        ("rate_bps", math.nan),
        ("step_s", 0),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        Constellation(**{name: value})


@settings(max_examples=50, deadline=None)
@given(
    slot=st.integers(0, 10_000),
    altitude_km=st.floats(400, 2000),
    mask_deg=st.floats(10, 30),
    latitude_deg=st.floats(-50, 50),
    longitude_deg=st.floats(-180, 180),
    north_deg=st.floats(-2, 2),
)
def test_the_satellite_in_use_stands_above_the_mask_and_none_stays_higher(
    slot: int,
    altitude_km: float,
    mask_deg: float,
    latitude_deg: float,
    longitude_deg: float,
    north_deg: float,
) -> None:
    parameters = Constellation(
        altitude_km=altitude_km,
        elevation_mask_deg=mask_deg,
        planes=24,
        phasing=5,
        terminal_latitude_deg=latitude_deg,
        terminal_longitude_deg=longitude_deg,
        gateway_latitude_deg=latitude_deg + north_deg,
        gateway_longitude_deg=longitude_deg,
    )

    def lowest_deg(satellite: Satellite, part: float) -> float:
        ranges_km = constellation.slant_ranges_km(parameters, satellite, (slot + part) * 15)
        return min(elevation_deg(slant_km, parameters.orbit_km) for slant_km in ranges_km)

    every = [Satellite(plane, number) for plane in range(24) for number in range(22)]
    highest_deg = max(
        min(lowest_deg(satellite, 0), lowest_deg(satellite, 1)) for satellite in every
    )
    try:
        chosen = constellation.chosen(parameters, slot)
    except ValueError:
        assert highest_deg <= mask_deg + 1e-9
        return
    assert min(lowest_deg(chosen, tenth / 10) for tenth in range(11)) >= mask_deg - 1e-9
    assert min(lowest_deg(chosen, 0), lowest_deg(chosen, 1)) == pytest.approx(highest_deg)


def test_the_file_plays_what_the_generator_does(tmp_path: Path) -> None:
    out = io.StringIO()
    link_file.write(constellation.changes(), 60, [], out)
    path = tmp_path / "leo.csv"
    path.write_text(out.getvalue())
    states: dict[str, link_file.State] = {}
    wanted = []
    for change in minutes(count=1):
        if states.get(change.direction) != change.state:
            states[change.direction] = change.state
            wanted.append(change)
    assert list(link_file.read(path)) == wanted
    assert (
        link_file.check(path).forward.outages
        == len([one for one in wanted if one.state.rate_bps == 0]) / 2
    )
