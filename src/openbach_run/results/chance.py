# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether chance has a part in a cell's results, so that one seed says little of them."""

from __future__ import annotations

from collections.abc import Mapping

from openbach_run.units import number

RANDOM = ("loss", "return_loss", "jitter_ms")
"""Arguments that make packets' fates random where they are not 0."""
MIN_SEEDS = 5
"""So many seeds hold the median with 94 % (`intervals`): the default if chance has a part in any cell."""
FIRST_SEEDS, MORE_SEEDS = (1,), tuple(range(2, MIN_SEEDS + 1))
"""The default seeds, and those that all cells have as well if chance has a part in any."""
WARNING = f"one seed, and the link is random: another seed may differ several times over (--seeds {MIN_SEEDS} gives intervals)"


def is_random(cell: Mapping[str, str]) -> bool:
    """Whether packets are lost or delayed at random on its link: as its values say, or its link file or that of its satellite
    (which then has no rate) may. `same` is the value of another argument, which counts by itself."""
    of_file = cell.get("link_file", "none") != "none" or cell.get("rate") == "none"
    return of_file or any(number(cell.get(name, "")) for name in RANDOM)
