# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of run.py in namespaces.

Brings up the platform, has every part of the run done, writes the report.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from record import Record
from stack import Stack, only_namespaces
from steps import Run

from openbach_run.errors import SetupError

PARTS = (
    "importing.import_all",
    "launching.launch_all",
    "engine.cells",
    "engine.stops",
    "engine.ask_all",
    "engine.checks_before_a_start",
    "clicks.click_all",
    "serving.serve_all",
    "launching.launch_table",
)


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
    for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ending, end)  # a first process ignores what it does not handle
    with only_namespaces():
        record = Record(arguments.output)
        record.part("The platform")
        stack = Stack(arguments.checkout, arguments.layer, arguments.temporary, record.say)
        stack.start()
        package = arguments.temporary / "package"
        run = Run(stack, record, arguments.extra, arguments.checkout, package, arguments.temporary)
        wanted = [int(word) for word in arguments.only.split(",") if word]
        for number, part in enumerate(PARTS, start=1):
            if not wanted or number in wanted:
                attempt(record, part, run)
        said = f"{len(record.checks)} checks, {sum(not so for _, so, _ in record.checks)} failed"
        print(
            f"{said}; {dict(record.counts)}\nreport: {arguments.output / 'report.md'}", flush=True
        )
        if arguments.hold:
            signal.pause()
    return 0 if record.holds else 1


def attempt(record: Record, part: str, run: Run) -> None:
    """Does a part; what it did not expect fails it, and the next one is done."""
    module, _, function = part.partition(".")
    try:
        getattr(importlib.import_module(module), function)(run)
    except Exception:
        record.check(f"{part} comes to its end", False, "it stopped at what follows")
        record.show(traceback.format_exc())
        traceback.print_exc()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SetupError as error:
        print(f"openbach: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
