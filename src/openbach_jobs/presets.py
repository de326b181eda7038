# SPDX-License-Identifier: GPL-3.0-or-later
"""Presets of satellites, the files `satellites/NAME.yml`, and the values of a link.

A value is the one given, else the preset's, else that of DEFAULTS.

    # Comments, and where the values come from.
    description: one line for people
    delay_ms: 250
    rate: 20M
    buffer: 150kB

A line each, `name: value`: that is YAML, and is read without a library, which an agent's Python
need not have. The names are those of DEFAULTS, which are satcom_link's arguments; instead of
delay_ms a preset may give parameters of a constellation (constellation.py); beside either it may
give those of reconfigurations (reconfigurations.py). `satellites/NAME.csv` is a link file in place
of a preset. The host reads presets too, to write the values in force into a
run's row.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from openbach_jobs import link_file, netem
from openbach_jobs.constellation import Constellation
from openbach_jobs.data import data_folder

if TYPE_CHECKING:
    from openbach_jobs import dama, dvbs2  # elsewhere below: other runs need not read them
    from openbach_jobs.reconfigurations import Reconfigurations

PRESET, SAME, NONE = "preset", "same", "none"
"""Words in place of a value: as the preset has it, as the forward direction has it, and none."""
ASSIGNED, DAMA = "assigned", "dama"
"""Ways to capacity of the return link: a rate of each terminal's own, or what it asks for."""
RATE, DVBS2 = "rate", "dvbs2"
"""Kinds of forward link: a rate that all share, or frames with a MODCOD for each terminal."""
NETEM, NETEM_GRO = BEFORE_RATE = ("netem", "netem_gro")
"""Queues with loss and delay in them, before the rate; with the second one packets of TCP are put
together."""
DEFAULTS = {
    "rate": "10M", "return_rate": SAME, "delay_ms": "250", "jitter_ms": "0", "reorder": "no",
    "loss": "0", "return_loss": SAME, "burst_packets": "1", "burst_ms": NONE, "buffer": "1BDP",
    "queue": "fifo", "access": ASSIGNED, "dama_values": NONE, "forward": RATE,
    "forward_values": NONE,
}  # fmt: skip
"""Values of a link where neither the command nor the preset gives one."""
FORWARD = {"return_rate": "rate", "return_loss": "loss"}
BUFFERS = ("buffer", "buffer_bdp", "buffer_bytes")
BURSTS = ("burst_packets", "burst_ms")
"""Length of a loss, in packets or in ms; one of the two is NONE."""
BY_FILE = ("rate", "return_rate", "delay_ms")
"""Values that a link file has in place of the preset."""
UNSET = {
    **dict.fromkeys((*BY_FILE, *BURSTS, "buffer", "buffer_bdp"), (PRESET, NONE)),
    "buffer_bytes": ("0",),
    "dama_values": (PRESET, NONE),
    "forward_values": (PRESET, NONE),
}
"""Value → texts that leave it to the preset, where that is not PRESET alone."""
CHOICES = {
    "reorder": ("no", "yes"),
    "queue": ("fifo", "codel", "fq_codel", "cake", *BEFORE_RATE),
    "access": (ASSIGNED, DAMA),
    "forward": (RATE, DVBS2),
}
ES_N0_FILE = "es_n0_file"
"""The argument with the file of Es/N0 over time, of a forward link in frames."""
FOR_PEOPLE = ("description", "source")
CONSTELLATION: dict[str, Callable[[str], Any]] = {
    name: type(parameter.default)
    for name, parameter in Constellation.parameters().items()
    if name != "rate_bps"
}
"""Parameters of a constellation and their types; a preset has its rate as `rate`."""
FOLDER = data_folder("satellites")
LEAST_BPS, MOST_BPS = 32e3, link_file.MOST_RATE_BPS
"""Rates of a link in bit/s whose packets can be proved right. Below, the bucket delays packets more
than is tolerated; above, tbf is not exact enough."""
BUFFER = re.compile(r"([0-9]*\.?[0-9]+)(BDP|B|kB|MB|p)")
BUFFER_UNITS = {
    "BDP": ("BDP", 1.0),
    "B": ("bytes", 1.0),
    "kB": ("bytes", 1e3),
    "MB": ("bytes", 1e6),
    "p": ("packets", 1.0),
}
LEAST_BUFFER_BYTES = 3028
"""Two full packets: no buffer of the link is smaller, in whatever unit."""
BUFFER_LIMITS = {"BDP": (0.001, 1e3), "bytes": (LEAST_BUFFER_BYTES, 4e9), "packets": (2, 1e6)}
LINE = re.compile(r"(?P<name>\w+)\s*:(?:\s+(?P<value>.*))?")


