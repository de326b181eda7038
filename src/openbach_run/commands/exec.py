# SPDX-License-Identifier: GPL-3.0-or-later
r"""`openbach-run exec SCENARIO -- HOST 'COMMAND'…`: runs commands on the hosts of a path.

Brings a scenario's path up, and then runs commands on its hosts in place of the scenario's
own measurement. Time is virtual: five pings over a GEO satellite take a second.

  openbach-run exec geo vpn=wireguard loss=1 -- pc 'ping -c 5 server'
  openbach-run exec geo -- pc 'iperf3 -c server -R -n 3M' server 'ss -ti'
  openbach-run exec geo -o out -- st 'tcpdump -i to_sat -w st.pcap &' pc 'ping -c 3 server'
  openbach-run exec geo --file ./server --script lines.txt
  openbach-run exec geo vpn=none,wireguard cc=cubic --seeds 5 \
      --measure 'rtt_ms=time=([\d.]+) ms' -- pc 'ping -c 5 server'

Each command is one word, for a shell on the host before it. They run one after the other;
one that ends with & goes on while the next ones run, `wait` waits for all that run, and what
still runs after the last one is ended. Hosts are called by their names: server, and
box.access for box in the network access. A script has a line HOST COMMAND for each command.

With --measure it is a scenario that is run: several values and seeds, a table, a report, with
the options of `openbach-run SCENARIO`. The group of REGEX is a number in what the last command
prints, NAME@2=… of the second; the column is the median of all. NAME=seconds and NAME=exit_code
are the command's. If nothing fits the run fails, unless the column is called NAME?.

The commands run in a directory that all hosts share. It has the files of --file, and -o DIR
brings back what is in it at the end. The scenario's servers run, too (iperf3 on port 5201).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openbach_run.campaign.options import Options
from openbach_run.commands import measured
from openbach_run.commands.arguments import add_file, add_jobs, add_with, command_parser, parsed
from openbach_run.errors import InputError
from openbach_run.json_files import read_text
from openbach_run.openbach.lines import Command, Entry, check_jobs, in_words, of_script, of_words
from openbach_run.progress import shown, shown_when_due
from openbach_run.prompt.session import (
    Session,
    bring,
    input_files,
    left_files,
    run,
    run_directory,
)
from openbach_run.prompt.testbed import Testbed, checked_testbed
from openbach_run.results.record import FINISHED

NOT_FOUND = re.compile(r"([\w.-]+): (?:command )?not found")
NEEDED_BY = {"resolvconf": ", which a line DNS = of wg-quick needs: leave the line out"}
"""Words of shells on a program that is not there, and who calls it without the user's knowledge."""
LIMIT_S, LONGEST_S = 4 * 3600, 10**6

