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
from openbach_run.link_checks import has_random_link
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
    phrase,
    places_of,
    suffix_in_words,
    title_of,
    value_of,
)
from openbach_run.results.by_engine import limit, time_of
from openbach_run.results.intervals import Estimate, change_notes, notes, without_brackets
from openbach_run.results.seeds import WARNING
from openbach_run.results.tables import Markdown, Table, plain

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
    alike_sections = [section.cells for section in sections if section.plot == setting.plot]
    every = list(chain(*alike_sections))
    if not setting.is_matrix:
        return [*curves(setting), *figures.time_series(name, title, cells, setting.declared)]
    drawn = (setting.plot.measure, setting.words)
    drawings = []
    if len(values(cells, "loss")) * len(values(cells, "cc")) > 1:
        drawings.append(figures.heat_map(f"{name}-times", title, cells, *drawn, every))
    for loss in values(cells, "loss"):
        chosen = [cell for cell in cells if cell.values["loss"] == loss]
        changes = [against(cell, chosen, baseline, setting.plot.measure) for cell in chosen]
        if sum(ratio is not None for ratio in changes) >= COMPARED:
            file, words = file_name(name, "compared", loss), f"{title}, {setting.at_loss(loss)}"
            drawings.append(figures.compared(file, words, chosen, baseline, *drawn))
    few = len(values(cells, "vpn")) <= CURVE_LINES
    losses = values(cells, "loss")
    if few and len(losses) >= CURVE_POINTS and all(map(is_numeral, losses)):
        drawings.append(figures.loss_curves(f"{name}-loss", title, cells, *drawn))
    if few and max(len(cell.runs) for cell in cells) >= figures.ECDF_SEEDS:
        drawings.append(figures.distributions(f"{name}-ecdf", title, cells, *drawn))
    return [*drawings, *curves(setting), *figures.time_series(name, title, cells, setting.declared)]


def curves(setting: Setting) -> list[Drawing]:
    """Return a figure for each measure of CURVES over each number that was swept."""
    cells = setting.cells
    drawings = []
    for argument, measures in CURVES.items():
        points = len(values(cells, argument))
        if points >= CURVE_POINTS and len(cells) <= CURVE_LINES * points:
            for measure in measures:
                if any(cell.measured(measure) for cell in cells):
                    name = file_name(setting.name, measure, "over", argument)
                    drawn = argument, measure, setting.in_words(measure)
                    drawings.append(figures.curves(name, setting.title, cells, *drawn))
    return drawings


def tables(setting: Setting, baseline: Mapping[str, str]) -> dict[str, Table]:
    """Return the tables of a section by the name of their files."""
    if not setting.is_matrix:
        return measures_tables(setting)
    tables = {f"{setting.name}-times": times_table(setting)}
    for loss in values(setting.cells, "loss"):
        if changes := changes_table(setting, loss, baseline):
            tables[file_name(setting.name, "compared", loss)] = changes
    return tables


def times_table(setting: Setting) -> Table:
    """Return the table of the measure.

    It has a row for each VPN, PEP position and congestion control, and a column for each loss.
    """
    measure = setting.plot.measure
    losses, transports = values(setting.cells, "loss"), values(setting.cells, "cc")
    rows = []
    for (vpn, pep), cc in product(configurations(setting.cells), transports):
        wanted = {"vpn": vpn, "pep": pep, "cc": cc}
        in_row = [find(setting.cells, **wanted, loss=loss) for loss in losses]
        figures = [shown(cell, measure, tail=setting.is_time) for cell in in_row]
        rows.append([*map(named, (vpn, pep, cc)), *figures])
    header = [*map(heading, ("vpn", "pep", "cc")), *(setting.at_loss(loss) for loss in losses)]
    several = [cell for cell in setting.cells if len(cell.runs) > 1]
    texts = [(shown(cell, measure), has_random_link(cell.values)) for cell in several]
    words = "; ".join([note(setting.cells, tail=setting.is_time), *without_brackets(texts)])
    return Table(f"{setting.title}: {setting.words}", header, rows, words, 3)


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
            ratios = [against(cell, cells, baseline, measure) if cell else None for cell in chosen]
            rows.append([named(vpn), named(pep), *map(change, ratios, chosen)])
    what = f"{without_unit(setting.words)} against {name_of_baseline(baseline)}"
    title = f"{setting.title}, {setting.at_loss(loss)}: {what}"
    header = [heading("vpn"), heading("pep"), *map(named, transports)]
    notes = change_notes([len(cell.runs) for cell in cells], pairings(cells))
    several = f"{notes}, no brackets where all seeds gave the same"
    return Table(title, header, rows, "; ".join(one_seed(cells) or [several]), 2)


