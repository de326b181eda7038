# SPDX-License-Identifier: GPL-3.0-or-later
"""A link over the satellites of a file of two-line elements (TLE), as CelesTrak publishes them.

A bent pipe, terminal - satellite - gateway. SGP4 (Vallado, Crawford, Hujsak and Kelso, Revisiting
Spacetrack Report #3, AIAA 2006-6753; the library sgp4) says where the satellites are. On a grid of
seconds that satellite is taken which stays highest until the next choice, seen from the place that
sees it lower, as `link leo` does. The Earth is WGS 84's ellipsoid and turns by Greenwich's mean
sidereal time; refraction and polar motion are left out (they are below 0.01 ms).

With --like NAME the reconfigurations of a satellite are on top of it: losses at the choices,
packets that are held, steps and spread of the delay, rates. Without it a change of the satellite
holds packets for --outage-ms, and loses none.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sgp4.api import Satrec, SatrecArray, jday

from openbach_jobs.link_file import Change, LinkFileError, State, lines
from openbach_jobs.reconfigurations import Delays
from satlink.measured import Numbers, shown

LIGHT_KM_PER_MS = 299.792458
EQUATOR_KM, FLATTENING = 6378.137, 1 / 298.257223563
GREATEST_AGE_DAYS = 14.0
"""Elements that are older, or newer, than this are not used: SGP4 is off by kilometres a day."""
LINE_LENGTH = 69
MOST = 20_000


class Place(NamedTuple):
    """A place on the ground."""

    latitude_deg: float
    longitude_deg: float


class Elements(NamedTuple):
    """Names of satellites, and what SGP4 knows of them."""

    names: list[str]
    satellites: list[Satrec]

    @property
    def newest(self) -> datetime:
        """Return the newest epoch."""
        return max(epoch_of(satellite) for satellite in self.satellites)


class Options(NamedTuple):
    """Values of the link that the user gives."""

    terminal: Place
    gateway: Place
    start: datetime
    elevation_mask_deg: float
    handover_s: float
    ground_delay_ms: float
    outage_ms: float
    step_s: float
    rate_bps: float


def read(path: Path) -> Elements:
    """Return the elements of a file. Raises LinkFileError with the line of the first mistake."""
    names: list[str] = []
    satellites: list[Satrec] = []
    name, first, first_at = "", "", 0
    for number, text in lines(path):
        if not text or text.startswith("#"):
            continue
        kind = text[:2] if len(text) > 24 and text[:2] in ("1 ", "2 ") else ""
        if kind and not first and kind == "2 ":
            raise LinkFileError(path, "a second line of elements without the first", number)
        if not kind:
            if first:
                raise LinkFileError(path, "the second line of elements is missing", first_at)
            name = text.removeprefix("0 ")
            continue
        _check_sum(path, text, number)
        if kind == "1 ":
            if first:
                raise LinkFileError(path, "the second line of elements is missing", first_at)
            first, first_at = text, number
            continue
        if first[2:7] != text[2:7]:
            raise LinkFileError(
                path, f"satellite {text[2:7]} after {first[2:7]}: the lines of two", number
            )
        try:
            satellites.append(Satrec.twoline2rv(first, text))
        except ValueError as error:
            raise LinkFileError(path, f"no elements: {error}", number) from error
        names.append(name or text[2:7].strip())
        name, first = "", ""
        if len(satellites) > MOST:
            raise LinkFileError(path, f"more than {MOST} satellites")
    if first:
        raise LinkFileError(path, "it is cut off: the second line of elements is missing", first_at)
    if not satellites:
        raise LinkFileError(path, "no elements in it: a satellite has two lines, `1 …` and `2 …`")
    return Elements(names, satellites)


def _check_sum(path: Path, text: str, number: int) -> None:
    """Raise LinkFileError for a line of the wrong length or sum."""
    if len(text) != LINE_LENGTH:
        raise LinkFileError(
            path,
            f"{shown(text)} has {len(text)} characters, a line of elements {LINE_LENGTH}",
            number,
        )
    numerals = [digit for digit in text[:-1] if digit in string.digits]
    digits = sum(map(int, numerals)) + text[:-1].count("-")
    if text[-1] != str(digits % 10):
        raise LinkFileError(
            path,
            f"its check digit is {text[-1]}, it should be {digits % 10}: it is damaged",
            number,
        )


def epoch_of(satellite: Satrec) -> datetime:
    """Return the time of a satellite's elements."""
    days = satellite.jdsatepoch - 2440587.5 + satellite.jdsatepochF
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=days)


