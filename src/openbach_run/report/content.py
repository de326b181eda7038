# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report says: the tables, figures and sentences that its template (reports/templates/report.md.j2) arranges."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from openbach_run.additions import DESCRIBED, Additions, packages_of
from openbach_run.openbach.measures import Declared, Measure, flat, from_name, in_words, measure_of
from openbach_run.openbach.scenario import SAME
from openbach_run.openbach.source import MATRIX
from openbach_run.paths import REPOSITORY
from openbach_run.report import figures
from openbach_run.report.causes import differences
from openbach_run.report.cells import DEFAULT, FACTORS, Campaigns, Cell, Plot, file_name, name_of, printable, said
from openbach_run.report.claims import (
    BUT_FOR,
    CANNOT_TELL,
    MARGIN,
    Claim,
    Comparison,
    Finding,
    Group,
    Part,
    why,
)
from openbach_run.report.figures import Drawing, against, configurations, find, least_times_s, values, without_unit
from openbach_run.report.recommendations import AS_GOOD, EQUAL, recommend
from openbach_run.results.chance import MIN_SEEDS, WARNING, is_random
from openbach_run.results.intervals import Estimate
from openbach_run.results.tables import Markdown, Table, figure, plain

CURVES = {  # number that is swept → what is drawn over it
    "loss": ("goodput_mbps",),
    "buffer_bdp": ("forward_queue_delay_ms", "share_pct", "total_goodput_mbps", "transfer_time_s"),
}
CURVE_POINTS = 3
"""Fewer values of the number make no curve."""
CURVE_LINES = 8
"""With more lines nobody sees anything."""
MEASURES_A_TABLE = 5
"""More columns with intervals are wider than a page."""


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

    @property
    def words(self) -> str:
        """The measure that its scenario asks for: `transfer time (s)`."""
        return in_words(self.plot.measure, flat(self.declared))

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
    groups: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for cell in campaigns.cells:
        apart = (
            (*FACTORS, *CURVES) if any(name in cell.values for name in FACTORS) else cell.values.keys() - {"scenario"}
        )
        key = tuple((k, v) for k, v in cell.values.items() if k not in apart)
        groups.setdefault(key, []).append(cell)
    found = []
    of_scenario: dict[str, dict[str, set[str]]] = {}
    for key in groups:
        values_of = of_scenario.setdefault(dict(key)["scenario"], {})
        for name, value in key:
            values_of.setdefault(name, set()).add(value)
    for key, cells in groups.items():
        shared = {name: value for name, value in key if value not in ("", SAME)}  # same: no value of its own
        scenario = shared.pop("scenario")
        told_apart = {name: value for name, value in shared.items() if len(of_scenario[scenario][name]) > 1}
        named = file_name(scenario, *(f"{name}_{value}" for name, value in told_apart.items()))
        told_apart.pop("orbit", None)
        orbit = shared.pop("orbit", "")
        inside = ", ".join([scenario, *(f"{name}={value}" for name, value in told_apart.items())])
        title, plot = f"{orbit.upper()} ({inside})" if orbit else inside, campaigns.plots.get(scenario, DEFAULT)
        found.append(Setting(named, title, shared, cells, campaigns.declared, plot))
    return found


def drawings(setting: Setting, baseline: Mapping[str, str]) -> list[Drawing]:
    cells, name, title = setting.cells, setting.name, setting.title
    if not setting.is_matrix:
        return [*curves(setting), *figures.time_series(name, title, cells, setting.declared)]
    drawn = (setting.plot.measure, setting.words)
    made = [figures.heat_map(f"{name}-times", title, cells, *drawn)]
    for loss in values(cells, "loss"):
        chosen = [cell for cell in cells if cell.values["loss"] == loss]
        if any(against(cell, chosen, baseline, setting.plot.measure) for cell in chosen):
            file, there = file_name(name, "compared", loss), f"{title}, {said('loss', loss)}"
            made.append(figures.compared(file, there, chosen, baseline, *drawn))
    if len(values(cells, "loss")) > 1:
        made.append(figures.loss_curves(f"{name}-loss", title, cells, *drawn))
    if len(cells[0].runs) > 1:
        made.append(figures.distributions(f"{name}-ecdf", title, cells, *drawn))
    return [*made, *curves(setting), *figures.time_series(name, title, cells, setting.declared)]


