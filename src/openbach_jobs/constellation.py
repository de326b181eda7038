# SPDX-License-Identifier: GPL-3.0-or-later
"""The link over a constellation of low satellites: a pure function of time, the same in every run.

A bent pipe, terminal - satellite - gateway. The satellites are a Walker delta pattern i:T/P/F
(Walker, Satellite constellations, J. British Interplanetary Soc. 37, 1984) on circular orbits
around a sphere that turns; oblateness (J2) is left out. In a frame that does not turn, with Ω =
2πp/P (πp/P for a star pattern: nodes_over_deg) and u = 2π(s/S + pF/T) + nt for satellite s of
plane p and n² = GM/r³,

    satellite = r (cos Ω cos u - sin Ω sin u cos i, sin Ω cos u + cos Ω sin u cos i, sin u sin i)
    place     = R (cos φ cos(λ + ωt), cos φ sin(λ + ωt), sin φ)
    slant range² = R² + r² - 2Rr cos γ

with γ the angle between the two as seen from the Earth's centre, and a satellite stands higher than
ε where γ < arccos(R/r cos ε) - ε (Maral and Bousquet, Satellite Communications Systems, chapter 2).
Every `handover_s` that satellite is taken which stays highest until the next handover, seen from
the place that sees it lower; of equals the first.

Starlink's terminals change satellites every 15 s and see latency spikes of 30 to 50 ms at that
(Huston, A transport protocol's view of Starlink, APNIC, May 2024): packets wait. So a handover here
holds packets for 30 ms and loses none; what comes in within less than an RTT is less than a BDP,
for which the bottleneck's buffer has room when it was empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

from openbach_jobs.link_file import Change, State

EARTH_RADIUS_KM = 6371.0
GRAVITY_KM3_PER_S2 = 398600.4418
EARTH_TURNS_RAD_PER_S = 7.2921159e-5
LIGHT_KM_PER_MS = 299.792458
MEAN_OVER_S = 600.0


class Parameter(NamedTuple):
    """A parameter of a model: default, range and meaning. Its type is that of the default."""

    default: float
    least: float
    greatest: float
    meaning: str


def parameter(default: float, least: float, greatest: float, meaning: str) -> Any:
    """Declare a parameter in a class of parameters.

    An object of the class has a number in its place.
    """
    return Parameter(default, least, greatest, meaning)


class Model:
    """Parameters of a model, each the given value or its default.

    Raises ValueError for what is out of range.
    """

    def __init__(self, **values: float) -> None:
        """Take the given values, and the defaults of the others.

        Raises ValueError.
        """
        known = self.parameters()
        for name, value in values.items():
            least, greatest = known[name].least, known[name].greatest
            if not least <= value <= greatest:
                raise ValueError(f"{name} is {value}: it must be from {least} to {greatest}")
        vars(self).update({name: parameter.default for name, parameter in known.items()} | values)

    def __eq__(self, other: object) -> bool:
        """Return whether another model is of the same kind with the same parameters."""
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        """Return a hash of the parameters."""
        return hash(tuple(vars(self).values()))

    @classmethod
    def parameters(cls) -> dict[str, Parameter]:
        """Return the parameters of this kind of model by name."""
        return {name: value for name, value in vars(cls).items() if isinstance(value, Parameter)}


class Constellation(Model):
    """Starlink's first shell, a terminal in Toulouse, a gateway near Bordeaux.

    ValueError for what is out of range.
    """

    altitude_km: float = parameter(550.0, 160, 24_000, "height of the orbits")
    inclination_deg: float = parameter(53.0, 0, 180, "of the orbits")
    planes: int = parameter(72, 1, 1000, "number of orbits")
    satellites_per_plane: int = parameter(22, 1, 1000, "satellites on each orbit")
    phasing: int = parameter(
        17, 0, 999, "Walker's F: a plane is ahead of the one before by F/T of a turn"
    )
    nodes_over_deg: float = parameter(
        360.0, 1, 360, "part of the equator that the orbits' nodes are on: 360, or 180 (a star)"
    )
    elevation_mask_deg: float = parameter(
        25.0, 0, 89, "least elevation at which a satellite is used"
    )
    terminal_latitude_deg: float = parameter(43.60, -90, 90, "north is positive")
    terminal_longitude_deg: float = parameter(1.44, -180, 180, "east is positive")
    gateway_latitude_deg: float = parameter(44.78, -90, 90, "north is positive")
    gateway_longitude_deg: float = parameter(-0.57, -180, 180, "east is positive")
    handover_s: float = parameter(15.0, 1, 3600, "time between two choices of a satellite")
    outage_ms: float = parameter(30.0, 0, 999, "how long a handover holds packets back")
    ground_delay_ms: float = parameter(
        15.0, 0, 1000, "one way: processing, access to the channel, terrestrial part"
    )
    step_s: float = parameter(1.0, 0.01, 3600, "time between two values of the delay")
    rate_bps: float = parameter(10e6, 1000, 1e12, "of each direction")

    def __init__(self, **values: float) -> None:
        """Check that the parameters fit each other.

        Raises ValueError.
        """
        super().__init__(**values)
        if self.phasing >= self.planes:
            raise ValueError(
                f"phasing is {self.phasing}: it must be below the number of planes, {self.planes}"
            )

    @property
    def orbit_km(self) -> float:
        """Return the radius of the orbit."""
        return EARTH_RADIUS_KM + self.altitude_km

    @property
    def motion_rad_per_s(self) -> float:
        """Return how fast a satellite moves on its orbit."""
        return math.sqrt(GRAVITY_KM3_PER_S2 / self.orbit_km**3)

    def phase_rad(self, satellite: Satellite) -> float:
        """Return the argument of latitude at 0 s."""
        return (
            math.tau
            * (satellite.number + satellite.plane * self.phasing / self.planes)
            / self.satellites_per_plane
        )


DEFAULT = Constellation()


class Satellite(NamedTuple):
    """A satellite: the number of its plane, and its own in that plane."""

    plane: int
    number: int


def changes(parameters: Constellation = DEFAULT) -> Iterator[Change]:
    """Yield the link's state every `step_s` and at every handover, endlessly.

    Both directions are alike. The delay is rounded to microseconds. Raises ValueError at a time
    when no satellite is seen by both places.
    """
    before: Satellite | None = None
    for slot in count():
        start_s = slot * parameters.handover_s
        satellite = chosen(parameters, slot)
        outage_s = parameters.outage_ms / 1000 if before not in (None, satellite) else 0.0
        before = satellite
        for in_slot_s in sorted({*_steps(parameters), outage_s}):
            time_s = round(start_s + in_slot_s, 6)
            rate_bps = parameters.rate_bps if in_slot_s >= outage_s else 0.0
            state = State(rate_bps, round(one_way_delay_ms(parameters, satellite, time_s), 3), 0.0)
            yield Change(time_s, "forward", state)
            yield Change(time_s, "return", state)


def mean_rtt_ms(parameters: Constellation = DEFAULT) -> float:
    """Return the mean of the first ten minutes, from the middle of each satellite's time.

    Queues and handovers are left out.
    """
    slots = range(math.ceil(MEAN_OVER_S / parameters.handover_s))
    middles = (
        one_way_delay_ms(parameters, chosen(parameters, slot), (slot + 0.5) * parameters.handover_s)
        for slot in slots
    )
    return 2 * sum(middles) / len(slots)


def one_way_delay_ms(parameters: Constellation, satellite: Satellite, time_s: float) -> float:
    """Return the delay from terminal to gateway by a satellite."""
    return (
        parameters.ground_delay_ms
        + sum(slant_ranges_km(parameters, satellite, time_s)) / LIGHT_KM_PER_MS
    )


def slant_ranges_km(
    parameters: Constellation, satellite: Satellite, time_s: float
) -> tuple[float, float]:
    """Return the distances to a satellite in km, from the terminal and from the gateway."""
    orbit_km = parameters.orbit_km
    phase = parameters.phase_rad(satellite) + parameters.motion_rad_per_s * time_s

    def slant_km(place: Vector) -> float:
        ascending, highest = _in_plane(parameters, satellite.plane, place)
        cosine = ascending * math.cos(phase) + highest * math.sin(phase)
        return math.sqrt(EARTH_RADIUS_KM**2 + orbit_km**2 - 2 * EARTH_RADIUS_KM * orbit_km * cosine)

    terminal, gateway = _places(parameters, time_s)
    return slant_km(terminal), slant_km(gateway)


def chosen(parameters: Constellation, slot: int) -> Satellite:
    """Return the satellite between handovers `slot` and `slot + 1`.

    Over so short an arc cos γ has no minimum inside: what it is at both ends decides. A plane that
    comes no nearer than the best satellite found so far is not looked at: 2 ms for 1584 satellites.
    """
    start_s, end_s = slot * parameters.handover_s, (slot + 1) * parameters.handover_s
    motion = parameters.motion_rad_per_s
    looks = [
        (place, motion * time_s)
        for time_s in (start_s, end_s)
        for place in _places(parameters, time_s)
    ]
    mask = math.radians(parameters.elevation_mask_deg)
    nearest = math.cos(math.acos(EARTH_RADIUS_KM / parameters.orbit_km * math.cos(mask)) - mask)
    best: Satellite | None = None
    for plane in range(parameters.planes):
        parts = [(*_in_plane(parameters, plane, place), moved) for place, moved in looks]
        if min(math.hypot(ascending, highest) for ascending, highest, _ in parts) <= nearest:
            continue
        for number in range(parameters.satellites_per_plane):
            satellite = Satellite(plane, number)
            phase = parameters.phase_rad(satellite)
            cosine = min(
                ascending * math.cos(phase + moved) + highest * math.sin(phase + moved)
                for ascending, highest, moved in parts
            )
            if cosine > nearest:
                nearest, best = cosine, satellite
    if best is None:
        raise ValueError(
            f"from {start_s:g} to {end_s:g} s no satellite stands {parameters.elevation_mask_deg:g}"
            " degrees high over both terminal and gateway: lower elevation_mask_deg, or take more"
            " satellites"
        )
    return best


Vector = tuple[float, float, float]


def _places(parameters: Constellation, time_s: float) -> tuple[Vector, Vector]:
    """Return terminal and gateway as unit vectors."""
    turned = EARTH_TURNS_RAD_PER_S * time_s

    def place(latitude_deg: float, longitude_deg: float) -> Vector:
        latitude, longitude = math.radians(latitude_deg), math.radians(longitude_deg) + turned
        return (
            math.cos(latitude) * math.cos(longitude),
            math.cos(latitude) * math.sin(longitude),
            math.sin(latitude),
        )

    terminal = place(parameters.terminal_latitude_deg, parameters.terminal_longitude_deg)
    return terminal, place(parameters.gateway_latitude_deg, parameters.gateway_longitude_deg)


def _in_plane(parameters: Constellation, plane: int, place: Vector) -> tuple[float, float]:
    """Return a place's components along the orbit's ascending node and its northernmost point."""
    node = math.tau * plane / parameters.planes * (parameters.nodes_over_deg / 360)
    inclination = math.radians(parameters.inclination_deg)
    x, y, z = place
    ascending = x * math.cos(node) + y * math.sin(node)
    return ascending, (y * math.cos(node) - x * math.sin(node)) * math.cos(
        inclination
    ) + z * math.sin(inclination)


def _steps(parameters: Constellation) -> Iterator[float]:
    return (
        step * parameters.step_s
        for step in range(math.ceil(parameters.handover_s / parameters.step_s))
    )
