# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run link`: makes link files, checks them and draws them."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openbach_jobs import constellation, dvbs2, link_file, netem, presets, reconfigurations
from openbach_run.catalog import Catalog
from openbach_run.errors import InputError
from openbach_run.progress import Reporter
from openbach_run.satellite import acm, fit, imported, mahimahi, opensand, rtt
from openbach_run.satellite.checks import is_es_n0_file, read_preset
from openbach_run.satellite.formats import table
from openbach_run.satellite.measured import Given, Probes

if TYPE_CHECKING:
    from openbach_run.satellite.compare import Side

ASSUMED = "assumed: "
"""The start of a comment that is also printed."""
RATE_BPS, DELAY_MS = imported.RATE_BPS, imported.DELAY_MS
"""The rate and the delay of a source that has none."""
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
    "elevation_mask_deg",
    "handover_s",
    "ground_delay_ms",
    "outage_ms",
    "step_s",
    "rate_bps",
)
"""Parameters of a constellation that a link over published orbits has, too."""
QUIET_S = 2.0
"""Seconds after which a task reports its progress."""

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
  openbach-run link check leo.csv && openbach-run link plot leo.csv -o leo.svg

A file that cannot be made whole is not made. exit codes: 0 all well, 2 bad input.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    raw = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(
        "openbach-run link", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw
    )
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True)

    leo = commands.add_parser(
        "leo", help="over a constellation of low satellites (docs/method/README.md)"
    )
    leo.set_defaults(make=_leo)
    _add_parameters(leo, constellation.Constellation)

    rain = commands.add_parser(
        "acm",
        help="DVB-S2 in the rain, with adaptive coding and modulation",
        description=acm.__doc__,
        formatter_class=raw,
    )
    rain.set_defaults(make=_acm)
    _add_parameters(rain, acm.Acm)
    rain.add_argument(
        "--es-n0",
        action="store_true",
        help="write Es/N0 over time, for es_n0_file of a forward link in frames, in place of a link"
        " file",
    )
    rain.add_argument(
        "--terminal",
        default=dvbs2.ALL,
        metavar="N",
        help="with --es-n0: whose it is, a number from 0 on, or all (default all)",
    )

    orbits = commands.add_parser(
        "tle",
        help="over the satellites of a file of two-line elements",
        description=TLE,
        formatter_class=raw,
    )
    orbits.set_defaults(make=_tle)
    _add_tle(orbits)

    traces = commands.add_parser(
        "mahimahi",
        help="from packet-delivery traces",
        description=mahimahi.__doc__,
        formatter_class=raw,
    )
    traces.set_defaults(make=_mahimahi)
    traces.add_argument(
        "up", type=Path, metavar="UP", help="trace of the return direction (from the user)"
    )
    traces.add_argument(
        "down", type=Path, metavar="DOWN", help="trace of the forward direction (to the user)"
    )
    traces.add_argument(
        "--bin-ms",
        type=int,
        default=100,
        help="time over which packets are a rate, 1 to 10000 (default 100)",
    )
    traces.add_argument("--delay-ms", type=float, help="one way; traces have none (default 250)")

    delays = commands.add_parser(
        "opensand",
        help="from OpenSAND's delay files, or a satellite from its topology and profile",
        description=OPENSAND,
        formatter_class=raw,
    )
    delays.set_defaults(make=_opensand)
    _add_opensand(delays)

    measured = commands.add_parser(
        "import",
        help="from measurements of any kind: rate, delay and loss together",
        description=IMPORT,
        formatter_class=raw,
    )
    _add_files(measured)
    trips = commands.add_parser(
        "rtt",
        help="from round-trip times, as `import` of one file",
        description=rtt.__doc__,
        formatter_class=raw,
    )
    trips.set_defaults(forward=[], back=[])
    trips.add_argument(
        "file", type=Path, metavar="FILE", nargs=1, help="any file that `link import` reads"
    )
    for one in (measured, trips):
        one.set_defaults(make=_import)
        _add_import(one)

    fitted = commands.add_parser(
        "fit",
        help="a satellite's file from measurements, with the uncertainty of each value",
        description=fit.__doc__,
        formatter_class=raw,
    )
    fitted.set_defaults(make=None)
    _add_files(fitted)
    _add_reading(fitted)
    fitted.add_argument(
        "--grid-s",
        type=float,
        help="time between two reconfigurations (default: found, or 15 if nothing tells it)",
    )
    _add_part(fitted)
    fitted.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the satellite, NAME.yml"
    )

    compared = commands.add_parser(
        "compare",
        help="two links side by side: measurements, link files or satellites",
        description=COMPARE,
        formatter_class=raw,
    )
    compared.set_defaults(make=None, forward=[], back=[])
    compared.add_argument("one", metavar="A", help="a measurement, a link file or a satellite")
    compared.add_argument("other", metavar="B", help="the same")
    _add_reading(compared)
    _add_part(compared)
    compared.add_argument(
        "--seed", type=int, default=1, help="of what a satellite draws by chance (default 1)"
    )
    compared.add_argument(
        "-o", "--output", type=Path, metavar="FIGURE", help="one picture: .svg, .pdf or .png"
    )

    for generator in (leo, orbits, rain):
        generator.add_argument(
            "--duration-s", type=float, default=600.0, help="how much is written (default 600)"
        )
    for maker in (leo, orbits, rain, traces, delays, measured, trips):
        maker.add_argument(
            "-o",
            "--output",
            type=Path,
            required=True,
            metavar="FILE",
            help="the link file" if maker is not delays else "the link file, or NAME.yml",
        )
        maker.add_argument("--quiet", action="store_true", help="no progress")

    check = commands.add_parser(
        "check", help="says what is wrong with a link file or a file of Es/N0, or what is in it"
    )
    check.set_defaults(make=None)
    check.add_argument("file", type=Path, metavar="FILE")

    plot = commands.add_parser("plot", help="draws rate, delay and loss over time")
    plot.set_defaults(make=None)
    plot.add_argument("file", type=Path, metavar="FILE")
    plot.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FIGURE", help=".svg, .pdf or .png"
    )
    return made


