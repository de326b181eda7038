# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments that make a run random, and how many seeds are then needed.

`is_random` in link_checks.py applies them.
"""

from __future__ import annotations

RANDOM = ("loss", "return_loss", "jitter_ms")
"""Arguments that make the fate of packets random if they are not 0."""
MIN_SEEDS = 5
"""The default number of seeds if any cell is random. The least and the greatest value of this many
seeds hold the median with 94 % probability (`intervals`); of the tail they say little."""
FIRST_SEEDS, MORE_SEEDS = (1,), tuple(range(2, MIN_SEEDS + 1))
"""The default seeds, and the further seeds that all cells get if any cell is random."""
WARNING = (
    "one seed, and the link is random: another seed may differ several times over (--seeds"
    f" {MIN_SEEDS} gives least and greatest)"
)
