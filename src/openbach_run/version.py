# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of openbach-run, which stands in pyproject.toml."""

from __future__ import annotations

import tomllib

from openbach_run.paths import REPOSITORY

NAME = "openbach-run"


def version() -> str:
    """Return the version in pyproject.toml, which a wheel and a bundle have, too."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["project"]["version"])
