# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths of this checkout's folders, and of the user's cache."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from openbach_jobs.data import LIBRARY as LIBRARY_NAME
from openbach_run.errors import SetupError

FOREIGN = "another user owns it or can write to it (chmod go-w)"


def foreign(directory: Path, sticky: int = 0) -> bool:
    """Return whether others may have written what is in a directory: it is theirs, or open to them.

    A group of the owner's number is the owner's own. With S_ISVTX as `sticky` a directory is
    closed in which each has names of their own: a link there may be theirs, too. The launcher and
    bundle/start.c ask the same.
    """
    try:
        seen, link = directory.stat(), directory.lstat()
    except OSError:  # not there: it will be made
        return False
    others = 0o002 if seen.st_gid == seen.st_uid else 0o022
    is_open = seen.st_mode & others and not seen.st_mode & sticky
    return bool(is_open) or not {seen.st_uid, link.st_uid} <= {0, os.geteuid()}


def make_own(directory: Path) -> None:
    """Make a directory, if it is not there, in which nobody else can write, whatever the umask."""
    if not directory.exists():
        directory.mkdir(parents=True, exist_ok=True)
        if foreign(directory):
            directory.chmod(0o700)


def cache_directory() -> Path:
    """Return `$XDG_CACHE_HOME/openbach-run`, by default `~/.cache/openbach-run`.

    Raises SetupError for a user without a home, and for a cache that is others', too.
    """
    named = os.environ.get("XDG_CACHE_HOME")
    try:
        parent = Path(named or Path.home() / ".cache")
        # Of HOME="" Python would make /; a relative one is in a directory that may be others'.
        if not parent.is_absolute() or (not named and os.environ.get("HOME") == ""):
            raise RuntimeError
    except RuntimeError:
        raise SetupError(
            "this user has no home directory; name a place for the cache with"
            " XDG_CACHE_HOME, from / on"
        ) from None
    for place, sticky in ((parent, stat.S_ISVTX), (parent / "openbach-run", 0)):
        with suppress(OSError):  # whoever writes there says so
            make_own(place)
        if foreign(place, sticky):
            raise SetupError(f"{place}: {FOREIGN}; XDG_CACHE_HOME names another place")
    return place


INSTALLED = Path(__file__).with_name("checkout")
"""The parts of a checkout in an installed package (tools/wheel_backend.py)."""
REPOSITORY = INSTALLED if INSTALLED.is_dir() else Path(__file__).resolve().parents[2]
CONTENT = (
    "LICENSE", "README.md", "docs", "inventory.yml", "jobs", "kernel", LIBRARY_NAME, "pep",
    "pyproject.toml", "reports/claims.yml", "reports/published.yml", "reports/templates",
    "scenarios", "src", "tools/locks/debian.lock", "tools/locks/requirements.lock", "vpn-configs",
)  # fmt: skip
"""The parts of a checkout that the command uses: all but tests, benches and most reports."""
LIBRARY = REPOSITORY / LIBRARY_NAME
"""The folder of satellites, congestion controls, campaigns, … (catalog.py)."""
LOCK = REPOSITORY / "tools/locks/requirements.lock"
DEBIAN_LOCK = REPOSITORY / "tools/locks/debian.lock"
INVENTORY = REPOSITORY / "inventory.yml"
"""The inventory of a scenario that names no other."""
SCENARIOS = REPOSITORY / "scenarios"
PROJECT = "satvpn"
"""The name of our project on a controller."""
CONTROLLER_PORT = 8000
"""The port of an OpenBACH controller whose address does not name one."""
