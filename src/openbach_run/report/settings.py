# SPDX-License-Identifier: GPL-3.0-or-later
"""Divide a report's results into sections: cells that share all but what is compared.

Each section has the conditions that its cells share.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from openbach_jobs import link_file
from openbach_run.openbach.measures import Declared, Measure, flat, measure_of
from openbach_run.openbach.scenario import SAME
from openbach_run.openbach.source import MATRIX
from openbach_run.report.cells import DEFAULT, FACTORS, Campaigns, Cell, Plot, file_name
from openbach_run.report.figures import values
from openbach_run.report.words import (
    ACCESS,
    BY_FILE,
    FREE,
    IDLE_ON_FILE,
    access_in_words,
    file_of,
    phrase,
    satellite,
    suffix_in_words,
    title_of,
    unusual,
    value_of,
)
from openbach_run.results import run_json
from openbach_run.results.record import statistics

CURVES = {  # number that is swept → what is drawn over it
    "loss": ("goodput_mbps",),
    "buffer_bdp": ("forward_queue_delay_ms", "share_pct", "total_goodput_mbps", "transfer_time_s"),
}
UNSAID = (
    "buffer", "buffer_bdp", "burst_packets", "burst_ms", "duration_s", "series_s", "vpn_values",
    "tcp_buffer", "ecn", "sack", "window_scaling", "access", "dama_values",
    "forward", "forward_values", "es_n0_file", "link_start",
)  # fmt: skip
"""Arguments that say nothing if they are not used: of the buffer's two arguments, and of the
burst's, only one is used."""
UNUSED = ("none", "0", "default", "assigned", "rate", "auto")
OF_A_CPU = ("cpu_scale", "cpu_pop", "cpu_scale_pop")
"""Arguments that say nothing where the CPU costs nothing."""
SECOND = "vpn_2"
"""An argument: scenarios with a tunnel for each flow come after those with one for both."""


@dataclass(frozen=True)
class Setting:
    """Cells that share all but VPN, PEP position, transport and the numbers of CURVES.

    If a scenario has none of these, its cells are all in one setting. `name` begins the names of
    its files.
    """

    name: str
    title: str
    shared: dict[str, str]
    """The values that its cells have in common, by argument."""
    cells: list[Cell]
    declared: Declared = field(default_factory=dict)
    """The measures by job, as the jobs declare them."""
    plot: Plot = DEFAULT

    def in_words(self, column: str) -> str:
        """Return a column in words, with its unit: `transfer time (s)`."""
        declared = flat(self.declared)
        unit = measure_of(column, declared)[1].unit
        return title_of(column, declared) + (f" ({unit})" if unit else "")

    @property
    def words(self) -> str:
        """Return the measure that its scenario asks for, in words."""
        return self.in_words(self.plot.measure)

    @property
    def measure(self) -> Measure:
        """Return the measure that the setting's tables show, as its job declares it."""
        return measure_of(self.plot.measure, flat(self.declared))[1]

    @property
    def is_time(self) -> bool:
        """Return whether a configuration is recommended for having the least of the measure."""
        return self.measure.unit in ("s", "ms")

    def at_loss(self, loss: str) -> str:
        """Return a loss that was asked for in words; a link with a file may have its own."""
        return phrase("loss", loss) + (" on top of the file's" if file_of(self.shared) else "")

    @property
    def is_matrix(self) -> bool:
        """Return whether the section has the published report's figures and tables.

        Its scenario has to ask for them, and the cells need what they show: all four factors, no
        other swept numbers, and the measure.
        """
        return (
            self.plot.figure == MATRIX
            and all(name in self.cells[0].values for name in FACTORS)
            and all(len(values(self.cells, name)) == 1 for name in CURVES if name not in FACTORS)
            and any(cell.measured(self.plot.measure) for cell in self.cells)
        )


def settings(campaigns: Campaigns) -> list[Setting]:
    """Return the sections in the order of the campaigns, with the matrices first.

    Scenarios with a tunnel for each flow come last.
    """
    groups: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for cell in campaigns.cells:
        apart = {*FACTORS, *CURVES}
        if not any(name in cell.values for name in FACTORS):
            apart = cell.values.keys() - {"scenario"}
        key = tuple((k, v) for k, v in cell.values.items() if k not in apart)
        groups.setdefault(key, []).append(cell)
    sections = []
    # The values that each argument has within a scenario, and within one of its orbits.
    of_scenario: dict[tuple[str, str], set[str]] = {}
    of_orbit: dict[tuple[str, str, str], set[str]] = {}  # what follows from the orbit tells nothing
    for key in groups:
        scenario, orbit = (dict(key).get(name, "") for name in ("scenario", "orbit"))
        for name, value in key:
            of_scenario.setdefault((scenario, name), set()).add(value)
            of_orbit.setdefault((scenario, orbit, name), set()).add(value)
    for key, cells in groups.items():
        shared = dict(key)
        scenario, orbit = shared["scenario"], shared.get("orbit", "")
        told_apart = {}
        for name, value in key:
            of_all = of_scenario[scenario, name]
            others = of_all if name == "orbit" else of_orbit[scenario, orbit, name]
            if len(others) > 1 and value not in ("", SAME):  # same: no value of its own
                told_apart[name] = value
        named = file_name(scenario, *(f"{name}_{value}" for name, value in told_apart.items()))
        told_apart.pop("orbit", None)
        file = file_of(shared)
        inside = [("scenario " if file else "") + phrase("scenario", scenario)]
        if shared.get("link_file", "none") != "none":
            orbit = Path(told_apart.pop("link_file", file)).stem
        if "access" in told_apart or "dama_values" in told_apart:
            inside.append(access_in_words(shared))
            told_apart = {name: value for name, value in told_apart.items() if name not in ACCESS}
        inside += [phrase(name, value) for name, value in unusual(told_apart).items()]
        title = ", ".join(inside)
        if orbit:
            title = f"{orbit if orbit != shared['orbit'] else satellite(orbit)} ({title})"
        items = cells[0].values.items()
        alike = {name: value for name, value in items if len(values(cells, name)) == 1}
        plot = campaigns.plots.get(scenario, DEFAULT)
        sections.append(Setting(named, title, alike, cells, campaigns.declared, plot))

    def rank(setting: Setting) -> tuple[bool, bool]:
        return not setting.is_matrix, setting.shared.get(SECOND, "none") != "none"

    return sorted(sections, key=rank)


