# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for a state. The limit ends a hang and nothing else: a busy machine takes its time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

HANG_S = 600
"""After which what was waited for will not come."""


def wait_for(state: Callable[[], Any], what: str) -> Any:
    """Return what `state` returns, as soon as it is true."""
    end_s = time.monotonic() + HANG_S
    while not (there := state()):
        assert time.monotonic() < end_s, f"{what} did not come within {HANG_S} s"
        time.sleep(0.01)
    return there
