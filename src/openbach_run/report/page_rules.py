# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of page 1: what its model lets it say, and nothing else.

A sentence is there only if comparisons decide what it says: with enough seeds, by more than a tie,
with the whole interval. The rules know no VPN and no congestion control by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, combinations, product

from openbach_run.paths import REPOSITORY
from openbach_run.report import page_words as words
from openbach_run.report.cells import PARTS, SLOWEST, WORSE_MOS, Cell, parts_of
from openbach_run.report.effects import Effect, differ
from openbach_run.report.page_advice import Choice, choices
from openbach_run.report.page_model import (
    COSTLY,
    EQUIVALENT,
    USUAL,
    Block,
    Comparison,
    PageOne,
    is_leased,
)
from openbach_run.report.page_words import say, where
from openbach_run.report.recommendations import LEAST_TIE, has_idle_pep
from openbach_run.report.words import named, said, suffix_in_words
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
"""Up to which loss a control is known to hold, by our own measurements."""
LOST_PINGS = "ping_lost_pct"
SHOWN = 0.9
"""The part of comparisons that have to show that two VPNs are equivalent, for them to be close."""


def of_page(page: PageOne) -> list[str]:
    """Return the sentences that are about all blocks."""
    told = [_equivalent(group) for group in page.equivalents if len(group) > 1]
    return [*told, *filter(None, [close(page), missing(page)])]


def of_block(page: PageOne, block: Block) -> list[str]:
    """Return the sentences of a block, the most important first; the first one says what it is."""
    if not block.is_claimed:
        return [head(block), no_claim(block)]
    rules: list[Callable[[PageOne, Block], str]] = [
        decides, instead, pep_helps, pep_taken, costs, caveat, avoid, parts, lost_pings, leased,
        no_advice, tails,
    ]  # fmt: skip
    found = [head(block)]
    for rule in rules:
        found += rule(page, block).splitlines()
    return found[:MOST_SENTENCES]


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
    names = [words.what(one) for one in block.swept] or ["anything"]
    told = dict.fromkeys(words.with_seeds(one) for one in commands)
    seeds = words.seeds_in_words(block.cells)
    return say(
        "no_claim",
        seeds=seeds,
        least=MIN_SEEDS,
        swept=words.listed(names, "or"),
        command="; ".join(told),
    )


def decides(page: PageOne, block: Block) -> str:
    """Say what changes the measure most, with its values on each link."""
    measure = words.measure(block)
    if not block.effects:
        median = words.figure(block, block.median(block.cells[0]))
        return say("one", measure=measure, median=median)
    found = [one for one in block.effects if one.name not in HOW_MUCH and one.matters]
    if not found:
        return _few(block, measure)
    weights = {one.name: _decided_weight(block, one) for one in found}
    most = max(found, key=lambda one: weights[one.name])
    series, what = _series(block, most), words.capital(words.what(most.name))
    name = "decides" if weights[most.name][1] >= COSTLY else "most"
    return say(name, what=what, measure=measure, series=series) if series else _few(block, measure)


def _decided_weight(block: Block, effect: Effect) -> tuple[bool, float]:
    """Return the weight of the group that shows an effect best."""
    decided = [one for one in effect.groups if _is_decided(block, one)]
    return max((_weight(block, one) for one in decided), default=(False, 0.0))


def _few(block: Block, measure: str) -> str:
    """Say that nothing differs, or what does so in a few comparisons, as chance may have it."""
    most = max(block.effects, key=lambda one: (one.name not in HOW_MUCH, one.differing))
    if any(one.differing for one in block.effects):
        facts = {"some": most.differing, "all": most.compared, "measure": measure}
        return say("few", what=words.capital(words.what(most.name)), **facts)
    return say("nothing", swept=", ".join(map(words.what, block.swept)), measure=measure)


def _series(block: Block, effect: Effect) -> str:
    """Return the medians along an argument, on the links where they are furthest apart."""
    by_link: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for group in sorted(effect.groups, key=lambda one: _weight(block, one), reverse=True):
        if _is_decided(block, _in_order(block, effect.name, group)):
            link = next((one for one in block.links if group[0].has(one)), {})
            key = tuple(link.items()) if effect.name not in link else ()
            by_link.setdefault(key, group)
    told = []
    for group in list(by_link.values())[:MOST_TOLD]:
        texts = []
        for cell in _in_order(block, effect.name, group):
            figure = words.figure(block, block.median(cell))
            texts.append(f"{figure} {words.with_value(block, effect.name, cell)}")
        others = where(block, group[0], (effect.name,))
        told.append(f"{others}: {words.listed(texts)}" if others else words.listed(texts))
    return "; ".join(told)


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


