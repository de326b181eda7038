# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of page 1: what its model lets it say, and nothing else.

A sentence is there only if comparisons decide what it says: with enough seeds, by more than a tie,
with the whole interval. The rules know no VPN and no congestion control by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, combinations, product
from operator import itemgetter

from openbach_run.paths import REPOSITORY
from openbach_run.report import page_words as words
from openbach_run.report.cells import PARTS, SLOWEST, WORSE_MOS, Cell, parts_of
from openbach_run.report.effects import Effect, differ, median_of
from openbach_run.report.page_advice import advice, advised_vpns
from openbach_run.report.page_model import (
    COSTLY,
    EQUIVALENT,
    USUAL,
    Block,
    Comparison,
    PageOne,
    has_fixed_rate,
)
from openbach_run.report.page_words import say, where
from openbach_run.report.recommendations import LEAST_TIE, has_idle_pep
from openbach_run.report.words import named, phrase, suffix_in_words
from openbach_run.results.seeds import MIN_SEEDS
from openbach_run.yaml_files import read_yaml

MOST_SENTENCES = 7
"""The most sentences of a block."""
HOW_MUCH = ("size", "duration_s", "loads", "pings", "ping_payload_bytes")
"""Arguments that say how much is sent. That more bytes take longer is no finding."""
MOST_TOLD = 3
"""The most links or cells that a sentence tells one by one."""
MOST_VALUES = 6
"""The most values that a sentence names one by one."""
CLIFFS = REPOSITORY / "reports/templates/cliffs.yml"
"""File of the losses up to which controls are known to hold, by our own measurements."""
LOST_PINGS = "ping_lost_pct"
BACKGROUND = "background_goodput_mbps"
"""The goodput of what is sent beside a call or a ping: a full link makes both slow."""
SHOWN = 0.9
"""The part of comparisons that have to show that two VPNs are equivalent, for them to be close."""


def of_page(page: PageOne) -> list[str]:
    """Return the sentences that are about all blocks."""
    lines = [_equivalent(group) for group in page.equivalents if len(group) > 1]
    return [*lines, *filter(None, [close(page), missing(page)])]


def of_block(page: PageOne, block: Block) -> list[str]:
    """Return the sentences of a block, the most important first; the first one says what it is."""
    if not block.is_claimed:
        return [head(block), no_claim(block)]
    rules: list[Callable[[PageOne, Block], str]] = [
        behind_pep, decides, better_transport, pep_helps, pep_taken, costs, caveat, avoid, parts,
        lost_pings, only_fixed_rate, no_advice, tails,
    ]  # fmt: skip
    lines = [head(block)]
    for rule in rules:
        lines += rule(page, block).splitlines()
    return lines[:MOST_SENTENCES]


def head(block: Block) -> str:
    """Say what is measured, on which link, and up to which bounds."""
    medians = [block.median(cell) for cell in block.cells]
    first = block.cells[0].values
    one_link = words.place(first) if len(block.links) == 1 else ""
    bounds = ", ".join(filter(None, [one_link and f"over {one_link}", _bound(block)]))
    if block.lost_packets:
        bounds += f" (up to a median of {block.lost_packets:.0f} packets of a run)"
    return say(
        "head",
        title=block.kind.title,
        measure=words.measure(block),
        meaning=f", {block.kind.meaning}" if block.kind.meaning else "",
        medians=words.figure(block, *medians),
        bounds=bounds or "one link",
    )


def _bound(block: Block) -> str:
    has_loss = any("loss" in cell.values for cell in block.cells)
    return words.bound(block) if has_loss else ""


def no_claim(block: Block) -> str:
    """Say what one seed does not tell, and the command that would."""
    commands = block.campaigns.commands or [f"./openbach-run {block.cells[0].values['scenario']}"]
    names = [words.what(name) for name in block.swept] or ["anything"]
    command = "; ".join(dict.fromkeys(map(words.with_seeds, commands)))
    facts = {"seeds": words.seeds_in_words(block.cells), "least": MIN_SEEDS}
    return say("no_claim", swept=words.listed(names, "or"), command=command, **facts)


