# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of page 1: its templates, and the names of what it tells apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from openbach_jobs.presets import ASSIGNED
from openbach_run.report.cells import Cell, is_numeral
from openbach_run.report.page_model import CHOSEN, OWN, Block, Comparison
from openbach_run.report.words import (
    ACCESS,
    access_in_words,
    argument,
    kinds_of_capacity,
    named,
    phrase,
    satellite,
    unusual,
    value_of,
)
from openbach_run.results.intervals import Estimate
from openbach_run.results.seeds import MIN_SEEDS
from openbach_run.units import number

MOST_NAMED = 3
"""The most VPNs that a sentence names one by one."""

TEMPLATES = {
    "head": "{title}: {measure}{meaning}. All medians are {medians}; {bounds}.",
    "one": "One configuration was run: {measure} {median}.",
    "no_claim": (
        "Nothing is claimed: a cell has {seeds}, and {least} are needed to tell {swept} from"
        " chance. This runs them: {command}"
    ),
    "nothing": "No difference of the {measure} is shown for what was varied ({swept}).",
    "not_compared": "Not compared: {told}.",
    "few": "{what} changes the {measure} in {some} of {all} comparisons only.",
    "decides": "{what} decides: {series}.",
    "most": "{what} changes the {measure} most, but by less than 10 %: {series}.",
    "instead": "{best} instead of {usual}{others}: {told}, {bound}.",
    "no_better": "No transport is shown to have a better {measure} than {usual}{others}, {bound}.",
    "pep": "{pep} instead of no PEP, {usual}: {told}, {bound}{idle}.",
    "no_pep": (
        "No PEP is shown to make the {measure} better in most comparisons, {usual}, {bound}."
    ),
    "some_pep": (
        "{pep} makes the {measure} better in {better} of {all} comparisons, and worse in {worse}"
        " ({usual}): at best {told}, {bound}."
    ),
    "no_advice": (
        "Nothing is advised for the {measure}: no two configurations were run under all conditions"
        " with {least} seeds."
    ),
    "behind": "Customers with the PEP at {pep}: {measure} {told}.",
    "taken": "With {vpns} the PEP at {pep} no longer helps: {told}.",
    "equivalent": (
        "{vpns} are equivalent: within {most:.0f} % in each measure, under all conditions that"
        " were run."
    ),
    "close": (
        "Between {one} and {others} no difference of more than {most:.0f} % is shown: {same} of"
        " {tried} comparisons show that there is none, the others decide nothing."
    ),
    "cost": "{vpns} {costs} {told} of the {measure} without VPN{conditions}.",
    "change": "{vpns} {changes} the {measure} by {told} against no VPN{conditions}.",
    "caveat": "{vpn} is not the best everywhere: {told}.",
    "avoid": "Avoid {told}{more}.",
    "tail": (
        "Chance matters most{where}: half of the runs have a {measure} of at most {median}, one in"
        " ten of more than {p90}."
    ),
    "only_fixed_rate": "{vpn} has no congestion control, so only on a leased rate: {told}.",
    "parts": "The parts where that is worst{where}: {told}.",
    "lost": "Up to {lost} % of the pings are lost{where}.",
    "ratios": (
        "A change in % is the median of the ratios of two runs, {pairs}; in brackets is its 95 %"
        " interval, of fewer than six seeds the least and the greatest."
    ),
    "missing": "Of {runs} runs {told}: see Failures.",
}
"""The sentences of page 1."""


def say(name: str, **facts: object) -> str:
    """Return a sentence of TEMPLATES with these facts."""
    return TEMPLATES[name].format(**facts)


def transport(value: str) -> str:
    """Return a transport in words: `TCP CUBIC`, `TCP CUBIC, HTTP/2`, `QUIC (nginx, Reno)`.

    A scenario without a choice of the stack has `QUIC` alone.
    """
    first, *rest = value.split(" ")
    if first == "QUIC":
        stack = ", ".join(named(word) for word in rest if word)
        return f"QUIC ({stack})" if stack else "QUIC"
    return f"TCP {named(value)}"


def place(values: Mapping[str, str]) -> str:
    """Return the link's own name: of its file, or of its satellite, with its RTT if that stays."""
    orbit = values.get("orbit", "")
    if values.get("link_file", "none") != "none":
        return orbit
    words = satellite(orbit).replace("+", " + ")
    parts = [number(values.get(name, "")) for name in ("delay_ms", "terrestrial_ms")]
    rtt = f" ({2 * (parts[0] + (parts[1] or 0)):g} ms)" if parts[0] else ""
    return words + rtt if orbit else ""


