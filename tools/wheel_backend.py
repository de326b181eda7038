# SPDX-License-Identifier: GPL-3.0-or-later
"""Build of a wheel, which has the command's part of the checkout.

pyproject.toml names this module as the build backend: setuptools' own, with another `build_py`.
That part is data of the package, in openbach_run/checkout. A wheel has no links: in their place are
copies of what they lead to.
"""

from pathlib import Path
from shutil import copy, copytree, ignore_patterns

from setuptools.build_meta import *  # noqa: F403 the hooks that pip calls
from setuptools.command.build_py import build_py

from openbach_run.paths import CONTENT, INSTALLED

CHECKOUT = Path(__file__).resolve().parents[1]


class WithCheckout(build_py):
    """The build of the package, with the checkout's files."""

    def run(self) -> None:
        """Build as usual, then add the checkout's files."""
        super().run()
        if not self.editable_mode:
            place = Path(self.build_lib) / "openbach_run" / INSTALLED.name
            for name in CONTENT:
                source, target = CHECKOUT / name, place / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if source.is_dir():
                    copytree(source, target, ignore=ignore_patterns("__pycache__", "*.egg-info"))
                else:
                    copy(source, target)
