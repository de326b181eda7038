# SPDX-License-Identifier: GPL-3.0-or-later
"""One-way delay over a low-orbit satellite: a pure function of time, the same in every run.

A bent pipe: terminal - satellite - gateway. A satellite on a circular orbit at 550 km passes over the middle of the
two, which see it under the same elevation of at least 25 degrees; it is used for 15 s, in different parts of its
pass, before the next takes over (handover times of 15 s are what Starlink's terminals show; the geometry is the
textbook's: slant range from elevation, e.g. Maral and Bousquet, Satellite Communications Systems, chapter 2).
"""

from __future__ import annotations

import math

EARTH_RADIUS_KM = 6371.0
ALTITUDE_KM = 550.0
LIGHT_KM_PER_MS = 299.792458
GRAVITY_KM3_PER_S2 = 398600.4418
HANDOVER_S = 15.0
GROUND_DELAY_MS = 15.0
"""Processing, scheduling of the shared channel and the terrestrial part, one way; a constant of this model."""
PASS_STARTS_S = (-110.0, 20.0, -55.0, 80.0, -15.0, 105.0, -130.0)
"""Where in its pass (seconds from the highest point) each satellite in turn takes over."""


def slant_range_km(from_zenith_s: float) -> float:
    """Distance from a point on the ground to the satellite, `from_zenith_s` seconds after it stood in the zenith."""
    orbit_km = EARTH_RADIUS_KM + ALTITUDE_KM
    angle = from_zenith_s * math.sqrt(GRAVITY_KM3_PER_S2 / orbit_km**3)
    return math.sqrt(EARTH_RADIUS_KM**2 + orbit_km**2 - 2 * EARTH_RADIUS_KM * orbit_km * math.cos(angle))


def one_way_delay_ms(time_s: float) -> float:
    """Delay of a packet that enters the link `time_s` seconds after its start."""
    satellite, in_use_s = divmod(time_s, HANDOVER_S)
    start_s = PASS_STARTS_S[int(satellite) % len(PASS_STARTS_S)]
    return GROUND_DELAY_MS + 2 * slant_range_km(start_s + in_use_s) / LIGHT_KM_PER_MS


def mean_delay_ms() -> float:
    """Mean over one cycle of satellites: what the bandwidth-delay product of a leo link is taken from."""
    seconds = int(HANDOVER_S * len(PASS_STARTS_S))
    return sum(map(one_way_delay_ms, range(seconds))) / seconds
