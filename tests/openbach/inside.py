# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of run.py in the guest.

Brings up the platform, has every part of the run done, writes the report.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

from record import Record
from stack import Stack
from steps import Run

from openbach_run.errors import SetupError

DIRECTORY = Path("/run/openbach")
CHECKOUT, EXTRA = Path("/srv/checkout"), Path("/srv/extra")
LOOK_S = 0.2
TEMPORARY = Path("/mnt/platform")
PARTS = (
    "importing.import_all",
    "launching.launch_all",
    "engine.cells",
    "engine.stops",
    "engine.ask_all",
    "engine.checks_before_a_start",
    "clicks.click_all",
    "serving.serve_all",
    "clicks.table_by_click",
    "engine.collect_all",
)


def main() -> int:
    order = json.loads((DIRECTORY / "run.json").read_text())
    record = Record(DIRECTORY)
    record.part("The platform")
    stack = Stack(CHECKOUT, TEMPORARY, order["seed"], record.say)
    stack.start()
    run = Run(stack, record, EXTRA, CHECKOUT, DIRECTORY / "package", TEMPORARY, order["size"])
    for number, part in enumerate(PARTS, start=1):
        if not order["only"] or number in {1, len(PARTS), *order["only"]}:
            attempt(record, part, run)
    failed = sum(not so for _, so, _ in record.checks)
    print(f"{len(record.checks)} checks, {failed} failed; {dict(record.counts)}", flush=True)
    if order["hold"]:
        hold(run)
    return 0 if record.holds else 1


def hold(run: Run) -> None:
    """Do what run.py hands over, one order after the other, until it is `exit`."""
    orders = DIRECTORY / "orders"
    for number in itertools.count():
        (orders / f"{number}.done").touch()
        while str(number) not in os.listdir(orders):  # hostfs keeps that a name is not there
            time.sleep(LOOK_S)
        line = (orders / str(number)).read_text().strip()
        match line.split(maxsplit=2):
            case ["exit"]:
                return
            case ["picture", *path]:
                attempt(run.record, "clicks.picture_of", run, *path)
            case ["on", entity, command] if entity in run.stack.agents:
                words = run.stack.agents[entity].enters("/bin/sh", "-c", command)
                subprocess.run(words, check=False)
            case _:
                subprocess.run(line, check=False, shell=True, cwd=run.package)


def attempt(record: Record, part: str, run: Run, *more: str) -> None:
    """Does a part; what it did not expect fails it, and the next one is done."""
    module, _, function = part.partition(".")
    try:
        getattr(importlib.import_module(module), function)(run, *more)
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