def _add_opensand(parser: argparse.ArgumentParser) -> None:
    """Add files and options of what OpenSAND has."""
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        nargs="+",
        help="delays between terminal and satellite, then between gateway and satellite (default:"
        " the same); or topology.xml, the terminal's profile.xml, and if you have them the"
        " gateway's profile.xml and the terminal's infrastructure.xml",
    )
    of_delays = parser.add_argument_group("delay files")
    of_delays.add_argument(
        "--refresh-period-ms",
        type=int,
        help="OpenSAND's parameter of that name (default 1000)",
    )
    of_delays.add_argument(
        "--loop", action="store_true", help="begin again after the last delay, as OpenSAND's `loop`"
    )
    of_models = parser.add_argument_group("topology and profile")
    of_models.add_argument(
        "--delay-ms", type=float, help="one way over both hops (default: of the profiles)"
    )
    of_models.add_argument(
        "--gateway-id", metavar="ID", help="whose spot it is (default: of the topology)"
    )
    parser.add_argument(
        "--rate-bps",
        type=_rate,
        metavar="RATE",
        help="of each direction, as 20M (default 10M); with a topology of the forward direction"
        " (default: its carrier and MODCOD)",
    )


def _add_tle(parser: argparse.ArgumentParser) -> None:
    """Add file, places and values of a link over published orbits."""
    parser.add_argument("file", type=Path, metavar="FILE", help="elements, two or three lines each")
    for name, text in (("terminal", "the user's terminal"), ("gateway", "the gateway")):
        parser.add_argument(
            f"--{name}", required=True, metavar="LAT,LON", help=f"{text}, in degrees: 43.60,1.44"
        )
    parser.add_argument(
        "--start", metavar="TIME", help="time of day at 0 s, UTC (default: of the newest elements)"
    )
    parser.add_argument(
        "--like", metavar="NAME", help="a satellite whose reconfigurations and rates are on top"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of what --like draws by chance (default 1)"
    )
    known = constellation.Constellation.parameters()
    for name in TLE_VALUES:
        one = known[name]
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=float,
            help=f"{one.meaning} (default {one.default:g})",
        )


def _add_files(parser: argparse.ArgumentParser) -> None:
    """Add the files of a command that takes several."""
    parser.add_argument(
        "file", type=Path, metavar="FILE", nargs="*", help="of both directions, or as it says"
    )
    parser.add_argument(
        "--forward",
        type=Path,
        metavar="FILE",
        action="append",
        default=[],
        help="a file of the forward direction (to the user); may be given several times",
    )
    parser.add_argument(
        "--return",
        dest="back",
        type=Path,
        metavar="FILE",
        action="append",
        default=[],
        help="a file of the return direction (from the user)",
    )


