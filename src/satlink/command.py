# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run link`: makes link files, checks them and draws them."""

from __future__ import annotations

import argparse
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openbach_jobs import constellation, dvbs2, link_file, presets, reconfigurations
from openbach_run.catalog import Catalog
from openbach_run.errors import InputError
from openbach_run.link_checks import is_es_n0_file, read_preset
from openbach_run.progress import Reporter
from satlink import acm, fit, imported, mahimahi, opensand, rtt, satellite_file
from satlink.formats import table
from satlink.measured import Options, Probes
from satlink.options import TLE_VALUES, parser

if TYPE_CHECKING:
    from satlink.compare import Side

ASSUMED = "assumed: "
"""The start of a comment that is also printed."""
RATE_BPS, DELAY_MS = imported.RATE_BPS, imported.DELAY_MS
"""The rate and the delay of a source that has none."""
QUIET_S = 2.0
"""Seconds after which a task reports its progress."""


def main(argv: list[str]) -> int:
    """Make, check or draw a link file; return the exit code. Raises InputError."""
    arguments = parser().parse_args(argv)
    try:
        if arguments.command == "check":
            print(_checked(arguments.file))
        elif arguments.command == "plot":
            # Late, as it imports matplotlib.
            from satlink import plot

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
            changes, until_s, comments = MAKERS[arguments.command](arguments)
            write(changes, until_s, comments, arguments)
    except (link_file.LinkFileError, ValueError) as error:
        raise InputError(str(error)) from error
    return 0


Made = tuple[Iterator[link_file.Change], float, list[str]]
"""The changes, the time in s until which they are written, and comments."""


def _leo(arguments: argparse.Namespace) -> Made:
    """Return what a constellation of low satellites makes."""
    parameters = _parameters(arguments, constellation.Constellation)
    comments = _described_parameters(parameters)
    return constellation.changes(parameters), _duration_s(arguments), comments


