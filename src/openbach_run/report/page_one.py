# SPDX-License-Identifier: GPL-3.0-or-later
"""Page 1 of a report: a block of sentences for each measure, and one table of what to use.

It is made of a model (`page_model`), rules that read nothing else (`page_rules`, `page_advice`),
and words (`page_words`). So the same rules say of one campaign that loss decides, and of another
that the VPN does.
"""

from __future__ import annotations

from dataclasses import replace

from openbach_run.report import page_rules as rules
from openbach_run.report import page_words as words
from openbach_run.report.cells import Cell, pairings
from openbach_run.report.page_advice import Choice, advice
from openbach_run.report.page_model import CHOSEN, EQUIVALENT, OWN, Block, PageOne
from openbach_run.report.words import phrase, value_of
from openbach_run.results.tables import Table

MOST_LINKS = 6
"""The most links that have a column each in the table."""
MOST_TOLD = 3
"""The most values of one thing that stand above page 1."""
REACH = {"cc": "hosts", "pep": "PEP", "vpn": "VPN"}
"""Argument → the part of the path that somebody controls who chooses it."""


def sentences(page: PageOne) -> list[str]:
    """Return the sentences of page 1, a block after the other."""
    lines = rules.of_page(page)
    for block in page.blocks:
        # What lost pings say stands once, though two measures are about pings.
        lines += [line for line in rules.of_block(page, block) if line not in lines]
    if any(" % [" in line for line in lines):
        paired = pairings(page.campaigns.cells) == {True}
        lines.append(words.say("ratios", pairs="of the same seed" if paired else "each with each"))
    return lines


def use_table(page: PageOne) -> Table | None:
    """Return the table of page 1: what one controls, what to use, and the measure on each link."""
    advised = [(block, choice) for block in page.blocks for choice in advice(page, block)]
    if not advised:
        return None
    blocks = list({id(block): block for block, _ in advised}.values())
    is_wide = len(blocks) == 1 and len(blocks[0].links) <= MOST_LINKS
    rows, columns = [], _columns(blocks[0]) if is_wide else ["medians"]
    for block, choice in advised:
        figures = _figures(block, choice, is_wide=is_wide)
        row = [*_control(block, choice), *figures, _worst_choice(block, choice)]
        rows.append([words.measure(block), *row] if len(page.blocks) > 1 else row)
    header = ["you control", "use", *columns, "the worst choice"]
    header = ["measure", *header] if len(page.blocks) > 1 else header
    note = (
        "a choice was run under all conditions of its measure. Each has a greatest ratio to the"
        " best one: the least of these is chosen. Within 5 % the simplest is chosen, and a PEP only"
        " if it is shown to be better"
    )
    if is_wide and len(blocks[0].losses) > 1:
        losses = ["its own" if loss == OWN else loss for loss in blocks[0].losses]
        note += f"; at {', '.join(losses)} % random loss, the most that was run"
    has_tail = any("(" in text for row in rows for text in row[-1 - len(columns) : -1])
    note += "; in brackets p90: one in ten is above" if has_tail else ""
    return Table("What to use", header, rows, note, len(header))


def link_table(page: PageOne) -> Table | None:
    """Return what to use under each condition alone, by the same rules; None for a single one."""
    rows = []
    for block in page.blocks:
        several = block.conditions if len(block.conditions) > 1 else []
        for wanted in several:
            alone = replace(block, cells=block.of(**wanted))
            for choice in advice(page, alone):
                row = [words.measure(block), words.where(block, alone.cells[0], CHOSEN)]
                figures = _figures(alone, choice, is_wide=False)
                rows.append([*row, *_control(alone, choice), *figures])
    header = ["measure", "link", "you control", "use", "median"]
    note = "as on page 1, but each condition by itself: no single choice has all of these medians"
    return Table("What to use under each condition", header, rows, note, 5) if rows else None


