# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths of this checkout's folders, and of the user's cache."""

import os
from pathlib import Path

from openbach_run.errors import SetupError


def cache_directory() -> Path:
    """Return `$XDG_CACHE_HOME/openbach-run`, by default `~/.cache/openbach-run`.

    Raises SetupError for a user without a home.
    """
    try:
        return (
            Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute()
            / "openbach-run"
        )
    except RuntimeError:
        raise SetupError(
            "this user has no home directory; name a place for the cache with XDG_CACHE_HOME"
        ) from None


INSTALLED = Path(__file__).with_name("checkout")
"""The parts of a checkout in an installed package (setup.py)."""
REPOSITORY = INSTALLED if INSTALLED.is_dir() else Path(__file__).resolve().parents[2]
CONTENT = (
    "LICENSE", "README.md", "campaigns", "congestion-controls", "cpus", "debian.lock", "docs",
    "impairments", "inventory.yml", "jobs", "kernel", "pep", "pyproject.toml", "quic-stacks",
    "reports/claims.yml", "reports/published.yml", "reports/templates", "requirements.lock",
    "satellites", "scenarios", "src", "topologies", "vpn-configs",
)  # fmt: skip
"""The parts of a checkout that the command uses: all but tests, benches and most reports."""
LOCK = REPOSITORY / "requirements.lock"
DEBIAN_LOCK = REPOSITORY / "debian.lock"
INVENTORY = REPOSITORY / "inventory.yml"
"""The inventory of a scenario that names no other."""
SCENARIOS = REPOSITORY / "scenarios"
PROJECT = "satvpn"
"""The name of our project on a controller."""
CONTROLLER_PORT = 8000
"""The port of an OpenBACH controller whose address does not name one."""
