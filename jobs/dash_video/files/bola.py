# SPDX-License-Identifier: GPL-3.0-or-later
"""BOLA-BASIC, the rule by which the player chooses bitrates: the fuller its buffer, the more.

Spiteri, Urgaonkar, Sitaraman: BOLA: Near-Optimal Bitrate Adaptation for Online Videos, IEEE INFOCOM
2016, section IV. It looks at the buffer only, so nothing here guesses a throughput.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

GAMMA_P = 5.0
"""Weight of stalls against bitrate (the paper's gamma times its p)."""


def choice(bitrates_bps: Sequence[int], buffered: float, most: float) -> int:
    """Return the bitrate of the next segment, one of `bitrates_bps`, which rise.

    `buffered` is the buffer's content and `most` its size, both in segments; the player asks only
    while another segment has room.
    """
    utilities = [math.log(bitrate_bps / bitrates_bps[0]) for bitrate_bps in bitrates_bps]
    weight = (most - 1) / (utilities[-1] + GAMMA_P)

    def score(index: int) -> tuple[float, int]:
        gain = weight * (utilities[index] + GAMMA_P) - buffered
        return gain / bitrates_bps[index], index

    return bitrates_bps[max(range(len(bitrates_bps)), key=score)]