def curves(setting: Setting) -> list[Drawing]:
    cells = setting.cells
    made = []
    for argument, measures in CURVES.items():
        points = len(values(cells, argument))
        if points >= CURVE_POINTS and len(cells) <= CURVE_LINES * points:
            for measure in measures:
                if any(cell.measured(measure) for cell in cells):
                    name = file_name(setting.name, measure, "over", argument)
                    words = in_words(measure, flat(setting.declared))
                    made.append(figures.curves(name, setting.title, cells, argument, measure, words))
    return made


def tables(setting: Setting, baseline: Mapping[str, str]) -> dict[str, Table]:
    """Tables by the name of their files."""
    if not setting.is_matrix:
        return measures_tables(setting)
    made = {f"{setting.name}-times": times_table(setting)}
    if setting.is_time:
        made[f"{setting.name}-recommended"] = recommendations_table(setting)
    for loss in values(setting.cells, "loss"):
        if changes := changes_table(setting, loss, baseline):
            made[file_name(setting.name, "compared", loss)] = changes
    return made


def times_table(setting: Setting) -> Table:
    """The measure: a row per VPN, PEP position and transport, a column per loss."""
    measure = setting.plot.measure
    losses, transports = values(setting.cells, "loss"), values(setting.cells, "cc")
    rows = [
        [vpn, pep, cc, *(shown(find(setting.cells, vpn=vpn, pep=pep, cc=cc, loss=loss), measure) for loss in losses)]
        for vpn, pep in configurations(setting.cells)
        for cc in transports
    ]
    header = ["vpn", "pep", "cc", *(f"loss {loss} %" for loss in losses)]
    return Table(f"{setting.title}: {setting.words}", header, rows, note(setting.cells), 3)


def changes_table(setting: Setting, loss: str, baseline: Mapping[str, str]) -> Table | None:
    """How much more (+) or less (−) than the baseline with the same transport; None where nothing can be compared."""
    cells = [cell for cell in setting.cells if cell.values["loss"] == loss]
    transports = values(cells, "cc")
    measure = setting.plot.measure
    if not any(against(cell, cells, baseline, measure) for cell in cells):
        return None
    rows = []
    for vpn, pep in configurations(cells):
        if not baseline.items() <= {"vpn": vpn, "pep": pep}.items():
            chosen = [find(cells, vpn=vpn, pep=pep, cc=cc) for cc in transports]
            changes = [change(against(cell, cells, baseline, measure), cell) if cell else "–" for cell in chosen]
            rows.append([vpn, pep, *changes])
    title = f"{setting.title}, {said('loss', loss)}: {without_unit(setting.words)} against {name_of_baseline(baseline)}"
    return Table(title, ["vpn", "pep", *transports], rows, "median of paired changes [95 % bootstrap interval]", 2)


