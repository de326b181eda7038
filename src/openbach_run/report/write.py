# SPDX-License-Identifier: GPL-3.0-or-later
"""Write all files of a report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from openbach_run.catalog import Catalog
from openbach_run.clock import VIRTUAL
from openbach_run.paths import REPOSITORY
from openbach_run.progress import Reporter
from openbach_run.report import content, document, dots, published, verdicts
from openbach_run.report.cells import Campaigns
from openbach_run.report.charts import chart_of
from openbach_run.report.claims import Claim, judge, read_claims
from openbach_run.report.csv_files import cells_csv, claims_csv
from openbach_run.report.figures import Drawing
from openbach_run.report.front import (
    Front,
    costs_table,
    effects_table,
    flow_figures,
    front_of,
    is_brief,
    is_of_flows,
)
from openbach_run.report.hosts import hosts, pep_hosts, runs_of_scenarios
from openbach_run.report.settings import Setting, conditions, described, settings
from openbach_run.results import by_engine, least_transfer_time
from openbach_run.results.files import as_csv, places, write_parquet
from openbach_run.results.record import not_locked
from openbach_run.results.tables import (
    Markdown,
    Table,
    as_html,
    as_latex,
    as_markdown,
    as_text,
    markdown_rows,
    plain,
)

TEMPLATES = REPOSITORY / "reports/templates"
FORMS = {"txt": as_text, "md": as_markdown, "tex": as_latex, "html": as_html}
MOST_SECTIONS = 8
"""The most sections with values that are named one by one on the first pages."""
EVERY_SECTION = f"[Appendix: results](#{document.anchor('Appendix: results')})"
MOST_DRAWINGS = 150
"""The most figures; the sections that follow have tables only: nobody looks at more, and each
takes a quarter of a second."""
CLAIMS = REPOSITORY / "reports/claims.yml"
FIRST = "page-1.html"
"""Page 1, as a part of another page."""
PAGES = ("What a VPN costs", "Claims", "Several flows", "Appendix: claims in full")
"""Sections that begin a page of the PDF."""
PUBLISHED = REPOSITORY / "reports/published.yml"


def write(
    campaigns: Campaigns,
    baseline: Mapping[str, str],
    output: Path,
    reporter: Reporter,
    *,
    appendix: bool = False,
) -> list[Claim]:
    """Write all files of the report to `output`.

    Returns the claims that the campaigns say something about. With `appendix` the text
    has the method and the limitations in full.
    """
    for folder in ("figures", "tables"):
        (output / folder).mkdir(parents=True)
    reporter.show("judging the claims", 0)
    judged = [judge(name, described, campaigns) for name, described in read_claims(CLAIMS).items()]
    claims = [claim for claim in judged if claim.is_told]
    by_document = verdicts.by_document(claims, published.titles(PUBLISHED))
    of_others = published.tables(campaigns, PUBLISHED)
    sections_of = settings(campaigns)
    front = front_of(campaigns)
    brief = is_brief(campaigns, claims)
    costs = dots.costs(front.block) if front.block and not brief else None
    flows = [] if brief else flow_figures(campaigns)
    kinds = by_engine.kinds_of(campaigns.records)
    first = [drawing for drawing in (front.figure, costs, *flows) if drawing]
    drawn = _draw_sections(sections_of, baseline, output, reporter, first, is_brief=brief)
    named_tables = {
        **_tables_of_claims(claims, by_document),
        "platform": content.platform_table(campaigns, content.named_packages(Catalog())),
        **of_others,
        **_tables_of_front(front, kinds, has_costs=costs is not None),
        **drawn.tables,
    }
    _write_tables(named_tables, output)
    _write_data(campaigns, claims, baseline, output)
    reporter.show("setting the text", 0.8)
    markdown = _text(
        campaigns=campaigns,
        baseline=baseline,
        front=front,
        costs=costs,
        flows=flows,
        brief=brief,
        see=see(sections_of),
        claims=claims,
        by_document=by_document,
        undecided=verdicts.undecided(judged),
        ours=published.ours(PUBLISHED),
        kinds=kinds,
        sections=drawn.sections,
        drawn_before=drawn.figures,
        tables=named_tables,
        of_others=list(of_others),
        appendix=appendix,
    )
    _write_text(markdown, drawn.charts, () if brief else PAGES, output)
    reporter.show("the report is written", 1)
    return claims


def _tables_of_claims(
    claims: Sequence[Claim], by_document: Sequence[tuple[Any, Sequence[Claim]]]
) -> dict[str, Table]:
    """Return the table of all claims, and one for each document that they are of."""
    tables = {"claims": verdicts.claims_table(claims)}
    for number, (_, some) in enumerate(by_document, 1):
        tables[f"claims-{number}"] = verdicts.lines_table(some)
    return tables


def _tables_of_front(front: Front, kinds: Collection[str], *, has_costs: bool) -> dict[str, Table]:
    """Return the tables of the first pages, as far as there is something in them."""
    optional = {
        "use": front.use,
        "costs": costs_table(front.block) if front.block and has_costs else None,
        **{f"costs-{block.measure}": costs_table(block) for block in front.behind_pep if has_costs},
        "trust": content.trust_table(REPOSITORY / "docs") if VIRTUAL in kinds else None,
        "decides": effects_table(front.block) if front.block else None,
        "recommended": front.on_links,
    }
    return {name: table for name, table in optional.items() if table is not None}


def _write_text(markdown: str, charts: dict[str, Any], pages: Sequence[str], output: Path) -> None:
    """Write the report's text in its three forms; `pages` are the headings that begin a page."""
    (output / "report.md").write_text(markdown)
    page = document.as_html(markdown, output, TEMPLATES / "page.html.j2", charts)
    (output / "report.html").write_text(page)
    (output / "report.pdf").write_bytes(
        document.as_pdf(markdown, output, TEMPLATES / "page.typ.j2", pages)
    )