def instead(page: PageOne, block: Block) -> str:
    """Say which other transport is better where most is lost, without VPN and PEP."""
    if "cc" not in block.swept:
        return ""
    told: dict[str, list[str]] = {}
    decided = True
    usual = block.usual["cc"]
    for link in block.links:
        own = block.find(**link, **_hardest(block))
        pairs = [(cell, block.compare(cell, own)) for cell in _transports(block, own)]
        better = [(cell, one) for cell, one in pairs if one and one.is_better]
        decided = decided and bool(pairs) and all(one for _, one in pairs)
        if better and own:
            best = min(better, key=lambda one: one[1].change.median ** _sign(block))[0]
            told.setdefault(best.values["cc"], []).append(_over_losses(block, link, best, own))
    others = _without(block)
    facts = {"others": others, "usual": words.transport(usual), "bound": words.bound(block)}
    texts = []
    for cc, of_links in told.items():
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
    cells = [block.instead(own, cc=cc) for cc in every if own and cc != own.values["cc"]]
    return [cell for cell in cells if cell and not is_leased(cell)]


def _over_losses(block: Block, link: dict[str, str], best: Cell, own: Cell) -> str:
    """Return the medians of two transports over all losses of a link."""
    told = []
    for cell in (best, own):
        every = [block.instead(cell, loss=loss) for loss in block.losses] or [cell]
        told.append(words.figure(block, *[block.median(one) for one in every if one]))
    over = words.link_in_words(link, own.values)
    return f"{f'over {over} ' if over else ''}{told[0]} instead of {told[1]}"


def _without(block: Block) -> str:
    """Return what was swept and is not there: `, no VPN, no PEP`."""
    told = {"vpn": ", no VPN", "pep": ", no PEP"}
    return "".join(text for name, text in told.items() if block.usual.get(name) == USUAL[name])


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
        hosts = {name: block.usual[name] for name in ("cc",) if name in block.usual}
        found = block.comparisons("pep", pep, USUAL["pep"], **hosts, **_hardest(block))
        found = [one for one in found if not has_idle_pep(one.here)]
        if pep != USUAL["pep"] and found:
            by_pep[pep] = found
    usual = words.transport(block.usual["cc"]) if "cc" in block.usual else "usual hosts"
    facts = {"usual": usual, "bound": _at_hardest(block), "measure": words.measure(block)}
    helpful = {pep: one for pep, one in by_pep.items() if 2 * _better(one) > len(one)}
    if not helpful:
        return _rarely_helps(block, by_pep, facts) if by_pep else ""
    best = max(helpful, key=lambda pep: (_better(helpful[pep]), -_mean(block, helpful[pep])))
    idle = "; for a tunnel that it cannot split, a PEP between the tunnel's ends does nothing"
    return say(
        "pep",
        pep=said("pep", best),
        told=_changes(block, [one for one in helpful[best] if one.is_better]),
        idle=idle if block.idle else "",
        **facts,
    )


def _rarely_helps(
    block: Block, by_pep: Mapping[str, list[Comparison]], facts: Mapping[str, str]
) -> str:
    """Say where a PEP is better that is not so in most comparisons, and how often it is worse."""
    pep = max(by_pep, key=lambda one: _better(by_pep[one]))
    better = [one for one in by_pep[pep] if one.is_better]
    if not better:
        return say("no_pep", **facts)
    best = min(better, key=lambda one: one.change.median ** _sign(block))
    return say(
        "some_pep",
        pep=said("pep", pep),
        better=len(better),
        worse=sum(one.is_worse for one in by_pep[pep]),
        all=len(by_pep[pep]),
        told=_changes(block, [best]),
        **facts,
    )


def _at_hardest(block: Block) -> str:
    return words.at_loss(block.losses[-1], block) if block.losses else words.bound(block)


def _better(found: Sequence[Comparison]) -> int:
    return sum(one.is_better for one in found)


def _mean(block: Block, found: Sequence[Comparison]) -> float:
    return sum(one.change.median ** _sign(block) for one in found) / len(found)


