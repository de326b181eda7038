# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run exec SCENARIO --measure NAME=REGEX -- HOST 'COMMAND'…`: a scenario of commands.

It writes a scenario whose steps are the commands, and runs that as any other one.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from openbach_jobs.measured import Sought, sought
from openbach_run.campaign.request import path_of
from openbach_run.catalog import Catalog
from openbach_run.commands.arguments import add_file, parsed
from openbach_run.commands.main import parser as run_parser
from openbach_run.commands.run import run
from openbach_run.errors import InputError
from openbach_run.json_files import read_text
from openbach_run.openbach.measures import from_name
from openbach_run.openbach.source import SUFFIXES
from openbach_run.paths import SCENARIOS
from openbach_run.prompt.session import InputFile, input_files

MEASURE = "--measure"
ABSENT = "nothing"
"""Word of a table's cell where nothing fits and nothing has to (NAME?=REGEX)."""
USUAL_PLACE = Path("results")


def is_measured(words: Sequence[str]) -> bool:
    """Return whether a command line of `exec` asks for measures."""
    return any(word == MEASURE or word.startswith(f"{MEASURE}=") for word in words)


def parser() -> argparse.ArgumentParser:
    """Return the parser: the options of `openbach-run SCENARIO`, and those of the steps."""
    cli = run_parser()
    cli.prog = "openbach-run exec"
    cli.add_argument(MEASURE, action="append", default=[], metavar="NAME=REGEX", dest="measures")
    cli.add_argument("--script", type=Path, metavar="FILE")
    cli.add_argument("--keep", type=Path, metavar="FILE", help="the scenario that is written")
    add_file(cli, "text file that the commands find, under its own name or NAME")
    return cli


def main(before: Sequence[str], words: Sequence[str]) -> int:
    """Write the scenario and run it; return the exit code.

    Raises InputError, SetupError, OSError.
    """
    arguments = parsed(parser(), before)
    if arguments.script and words:
        raise InputError("--script has the commands; give them there or after --, not both")
    script = read_text(arguments.script) if arguments.script else as_script(words)
    files = input_files(arguments.files)
    try:
        measures = [sought(text) for text in arguments.measures]
    except ValueError as error:
        raise InputError(f"{MEASURE} {error}") from None
    names = [measure.name for measure in measures]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{MEASURE} {twice[0]}: is given twice")
    path = path_of(arguments.scenario, Catalog.beside_ours(arguments.with_dirs))
    if path.suffix not in SUFFIXES and not (path := path.with_suffix(".yml")).is_file():
        raise InputError(f"{path}: there is no such file, and only YAML is inherited")
    keep = arguments.keep or USUAL_PLACE / f"{path.stem}_{_program(script)}.yml"
    if keep.suffix not in SUFFIXES:
        raise InputError(f"--keep {keep}: a scenario is called like {keep.stem}.yml")
    text = as_scenario(path, script, measures, files)
    if arguments.keep and keep.exists() and read_text(keep) != text:
        raise InputError(f"--keep {keep}: is there, and is another scenario")
    keep.parent.mkdir(parents=True, exist_ok=True)
    keep.write_text(text)
    if not arguments.quiet:
        anew = "" if arguments.keep else ", until the next one; --keep FILE.yml keeps it"
        print(f"openbach-run: the scenario is {keep}{anew}", file=sys.stderr)
        if bare := [name for name in names if not from_name(name).unit]:
            units = f"note: {', '.join(bare)}: no unit in the name (as in {bare[0]}_ms)"
            print(f"openbach-run: {units}: numbers without one", file=sys.stderr)
    arguments.scenario = str(keep)
    return run(arguments)


def as_script(words: Sequence[str]) -> str:
    """Return the lines HOST COMMAND of a command line. Raises InputError."""
    lines, rest = [], list(words)
    while rest:
        host = rest.pop(0)
        if host != "wait" and not rest:
            raise InputError(f"{host} has no command: HOST 'COMMAND'")
        line = host if host == "wait" else f"{host} {rest.pop(0)}"
        if "\n" in line or line.endswith("\\"):
            raise InputError(f"{line!r}: a command is one line; give the lines of a --script")
        lines.append(line)
    if not lines:
        raise InputError("no command: HOST 'COMMAND', as in: -- pc 'ping -c 5 server'")
    return "\n".join(lines)


def _commands(script: str) -> list[list[str]]:
    """Return the words of each command: its host, its program and so on."""
    lines = [line.split() for line in script.splitlines()]
    return [words for words in lines if len(words) > 1 and not words[0].startswith("#")]


def _program(script: str) -> str:
    """Return a word for the scenario's name: the program of the last command."""
    called = [words[1] for words in _commands(script)]
    return re.sub(r"\W+", "_", Path((called or ["steps"])[-1]).name).strip("_") or "steps"


def as_scenario(
    path: Path, script: str, measures: Sequence[Sought], files: Sequence[InputFile] = ()
) -> str:
    """Return the text of a scenario whose steps are a script's lines. Raises InputError."""
    inherited = path.name if path.parent.resolve() == SCENARIOS.resolve() else str(path.resolve())
    lines = [f"inherits: {quoted(inherited)}", "description: Commands on its hosts, measured"]
    copies = []
    if files:
        lines.append("constants:")
    for file in files:
        if file.place.is_dir():
            raise InputError(f"--file {file.place}: a directory; of a measured script files only")
        name = re.sub(r"\W", "_", f"file_{file.name}", flags=re.ASCII)
        value = f"value: {quoted(str(file.place.resolve()))}, text: File of the commands, file: yes"
        lines.append(f"  {name}: {{{value}}}")
        # All hosts share the directory.
        copies += [f"{words[0]} cp ${name} {file.name}" for words in _commands(script)[:1]]
    # A dollar is the shell's here; in a file of one's own $NAME is a value of the scenario.
    steps = [*copies, *script.replace("$", "$$").splitlines()]
    lines += ["steps: |", *(f"  {line.lstrip()}" for line in steps), "measures:"]
    for this in measures:
        # Of the same command, which has the copies before it.
        step = f", step: {this.step + len(copies)}" if this.step else ""
        absent = f", absent: {ABSENT}" if this.is_optional else ""
        lines.append(f"  {this.name}: {{find: {quoted(this.find)}{step}{absent}}}")
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """Return a text as YAML has it in single quotes."""
    return "'{}'".format(text.replace("'", "''"))