class Drawn(NamedTuple):
    """The sections of a report, drawn: what its text says of each, and their tables and charts."""

    sections: list[dict[str, Any]]
    tables: dict[str, Table]
    charts: dict[str, Any]
    """Charts for the page, by the figure's file."""
    figures: int
    """Number of figures of the whole report."""


def _draw_sections(
    sections: Sequence[Setting],
    baseline: Mapping[str, str],
    output: Path,
    reporter: Reporter,
    first: Sequence[Drawing],
    *,
    is_brief: bool,
) -> Drawn:
    """Draw the figures of the first pages, then each section, up to MOST_DRAWINGS in all."""
    for drawing in first:
        drawing.save(output / "figures")
    drawn = len(first)
    content_of: list[dict[str, Any]] = []
    charts: dict[str, Any] = {}
    every_table: dict[str, Table] = {}
    for number, setting in enumerate(sections):
        reporter.show(f"drawing {setting.name}", 0.1 + 0.7 * number / len(sections))
        undrawn = drawn >= MOST_DRAWINGS and not is_brief
        has_figures = not undrawn and not (is_brief and setting.is_matrix)
        drawings = content.drawings(setting, baseline, sections) if has_figures else []
        drawn += len(drawings)
        for drawing in drawings:
            drawing.save(output / "figures")
            if (chart := chart_of(drawing.figure)) is not None:
                charts[f"figures/{drawing.name}.svg"] = chart
        tables = content.tables(setting, baseline)
        every_table |= tables
        content_of.append(
            {"setting": setting, "drawings": drawings, "tables": tables, "undrawn": undrawn}
        )
    return Drawn(content_of, every_table, charts, drawn)


def _write_data(
    campaigns: Campaigns, claims: Sequence[Claim], baseline: Mapping[str, str], output: Path
) -> None:
    """Write what other programs read: the runs, the cells and the claims."""
    (output / "results.csv").write_text(as_csv(campaigns.records))
    write_parquet(campaigns.records, output / "results.parquet", about(campaigns))
    (output / "cells.csv").write_text(cells_csv(campaigns, baseline))
    (output / "claims.csv").write_text(claims_csv(claims))