def _add_part(parser: argparse.ArgumentParser) -> None:
    """Add the options that leave out a part of the measurements."""
    parser.add_argument(
        "--from-s", type=float, default=0.0, help="begin so long after the begin (default 0)"
    )
    parser.add_argument("--to-s", type=float, help="end so long after the begin (default: all)")


def _add_import(parser: argparse.ArgumentParser) -> None:
    """Add the options of the commands that make a link file of measurements."""
    parser.add_argument(
        "--bin-s",
        type=float,
        help="time over which probes are one delay and one loss (default: see `link rtt --help`)",
    )
    _add_reading(parser)
    parser.add_argument(
        "--rate-bps",
        type=_rate,
        metavar="RATE",
        help="of each direction whose rate no file has, as 20M (default 10M)",
    )
    parser.add_argument(
        "--delay-ms", type=float, help="one way, where no file has a delay (default 250)"
    )
    parser.add_argument("--loop", action="store_true", help="begin again after the end")


def _add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options of all commands that read measurements."""
    parser.add_argument(
        "--interval-s",
        type=float,
        help="time between two probes of a ping without -D (default: as ping says, else 1)",
    )
    parser.add_argument(
        "--bin-ms",
        type=int,
        default=100,
        help="mahimahi: time over which packets are a rate (default 100)",
    )
    parser.add_argument(
        "--delay-period-ms",
        type=float,
        default=10.0,
        help="time between two lines of a trace of delays (default 10)",
    )
    parser.add_argument(
        "--refresh-period-ms",
        type=int,
        default=1000,
        help="OpenSAND's parameter of that name (default 1000)",
    )
    parser.add_argument(
        "--only",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="of several measurements in a file: a column's value, prb_id of RIPE Atlas, target of"
        " fping, ping of flent; may be given several times",
    )
    parser.add_argument(
        "--take-throughput",
        action="store_true",
        help="the Starlink dish: the throughput that was used is the rate of the link",
    )
    parser.add_argument(
        "--gaps-are-lost",
        action="store_true",
        help="CSV in which no probe is marked as lost: gaps are lost probes",
    )
    parser.add_argument(
        "--times-of-answers",
        action="store_true",
        help="CSV whose times are those of the answers, as `ping -D` writes them",
    )


def main(argv: list[str]) -> int:
    """Make, check or draw a link file; return the exit code. Raises InputError."""
    arguments = parser().parse_args(argv)
    try:
        if arguments.command == "check":
            print(_checked(arguments.file))
        elif arguments.command == "plot":
            # Late, as it imports matplotlib.
            from openbach_run.satellite import plot

            plot.draw(arguments.file, arguments.output)
        elif arguments.command == "fit":
            _fit(arguments)
        elif arguments.command == "compare":
            _compare(arguments)
        elif arguments.command == "acm" and arguments.es_n0:
            _write_es_n0(arguments)
        elif _is_opensand_model(arguments):
            _opensand_satellite(arguments)
        else:
            # Each subcommand has its maker (set_defaults in parser).
            changes, until_s, comments = arguments.make(arguments)
            write(changes, until_s, comments, arguments)
    except (link_file.LinkFileError, ValueError) as error:
        raise InputError(str(error)) from error
    return 0


Made = tuple[Iterator[link_file.Change], float, list[str]]
"""The changes, the time in s until which they are written, and comments."""


def _leo(arguments: argparse.Namespace) -> Made:
    """Return what a constellation of low satellites makes."""
    parameters = _parameters(arguments, constellation.Constellation)
    return (
        constellation.changes(parameters),
        _duration_s(arguments),
        _described_parameters(parameters),
    )


def _tle(arguments: argparse.Namespace) -> Made:
    from openbach_run.satellite import tle

    known = constellation.Constellation.parameters()
    values = {}
    for name in TLE_VALUES:
        given = getattr(arguments, name)
        values[name] = known[name].default if given is None else given
        if not known[name].least <= values[name] <= known[name].greatest:
            raise ValueError(
                f"--{name.replace('_', '-')} {values[name]:g}: it must be from"
                f" {known[name].least:g} to {known[name].greatest:g}"
            )
    elements = tle.read(arguments.file)
    start = tle.time_of(arguments.start) if arguments.start else elements.newest
    fresh, old = tle.near(elements, start)
    asked = tle.Asked(
        tle.place_of(arguments.terminal, "--terminal"),
        tle.place_of(arguments.gateway, "--gateway"),
        start,
        **values,
    )
    comments = [
        f"{arguments.file.name}: {len(fresh.names)} satellites, from {start:%Y-%m-%d %H:%M:%S} UTC",
        f"terminal {arguments.terminal}, gateway {arguments.gateway}",
        *(f"{name} = {value:g}" for name, value in values.items()),
    ]
    if old:
        comments.append(
            f"{ASSUMED}{old} satellites are left out: their elements are more than"
            f" {tle.GREATEST_AGE_DAYS:g} days away"
        )
    geometry = tle.Geometry(fresh, asked)
    if arguments.like is None:
        return tle.changes(geometry), _duration_s(arguments), comments
    grid, rates_bps, said = _like(arguments)
    comments.append(said)
    played = reconfigurations.changes(grid, arguments.seed, rates_bps, geometry.interval)
    return played, _duration_s(arguments), comments


def _like(
    arguments: argparse.Namespace,
) -> tuple[reconfigurations.Reconfigurations, dict[str, float], str]:
    """Return the reconfigurations and the rates of the satellite of --like."""
    for name in ("handover_s", "outage_ms", "rate_bps"):
        if getattr(arguments, name) is not None:
            raise ValueError(
                f"--{name.replace('_', '-')} beside --like: the satellite has it; leave one out"
            )
    satellites = Catalog().all("satellites")
    path = satellites.get(arguments.like, Path(arguments.like))
    preset = read_preset(path)
    if preset.reconfigurations is None:
        raise ValueError(f"--like {arguments.like}: it has no reconfigurations")
    texts = presets.in_force({}, preset)
    forward = texts["rate"]
    back = forward if texts["return_rate"] == presets.SAME else texts["return_rate"]
    rates_bps = {"forward": presets.rate_bps(forward), "return": presets.rate_bps(back)}
    said = f"reconfigurations and rates of {arguments.like}, seed {arguments.seed}"
    return preset.reconfigurations, rates_bps, said


def _acm(arguments: argparse.Namespace) -> Made:
    """Return what a DVB-S2 link in the rain makes."""
    if arguments.terminal != dvbs2.ALL:
        raise ValueError("--terminal has no effect without --es-n0")
    parameters = _parameters(arguments, acm.Acm)
    return acm.changes(parameters), _duration_s(arguments), _described_parameters(parameters)


OF_THE_LINK = ("rate_bps", "return_rate_bps", "delay_ms", "margin_db", "hysteresis_db")
"""Parameters of `link acm` that Es/N0 does not depend on."""


def _write_es_n0(arguments: argparse.Namespace) -> None:
    """Write the Es/N0 over time of a link in the rain, and say what is in the file."""
    parameters = _parameters(arguments, acm.Acm)
    for name in OF_THE_LINK:
        if getattr(arguments, name) != acm.Acm.parameters()[name].default:
            option = name.replace("_", "-")
            raise ValueError(
                f"--{option} has no effect with --es-n0: the satellite's file or forward.NAME=VALUE"
                " has it"
            )
    if arguments.terminal != dvbs2.ALL and not dvbs2.is_terminal(arguments.terminal):
        raise ValueError(
            f"--terminal {arguments.terminal}: it is a number from 0 to"
            f" {dvbs2.MOST_TERMINALS - 1}, or all"
        )
    until_s, output = _duration_s(arguments), arguments.output
    if until_s / parameters.step_s > dvbs2.MOST_ROWS:
        raise ValueError(
            f"--duration-s {until_s:g} in steps of {parameters.step_s:g} s are more than"
            f" {dvbs2.MOST_ROWS} rows"
        )
    new = output.with_name(f".{output.name}.new")
    own = {name: one for name, one in vars(parameters).items() if name not in OF_THE_LINK}
    comments = ["openbach-run link acm --es-n0", *(f"{name} = {one}" for name, one in own.items())]
    try:
        with new.open("w") as out:
            out.writelines(f"# {one}\n" for one in comments)
            out.write(",".join(dvbs2.COLUMNS) + "\n")
            for time_s, es_n0_db in acm.es_n0s_db(parameters, until_s):
                out.write(f"{time_s:g},{arguments.terminal},{es_n0_db:.2f}\n")
        text = described_series(output, dvbs2.read_series(new))
        os.replace(new, output)
    except OSError as error:
        raise InputError(f"{output}: {error.strerror}") from error
    except dvbs2.SeriesError as error:
        raise InputError(f"what would be written is no file of Es/N0: {error}") from error
    finally:
        new.unlink(missing_ok=True)
    print(text)


def described_series(path: Path, rows: dvbs2.Rows) -> str:
    """Return a text on a file of Es/N0 for a person."""
    times_s, terminals, values = zip(*rows, strict=True)
    whose = f"terminal {', '.join(sorted(set(terminals), key=lambda one: (len(one), one)))}"
    return (
        f"{path}: {max(times_s):g} s, {len(rows)} rows of {whose}, Es/N0 {min(values):.2f} /"
        f" {sum(values) / len(values):.2f} / {max(values):.2f} dB (least / mean of rows / greatest)"
    )


def _checked(path: Path) -> str:
    """Return a text on a link file, or on a file of Es/N0, without a mistake."""
    if is_es_n0_file(path):
        return described_series(path, dvbs2.read_series(path))
    return described(path, link_file.check(path))


def _mahimahi(arguments: argparse.Namespace) -> Made:
    """Return what two of Mahimahi's traces make. Raises ValueError, LinkFileError."""
    if not 1 <= arguments.bin_ms <= 10_000:
        raise ValueError(f"--bin-ms {arguments.bin_ms}: it must be from 1 to 10000")
    up_ms, down_ms = mahimahi.read_trace(arguments.up), mahimahi.read_trace(arguments.down)
    repeat_s = max(up_ms[-1], down_ms[-1]) / 1000
    comments = [
        f"up {arguments.up.name}, down {arguments.down.name}, in bins of {arguments.bin_ms} ms",
        f"repeat_s: {repeat_s:.15g}",
    ]
    delay_ms = DELAY_MS if arguments.delay_ms is None else arguments.delay_ms
    if arguments.delay_ms is None:
        comments.append(
            f"{ASSUMED}a delay of {DELAY_MS:g} ms in each direction: traces have none (--delay-ms)"
        )
    return mahimahi.changes(up_ms, down_ms, arguments.bin_ms, delay_ms), math.inf, comments


