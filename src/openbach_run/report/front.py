# SPDX-License-Identifier: GPL-3.0-or-later
"""The first pages of a report: what to use, what a VPN costs, several flows, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from openbach_run.report import dots
from openbach_run.report.cells import Campaigns, Cell, pairings
from openbach_run.report.effects import change
from openbach_run.report.figures import Drawing
from openbach_run.report.page_one import (
    FLOW,
    PageOne,
    conditions_in_words,
    link_in_words,
    measures_of,
    page_one,
    sentences,
    use_table,
)
from openbach_run.report.recommendations import LEAST_TIE
from openbach_run.report.settings import Setting, settings
from openbach_run.report.words import heading, named, said
from openbach_run.results.intervals import Estimate, change_notes
from openbach_run.results.tables import Table

BRIEF = 16
"""A report of at most this many cells and of no claim has no appendix of figures."""


@dataclass(frozen=True)
class Front:
    """Page 1 in pieces, as the template sets them."""

    page: PageOne | None
    conditions: str
    sentences: list[str]
    use: Table | None
    figure: Drawing | None
    tie: str

    @property
    def links(self) -> bool:
        """Return whether page 1 is about satellite links."""
        return self.page is not None and any(cell.values.get("orbit") for cell in self.page.cells)


def front_of(campaigns: Campaigns) -> Front:
    """Return page 1 of these campaigns."""
    page = page_one(campaigns)
    if page is None:
        return Front(None, "Nothing was measured", ["No run measured anything."], None, None, "")
    figure = dots.times(page)
    return Front(
        page,
        conditions_in_words(page),
        sentences(page),
        use_table(page),
        figure,
        tie_in_words(page),
    )


def tie_in_words(page: PageOne) -> str:
    """Return up to which difference two cells are a tie: `3.2 % (BBRv2), else 1 %`."""
    wider = [
        f"{100 * (tie - 1):.1f} % ({named(cc)})"
        for cc, tie in page.tie.items()
        if tie > LEAST_TIE and cc
    ]
    least = f"{100 * (LEAST_TIE - 1):.0f} %"
    if wider:
        least = f"{', '.join(wider)}, which is what a PEP that does nothing changes, else {least}"
    return f"{least}, or by less than a round trip"


def costs_table(page: PageOne) -> Table:
    """Return what each VPN costs against none, a row for each VPN and control, without a PEP."""
    columns = []
    for link in page.links:
        for loss in page.losses or [""]:
            columns.append({**link, **({"loss": loss} if loss else {})})
    rows = []
    for vpn in page.campaigns.distinct("vpn", page.cells):
        for cc in page.campaigns.distinct("cc", page.cells) or [""]:
            own = [named(vpn), named(cc)] if cc else [named(vpn)]
            wanted = {"vpn": vpn, **({"cc": cc} if cc else {})}
            told = [_cost(page, page.find(**wanted, **one)) for one in columns]
            rows += [[*own, *told]] if vpn != "none" and any(told) else []
    header = [heading("vpn")] + (
        [heading("cc")] if any("cc" in c.values for c in page.cells) else []
    )
    labels = len(header)
    for one in columns:
        words = [link_in_words({k: v for k, v in one.items() if k != "loss"})]
        words += [said("loss", one["loss"])] if "loss" in one else []
        header.append(", ".join(filter(None, words)))
    title = f"{page.of_measure.title[:1].upper()}{page.of_measure.title[1:]} against no VPN (%)"
    of_changes = change_notes([len(cell.runs) for cell in page.cells], pairings(page.cells))
    note = f"{of_changes}, without a PEP"
    return Table(title, header, rows, note, labels)


def _cost(page: PageOne, cell: Cell | None) -> str:
    bare = page.partner(cell, "none") if cell else None
    found = change(cell, bare, page.measure) if cell and bare else None
    return percents(found) if found else ""


def percents(found: Estimate) -> str:
    """Return a ratio as a change in percent with its interval: `+3.4 [3.3–3.7]`."""
    median = 100 * (found.median - 1)
    text = f"{median:+.1f}"
    if found.low is not None and found.high is not None:
        ends = [f"{100 * (one - 1):.1f}" for one in (found.low, found.high)]
        text += f" [{ends[0]}–{ends[1]}]" if len(set(ends)) > 1 else ""
    return text.replace("-", "−")


def effects_table(page: PageOne) -> Table | None:
    """Return what decides the measure, a row for each argument that was swept."""
    rows = []
    for one in page.effects:
        told = f"{one.differing} of {one.compared}"
        rows.append([heading(one.name).partition(" (")[0], f"{100 * one.share:.1f}", told])
    if not rows:
        return None
    note = (
        "share: of the variance of the logarithm, alone and together with others, so that the sum"
        " may exceed 100. Comparisons are of two cells that differ in it only; they differ if the"
        " whole interval lies outside a tie"
    )
    header = ["what was varied", "share (%)", "comparisons that differ"]
    return Table(f"What decides the {page.of_measure.title}", header, rows, note, 1)


def flow_figures(campaigns: Campaigns) -> list[Drawing]:
    """Return a figure for each measure of the scenarios with several flows."""
    groups: dict[str, list[Cell]] = {}
    for one in settings(campaigns):
        if is_of_flows(one) and one.shared.get("vpn_2", "none") == "none":
            groups.setdefault(one.plot.measure, []).extend(one.cells)
    made = []
    for number, (measure, cells) in enumerate(groups.items(), 1):
        measured = [cell for cell in cells if cell.measured(measure)]
        if measured:
            page = PageOne(measured, measure, campaigns)
            page = replace(page, swept=[one.name for one in page.effects])
            if drawing := dots.times(page):
                made.append(replace(drawing, name=f"flows-{number}"))
    return made


def is_of_flows(setting: Setting) -> bool:
    """Return whether its runs have several flows, each with a time."""
    return any(FLOW.fullmatch(name) for name in measures_of(setting.cells))


def is_brief(campaigns: Campaigns, claims: Sequence[object]) -> bool:
    """Return whether the report is of a few runs, which two pages hold."""
    return len(campaigns.cells) <= BRIEF and not claims
