# SPDX-License-Identifier: GPL-3.0-or-later
r"""`openbach-run try --server COMMAND --client COMMAND`: own programs over a satellite.

Runs your own programs as both ends of a path with a satellite, once for each seed, and
prints how long the client took, in virtual time.

  openbach-run try --server './server --port 4433' --client './client https://server:4433/30M'
  openbach-run try leo vpn=wireguard loss=0.5 --seeds 5 --payload 3M --received got \
      --server './server payload' --client './client server got' -o results/try
  openbach-run try … --against results/try --tolerance 5% --junit try.xml --summary try.md

A program ./NAME is copied to the hosts with the libraries that it needs here. The client
starts when the server has opened a socket, and the server is ended after it. Both run in one
directory, which has the files of --file, and `payload` with --payload.

With --against DIR the times are compared, seed by seed, with those that an earlier
`try … -o DIR` has left. It is a regression (exit code 3) if the median of the change lies
beyond the tolerance and its whole interval is above no change, or if a seed fails that
did not fail before.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openbach_jobs.link_file import near
from openbach_run.commands.arguments import add_file, command_parser, parsed
from openbach_run.commands.exec import add_testbed, options_of, say_chosen
from openbach_run.errors import InputError, SetupError
from openbach_run.progress import shown_when_due
from openbach_run.prompt.compare import (
    Verdict,
    check_comparable,
    compared,
    junit,
    summary,
    tolerance_of,
)
from openbach_run.prompt.session import input_files
from openbach_run.prompt.testbed import Testbed, checked_testbed
from openbach_run.prompt.trial import (
    RESULTS,
    Program,
    Seen,
    Trial,
    programs_of,
    read_results,
    try_seeds,
    write_results,
)
from openbach_run.results.seeds import parse_seeds
from openbach_run.units import number, plain

WELL, FAILED, REGRESSION = 0, 1, 3
GOOD, BAD, CANNOT_TELL = 0, 1, 125
"""Exit codes that `git bisect run` wants."""
USUAL = "geo"
LARGEST_PAYLOAD = 100_000_000


EPILOG = """\
exit codes: 0 all seeds ended well, 1 one did not, 2 bad input, 3 a regression, 130 interrupted;
with --bisect: 0 good, 1 a regression, 125 cannot tell.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser(
        "try",
        __doc__,
        EPILOG,
        usage="openbach-run try [SCENARIO] [NAME=VALUE …] --server COMMAND --client COMMAND",
    )
    add_testbed(cli, several_seeds=True)
    add = cli.add_argument
    add("--server", required=True, metavar="COMMAND", help="command on the server")
    add("--client", required=True, metavar="COMMAND", help="command on the client")
    text = "hosts of server and client (default: server pc)"
    add("--at", nargs=2, default=("server", "pc"), metavar=("HOST", "HOST"), help=text)
    add_file(cli, "another file or directory that both find, under its own name or NAME")
    add("--payload", metavar="SIZE", help="a file `payload` of random bytes for both, as 3M")
    text = "file that the client writes (- is what it prints); has to be the payload, if given"
    add("--received", metavar="NAME", help=text)
    add("--qlog", action="store_true", help="QLOGDIR is a directory that -o brings back")
    text = "virtual seconds after which a seed is ended (default 3600)"
    add("--limit", type=int, default=3600, metavar="S", help=text)
    text = "do not repeat the first seed, which shows whether the programs repeat themselves"
    add("--once", action="store_true", help=text)
    text = f"where {RESULTS} goes, and for each seed what the programs print and leave"
    add("-o", "--output", type=Path, metavar="DIR", help=text)
    add("--pcap", action="store_true", help="with -o: keep every packet, too")
    add("--against", type=Path, metavar="DIR", help="compare with what an earlier -o DIR has left")
    text = "with --against: how much slower is no regression (default 5%%)"
    add("--tolerance", metavar="PART", help=text)
    add("--junit", type=Path, metavar="FILE", help="write the verdict as JUnit's XML")
    add("--summary", type=Path, metavar="FILE", help="write it as Markdown")
    add("--bisect", action="store_true", help="with --against: exit codes for `git bisect run`")
    return cli


def main(argv: list[str]) -> int:
    """Try the programs; return the exit code. Raises InputError, SetupError, OSError."""
    arguments = parsed(parser(), argv)
    try:
        code = _tried(arguments)
    except (InputError, SetupError) as error:
        if not arguments.bisect:
            raise
        print(f"openbach-run: {error}", file=sys.stderr)
        return CANNOT_TELL
    if arguments.bisect:
        return {WELL: GOOD, REGRESSION: BAD}.get(code, CANNOT_TELL)
    return code