EPILOG = """\
exit codes: 0 all commands ended well, 1 one did not, or the path did not come up, 2 bad input,
130 interrupted.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser(
        "exec",
        __doc__,
        EPILOG,
        usage="openbach-run exec SCENARIO [NAME=VALUE …] [options] -- HOST 'COMMAND' …",
    )
    add_testbed(cli)
    add = cli.add_argument
    add("--script", type=Path, metavar="FILE", help="commands, a line HOST COMMAND for each")
    text = f"virtual seconds after which all is ended (default {LIMIT_S})"
    add("--limit", type=int, default=LIMIT_S, metavar="S", help=text)
    text = "a column; with it all options of `openbach-run SCENARIO` are taken"
    add(measured.MEASURE, action="append", metavar="NAME=REGEX", help=text)
    add("--seeds", metavar="N|A,B,…", help="with --measure: how many, or which ones")
    add_files(cli)
    return cli


def add_testbed(
    cli: argparse.ArgumentParser, *, several_seeds: bool = False, optional: bool = False
) -> None:
    """Add the arguments that say which testbed is brought up."""
    add = cli.add_argument
    text = "scenario file, or the name of one" + (" (default geo)" if several_seeds else "")
    add("scenario", metavar="SCENARIO", nargs="?" if several_seeds or optional else None, help=text)
    text = "value of an argument or constant of the scenario; without one, its first value"
    add("settings", metavar="NAME=VALUE", nargs="*", help=text)
    if several_seeds:
        text = "how many seeds (1 to N), or which ones: '3,7' (default 5)"
        add("--seeds", default="5", metavar="N|A,B,…", help=text)
    else:
        add("--seed", type=int, default=1, metavar="N", help="seed of all chance (default 1)")
    text = "hosts, networks and routes (default: those that the scenario names)"
    add("--inventory", type=Path, metavar="FILE", help=text)
    text = "refuse other Debian and Python packages than the locked ones (exit code 2)"
    add("--locked", action="store_true", help=text)
    add_with(cli, "your VPNs, jobs, scenarios and so on (docs/additions.md)")
    add_jobs(cli)
    add("--quiet", action="store_true", help="only what the commands print")


def add_files(cli: argparse.ArgumentParser) -> None:
    """Add the options for files that go to the hosts, and come back."""
    add_file(cli, "file or directory that the commands find, under its own name or NAME")
    add = cli.add_argument
    text = "where the files go that the commands have left"
    add("-o", "--output", type=Path, metavar="DIR", help=text)
    add("--pcap", action="store_true", help="with -o: keep every packet of every interface, too")


def main(argv: list[str]) -> int:
    """Run the commands; return the exit code. Raises InputError, SetupError, OSError."""
    before, words = _split(argv)
    if measured.is_measured(before):
        return measured.main(before, words)
    arguments = parsed(parser(), before)
    if arguments.pcap and arguments.output is None:
        raise InputError("--pcap: the capture goes to the directory of -o DIR")
    if arguments.seeds is not None:
        raise InputError("--seeds: with --measure only; --seed N is another seed of one run")
    if not 0 <= arguments.seed < 2**31:
        raise InputError(f"--seed {arguments.seed}: from 0 to {2**31 - 1}")
    if not 1 <= arguments.limit <= LONGEST_S:
        raise InputError(f"--limit {arguments.limit}: from 1 to {LONGEST_S} virtual seconds")
    files = input_files(arguments.files)
    options, seeds = options_of(arguments), f"{arguments.seed},"
    testbed = checked_testbed(arguments.scenario, arguments.settings, seeds, options, "exec")
    entries = _entries(arguments.script, words, testbed.hosts)
    check_jobs(entries, testbed.campaign.job_names)
    if not arguments.quiet:
        say_chosen(testbed)
    with shown_when_due(arguments.quiet) as show:
        engine, specs = testbed.prepared(show)
    with run_directory(files) as run_dir:
        printer = Printer(entries, quiet=arguments.quiet)
        session = run(
            engine,
            {**specs[arguments.seed], "virtual_limit_s": arguments.limit},
            entries,
            run_dir,
            printer.on_event,
        )
        _files(run_dir, arguments.output, arguments.quiet)
    return _verdict(session, entries, printer, arguments.quiet)


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words before `--`, and those after it."""
    words = list(argv)
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def options_of(arguments: argparse.Namespace) -> Options:
    """Return the options of a testbed's engine."""
    return Options(
        pcap=getattr(arguments, "pcap", False),
        locked=arguments.locked,
        additions=tuple(arguments.with_dirs),
        jobs=tuple(arguments.jobs),
        inventory=arguments.inventory,
    )


def _entries(script: Path | None, words: Sequence[str], hosts: Mapping[str, str]) -> list[Entry]:
    """Return the commands of the script and of the command line. Raises InputError."""
    if script is None:
        return of_words(words, hosts)
    if words:
        raise InputError("--script has the commands; give them there or after --, not both")
    return of_script(read_text(script), str(script), hosts)


def say_chosen(testbed: Testbed) -> None:
    """Print the values that nobody has given, where the scenario has several, and VPN files."""
    for config in testbed.campaign.vpn_configs.values():
        print(f"openbach-run: note: {config.in_words()}", file=sys.stderr)
    chosen = [f"{name}={value}" for name, value in testbed.chosen.items()]
    if chosen:
        print(f"openbach-run: {' '.join(chosen)} (not given)", file=sys.stderr)