def _changes(block: Block, found: Sequence[Comparison]) -> str:
    """Return comparisons one by one: `33 s with WireGuard instead of 480 s over GEO`."""
    told = []
    for one in sorted(found, key=lambda each: each.change.median ** _sign(block))[:MOST_VALUES]:
        here, there = (words.figure(block, block.median(cell)) for cell in (one.here, one.there))
        vpn = f" {words.with_value(block, 'vpn', one.here)}" if "vpn" in block.swept else ""
        link = where(block, one.here, ("cc", "pep", "vpn", "loss"))
        told.append(f"{here}{vpn} instead of {there}{f' {link}' if link else ''}")
    more = len(found) - MOST_VALUES
    return ", ".join(told) + (f", and {more} more" if more > 0 else "")


def pep_taken(page: PageOne, block: Block) -> str:
    """Say which VPN takes a PEP away that helps who has no VPN."""
    texts = []
    for pep in block.campaigns.distinct("pep", block.cells) if "pep" in block.swept else ():
        told: dict[str, str] = {}
        for bare in block.of(pep=pep, vpn=USUAL["vpn"]) if pep != USUAL["pep"] else ():
            helps = block.compare(bare, block.instead(bare, pep=USUAL["pep"]))
            for vpn in page.vpns if helps and _gain(block, helps) >= COSTLY else ():
                cell = block.instead(bare, vpn=vpn)
                kept = block.compare(cell, block.instead(cell, pep=USUAL["pep"])) if cell else None
                if cell and helps and kept and _is_taken(block, kept):
                    told.setdefault(vpn, _with_and_without(block, vpn, kept, helps))
        if told:
            name = f"{words.some(list(told))} take{'s' if len(told) == 1 else ''}"
            position = said("pep", pep).removeprefix("PEP ").removeprefix("at ")
            texts.append(say("taken", vpns=name, pep=position, told=next(iter(told.values()))))
    return "\n".join(texts)


def _is_taken(block: Block, kept: Comparison) -> bool:
    """Return whether a PEP's gain without VPN is shown to be gone with one."""
    return kept.is_worse or (kept.is_equivalent and _gain(block, kept) <= LEAST_TIE)


def _with_and_without(block: Block, vpn: str, kept: Comparison, helps: Comparison) -> str:
    """Return what a PEP changes with a VPN and without: `494 s instead of 494 s with WireGuard`."""
    figures = [
        words.figure(block, block.median(cell))
        for one in (kept, helps)
        for cell in (one.here, one.there)
    ]
    place = where(block, kept.here, ("pep", "vpn"))
    text = f"{figures[0]} instead of {figures[1]} with {named(vpn)}, {figures[2]} instead of"
    return f"{text} {figures[3]} without VPN{f', {place}' if place else ''}"


def _equivalent(group: Sequence[str]) -> str:
    return say("equivalent", vpns=words.some(group), most=100 * (EQUIVALENT - 1))


def close(page: PageOne) -> str:
    """Say with which VPNs one that is advised is not shown to differ, under any condition."""
    advised = [vpn for block in page.blocks for vpn in advised_vpns(page, block)]
    tried: list[Comparison] = []
    others = []
    for vpn in page.vpns if advised else ():
        found: list[Comparison] = []
        for block in page.blocks:
            found += block.comparisons("vpn", vpn, advised[0])
        apart = [one.change.lies_within(1 / EQUIVALENT, EQUIVALENT) is False for one in found]
        is_shown = sum(one.is_equivalent for one in found) >= SHOWN * len(found)
        if vpn not in page.alike(advised[0]) and found and not any(apart) and is_shown:
            others.append(vpn)
            tried += found
    same = sum(one.is_equivalent for one in tried)
    facts = {"tried": len(tried), "same": same, "most": 100 * (EQUIVALENT - 1)}
    name = named(advised[0]) if others else ""
    return say("close", one=name, others=words.some(others), **facts) if others else ""