def _tried(arguments: argparse.Namespace) -> int:
    """Run all seeds, and print and write what became of them; return the exit code."""
    _check_options(arguments)
    seeds = parse_seeds(arguments.seeds)
    scenario, settings = _scenario(arguments.scenario, arguments.settings)
    testbed = checked_testbed(scenario, settings, arguments.seeds, options_of(arguments), "try")
    trial = _trial(arguments, testbed)
    tolerance = tolerance_of(arguments.tolerance or "5%")
    wanted = {
        "scenario": testbed.campaign.scenario.name,
        "values": testbed.campaign.cells[0],
        "seeds": list(seeds),
        "server": arguments.server,
        "client": arguments.client,
        "payload_bytes": trial.payload_bytes,
    }
    before: list[Seen] = []
    if arguments.against is not None:
        earlier, before = read_results(arguments.against)
        check_comparable(wanted, earlier, str(arguments.against))
    if not arguments.quiet:
        say_chosen(testbed)
    with shown_when_due(arguments.quiet) as show:
        engine, specs = testbed.prepared(show)
        show(f"{len(specs)} seeds", 0)
        seen, unsteady = try_seeds(engine, specs, trial, arguments.output, twice=not arguments.once)
        show(f"{len(specs)} seeds", 1)
    verdict = None if arguments.against is None else compared(seen, before, tolerance)
    _report(arguments, wanted, seen, verdict, unsteady)
    if verdict is not None and verdict.is_worse:
        return REGRESSION
    return FAILED if any(run.wrong for run in seen) else WELL


def _check_options(arguments: argparse.Namespace) -> None:
    """Raise InputError for options that do not go together."""
    for name in ("tolerance", "bisect"):
        if getattr(arguments, name) and arguments.against is None:
            raise InputError(f"--{name} goes with --against DIR")
    if arguments.output is None and (arguments.pcap or arguments.qlog):
        raise InputError("--pcap and --qlog: what they keep goes to the directory of -o DIR")
    if not 1 <= arguments.limit <= 10**6:
        raise InputError(f"--limit {arguments.limit}: from 1 to 1000000 virtual seconds")


def _scenario(first: str | None, settings: Sequence[str]) -> tuple[str, list[str]]:
    """Return the scenario and the values of a command line; without a scenario it is USUAL."""
    if first is None or "=" in first:
        return USUAL, [*([] if first is None else [first]), *settings]
    return first, list(settings)


def _trial(arguments: argparse.Namespace, testbed: Testbed) -> Trial:
    """Return what is tried. Raises InputError."""
    hosts = []
    for name in arguments.at:
        if name not in testbed.hosts:
            known = ", ".join(dict.fromkeys(testbed.hosts.values()))
            raise InputError(f"--at {name}: {near(name, testbed.hosts)}there are {known}")
        hosts.append(testbed.hosts[name])
    programs = [*programs_of(arguments.server), *programs_of(arguments.client)]
    files = input_files([*dict.fromkeys([*programs, *arguments.files])])
    size = 0 if arguments.payload is None else _size(arguments.payload)
    if size and any(file.name == "payload" for file in files):
        raise InputError("--payload: a file of --file is called payload, too")
    received = arguments.received
    if received is not None and received != "-" and Path(received).is_absolute():
        raise InputError(f"--received {received}: a name in the directory of the programs")
    return Trial(
        Program(hosts[0], arguments.server),
        Program(hosts[1], arguments.client),
        tuple(files),
        size,
        received,
        arguments.qlog,
        arguments.limit,
    )


def _size(text: str) -> int:
    size = number(plain(text, "bytes")) or 0
    if not 1 <= size <= LARGEST_PAYLOAD or size % 1:
        raise InputError(f"--payload {text}: from 1 byte to 100M; k and M are decimal")
    return int(size)


def _report(
    arguments: argparse.Namespace,
    wanted: dict[str, Any],
    seen: Sequence[Seen],
    verdict: Verdict | None,
    unsteady: str,
) -> None:
    """Print and write what became of all seeds."""
    text = summary(f"{arguments.client} over {wanted['scenario']}", seen, verdict, unsteady)
    print(text, end="")
    if arguments.output is not None:
        write_results(arguments.output / RESULTS, wanted, seen)
    if arguments.summary is not None:
        arguments.summary.parent.mkdir(parents=True, exist_ok=True)
        arguments.summary.write_text(text)
    if arguments.junit is not None:
        arguments.junit.parent.mkdir(parents=True, exist_ok=True)
        arguments.junit.write_text(junit("openbach-run try", seen, verdict))