def title(page: PageOne) -> str:
    """Return what a VPN costs customers with a PEP, or what decides, or medians, as the title."""
    block = page.blocks[0]
    sentence = rules.behind_pep(page, block) or rules.decides(page, block)
    sentence = sentence if block.is_claimed else ""
    text = f"{words.measure(block)}: {words.figure(block, *map(block.median, block.cells))}"
    if not block.is_claimed:
        text += f" with {words.seeds_in_words(block.cells)}, too few to compare"
    return words.capital((sentence or text).partition(";")[0].rstrip("."))


def _worst_choice(block: Block, choice: Choice) -> str:
    """Return the worst configuration for a control, with its median where it is furthest off."""
    bad, good = max(
        zip(choice.worst, choice.cells, strict=True),
        key=lambda pair: block.badness(pair[0], block.median(pair[1])),
    )
    other = _use(block, replace(choice, cells=[bad], vpns=[bad.values.get("vpn", "")]))
    figures = [words.figure(block, block.median(cell)) for cell in (bad, good)]
    is_told = block.badness(bad, block.median(good)) > EQUIVALENT and len(set(figures)) > 1
    return f"{other}: {figures[0]} instead of {figures[1]}" if is_told else "–"


def _control(block: Block, choice: Choice) -> list[str]:
    """Return what one controls, and what to use."""
    reach = [REACH[name] for name in choice.control]
    return [words.listed(reach) + (" only" if len(reach) == 1 else ""), _use(block, choice)]


def _columns(block: Block) -> list[str]:
    unit = block.of_measure.unit
    columns = []
    for link in block.links:
        values = next((cell.values for cell in block.of(**link)), {})
        link_words = words.link_in_words(link, values)
        columns.append(f"{link_words} ({unit})" if link_words else unit or words.measure(block))
    return columns


def _figures(block: Block, choice: Choice, *, is_wide: bool) -> list[str]:
    """Return the medians of a choice: on each link by loss, or their range."""
    if not is_wide:
        return [words.figure(block, *map(block.median, choice.cells))]
    figures = []
    for link in block.links:
        cells = [cell for cell in choice.cells if cell.has(link)]
        figures.append(", ".join(_with_tail(block, cell) for cell in cells))
    return figures


def _with_tail(block: Block, cell: Cell) -> str:
    """Return a cell's median, and its 90th percentile where that is another number: `82 (95)`."""
    estimate = cell.estimate(block.measure)
    every = (estimate.median, estimate.p90) if estimate else ()
    ends = [value for value in every if value is not None]
    texts = list(dict.fromkeys(map(words.short, ends)))
    return texts[0] + (f" ({texts[1]})" if len(texts) > 1 else "")


def _use(block: Block, choice: Choice) -> str:
    values = choice.cells[0].values
    parts = [words.some(choice.vpns, "or")] if "vpn" in values else []
    if "cc" in choice.control:
        parts.append(words.transport(values["cc"]) + rules.cliff(values["cc"]))
    if "pep" in choice.control:
        parts.append(phrase("pep", values["pep"]))
    return ", ".join(parts)


def conditions_in_words(page: PageOne) -> str:
    """Return what the figures of page 1 hold for: `30 MB, 10 Mbit/s; GEO and LEO; 5 seeds`."""
    cells = page.blocks[0].cells
    parts = []
    for name in ("size", "rate", "direction"):
        values = page.campaigns.distinct(name, cells)
        is_of_all = all(name in cell.values for cell in cells) and not {*values} & {"none", ""}
        if name == "rate":  # where it changes with time it is not what the link had
            is_of_all = is_of_all and all(cell.least_transfer_time_s for cell in cells)
        if values and is_of_all and len(values) <= MOST_TOLD:
            parts.append(words.listed([value_of(name, value) for value in values]))
    links = dict.fromkeys(words.place(cell.values) for cell in cells)
    told = [link.replace("(", "(RTT ") for link in links if link]
    parts += [words.listed(told)] if told else []
    parts.append(words.seeds_in_words(cells))
    scenario = phrase("scenario", cells[0].values["scenario"])
    return f"{scenario}: {', '.join(parts)}" if len(parts) < 2 else ", ".join(parts)
