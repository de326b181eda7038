# SPDX-License-Identifier: GPL-3.0-or-later
"""The sections of a report's results: cells that share all but what is compared, and the conditions that they share."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from openbach_run.openbach.measures import Declared, Measure, flat, measure_of
from openbach_run.openbach.scenario import SAME
from openbach_run.openbach.source import MATRIX
from openbach_run.report.cells import DEFAULT, FACTORS, Campaigns, Cell, Plot, file_name
from openbach_run.report.figures import values
from openbach_run.report.words import FREE, LINK, said, suffix_in_words, title_of, value_of
from openbach_run.results import run_json
from openbach_run.results.record import statistics
from openbach_run.satellite.job import link_file

CURVES = {  # number that is swept → what is drawn over it
    "loss": ("goodput_mbps",),
    "buffer_bdp": ("forward_queue_delay_ms", "share_pct", "total_goodput_mbps", "transfer_time_s"),
}
UNSAID = (
    "buffer", "buffer_bdp", "burst_packets", "burst_ms", "duration_s", "series_s", "vpn_values", "tcp_buffer", "ecn",
    "sack", "window_scaling",
)  # fmt: skip
"""Not used, these say nothing: the buffer, or the burst, is the other of the two."""
OF_A_CPU = ("cpu_scale", "cpu_pop", "cpu_scale_pop")
"""Where the CPU costs nothing, neither do these."""
SECOND = "vpn_2"
"""Who has a tunnel for each flow comes after who has one for both."""


@dataclass(frozen=True)
class Setting:
    """Cells that share all but VPN, PEP position, transport and the numbers of CURVES; of a scenario with none of these, all
    its cells. `name` is that of its files."""

    name: str
    title: str
    shared: dict[str, str]
    """What its cells have in common, by argument."""
    cells: list[Cell]
    declared: Declared = field(default_factory=dict)
    """What the measures are."""
    plot: Plot = DEFAULT

    def in_words(self, column: str) -> str:
        """`transfer time (s)`"""
        declared = flat(self.declared)
        unit = measure_of(column, declared)[1].unit
        return title_of(column, declared) + (f" ({unit})" if unit else "")

    @property
    def words(self) -> str:
        """The measure that its scenario asks for."""
        return self.in_words(self.plot.measure)

    @property
    def measure(self) -> Measure:
        return measure_of(self.plot.measure, flat(self.declared))[1]

    @property
    def is_time(self) -> bool:
        """Whether a configuration is recommended for having least of the measure."""
        return self.measure.unit in ("s", "ms")

    @property
    def is_matrix(self) -> bool:
        """Whether its scenario asks for the published report's figures and tables, and it has what they show: all four
        factors, no other numbers, and the measure."""
        return (
            self.plot.figure == MATRIX
            and all(name in self.cells[0].values for name in FACTORS)
            and all(len(values(self.cells, name)) == 1 for name in CURVES if name not in FACTORS)
            and any(cell.measured(self.plot.measure) for cell in self.cells)
        )


def settings(campaigns: Campaigns) -> list[Setting]:
    """The matrices first, a tunnel for each flow last, else in the order of the campaigns."""
    groups: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for cell in campaigns.cells:
        apart = (
            (*FACTORS, *CURVES) if any(name in cell.values for name in FACTORS) else cell.values.keys() - {"scenario"}
        )
        key = tuple((k, v) for k, v in cell.values.items() if k not in apart)
        groups.setdefault(key, []).append(cell)
    found = []
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
        told_apart = {
            name: value
            for name, value in key
            if len(of_scenario[scenario, name] if name == "orbit" else of_orbit[scenario, orbit, name]) > 1
            and value not in ("", SAME)  # same: no value of its own
        }
        named = file_name(scenario, *(f"{name}_{value}" for name, value in told_apart.items()))
        told_apart.pop("orbit", None)
        inside = ", ".join([said("scenario", scenario), *(said(name, value) for name, value in told_apart.items())])
        title = f"{shared['orbit'].upper()} ({inside})" if shared.get("orbit") else inside
        of_all = {name: value for name, value in cells[0].values.items() if len(values(cells, name)) == 1}
        plot = campaigns.plots.get(scenario, DEFAULT)
        found.append(Setting(named, title, of_all, cells, campaigns.declared, plot))
    return sorted(found, key=lambda one: (not one.is_matrix, one.shared.get(SECOND, "none") != "none"))


def described(setting: Setting) -> str:
    """What its scenario says of itself."""
    scenario = _of_a_run(setting).get("scenario", {})
    return str(scenario.get("description") or "").strip().rstrip(".") if isinstance(scenario, dict) else ""


def conditions(setting: Setting) -> list[str]:
    """Everything that the cells have in common, in words; the link file's own values in place of those that it replaces."""
    link = _link(setting)
    replaced = {"scenario", "orbit", *(LINK if link else ()), *(("link_file",) if link else ())}
    told = []
    for name, value in setting.shared.items():
        if name in replaced or not value or (name in UNSAID and value in ("none", "0", "default")):
            continue
        if name in OF_A_CPU and value in (SAME, FREE, "1") and setting.shared.get("cpu") == FREE:
            continue
        told.append(said(name, value))
    return [*link, *told, *_bottleneck(setting)]


