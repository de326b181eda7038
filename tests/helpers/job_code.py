# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs' programs as modules, for tests of what needs no network."""

from __future__ import annotations

import importlib
from types import ModuleType

from openbach_run.paths import REPOSITORY as ROOT

__all__ = ["ROOT", "load"]


def load(job: str, module: str | None = None) -> ModuleType:
    """Return a job's program, or another module beside it."""
    return importlib.import_module(module or job)