def _write_tables(tables: Mapping[str, Table], output: Path) -> None:
    """Write each table in each of FORMS."""
    for name, table in tables.items():
        for ending, form in FORMS.items():
            (output / "tables" / f"{name}.{ending}").write_text(form(table))


def write_first(campaigns: Campaigns, output: Path) -> None:
    """Write page 1 alone to `output`: page-1.html for another page, report.md, and its figure."""
    for folder in ("figures", "tables"):
        (output / folder).mkdir(parents=True)
    front = front_of(campaigns)
    if front.figure:
        front.figure.save(output / "figures")
    tables = {"use": front.use} if front.use else {}
    _write_tables(tables, output)
    template = document.templates(TEMPLATES, document.as_markdown).get_template("first.md.j2")
    markdown = template.render(
        campaigns=campaigns,
        front=front,
        see={"first": ""},
        sections=[],
        tables=tables,
        content=content,
        next_of=numbers(),
        rows=markdown_rows,
    )
    text = markdown.strip() + "\n"
    (output / "report.md").write_text(text)
    (output / FIRST).write_text(document.as_fragment(text, output))


def numbers() -> dict[str, Callable[[], int]]:
    """Return what counts figures and tables."""
    return {kind: count(1).__next__ for kind in ("Figure", "Table")}


def _text(campaigns: Campaigns, **more: Any) -> str:
    """Return the report in Markdown."""
    template = document.templates(TEMPLATES, document.as_markdown).get_template("report.md.j2")
    runs = runs_of_scenarios(campaigns)
    text = template.render(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        campaigns=campaigns,
        failures=content.failures(campaigns),
        notes=[*not_locked(campaigns.records), *least_transfer_time.notes(campaigns.records)],
        hosts=hosts(runs),
        pep_hosts=pep_hosts(campaigns, runs),
        content=content,
        verdicts=verdicts,
        by_engine=by_engine,
        described=described,
        conditions=conditions,
        next_of=numbers(),
        rows=markdown_rows,
        from_file=not any(run.has_files for run in campaigns.runs),
        docs=REPOSITORY / "docs",
        **more,
    )
    return text.strip() + "\n"


def about(campaigns: Campaigns) -> dict[str, Any]:
    """Return what a report needs of its campaigns besides the rows of results.parquet.

    `rows` has what the columns lack: a run's orbit, which the scenario's jobs may have. `not_run`
    has the runs that were asked for and have no row.
    """
    orbits, not_run = [], []
    titles = {name: title._asdict() for name, title in campaigns.titles.items()}
    for cell in campaigns.cells:
        orbit = cell.values.get("orbit", "")
        arguments = {k: v for k, v in cell.values.items() if k not in ("scenario", "orbit")}
        values = {"scenario": cell.values["scenario"], "arguments": arguments, "orbit": orbit}
        for run in cell.runs:
            if run.record is None:
                not_run.append({"run_id": "", **values, "seed": run.seed})
            else:
                orbits.append(orbit)
    return {
        "commands": campaigns.commands,
        "plots": {name: asdict(plot) for name, plot in campaigns.plots.items()},
        **({"titles": titles} if titles else {}),
        "rows": {"orbit": places(orbits)},
        "not_run": not_run,
    }


def see(sections: Sequence[Setting]) -> dict[str, Markdown]:
    """Return links from the figures of the first pages to the sections with all their values.

    `first` is about the matrices, `flows` about several flows. Many sections are one link.
    """
    links_of: dict[str, list[str]] = {"first": [], "flows": []}
    for section in sections:
        kind = "flows" if is_of_flows(section) else "first"
        links_of[kind].append(f"[{plain(section.title)}](#{document.anchor(section.title)})")
    sentences = {}
    for kind, links in links_of.items():
        named = links if len(links) <= MOST_SECTIONS else [EVERY_SECTION]
        if named:
            sentences[kind] = Markdown(f"All values: {'; '.join(named)}.")
    return sentences