class PresetError(ValueError):
    """An error in a satellite's file: its line, what is wrong, and what would be right."""


class Buffer(NamedTuple):
    """Buffer of the bottleneck: so many "BDP", "bytes" or "packets"."""

    size: float
    unit: str


class Preset(NamedTuple):
    """Values by name, all of them texts as on a command line.

    They are over a constellation if it has one, with reconfigurations if it has them, and as a link
    file says if it has that.
    """

    values: Mapping[str, str] = MappingProxyType({})
    constellation: Constellation | None = None
    link_file: Path | None = None
    dama: Mapping[str, str] = MappingProxyType({})
    """Values of dama.py, of a return link that has to be asked for (`access: dama`)."""
    reconfigurations: Reconfigurations | None = None
    forward: Mapping[str, str] = MappingProxyType({})
    """Values of dvbs2.py, of a forward link in frames (`forward: dvbs2`)."""


# Values


def rate_bps(text: str) -> float:
    """Return the rate that a text says.

    Raises ValueError.
    """
    return netem.number(text, LEAST_BPS, MOST_BPS, "a rate from 32k to 1G bit/s")


def delay_ms(text: str) -> float:
    """Return the delay that a text says.

    Raises ValueError.
    """
    return netem.number(text, 0.001, 10_000, "a delay from 0.001 to 10000 ms")


def jitter_ms(text: str) -> float:
    """Return the jitter that a text says.

    Raises ValueError.
    """
    return netem.number(text, 0, 10_000, "a jitter from 0 to 10000 ms")


def buffer(text: str) -> Buffer:
    """Return a buffer: `1.5BDP`, `150kB`, `150000B`, `100p` (packets). Raises ValueError."""
    if not (parts := BUFFER.fullmatch(text)):
        raise ValueError(f"{text!r} is not a buffer like 1BDP, 150kB, 2MB, 9000B or 100p (packets)")
    unit, factor = BUFFER_UNITS[parts[2]]
    least, most = BUFFER_LIMITS[unit]
    size = float(parts[1]) * factor
    if not least <= size <= most:
        raise ValueError(f"{text!r} is not a buffer from {least:g} to {most:g} {unit}")
    if unit != "BDP" and size != int(size):
        raise ValueError(f"{text!r} is not a whole number of {unit}")
    return Buffer(size, unit)


CONVERT: dict[str, Callable[[str], Any]] = {
    "rate": rate_bps,
    "return_rate": rate_bps,
    "delay_ms": delay_ms,
    "jitter_ms": jitter_ms,
    "reorder": str,
    "loss": netem.percent,
    "return_loss": netem.percent,
    "burst_packets": netem.burst,
    "burst_ms": netem.burst_ms,
    "buffer": buffer,
    "queue": str,
    "access": str,
    "dama_values": str,
    "forward": str,
    "forward_values": str,
}