def decides(page: PageOne, block: Block) -> str:
    """Say what changes the measure most, with its values on each link."""
    measure = words.measure(block)
    if not block.effects:
        median = words.figure(block, block.median(block.cells[0]))
        return say("one", measure=measure, median=median)
    effects = [effect for effect in block.effects if effect.name not in HOW_MUCH]
    decisive = [effect for effect in effects if effect.matters]
    if not decisive:
        return _few(block, measure)
    weights = {effect.name: _decided_weight(block, effect) for effect in decisive}
    most = max(decisive, key=lambda effect: weights[effect.name])
    series, what = _series(block, most), words.capital(words.what(most.name))
    is_decisive = weights[most.name][1] >= COSTLY
    facts = {"what": what, "series": series if is_decisive else series + _exception(block, most)}
    name = "decides" if is_decisive else "most"
    return say(name, measure=measure, **facts) if series else _few(block, measure)


def _exception(block: Block, effect: Effect) -> str:
    """Return where an effect that is small for the usual choices is great, if anywhere."""
    decided = [group for group in effect.groups if _is_decided(block, group)]
    most = max(decided, key=lambda group: _weight(block, group)[1])
    is_great = _weight(block, most)[1] >= COSTLY
    return f"; by more: {_along(block, effect.name, most)}" if is_great else ""


def _decided_weight(block: Block, effect: Effect) -> tuple[bool, float]:
    """Return the weight of the group that shows an effect best."""
    decided = [group for group in effect.groups if _is_decided(block, group)]
    return max((_weight(block, group) for group in decided), default=(False, 0.0))


def _few(block: Block, measure: str) -> str:
    """Say that nothing differs, or what does so in a few comparisons, as chance may have it."""
    most = max(block.effects, key=lambda effect: (effect.name not in HOW_MUCH, effect.differing))
    if any(effect.differing for effect in block.effects):
        facts = {"some": most.differing, "all": most.compared, "measure": measure}
        return say("few", what=words.capital(words.what(most.name)), **facts)
    compared = [words.what(effect.name) for effect in block.effects if effect.compared]
    nothing = say("nothing", swept=", ".join(compared), measure=measure) if compared else ""
    return " ".join(filter(None, [nothing, _not_compared(block)]))


def _not_compared(block: Block) -> str:
    """Say what was varied without two cells that differ in it alone and have seeds enough."""
    whys = {False: "never varied alone", True: f"with fewer than {MIN_SEEDS} seeds"}
    told = []
    for has_pairs, why in whys.items():
        effects = [effect for effect in block.effects if not effect.compared]
        names = [words.what(effect.name) for effect in effects if bool(effect.groups) == has_pairs]
        told += [f"{words.listed(names)} ({why})"] if names else []
    return say("not_compared", told="; ".join(told)) if told else ""


def _series(block: Block, effect: Effect) -> str:
    """Return the medians along an argument, on the links where they are furthest apart."""
    by_link: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for group in sorted(effect.groups, key=lambda cells: _weight(block, cells), reverse=True):
        if _is_decided(block, _in_order(block, effect.name, group)):
            link = next((link for link in block.links if group[0].has(link)), {})
            key = tuple(link.items()) if effect.name not in link else ()
            by_link.setdefault(key, group)
    groups = list(by_link.values())[:MOST_TOLD]
    return "; ".join(_along(block, effect.name, group) for group in groups)


def _along(block: Block, name: str, group: Sequence[Cell]) -> str:
    """Return the medians of a group along an argument, with the goodput of what is sent beside."""
    texts = []
    for cell in _in_order(block, name, group):
        text = f"{words.figure(block, block.median(cell))} {words.with_value(block, name, cell)}"
        goodput = words.short(median_of(cell, BACKGROUND)) if cell.measured(BACKGROUND) else ""
        texts.append(f"{text} (background: {goodput} Mbit/s)" if goodput else text)
    others = where(block, group[0], (name,))
    return f"{others}: {words.listed(texts)}" if others else words.listed(texts)


def _is_decided(block: Block, group: Sequence[Cell]) -> bool:
    pairs = combinations(group, 2)
    return any(differ(*pair, block.measure, block.tie) for pair in pairs)


