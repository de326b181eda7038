# SPDX-License-Identifier: GPL-3.0-or-later
"""Build of a wheel, which has the checkout's version and the command's part of the checkout.

That part is an archive beside the code, since a wheel has no links.
"""

import gzip
import sys
import tarfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CHECKOUT = Path(__file__).resolve().parent
sys.path.insert(0, str(CHECKOUT / "src"))
from openbach_run.paths import ARCHIVE, CONTENT  # noqa: E402
from openbach_run.version import version  # noqa: E402


def same_everywhere(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return a file's entry without owner and date, or None for what is not to be installed."""
    if Path(entry.name).name == "__pycache__" or entry.name.endswith(".egg-info"):
        return None
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


class WithCheckout(build_py):
    """The build of the package, with the archive of the checkout's files."""

    def run(self) -> None:
        """Build as usual, then add the version and the archive."""
        super().run()
        if not self.editable_mode:
            place = Path(self.build_lib) / "openbach_run" / ARCHIVE.name
            with (
                gzip.GzipFile(place, "wb", mtime=0) as file,
                tarfile.open(fileobj=file, mode="w") as tar,
            ):
                for name in CONTENT:
                    tar.add(CHECKOUT / name, name, filter=same_everywhere)


setup(version=version(), cmdclass={"build_py": WithCheckout})
