# SPDX-License-Identifier: GPL-3.0-or-later
"""A low-orbit link of known values: what it plays."""

from __future__ import annotations

from itertools import takewhile

from openbach_jobs import link_file, reconfigurations

RATES = {"forward": 50e6, "return": 10e6}
KNOWN = {
    "grid_s": 15.0,
    "grid_phase_s": 4.2,
    "lossy_pct": 60.0,
    "lossy_ms": 400.0,
    "lossy_sd_ms": 40.0,
    "held_ms": 150.0,
    "held_sd_ms": 25.0,
    "delay_step_ms": 5.0,
    "return_spread_ms": 6.0,
    "spread_hold_ms": 25.0,
}
DELAY_MS = 60.0


def model(**values: float) -> reconfigurations.Reconfigurations:
    return reconfigurations.Reconfigurations(**values)


def played(
    parameters: reconfigurations.Reconfigurations, until_s: float, seed: int = 1
) -> list[link_file.Change]:
    changes = reconfigurations.changes(parameters, seed, RATES, DELAY_MS)
    return list(takewhile(lambda one: one.time_s <= until_s, changes))
