# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of `openbach-run link`, and what its --help says."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openbach_jobs import constellation, dvbs2, netem
from satlink import acm, fit, mahimahi, rtt
from satlink.formats import table

IMPORT = f"""\
Makes one link file of what was measured, in one file or in several. What a file is, its content
says; known are {table.KNOWN}.

A file that says its time of day is aligned by it with others that do. What a file does not say is
assumed, and printed; `link rtt --help` says what becomes of probes. A line that is not understood
is named.
"""
TLE = """\
A link over the satellites of a file of two-line elements (TLE), as CelesTrak publishes them: where
SGP4 has them. Every --handover-s that satellite is taken which stays highest until the next choice,
seen from the place that sees it lower. --like adds the reconfigurations of a satellite: what they
lose and hold, and steps of delay and rate. Without it a change of the satellite holds packets for
--outage-ms, and loses none.

  openbach-run link tle oneweb.tle --terminal 43.60,1.44 --gateway 38.87,-9.28 -o oneweb.csv
"""
OPENSAND = """\
Reads OpenSAND's files, and tells them by their content.

Delay files (satellite delay of type "FileDelay") make a link file. A line has a time, counted in
refresh periods, and the delay in ms between one ground entity and the satellite; # begins a
comment. Between two lines OpenSAND interpolates in whole milliseconds.

topology.xml and profile.xml, of OpenSAND 6 and later, make a satellite (NAME.yml) whose return link
has to be asked for and whose forward link is in frames: carriers, symbol rates, waveform, Es/N0,
superframe, what a terminal has and may ask for, delay, simulated terminals. Each line of them that
is not modelled is named, and why.

  openbach-run link opensand topology.xml st/profile.xml gw/profile.xml -o mine.yml
  mkdir -p mine/satellites; mv mine.yml mine/satellites/
  openbach-run rcs2 orbit=mine --with mine
"""
COMPARE = """\
Prints the statistics of two links side by side, and draws them: quantiles of the RTT within and
around reconfigurations, bursts of loss, rates of intervals, autocorrelation. A and B are
measurements (files that `link import` reads), link files, or satellites (a name or NAME.yml).
Several files of one measurement are joined by +: forward:down.trace+delays.txt (return: as well).
A satellite is pinged as often as the other side, for at least half an hour.
With a measurement as A and a satellite as B, "by chance" is where 90 % of the draws of B lie that
are as short as A: a trace of a few reconfigurations differs even from the satellite that made it.
"beyond" marks a statistic of A that does not lie there.

  openbach-run link fit trace.txt --to-s 80 -o mine.yml
  openbach-run link compare trace.txt mine.yml --from-s 80 -o mine.svg
"""
TLE_VALUES = (
    "elevation_mask_deg", "handover_s", "ground_delay_ms", "outage_ms", "step_s", "rate_bps",
)  # fmt: skip
"""Parameters of a constellation that a link over published orbits has, too."""

DESCRIPTION = """\
Makes link files, checks them and draws them. A link file is CSV: from time_s on, a
direction of the satellite link has this rate, delay and loss (docs/reference.md).

  time_s,direction,rate_bps,delay_ms,loss_pct
  0,both,10000000,250,0
  12.5,forward,4000000,,
"""

EPILOG = """\
examples:
  openbach-run link leo --duration-s 600 -o leo.csv
      satellite passes and handovers, seen from Toulouse; every parameter is an option
  openbach-run link acm --seed 3 --duration-s 3600 -o rain.csv
      a DVB-S2 link that adapts its MODCOD to a rain fade
  openbach-run link acm --es-n0 --terminal 1 -o fade.csv
      the Es/N0 of a terminal of a forward link in frames (es_n0_file=fade.csv)
  openbach-run link mahimahi up.trace down.trace --delay-ms 20 -o cellular.csv
  openbach-run link import ping.txt iperf3.json -o measured.csv
  openbach-run link import --forward down.trace delays.txt -o starlink.csv
      what somebody measured: rate, delay and loss together
  openbach-run link import ping.txt --rate-of speed.csv -o measured.csv
      the rate of one, delay and loss of the other; speed.csv alone leaves these to the scenario
  openbach-run link check leo.csv && openbach-run link plot leo.csv -o leo.svg

A file that cannot be made whole is not made. exit codes: 0 all well, 2 bad input.
"""