def no_advice(page: PageOne, block: Block) -> str:
    """Say that nothing is advised, though there was something to choose."""
    is_choice = {"cc", "pep", "vpn"} & {*block.swept} and block.is_ranked
    if not is_choice or advice(page, block):
        return ""
    return say("no_advice", measure=words.measure(block), least=MIN_SEEDS)


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
        found = block.comparisons("vpn", vpn, USUAL["vpn"], **least, **pep, **_hosts(block))
        by_vpn[vpn] = [one for one in found if not is_leased(one.here)]
    known = [vpn for vpn, found in by_vpn.items() if found]
    tie = 1 / LEAST_TIE, LEAST_TIE
    if all(one.change.lies_within(*tie) for one in chain(*by_vpn.values())):
        return ""
    best = min(known, key=lambda vpn: _mean(block, by_vpn[vpn]))
    best = next((vpn for vpn in advised_vpns(page, block) if vpn in known), best)
    vpns = [vpn for vpn in page.alike(best) if vpn in known]
    told: dict[str, list[Comparison]] = {}
    for one in chain.from_iterable(by_vpn[vpn] for vpn in vpns):
        link = where(block, one.here, ("cc", "pep", "vpn", "loss")) if _access(block) else ""
        transport = one.here.values.get("cc", "") if block.kind.is_of_tcp else ""
        key = ", ".join(filter(None, (transport and words.transport(transport), link)))
        told.setdefault(key, []).append(one)
    texts = []
    for key, found in told.items():
        text = words.changes([one.change for one in found])
        texts.append(f"{text} ({key})" if key else text)
    conditions = [words.at_loss(least["loss"], block)] if least else []
    conditions += ["no PEP"] if pep and "pep" in block.swept else []
    ending = "".join(f", {one}" for one in conditions)
    every = [one for found in told.values() for one in found]
    is_cost = not block.is_more_better and all((one.change.low or 0) > 1 for one in every)
    s = "s" if len(vpns) == 1 else ""
    facts = {"told": words.listed(texts), "measure": words.measure(block), "conditions": ending}
    verbs = {"costs": f"cost{s}", "changes": f"change{s}"}
    return say("cost" if is_cost else "change", vpns=words.some(vpns), **verbs, **facts)


def _hosts(block: Block) -> dict[str, str]:
    """Return the usual hosts where each link has a figure of its own, which is enough to tell."""
    return {name: block.usual[name] for name in ("cc",) if _access(block) and name in block.usual}


def _access(block: Block) -> bool:
    return any("access" in link for link in block.links)


def avoid(page: PageOne, block: Block) -> str:
    """Say which VPNs are much worse somewhere than the one that is advised, and better nowhere."""
    advised = {vpn for one in page.blocks for vpn in advised_vpns(page, one)}
    references = dict.fromkeys(one.vpns[0] for one in advice(page, block))
    found: list[tuple[float, str]] = []
    for vpn in page.vpns:
        bad: list[Comparison] = []
        for reference in references if vpn not in advised else ():
            compared = block.comparisons("vpn", vpn, reference)
            if not any(one.is_better for one in compared):
                bad += [one for one in compared if _is_bad(block, one)]
        if bad:
            worst = max(bad, key=lambda one: _least(block, one))
            found.append((_least(block, worst), f"{named(vpn)}: {_beside(block, worst)}"))
    found.sort(key=lambda one: -one[0])
    more = len(found) - MOST_TOLD
    texts = [text for _, text in found[:MOST_TOLD]]
    others = f"; and {more} other{'s' if more > 1 else ''}" if more > 0 else ""
    return say("avoid", told="; ".join(texts), more=others) if texts else ""


def _is_bad(block: Block, one: Comparison) -> bool:
    """Return whether a VPN is much worse than another one, and than none: else that one is good."""
    bare = block.compare(one.here, block.instead(one.here, vpn=USUAL["vpn"]))
    is_cost = bare is None or (bare.is_worse and _least(block, bare) >= COSTLY)
    return one.is_worse and _least(block, one) >= COSTLY and is_cost


def _beside(block: Block, one: Comparison) -> str:
    """Return two VPNs' medians: `46 s instead of 34 s with WireGuard (+34 %), over GEO`."""
    here, there = (words.figure(block, block.median(cell)) for cell in (one.here, one.there))
    other = named(one.there.values["vpn"])
    told = where(block, one.here, ("vpn",))
    text = f"{here} instead of {there} with {other} ({words.percent(one.change)})"
    return f"{text}, {told}" if told else text


def caveat(page: PageOne, block: Block) -> str:
    """Say where a VPN that is advised to who chooses only that is much worse than another one."""
    found: list[Comparison] = []
    for choice in advice(page, block)[-1:]:
        for cell, vpn in product(choice.cells, page.vpns):
            one = block.compare(cell, block.instead(cell, vpn=vpn))
            if one and one.is_worse and _least(block, one) >= COSTLY and not is_leased(one.there):
                found.append(one)
    if not found:
        return ""
    worst = max(found, key=lambda one: _least(block, one))
    return say("caveat", vpn=named(worst.here.values["vpn"]), told=_beside(block, worst))