def _of_a_run(setting: Setting) -> Mapping[str, object]:
    run_dir = next((run.run_dir for cell in setting.cells for run in cell.runs if run.record), None)
    return run_json.read(run_dir) if run_dir else {}


def _link(setting: Setting) -> list[str]:
    """`link file leo.csv: 20 Mbit/s towards the user (18 to 20), …`; nothing without one."""
    file = setting.shared.get("link_file", "none")
    contents = _of_a_run(setting).get("link_files")
    text = contents.get("link_file") if isinstance(contents, dict) else None
    if file == "none" or not isinstance(text, str):
        return []
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as copy:
        copy.write(text)
        copy.flush()
        summary = link_file.check(copy.name)
    told = [
        f"{value_of('rate', str(round(one.rate_bps.mean)))} {words} on average"
        f" (from {value_of('rate', str(round(one.rate_bps.least)))} to {value_of('rate', str(round(one.rate_bps.greatest)))}),"
        f" one-way delay {one.delay_ms.mean:.4g} ms (from {one.delay_ms.least:.4g} to {one.delay_ms.greatest:.4g} ms),"
        f" loss {one.loss_pct.mean:.3g} %"
        for one, words in ((summary.forward, "towards the user"), (summary.back, "from the user"))
    ]
    again = " and begins again" if summary.repeats else ""
    return [f"link file {Path(file).name}, which lasts {summary.duration_s:g} s{again}: {'; '.join(told)}"]


def _bottleneck(setting: Setting) -> list[str]:
    """The buffers in bytes, as the link has them, and the delay with which it begins where it changes."""
    run_dir = next((run.run_dir for cell in setting.cells for run in cell.runs if run.record), None)
    sizes, delays_ms = {}, []
    for one in statistics(run_dir) if run_dir and len(_buffers(setting.cells)) == 1 else ():
        if isinstance(one.get("buffer_bytes"), int | float):
            sizes[one["_metadata"].get("suffix") or ""] = one["buffer_bytes"]
            delays_ms += [one["asked_delay_ms"]] if "asked_delay_ms" in one else []
    told = [f"{value_of('size', str(round(size)))} {suffix_in_words(suffix)}" for suffix, size in sizes.items()]
    moves = setting.shared.get("delay_ms") == "none" and delays_ms
    first = [f"the one-way delay of the first seed begins with {delays_ms[0]:.4g} ms"] if moves else []
    return [*first, *([f"the bottleneck's buffer holds {' and '.join(told)}"] if told else [])]


def _buffers(cells: Sequence[Cell]) -> set[tuple[str | None, ...]]:
    return {tuple(map(cell.values.get, ("buffer", "buffer_bdp"))) for cell in cells}
