# SPDX-License-Identifier: GPL-3.0-or-later
"""What chance has a part in, and how many seeds say something of it then (satellite/given.py: `is_random`)."""

from __future__ import annotations

RANDOM = ("loss", "return_loss", "jitter_ms")
"""Arguments that make packets' fates random where they are not 0."""
MIN_SEEDS = 5
"""So many seeds hold the median with 94 % (`intervals`): the default if chance has a part in any cell."""
FIRST_SEEDS, MORE_SEEDS = (1,), tuple(range(2, MIN_SEEDS + 1))
"""The default seeds, and those that all cells have as well if chance has a part in any."""
WARNING = f"one seed, and the link is random: another seed may differ several times over (--seeds {MIN_SEEDS} gives intervals)"
