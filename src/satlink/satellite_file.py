# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of a satellite's file, of what was found in measurements (fit.py)."""

from __future__ import annotations

import math

from satlink.estimates import CONFIDENCE, Estimate
from satlink.fit import Fitted

TEXTS = {
    "delay_ms": "one way, the median of the intervals",
    "rate": "bit/s towards the user, the mean of the intervals",
    "return_rate": "bit/s from the user",
    "return_loss": "percent from the user, between reconfigurations; both directions if loss is not"
    " here",
    "loss": "percent towards the user, between reconfigurations",
    "grid_s": "time between two reconfigurations",
    "grid_phase_s": "the first one after the begin of the measurement",
    "lossy_pct": "of the reconfigurations lose every packet for a while",
    "lossy_ms": "so long on average",
    "lossy_sd_ms": "its standard deviation",
    "held_ms": "packets wait after that",
    "held_sd_ms": "its standard deviation",
    "delay_step_ms": "an interval's delay differs by this on average",
    "forward_spread_ms": "mean of what packets have on top, towards the user",
    "return_spread_ms": "the same from the user",
    "spread_hold_ms": "how long that stays",
    "rate_sd_pct": "standard deviation of an interval's rate",
}
"""The names in a satellite's file, in their order, and what people are told of each."""


def satellite_lines(fitted: Fitted, title: str) -> list[str]:
    """Return the lines of a satellite's file."""
    lines = [
        f"description: {title}",
        f"# openbach-run link fit {', '.join(fitted.sources)}",
        f"# In brackets: where a value lies with {CONFIDENCE:.0%} confidence.",
        *(f"# {remark}" for remark in fitted.remarks),
    ]
    for name, text in TEXTS.items():
        if estimate := fitted.values.get(name):
            value = _text(name, estimate.value)
            lines.append(f"{name}: {value}  # {text}{_interval(name, estimate)}")
    if "rate" not in fitted.values:
        lines.append("# rate: not measured, so the default")
    return lines


def _text(name: str, value: float) -> str:
    if name in ("rate", "return_rate"):
        return f"{min(max(value, 32e3), 1e9) / 1e6:.4g}M"
    return f"{value:.4g}" if name != "grid_phase_s" else f"{value:.3f}"


def _interval(name: str, estimate: Estimate) -> str:
    if math.isnan(estimate.low):
        return ""
    return f" ({_text(name, max(estimate.low, 0.0))} to {_text(name, estimate.high)})"
