# SPDX-License-Identifier: GPL-3.0-or-later
"""The command openbach-run: its options, its sub-commands and its exit codes."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType

from openbach_run.clock import VIRTUAL
from openbach_run.commands.arguments import (
    add_controller,
    add_jobs,
    add_with,
    command_parser,
    parsed,
)
from openbach_run.errors import InputError, NoSuchScenario, SetupError
from openbach_run.progress import only_shown

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
TABLE_FORMATS = ("table", "markdown", "latex", "html")
COMMANDS = {
    "report": "openbach_run.commands.report",
    "artifact": "openbach_run.commands.artifact",
    "bundle": "openbach_run.commands.bundle",
    "calibrate": "openbach_run.commands.calibrate",
    "capture": "openbach_run.commands.capture",
    "collect": "openbach_run.commands.collect",
    "completion": "openbach_run.commands.completion",
    "exec": "openbach_run.commands.exec",
    "expand": "openbach_run.commands.expand",
    "export": "openbach_run.commands.export",
    "link": "satlink.command",
    "list": "openbach_run.commands.listing",
    "matrix": "openbach_run.commands.matrix",
    "notebook": "openbach_run.commands.notebook",
    "package": "openbach_run.commands.package",
    "python": "openbach_run.commands.python",
    "serve": "openbach_run.commands.serve",
    "shell": "openbach_run.commands.shell",
    "try": "openbach_run.commands.try_programs",
}
"""First argument → module, whose `main(argv)` takes the other arguments and returns the exit
code."""
WITHDRAWN = {
    "explain": (
        "explain is withdrawn; docs/trust.md says why. In its place, run the claims' cells as a"
        " campaign, with an assumption's values and five seeds: openbach-run claims"
        " return_loss=0 --results results/one_way (docs/guide.md)"
    ),
}
"""First argument that was a command → what took its place."""
RENAMED = {"archive": ("artifact", "--plain")}
"""First argument that is still understood → today's words."""

DESCRIPTION = """\
Runs an OpenBACH scenario of the SATCOM VPN/PEP testbed in virtual time, once per
combination of the values given for its arguments, and prints the transfer times.

commands (each has its own --help):
  openbach-run exec SCENARIO -- HOST 'COMMAND'…  commands on the hosts of a path, in virtual time
  openbach-run shell SCENARIO                    a prompt on the hosts of a path
  openbach-run try --server … --client …         your own programs at both ends, also for CI
  openbach-run report RESULTS… -o reports/NAME   the technical report; --paper: figures alone
  openbach-run python FILE, notebook FILE        Python and Jupyter with pandas, openbach_run
  openbach-run export RESULTS…                   their statistics, for InfluxDB
  openbach-run capture RUN --at HOST -o FILE     the packets of one host or interface
  openbach-run expand FILE… -o DIR               OpenBACH's JSON of scenarios written as YAML
  openbach-run link leo|acm|… -o FILE            link files: rate, delay and loss over time
  openbach-run list vpns|satellites|scenarios…   what a command can name
  openbach-run NAME --help                       the arguments of a scenario, defaults, units
  openbach-run matrix RESULTS… -o DIR            a site: VPN × link × transport, and each result
  openbach-run package -o DIR                    what an OpenBACH administrator imports
  openbach-run collect SCENARIO                  what has ended on an OpenBACH platform, as results
  openbach-run bundle -o FILE                    one file that runs anywhere, without network
  openbach-run artifact RESULTS… -o DIR          results, report, bundle, claims for evaluation
  openbach-run calibrate NAME                    what packets of VPNs cost this CPU (cpu=NAME)
  openbach-run serve                             a page; a controller for OpenBACH's web UI
"""

