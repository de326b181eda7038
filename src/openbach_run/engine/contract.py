# SPDX-License-Identifier: GPL-3.0-or-later
"""What every engine is and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


COMPLAINED = "Kernel Complained"
OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Outcome:
    """What a run came to. `error` is None when the scenario ended `Finished Ok` and the kernel has not complained, else
    text for a person."""

    status: str
    virtual_s: float
    wall_s: float
    capture_sha256: str
    error: str | None
