# SPDX-License-Identifier: GPL-3.0-or-later
"""The noise of a run's hosts, written into the kernel (kernel/src/host_noise.c)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from openbach_run.guest.network import Namespace, inside

STATE = "/proc/net/host_noise"
STEPS = 256
"""Number of steps between the quantiles that the kernel has: STEPS_LOG there."""
US = 1000


def switch_on(
    namespaces: Mapping[str, Namespace], noise: Mapping[str, Sequence[Sequence[float]]], seed: int
) -> None:
    """Give each host the distributions, and random numbers of its own that follow from `seed`."""
    numbers = {name: " ".join(map(str, quantiles_ns(noise[name]))) for name in noise}
    texts = [f"{name.removesuffix('_us')} {text}" for name, text in numbers.items()]
    for number, namespace in enumerate(namespaces.values()):
        with inside(namespace):
            for text in (f"seed {seed << 16 | number}", *texts):
                file = os.open(STATE, os.O_WRONLY)
                os.write(file, text.encode())
                os.close(file)


def quantiles_ns(points: Sequence[Sequence[float]]) -> list[int]:
    """Return STEPS + 1 quantiles in ns at equal distances, of points [probability, us].

    Before the first point and after the last one its own value counts.
    """
    quantiles, next_one = [], 0
    for step in range(STEPS + 1):
        part = step / STEPS
        while next_one < len(points) and points[next_one][0] < part:
            next_one += 1
        (p0, low), (p1, high) = points[max(next_one - 1, 0)], points[min(next_one, len(points) - 1)]
        inside_us = low + (high - low) * (part - p0) / (p1 - p0) if p1 > p0 and part > p0 else high
        quantiles.append(round(US * inside_us))
    return quantiles