def value(name: str, text: str) -> Any:
    """Return the value of one of DEFAULTS, None for `none`.

    Raises ValueError, with its name and what would be right.
    """
    if text == NONE and name in (*BY_FILE, *BURSTS):
        return None
    if name in CHOICES and text not in CHOICES[name]:
        raise ValueError(f"{name}: {text!r} is none of {', '.join(CHOICES[name])}")
    try:
        return CONVERT[name](text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def checked(name: str, text: str) -> str:
    """Return the text of a value that is right. Raises ValueError."""
    value(name, text)
    return text


def check_one(names: Sequence[str], given: Iterable[str]) -> None:
    """Raise ValueError for several of the names, which say the same in different ways."""
    several = [name for name in names if name in given]
    if len(several) > 1:
        raise ValueError(f"{' and '.join(several)}: give one of them")


def in_force(given: Mapping[str, str], preset: Preset) -> dict[str, str]:
    """Return the text of each of DEFAULTS: the given one, else the preset's, else the default.

    `none` stands for what a link file says instead, or for the delay that a constellation says.
    `given` may have the buffer as `buffer_bdp` or `buffer_bytes`, too. Raises ValueError for more
    than one buffer, and for a value that a link file has itself.
    """
    own = {name: text for name, text in given.items() if text not in UNSET.get(name, (PRESET,))}
    for several in (BUFFERS, BURSTS):
        check_one(several, own)
    if "buffer_bdp" in own:
        what = "a buffer from 0.001 to 1000 BDP"
        in_bdp = netem.number(own["buffer_bdp"], *BUFFER_LIMITS["BDP"], what)
        own["buffer"] = f"{in_bdp:.15g}BDP"
    if "buffer_bytes" in own:
        own["buffer"] = f"{own['buffer_bytes']}B"
    texts = {name: own.get(name, preset.values.get(name, text)) for name, text in DEFAULTS.items()}
    if "burst_packets" in own:
        texts["burst_ms"] = NONE
    elif texts["burst_ms"] != NONE:
        texts["burst_packets"] = NONE
    given_file = given.get("link_file", NONE)
    if preset.link_file or given_file != NONE:
        named = (
            f"link_file={given_file}"
            if given_file != NONE
            else f"the satellite's {preset.link_file}"
        )
        has_delay = link_file.has_delay(
            given_file if given_file != NONE else preset.link_file or ""
        )
        by_file = BY_FILE if has_delay else BY_FILE[:2]
        if beside := [f"{name}={own[name]}" for name in by_file if name in own]:
            what = "rate and delay" if has_delay else "the rate"
            raise ValueError(
                f"{' and '.join(beside)}: {named} has {what} over time; leave this out, or the file"
            )
        moves = (preset.constellation or preset.reconfigurations) and "delay_ms" not in own
        if not has_delay and (moves or {DAMA, DVBS2} & {*texts.values()}):
            raise ValueError(
                f"{named} has rates only: they go with one delay_ms, which this satellite does not"
                " have, and with no other return or forward link; give delay_ms, access=assigned"
                " and forward=rate"
            )
        texts |= dict.fromkeys(by_file, NONE)
    elif preset.constellation and "delay_ms" not in own:
        texts["delay_ms"] = NONE
    _check_access(texts, own, preset)
    if texts["access"] == DAMA and given.get("shares", NONE) != NONE:
        from openbach_jobs import dama

        dama.shares(given["shares"], access_of(texts, preset))
    if texts["access"] == DAMA:
        texts["return_rate"] = NONE
    _check_forward(texts, {**own, ES_N0_FILE: given.get(ES_N0_FILE, NONE)}, preset)
    if texts["forward"] == DVBS2:
        texts["rate"] = NONE
    return texts


def _check_access(texts: Mapping[str, str], own: Mapping[str, str], preset: Preset) -> None:
    """Check that values fit the way to capacity. Raises ValueError."""
    if texts["access"] != DAMA:
        if "dama_values" in own:
            raise ValueError(
                f"dama_values={own['dama_values']} has no effect with access={texts['access']}"
            )
        return
    _check_satellite("access", texts, preset, "return link that has to be asked for", "geo_rcs2")
    if "return_rate" in own:
        raise ValueError(
            f"return_rate={own['return_rate']} has no effect with access=dama: give dama.cra,"
            " dama.rbdc, dama.vbdc_bytes or dama.fca, or access=assigned"
        )
    access_of(texts, preset)


def _check_satellite(
    name: str, texts: Mapping[str, str], preset: Preset, what: str, like: str
) -> None:
    """Check that the satellite can have such an access or forward link. Raises ValueError."""
    kind = texts[name]
    if preset.values.get(name) != kind:
        raise ValueError(
            f"{name}={kind}: this satellite says nothing of a {what}; choose one whose file has"
            f" {name}: {kind}, like {like}"
        )
    if texts["delay_ms"] == NONE or preset.reconfigurations:
        raise ValueError(
            f"{name}={kind} is of a link with one delay_ms, not of a link file, a constellation or"
            " reconfigurations"
        )


def access_of(texts: Mapping[str, str], preset: Preset) -> dama.Access:
    """Return the values of a link whose capacity has to be asked for. Raises ValueError."""
    from openbach_jobs import dama

    values = dama.in_force(dama.split(texts["dama_values"]), preset.dama)
    return dama.read(values, delay_ms(texts["delay_ms"]))


def _check_forward(texts: Mapping[str, str], own: Mapping[str, str], preset: Preset) -> None:
    """Raise ValueError for values that do not go together with what the forward link is."""
    if texts["forward"] != DVBS2:
        for name in ("forward_values", ES_N0_FILE):
            if own.get(name, NONE) != NONE:
                raise ValueError(
                    f"{name}={own[name]} has no effect with forward={texts['forward']}"
                )
        return
    _check_satellite("forward", texts, preset, "forward link in frames", "geo_dvbs2")
    if "rate" in own:
        raise ValueError(
            f"rate={own['rate']} has no effect with forward=dvbs2: give forward.symbols and"
            " forward.es_n0_db, or forward=rate (rate=preset is the satellite's)"
        )
    if texts["return_rate"] == SAME:
        raise ValueError(
            "return_rate=same: with forward=dvbs2 there is no rate that could be the same; give a"
            " return_rate"
        )
    forward_of(texts, preset)


def forward_of(texts: Mapping[str, str], preset: Preset) -> dvbs2.Forward:
    """Return the values of a forward link in frames. Raises ValueError."""
    from openbach_jobs import dvbs2

    values = dvbs2.in_force(dvbs2.split(texts["forward_values"]), preset.forward)
    return dvbs2.read(values, delay_ms(texts["delay_ms"]))


# Files


def find(name: str, folder: Path = FOLDER) -> Preset:
    """Return the preset of this name in a folder. Raises PresetError."""
    for suffix in (".yml", ".csv"):
        if (file := folder / f"{name}{suffix}").is_file():
            return read(file)
    names = sorted({file.stem for pattern in ("*.yml", "*.csv") for file in folder.glob(pattern)})
    raise PresetError(f"there is no satellite {name!r} in {folder}; there are {', '.join(names)}")


def _read_other(
    name: str, text: str, grid: dict[str, Any], of_dama: dict[str, str], of_forward: dict[str, str]
) -> None:
    """Put a value of reconfigurations, `access: dama` or `forward: dvbs2` where it belongs.

    Raises ValueError for a name that none of them has.
    """
    # Not above: most links have no use for these modules.
    from openbach_jobs import dama

    of_grid = _reconfigurations()
    if name in of_grid:
        grid[name] = of_grid[name](text)
    elif name in dama.VALUES:
        of_dama[name] = dama.checked(name, text)
    else:
        from openbach_jobs import dvbs2

        of_frames = {f"{dvbs2.IN_FILE}{value}": value for value in dvbs2.VALUES}
        if name in of_frames:
            of_forward[of_frames[name]] = dvbs2.checked(of_frames[name], text)
            return
        known = (*DEFAULTS, *CONSTELLATION, *of_grid, *dama.VALUES, *of_frames, *FOR_PEOPLE)
        raise ValueError(
            f"unknown: {name}; {link_file.near(name, known)}known are {', '.join(known)}"
        )


def read(path: Path) -> Preset:
    """Return the preset of a file, all its values checked; a .csv is a link file.

    Raises PresetError, with the line.
    """
    if path.suffix == ".csv":
        return Preset(link_file=path)
    values: dict[str, str] = {}
    orbit: dict[str, Any] = {}
    of_dama: dict[str, str] = {}
    of_forward: dict[str, str] = {}
    grid: dict[str, Any] = {}
    place = ""
    try:
        for number, line in link_file.lines(path):
            place = f", line {number}"
            if (text := re.sub(r"(^|\s)#.*", "", line).strip()) in ("", "---"):
                continue
            if not (parts := LINE.fullmatch(text)):
                raise ValueError(f"{text!r} is not a line like delay_ms: 250")
            name, text = parts["name"], (parts["value"] or "").strip("'\"")
            own = name.removeprefix("forward_")
            if any(name in names for names in (values, orbit, grid, of_dama)) or (
                own != name and own in of_forward
            ):
                raise ValueError(f"{name} is given twice")
            if name in CONSTELLATION:
                orbit[name] = CONSTELLATION[name](text)
            elif name in DEFAULTS and name not in ("dama_values", "forward_values"):
                values[name] = text if name in FORWARD and text == SAME else checked(name, text)
            elif name not in FOR_PEOPLE:
                _read_other(name, text, grid, of_dama, of_forward)
        place = ""
        check_one(BURSTS, values)
        if orbit and "delay_ms" in values:
            raise ValueError(
                f"delay_ms is for a link without a constellation, {min(orbit)} for one over it:"
                " give one of them"
            )
        over = Constellation(**orbit) if orbit else None
        on_grid = _with_grid(grid, over) if grid else None
        preset = Preset(values, over, dama=of_dama, reconfigurations=on_grid, forward=of_forward)
        if of_dama and values.get("access") != DAMA:
            raise ValueError(f"{min(of_dama)} is a value of access: dama, which is not given")
        if of_forward and values.get("forward") != DVBS2:
            raise ValueError(
                f"forward_{min(of_forward)} is a value of forward: dvbs2, which is not given"
            )
        if values.get("access") == DAMA or values.get("forward") == DVBS2:
            in_force({}, preset)
        return preset
    except link_file.LinkFileError as error:
        raise PresetError(str(error)) from error
    except ValueError as error:
        raise PresetError(f"{os.fspath(path)}{place}: {error}") from None


def _reconfigurations() -> dict[str, Callable[[str], Any]]:
    """Return the parameters of reconfigurations and their types."""
    # Not above: a link without them has no use for the module.
    from openbach_jobs.reconfigurations import Reconfigurations

    return {
        name: type(parameter.default) for name, parameter in Reconfigurations.parameters().items()
    }


def _with_grid(grid: dict[str, Any], over: Constellation | None) -> Reconfigurations:
    """Return reconfigurations; over a constellation they are at its handovers.

    Raises ValueError.
    """
    from openbach_jobs.reconfigurations import Reconfigurations

    if over is not None:
        if over.outage_ms:
            raise ValueError(
                "outage_ms beside reconfigurations: give outage_ms: 0, and held_ms for how long"
                " packets wait"
            )
        if grid.setdefault("grid_s", over.handover_s) != over.handover_s:
            raise ValueError(
                f"grid_s is {grid['grid_s']:g}, handover_s {over.handover_s:g}: a satellite is"
                " chosen on the grid, so both are the same; leave out grid_s"
            )
    return Reconfigurations(**grid)
