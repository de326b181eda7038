# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a job has where it runs.

`jobs/NAME/files` has only what is the job's own. An agent, the guest and the job's OpenBACH package
also have, in the job's folder:

    openbach_jobs/MODULE.py   the modules of src/openbach_jobs that its programs import
    PROGRAM/…                 the sources of programs that jobs/NAME/programs.txt names
    KIND/…                    the folders of data that its arguments name (`limits: {folder: KIND}`)

The guest has the data once for all jobs (openbach_jobs/data.py finds it there), so it is added to
packages only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path, PurePath
from typing import NamedTuple

from openbach_run.catalog import Catalog
from openbach_run.errors import InputError
from openbach_run.json_files import read_text

SHARED = "openbach_jobs"
"""The package of what jobs share, in src of a checkout."""
MENTIONED = re.compile(rf"^.*\b{SHARED}\b[^(\n]*(?:\([^)]*\))?.*$".encode(), re.MULTILINE)
"""Lines of a program that name the package, to the end of a parenthesis."""
PROGRAMS = "programs.txt"
OF_SCENARIOS = "platforms"
"""Kind of data that a scenario's values come from: no job reads it."""


class Program(NamedTuple):
    """A program that a job brings as source: its name, and the folder of its Makefile."""

    name: str
    folder: Path
    parts: tuple[str, ...]
    """Files and folders in that folder that it is built and installed from."""


def beside(files: Path, checkout: Path) -> dict[str, Path]:
    """Return what a job gets beside its own files, by place in its folder: files and folders.

    `files` is the job's folder of files. Raises InputError for a module, or a line of programs.txt,
    that means nothing here.
    """
    paths = {f"{SHARED}/{module.name}": module for module in shared_modules(files, checkout)}
    for program in programs_elsewhere(files, checkout):
        paths |= {f"{program.name}/{part}": program.folder / part for part in program.parts}
    return paths


def shared_modules(files: Path, checkout: Path) -> list[Path]:
    """Return the files of openbach_jobs that a job's programs import, and that these import.

    There are none for a job that has a folder of this name itself. Raises InputError for a module
    that does not exist.
    """
    if (files / SHARED).exists():
        return []
    package = checkout / "src" / SHARED
    modules: set[Path] = set()
    waiting = sorted(files.glob("*.py"))
    while waiting:
        importing = waiting.pop()
        for name in imported_of_jobs(importing):
            module = package / f"{name}.py"
            if not module.is_file():
                known = ", ".join(sorted(file.stem for file in package.glob("[!_]*.py")))
                raise InputError(f"{importing}: {SHARED} has no module {name}; it has {known}")
            if module not in modules:
                modules.add(module)
                waiting.append(module)
    return sorted([package / "__init__.py", *modules]) if modules else []


def imported_of_jobs(file: Path) -> tuple[str, ...]:
    """Return the names of the modules of openbach_jobs that a file imports.

    A file that is not Python imports none: the job then fails by itself, and says why.
    """
    return _imported(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _imported(file: Path, _changed_ns: int) -> tuple[str, ...]:
    """Return the same; a file that has changed is read anew."""
    text = file.read_bytes()
    # To parse a whole file takes milliseconds, at each start of a command. Mostly each line that
    # names the package is an import by itself.
    lines = [_parsed(line.strip()) for line in MENTIONED.findall(text)]
    if all(map(_has_imports_only, lines)):
        return tuple(_names(chain.from_iterable(lines)))
    return tuple(_names(_parsed(text)))


def _parsed(text: bytes) -> list[ast.stmt]:
    """Return the statements of a program; [] if it is not Python."""
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError):
        return []


def _has_imports_only(statements: list[ast.stmt]) -> bool:
    return bool(statements) and all(
        isinstance(statement, ast.Import | ast.ImportFrom) for statement in statements
    )


def _names(statements: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the modules of openbach_jobs that these statements import, at their top or later."""
    for node in _within(statements):
        if isinstance(node, ast.ImportFrom) and node.module == SHARED:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{SHARED}."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            paths = [alias.name.split(".") for alias in node.names]
            yield from (path[1] for path in paths if path[0] == SHARED and len(path) > 1)


def _within(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield every statement: an import is in no expression, and those are nine nodes of ten."""
    waiting = list(statements)
    while waiting:
        node = waiting.pop()
        yield node
        # What holds statements: blocks, `except` clauses, cases.
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            block = getattr(node, name, None)
            # A lambda's body, and the sides of `a if b else c`, are expressions.
            if isinstance(block, list):
                waiting += block


def programs_elsewhere(files: Path, checkout: Path) -> list[Program]:
    """Return the programs that programs.txt beside a job's files names.

    A line is like `satpep pep Makefile src`: the program satpep is built from Makefile and src in
    the checkout's folder pep. Raises InputError.
    """
    listed = files.parent / PROGRAMS
    if not listed.exists():
        return []
    programs = []
    for number, line in enumerate(read_text(listed).splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) < 3 or "Makefile" not in words[2:]:
            raise InputError(
                f"{listed}, line {number}: should be PROGRAM FOLDER Makefile and what else it is"
                " built from"
            )
        name, place, *parts = words
        folder = checkout / place
        for part in parts:
            if ".." in PurePath(place, part).parts or not (folder / part).exists():
                raise InputError(f"{listed}, line {number}: the checkout has no {place}/{part}")
        programs.append(Program(name, folder, tuple(parts)))
    return programs


def data(kinds: Iterable[str], catalog: Catalog) -> dict[str, Path]:
    """Return the files of whole kinds, such as `satellites`, by place in a job's folder.

    Where several directories have an entry of the same name, the first one's counts.
    """
    paths: dict[str, Path] = {}
    for kind in kinds:
        for shelf in reversed(catalog.shelves):
            paths |= {f"{kind}/{place}": file for place, file in walk(shelf / kind).items()}
    return paths


def walk(folder: Path) -> dict[str, Path]:
    """Return the files below a folder by their places in it, through links.

    What Python has compiled is left out. A folder that does not exist has none.
    """
    paths: dict[str, Path] = {}
    for entry in folder.iterdir() if folder.is_dir() else ():
        if not entry.is_dir():
            paths[entry.name] = entry
        elif entry.name != "__pycache__":
            paths |= {f"{entry.name}/{place}": file for place, file in walk(entry).items()}
    return paths


def whole(files: Path, kinds: Iterable[str], catalog: Catalog) -> dict[str, Path]:
    """Return all files of a job by place in its folder: what runs alone on an agent."""
    paths = data([kind for kind in kinds if kind != OF_SCENARIOS], catalog)
    for place, path in beside(files, catalog.checkout).items():
        if path.is_dir():
            paths |= {f"{place}/{within}": file for within, file in walk(path).items()}
        else:
            paths[place] = path
    return paths | walk(files)