def near(elements: Elements, start: datetime) -> tuple[Elements, int]:
    """Return the elements that are fresh enough at a time, and how many are not.

    Raises ValueError if none is.
    """
    names, satellites = [], []
    for name, satellite in zip(elements.names, elements.satellites, strict=True):
        if abs((epoch_of(satellite) - start).total_seconds()) <= GREATEST_AGE_DAYS * 86_400:
            names.append(name)
            satellites.append(satellite)
    if not satellites:
        raise ValueError(
            f"the elements are of {elements.newest:%Y-%m-%d} (the newest), and {start:%Y-%m-%d} is"
            f" more than {GREATEST_AGE_DAYS:g} days away: SGP4 is not exact so far from them"
        )
    return Elements(names, satellites), len(elements.satellites) - len(satellites)


class Geometry:
    """Delays over the satellites, interval by interval."""

    def __init__(self, elements: Elements, options: Options) -> None:
        self.options = options
        self.names = elements.names
        self.satellites = elements.satellites
        self.array = SatrecArray(elements.satellites)
        self.places = [_position_km(options.terminal), _position_km(options.gateway)]
        self.ups = [_up(options.terminal), _up(options.gateway)]

    def positions_km(self, times_s: Numbers, satellites: SatrecArray | None = None) -> Numbers:
        """Return positions by satellite and time, in axes that turn with the Earth.

        They are nan where SGP4 has none.
        """
        start = self.options.start
        seconds = start.second + start.microsecond / 1e6
        day, fraction = jday(start.year, start.month, start.day, start.hour, start.minute, seconds)
        days = np.full(len(times_s), day)
        fractions = fraction + times_s / 86_400
        errors, positions, _ = (satellites or self.array).sgp4(days, fractions)
        positions[errors > 0] = np.nan
        angles = _sidereal_rad(days, fractions)
        cosine, sine = np.cos(angles), np.sin(angles)
        turned = np.empty_like(positions)
        turned[..., 0] = cosine * positions[..., 0] + sine * positions[..., 1]
        turned[..., 1] = cosine * positions[..., 1] - sine * positions[..., 0]
        turned[..., 2] = positions[..., 2]
        return np.asarray(turned, dtype=np.float64)

    def chosen(self, number: int) -> int:
        """Return the place of the satellite between two choices. Raises ValueError for none."""
        begin_s = number * self.options.handover_s
        positions = self.positions_km(np.array([begin_s, begin_s + self.options.handover_s]))
        lowest = np.full(len(self.satellites), np.inf)
        for place, up in zip(self.places, self.ups, strict=True):
            away = positions - place
            distances = np.linalg.norm(away, axis=2)
            sines = (away @ up) / distances
            lowest = np.minimum(lowest, sines.min(axis=1))
        lowest[np.isnan(lowest)] = -np.inf
        best = int(np.argmax(lowest))
        if lowest[best] < math.sin(math.radians(self.options.elevation_mask_deg)):
            raise ValueError(
                f"from {begin_s:g} to {begin_s + self.options.handover_s:g} s no satellite stands"
                f" {self.options.elevation_mask_deg:g} degrees high over both terminal and gateway:"
                " lower --elevation-mask-deg, or choose another gateway"
            )
        return best

    def interval(self, number: int) -> Delays:
        """Return the delays between two choices, for reconfigurations."""
        satellite = SatrecArray([self.satellites[self.chosen(number)]])
        steps = math.ceil(self.options.handover_s / self.options.step_s)
        steps_s = np.arange(steps, dtype=np.float64) * self.options.step_s
        times_s = number * self.options.handover_s + steps_s
        (track,) = self.positions_km(times_s, satellite)
        slants_km = sum(np.linalg.norm(track - place, axis=1) for place in self.places)
        delays_ms = (self.options.ground_delay_ms + slants_km / LIGHT_KM_PER_MS).tolist()

        def at(in_s: float) -> float:
            step = math.floor(in_s / self.options.step_s + 1e-9)
            return float(delays_ms[min(step, steps - 1)])

        return Delays(at, self.options.step_s)