def _opensand(arguments: argparse.Namespace) -> Made:
    """Return what OpenSAND's delays make. Raises ValueError, LinkFileError."""
    for option in ("--delay-ms", "--gateway-id"):
        if getattr(arguments, option[2:].replace("-", "_")) is not None:
            raise ValueError(f"{option} is for a topology and a profile, not for delay files")
    if len(arguments.file) > 2:
        raise ValueError("three delay files: give the terminal's and the gateway's")
    period_ms = 1000 if arguments.refresh_period_ms is None else arguments.refresh_period_ms
    if not 1 <= period_ms <= 3_600_000:
        raise ValueError(f"--refresh-period-ms {period_ms}: it must be from 1 to 3600000")
    files = [arguments.file[0], arguments.file[-1]]
    terminal, gateway = map(opensand.read_delays, files)
    rate_bps, assumed = _rate_bps(arguments)
    comments = [
        f"terminal {files[0].name}, gateway {files[1].name}, refresh period {period_ms} ms",
        *assumed,
    ]
    if arguments.loop:
        comments.append(f"repeat_s: {opensand.repeat_s(terminal, gateway, period_ms):.15g}")
    return opensand.changes(terminal, gateway, period_ms, rate_bps), math.inf, comments


def _is_opensand_model(arguments: argparse.Namespace) -> bool:
    """Return whether the files are OpenSAND's XML files. Raises LinkFileError."""
    if arguments.command != "opensand":
        return False
    from openbach_run.satellite import xml_file

    return any(xml_file.is_xml(path) for path in arguments.file)


