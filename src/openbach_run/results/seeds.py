# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments that make a run random, how many seeds are then needed, and how they are given.

`has_random_link` in link_checks.py applies them.
"""

from __future__ import annotations

from openbach_run.errors import InputError

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


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of a text: `5` is 1 to 5, `3,7` is those two, `7,` is just 7.

    Raises InputError.
    """
    try:
        plain = text if text.isascii() and "_" not in text else ""
        numbers = [int(part) for part in plain.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if (
        not numbers
        or min(numbers) < (0 if "," in text else 1)
        or max(numbers) >= 2**31
        or len(set(numbers)) < len(numbers)
    ):
        raise InputError(
            f"--seeds {text}: give how many (5), or which ones separated by commas (3,7 or just 7,)"
        )
    if "," in text:
        return tuple(numbers)
    # Somebody who writes 20260101 means one seed, not that many.
    if numbers[0] > 10_000:
        raise InputError(f"--seeds {text} is that many seeds; for this one seed write {text},")
    return tuple(range(1, numbers[0] + 1))
