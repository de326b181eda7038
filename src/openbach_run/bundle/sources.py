# SPDX-License-Identifier: GPL-3.0-or-later
"""The source packages of the Debian packages in a bundle: their files, with hashes from Debian's signed lists."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from openbach_run.engine.virtual.cache import content_hash, made_once
from openbach_run.engine.virtual.debian import SOURCE, Apt
from openbach_run.paths import REPOSITORY
from openbach_run.progress import Progress

FILE = "sources.json"
GUEST = REPOSITORY / "src/openbach_run/guest/packages.json"
"""It has the suites that the guest's packages are from."""


def source_files(cache: Path, progress: Progress, wanted: Sequence[str]) -> dict[str, dict[str, str]]:
    """`name version` of each source package → its files, with their SHA-256. One that the lists no longer have when it is
    first asked for has none. Raises SetupError."""

    def make(place: Path) -> None:
        progress("fetching the lists of Debian's source packages", 0)
        apt = Apt(place / "apt", tuple(json.loads(GUEST.read_text())["suites"]), {}, SOURCE)
        apt.prepare()
        there = apt.source_files(sorted({one.partition(" ")[0] for one in wanted}))
        shutil.rmtree(apt.directory)  # lists of 40 MB
        (place / FILE).write_text(json.dumps({one: there.get(one, {}) for one in wanted}, indent=1) + "\n")

    place = made_once(cache / f"sources-{content_hash([], cache, *wanted)}", make)
    found: dict[str, dict[str, str]] = json.loads((place / FILE).read_text())
    return found