def _weight(block: Block, group: Sequence[Cell]) -> tuple[bool, float]:
    """Return what is greatest for the group to show: usual hosts, far apart."""
    usual = []
    for name, value in block.usual.items():
        values = {cell.values.get(name) for cell in group}
        usual.append(len(values) > 1 or values == {value})
    medians = [block.median(cell) for cell in group]
    return all(usual), max(medians) / (min(medians) or 1)


def _in_order(block: Block, name: str, group: Sequence[Cell]) -> list[Cell]:
    """Return a cell for each value; if there are many, those with the least and the most."""
    order = block.campaigns.distinct(name, block.cells)
    by_value = {words.with_value(block, name, cell): cell for cell in reversed(group)}
    chosen = sorted(by_value.values(), key=lambda cell: order.index(cell.values[name]))
    if len(chosen) > MOST_VALUES:
        by_median = sorted(chosen, key=block.median)
        chosen = [by_median[0], by_median[-1]]
    return chosen


def _hardest(block: Block) -> dict[str, str]:
    """Return the greatest random loss that was run."""
    return {"loss": block.losses[-1]} if block.losses else {}


def better_transport(page: PageOne, block: Block) -> str:
    """Say which other transport is better where most is lost, without VPN and PEP."""
    if "cc" not in block.swept:
        return ""
    by_value: dict[str, list[str]] = {}
    decided = True
    usual = block.usual["cc"]
    for link in block.links:
        own = block.find(**link, **_hardest(block))
        pairs = [(cell, block.compare(cell, own)) for cell in _transports(block, own)]
        better = [(cell, pair) for cell, pair in pairs if pair and pair.is_better]
        decided = decided and bool(pairs) and all(pair for _, pair in pairs)
        if better and own:
            best = min(better, key=lambda pair: pair[1].change.median ** _sign(block))[0]
            by_value.setdefault(best.values["cc"], []).append(_over_losses(block, link, best, own))
    others = _without(block)
    facts = {"others": others, "usual": words.transport(usual), "bound": words.bound(block)}
    texts = []
    for cc, of_links in by_value.items():
        best_in_words = words.transport(cc) + cliff(cc)
        texts.append(say("instead", best=best_in_words, told="; ".join(of_links), **facts))
    if texts:
        return "\n".join(texts)
    return say("no_better", measure=words.measure(block), **facts) if decided else ""


def _sign(block: Block) -> int:
    return -1 if block.is_more_better else 1


def _transports(block: Block, own: Cell | None) -> list[Cell]:
    """Return the cells with another transport and otherwise the same."""
    every = block.campaigns.distinct("cc", block.cells)
    cells = [block.other(own, cc=cc) for cc in every if own and cc != own.values["cc"]]
    return [cell for cell in cells if cell and not has_fixed_rate(cell)]


def _over_losses(block: Block, link: dict[str, str], best: Cell, own: Cell) -> str:
    """Return the medians of two transports over all losses of a link."""
    parts = []
    for cell in (best, own):
        every = [block.other(cell, loss=loss) for loss in block.losses] or [cell]
        parts.append(words.figure(block, *[block.median(cell) for cell in every if cell]))
    over = words.link_in_words(link, own.values)
    return f"{f'over {over} ' if over else ''}{parts[0]} instead of {parts[1]}"


def _without(block: Block) -> str:
    """Return what was swept and is not there: `, no VPN, no PEP`."""
    words_of = {"vpn": ", no VPN", "pep": ", no PEP"}
    return "".join(text for name, text in words_of.items() if block.usual.get(name) == USUAL[name])


def cliff(value: str) -> str:
    """Return above which loss a control is known not to hold: ` (not above 1 % loss)`."""
    known = read_yaml(CLIFFS).get(value.partition(" ")[0])
    return f" (not above {known['loss_pct']} % loss)" if known else ""