EPILOG = """\
examples:
  openbach-run scenarios/geo_loss.json
      the whole table: every VPN, congestion control and loss rate of the file
  openbach-run scenarios/geo_loss.json vpn=wireguard,openvpn_udp cc=bbr loss=0.5,2 --seeds 5
      four cells with five seeds each; a cell shows median, least and greatest
  openbach-run geo vpn=none cc=cubic --pcap
      one run; its packets are in results/geo/runs/<run id>/capture.pcapng, and the
      commands that built its hosts, link, tunnel and PEP in commands.sh beside it
  openbach-run library/campaigns/matrix.yml --dry-run
      how long the published report's 144 cells would take; without --dry-run they are run
  openbach-run --engine controller --controller 172.20.34.80 geo vpn=wireguard cc=bbr
      the same on a real OpenBACH platform, one run after the other
  openbach-run --check my_scenario.json --jobs ~/openbach/src/jobs --format json
      what the real OpenBACH backend would answer to this scenario

Finished runs are kept in the results directory and not repeated: a command that was
interrupted goes on where it was. exit codes: 0 all well, 1 a run failed, 2 bad input,
3 worse (--against), 130 interrupted.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `openbach-run SCENARIO …`; each command has its own."""
    cli = command_parser("", DESCRIPTION, EPILOG)
    # --help lists the options in this order.
    _add_values(cli)
    _add_execution(cli)
    _add_engine(cli)
    _add_own(cli)
    add = cli.add_argument
    add("--check", action="store_true", help="only check the scenario as the real backend does")
    add("--quiet", action="store_true", help="no progress")
    add("--version", action=_Version, nargs=0, help="print the version")
    return cli


def _add_values(cli: argparse.ArgumentParser) -> None:
    """Add what is run: the scenario, its values, its seeds."""
    add = cli.add_argument
    text = (
        "scenario file (.json, .yml) or campaign file (.yml), or the name of one in scenarios/,"
        " campaigns/ or topologies/"
    )
    add("scenario", metavar="SCENARIO", help=text)
    text = (
        "value of an argument or constant of the scenario; several values are swept;"
        " vpn.NAME=VALUE is a setting of the VPN, as vpn.cipher=AES-256-CBC (docs/vpns.md)"
    )
    add("settings", metavar="NAME=VALUE[,VALUE…]", nargs="*", help=text)
    text = (
        "how many seeds (1 to N), or which ones: '3,7', just '7,' (default 5 if anything is"
        " random, else 1; or as in the campaign file)"
    )
    add("--seeds", metavar="N|A,B,…", help=text)


def _add_execution(cli: argparse.ArgumentParser) -> None:
    """Add the options on how runs are executed, and on what they leave."""
    add = cli.add_argument
    text = "runs at the same time (default: the CPUs this process may use)"
    add("--workers", type=int, metavar="N", help=text)
    text = (
        "run on the workers of this Dask scheduler, tcp://HOST:8786, that have this checkout"
        " (docs/clusters.md)"
    )
    add("--scheduler", metavar="ADDRESS", help=text)
    text = "only print the number of runs to do, their time and size"
    add("--dry-run", action="store_true", help=text)
    text = "make what the runs need (kernel, guest, …), and run nothing"
    add("--prepare", action="store_true", help=text)
    text = "where records and results.csv go (default results/<scenario>)"
    add("--results", type=Path, metavar="DIR", help=text)
    text = "then write their technical report there (openbach-run report)"
    add("--report", type=Path, metavar="DIR", help=text)
    text = "then compare with earlier results, cell by cell and seed by seed; exit code 3: worse"
    add("--against", type=Path, metavar="DIR", help=text)
    text = "with --against: how much worse is no regression (default 5%%)"
    add("--tolerance", metavar="PART", help=text)
    add("--rerun", action="store_true", help="run again what has already finished")
    text = "keep every packet of every interface (some 300 MB for 30 MB transferred)"
    add("--pcap", action="store_true", help=text)
    text = (
        "with --pcap: also keep the keys of WireGuard tunnels, to decrypt their packets, and the"
        " qlog of QUIC (docs/captures.md)"
    )
    add("--keys", action="store_true", help=text)
    text = "refuse other Debian and Python packages than the locked ones (exit code 2)"
    add("--locked", action="store_true", help=text)
    text = "output format (default table)"
    add("--format", choices=[*TABLE_FORMATS, "csv", "json"], default="table", help=text)


def _add_engine(cli: argparse.ArgumentParser) -> None:
    """Add the options on what executes the runs."""
    add = cli.add_argument
    text = (
        "where the runs go: virtual (virtual time on this machine, default), native (this"
        " machine's kernel, real time) or controller (a real OpenBACH platform)"
    )
    add("--engine", choices=["virtual", "native", "controller"], default="virtual", help=text)
    text = (
        "clock of the virtual engine (default virtual); real, or real/N, which is N times slower,"
        " validate it (docs/native.md)"
    )
    add("--clock", metavar="CLOCK", default=VIRTUAL, help=text)
    add_controller(cli)


