# SPDX-License-Identifier: GPL-3.0-or-later
"""Python packages of a bundle, for the guest tree's Python.

They are those of requirements.lock, and are checked by their hashes.
"""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from openbach_run.engine.virtual.cache import content_hash, made_once
from openbach_run.engine.virtual.image import GUEST_PYTHON, Image, compile_python, run_python
from openbach_run.errors import SetupError
from openbach_run.paths import LOCK, REPOSITORY
from openbach_run.progress import Progress

LISTED, INSTALLED = "packages.json", "dist-packages"
UNUSED = ("bin", "share", "*/**/tests", "pyarrow/include")
"""Parts that are left out: commands (they would name this machine's paths), manual pages, tests,
and headers."""


def ensure_python_packages(cache: Path, image: Image, progress: Progress) -> Path:
    """Return a directory of the cache with the packages, made if needed.

    INSTALLED in it is for Python's path; LISTED describes each package. Raises SetupError.
    """
    python = [package for package in image.packages if package.startswith(f"{GUEST_PYTHON}_")]
    return made_once(
        cache / f"packages-{content_hash([LOCK], REPOSITORY, *python, *UNUSED)}",
        lambda place: _install(place, image.root, progress),
    )


def _install(place: Path, root: Path, progress: Progress) -> None:
    """Install the packages with pip, and compile them. Raises SetupError."""
    # This environment's pip, run by the guest's Python: that one has none, and wheels must be for
    # it.
    pip = find_spec("pip")
    if pip is None or pip.origin is None:
        raise SetupError(
            "the Python packages of a bundle are installed by pip, which this Python environment"
            " has not"
        )
    progress("downloading the Python packages of the bundle", 0)
    installed, report = place / INSTALLED, place / "report.json"
    options = [
        "--no-deps",
        "--only-binary=:all:",
        "--no-compile",
        "--root-user-action=ignore",
        "--quiet",
    ]
    run_python(
        root,
        [
            "-s",
            "-m",
            "pip",
            "install",
            *options,
            "--report",
            str(report),
            "--require-hashes",
            "-r",
            str(LOCK),
            "--target",
            str(installed),
        ],
        f"installing the Python packages of {LOCK.name}",
        PYTHONPATH=str(Path(pip.origin).parents[1]),
    )
    for pattern in UNUSED:
        for path in list(installed.glob(pattern)):
            shutil.rmtree(path)
    progress("compiling the Python packages of the bundle", 0.7)
    # pip would compile with the date of the source in the result; this way the bytes are always the
    # same.
    compile_python(root, installed, "/")
    listed = [_described(package) for package in json.loads(report.read_text())["install"]]
    (place / LISTED).write_text(
        json.dumps(sorted(listed, key=lambda package: package["name"]), indent=1) + "\n"
    )
    report.unlink()


def _described(installed: dict[str, Any]) -> dict[str, str]:
    """Return name, version, file, hash and licence of one package of pip's report."""
    metadata = installed["metadata"]
    return {
        "name": metadata["name"],
        "version": metadata["version"],
        "file": installed["download_info"]["url"].rpartition("/")[2],
        "sha256": installed["download_info"]["archive_info"]["hashes"]["sha256"],
        "license": metadata.get("license_expression", ""),
    }
