# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run link`: makes link files, checks them and draws them."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from openbach_jobs import constellation, link_file
from openbach_run.errors import InputError
from openbach_run.progress import Reporter
from openbach_run.satellite import acm, mahimahi, opensand, rtt

ASSUMED = "assumed: "
"""The start of a comment that is also printed."""
RATE_BPS, DELAY_MS = 10e6, 250.0
"""The rate and the delay of a source that has none."""
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
  openbach-run link mahimahi up.trace down.trace --delay-ms 20 -o cellular.csv
  openbach-run link rtt ping.txt --rate-bps 20e6 -o measured.csv
      the delay and the loss that somebody measured with ping or irtt
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
        help="from OpenSAND's delay files",
        description=opensand.__doc__,
        formatter_class=raw,
    )
    delays.set_defaults(make=_opensand)
    delays.add_argument(
        "terminal", type=Path, metavar="FILE", help="delays between terminal and satellite"
    )
    delays.add_argument(
        "gateway",
        type=Path,
        metavar="GATEWAY_FILE",
        nargs="?",
        help="between gateway and satellite (default: the same)",
    )
    delays.add_argument(
        "--refresh-period-ms",
        type=int,
        default=1000,
        help="OpenSAND's parameter of that name (default 1000)",
    )
    delays.add_argument(
        "--loop", action="store_true", help="begin again after the last delay, as OpenSAND's `loop`"
    )
    delays.add_argument("--rate-bps", type=float, help="of each direction (default 10000000)")

    measured = commands.add_parser(
        "rtt",
        help="from round-trip times: ping, irtt or CSV",
        description=rtt.__doc__,
        formatter_class=raw,
    )
    measured.set_defaults(make=_rtt)
    measured.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="output of ping, JSON of irtt, or CSV with time_s,rtt_ms",
    )
    measured.add_argument(
        "--bin-s",
        type=float,
        help="time over which probes are one delay and one loss (default: see above)",
    )
    measured.add_argument(
        "--interval-s",
        type=float,
        help="time between two probes of a ping without -D (default: as ping says, else 1)",
    )
    measured.add_argument("--loop", action="store_true", help="begin again after the last bin")
    measured.add_argument("--rate-bps", type=float, help="of each direction (default 10000000)")

    for generator in (leo, rain):
        generator.add_argument(
            "--duration-s", type=float, default=600.0, help="how much is written (default 600)"
        )
    for maker in (leo, rain, traces, delays, measured):
        maker.add_argument(
            "-o", "--output", type=Path, required=True, metavar="FILE", help="the link file"
        )
        maker.add_argument("--quiet", action="store_true", help="no progress")

    check = commands.add_parser(
        "check", help="says what is wrong with a link file, or what is in it"
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


def main(argv: list[str]) -> int:
    """Make, check or draw a link file; return the exit code. Raises InputError."""
    arguments = parser().parse_args(argv)
    try:
        if arguments.command == "check":
            print(described(arguments.file, link_file.check(arguments.file)))
        elif arguments.command == "plot":
            # Late, as it imports matplotlib.
            from openbach_run.satellite import plot

            plot.draw(arguments.file, arguments.output)
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


def _acm(arguments: argparse.Namespace) -> Made:
    """Return what a DVB-S2 link in the rain makes."""
    parameters = _parameters(arguments, acm.Acm)
    return acm.changes(parameters), _duration_s(arguments), _described_parameters(parameters)


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
    period_ms = arguments.refresh_period_ms
    if not 1 <= period_ms <= 3_600_000:
        raise ValueError(f"--refresh-period-ms {period_ms}: it must be from 1 to 3600000")
    files = [arguments.terminal, arguments.gateway or arguments.terminal]
    terminal, gateway = map(opensand.read_delays, files)
    rate_bps, assumed = _rate_bps(arguments)
    comments = [
        f"terminal {files[0].name}, gateway {files[1].name}, refresh period {period_ms} ms",
        *assumed,
    ]
    if arguments.loop:
        comments.append(f"repeat_s: {opensand.repeat_s(terminal, gateway, period_ms):.15g}")
    return opensand.changes(terminal, gateway, period_ms, rate_bps), math.inf, comments


def _rtt(arguments: argparse.Namespace) -> Made:
    """Return what measured round-trip times make. Raises ValueError, LinkFileError."""
    bin_s: float | None = arguments.bin_s
    for option, value in (("--bin-s", bin_s), ("--interval-s", arguments.interval_s)):
        if value is not None and not 1e-3 <= value <= 3600:
            raise ValueError(f"{option} {value:g}: it must be from 0.001 to 3600")
    measured = rtt.read(arguments.file, arguments.interval_s)
    probes = measured.probes
    until_s = measured.end_s
    if bin_s is not None:
        # The last bin is whole; rounded, as multiples of 0.1 have an error in binary.
        until_s = round((math.floor(probes[-1].time_s / bin_s) + 1) * bin_s, 9)
    lost = sum(bool(probe.lost) for probe in probes)
    comments = [f"{arguments.file.name}: {len(probes)} probes, {lost} lost{_binned(probes, bin_s)}"]
    comments += [f"{ASSUMED}{text}" for text in measured.assumed]
    rate_bps, assumed = _rate_bps(arguments)
    comments += assumed
    if arguments.loop:
        comments.append(f"repeat_s: {until_s:.15g}")
    return rtt.changes(probes, bin_s, rate_bps), math.inf if arguments.loop else until_s, comments


def _binned(probes: list[rtt.Probe], bin_s: float | None) -> str:
    """Return a text on what became of the lost probes."""
    if bin_s is not None:
        in_a_bin = len(probes) * bin_s / max(probes[-1].time_s, bin_s)
        few = (
            f", which hold {in_a_bin:.3g} probes: too few for a rate"
            if in_a_bin < rtt.LEAST_PROBES
            else ""
        )
        return f", in bins of {bin_s:g} s{few}"
    outages = rtt.outages(probes)
    if not any(probe.lost for probe in probes):
        return ""
    in_outages = sum(map(len, outages))
    return (
        f": {in_outages} in {len(outages)} outages (rows that chance would not make), the others at"
        " random"
    )


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
        if comment.startswith(ASSUMED) or arguments.command == "rtt":
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
