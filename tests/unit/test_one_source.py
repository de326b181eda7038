# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict and a figure have one source: what the repository says of claims agrees everywhere."""

from __future__ import annotations

import csv
import html
import io
import re
from pathlib import Path

import docs_tables
import pytest
import readme
from helpers.made_up import write_results

from openbach_run.campaign.options import Options
from openbach_run.campaign.request import plan_of
from openbach_run.report.cells import read_campaigns
from openbach_run.report.claims import HOLDS, Claim, judge, read_claims
from openbach_run.report.csv_files import claims_csv
from openbach_run.report.document import address
from openbach_run.report.page_model import page_one
from openbach_run.report.page_one import sentences, use_table
from openbach_run.report.verdicts import SYMBOLS, claims_table, lines_table, verdict_of, word_of
from openbach_run.yaml_files import read_yaml

ROOT = Path(__file__).resolve().parents[2]
REPORTS = ROOT / "reports"


@pytest.fixture(scope="module")
def claims() -> list[Claim]:
    campaigns = read_campaigns([REPORTS / "full/results.parquet"])
    described = read_claims(REPORTS / "claims.yml")
    judged = [judge(name, one, campaigns) for name, one in described.items()]
    return [one for one in judged if one.is_told]


def test_trust_md_counts_the_findings_of_the_report(claims: list[Claim]) -> None:
    verdicts = [finding.verdict for claim in claims for finding in claim.findings]
    of_satcom = f"{verdicts.count(HOLDS)} of {len(verdicts)} are reproduced"
    assert f"| {of_satcom} (" in (ROOT / "docs/trust.md").read_text()


def test_table_line_text_and_csv_have_the_same_verdict(claims: list[Claim]) -> None:
    rows = {(row[0], row[1], row[2]): row[-1] for row in claims_table(claims).rows}
    lines = lines_table(claims)
    in_csv = csv.DictReader(io.StringIO(claims_csv(claims)))
    verdicts = {(row["claim"], row["part"], row["orbit"].upper()): row["verdict"] for row in in_csv}
    assert rows == verdicts and len(rows) == 37
    for claim, (symbol, *_) in zip(claims, lines.rows, strict=True):
        of_claim = {verdict for (name, *_), verdict in rows.items() if name == claim.name}
        word = word_of(claim)
        assert symbol == f"{SYMBOLS[word]} {word}"
        assert len(of_claim) > 1 or of_claim == {word}
        assert all(one in verdict_of(claim) for one in set(claim.verdicts.values()))
    assert set(rows.values()) <= {"reproduced", "partly", "not", "inconclusive"}


def test_the_verdicts_in_the_report_are_those_of_its_results(claims: list[Claim]) -> None:
    page = (REPORTS / "full/report.html").read_text()
    for claim in claims:
        word = word_of(claim)
        assert re.search(
            rf"<td[^>]*>{re.escape(SYMBOLS[word])} {word}</td>\s*<td[^>]*>{claim.name}\. ", page
        )


def test_readme_has_the_table_of_the_results_and_the_figure_of_the_report() -> None:
    text = readme.README.read_text()
    found = readme.TABLE.search(text)
    table = readme.table(read_campaigns([readme.RESULTS]))
    assert found is not None and found[0].rstrip() == table.rstrip(), "make readme"
    assert f"({readme.FIGURE.relative_to(ROOT)})" in text


def test_the_report_has_the_figure_of_its_results() -> None:
    drawn = readme.figure(read_campaigns([readme.RESULTS]))
    assert readme.FIGURE.read_bytes() == drawn, "make readme"
    page = (REPORTS / "full/report.html").read_text()
    shown = address(readme.FIGURE)
    assert f"src='{shown}'" in page, (
        "the report has another figure: ./openbach-run report reports/full/results.parquet"
    )


def test_readme_has_the_seeds_of_its_command_also_beside_a_report_of_more(tmp_path: Path) -> None:
    tables = set()
    for seeds in (5, 20):
        folder = write_results(tmp_path / str(seeds), seeds=seeds, pep=("none",), cc=("cubic",))
        tables.add(readme.table(read_campaigns([folder])))
    assert len(tables) == 1


def test_the_report_has_the_sentences_and_the_table_of_its_results() -> None:
    made = page_one(read_campaigns([readme.RESULTS]))
    assert made is not None
    text = html.unescape((REPORTS / "full/report.html").read_text())
    for sentence in sentences(made):
        assert f"<li>{sentence}</li>" in text
    table = use_table(made)
    assert table is not None and len(table.rows) == 5
    for row in table.rows:
        assert "".join(f"<td>{cell}</td>" for cell in row) in text


def test_the_runs_of_campaigns_in_the_documentation_are_those_of_their_files() -> None:
    text = (ROOT / "docs/comparisons.md").read_text()
    listed = re.findall(r"^\| `library/campaigns/(\w+)\.yml` \| .* \| (\d+) \| .* \|$", text, re.M)
    assert len(listed) == 8
    for name, runs in listed:
        plan = plan_of(f"library/campaigns/{name}.yml", [], None, Options())
        cells = {one.scenario.name: set[tuple[str, ...]]() for one in plan.campaigns}
        for one in plan.campaigns:
            # Two entries of a file may have a cell in common; it is run once.
            cells[one.scenario.name] |= {
                (*cell.values(), str(seed)) for cell in one.cells for seed in one.seeds_of(cell)
            }
        assert sum(map(len, cells.values())) == int(runs), name


def test_the_tables_in_docs_are_those_of_the_reports() -> None:
    for page, text in docs_tables.pages():
        assert page.read_text() == text, f"{page}: make readme"


def test_a_table_in_docs_has_the_one_cell_that_is_asked_for() -> None:
    (first, *_) = read_yaml(docs_tables.TABLES)
    head, rule, *rows = docs_tables.lines(first)
    assert head.count("|") == rule.count("|") and len(rows) == len(first["rows"])
    with pytest.raises(ValueError, match="several cells have"):
        docs_tables.lines({**first, "values": {"scenario": "multipath"}})
    with pytest.raises(ValueError, match="not one table with 'nothing'"):
        docs_tables.with_table("| other |\n|---|\n", {**first, "head": "nothing"})
    none = docs_tables.lines({**first, "rows": {"a VPN": {"vpn": "none_such"}}})
    assert none[2].split(" | ")[1] == docs_tables.NOT_RUN