def _opensand_satellite(arguments: argparse.Namespace) -> None:
    """Write a satellite's file of OpenSAND's topology and profiles, and print it."""
    from openbach_run.satellite import opensand_files

    output: Path = arguments.output
    if output.suffix != ".yml":
        raise ValueError(f"{output}: a topology makes a satellite's file, which ends in .yml")
    for option, given in (
        ("--refresh-period-ms", arguments.refresh_period_ms is not None),
        ("--loop", arguments.loop),
    ):
        if given:
            raise ValueError(f"{option} is for delay files, not for a topology and a profile")
    given = opensand_files.Given(arguments.delay_ms, arguments.rate_bps, arguments.gateway_id)
    found = opensand_files.read(arguments.file, given)
    _write_satellite(output, found.lines())
    print("\n".join(opensand_files.described(output, found)))


def _write_satellite(output: Path, lines: list[str]) -> None:
    """Write a satellite's file, which is checked first. Raises PresetError, InputError."""
    new = output.with_name(f".{output.stem}.new.yml")
    try:
        new.write_text("".join(f"{line}\n" for line in lines))
        presets.read(new)
        os.replace(new, output)
    except OSError as error:
        raise InputError(f"{output}: {error.strerror}") from error
    finally:
        new.unlink(missing_ok=True)