def with_value(block: Block, name: str, cell: Cell) -> str:
    """Return a cell's value as it follows a figure: `with WireGuard`, `at 1 % loss`."""
    value = cell.values.get(name, "")
    if name == "loss":
        return at_loss(value, block)
    if name == "orbit":
        return f"over {place(cell.values)}"
    if name in ACCESS[:2]:
        return f"over {access_in_words(cell.values)}"
    if name in ("vpn", "pep") and value == "none":
        return "without VPN" if name == "vpn" else "without PEP"
    return f"with {transport(value) if name == 'cc' else phrase(name, value)}"


def at_loss(loss: str, block: Block) -> str:
    """Return a random loss in a sentence: `without loss`, `at 0.1 % loss`, `with its own loss`."""
    if loss == OWN:
        return "with its own loss"
    if float(loss):
        return f"at {loss} % loss"
    return "without random loss" if block.lossy else "without loss"


def bound(block: Block) -> str:
    """Return up to which loss something was run."""
    numbers = [loss for loss in block.losses if is_numeral(loss)]
    if numbers and len(block.losses) > 1:
        return f"at up to {numbers[-1]} % loss, the most that was run"
    every = block.campaigns.distinct("loss", block.cells)
    return at_loss(every[0], block) if len(every) == 1 else "at the losses of the links"


def where(block: Block, cell: Cell, without: Sequence[str] = ()) -> str:
    """Return the values of a cell that were swept: `over LEO, TCP CUBIC, WireGuard, no PEP`."""
    parts = []
    names = dict.fromkeys([*(block.links[0] if block.links else ()), *CHOSEN, "loss"])
    apart = {*CHOSEN, "loss", *without, *(ACCESS if {*ACCESS} & {*without} else ())}
    link = {name: cell.values.get(name, "") for name in names if name not in apart}
    if words := link_in_words(link, cell.values) if link else "":
        is_place = {"orbit", "rate", "return_rate", *ACCESS} & link.keys()
        parts.append(f"{'over' if is_place else 'with'} {words}")
    for name in CHOSEN:
        if name in block.swept and name not in without:
            value = cell.values.get(name, "")
            parts.append(transport(value) if name == "cc" else phrase(name, value))
    if block.losses and "loss" in block.swept and "loss" not in without:
        parts.append(at_loss(cell.values["loss"], block))
    return ", ".join(filter(None, parts))


def link_in_words(
    link: Mapping[str, str], values: Mapping[str, str] | None = None, *, is_brief: bool = False
) -> str:
    """Return the values of a link in words; brief ones fit above a small figure."""
    of_link = {name: value for name, value in link.items() if value and name not in ACCESS}
    of_link = unusual(of_link)
    words = [place({**(values or {}), **link})] if of_link.pop("orbit", "") else []
    if words and of_link.get("link_file") == "none":
        del of_link["link_file"]  # its satellite may have one
    if any(name in link for name in ACCESS[:2]):
        assigned = "assigned" if link.get("access") == ASSIGNED else "on demand"
        kinds = kinds_of_capacity(link).replace(" and ", ", ").replace("bit/s", "")
        brief = re.sub(r"no \w+(, )?", "", kinds) or assigned
        of_return = brief if is_brief else access_in_words(link)
    elif number(link.get("rate", "")) and number(link.get("return_rate", "")):
        rates = [value_of(name, link[name]) for name in ("rate", "return_rate")]
        # As one says it: 250/3 Mbit/s.
        units = {rate.partition(" ")[2] for rate in rates}
        numbers = [rate.partition(" ")[0] for rate in rates]
        del of_link["rate"]
        of_return = f"{'/'.join(numbers)} {units.pop()}" if len(units) == 1 else " / ".join(rates)
    else:
        of_return = phrase("return_rate", link["return_rate"]) if "return_rate" in link else ""
    for name, value in of_link.items():
        words.append(value_of(name, value) if name == "size" else phrase(name, value))
    return ", ".join(filter(None, [*words, of_return]))