def measures_tables(setting: Setting) -> dict[str, Table]:
    """Return tables of everything that was measured: a row per cell, a column per measure.

    Measures of the whole run have a table, and so does each suffix (flow, direction) with several
    measures. No table is wider than a page: the columns that do not fit go to further tables.
    """
    names = setting.cells[0].values
    swept = [name for name in names if len(values(setting.cells, name)) > 1] or ["scenario"]
    runs = chain.from_iterable(cell.runs for cell in setting.cells)
    records = [run.record for run in runs if run.record]
    measured: dict[str, None] = {}  # a set that keeps the order
    for record in records:
        measured |= {name: None for name, value in record.measures.items() if value is not None}
    declared = flat(setting.declared)
    of_suffix = Counter(measure_of(name, declared)[0] for name in measured)
    groups: dict[str, list[str]] = {}
    for name in measured:
        suffix = measure_of(name, declared)[0]
        # A suffix with one measure only is in the table of the whole.
        groups.setdefault("" if of_suffix[suffix] == 1 else suffix, []).append(name)
    tables = {}
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
            tables[file] = Table(title, header, rows, note(setting.cells, tail=True), len(swept))
    return tables


def _value(name: str, value: str) -> str:
    """Return an argument's value without its unit, which is in the column's head."""
    return value if is_numeral(value) else value_of(name, value)


def _column(setting: Setting, name: str, *, within: bool) -> tuple[str, list[str]]:
    """Return head and figures of a measure.

    `within` a table of its suffix the head does not repeat the suffix.
    """
    declared = flat(setting.declared)
    measure = measure_of(name, declared)[1]
    estimates = [cell.estimate(name) for cell in setting.cells]
    units = in_good_units(measure, [estimate.median for estimate in estimates if estimate])
    title = measure.title if within else title_of(name, declared)
    words = f"{title} ({units.unit})" if units.unit else title
    tail = measure.better == "less"
    return words, [shown(cell, name, units, tail=tail) for cell in setting.cells]


def name_of_baseline(baseline: Mapping[str, str]) -> str:
    """Return in words what all configurations are compared with."""
    words = [phrase(name, value) for name, value in baseline.items()]
    return ", ".join(words) or "none: nothing is compared"


def shown(
    cell: Cell | None, measure: str, units: Measure | None = None, *, tail: bool = False
) -> str:
    """Return the cell's figure in words.

    Runs that failed or were not run are counted, never left out.
    """
    if cell is None:
        return "–"
    places, factor = (places_of(units), units.factor) if units else (None, 1.0)
    estimate = cell.estimate(measure)
    parts = [figure(estimate, places, factor, tail=tail)] if estimate else []
    parts += [f"{len(cell.failed)} failed"] if cell.failed else []
    parts += [f"{cell.not_run} not run"] if cell.not_run else []
    return ", ".join(parts) or "–"


def change(ratio: Estimate | None, cell: Cell | None) -> str:
    """Return a change in percent with its interval; "failed" or a dash if there is none."""
    if ratio is None:
        return "failed" if cell and cell.failed else "–"
    text = f"{_percent(ratio.median)} %"
    if ratio.low is not None and ratio.high is not None:
        ends = [_percent(ratio.low), _percent(ratio.high)]
        text += f" [{', '.join(ends)}]" if set(ends) != {_percent(ratio.median)} else ""
    return text if cell is None or cell.whole else f"{text} (of {ratio.seeds} seeds)"


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
    if any(has_random_link(cell.values) for cell in alone):
        return [WARNING]
    return ["one seed: no interval"] if len(alone) == len(cells) else []


