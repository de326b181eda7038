# SPDX-License-Identifier: GPL-3.0-or-later
"""Write all files of a report."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from openbach_run.catalog import Catalog
from openbach_run.paths import REPOSITORY
from openbach_run.progress import Reporter
from openbach_run.report import content, document, published, verdicts
from openbach_run.report.cells import Campaigns
from openbach_run.report.charts import chart_of
from openbach_run.report.claims import Claim, judge, read_claims
from openbach_run.report.csv_files import cells_csv, claims_csv
from openbach_run.report.explained import assumptions_of
from openbach_run.report.hosts import hosts, pep_hosts, runs_of_scenarios
from openbach_run.report.settings import conditions, described, settings
from openbach_run.results.files import as_csv, write_parquet
from openbach_run.results.record import not_locked
from openbach_run.results.tables import as_html, as_latex, as_markdown, as_text, markdown_rows

TEMPLATES = REPOSITORY / "reports/templates"
FORMS = {"txt": as_text, "md": as_markdown, "tex": as_latex, "html": as_html}
MOST_DRAWINGS = 150
"""After this many figures the sections that follow have tables only: nobody looks at more, and each
takes a quarter of a second."""
CLAIMS = REPOSITORY / "reports/claims.yml"
ASSUMPTIONS = REPOSITORY / "reports/assumptions"
PUBLISHED = REPOSITORY / "reports/published.yml"


def write(
    campaigns: Campaigns,
    baseline: Mapping[str, str],
    output: Path,
    reporter: Reporter,
    *,
    appendix: bool = False,
) -> list[Claim]:
    """Write all files of the report to `output`; return the claims that the campaigns say something
    about.

    With `appendix` the text has the method and the limitations in full.
    """
    for folder in ("figures", "tables"):
        (output / folder).mkdir(parents=True)
    reporter.show("judging the claims", 0)
    judged = [judge(name, described, campaigns) for name, described in read_claims(CLAIMS).items()]
    claims = [one for one in judged if one.is_told]
    of_others = published.tables(campaigns, PUBLISHED)
    sections_of = settings(campaigns)
    named_tables = {
        "claims": verdicts.claims_table(claims),
        "platform": content.platform_table(campaigns, content.named_packages(Catalog())),
        **of_others,
    }
    if (advised := content.advice_table(campaigns)) is not None:
        named_tables["recommended"] = advised
    sections = []
    charts: dict[str, Any] = {}
    drawn = 0
    for number, setting in enumerate(sections_of):
        reporter.show(f"drawing {setting.name}", 0.1 + 0.7 * number / len(sections_of))
        undrawn = drawn >= MOST_DRAWINGS
        drawings = [] if undrawn else content.drawings(setting, baseline)
        drawn += len(drawings)
        for drawing in drawings:
            drawing.save(output / "figures")
            if (chart := chart_of(drawing.figure)) is not None:
                charts[f"figures/{drawing.name}.svg"] = chart
        of_setting = content.tables(setting, baseline)
        named_tables.update(of_setting)
        sections.append(
            {"setting": setting, "drawings": drawings, "tables": of_setting, "undrawn": undrawn}
        )
    for name, table in named_tables.items():
        for ending, form in FORMS.items():
            (output / "tables" / f"{name}.{ending}").write_text(form(table))
    (output / "results.csv").write_text(as_csv(campaigns.records))
    write_parquet(campaigns.records, output / "results.parquet")
    (output / "cells.csv").write_text(cells_csv(campaigns, baseline))
    (output / "claims.csv").write_text(claims_csv(claims))
    reporter.show("setting the text", 0.8)
    markdown = _text(
        campaigns=campaigns,
        baseline=baseline,
        claims=claims,
        by_document=verdicts.by_document(claims, published.titles(PUBLISHED)),
        undecided=verdicts.undecided(judged),
        sections=sections,
        drawn=drawn,
        tables=named_tables,
        of_others=list(of_others),
        appendix=appendix,
    )
    (output / "report.md").write_text(markdown)
    (output / "report.html").write_text(
        document.as_html(markdown, output, TEMPLATES / "page.html.j2", charts)
    )
    (output / "report.pdf").write_bytes(
        document.as_pdf(markdown, output, TEMPLATES / "page.typ.j2")
    )
    reporter.show("the report is written", 1)
    return claims


def _text(campaigns: Campaigns, **more: Any) -> str:
    """Return the report in Markdown."""
    template = document.templates(TEMPLATES, document.as_markdown).get_template("report.md.j2")
    runs = runs_of_scenarios(campaigns)
    text = template.render(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        campaigns=campaigns,
        failures=content.failures(campaigns),
        not_locked=not_locked(campaigns.records),
        hosts=hosts(runs),
        pep_hosts=pep_hosts(campaigns, runs),
        content=content,
        verdicts=verdicts,
        described=described,
        conditions=conditions,
        assumptions=assumptions_of(ASSUMPTIONS),
        next_of={kind: count(1).__next__ for kind in ("Figure", "Table")},
        rows=markdown_rows,
        docs=REPOSITORY / "docs",
        **more,
    )
    return text.strip() + "\n"