def what(name: str) -> str:
    """Return what was swept in a sentence."""
    known = {"cc": "transport", "vpn": "the VPN", "pep": "the PEP", "orbit": "the link"}
    return known.get(name) or argument(name)


def measure(block: Block) -> str:
    """Return a block's measure in words: `transfer time`, `transfer time of the slowest`."""
    title = block.of_measure.title
    return f"{title} of the slowest" if block.measure.startswith("slowest_") else title


def figure(block: Block, *values: float) -> str:
    """Return values, or the least and the greatest of them, with their unit: `27 to 30 s`."""
    return f"{span(values)} {block.of_measure.unit}".rstrip()


def figures_of(block: Block, pair: Comparison) -> list[str]:
    """Return the medians of a comparison's two cells in words."""
    return [figure(block, block.median(cell)) for cell in (pair.cell, pair.reference)]


def with_and_without(block: Block, vpn: str, kept: Comparison, helps: Comparison) -> str:
    """Return what a PEP changes with a VPN and without: `494 s instead of 494 s with WireGuard`."""
    figures = [*figures_of(block, kept), *figures_of(block, helps)]
    link = where(block, kept.cell, ("pep", "vpn"))
    text = f"{figures[0]} instead of {figures[1]} with {named(vpn)}, {figures[2]} instead of"
    return f"{text} {figures[3]} without VPN{f', {link}' if link else ''}"


def beside(block: Block, pair: Comparison) -> str:
    """Return two VPNs' medians: `46 s instead of 34 s with WireGuard (+34 %), over GEO`."""
    figures = figures_of(block, pair)
    other = named(pair.reference.values["vpn"])
    link = where(block, pair.cell, ("vpn",))
    text = f"{figures[0]} instead of {figures[1]} with {other} ({percent(pair.change)})"
    return f"{text}, {link}" if link else text


def changes(ratios: Sequence[Estimate]) -> str:
    """Return the least and the greatest of changes, and of their intervals, in percent."""
    medians = [ratio.median for ratio in ratios]
    ends = [end for ratio in ratios for end in (ratio.low, ratio.high) if end is not None]
    outer = dict.fromkeys(f"{100 * (median - 1):+.1f}" for median in (min(medians), max(medians)))
    return f"{' to '.join(outer)} % [{percents(min(ends), max(ends))}]".replace("-", "−")


def percents(low: float, high: float) -> str:
    """Return the ends of an interval of a ratio as changes: `3.3–3.7`, `−1.2 to 0.4`."""
    ends = [f"{100 * (ratio - 1):.1f}" for ratio in (low, high)]
    return (" to " if low < 1 else "–").join(ends).replace("-", "−")


def percent(ratio: Estimate) -> str:
    """Return one change in percent, without decimals: `+57 %`."""
    return f"{100 * (ratio.median - 1):+.0f} %".replace("-", "−")


def span(values: Sequence[float]) -> str:
    """Return a range, as one number if both ends look the same: `30 to 33`."""
    return " to ".join(dict.fromkeys((short(min(values)), short(max(values)))))


def short(value: float) -> str:
    """Return a number as a sentence has it: no decimals from 20 on, one below."""
    places = 0 if abs(value) >= 20 else 1
    return f"{value:.{places}f}" if abs(value) >= 1 else f"{value:.2g}"


def some(values: Sequence[str], last: str = "and") -> str:
    """Return VPNs in words: those that can be named, and the number of others."""
    words = [named(value) for value in values[:MOST_NAMED]]
    more = len(values) - MOST_NAMED
    return listed(words + ([f"{more} other{'s' if more > 1 else ''}"] if more > 0 else []), last)


def capital(words: str) -> str:
    """Return words with a capital letter first."""
    return words[:1].upper() + words[1:]


def listed(words: Sequence[str], last: str = "and") -> str:
    """Return words as a list in a sentence: `a, b and c`."""
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def seeds_in_words(cells: Sequence[Cell]) -> str:
    """Return how many seeds the cells have: `5 seeds`, `5 to 20 seeds`."""
    counts = sorted({len(cell.runs) for cell in cells})
    text = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    return f"{text} seed{'s' if counts[-1] > 1 else ''}"


def with_seeds(command: str) -> str:
    """Return a command with as many seeds as a claim needs."""
    plain = re.sub(r" --seeds[ =]\S+", "", command)
    return f"{plain} --seeds {MIN_SEEDS}"
