# SPDX-License-Identifier: GPL-3.0-or-later
"""Write debian.lock for what the mirror has now (`tools/dev tools/bump_debian.py`).

The golden cells and the table of geo_loss with it.

Prints what moved: packages, golden cells, and the cells of the table by how much. The same stands
in build/bump-debian.txt, for the commit (`git commit --file`) and a line of docs/CHANGELOG.md.

`--add` locks only what debian.lock lacks: a package that a job or the guest names since.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from itertools import chain

from openbach_run.engine.local import guest_code
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.engine.virtual.lock import (
    ARCHIVES,
    KERNEL,
    Locked,
    lock_of,
    read_lock,
    write_lock,
)
from openbach_run.paths import DEBIAN_LOCK, REPOSITORY, cache_directory
from openbach_run.progress import Reporter

GOLDEN = REPOSITORY / "tests/data/golden.json"
TABLE_FILE = REPOSITORY / "tests/data/geo_loss.txt"
TABLE_COMMAND = ("./openbach-run", "scenarios/geo_loss.json", "--seeds", "1", "--locked")
TABLE = re.compile(r"^    geo_loss: transfer time \(s\)\n(?:\n|    .*\n)+", re.MULTILINE)
"""The table that README's first command prints for its first seed, with the note below it."""
NOTE_COLUMNS = 114
SAID = REPOSITORY / "build/bump-debian.txt"


def main() -> int:
    """Make all anew; the exit code is that of the first step that fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--add", action="store_true", help="lock only what debian.lock lacks")
    if parser.parse_args().add:
        return add()
    if not DEBIAN_LOCK.exists():
        write_lock(DEBIAN_LOCK, [])
    before = read_lock(DEBIAN_LOCK)
    engine = VirtualEngine(REPOSITORY, guest_code(REPOSITORY, {}))
    with Reporter(quiet=False) as reporter:
        sets = [made.current(reporter.show) for made in (engine.kernel_build(), engine.tree())]
    now = list(chain.from_iterable(map(lock_of, sets)))
    write_lock(DEBIAN_LOCK, now)
    golden_before, table_before = golden_cells(), cells_of(table())
    make_golden()
    make_table()
    shutil.rmtree(
        cache_directory() / ARCHIVES, ignore_errors=True
    )  # what was there already is not unpacked
    lines = [
        "Debian's packages are those of today",
        "",
        *part("Packages", moved_packages(before, now)),
        *part("Golden cells", moved_cells(golden_before, golden_cells(), "other packets")),
        *part("Table of geo_loss", moved_figures(table_before, cells_of(table()))),
    ]
    SAID.parent.mkdir(exist_ok=True)
    SAID.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(SAID.read_text(encoding="utf-8"))
    return 0


def add() -> int:
    """Lock the packages that the lock lacks; the others keep their versions."""
    before = read_lock(DEBIAN_LOCK)
    tree = VirtualEngine(REPOSITORY, guest_code(REPOSITORY, {})).tree()
    with Reporter(quiet=False) as reporter:
        packages = tree.entry.packages(reporter.show)
    kernel = [one for one in before if one.place == KERNEL]
    now = [*kernel, *lock_of(packages)]
    write_lock(DEBIAN_LOCK, now)
    print("\n".join(part("Packages", moved_packages(before, now))))
    return 0


def part(title: str, lines: Iterator[str]) -> Iterator[str]:
    """A title, its lines or "none moved", and an empty line."""
    there = [f"- {line}" for line in lines]
    return chain([f"{title}:", *(there or ["- none moved"]), ""])


def moved_packages(before: list[Locked], now: list[Locked]) -> Iterator[str]:
    """A line for each package whose version or file is another one."""
    old = {(one.place, one.package.name): one.package for one in before}
    new = {(one.place, one.package.name): one.package for one in now}
    for place, name in sorted(old.keys() | new.keys()):
        one, other = old.get((place, name)), new.get((place, name))
        if one != other:
            versions = [package.version if package else "none" for package in (one, other)]
            yield f"{name}: {' → '.join(versions)}"


def golden_cells() -> dict[str, str]:
    """The capture's hash by the cell's command."""
    if not GOLDEN.exists():
        return {}
    return {one["command"]: one["capture_hash"] for one in json.loads(GOLDEN.read_text())["cells"]}


def moved_cells(before: Mapping[str, str], now: Mapping[str, str], what: str) -> Iterator[str]:
    """A line for each cell whose value is another one."""
    for cell, value in now.items():
        if before.get(cell) != value:
            yield f"{cell}: {what if cell in before else 'new'}"


def moved_figures(before: Mapping[str, float], now: Mapping[str, float]) -> Iterator[str]:
    """A line for each cell of the table with another value, with both and the change in percent."""
    for cell, value in now.items():
        old = before.get(cell)
        if old is None:
            yield f"{cell}: new, {value:.2f} s"
        elif old != value:
            yield f"{cell}: {old:.2f} → {value:.2f} s ({100 * (value / old - 1):+.1f} %)"


def make_golden() -> None:
    """Run the golden cells and write their file."""
    test = ["python", "-m", "pytest", "tests/guest/test_golden.py"]
    subprocess.run(test, check=True, cwd=REPOSITORY, env={**os.environ, "UPDATE_GOLDEN": "1"})


def table() -> str:
    """The table, as it stands in its file."""
    found = TABLE.search(TABLE_FILE.read_text(encoding="utf-8"))
    if found is None:
        sys.exit(f"{TABLE_FILE}: there is no table that begins with `geo_loss: transfer time (s)`")
    return found[0]


def make_table() -> None:
    """Run README's first command for one seed and keep its table."""
    done = subprocess.run(
        TABLE_COMMAND, check=True, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    TABLE_FILE.write_text(indented(done.stdout), encoding="utf-8")


def indented(printed: str) -> str:
    """A table that a command has printed as its file has it: indented, its note in short lines."""
    lines = printed.strip().splitlines()
    note = textwrap.wrap(lines[-1], NOTE_COLUMNS, break_long_words=False, break_on_hyphens=False)
    return "".join(f"    {line}".rstrip() + "\n" for line in (*lines[:-1], *note))


def cells_of(text: str) -> dict[str, float]:
    """The table's figures by `vpn cc column`."""
    lines = [line.split() for line in text.splitlines()]
    columns = next(words[2:] for words in lines if words[:2] == ["vpn", "cc"])
    rows = [words for words in lines if len(words) == len(columns) + 2]
    return {
        f"{vpn} {control} {column}": float(value)
        for vpn, control, *values in rows
        for column, value in zip(columns, values, strict=True)
        if is_number(value)
    }


def is_number(text: str) -> bool:
    """Whether a text is a decimal number."""
    return text.replace(".", "", 1).isdecimal()


if __name__ == "__main__":
    sys.exit(main())
