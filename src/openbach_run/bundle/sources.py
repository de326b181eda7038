# SPDX-License-Identifier: GPL-3.0-or-later
"""The source packages of the Debian packages in a bundle.

It finds their files, with hashes from Debian's signed lists, and copies them for those who publish
a bundle.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from openbach_run.engine.virtual.cache import content_hash, made_once
from openbach_run.engine.virtual.debian import SOURCE, Apt, mirror, sha256_of
from openbach_run.engine.virtual.kernel import KERNEL_FILE
from openbach_run.paths import REPOSITORY
from openbach_run.progress import Progress

FILE = "sources.json"
LIMIT_S = 60
"""Seconds after which a mirror that sends nothing is given up."""
GUEST = REPOSITORY / "src/openbach_run/guest/packages.json"
"""The file with the suites of Debian that the guest's packages come from."""


def source_files(
    cache: Path, progress: Progress, wanted: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return the files of each source package `name version`: path on a mirror → SHA-256.

    A package that is not in the lists when it is first asked for has no files. Raises SetupError.
    """

    def make(place: Path) -> None:
        progress("fetching the lists of Debian's source packages", 0)
        apt = Apt(place / "apt", tuple(json.loads(GUEST.read_text())["suites"]), {}, SOURCE)
        apt.prepare()
        known = apt.source_files(sorted({name.partition(" ")[0] for name in wanted}))
        shutil.rmtree(apt.directory)  # lists of 40 MB
        (place / FILE).write_text(
            json.dumps({name: known.get(name, {}) for name in wanted}, indent=1) + "\n"
        )

    place = made_once(cache / f"source-files-{content_hash([], cache, *wanted)}", make)
    files: dict[str, dict[str, str]] = json.loads((place / FILE).read_text())
    return files


def copy_sources(
    directory: Path, files: Mapping[str, str], kernel: Path, progress: Progress
) -> list[str]:
    """Copy source files from a mirror into `directory`; return those that the mirror no longer has.

    `files` are paths and hashes; the source package of the cache's entry `kernel` is copied as
    well. A file that exists with its SHA-256 stays. Each result is a line with the hash. Raises
    SetupError.
    """
    base, missing = mirror().rstrip("/"), []
    described = json.loads((kernel / KERNEL_FILE).read_text())
    wanted = sorted({**files, described["source"]: described["source_sha256"]}.items())
    for number, (path, sha256) in enumerate(wanted):
        progress(f"copying {path}", number / len(wanted))
        target = directory / path
        if target.exists() and sha256_of(target) == sha256:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        # Under another name until its hash is checked.
        part = target.with_name(f"{target.name}.part")
        try:
            with urlopen(f"{base}/{path}", timeout=LIMIT_S) as answer, part.open("wb") as file:
                shutil.copyfileobj(answer, file)
        except (OSError, HTTPException) as error:
            missing.append(f"{sha256}  {path} ({error})")
        else:
            if (digest := sha256_of(part)) == sha256:
                part.rename(target)
            else:
                missing.append(f"{sha256}  {path} (the mirror's has {digest})")
        part.unlink(missing_ok=True)
    return missing
