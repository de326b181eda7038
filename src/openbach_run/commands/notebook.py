# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run notebook [FILE]`: JupyterLab, with openbach_run, pandas and pyarrow.

In a checkout the first call installs it, locked, into an environment of its own. Beside a wheel it
is an extra: pip install 'openbach-run[notebook]'. Other words are Jupyter's.

  openbach-run notebook docs/example.ipynb
  openbach-run notebook --no-browser --port 8890
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec

from openbach_run.commands.arguments import command_parser
from openbach_run.errors import SetupError
from openbach_run.paths import REPOSITORY

LAUNCHER = REPOSITORY / "openbach-run"


def parser() -> argparse.ArgumentParser:
    """Return the parser of --help."""
    return command_parser("notebook", __doc__, usage="openbach-run notebook [WORD…]")


def main(argv: list[str]) -> int:
    """Become JupyterLab. Raises SetupError where it is not installed, OSError."""
    if argv == ["--help"]:
        parser().parse_args(argv)
    if not find_spec("jupyterlab"):
        if not LAUNCHER.exists():
            raise SetupError("Jupyter is not installed: pip install 'openbach-run[notebook]'")
        os.environ["OPENBACH_RUN_EXTRA"] = "notebook"
        os.execv(LAUNCHER, [str(LAUNCHER), "python", "-m", "jupyterlab", *argv])
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *argv])
