# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run shell SCENARIO [NAME=VALUE…]`: a prompt on the hosts of a path.

Brings a scenario's path up and gives you a prompt on a host of it. Time passes as on this
machine: a ping over a GEO satellite takes half a second.

  openbach-run shell geo vpn=wireguard loss=1
  pc$ ping -c 3 server
  pc$ on gw tcpdump -i to_sat -c 3
  pc$ on box
  box$ exit
  pc$ exit

`on HOST` goes to another host, and `on HOST COMMAND` runs a command there. Another terminal
gets a prompt in the same testbed with `openbach-run shell --join`. All is over when the
first shell ends. What was typed is kept as a script: `openbach-run exec … --script FILE`
runs it again, in virtual time.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from openbach_jobs.link_file import near
from openbach_run.commands.arguments import add_file, command_parser, parsed
from openbach_run.commands.exec import add_testbed, options_of, say_chosen
from openbach_run.errors import InputError
from openbach_run.progress import shown_when_due
from openbach_run.prompt.session import input_files
from openbach_run.prompt.terminal import NoTestbed, Session, attach, chosen, known, live_testbed
from openbach_run.prompt.testbed import checked_testbed

FAILED = 1
USUAL_SCRIPT = Path("results/shell.txt")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser(
        "shell", __doc__, usage="openbach-run shell SCENARIO [NAME=VALUE …] | --join"
    )
    add_testbed(cli, optional=True)
    add = cli.add_argument
    add("--on", metavar="HOST", default="pc", help="host of the prompt (default pc)")
    text = "another prompt in a testbed that is up: that of the command with this process"
    add("--join", nargs="?", const="", metavar="PID", help=text)
    text = f"where what was typed is kept (default {USUAL_SCRIPT})"
    add("--keep", type=Path, default=USUAL_SCRIPT, metavar="FILE", help=text)
    add_file(cli, "file or directory that commands find, under its own name or NAME")
    return cli


def main(argv: list[str]) -> int:
    """Open a prompt; return the exit code of its shell. Raises InputError, SetupError, OSError."""
    arguments = parsed(parser(), argv)
    try:
        return _joined(arguments) if arguments.join is not None else _opened(arguments)
    except NoTestbed as ended:
        print(f"openbach-run: {ended}", file=sys.stderr)
        return FAILED


def _joined(arguments: argparse.Namespace) -> int:
    """Open a terminal in a testbed that is up; return the exit code of its shell."""
    if arguments.scenario is not None or arguments.settings or arguments.files:
        raise InputError("--join: the testbed is there already; without scenario and files")
    about = chosen(arguments.join or None)
    hosts = {name: name for name in about["hosts"]}
    run_dir = Path(about["run_dir"])
    return attach(Session(run_dir, _host(arguments.on, hosts)), None, run_dir)


def _opened(arguments: argparse.Namespace) -> int:
    """Bring a testbed up and open a terminal; return the exit code of its shell."""
    if arguments.scenario is None:
        raise InputError("shell SCENARIO, as in: openbach-run shell geo vpn=wireguard; or --join")
    seed = arguments.seed
    if not 0 <= seed < 2**31:
        raise InputError(f"--seed {seed}: from 0 to {2**31 - 1}")
    files = input_files(arguments.files)
    options = options_of(arguments)
    testbed = checked_testbed(arguments.scenario, arguments.settings, f"{seed},", options, "shell")
    host = _host(arguments.on, testbed.hosts)
    if not arguments.quiet:
        say_chosen(testbed)
    with shown_when_due(arguments.quiet) as show:
        engine, specs = testbed.prepared(show)
    words = [arguments.scenario, *arguments.settings, *options.path_words]
    words += ["--seed", str(seed)] if seed != 1 else []
    names = list(dict.fromkeys(testbed.hosts.values()))
    with (
        live_testbed(engine, specs[seed], files) as live,
        known(live.run_dir, names, shlex.join(words)),
    ):
        try:
            return attach(Session(live.run_dir, host), live, live.run_dir)
        finally:
            _keep(live.typed, arguments.keep, words, arguments.quiet)


def _host(name: str, hosts: Mapping[str, str]) -> str:
    if name not in hosts:
        known_hosts = ", ".join(dict.fromkeys(hosts.values()))
        raise InputError(f"--on {name}: {near(name, hosts)}there are {known_hosts}")
    return hosts[name]


def _keep(typed: str, file: Path, words: list[str], quiet: bool) -> None:
    """Keep what was typed, and say how it is run again."""
    if not typed:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(typed)
    if not quiet:
        again = shlex.join(["openbach-run", "exec", *words, "--script", str(file)])
        print(f"openbach-run: {again}", file=sys.stderr)