def _parts(arguments: argparse.Namespace) -> list[imported.Part]:
    """Return the measurements of the files that are given."""
    given = _given(arguments)
    parts = []
    for direction, paths in (
        ("both", arguments.file),
        ("forward", arguments.forward),
        ("return", arguments.back),
    ):
        for path in paths:
            parts.append(imported.Part(path.name, direction, table.read(path, given)))
    if not parts:
        raise ValueError("no file is given")
    return parts


def _cut(parts: list[imported.Part], arguments: argparse.Namespace) -> list[imported.Part]:
    """Return the part of the measurements that is asked for."""
    if not 0 <= arguments.from_s < math.inf:
        raise ValueError(f"--from-s {arguments.from_s:g}: it must be from 0 on")
    return [
        part._replace(measured=imported.cut(part.measured, arguments.from_s, arguments.to_s))
        for part in parts
    ]


def _fit(arguments: argparse.Namespace) -> None:
    """Write a satellite's file of measurements, and print it."""
    output: Path = arguments.output
    if output.suffix != ".yml":
        raise ValueError(f"{output}: a satellite's file ends in .yml")
    if arguments.grid_s is not None and not 1 <= arguments.grid_s <= 3600:
        raise ValueError(f"--grid-s {arguments.grid_s:g}: it must be from 1 to 3600")
    parts = _parts(arguments)
    found = fit.fit(_cut(parts, arguments), arguments.grid_s)
    assumed: list[str] = []
    for part in parts:
        assumed += part.measured.assumed
    found.said += dict.fromkeys(assumed)
    title = f"A link as it was measured ({', '.join(part.name for part in parts)})"
    lines = fit.satellite_lines(found, title)
    _write_satellite(output, lines)
    print("\n".join([f"{output}:", *(f"  {line}" for line in lines)]))


def _compare(arguments: argparse.Namespace) -> None:
    """Print the statistics of two links, and draw them."""
    from openbach_run.satellite import compare

    one = _side(arguments.one, arguments, None)
    other = _side(arguments.other, arguments, one)
    if not (is_measured := _is_measured(arguments.one)) and _is_measured(arguments.other):
        one = _side(arguments.one, arguments, other)
    if arguments.from_s and not (is_measured or _is_measured(arguments.other)):
        raise ValueError("--from-s: neither of the two is a measurement")
    if one.ways != other.ways:
        raise ValueError("one has round trips, the other one delays of one way")
    chance = {}
    preset = _satellite(arguments.other)
    if is_measured and preset is not None:
        with Reporter(False) as reporter:
            chance = compare.by_chance(other.name, preset, one, arguments.seed, reporter.show)
    rows = compare.table(one, other, chance)
    print("\n".join(compare.lines(rows, (one.name, other.name))))
    if chance:
        print(
            f"by chance: where {compare.CHANCE_PCT} % of the draws of {other.name} lie that are as"
            f" short as {one.name}; beyond: {one.name} lies outside"
        )
    if arguments.output:
        compare.draw(one, other, arguments.output)
        print(f"{arguments.output} shows them")


def _is_measured(name: str) -> bool:
    """Return whether a name is that of a measurement: neither a satellite nor a link file."""
    path = Path(name)
    if name in Catalog().all("satellites") or path.suffix == ".yml":
        return False
    try:
        link_file.check(path)
    except ValueError:
        return True
    return False