def pep_helps(page: PageOne, block: Block) -> str:
    """Say which PEP is better than none for usual hosts where most is lost."""
    if "pep" not in block.swept:
        return ""
    by_pep: dict[str, list[Comparison]] = {}
    for pep in block.campaigns.distinct("pep", block.cells):
        pairs = block.comparisons("pep", pep, USUAL["pep"], **block.hosts, **_hardest(block))
        pairs = [pair for pair in pairs if not has_idle_pep(pair.cell)]
        if pep != USUAL["pep"] and pairs:
            by_pep[pep] = pairs
    usual = words.transport(block.usual["cc"]) if "cc" in block.usual else "usual hosts"
    facts = {"usual": usual, "bound": _at_hardest(block), "measure": words.measure(block)}
    helpful = {pep: pairs for pep, pairs in by_pep.items() if 2 * _better(pairs) > len(pairs)}
    if not helpful:
        return _rarely_helps(block, by_pep, facts) if by_pep else ""
    best = max(helpful, key=lambda pep: (_better(helpful[pep]), -_mean(block, helpful[pep])))
    idle = "; for a tunnel that it cannot split, a PEP between the tunnel's ends does nothing"
    changes = _changes(block, [pair for pair in helpful[best] if pair.is_better])
    name = phrase("pep", best)
    return say("pep", pep=name, told=changes, idle=idle if block.idle else "", **facts)


def _rarely_helps(
    block: Block, by_pep: Mapping[str, list[Comparison]], facts: Mapping[str, str]
) -> str:
    """Say where a PEP is better that is not so in most comparisons, and how often it is worse."""
    pep = max(by_pep, key=lambda name: _better(by_pep[name]))
    better = [pair for pair in by_pep[pep] if pair.is_better]
    if not better:
        return say("no_pep", **facts)
    best = min(better, key=lambda pair: pair.change.median ** _sign(block))
    worse = [pair for pair in by_pep[pep] if pair.is_worse]
    counts = {"better": len(better), "worse": len(worse), "all": len(by_pep[pep])}
    told = _changes(block, [best])
    if worse:
        worst = max(worse, key=lambda pair: pair.change.median ** _sign(block))
        told += f", at worst {_changes(block, [worst])}"
    return say("some_pep", pep=phrase("pep", pep), told=told, **counts, **facts)


def _at_hardest(block: Block) -> str:
    return words.at_loss(block.losses[-1], block) if block.losses else words.bound(block)


def _better(pairs: Sequence[Comparison]) -> int:
    return sum(pair.is_better for pair in pairs)


def _mean(block: Block, pairs: Sequence[Comparison]) -> float:
    return sum(pair.change.median ** _sign(block) for pair in pairs) / len(pairs)


def _changes(block: Block, pairs: Sequence[Comparison]) -> str:
    """Return comparisons one by one: `33 s with WireGuard instead of 480 s over GEO`."""
    parts = []
    for pair in sorted(pairs, key=lambda each: each.change.median ** _sign(block))[:MOST_VALUES]:
        figure, reference = words.figures_of(block, pair)
        vpn = f" {words.with_value(block, 'vpn', pair.cell)}" if "vpn" in block.swept else ""
        link = where(block, pair.cell, ("cc", "pep", "vpn", "loss"))
        parts.append(f"{figure}{vpn} instead of {reference}{f' {link}' if link else ''}")
    more = len(pairs) - MOST_VALUES
    return ", ".join(parts) + (f", and {more} more" if more > 0 else "")


def pep_taken(page: PageOne, block: Block) -> str:
    """Say which VPN takes a PEP away that helps who has no VPN."""
    texts = []
    for pep in block.campaigns.distinct("pep", block.cells) if "pep" in block.swept else ():
        by_vpn: dict[str, str] = {}
        for bare in block.of(pep=pep, vpn=USUAL["vpn"]) if pep != USUAL["pep"] else ():
            helps = block.compare(bare, block.other(bare, pep=USUAL["pep"]))
            for vpn in page.vpns if helps and _gain(block, helps) >= COSTLY else ():
                cell = block.other(bare, vpn=vpn)
                kept = block.compare(cell, block.other(cell, pep=USUAL["pep"])) if cell else None
                if cell and helps and kept and _is_taken(block, kept):
                    by_vpn.setdefault(vpn, words.with_and_without(block, vpn, kept, helps))
        if by_vpn:
            told = next(iter(by_vpn.values()))
            texts.append(say("taken", vpns=words.some(list(by_vpn)), pep=_position(pep), told=told))
    return "\n".join(texts)