Command = Callable[..., argparse.ArgumentParser]
"""Adds a subcommand of a name, a line of help and a description."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    raw = argparse.RawDescriptionHelpFormatter
    link_parser = argparse.ArgumentParser(
        "openbach-run link", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw
    )
    commands = link_parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, what: str, description: str | None = None) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=what, description=description, formatter_class=raw)

    generators, readers = _add_generators(command), _add_readers(command)
    _add_fit(command)
    _add_compare(command)
    for generator in generators:
        _value(generator, "--duration-s", "how much is written (default 600)", 600.0)
    for maker in (*generators, *readers):
        what = "the link file, or NAME.yml" if maker.prog.endswith("opensand") else "the link file"
        _add_output(maker, "FILE", what)
        _flag(maker, "--quiet", "no progress")

    of_check = "says what is wrong with a link file or a file of Es/N0, or what is in it"
    check = command("check", of_check)
    _path(check, "file", None)

    plot = command("plot", "draws rate, delay and loss over time")
    _path(plot, "file", None)
    _add_output(plot, "FIGURE", ".svg, .pdf or .png")
    return link_parser


def _add_generators(command: Command) -> tuple[argparse.ArgumentParser, ...]:
    """Add the subcommands that calculate a link; return their parsers."""
    leo = command("leo", "over a constellation of low satellites (docs/method/README.md)")
    _add_parameters(leo, constellation.Constellation)

    rain = command("acm", "DVB-S2 in the rain, with adaptive coding and modulation", acm.__doc__)
    _add_parameters(rain, acm.Acm)
    what = "write Es/N0 over time, for es_n0_file of a forward link in frames"
    _flag(rain, "--es-n0", f"{what}, in place of a link file")
    what = "with --es-n0: whose it is, a number from 0 on, or all (default all)"
    _text(rain, "--terminal", "N", what, default=dvbs2.ALL)

    orbits = command("tle", "over the satellites of a file of two-line elements", TLE)
    _add_tle(orbits)
    return leo, orbits, rain


def _add_readers(command: Command) -> tuple[argparse.ArgumentParser, ...]:
    """Add the subcommands that read a link from files; return their parsers."""
    traces = command("mahimahi", "from packet-delivery traces", mahimahi.__doc__)
    _path(traces, "up", "trace of the return direction (from the user)", metavar="UP")
    _path(traces, "down", "trace of the forward direction (to the user)", metavar="DOWN")
    what = "time over which packets are a rate, 1 to 10000 (default 100)"
    _value(traces, "--bin-ms", what, 100)
    _value(traces, "--delay-ms", "one way; traces have none (default 250)")

    of_opensand = "from OpenSAND's delay files, or a satellite from its topology and profile"
    delays = command("opensand", of_opensand, OPENSAND)
    _add_opensand(delays)

    of_all = "from measurements of any kind: rate, delay and loss together"
    measured = command("import", of_all, IMPORT)
    _add_files(measured)
    what = (
        "a file of which only the rate is taken; without others delay and loss are the scenario's"
    )
    _path(measured, "--rate-of", what, action="append", default=[])
    trips = command("rtt", "from round-trip times, as `import` of one file", rtt.__doc__)
    trips.set_defaults(forward=[], back=[])
    _path(trips, "file", "any file that `link import` reads", nargs=1)
    for subcommand in (measured, trips):
        _add_import(subcommand)
    return traces, delays, measured, trips


def _add_fit(command: Command) -> None:
    of_fit = "a satellite's file from measurements, with the uncertainty of each value"
    fitted = command("fit", of_fit, fit.__doc__)
    _add_files(fitted)
    _add_reading(fitted)
    what = "time between two reconfigurations (default: found, or 15 if nothing tells it)"
    _value(fitted, "--grid-s", what)
    _add_part(fitted)
    _add_output(fitted, "FILE", "the satellite, NAME.yml")


def _add_compare(command: Command) -> None:
    of_two = "two links side by side: measurements, link files or satellites"
    compared = command("compare", of_two, COMPARE)
    compared.set_defaults(forward=[], back=[])
    compared.add_argument("one", metavar="A", help="a measurement, a link file or a satellite")
    compared.add_argument("other", metavar="B", help="the same")
    _add_reading(compared)
    _add_part(compared)
    _value(compared, "--seed", "of what a satellite draws by chance (default 1)", 1)
    _add_output(compared, "FIGURE", "one picture: .svg, .pdf or .png", required=False)


def _add_output(
    parser: argparse.ArgumentParser, metavar: str, what: str, *, required: bool = True
) -> None:
    """Add the file that a command writes."""
    parser.add_argument("-o", "--output", type=Path, required=required, metavar=metavar, help=what)


Arguments = argparse._ActionsContainer
"""A parser, or a group of its options."""


def _value(to: Arguments, option: str, what: str, default: float | None = None) -> None:
    """Add an option with a number, whole where its default is."""
    kind = int if isinstance(default, int) else _rate if option.endswith("rate-bps") else float
    to.add_argument(option, type=kind, default=default, help=what)


def _text(to: Arguments, option: str, metavar: str, what: str, **more: Any) -> None:
    """Add an option with a text."""
    to.add_argument(option, metavar=metavar, help=what, **more)


def _flag(to: Arguments, option: str, what: str) -> None:
    """Add an option without a value."""
    to.add_argument(option, action="store_true", help=what)


def _path(
    to: Arguments, name: str, what: str | None, *, metavar: str = "FILE", **more: Any
) -> None:
    """Add an argument that is a file, or several."""
    to.add_argument(name, type=Path, metavar=metavar, help=what, **more)


OPENSAND_FILES = """\
delays between terminal and satellite, then between gateway and satellite (default: the same); or
topology.xml, the terminal's profile.xml, and if you have them the gateway's profile.xml and the
terminal's infrastructure.xml"""
REFRESH = "OpenSAND's parameter of that name (default 1000)"