def _satellite(name: str) -> presets.Preset | None:
    """Return the satellite of a name or a file; None for a measurement or a link file."""
    path = Path(name)
    satellites = Catalog().all("satellites")
    if name in satellites or path.suffix == ".yml":
        return read_preset(satellites.get(name, path))
    return None


def _side(name: str, arguments: argparse.Namespace, like: Side | None) -> Side:
    """Return one of the two links of a comparison."""
    from openbach_run.satellite import compare

    path = Path(name)
    preset = _satellite(name)
    if preset is not None:
        return compare.satellite_side(path.stem, preset, like, arguments.seed)
    if not _is_measured(name):
        return compare.link_file_side(path.stem, path, like, arguments.seed)
    given = _given(arguments)
    parts = []
    for piece in name.split("+"):
        direction, colon, file = piece.partition(":")
        if not colon or direction not in link_file.DIRECTIONS:
            direction, file = "both", piece
        parts.append(imported.Part(Path(file).name, direction, table.read(Path(file), given)))
    together = " + ".join(part.name for part in parts)
    return compare.measured_side(together, _cut(parts, arguments))


def _import(arguments: argparse.Namespace) -> Made:
    parts = _parts(arguments)
    for option, value in (("--rate-bps", arguments.rate_bps), ("--delay-ms", arguments.delay_ms)):
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{option} {value:g}: it must be above 0")
    asked = imported.Asked(arguments.bin_s, arguments.rate_bps, arguments.delay_ms)
    made = imported.link_of(parts, asked)
    comments = []
    for part in parts:
        where = "" if part.direction == "both" else f", {part.direction}"
        comments.append(
            f"{part.name}: {part.measured.format}{where}{_probes(part, arguments.bin_s)}"
        )
        comments += [f"{ASSUMED}{text}" for text in part.measured.assumed]
    comments += [f"{ASSUMED}{text}" for text in made.assumed]
    if arguments.loop:
        comments.append(f"repeat_s: {made.end_s:.15g}")
    return imported.changes(made), math.inf if arguments.loop else made.end_s, comments


def _given(arguments: argparse.Namespace) -> Given:
    """Return what the user says of the files, each value checked."""
    for option, value, least, most in (
        ("--bin-s", getattr(arguments, "bin_s", None), 1e-3, 3600),
        ("--interval-s", arguments.interval_s, 1e-3, 3600),
        ("--bin-ms", arguments.bin_ms, 1, 10_000),
        ("--refresh-period-ms", arguments.refresh_period_ms, 1, 3_600_000),
        ("--delay-period-ms", arguments.delay_period_ms, 1, 3_600_000),
    ):
        if value is not None and not least <= value <= most:
            raise ValueError(f"{option} {value:g}: it must be from {least:g} to {most:g}")
    only = []
    for text in arguments.only:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise ValueError(f"--only {text}: give it as NAME=VALUE")
        only.append((name, value))
    return Given(
        arguments.interval_s,
        arguments.bin_ms,
        arguments.refresh_period_ms,
        arguments.delay_period_ms,
        tuple(only),
        arguments.take_throughput,
        arguments.gaps_are_lost,
        arguments.times_of_answers,
        whole_minutes=arguments.command in ("fit", "compare"),
    )


def _probes(part: imported.Part, bin_s: float | None) -> str:
    """Return a text on the probes of a file, and what became of the lost ones."""
    probes = part.measured.probes
    if probes is None:
        return ""
    lost = int((probes.lost > 0).sum())
    return f", {len(probes)} probes, {lost} lost{_binned(probes, bin_s)}"


def _binned(probes: Probes, bin_s: float | None) -> str:
    """Return a text on what became of the lost probes."""
    if bin_s is not None:
        in_a_bin = len(probes) * bin_s / max(float(probes.times_s[-1]), bin_s)
        few = (
            f", which hold {in_a_bin:.3g} probes: too few for a rate"
            if in_a_bin < rtt.LEAST_PROBES
            else ""
        )
        return f", in bins of {bin_s:g} s{few}"
    if not probes.lost.any():
        return ""
    rows = rtt.rows_of(probes)
    outages = rtt.is_outage(rows)
    return (
        f": {int(rows.lengths[outages].sum())} in {int(outages.sum())} outages (rows that chance"
        " would not make), the others at random"
    )


