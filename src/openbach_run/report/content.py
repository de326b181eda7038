# SPDX-License-Identifier: GPL-3.0-or-later
"""The content of the report: tables, figures and sentences.

The template (reports/templates/report.md.j2) arranges them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, product
from pathlib import Path

from openbach_run.catalog import DESCRIBED, Catalog, packages_of
from openbach_run.link_checks import is_random
from openbach_run.openbach.measures import Measure, flat, measure_of
from openbach_run.paths import REPOSITORY
from openbach_run.report import figures
from openbach_run.report.cells import (
    Campaigns,
    Cell,
    file_name,
    is_numeral,
    name_of,
    pairings,
    printable,
)
from openbach_run.report.figures import (
    Drawing,
    against,
    configurations,
    find,
    least_times_s,
    values,
    without_unit,
)
from openbach_run.report.settings import CURVES, Setting
from openbach_run.report.words import (
    figure,
    heading,
    in_good_units,
    named,
    places_of,
    said,
    suffix_in_words,
    title_of,
    value_of,
)
from openbach_run.results.by_engine import limit, time_of
from openbach_run.results.intervals import Estimate, change_notes, notes
from openbach_run.results.seeds import WARNING
from openbach_run.results.tables import Markdown, Table, alike, plain

COMPARED = 4
"""Fewer comparisons with the baseline get no figure: their table is enough."""
CURVE_POINTS = 3
"""Fewer values of a swept number make no curve."""
CURVE_LINES = 8
"""The most lines of a figure; more could not be read."""
MOST_NAMED = 4
"""The most values of a part of the platform that are named; if there are more, only their number
is."""
MEASURES_A_TABLE = 5
"""The most measures of a table: more columns with intervals are wider than a page."""


def drawings(
    setting: Setting, baseline: Mapping[str, str], sections: Sequence[Setting] = ()
) -> list[Drawing]:
    """Return the figures of a section.

    Times of all `sections` have one scale.
    """
    cells, name, title = setting.cells, setting.name, setting.title
    every = list(chain.from_iterable(one.cells for one in sections if one.plot == setting.plot))
    if not setting.is_matrix:
        return [*curves(setting), *figures.time_series(name, title, cells, setting.declared)]
    drawn = (setting.plot.measure, setting.words)
    made = []
    if len(values(cells, "loss")) * len(values(cells, "cc")) > 1:
        made.append(figures.heat_map(f"{name}-times", title, cells, *drawn, every))
    for loss in values(cells, "loss"):
        chosen = [cell for cell in cells if cell.values["loss"] == loss]
        if (
            sum(
                against(cell, chosen, baseline, setting.plot.measure) is not None for cell in chosen
            )
            >= COMPARED
        ):
            file, there = file_name(name, "compared", loss), f"{title}, {said('loss', loss)}"
            made.append(figures.compared(file, there, chosen, baseline, *drawn))
    few = len(values(cells, "vpn")) <= CURVE_LINES
    losses = values(cells, "loss")
    if few and len(losses) >= CURVE_POINTS and all(map(is_numeral, losses)):
        made.append(figures.loss_curves(f"{name}-loss", title, cells, *drawn))
    if few and max(len(cell.runs) for cell in cells) >= figures.ECDF_SEEDS:
        made.append(figures.distributions(f"{name}-ecdf", title, cells, *drawn))
    return [*made, *curves(setting), *figures.time_series(name, title, cells, setting.declared)]


def curves(setting: Setting) -> list[Drawing]:
    """Return a figure for each measure of CURVES over each number that was swept."""
    cells = setting.cells
    made = []
    for argument, measures in CURVES.items():
        points = len(values(cells, argument))
        if points >= CURVE_POINTS and len(cells) <= CURVE_LINES * points:
            for measure in measures:
                if any(cell.measured(measure) for cell in cells):
                    name = file_name(setting.name, measure, "over", argument)
                    words = setting.in_words(measure)
                    made.append(
                        figures.curves(name, setting.title, cells, argument, measure, words)
                    )
    return made


def tables(setting: Setting, baseline: Mapping[str, str]) -> dict[str, Table]:
    """Return the tables of a section by the name of their files."""
    if not setting.is_matrix:
        return measures_tables(setting)
    made = {f"{setting.name}-times": times_table(setting)}
    for loss in values(setting.cells, "loss"):
        if changes := changes_table(setting, loss, baseline):
            made[file_name(setting.name, "compared", loss)] = changes
    return made


def times_table(setting: Setting) -> Table:
    """Return the table of the measure.

    It has a row for each VPN, PEP position and congestion control, and a column for each loss.
    """
    measure = setting.plot.measure
    losses, transports = values(setting.cells, "loss"), values(setting.cells, "cc")
    rows = []
    for (vpn, pep), cc in product(configurations(setting.cells), transports):
        wanted = {"vpn": vpn, "pep": pep, "cc": cc}
        found = [find(setting.cells, **wanted, loss=loss) for loss in losses]
        figures = [shown(one, measure, tail=setting.is_time) for one in found]
        rows.append([*map(named, (vpn, pep, cc)), *figures])
    header = [*map(heading, ("vpn", "pep", "cc")), *(said("loss", loss) for loss in losses)]
    texts = [
        (shown(one, measure), is_random(one.values)) for one in setting.cells if len(one.runs) > 1
    ]
    told = "; ".join([note(setting.cells, tail=setting.is_time), *alike(texts)])
    return Table(f"{setting.title}: {setting.words}", header, rows, told, 3)


def changes_table(setting: Setting, loss: str, baseline: Mapping[str, str]) -> Table | None:
    """Return by how much each cell differs from the baseline cell with the same transport.

    More is +, less is −. None if nothing can be compared.
    """
    cells = [cell for cell in setting.cells if cell.values["loss"] == loss]
    transports = values(cells, "cc")
    measure = setting.plot.measure
    if not any(against(cell, cells, baseline, measure) for cell in cells):
        return None
    rows = []
    for vpn, pep in configurations(cells):
        if not baseline.items() <= {"vpn": vpn, "pep": pep}.items():
            chosen = [find(cells, vpn=vpn, pep=pep, cc=cc) for cc in transports]
            changes = [
                change(against(cell, cells, baseline, measure), cell) if cell else "–"
                for cell in chosen
            ]
            rows.append([named(vpn), named(pep), *changes])
    title = (
        f"{setting.title}, {said('loss', loss)}: {without_unit(setting.words)} against"
        f" {name_of_baseline(baseline)}"
    )
    header = [heading("vpn"), heading("pep"), *map(named, transports)]
    told = change_notes([len(one.runs) for one in cells], pairings(cells))
    several = f"{told}, no brackets where all seeds gave the same"
    return Table(title, header, rows, "; ".join(one_seed(cells) or [several]), 2)


def measures_tables(setting: Setting) -> dict[str, Table]:
    """Return tables of everything that was measured: a row per cell, a column per measure.

    Measures of the whole run have a table, and so does each suffix (flow, direction) with several
    measures. No table is wider than a page: the columns that do not fit go to further tables.
    """
    swept = [name for name in setting.cells[0].values if len(values(setting.cells, name)) > 1] or [
        "scenario"
    ]
    runs = chain.from_iterable(cell.runs for cell in setting.cells)
    records = [run.record for run in runs if run.record]
    measured: dict[str, None] = {}  # a set that keeps the order
    for one in records:
        measured |= {name: None for name, value in one.measures.items() if value is not None}
    declared = flat(setting.declared)
    of_suffix = Counter(measure_of(name, declared)[0] for name in measured)
    groups: dict[str, list[str]] = {}
    for name in measured:
        suffix = measure_of(name, declared)[0]
        # A suffix with one measure only is in the table of the whole.
        groups.setdefault("" if of_suffix[suffix] == 1 else suffix, []).append(name)
    made = {}
    for suffix, measures in groups.items():
        title = f"{setting.title}: measures" + (f", {suffix_in_words(suffix)}" if suffix else "")
        for first in range(0, len(measures), MEASURES_A_TABLE):
            shown_here = measures[first : first + MEASURES_A_TABLE]
            columns = [_column(setting, name, within=bool(suffix)) for name in shown_here]
            header = [*map(heading, swept), *(words for words, _ in columns)]
            rows = []
            for number, cell in enumerate(setting.cells):
                labels = [_value(name, cell.values.get(name, "")) for name in swept]
                rows.append([*labels, *(figures[number] for _, figures in columns)])
            part = str(first // MEASURES_A_TABLE + 1) if first else ""
            file = file_name(*filter(None, (setting.name, "measures", suffix, part)))
            made[file] = Table(title, header, rows, note(setting.cells, tail=True), len(swept))
    return made


def _value(name: str, value: str) -> str:
    """Return an argument's value without its unit, which is in the column's head."""
    return value if is_numeral(value) else value_of(name, value)


def _column(setting: Setting, name: str, *, within: bool) -> tuple[str, list[str]]:
    """Return head and figures of a measure.

    `within` a table of its suffix the head does not repeat the suffix.
    """
    declared = flat(setting.declared)
    measure = measure_of(name, declared)[1]
    found = [cell.estimate(name) for cell in setting.cells]
    units = in_good_units(measure, [one.median for one in found if one])
    title = measure.title if within else title_of(name, declared)
    words = f"{title} ({units.unit})" if units.unit else title
    tail = measure.better == "less"
    return words, [shown(cell, name, units, tail=tail) for cell in setting.cells]


def name_of_baseline(baseline: Mapping[str, str]) -> str:
    """Return in words what all configurations are compared with."""
    return (
        ", ".join(said(name, value) for name, value in baseline.items())
        or "none: nothing is compared"
    )


def shown(
    cell: Cell | None, measure: str, units: Measure | None = None, *, tail: bool = False
) -> str:
    """Return the cell's figure in words.

    Runs that failed or were not run are counted, never left out.
    """
    if cell is None:
        return "–"
    places, factor = (places_of(units), units.factor) if units else (None, 1.0)
    found = cell.estimate(measure)
    parts = [figure(found, places, factor, tail=tail)] if found else []
    parts += [f"{len(cell.failed)} failed"] if cell.failed else []
    parts += [f"{cell.not_run} not run"] if cell.not_run else []
    return ", ".join(parts) or "–"


def change(found: Estimate | None, cell: Cell | None) -> str:
    """Return a change in percent with its interval; "failed" or a dash if there is none."""
    if found is None:
        return "failed" if cell and cell.failed else "–"
    text = f"{_percent(found.median)} %"
    if found.low is not None and found.high is not None:
        ends = [_percent(found.low), _percent(found.high)]
        text += f" [{', '.join(ends)}]" if set(ends) != {_percent(found.median)} else ""
    return text if cell is None or cell.whole else f"{text} (of {found.seeds} seeds)"


def _percent(ratio: float) -> str:
    """Return a ratio as a change in percent: `+1.5`, `−3.0`, `0.0`."""
    percent = round((ratio - 1) * 100, 1) + 0.0
    return f"{percent:+.1f}".replace("-", "−") if percent else "0.0"


def note(cells: Sequence[Cell], *, tail: bool = False) -> str:
    """Return the note below a table: number of seeds, intervals and the least possible time."""
    parts = [*notes([len(cell.runs) for cell in cells], tail=tail), *one_seed(cells)]
    parts += [f"the least possible time is {time_s:.2f} s" for time_s in least_times_s(cells)]
    return "; ".join(parts)


def one_seed(cells: Sequence[Cell]) -> list[str]:
    """Return the note on cells with one seed; [] if there are none."""
    alone = [cell for cell in cells if len(cell.runs) == 1]
    if any(is_random(cell.values) for cell in alone):
        return [WARNING]
    return ["one seed: no interval"] if len(alone) == len(cells) else []


def failures(campaigns: Campaigns) -> list[Markdown]:
    """Return a line for each cell with runs that failed or are missing.

    It has the words of the first failure.
    """
    told: list[Markdown] = []
    arguments = set(chain.from_iterable(cell.values for cell in campaigns.cells))
    told_apart = {
        name for name in arguments if name == "scenario" or len(campaigns.distinct(name)) > 1
    }
    for cell in campaigns.cells:
        if not cell.whole:
            names = [name for name in cell.values if name in told_apart]
            count = f"{len(cell.failed)} failed, {cell.not_run} not run, of {len(cell.runs)}"
            first = (
                f": {cell.failed[0].status}, {(cell.failed[0].error or '-').splitlines()[0]}"
                if cell.failed
                else ""
            )
            told.append(plain(f"{name_of(cell, names)}: {count}{first}"))
    return told


def times(campaigns: Campaigns) -> str:
    """Return the time of all runs together by its clock: `5 minutes of virtual time`."""
    of_clock: dict[str, float] = {}
    for one in campaigns.records:
        of_clock[one.clock] = of_clock.get(one.clock, 0.0) + one.virtual_s
    told = []
    for clock, seconds in of_clock.items():
        long = f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
        told.append(f"{f'{seconds:.0f} s' if seconds < 120 else long} of {time_of(clock)}")
    return ", ".join(told) or "0 s"


def command_line(command: str) -> Markdown:
    """Return a command as a line of code, indented so that nothing in it can end the block."""
    return Markdown(f"    {printable(command)}")


def platform_table(campaigns: Campaigns, packages: Sequence[str]) -> Table:
    """Return the table of everything that the runs depend on, such as versions, packages and seeds.

    A part has several values if the campaigns differ in it, or if its hash depends on the code and
    packages that a run uses.
    """
    records = campaigns.records
    rows = []
    for name in dict.fromkeys(chain.from_iterable(record.identity for record in records)):
        values = dict.fromkeys(record.identity.get(name, "–") for record in records)
        few = len(values) <= MOST_NAMED
        rows.append(
            [
                name.replace("_", " "),
                ", ".join(values) if few else f"{len(values)}, by what a run uses",
            ]
        )
    # Most records share one list of packages: each list is looked at once.
    lists = {id(one.packages): one.packages for one in records}.values()
    there = dict.fromkeys(chain.from_iterable(lists))
    versions = {name: _versions(there, name) for name in packages}
    known = [f"{name} {' and '.join(found)}" for name, found in versions.items() if found]
    rows += [["packages", ", ".join(known)]] if known else []
    seeds = sorted({run.seed for run in campaigns.runs})
    rows.append(["seeds", ", ".join(map(str, seeds))])
    note = "every package is in the directory shared of the results, and " if there else ""
    note += "every value is in the record.json of its run"
    return Table("What the figures depend on", ["part", "version"], rows, note, 2)


def _versions(packages: Iterable[str], name: str) -> list[str]:
    """Return the versions of a package among `name_version_…` texts, each once."""
    return list(dict.fromkeys(one.split("_")[1] for one in packages if one.split("_")[0] == name))


def named_packages(catalog: Catalog) -> list[str]:
    """Return the Debian packages that the guest, VPNs and jobs ask for by name, sorted."""
    own = json.loads((REPOSITORY / "src/openbach_run/guest/packages.json").read_text())["packages"]
    folders = list(chain.from_iterable(catalog.all(kind).values() for kind in DESCRIBED))
    folders += [folder / "files" for folder in catalog.all("jobs").values()]
    return sorted({*own, *chain.from_iterable(map(packages_of, folders))})


def page_of(docs: Path, name: str, kinds: Sequence[str]) -> Markdown:
    """Return the text of docs/`name`.md below its title, with the limits of these kinds only.

    Its headings are one level lower, and links to other files are plain text.
    """
    _, _, text = (docs / f"{name}.md").read_text(encoding="utf-8").partition("\n")
    items = re.split(r"^(?=- |#)", text, flags=re.MULTILINE)
    of = [limit(kinds, one[4:]) if one.startswith("- **") else one[4:] for one in items]
    kept = [one[:4] + told for one, told in zip(items, of, strict=True) if told is not None]
    return _inside("".join(kept), 1)


def limitations(docs: Path, kinds: Sequence[str]) -> Markdown:
    """Return a list of the first sentence of each limitation of time and measurements.

    Those that hold for results of no such kind are left out.

    They are taken from docs/limitations.md, above its section on scenarios.
    """
    text = (docs / "limitations.md").read_text(encoding="utf-8").partition("## Scenarios")[0]
    found = re.findall(r"^- \*\*([^*]+\.)\*\*", text, re.MULTILINE)
    return Markdown("\n".join(f"- {one}" for one in map(partial(limit, kinds), found) if one))


def trust_table(docs: Path) -> Table:
    """Return what was checked against what, with the size of the difference found.

    The rows are those of the long table in docs/trust.md in which there is one.
    """
    text = (docs / "trust.md").read_text(encoding="utf-8")
    # The table ends with an empty line; the page has others.
    text = text[text.index("| checked | against |") :].partition("\n\n")[0]
    rows = []
    for line in re.findall(r"^\| (.+?) \|$", text, re.MULTILINE)[1:]:
        cells = [_unmarked(cell) for cell in line.split(" | ")[:3]]
        # The report counts its findings itself.
        is_other = cells[2].startswith("none") or cells[0] == "the published report's findings"
        rows += [] if is_other else [cells]
    return Table(
        "The size of known effects",
        ["checked", "against", "difference"],
        rows,
        "docs/trust.md has how each is repeated",
        3,
    )


def _unmarked(text: str) -> str:
    """Return Markdown without links and code."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text).replace("`", "")


def method(docs: Path, page: str) -> Markdown:
    """Return a page of docs/, or README.md of a folder and the pages that it lists, in its order.

    Their headings are two levels lower, and links to other files are plain text.
    """
    if (docs / f"{page}.md").exists():
        return _inside((docs / f"{page}.md").read_text(encoding="utf-8"), 2)
    index = docs / page / "README.md"
    listed = re.findall(r"^- \[.+?\]\((.+?)\)", index.read_text(encoding="utf-8"), re.MULTILINE)
    pages = [(index.parent / name).read_text(encoding="utf-8") for name in ("README.md", *listed)]
    return Markdown("\n\n".join(_inside(page, 2) for page in pages))


def _inside(text: str, levels: int) -> Markdown:
    """Return Markdown to be set inside the report, without figures and links to files."""
    undrawn = re.sub(
        r"^!\[.*\n\n", "", text.strip(), flags=re.MULTILINE
    )  # figures are where the page is
    unlinked = re.sub(r"\[([^\]]+)\]\((?!http)[^)]*\)", r"\1", undrawn)
    return Markdown(re.sub(r"^#", "#" * (levels + 1), unlinked, flags=re.MULTILINE))