def _least(block: Block, one: Comparison) -> float:
    """Return how many times worse the cell is at least."""
    if block.is_more_better:
        return 1 / one.change.high if one.change.high else float("inf")
    return one.change.low or 0.0


def _gain(block: Block, one: Comparison) -> float:
    """Return how many times better the cell is at least."""
    if block.is_more_better:
        return one.change.low or 0.0
    return 1 / one.change.high if one.change.high else 0.0


def advised_vpns(page: PageOne, block: Block) -> list[str]:
    """Return the VPNs that the table names for a block, the narrowest control's first."""
    found: list[str] = []
    for one in reversed(advice(page, block)):
        found += one.vpns
    return list(dict.fromkeys(found))


def advice(page: PageOne, block: Block) -> list[Choice]:
    """Return what to use, by what one controls; nothing for a measure that is neither."""
    return choices(page, block) if block.is_ranked else []


def tails(page: PageOne, block: Block) -> str:
    """Say of which cell the slowest tenth is furthest above the median."""
    found = []
    for cell in block.cells if block.is_time else ():
        one = cell.estimate(block.measure)
        if one and one.p90 is not None and one.p90 >= COSTLY * one.median > 0:
            found.append((one.p90 / one.median, one.p90, cell))
    if not found:
        return ""
    _, p90, cell = max(found, key=lambda one: one[0])
    told = where(block, cell)
    return say(
        "tail",
        where=f": {told}" if told else "",
        measure=words.measure(block),
        median=words.figure(block, block.median(cell)),
        p90=words.figure(block, p90),
    )


def parts(page: PageOne, block: Block) -> str:
    """Say what each direction, flow or PC has, where the worst of them is worst."""
    if block.measure not in PARTS:
        return ""
    worst = max(block.cells, key=lambda cell: block.median(cell) ** _sign(block))
    by_part: dict[str, list[float]] = {}
    for run in worst.runs:
        for name, value in parts_of(run.record, block.measure).items() if run.record else ():
            by_part.setdefault(name, []).append(value)
    told = []
    for name, values in by_part.items():
        middle = sorted(values)
        median = (middle[(len(middle) - 1) // 2] + middle[len(middle) // 2]) / 2
        in_words = suffix_in_words(name)
        in_words = (
            f"{in_words.replace('to ', 'to the ')}" if block.measure == WORSE_MOS else in_words
        )
        in_words = in_words.replace("pc ", "PC ") if block.measure == SLOWEST else in_words
        told.append(f"{in_words} {words.figure(block, median)}")
    place = where(block, worst)
    return say("parts", where=f" ({place})" if place else "", told=words.listed(told))


def lost_pings(page: PageOne, block: Block) -> str:
    """Say how many pings are lost where that is most."""
    lossy = [cell for cell in block.cells if cell.measured(LOST_PINGS)]
    if not block.measure.startswith("ping_") or not lossy:
        return ""
    lost = [(cell.estimate(LOST_PINGS), cell) for cell in lossy]
    most, cell = max(((one.median, cell) for one, cell in lost if one), key=lambda one: one[0])
    told = where(block, cell)
    return say("lost", lost=words.short(most), where=f" ({told})" if told else "") if most else ""


def leased(page: PageOne, block: Block) -> str:
    """Say what senders without congestion control do, which are no advice."""
    cells = [cell for cell in block.cells if is_leased(cell)]
    if not cells:
        return ""
    best = min(cells, key=lambda cell: block.median(cell) ** _sign(block))
    told = " ".join((words.figure(block, block.median(best)), where(block, best, ("vpn",))))
    return say("leased", vpn=named(best.values["vpn"]), told=told.strip())


def missing(page: PageOne) -> str:
    """Say how many runs failed or are missing."""
    failed = sum(len(cell.failed) for cell in page.campaigns.cells)
    not_run = sum(cell.not_run for cell in page.campaigns.cells)
    told = [f"{failed} failed{_of_vpns(page)}"] if failed else []
    told += [f"{not_run} were not run"] if not_run else []
    runs = len(page.campaigns.runs)
    return say("missing", runs=runs, told=words.listed(told)) if told else ""


def _of_vpns(page: PageOne) -> str:
    """Return how many runs of each VPN failed: ` (5 of VpnCloud)`."""
    failed = Counter(
        cell.values.get("vpn", "") for cell in page.campaigns.cells for _ in cell.failed
    )
    told = [f"{number} of {named(vpn)}" for vpn, number in failed.most_common(MOST_TOLD) if vpn]
    return f" ({words.listed(told)})" if told else ""