def described(setting: Setting) -> str:
    """Return the description of its scenario; "" if it has none."""
    scenario = _of_a_run(setting).get("scenario", {})
    text = scenario.get("description") if isinstance(scenario, dict) else None
    words = str(text or "").strip().rstrip(".")
    # The description of a scenario may name its usual satellite.
    is_other = setting.shared.get("orbit", "geo") != "geo" or file_of(setting.shared)
    return words.replace(" a GEO satellite", " a satellite") if is_other else words


def conditions(setting: Setting) -> list[str]:
    """Return everything that the cells have in common, in words.

    The values in a link file, of a satellite too, stand in place of the arguments that it replaces.
    """
    file = file_of(setting.shared)
    link = _link(setting, file) if file else []
    replaced = {"scenario", "orbit", *(BY_FILE if file else ())}
    parts = []
    for name, value in setting.shared.items():
        if name in replaced or not value or (name in UNSAID and value in UNUSED):
            continue
        if file and (name, value) in IDLE_ON_FILE:
            continue
        if name in OF_A_CPU and value in (SAME, FREE, "1") and setting.shared.get("cpu") == FREE:
            continue
        if (name, value) == ("cpu", FREE) and not all(cell.is_paired for cell in setting.cells):
            continue  # it costs what it costs there
        parts.append(setting.at_loss(value) if name == "loss" else phrase(name, value))
    return [*link, *parts, *_bottleneck(setting)]


def _of_a_run(setting: Setting) -> Mapping[str, object]:
    """Return run.json of a run of the section; {} if nothing was run."""
    run_dir = _first_run_dir(setting)
    return run_json.read(run_dir) if run_dir else {}


def _first_run_dir(setting: Setting) -> Path | None:
    """Return the directory of the first run that has its files, or None."""
    runs = chain.from_iterable(cell.runs for cell in setting.cells)
    return next((run.run_dir for run in runs if run.has_files), None)


def _link(setting: Setting, file: str) -> list[str]:
    """Return the link file in words, or its name alone where no run has its content.

    An example is `link file leo.csv: 20 Mbit/s on the forward link (18 to 20), …`.
    """
    run = _of_a_run(setting)
    contents = run.get("link_files")
    texts = contents if isinstance(contents, dict) else {}
    text = texts.get("link_file", run.get("satellite_file"))
    if not isinstance(text, str):
        return [f"link file {file}"]
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as copy:
        copy.write(text)
        copy.flush()
        summary = link_file.check(copy.name)
    rates = []
    for link, name in ((summary.forward, "forward"), (summary.back, "return")):
        figures = link.rate_bps.mean, link.rate_bps.least, link.rate_bps.greatest
        mean, least, most = (value_of("rate", str(round(rate_bps))) for rate_bps in figures)
        rates.append(
            f"{mean} on the {name} link on average (from {least} to {most}), one-way delay"
            f" {link.delay_ms.mean:.4g} ms (from {link.delay_ms.least:.4g} to"
            f" {link.delay_ms.greatest:.4g} ms), loss {link.loss_pct.mean:.3g} %"
            if summary.has_delay
            else f"{mean} on the {name} link on average (from {least} to {most})"
        )
    again = " and begins again" if summary.repeats else ""
    lasts = f"which lasts {summary.duration_s:g} s{again}"
    if summary.begins_by_seed(setting.shared.get("link_start", "0")):
        lasts += " (each seed begins at another time of it)"
    return [f"link file {file}, {lasts}: {'; '.join(rates)}"]


def _bottleneck(setting: Setting) -> list[str]:
    """Return the sizes of the buffers in bytes, as the link has them, in words.

    If the delay changes, also the delay with which the link begins.
    """
    run_dir = _first_run_dir(setting)
    sizes, delays_ms = {}, []
    for link in statistics(run_dir) if run_dir and len(_buffers(setting.cells)) == 1 else ():
        if isinstance(link.get("buffer_bytes"), int | float):
            sizes[link["_metadata"].get("suffix") or ""] = link["buffer_bytes"]
            delays_ms += [link["asked_delay_ms"]] if "asked_delay_ms" in link else []
    lines, parts = [], []
    for suffix, size in sizes.items():
        parts.append(f"{value_of('size', str(round(size)))} {suffix_in_words(suffix)}")
    if setting.shared.get("delay_ms") == "none" and delays_ms:
        lines.append(f"the one-way delay of the first seed begins with {delays_ms[0]:.4g} ms")
    if parts:
        lines.append(f"the bottleneck's buffer holds {' and '.join(parts)}")
    return lines


def _buffers(cells: Sequence[Cell]) -> set[tuple[str | None, ...]]:
    """Return the different sizes of the buffer that the cells have."""
    return {tuple(map(cell.values.get, ("buffer", "buffer_bdp"))) for cell in cells}