def failures(campaigns: Campaigns) -> list[Markdown]:
    """Return a line for each cell with runs that failed or are missing.

    It has the words of the first failure.
    """
    lines: list[Markdown] = []
    arguments = set(chain.from_iterable(cell.values for cell in campaigns.cells))
    several = {name for name in arguments if len(campaigns.distinct(name)) > 1}
    told_apart = several | {"scenario"}
    for cell in campaigns.cells:
        if not cell.whole:
            names = [name for name in cell.values if name in told_apart]
            count = f"{len(cell.failed)} failed, {cell.not_run} not run, of {len(cell.runs)}"
            first = ""
            for record in cell.failed[:1]:
                first = f": {record.status}, {(record.error or '-').splitlines()[0]}"
            lines.append(plain(f"{name_of(cell, names)}: {count}{first}"))
    return lines


def times(campaigns: Campaigns) -> str:
    """Return the time of all runs together by its clock: `5 minutes of virtual time`."""
    of_clock: dict[str, float] = {}
    for record in campaigns.records:
        of_clock[record.clock] = of_clock.get(record.clock, 0.0) + record.virtual_s
    lines = []
    for clock, seconds in of_clock.items():
        long = f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
        lines.append(f"{f'{seconds:.0f} s' if seconds < 120 else long} of {time_of(clock)}")
    return ", ".join(lines) or "0 s"


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
        few, many = ", ".join(values), f"{len(values)}, by what a run uses"
        shown = name if "=" in name else name.replace("_", " ")
        rows.append([shown, few if len(values) <= MOST_NAMED else many])
    # Most records share one list of packages: each list is looked at once.
    lists = {id(record.packages): record.packages for record in records}.values()
    names = dict.fromkeys(chain.from_iterable(lists))
    versions = {name: _versions(names, name) for name in packages}
    known = [f"{name} {' and '.join(numbers)}" for name, numbers in versions.items() if numbers]
    rows += [["packages", ", ".join(known)]] if known else []
    seeds = sorted({run.seed for run in campaigns.runs})
    rows.append(["seeds", ", ".join(map(str, seeds))])
    note = "every package is in the directory shared of the results, and " if names else ""
    note += "every value is in the record.json of its run"
    return Table("What the figures depend on", ["part", "version"], rows, note, 2)


def _versions(packages: Iterable[str], name: str) -> list[str]:
    """Return the versions of a package among `name_version_…` texts, each once."""
    parts = [package.split("_") for package in packages]
    return list(dict.fromkeys(part[1] for part in parts if part[0] == name))


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
    of = [limit(kinds, item[4:]) if item.startswith("- **") else item[4:] for item in items]
    kept = [item[:4] + text for item, text in zip(items, of, strict=True) if text is not None]
    return _inside("".join(kept), 1)


def limitations(docs: Path, kinds: Sequence[str]) -> Markdown:
    """Return a list of the first sentence of each limitation of time and measurements.

    Those that hold for results of no such kind are left out.

    They are taken from docs/limitations.md, above its section on scenarios.
    """
    text = (docs / "limitations.md").read_text(encoding="utf-8").partition("## Scenarios")[0]
    titles = re.findall(r"^- \*\*([^*]+\.)\*\*", text, re.MULTILINE)
    limits = filter(None, map(partial(limit, kinds), titles))
    return Markdown("\n".join(f"- {text}" for text in limits))


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
    header, note = ["checked", "against", "difference"], "docs/trust.md has how each is repeated"
    return Table("The size of known effects", header, rows, note, 3)


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
    # Figures are where the page is.
    undrawn = re.sub(r"^!\[.*\n\n", "", text.strip(), flags=re.MULTILINE)
    unlinked = re.sub(r"\[([^\]]+)\]\((?!http)[^)]*\)", r"\1", undrawn)
    return Markdown(re.sub(r"^#", "#" * (levels + 1), unlinked, flags=re.MULTILINE))