def _is_taken(block: Block, kept: Comparison) -> bool:
    """Return whether a PEP's gain without VPN is shown to be gone with one."""
    return kept.is_worse or (kept.is_equivalent and _gain(block, kept) <= LEAST_TIE)


def _equivalent(group: Sequence[str]) -> str:
    return say("equivalent", vpns=words.some(group), most=100 * (EQUIVALENT - 1))


def close(page: PageOne) -> str:
    """Say with which VPNs one that is advised is not shown to differ, under any condition."""
    advised = [vpn for block in page.blocks for vpn in advised_vpns(page, block)]
    tried: list[Comparison] = []
    others = []
    for vpn in page.vpns if advised else ():
        pairs: list[Comparison] = []
        for block in page.blocks:
            pairs += block.comparisons("vpn", vpn, advised[0])
        apart = [pair.change.lies_within(1 / EQUIVALENT, EQUIVALENT) is False for pair in pairs]
        is_shown = sum(pair.is_equivalent for pair in pairs) >= SHOWN * len(pairs)
        if vpn not in page.alike(advised[0]) and pairs and not any(apart) and is_shown:
            others.append(vpn)
            tried += pairs
    same = sum(pair.is_equivalent for pair in tried)
    facts = {"tried": len(tried), "same": same, "most": 100 * (EQUIVALENT - 1)}
    name = named(advised[0]) if others else ""
    return say("close", one=name, others=words.some(others), **facts) if others else ""


def no_advice(page: PageOne, block: Block) -> str:
    """Say that nothing is advised, though there was something to choose."""
    is_choice = {"cc", "pep", "vpn"} & {*block.swept} and block.is_ranked
    if not is_choice or advice(page, block):
        return ""
    return say("no_advice", measure=words.measure(block), least=MIN_SEEDS)


def behind_pep(page: PageOne, block: Block) -> str:
    """Say what the VPN that is advised, else the first, costs customers with the operator's PEP."""
    pep = block.operators_pep
    every = [*advised_vpns(page, block), *page.vpns] if pep != USUAL["pep"] else []
    wanted = {"pep": pep, **block.hosts}
    tried = ((vpn, block.comparisons("vpn", vpn, USUAL["vpn"], **wanted)) for vpn in every)
    best, pairs = next(filter(itemgetter(1), tried), ("", []))
    if not any(pair.is_worse for pair in pairs):
        return ""
    texts = []
    worst_first = sorted(pairs, key=lambda pair: -(pair.change.median ** _sign(block)))
    for pair in worst_first[:MOST_TOLD]:
        figure, reference = words.figures_of(block, pair)
        text = f"{figure} with {named(best)} instead of {reference} without VPN"
        place = where(block, pair.cell, ("cc", "pep", "vpn"))
        texts.append(f"{text} ({words.percent(pair.change)}){f', {place}' if place else ''}")
    measure = words.measure(block)
    return say("behind", pep=_position(pep), measure=measure, told="; ".join(texts))


def _position(pep: str) -> str:
    """Return where a PEP is, and its values: `A double (profile satcom)`."""
    return phrase("pep", pep).removeprefix("PEP ").removeprefix("at ")


