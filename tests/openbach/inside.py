# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of run.py in namespaces: brings up the platform, has every part of the run done, writes the report."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import Any

from stack import Stack, only_namespaces

from openbach_run.errors import SetupError


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("checkout", "extra", "layer", "temporary", "output"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--hold", action="store_true")
    return parser.parse_args()


def end(*_: Any) -> None:
    raise KeyboardInterrupt


def main() -> int:
    arguments = parse()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)  # a first process ignores what it does not handle
    with only_namespaces():
        stack = Stack(arguments.checkout, arguments.layer, arguments.temporary, lambda text: print(text, flush=True))
        stack.start()
        if arguments.hold:
            signal.pause()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SetupError as error:
        print(f"openbach: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