class Printer:
    """Prints what commands print, as it comes: on stdout what they have on theirs."""

    def __init__(self, entries: Sequence[Entry], *, quiet: bool) -> None:
        self._entries, self._quiet = entries, quiet
        self._lasting: set[int] = set()
        self.running: set[int] = set()
        """The commands that have begun and not ended."""
        self._gap = ""
        """Text that ends a line that a command has left without an end."""
        self._partial: dict[tuple[int, int], str] = {}
        self._absent: dict[int, str] = {}
        """Hints on commands that called a program which is not there, by number."""

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Print a line of the guest's output (guest/typed.py)."""
        if "of" in event:
            self._printed(event["of"], event["stream"], event["text"])
        elif "begun" in event:
            self.running.add(event["begun"])
            if not self._quiet:
                self._say(event["t_s"], self._command(event["begun"]).line)
        elif "ended" in event:
            self.running.discard(event["ended"])
            self._finish(event["ended"])
            if event["code"] and event["ended"] not in self._lasting and not self._quiet:
                why = f"{in_words(event['code'])}{self._absent.get(event['ended'], '')}"
                self._say(event["t_s"], f"{self._named(event['ended'])}: {why}")
        elif "lasting" in event:
            self._lasting.update(event["lasting"])

    def _say(self, time_s: float, text: str) -> None:
        sys.stdout.flush()
        print(f"{self._gap}{time_s:8.2f} s  {text}", file=sys.stderr, flush=True)
        self._gap = ""

    def _command(self, number: int) -> Command:
        entry = self._entries[number]
        assert isinstance(entry, Command)
        return entry

    def _named(self, number: int) -> str:
        command = self._command(number)
        return f"{command.host} {command.text.split()[0]}"

    def _printed(self, number: int, stream: int, text: str) -> None:
        to = sys.stdout if stream == 1 else sys.stderr
        if stream == 2 and (match := NOT_FOUND.search(text)):
            hint = NEEDED_BY.get(match[1], "")
            self._absent[number] = (
                f"; the testbed has no program {match[1]}{hint}; the commands after it go on"
            )
        if self._command(number).apart:
            # Of several at once, whole lines, each with its host.
            *lines, rest = (self._partial.pop((number, stream), "") + text).split("\n")
            self._partial[number, stream] = rest
            text = "".join(f"{self._command(number).host}: {line}\n" for line in lines)
        printed = text.encode("latin-1")
        if to.isatty():
            # The hosts' programs may be somebody else's: no orders to the person's terminal.
            to.write(shown(printed.decode(errors="replace")))
        else:
            to.buffer.write(printed)
        to.flush()
        if text:
            self._gap = "" if text.endswith("\n") else "\n"

    def _finish(self, number: int) -> None:
        """Print the last line of a command whose last line has no end."""
        for stream in (1, 2):
            if rest := self._partial.pop((number, stream), ""):
                self._printed(number, stream, f"{rest}\n")


def _files(run_dir: Path, output: Path | None, quiet: bool) -> None:
    """Bring back what the commands have left, or say what there is."""
    left = left_files(run_dir)
    if output is not None:
        for text in bring(run_dir, left, output):
            print(f"openbach-run: not brought back: {text}", file=sys.stderr)
        if left and not quiet:
            print(f"openbach-run: {output}: {', '.join(left)}", file=sys.stderr)
    elif left and not quiet:
        print(f"openbach-run: left: {', '.join(left)}; -o DIR brings it back", file=sys.stderr)


def _verdict(session: Session, entries: Sequence[Entry], printer: Printer, quiet: bool) -> int:
    """Return the exit code; print why a run ended that did not end by itself."""
    if session.outcome.status != FINISHED:
        for number in sorted({*printer.running, *session.lasting}):
            print(f"openbach-run: did not end: {entries[number].line}", file=sys.stderr)
        print(f"openbach-run: {session.outcome.error}", file=sys.stderr)
        return 1
    lasting = sorted(session.lasting)
    if lasting and not quiet:
        names = [entries[number].line for number in lasting]
        print(f"openbach-run: ended with the run: {'; '.join(names)}", file=sys.stderr)
    return int(any(end.code for end in session.ended.values() if end.number not in lasting))
