# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths of this checkout's folders, and of the user's cache."""

import hashlib
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


def _unpacked(archive: Path) -> Path:
    """Return the folder of an installed package's part of a checkout; unpack it there once.

    The folder is in the cache. Its links are links, which a wheel (setup.py) cannot hold. Raises
    SetupError.
    """
    import tarfile
    import tempfile

    place = cache_directory() / f"checkout-{hashlib.sha256(archive.read_bytes()).hexdigest()[:16]}"
    try:
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            with (
                tempfile.TemporaryDirectory(dir=place.parent) as made,
                tarfile.open(archive) as tar,
            ):
                tar.extractall(Path(made) / "checkout", filter="tar")
                # Renamed when it is whole: another process sees all of it or nothing.
                (Path(made) / "checkout").rename(place)
        place.with_name(f"{place.name}.lock").touch()  # used now: the cache forgets what is not
    except OSError as error:
        if not place.exists():  # else another process was faster, or the cache is another user's
            raise SetupError(
                f"the cache cannot be written: {error}; XDG_CACHE_HOME names another place"
            ) from error
    return place


ARCHIVE = Path(__file__).with_name("checkout.tar.gz")
REPOSITORY = _unpacked(ARCHIVE) if ARCHIVE.exists() else Path(__file__).resolve().parents[2]
CONTENT = (
    *(
        "LICENSE",
        "README.md",
        "campaigns",
        "congestion-controls",
        "cpus",
        "debian.lock",
        "docs",
        "impairments",
        "inventory.yml",
        "jobs",
        "kernel",
    ),
    *(
        "pep",
        "pyproject.toml",
        "reports/alternatives",
        "reports/assumptions.yml",
        "reports/claims.yml",
        "reports/published.yml",
    ),
    *(
        "reports/templates",
        "requirements.lock",
        "satellites",
        "scenarios",
        "src",
        "topologies",
        "vpn-configs",
    ),
)
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