def _add_own(cli: argparse.ArgumentParser) -> None:
    """Add the options that name what is the user's own."""
    add_with(
        cli,
        "your VPNs, congestion controls, jobs, satellites, topologies, scenarios: a directory"
        " with folders called as in this checkout (vpn-configs/NAME, congestion-controls/NAME,"
        " …; docs/additions.md)",
    )
    add_jobs(cli)
    text = (
        "hosts, networks and routes to run on (default: the inventory that the scenario names,"
        " else inventory.yml)"
    )
    cli.add_argument("--inventory", type=Path, metavar="FILE", help=text)


class _Version(argparse.Action):
    """The option --version.

    It asks git only when it is used, since git takes longer than the rest of this module.
    """

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from openbach_run.version import version

        print(f"openbach-run {version()}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit code.

    `argv` is without the program's name; None means that of this process.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    # SIGTERM ends as Ctrl-C does: guests are ended, and what finished is kept.
    signal.signal(signal.SIGTERM, _interrupt)
    with only_shown():
        return _main(words)


def _main(words: Sequence[str]) -> int:
    """Run a command; return its exit code. Known errors become a line on stderr."""
    if words and words[0] in RENAMED:
        today = RENAMED[words[0]]
        print(f"openbach-run: {words[0]} is now {' '.join(today)}", file=sys.stderr)
        words = [*today, *words[1:]]
    try:
        if words and words[0] in COMMANDS:
            # Only the module of this command: each imports what the others have no use for.
            code: int = import_module(COMMANDS[words[0]]).main(words[1:])
            return code
        if words and words[0] in WITHDRAWN:
            raise InputError(WITHDRAWN[words[0]])
        if not words:
            example = "name a scenario, such as scenarios/geo_loss.json"
            raise InputError(f"{example}; openbach-run --help has all commands")
        if not words[0].startswith("-") and {"-h", "--help"} & {*words}:
            return _help(words)
        arguments = parsed(parser(), words)
        # Late, as it takes long: --help, a mistyped option and the other commands need none of it.
        from openbach_run.commands.run import run

        return run(arguments)
    except InputError as error:
        print(f"openbach-run: {_meant(words, error) or error}", file=sys.stderr)
        return BAD_INPUT
    except SetupError as error:
        print(f"openbach-run: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        print(
            f"openbach-run: {_first(error)}. What finished is kept; the same command goes on from"
            " there",
            file=sys.stderr,
        )
        return FAILED
    except KeyboardInterrupt:
        print(
            "openbach-run: interrupted. What finished is kept; the same command goes on from there",
            file=sys.stderr,
        )
        return INTERRUPTED


def _help(words: Sequence[str]) -> int:
    """Print the help of the scenario that is the first word. Raises InputError."""
    from openbach_run.commands.run import options_of
    from openbach_run.commands.scenario_help import help_of

    rest = [word for word in words if word not in ("-h", "--help")]
    arguments = parsed(parser(), rest)
    print("\n".join(help_of(arguments.scenario, options_of(arguments))))
    return OK


def _meant(words: Sequence[str], error: InputError) -> str:
    """Return the text of the error where the first word is like a command; "" if it is not."""
    if not isinstance(error, NoSuchScenario) or not words:
        return ""
    from difflib import get_close_matches

    close = get_close_matches(words[0], [*COMMANDS, *RENAMED], 1, cutoff=0.7)
    begin = f"{words[0]}: no such command, scenario or campaign; did you mean the command"
    return f"{begin} {close[0]}? `openbach-run list` has the other names" if close else ""


def _first(error: OSError) -> OSError:
    """Return the first error that names a file.

    After an error the finished runs are written down, and this may fail for the same reason.
    """
    # Python keeps what was being handled when another error came: the chain leads to the first.
    first, cause = error, error.__context__
    while isinstance(cause, OSError):
        first = cause if cause.filename else first
        cause = cause.__context__
    return first


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Interrupt the command, as Ctrl-C does."""
    raise KeyboardInterrupt