def costs(page: PageOne, block: Block) -> str:
    """Say what the VPN that is advised costs by transport, without PEP, where least is lost.

    Where none is advised, it is the one that costs least.
    """
    if block.of_measure.unit == "%":
        return ""  # a part of nothing is no cost
    least = {"loss": block.losses[0]} if block.losses else {}
    pep = {"pep": USUAL["pep"]} if "pep" in block.usual else {}
    by_vpn = {}
    for vpn in page.vpns:
        pairs = block.comparisons("vpn", vpn, USUAL["vpn"], **least, **pep, **_hosts(block))
        by_vpn[vpn] = [pair for pair in pairs if not has_fixed_rate(pair.cell)]
    known = [vpn for vpn, pairs in by_vpn.items() if pairs]
    tie = 1 / LEAST_TIE, LEAST_TIE
    if all(pair.change.lies_within(*tie) for pair in chain(*by_vpn.values())):
        return ""
    best = min(known, key=lambda vpn: _mean(block, by_vpn[vpn]))
    best = next((vpn for vpn in advised_vpns(page, block) if vpn in known), best)
    vpns = [vpn for vpn in page.alike(best) if vpn in known]
    by_hosts: dict[str, list[Comparison]] = {}
    for pair in chain.from_iterable(by_vpn[vpn] for vpn in vpns):
        link = where(block, pair.cell, ("cc", "pep", "vpn", "loss")) if _has_access(block) else ""
        transport = pair.cell.values.get("cc", "") if block.kind.is_of_tcp else ""
        key = ", ".join(filter(None, (transport and words.transport(transport), link)))
        by_hosts.setdefault(key, []).append(pair)
    texts = []
    for key, pairs in by_hosts.items():
        text = words.changes([pair.change for pair in pairs])
        texts.append(f"{text} ({key})" if key else text)
    conditions = [words.at_loss(least["loss"], block)] if least else []
    conditions += ["no PEP"] if pep and "pep" in block.swept else []
    ending = "".join(f", {condition}" for condition in conditions)
    every = [pair for group in by_hosts.values() for pair in group]
    is_cost = not block.is_more_better and all((pair.change.low or 0) > 1 for pair in every)
    s = "s" if len(vpns) == 1 else ""
    facts = {"told": words.listed(texts), "measure": words.measure(block), "conditions": ending}
    verbs = {"costs": f"cost{s}", "changes": f"change{s}"}
    return say("cost" if is_cost else "change", vpns=words.some(vpns), **verbs, **facts)


def _hosts(block: Block) -> dict[str, str]:
    """Return the usual hosts where each link has a figure of its own, which is enough to tell."""
    return block.hosts if _has_access(block) else {}


def _has_access(block: Block) -> bool:
    return any("access" in link for link in block.links)


def avoid(page: PageOne, block: Block) -> str:
    """Say which VPNs are much worse somewhere than the one that is advised, and better nowhere."""
    advised = {vpn for block in page.blocks for vpn in advised_vpns(page, block)}
    references = dict.fromkeys(choice.vpns[0] for choice in advice(page, block))
    sentences: list[tuple[float, str]] = []
    for vpn in page.vpns:
        bad: list[Comparison] = []
        for reference in references if vpn not in advised else ():
            compared = block.comparisons("vpn", vpn, reference)
            if not any(pair.is_better for pair in compared):
                bad += [pair for pair in compared if _is_bad(block, pair)]
        if bad:
            worst = max(bad, key=lambda pair: _least(block, pair))
            sentences.append((_least(block, worst), f"{named(vpn)}: {words.beside(block, worst)}"))
    sentences.sort(key=lambda sentence: -sentence[0])
    more = len(sentences) - MOST_TOLD
    texts = [text for _, text in sentences[:MOST_TOLD]]
    others = f"; and {more} other{'s' if more > 1 else ''}" if more > 0 else ""
    return say("avoid", told="; ".join(texts), more=others) if texts else ""


def _is_bad(block: Block, pair: Comparison) -> bool:
    """Return whether a VPN is much worse than another one, and than none: else that one is good."""
    bare = block.compare(pair.cell, block.other(pair.cell, vpn=USUAL["vpn"]))
    is_cost = bare is None or (bare.is_worse and _least(block, bare) >= COSTLY)
    return pair.is_worse and _least(block, pair) >= COSTLY and is_cost


def caveat(page: PageOne, block: Block) -> str:
    """Say where a VPN that is advised to who chooses only that is much worse than another one."""
    pairs: list[Comparison] = []
    for choice in advice(page, block)[-1:]:
        for cell, vpn in product(choice.cells, page.vpns):
            pair = block.compare(cell, block.other(cell, vpn=vpn))
            is_bad = pair and pair.is_worse and _least(block, pair) >= COSTLY
            if pair and is_bad and not has_fixed_rate(pair.reference):
                pairs.append(pair)
    if not pairs:
        return ""
    worst = max(pairs, key=lambda pair: _least(block, pair))
    return say("caveat", vpn=named(worst.cell.values["vpn"]), told=words.beside(block, worst))