def _add_opensand(parser: argparse.ArgumentParser) -> None:
    """Add files and options of what OpenSAND has."""
    _path(parser, "file", OPENSAND_FILES.replace("\n", " "), nargs="+")
    of_delays = parser.add_argument_group("delay files")
    of_delays.add_argument("--refresh-period-ms", type=int, help=REFRESH)
    _flag(of_delays, "--loop", "begin again after the last delay, as OpenSAND's `loop`")
    of_models = parser.add_argument_group("topology and profile")
    _value(of_models, "--delay-ms", "one way over both hops (default: of the profiles)")
    _text(of_models, "--gateway-id", "ID", "whose spot it is (default: of the topology)")
    what = (
        "of each direction, as 20M (default 10M); with a topology of the forward direction"
        " (default: its carrier and MODCOD)"
    )
    _text(parser, "--rate-bps", "RATE", what, type=_rate)


def _add_tle(parser: argparse.ArgumentParser) -> None:
    """Add file, places and values of a link over published orbits."""
    _path(parser, "file", "elements, two or three lines each")
    for name, text in (("terminal", "the user's terminal"), ("gateway", "the gateway")):
        _text(parser, f"--{name}", "LAT,LON", f"{text}, in degrees: 43.60,1.44", required=True)
    _text(parser, "--start", "TIME", "time of day at 0 s, UTC (default: of the newest elements)")
    what = "a satellite whose reconfigurations and rates are on top"
    _text(parser, "--like", "NAME", what)
    _value(parser, "--seed", "of what --like draws by chance (default 1)", 1)
    known = constellation.Constellation.parameters()
    for name in TLE_VALUES:
        parameter = known[name]
        what = f"{parameter.meaning} (default {parameter.default:g})"
        _value(parser, "--" + name.replace("_", "-"), what)


def _add_files(parser: argparse.ArgumentParser) -> None:
    """Add the files of a command that takes several."""
    _path(parser, "file", "of both directions, or as it says", nargs="*")
    several: dict[str, Any] = {"action": "append", "default": []}
    what = "a file of the forward direction (to the user); may be given several times"
    _path(parser, "--forward", what, **several)
    what = "a file of the return direction (from the user)"
    _path(parser, "--return", what, dest="back", **several)


def _add_part(parser: argparse.ArgumentParser) -> None:
    """Add the options that leave out a part of the measurements."""
    _value(parser, "--from-s", "begin so long after the begin (default 0)", 0.0)
    _value(parser, "--to-s", "end so long after the begin (default: all)")


def _add_import(parser: argparse.ArgumentParser) -> None:
    """Add the options of the commands that make a link file of measurements."""
    what = "time over which probes are one delay and one loss (default: see `link rtt --help`)"
    _value(parser, "--bin-s", what)
    _add_reading(parser)
    what = "of each direction whose rate no file has, as 20M (default 10M)"
    _text(parser, "--rate-bps", "RATE", what, type=_rate)
    _value(parser, "--delay-ms", "one way, where no file has a delay (default 250)")
    _flag(parser, "--loop", "begin again after the end")


READING = {
    "--interval-s": (
        "time between two probes of a ping without -D (default: as ping says, else 1)",
        None,
    ),
    "--bin-ms": ("mahimahi: time over which packets are a rate (default 100)", 100),
    "--delay-period-ms": ("time between two lines of a trace of delays (default 10)", 10.0),
    "--refresh-period-ms": (REFRESH, 1000),
}
"""Options of all commands that read measurements: their text, and the default."""
READING_FLAGS = {
    "--take-throughput": (
        "the Starlink dish: the throughput that was used is the rate of the link"
    ),
    "--gaps-are-lost": "CSV in which no probe is marked as lost: gaps are lost probes",
    "--times-of-answers": ("CSV whose times are those of the answers, as `ping -D` writes them"),
}


def _add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options of all commands that read measurements."""
    for option, (what, default) in READING.items():
        _value(parser, option, what, default)
    what = (
        "of several measurements in a file: a column's value, prb_id of RIPE Atlas, target of"
        " fping, ping of flent; may be given several times"
    )
    _text(parser, "--only", "NAME=VALUE", what, action="append", default=[])
    for option, what in READING_FLAGS.items():
        _flag(parser, option, what)


def _rate(text: str) -> float:
    """Return the rate in bit/s of an option, as 20M or 20000000."""
    try:
        return netem.number(text, 1.0, 1e12, "a rate in bit/s above 0, as 20M")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _add_parameters(parser: argparse.ArgumentParser, model: type[constellation.Model]) -> None:
    """Add an option for each parameter of a model."""
    for name, parameter in model.parameters().items():
        what = f"{parameter.meaning} (default {parameter.default:g})"
        _value(parser, "--" + name.replace("_", "-"), what, parameter.default)