def measures_tables(setting: Setting) -> dict[str, Table]:
    """Everything that was measured: a row per cell, a column per measure; a table for those of the whole, one for each suffix
    (flow, direction) with several, none wider than a page."""
    swept = [name for name in setting.cells[0].values if len(values(setting.cells, name)) > 1] or ["scenario"]
    records = [run.record for cell in setting.cells for run in cell.runs if run.record]
    measured = dict.fromkeys(name for one in records for name, value in one.measures.items() if value is not None)
    declared = flat(setting.declared)
    of_suffix = Counter(measure_of(name, declared)[0] for name in measured)
    groups: dict[str, dict[str, str]] = {}
    for name in measured:
        suffix, measure = measure_of(name, declared)
        alone = of_suffix[suffix] == 1
        groups.setdefault("" if alone else suffix, {})[name] = in_words(name, declared) if alone else measure.words
    made = {}
    for suffix, words in groups.items():
        measures = list(words)
        title = f"{setting.title}: measures" + (f", {suffix.replace('_', ' ')}" if suffix else "")
        for first in range(0, len(measures), MEASURES_A_TABLE):
            names = measures[first : first + MEASURES_A_TABLE]
            header = [*swept, *(words[name] for name in names)]
            rows = [
                [*(cell.values.get(name, "") for name in swept), *(shown(cell, name) for name in names)]
                for cell in setting.cells
            ]
            part = str(first // MEASURES_A_TABLE + 1) if first else ""
            file = file_name(*filter(None, (setting.name, "measures", suffix, part)))
            made[file] = Table(title, header, rows, note(setting.cells), len(swept))
    return made


def name_of_baseline(baseline: Mapping[str, str]) -> str:
    return ", ".join(said(name, value) for name, value in baseline.items()) or "none: nothing is compared"


def shown(cell: Cell | None, measure: str) -> str:
    """The cell's figure; what failed or was not run is said, never left out."""
    if cell is None:
        return "–"
    parts = [figure(found)] if (found := cell.estimate(measure)) else []
    parts += [f"{len(cell.failed)} failed"] if cell.failed else []
    parts += [f"{cell.not_run} not run"] if cell.not_run else []
    return ", ".join(parts) or "–"


def change(found: Estimate | None, cell: Cell | None) -> str:
    if found is None:
        return "failed" if cell and cell.failed else "–"
    text = f"{_percent(found.median)} %"
    if found.low is not None and found.high is not None:
        text = f"{_percent(found.median)} % [{_percent(found.low)}, {_percent(found.high)}]"
    return text if cell is None or cell.whole else f"{text} (of {found.seeds} seeds)"


def _percent(ratio: float) -> str:
    percent = round((ratio - 1) * 100, 1) + 0.0
    return f"{percent:+.1f}".replace("-", "−") if percent else "0.0"


def note(cells: Sequence[Cell]) -> str:
    seeds = max(len(cell.runs) for cell in cells)
    alone = WARNING if any(is_random(cell.values) for cell in cells) else "one seed: no interval"
    parts = [f"median [95 % bootstrap interval] over {seeds} seeds" if seeds > 1 else alone]
    parts += [f"the least possible time is {time_s:.2f} s" for time_s in least_times_s(cells)]
    return "; ".join(parts)


def claims_table(claims: Sequence[Claim]) -> Table:
    rows = [
        [claim.name, one.part.says, one.orbit.upper(), one.verdict, _range(one)]
        for claim in claims
        for one in claim.findings
        if one.comparisons
    ]
    header = ["claim", "what is compared", "orbit", "verdict", "found"]
    return Table("Claims of the published documents", header, rows, VERDICTS_NOTE, len(header))


VERDICTS_NOTE = (
    "holds: every comparison lies within its bounds with its whole 95 % interval; holds but for: more than half of them; "
    f"does not hold: at least one lies outside with its whole interval. A bound may be missed by {MARGIN:.0%} of it, where a "
    f"claim says nothing else. A comparison of fewer than {MIN_SEEDS} seeds or with failed runs decides nothing"
)
GROUPS_NAMED = 4
"""More exceptions make no sentence: claims.csv has them all."""


def verdict_in_words(finding: Finding) -> str:
    """`holds but for openvpn_tcp, PEP A (1.13 to 1.24)`"""
    if finding.verdict == CANNOT_TELL:
        return f"{finding.verdict}: {why(finding)}"
    exceptions = finding.exceptions
    if len(exceptions) > GROUPS_NAMED:
        several = sum(len(one.comparisons) for one in exceptions)
        named = [f"{several} of {len(finding.comparisons)} comparisons"]
    else:
        named = [_group(one) for one in exceptions]
    if finding.verdict == BUT_FOR:
        not_run = [f"what was not run: {', '.join(finding.not_run)}"] if finding.not_run else []
        return f"{finding.verdict} {'; '.join(named + not_run)}"
    return f"{finding.verdict}, only for {'; '.join(named)}" if named else finding.verdict


def _group(group: Group) -> str:
    medians = sorted(one.found.median for one in group.comparisons if one.found)
    part = group.comparisons[0].part
    digits = 3 if part.is_ratio else 2
    ends = [f"{one:.{digits}f}" for one in dict.fromkeys((medians[0], medians[-1]))] if medians else ["not measured"]
    why_not = {one.why_not or "interval on both sides of the bound" for one in group.comparisons if one.holds is None}
    told = f", cannot be told: {'; '.join(sorted(why_not))}" if why_not else ""
    return f"{group.name or 'all'} ({' to '.join(dict.fromkeys(ends))}{told})"


def verdict_of(claim: Claim) -> str:
    """`GEO holds but for openvpn_tcp; LEO holds`: what a claim comes to, for a list of claims."""
    told = []
    for orbit in claim.verdicts:
        words = [verdict_in_words(one) for one in claim.findings if one.orbit == orbit]
        all_alike = len(set(words)) == 1
        of_parts = (
            words[0]
            if all_alike
            else "; ".join(f"{one.part.says}: {verdict_in_words(one)}" for one in claim.findings if one.orbit == orbit)
        )
        told.append(f"{orbit.upper()} {of_parts}".strip())
    return ". ".join(told)


def finding_sentence(finding: Finding, declared: Declared) -> str:
    """Verdict, from least to most, and what the runs of the comparison farthest off show beside."""
    return " ".join(filter(None, (f"{verdict_in_words(finding)}.", f"{_range(finding)}.", _cause(finding, declared))))


def asked_of(part: Part) -> str:
    measure = from_name(part.measure).title
    what = "the ratio" if part.is_ratio else f"the difference in {measure}" if part.against else measure
    return f"{part.says}: {what} has to be {part.bounds}"


def _range(finding: Finding) -> str:
    comparisons = finding.comparisons
    known = [(one.found.median, number) for number, one in enumerate(comparisons) if one.found]
    if not known:
        return "Nothing was measured"
    least, most = comparisons[min(known)[1]], comparisons[max(known)[1]]
    return f"It is {_named(least)}" if least is most else f"It is from {_named(least)} to {_named(most)}"


def _cause(finding: Finding, declared: Declared) -> str:
    worst = max(finding.comparisons, key=lambda one: one.excess, default=None)
    if worst is None or worst.against is None or worst.excess <= 0:
        return ""
    seen = differences(worst.cell, worst.against, finding.part.measure, flat(declared))
    beside = "; ".join(f"{one.words} {_number(one.here)} against {_number(one.there)}" for one in seen)
    return f"Farthest outside: {_named(worst)}" + (f". Its runs show beside it: {beside}." if beside else ".")


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _named(one: Comparison) -> str:
    return f"{figure(one.found, 3 if one.part.is_ratio else 2)} ({one.name})"


def recommendations_table(setting: Setting) -> Table:
    """A row per loss and transport: the best VPN and PEP position, and those as good."""
    rows = []
    for loss in values(setting.cells, "loss"):
        for cc in values(setting.cells, "cc"):
            cells = [one for one in setting.cells if (one.values["loss"], one.values["cc"]) == (loss, cc)]
            chosen = recommend(cells, setting.plot.measure)
            if chosen is None:
                rows.append([loss, cc, f"none: a VPN and {MIN_SEEDS} seeds without failure are needed", "–", "–", "–"])
            else:
                best, time = name_of(chosen.best, ("vpn", "pep")), figure(chosen.found)
                rows.append([loss, cc, best, time, change(chosen.against, None), _positions(chosen.as_good)])
    header = ["loss (%)", "transport", "VPN and PEP", "time (s)", "against no VPN, no PEP", "as good"]
    as_good = f"as good: its interval does not exclude that it takes at most {AS_GOOD - 1:.0%} longer"
    as_good += (
        f"; of those that take at most {EQUAL - 1:.0%} longer than the shortest, one without a PEP is recommended"
    )
    title = f"{setting.title}: recommended VPN and PEP position"
    return Table(title, header, rows, f"{note(setting.cells)}; {as_good}", len(header))


def _positions(cells: Sequence[Cell]) -> str:
    """`wireguard (no PEP, PEP A); openvpn_udp (PEP B)`"""
    by_vpn: dict[str, dict[str, None]] = {}  # a dict keeps order: of several transports each position counts once
    for cell in cells:
        by_vpn.setdefault(cell.values["vpn"], {})[said("pep", cell.values["pep"])] = None
    return "; ".join(f"{vpn} ({', '.join(peps)})" for vpn, peps in by_vpn.items()) or "none"


def best_transports(campaigns: Campaigns) -> list[Markdown]:
    """A sentence for each orbit and loss: the best of all transports, and those as good."""
    sentences: list[Markdown] = []
    for setting in settings(campaigns):
        if not (setting.is_matrix and setting.is_time):
            continue
        for loss in values(setting.cells, "loss"):
            if chosen := recommend([one for one in setting.cells if one.values["loss"] == loss], setting.plot.measure):
                where = plain(f"{setting.title}, {said('loss', loss)}")
                best, unit = name_of(chosen.best, ("vpn", "pep", "cc")), setting.measure.unit
                ties = f" As good: {_positions(chosen.as_good)}." if chosen.as_good else ""
                what = plain(f"{best}, {without_unit(setting.words)} {figure(chosen.found)} {unit}.{ties}")
                sentences.append(Markdown(f"**{where}**: {what}"))
    return sentences


def failures(campaigns: Campaigns) -> list[Markdown]:
    """Every cell with runs that failed or are missing, with the first failure's words."""
    told: list[Markdown] = []
    arguments = {name for cell in campaigns.cells for name in cell.values}
    told_apart = {name for name in arguments if name == "scenario" or len(campaigns.distinct(name)) > 1}
    for cell in campaigns.cells:
        if not cell.whole:
            names = [name for name in cell.values if name in told_apart]
            count = f"{len(cell.failed)} failed, {cell.not_run} not run, of {len(cell.runs)}"
            first = f": {cell.failed[0].status}, {(cell.failed[0].error or '-').splitlines()[0]}" if cell.failed else ""
            told.append(plain(f"{name_of(cell, names)}: {count}{first}"))
    return told


def command_line(command: str) -> Markdown:
    """As a line of code: indented, nothing in it can end the block."""
    return Markdown(f"    {printable(command)}")


def engines(campaigns: Campaigns) -> list[str]:
    return list(dict.fromkeys(record.identity["engine"] for record in campaigns.records))


def platform_table(campaigns: Campaigns, packages: Sequence[str]) -> Table:
    """What the runs depend on; several values where the campaigns differ in it."""
    records = campaigns.records
    names = list(dict.fromkeys(name for record in records for name in record.identity))
    rows = [[name, ", ".join(dict.fromkeys(record.identity.get(name, "–") for record in records))] for name in names]
    there = dict.fromkeys(
        one for several in {id(one.packages): one.packages for one in records}.values() for one in several
    )
    known = [f"{name} {' and '.join(found)}" for name in packages if (found := _versions(there, name))]
    rows.append(["packages", ", ".join(known)])
    seeds = sorted({run.seed for run in campaigns.runs})
    rows.append(["seeds", ", ".join(map(str, seeds))])
    note = "every package is in the directory shared of the results"
    return Table("What the figures depend on", ["", "version"], rows, note, 2)


def _versions(packages: Iterable[str], name: str) -> list[str]:
    return list(dict.fromkeys(one.split("_")[1] for one in packages if one.split("_")[0] == name))


def named_packages(additions: Additions) -> list[str]:
    """The Debian packages that the guest, VPNs and jobs ask for by name."""
    own = json.loads((REPOSITORY / "src/openbach_run/guest/packages.json").read_text())["packages"]
    folders = [folder for kind in DESCRIBED for folder in additions.all(kind).values()]
    folders += [folder / "files" for folder in additions.all("jobs").values()]
    return sorted({*own, *chain.from_iterable(map(packages_of, folders))})


def page_of(docs: Path, name: str) -> Markdown:
    """The text of docs/`name`.md below its title, its headings one level lower, without links to other files."""
    _, _, text = (docs / f"{name}.md").read_text(encoding="utf-8").partition("\n")
    return _inside(text, 1)


def method(docs: Path) -> Markdown:
    """The pages that docs/method/README.md lists, in its order, their headings two levels lower, without links to other
    files."""
    listed = re.findall(r"^- \[.+?\]\((.+?)\)", (docs / "method/README.md").read_text(encoding="utf-8"), re.MULTILINE)
    pages = [(docs / "method" / name).read_text(encoding="utf-8") for name in listed]
    return Markdown("\n\n".join(_inside(page, 2) for page in pages))


def _inside(text: str, levels: int) -> Markdown:
    undrawn = re.sub(r"^!\[.*\n\n", "", text.strip(), flags=re.MULTILINE)  # figures are where the page is
    unlinked = re.sub(r"\[([^\]]+)\]\((?!http)[^)]*\)", r"\1", undrawn)
    return Markdown(re.sub(r"^#", "#" * (levels + 1), unlinked, flags=re.MULTILINE))
