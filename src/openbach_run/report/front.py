# SPDX-License-Identifier: GPL-3.0-or-later
"""The first pages of a report: what to use, what a VPN costs, several flows, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from openbach_run.report import dots
from openbach_run.report.cells import SLOWEST, Campaigns, Cell, measured_against, pairings
from openbach_run.report.figures import Drawing
from openbach_run.report.page_model import Block, Kind, block_of, page_one
from openbach_run.report.page_one import (
    conditions_in_words,
    link_table,
    sentences,
    title,
    use_table,
)
from openbach_run.report.page_words import (
    at_loss,
    link_in_words,
    measure,
    percents,
    transport,
    what,
)
from openbach_run.report.recommendations import LEAST_TIE
from openbach_run.report.settings import Setting, settings
from openbach_run.report.words import heading, named, phrase
from openbach_run.results.intervals import Estimate, change_notes
from openbach_run.results.tables import Table

BRIEF = 16
"""A report of at most this many cells and of no claim has no appendix of figures."""


@dataclass(frozen=True)
class Front:
    """Page 1 in pieces, as the template sets them; `block` is what its figures are about."""

    block: Block | None
    behind_pep: list[Block]
    """The other blocks with customers who have the operator's PEP."""
    title: str
    conditions: str
    sentences: list[str]
    use: Table | None
    on_links: Table | None
    figure: Drawing | None
    tie: str

    @property
    def links(self) -> bool:
        """Return whether page 1 is about satellite links."""
        return self.block is not None and any(cell.values.get("orbit") for cell in self.block.cells)


def front_of(campaigns: Campaigns) -> Front:
    """Return page 1 of these campaigns."""
    page = page_one(campaigns)
    if page is None:
        nothing = "Nothing was measured", "No figures", ["No run measured anything."]
        return Front(None, [], *nothing, None, None, None, "")
    block = page.blocks[0]
    texts = title(page), conditions_in_words(page), sentences(page)
    tables = use_table(page), link_table(page)
    others = [other for other in page.blocks[1:] if other.operators_pep != "none"]
    return Front(block, others, *texts, *tables, dots.times(block), tie_in_words(block))


def tie_in_words(page: Block) -> str:
    """Return up to which difference two cells are a tie: `3.2 % (BBRv2), else 1 %`."""
    ties = [(cc, tie) for cc, tie in page.tie.items() if tie > LEAST_TIE and cc]
    wider = [f"{100 * (tie - 1):.1f} % ({transport(cc)})" for cc, tie in ties]
    least = f"{100 * (LEAST_TIE - 1):.0f} %"
    if wider:
        least = f"{', '.join(wider)}, which is what a PEP that does nothing changes, else {least}"
    return f"{least}, or by less than a round trip"


def costs_table(page: Block) -> Table:
    """Return what each VPN costs against none, a row for each VPN, transport and PEP.

    The PEPs are none and, where shown to help customers without a VPN, the operator's.
    """
    rows = []
    peps = dict.fromkeys((page.operators_pep, page.usual.get("pep", "none")))
    is_both = len(peps) > 1
    every_cc = page.campaigns.distinct("cc", page.cells) or [""]
    for pep, vpn in product(peps, page.campaigns.distinct("vpn", page.cells)):
        for cc in every_cc:
            own = [named(vpn), transport(cc)] if cc else [named(vpn)]
            own += [phrase("pep", pep)] if is_both else []
            wanted = {"vpn": vpn, **({"cc": cc} if cc else {})}
            wanted |= {"pep": pep} if is_both else {}
            cells = [page.find(**wanted, **condition) for condition in page.conditions]
            figures = [_cost(page, cell) for cell in cells]
            rows += [[*own, *figures]] if vpn != "none" and any(figures) else []
    has_cc = any("cc" in cell.values for cell in page.cells)
    header = [heading("vpn"), *["transport"] * has_cc, *["PEP"] * is_both]
    labels = len(header)
    for condition in page.conditions:
        link = {name: value for name, value in condition.items() if name != "loss"}
        figures = [link_in_words(link, page.of(**condition)[0].values)]
        figures += [at_loss(condition["loss"], page)] if "loss" in condition else []
        header.append(", ".join(filter(None, figures)))
    words = measure(page)
    title = f"{words[:1].upper()}{words[1:]} against no VPN (%)"
    of_changes = change_notes([len(cell.runs) for cell in page.cells], pairings(page.cells))
    note = f"{of_changes}, {'with the same PEP' if is_both else 'without a PEP'}"
    return Table(title, header, rows, note, labels)


def _cost(page: Block, cell: Cell | None) -> str:
    bare = page.partner(cell, "none") if cell else None
    ratio = measured_against(cell, bare, page.measure) if cell and bare else None
    return cost_in_words(ratio) if ratio else ""


def cost_in_words(ratio: Estimate) -> str:
    """Return a ratio as a change in percent with its interval: `+3.4 [3.3–3.7]`."""
    median = 100 * (ratio.median - 1)
    text = f"{median:+.1f}"
    if ratio.low is not None and ratio.high is not None:
        is_one = round(ratio.low, 3) == round(ratio.high, 3)
        text += "" if is_one else f" [{percents(ratio.low, ratio.high)}]"
    return text.replace("-", "−")


def effects_table(page: Block) -> Table | None:
    """Return what decides the measure, a row for each argument that was swept."""
    rows = []
    for effect in page.effects:
        share = f"{effect.differing} of {effect.compared}"
        rows.append([what(effect.name), f"{100 * effect.share:.1f}", share])
    if not rows:
        return None
    note = (
        "share: of the variance of the logarithm, alone and together with others, so that the sum"
        " may exceed 100. Comparisons are of two cells that differ in it only; they differ if the"
        " whole interval lies outside a tie"
    )
    header = ["what was varied", "share (%)", "comparisons that differ"]
    return Table(f"What decides the {measure(page)}", header, rows, note, 1)


def flow_figures(campaigns: Campaigns) -> list[Drawing]:
    """Return a figure for each measure of the scenarios with several flows."""
    groups: dict[str, list[Cell]] = {}
    for setting in settings(campaigns):
        if is_of_flows(setting) and setting.shared.get("vpn_2", "none") == "none":
            groups.setdefault(setting.plot.measure, []).extend(setting.cells)
    drawings = []
    for number, (column, cells) in enumerate(groups.items(), 1):
        block = block_of(Kind(column, column, ""), cells, campaigns)
        if block.cells and (drawing := dots.times(block)):
            drawings.append(replace(drawing, name=f"flows-{number}"))
    return drawings


def is_of_flows(setting: Setting) -> bool:
    """Return whether its runs have several flows, each with a time."""
    return any(cell.measured(SLOWEST) for cell in setting.cells)


def is_brief(campaigns: Campaigns, claims: Sequence[object]) -> bool:
    """Return whether the report is of a few runs, which two pages hold."""
    return len(campaigns.cells) <= BRIEF and not claims