def _rate(text: str) -> float:
    """Return the rate in bit/s of an option, as 20M or 20000000."""
    try:
        return netem.number(text, 1.0, 1e12, "a rate in bit/s above 0, as 20M")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _rate_bps(arguments: argparse.Namespace) -> tuple[float, list[str]]:
    """Return the rate of each direction, and a comment if the user did not give the rate."""
    if arguments.rate_bps is not None:
        return arguments.rate_bps, []
    return RATE_BPS, [
        f"{ASSUMED}a rate of {RATE_BPS / 1e6:g} Mbit/s in each direction (--rate-bps)"
    ]


def write(
    changes: Iterable[link_file.Change],
    until_s: float,
    comments: list[str],
    arguments: argparse.Namespace,
) -> None:
    """Write a link file and check it. It is written whole or not at all. Raises InputError."""
    output: Path = arguments.output
    # Under another name until it is checked.
    new = output.with_name(f".{output.name}.new")
    try:
        with Reporter(arguments.quiet) as reporter:
            with new.open("w") as out:
                comments = [f"openbach-run link {arguments.command}", *comments]
                link_file.write(_shown(changes, until_s, reporter), until_s, comments, out)
            summary = link_file.check(new)
            os.replace(new, output)
    except link_file.LinkFileError as error:
        raise InputError(f"what would be written is no link file: {error}") from error
    except OSError as error:
        raise InputError(f"{output}: {error.strerror}") from error
    finally:
        new.unlink(missing_ok=True)
    print(described(output, summary))
    # Assumptions are shown: the user may not know what the file takes for granted.
    for comment in comments[1:]:
        if comment.startswith(ASSUMED) or arguments.command in ("rtt", "import"):
            print(f"  {comment}")


def described(path: Path, summary: link_file.Summary) -> str:
    """Return a text on a link file for a person.

    It has the file's length, and rates, delays and losses by direction.
    """
    repeats = ", then again" if summary.repeats else ""
    lines = [
        f"{path}: {summary.duration_s:g} s{repeats}, {summary.rows} rows, mean RTT"
        f" {summary.mean_rtt_ms:.2f} ms"
    ]
    for name, one in (("forward", summary.forward), ("return", summary.back)):
        rates = " / ".join(
            f"{value / 1e6:.4g}"
            for value in (one.rate_bps.least, one.rate_bps.mean, one.rate_bps.greatest)
        )
        delays = " / ".join(
            f"{value:.2f}"
            for value in (one.delay_ms.least, one.delay_ms.mean, one.delay_ms.greatest)
        )
        losses = f"{one.loss_pct.mean:.3g} % lost" if one.loss_pct.greatest else "no loss"
        outages = f"{one.outages} outages, {one.outage_s:.3g} s" if one.outages else "no outage"
        lines.append(
            f"  {name:7}  {rates} Mbit/s, {delays} ms (least / mean / greatest), {losses},"
            f" {outages}"
        )
    return "\n".join(lines)


def _shown(
    changes: Iterable[link_file.Change], until_s: float, reporter: Reporter
) -> Iterator[link_file.Change]:
    """Yield the changes, and show the progress."""
    begun_s = time.monotonic()
    for change in changes:
        if time.monotonic() - begun_s > QUIET_S:
            reporter.show(f"at {change.time_s:g} s", min(change.time_s / until_s, 1.0))
        yield change


def _duration_s(arguments: argparse.Namespace) -> float:
    """Return how much is written, in s. Raises ValueError."""
    duration_s: float = arguments.duration_s
    if not 0 < duration_s <= 1e6:
        raise ValueError(f"--duration-s {duration_s:g}: it must be above 0, and at most 1000000")
    return duration_s


def _add_parameters(parser: argparse.ArgumentParser, model: type[constellation.Model]) -> None:
    """Add an option for each parameter of a model."""
    for name, one in model.parameters().items():
        option = "--" + name.replace("_", "-")
        kind = type(one.default)
        parser.add_argument(
            option, type=kind, default=one.default, help=f"{one.meaning} (default {one.default:g})"
        )


def _parameters(arguments: argparse.Namespace, model: type[constellation.Model]) -> Any:
    """Return a model with the parameters that the options give. Raises ValueError."""
    return model(**{name: getattr(arguments, name) for name in model.parameters()})


def _described_parameters(parameters: constellation.Model) -> list[str]:
    """Return a comment for each parameter, so that the file says what it was made from."""
    return [f"{name} = {value}" for name, value in vars(parameters).items()]