def _tle(arguments: argparse.Namespace) -> Made:
    from satlink import tle

    known = constellation.Constellation.parameters()
    values = {}
    for name in TLE_VALUES:
        text = getattr(arguments, name)
        values[name] = known[name].default if text is None else text
        if not known[name].least <= values[name] <= known[name].greatest:
            raise ValueError(
                f"--{name.replace('_', '-')} {values[name]:g}: it must be from"
                f" {known[name].least:g} to {known[name].greatest:g}"
            )
    elements = tle.read(arguments.file)
    start = tle.time_of(arguments.start) if arguments.start else elements.newest
    fresh, old = tle.near(elements, start)
    options = tle.Options(
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
    geometry = tle.Geometry(fresh, options)
    if arguments.like is None:
        return tle.changes(geometry), _duration_s(arguments), comments
    grid, rates_bps, source = _like(arguments)
    comments.append(source)
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
    source = f"reconfigurations and rates of {arguments.like}, seed {arguments.seed}"
    return preset.reconfigurations, rates_bps, source


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
    own = {name: value for name, value in vars(parameters).items() if name not in OF_THE_LINK}
    lines = [f"# {name} = {value}" for name, value in own.items()]
    lines = ["# openbach-run link acm --es-n0", *lines, ",".join(dvbs2.COLUMNS)]
    with _replaced(output) as new:
        with new.open("w") as out:
            out.writelines(f"{line}\n" for line in lines)
            for time_s, es_n0_db in acm.es_n0s_db(parameters, until_s):
                out.write(f"{time_s:g},{arguments.terminal},{es_n0_db:.2f}\n")
        try:
            text = described_series(output, dvbs2.read_series(new))
        except dvbs2.SeriesError as error:
            raise InputError(f"what would be written is no file of Es/N0: {error}") from error
    print(text)


@contextmanager
def _replaced(output: Path) -> Iterator[Path]:
    """Give a new file, which takes the place of another one at the end. Raises InputError.

    It has another name until it is checked: the file is written whole or not at all.
    """
    new = output.with_name(f".{output.stem}.new{output.suffix}")
    try:
        yield new
        os.replace(new, output)
    except OSError as error:
        raise InputError(f"{output}: {error.strerror}") from error
    finally:
        new.unlink(missing_ok=True)


def described_series(path: Path, rows: dvbs2.Rows) -> str:
    """Return a text on a file of Es/N0 for a person."""
    times_s, terminals, values = zip(*rows, strict=True)
    whose = f"terminal {', '.join(sorted(set(terminals), key=lambda name: (len(name), name)))}"
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
    from satlink import xml_file

    return any(xml_file.is_xml(path) for path in arguments.file)


def _opensand_satellite(arguments: argparse.Namespace) -> None:
    """Write a satellite's file of OpenSAND's topology and profiles, and print it."""
    from satlink import opensand_files, opensand_satellite

    output: Path = arguments.output
    if output.suffix != ".yml":
        raise ValueError(f"{output}: a topology makes a satellite's file, which ends in .yml")
    period = arguments.refresh_period_ms is not None
    for option, is_there in (("--refresh-period-ms", period), ("--loop", arguments.loop)):
        if is_there:
            raise ValueError(f"{option} is for delay files, not for a topology and a profile")
    known = arguments.delay_ms, arguments.rate_bps, arguments.gateway_id
    satellite = opensand_files.read(arguments.file, opensand_files.Options(*known))
    _write_satellite(output, satellite.lines())
    print("\n".join(opensand_satellite.described(output, satellite)))


def _write_satellite(output: Path, lines: list[str]) -> None:
    """Write a satellite's file, which is checked first. Raises PresetError, InputError."""
    with _replaced(output) as new:
        new.write_text("".join(f"{line}\n" for line in lines))
        presets.read(new)


def _parts(arguments: argparse.Namespace) -> list[imported.Part]:
    """Return the measurements of the files that are given."""
    options = _read_options(arguments)
    named = {"both": arguments.file, "forward": arguments.forward, "return": arguments.back}
    parts = []
    for direction, paths in named.items():
        for path in paths:
            parts.append(imported.Part(path.name, direction, table.read(path, options)))
    for path in getattr(arguments, "rate_of", ()):
        parts.append(imported.Part(path.name, "both", table.read(path, options), True))
        if not any(curve.quantity == "rate_bps" for curve in parts[-1].measured.series):
            raise ValueError(f"--rate-of {path}: has no rate")
    if not parts:
        raise ValueError("no file is given")
    return parts


def _cut(parts: list[imported.Part], arguments: argparse.Namespace) -> list[imported.Part]:
    """Return the part of the measurements that is asked for."""
    if not 0 <= arguments.from_s < math.inf:
        raise ValueError(f"--from-s {arguments.from_s:g}: it must be from 0 on")
    span_s = arguments.from_s, arguments.to_s
    return [part._replace(measured=imported.cut(part.measured, *span_s)) for part in parts]


def _fit(arguments: argparse.Namespace) -> None:
    """Write a satellite's file of measurements, and print it."""
    output: Path = arguments.output
    if output.suffix != ".yml":
        raise ValueError(f"{output}: a satellite's file ends in .yml")
    if arguments.grid_s is not None and not 1 <= arguments.grid_s <= 3600:
        raise ValueError(f"--grid-s {arguments.grid_s:g}: it must be from 1 to 3600")
    parts = _parts(arguments)
    fitted = fit.fit(_cut(parts, arguments), arguments.grid_s)
    assumed: list[str] = []
    for part in parts:
        assumed += part.measured.assumed
    fitted.remarks += dict.fromkeys(assumed)
    title = f"A link as it was measured ({', '.join(part.name for part in parts)})"
    lines = satellite_file.satellite_lines(fitted, title)
    _write_satellite(output, lines)
    print("\n".join([f"{output}:", *(f"  {line}" for line in lines)]))


def _compare(arguments: argparse.Namespace) -> None:
    """Print the statistics of two links, and draw them."""
    from satlink import compare

    first = _side(arguments.one, arguments, None)
    other = _side(arguments.other, arguments, first)
    if not (is_measured := _is_measured(arguments.one)) and _is_measured(arguments.other):
        first = _side(arguments.one, arguments, other)
    if arguments.from_s and not (is_measured or _is_measured(arguments.other)):
        raise ValueError("--from-s: neither of the two is a measurement")
    if first.ways != other.ways:
        raise ValueError("one has round trips, the other one delays of one way")
    chance = {}
    preset = _satellite(arguments.other)
    if is_measured and preset is not None:
        with Reporter(False) as reporter:
            chance = compare.by_chance(other.name, preset, first, arguments.seed, reporter.show)
    rows = compare.table(first, other, chance)
    print("\n".join(compare.lines(rows, (first.name, other.name))))
    if chance:
        print(
            f"by chance: where {compare.CHANCE_PCT} % of the draws of {other.name} lie that are as"
            f" short as {first.name}; beyond: {first.name} lies outside"
        )
    if arguments.output:
        compare.draw(first, other, arguments.output)
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
    from satlink import compare

    path = Path(name)
    preset = _satellite(name)
    if preset is not None:
        return compare.satellite_side(path.stem, preset, like, arguments.seed)
    if not _is_measured(name):
        return compare.link_file_side(path.stem, path, like, arguments.seed)
    options = _read_options(arguments)
    parts = []
    for piece in name.split("+"):
        direction, colon, file = piece.partition(":")
        if not colon or direction not in link_file.DIRECTIONS:
            direction, file = "both", piece
        parts.append(imported.Part(Path(file).name, direction, table.read(Path(file), options)))
    together = " + ".join(part.name for part in parts)
    return compare.measured_side(together, _cut(parts, arguments))


def _import(arguments: argparse.Namespace) -> Made:
    parts = _parts(arguments)
    for option, value in (("--rate-bps", arguments.rate_bps), ("--delay-ms", arguments.delay_ms)):
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{option} {value:g}: it must be above 0")
    delay_ms = DELAY_MS if _has_rates_only(arguments) else arguments.delay_ms
    options = imported.Options(arguments.bin_s, arguments.rate_bps, delay_ms)
    link = imported.link_of(parts, options)
    comments = []
    for part in parts:
        where = "" if part.direction == "both" else f", {part.direction}"
        probes = _probes(part, arguments.bin_s)
        comments.append(f"{part.name}: {part.measured.format}{where}{probes}")
        comments += [f"{ASSUMED}{text}" for text in part.measured.assumed]
    comments += [f"{ASSUMED}{text}" for text in link.assumed]
    if arguments.loop:
        comments.append(f"repeat_s: {link.end_s:.15g}")
    return imported.changes(link), math.inf if arguments.loop else link.end_s, comments


def _read_options(arguments: argparse.Namespace) -> Options:
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
    return Options(
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
        few = f", which hold {in_a_bin:.3g} probes: too few for a rate"
        return f", in bins of {bin_s:g} s{few if in_a_bin < rtt.LEAST_PROBES else ''}"
    if not probes.lost.any():
        return ""
    rows = rtt.rows_of(probes)
    outages = rtt.is_outage(rows)
    return (
        f": {int(rows.lengths[outages].sum())} in {int(outages.sum())} outages (rows that chance"
        " would not make), the others at random"
    )


def _rate_bps(arguments: argparse.Namespace) -> tuple[float, list[str]]:
    """Return the rate of each direction, and a comment if the user did not give the rate."""
    if arguments.rate_bps is not None:
        return arguments.rate_bps, []
    text = f"{ASSUMED}a rate of {RATE_BPS / 1e6:g} Mbit/s in each direction (--rate-bps)"
    return RATE_BPS, [text]


def write(
    changes: Iterable[link_file.Change],
    until_s: float,
    comments: list[str],
    arguments: argparse.Namespace,
) -> None:
    """Write a link file and check it. It is written whole or not at all. Raises InputError."""
    output: Path = arguments.output
    comments = [f"openbach-run link {arguments.command}", *comments]
    with _replaced(output) as new, Reporter(arguments.quiet) as reporter:
        try:
            with new.open("w") as out:
                link_file.write(_shown(changes, until_s, reporter), until_s, comments, out)
            if _has_rates_only(arguments):
                new.write_text(re.sub(r"(?m)^([^#\n]*),[^,\n]*,[^,\n]*$", r"\1", new.read_text()))
            summary = link_file.check(new)
        except link_file.LinkFileError as error:
            raise InputError(f"what would be written is no link file: {error}") from error
    print(described(output, summary))
    # Assumptions are shown: the user may not know what the file takes for granted.
    for comment in comments[1:]:
        if comment.startswith(ASSUMED) or arguments.command in ("rtt", "import"):
            print(f"  {comment}")


def _has_rates_only(arguments: argparse.Namespace) -> bool:
    """Return whether nothing but files of --rate-of is given: delay and loss are the scenario's."""
    others = ("file", "forward", "back", "delay_ms")
    return arguments.command == "import" and not any(getattr(arguments, name) for name in others)


def described(path: Path, summary: link_file.Summary) -> str:
    """Return a text on a link file for a person.

    It has the file's length, and rates, delays and losses by direction.
    """
    repeats = ", then again" if summary.repeats else ""
    rtt = f"mean RTT {summary.mean_rtt_ms:.2f} ms" if summary.has_delay else "rates only"
    lines = [f"{path}: {summary.duration_s:g} s{repeats}, {summary.rows} rows, {rtt}"]
    for name, way in (("forward", summary.forward), ("return", summary.back)):
        rate_bps, delay_ms = way.rate_bps, way.delay_ms
        rates_bps = (rate_bps.least, rate_bps.mean, rate_bps.greatest)
        rates = " / ".join(f"{value / 1e6:.4g}" for value in rates_bps)
        is_endless = way.ends_in_outage and not summary.repeats
        end = "; with link_start=0 its last outage has no end" * is_endless
        delays_ms = (delay_ms.least, delay_ms.mean, delay_ms.greatest)
        delays = " / ".join(f"{value:.2f}" for value in delays_ms)
        if not summary.has_delay:
            lines.append(f"  {name:7}  {rates} Mbit/s (least / mean / greatest){end}")
            continue
        losses = f"{way.loss_pct.mean:.3g} % lost" if way.loss_pct.greatest else "no loss"
        outages = f"{way.outages} outages, {way.outage_s:.3g} s" if way.outages else "no outage"
        lines.append(
            f"  {name:7}  {rates} Mbit/s, {delays} ms (least / mean / greatest), {losses},"
            f" {outages}{end}"
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


def _parameters(arguments: argparse.Namespace, model: type[constellation.Model]) -> Any:
    """Return a model with the parameters that the options give. Raises ValueError."""
    return model(**{name: getattr(arguments, name) for name in model.parameters()})


def _described_parameters(parameters: constellation.Model) -> list[str]:
    """Return a comment for each parameter, so that the file says what it was made from."""
    return [f"{name} = {value}" for name, value in vars(parameters).items()]


MAKERS: dict[str, Callable[[argparse.Namespace], Made]] = {
    "leo": _leo, "acm": _acm, "tle": _tle, "mahimahi": _mahimahi, "opensand": _opensand,
    "import": _import, "rtt": _import,
}  # fmt: skip
"""Sub-command → what makes its link file."""