def changes(geometry: Geometry) -> Iterator[Change]:
    """Yield the link's state, both directions alike, at every step and choice; endless."""
    options = geometry.options
    before: int | None = None
    for number in count():
        satellite = geometry.chosen(number)
        delays = geometry.interval(number)
        outage_s = options.outage_ms / 1000 if before not in (None, satellite) else 0.0
        before = satellite
        steps = math.ceil(options.handover_s / options.step_s)
        for in_s in sorted({*(step * options.step_s for step in range(steps)), outage_s}):
            time_s = round(number * options.handover_s + in_s, 6)
            rate_bps = options.rate_bps if in_s >= outage_s else 0.0
            state = State(rate_bps, round(delays.at(in_s), 3), 0.0)
            yield Change(time_s, "forward", state)
            yield Change(time_s, "return", state)


def _position_km(place: Place) -> Numbers:
    """Return a place on the ellipsoid."""
    latitude, longitude = math.radians(place.latitude_deg), math.radians(place.longitude_deg)
    squared = FLATTENING * (2 - FLATTENING)
    across_km = EQUATOR_KM / math.sqrt(1 - squared * math.sin(latitude) ** 2)
    return np.array(
        [
            across_km * math.cos(latitude) * math.cos(longitude),
            across_km * math.cos(latitude) * math.sin(longitude),
            across_km * (1 - squared) * math.sin(latitude),
        ]
    )


def _up(place: Place) -> Numbers:
    latitude, longitude = math.radians(place.latitude_deg), math.radians(place.longitude_deg)
    return np.array(
        [
            math.cos(latitude) * math.cos(longitude),
            math.cos(latitude) * math.sin(longitude),
            math.sin(latitude),
        ]
    )


def _sidereal_rad(days: Numbers, fractions: Numbers) -> Numbers:
    """Return Greenwich's mean sidereal time (Aoki and others, 1982), with UTC for UT1."""
    centuries = ((days - 2451545.0) + fractions) / 36525
    seconds = (
        67310.54841
        + (876600 * 3600 + 8640184.812866) * centuries
        + 0.093104 * centuries**2
        - 6.2e-6 * centuries**3
    )
    return np.asarray(np.radians(seconds % 86_400 / 240), dtype=np.float64)


def place_of(text: str, option: str) -> Place:
    """Return a place that is given as LATITUDE,LONGITUDE in degrees. Raises ValueError."""
    try:
        latitude_deg, longitude_deg = map(float, text.split(","))
    except ValueError:
        raise ValueError(
            f"{option} {text}: give it as LATITUDE,LONGITUDE in degrees, like 43.60,1.44"
        ) from None
    if not (-90 <= latitude_deg <= 90 and -180 <= longitude_deg <= 180):
        raise ValueError(f"{option} {text}: a latitude is from -90 to 90, a longitude -180 to 180")
    return Place(latitude_deg, longitude_deg)


def time_of(text: str) -> datetime:
    """Return a time that is given in ISO 8601, in UTC without a zone. Raises ValueError."""
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"--start {text}: give it like 2025-01-29T12:00:00") from None
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