def _least(block: Block, pair: Comparison) -> float:
    """Return how many times worse the cell is at least."""
    if block.is_more_better:
        return 1 / pair.change.high if pair.change.high else float("inf")
    return pair.change.low or 0.0


def _gain(block: Block, pair: Comparison) -> float:
    """Return how many times better the cell is at least."""
    if block.is_more_better:
        return pair.change.low or 0.0
    return 1 / pair.change.high if pair.change.high else 0.0


def tails(page: PageOne, block: Block) -> str:
    """Say of which cell the slowest tenth is furthest above the median."""
    tails = []
    for cell in block.cells if block.is_time else ():
        estimate = cell.estimate(block.measure)
        if estimate and estimate.p90 is not None and estimate.p90 >= COSTLY * estimate.median > 0:
            tails.append((estimate.p90 / estimate.median, estimate.p90, cell))
    if not tails:
        return ""
    _, p90, cell = max(tails, key=lambda tail: tail[0])
    place = where(block, cell)
    median, slowest = (words.figure(block, value) for value in (block.median(cell), p90))
    facts = {"measure": words.measure(block), "median": median, "p90": slowest}
    return say("tail", where=f": {place}" if place else "", **facts)


def parts(page: PageOne, block: Block) -> str:
    """Say what each direction, flow or PC has, where the worst of them is worst."""
    if block.measure not in PARTS:
        return ""
    worst = max(block.cells, key=lambda cell: block.median(cell) ** _sign(block))
    by_part: dict[str, list[float]] = {}
    for run in worst.runs:
        for name, value in parts_of(run.record, block.measure).items() if run.record else ():
            by_part.setdefault(name, []).append(value)
    parts = []
    for name, values in by_part.items():
        middle = sorted(values)
        median = (middle[(len(middle) - 1) // 2] + middle[len(middle) // 2]) / 2
        in_words = suffix_in_words(name)
        if block.measure == WORSE_MOS:
            in_words = in_words.replace("to ", "to the ")
        in_words = in_words.replace("pc ", "PC ") if block.measure == SLOWEST else in_words
        parts.append(f"{in_words} {words.figure(block, median)}")
    place = where(block, worst)
    return say("parts", where=f" ({place})" if place else "", told=words.listed(parts))


def lost_pings(page: PageOne, block: Block) -> str:
    """Say how many pings are lost where that is most."""
    lossy = [cell for cell in block.cells if cell.measured(LOST_PINGS)]
    if not block.measure.startswith("ping_") or not lossy:
        return ""
    cell = max(lossy, key=lambda cell: median_of(cell, LOST_PINGS))
    most = median_of(cell, LOST_PINGS)
    place = where(block, cell)
    return say("lost", lost=words.short(most), where=f" ({place})" if place else "") if most else ""


def only_fixed_rate(page: PageOne, block: Block) -> str:
    """Say what senders without congestion control do, which are no advice."""
    cells = [cell for cell in block.cells if has_fixed_rate(cell)]
    if not cells:
        return ""
    best = min(cells, key=lambda cell: block.median(cell) ** _sign(block))
    best_words = " ".join((words.figure(block, block.median(best)), where(block, best, ("vpn",))))
    return say("only_fixed_rate", vpn=named(best.values["vpn"]), told=best_words.strip())


def missing(page: PageOne) -> str:
    """Say how many runs failed or are missing."""
    failed = sum(len(cell.failed) for cell in page.campaigns.cells)
    not_run = sum(cell.not_run for cell in page.campaigns.cells)
    parts = [f"{failed} failed{_of_vpns(page)}"] if failed else []
    parts += [f"{not_run} were not run"] if not_run else []
    runs = len(page.campaigns.runs)
    return say("missing", runs=runs, told=words.listed(parts)) if parts else ""


def _of_vpns(page: PageOne) -> str:
    """Return how many runs of each VPN failed: ` (5 of VpnCloud)`."""
    cells = page.campaigns.cells
    failed = Counter(cell.values.get("vpn", "") for cell in cells for _ in cell.failed)
    numbers = [f"{number} of {named(vpn)}" for vpn, number in failed.most_common(MOST_TOLD) if vpn]
    return f" ({words.listed(numbers)})" if numbers else ""
