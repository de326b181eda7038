# SPDX-License-Identifier: GPL-3.0-or-later
"""Page 1 of a report: at most seven sentences and one table, made from the results by rules.

A sentence is there only if the results decide what it says: by more than a tie, with the whole
interval. So the same rules say of one campaign that loss decides, and of another that the VPN does.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from openbach_jobs.presets import ASSIGNED, DAMA
from openbach_run.link_checks import is_random
from openbach_run.openbach.measures import Measure, flat, measure_of
from openbach_run.openbach.scenario import SAME
from openbach_run.report.cells import Campaigns, Cell, is_numeral
from openbach_run.report.choices import EQUIVALENT, Choice, choices
from openbach_run.report.effects import (
    Effect,
    change,
    differ,
    effects,
    median_of,
    slower,
    widest_tie,
)
from openbach_run.report.recommendations import END_HOSTS, has_idle_pep, ties
from openbach_run.report.settings import Setting, settings
from openbach_run.report.words import (
    ACCESS,
    access_in_words,
    argument,
    kinds_of_capacity,
    named,
    said,
    unusual,
    value_of,
)
from openbach_run.results import by_engine
from openbach_run.results.intervals import Estimate
from openbach_run.results.seeds import MIN_SEEDS
from openbach_run.results.tables import Table
from openbach_run.units import number

MOST_SENTENCES = 7
COSTLY = 1.1
"""A VPN that takes this many times as long as no VPN is one to avoid: the published report calls
10 % bad."""
HOW_MUCH = ("size", "duration_s")
"""Arguments that say how much is sent. That more bytes take longer is no finding."""
OF_HEADERS = 0.01
"""A cost is that of headers if the link carries more bytes by as much, within this."""
CARRIED = "forward_sent_bytes"
FLOW = re.compile(r"flow_(\d+)_transfer_time_s")
NOT_RUN = "–"
MOST_NAMED = 3
"""The most VPNs that a sentence names one by one."""
MOST_LINKS = 6
"""The most links that have a column each in the table."""
MOST_VALUES = 6
"""The most values that a sentence names one by one."""
REACH = {"cc": "hosts", "pep": "PEP", "vpn": "VPN"}
"""What somebody controls who can choose an argument."""


@dataclass(frozen=True)
class PageOne:
    """The cells that page 1 is about, and their measure."""

    cells: list[Cell]
    measure: str
    campaigns: Campaigns
    swept: list[str] = field(default_factory=list)

    @cached_property
    def of_measure(self) -> Measure:
        """Return the measure that the page is about, as its job declares it."""
        return measure_of(self.measure, flat(self.campaigns.declared))[1]

    @property
    def is_time(self) -> bool:
        """Return whether less of the measure is better, and it is a time."""
        return self.of_measure.unit in ("s", "ms")

    @cached_property
    def tie(self) -> dict[str, float]:
        """Return the ratio up to which two cells are a tie, by congestion control."""
        return ties(self.cells, self.measure)

    @cached_property
    def effects(self) -> list[Effect]:
        """Return the effect of each argument that was swept, the largest first."""
        return effects(self.cells, self.measure, self.tie)

    @cached_property
    def choices(self) -> list[Choice]:
        """Return what to use, by what one controls; none for a measure that is no time."""
        return choices(self.cells, self.measure, self.tie) if self.is_time else []

    @cached_property
    def links(self) -> list[dict[str, str]]:
        """Return the orbits and other conditions that were swept, but for the loss, in order."""
        names = [one for one in self.swept if one not in ("loss", "cc", "pep", "vpn")]
        names.sort(key=lambda one: one != "orbit")
        if ACCESS[0] in names:
            there = set().union(*(cell.values for cell in self.cells))
            names += [one for one in ACCESS[1:] if one in there]
        found: dict[tuple[str, ...], dict[str, str]] = {}
        for cell in self.cells:
            values = {name: cell.values.get(name, "") for name in names}
            found.setdefault(tuple(values.values()), values)
        return list(found.values())

    @cached_property
    def losses(self) -> list[str]:
        """Return the random losses that were swept, the least first.

        There are none if the losses are those of the links: each link has another one, and only it.
        """
        every = self.campaigns.distinct("loss", self.cells)
        of_links = []
        for link in self.links:
            of_links.append({cell.values.get("loss") for cell in self.of(**link)})
        return every if len(every) < 2 or any(len(one) > 1 for one in of_links) else []

    def find(self, **wanted: str) -> Cell | None:
        """Return the first measured cell with these values and the usual others."""
        usual = {"vpn": "none", "pep": "none", "cc": END_HOSTS, "cc_pep": SAME, "cc_tunnel": SAME}
        rest = {}
        for name, value in usual.items():
            if name not in wanted and any(cell.values.get(name) == value for cell in self.cells):
                rest[name] = value
        for cell in self.cells:
            asked = {**rest, **wanted}
            if cell.has(asked):
                return cell if cell.estimate(self.measure) else None
        return None

    def partner(self, cell: Cell, vpn: str) -> Cell | None:
        """Return the cell with another VPN and otherwise the same."""
        return self.find(**{**_own(self, cell), "vpn": vpn})

    def of(self, **wanted: str) -> list[Cell]:
        """Return the measured cells with these values."""
        found = []
        for cell in self.cells:
            has = all(cell.values.get(name) == value for name, value in wanted.items())
            found += [cell] if has and cell.estimate(self.measure) else []
        return found

    def median(self, cell: Cell) -> str:
        """Return a cell's median with two or three digits and its unit: `27 s`."""
        return f"{short(median_of(cell, self.measure))} {self.of_measure.unit}".rstrip()


def page_one(campaigns: Campaigns) -> PageOne | None:
    """Return page 1 of the cells that most say something about; None if nothing was measured.

    These are the matrices by their time. Without any it is the scenario with most cells of those
    in which something changes the measure.
    """
    every = settings(campaigns)
    timed = [one for one in every if one.is_matrix and one.is_time]
    first = timed[0].plot.measure if timed else ""
    some = [one for one in timed if one.plot.measure == first]
    if not some:
        groups: dict[tuple[str, str], list[Setting]] = {}
        for one in every:
            if measure := _measure(one):
                groups.setdefault((one.shared["scenario"], measure), []).append(one)
        made = [_page_of(of_scenario, key[1], campaigns) for key, of_scenario in groups.items()]
        return max(made, key=lambda page: (_has_finding(page), len(page.cells)), default=None)
    return _page_of(some, first, campaigns)


def _page_of(some: Sequence[Setting], measure: str, campaigns: Campaigns) -> PageOne:
    """Return page 1 of the cells of these settings that have a measure."""
    cells = []
    for one in some:
        cells += [cell for cell in one.cells if cell.measured(measure)]
    made = PageOne(_with_settings(cells), measure, campaigns)
    return replace(made, swept=[one.name for one in made.effects])


def _has_finding(page: PageOne) -> bool:
    """Return whether something that was varied changes the measure."""
    return any(one.matters for one in page.effects if one.name not in HOW_MUCH)


def _with_settings(cells: list[Cell]) -> list[Cell]:
    """Return cells whose congestion control and VPN say what else makes them.

    A transfer by HTTP/3 has another transport than one by TCP, and a VPN with a value of its own is
    another VPN: neither is another link. Only what differs is said: `cubic http=3 quic=quinn`.
    """
    differ_in = set()
    for name in ("http", "quic", "vpn_values"):
        if len({cell.values.get(name, "none") for cell in cells}) > 1:
            differ_in.add(name)
    made = []
    for cell in cells:
        values = {name: value for name, value in cell.values.items() if name not in differ_in}
        if "http" in differ_in and cell.values.get("http", "none") != "none" and "cc" in values:
            values["cc"] += f" http={cell.values['http']}"
            if "quic" in differ_in and cell.values["http"] == "3":
                values["cc"] += f" quic={cell.values['quic']}"
        if "vpn_values" in differ_in and cell.values.get("vpn_values", "none") != "none":
            for one in cell.values["vpn_values"].split(";"):
                values["vpn"] += f" vpn.{one}"
        made.append(replace(cell, values=values))
    return made


def _measure(setting: Setting) -> str:
    """Return the measure that a section asks for, else the first that its runs have; "" if none."""
    names = [setting.plot.measure, *measures_of(setting.cells)]
    for name in names:
        if any(cell.measured(name) for cell in setting.cells):
            return name
    return ""


def sentences(page: PageOne) -> list[str]:
    """Return the sentences of page 1, the most important first."""
    rules: list[Callable[[PageOne], str]] = [
        what_decides,
        what_asking_costs,
        what_hosts_do,
        what_tails_do,
        what_a_pep_does,
        equivalent_vpns,
        best_vpns,
        vpns_to_avoid,
        several_flows,
        what_is_missing,
    ]
    found = list(filter(None, (rule(page) for rule in rules)))
    return found[:MOST_SENTENCES]


def what_decides(page: PageOne) -> str:
    """Say which argument changes the measure most, with its values on each link."""
    measure = page.of_measure.title
    if not page.effects:
        return f"One configuration was run: {measure} {page.median(page.cells[0])}."
    swept = _list([_argument(one.name) for one in page.effects], "or")
    found = [one for one in page.effects if one.name not in HOW_MUCH and one.matters]
    top = (found or page.effects)[0]
    if not any(one.compared for one in page.effects):
        return (
            f"Nothing can be compared: each cell has one seed and the link is random, so"
            f" --seeds {MIN_SEEDS} is needed to tell {swept} from chance."
        )
    if not top.matters and any(one.undecided for one in page.effects):
        return (
            f"One seed does not tell what {swept} changes from chance where packets are lost at"
            f" random (--seeds {MIN_SEEDS} does); elsewhere nothing differs by more than a tie."
        )
    if not top.matters:
        low, high = _ends([median_of(cell, page.measure) for cell in page.cells])
        unit = page.of_measure.unit
        return (
            f"Nothing that was varied ({swept.replace(' or ', ', ')}) changes the {measure} by"
            f" more than chance: all medians are {_span(low, high)} {unit}."
        )
    series = _series(page, top)
    name = _argument(top.name)
    return f"{capital(name)} decides: {series}."


def _series(page: PageOne, effect: Effect) -> str:
    """Return the medians along an argument, on each link.

    An example is `CUBIC, no VPN: over GEO 27 s without loss and 454 s at 1 % loss, over LEO 25 and
    78 s`.
    """
    told: dict[str, list[tuple[str, list[Cell]]]] = {}
    links = [{}] if effect.name in _link_names(page) else page.links
    for link in links:
        of_link = [group for group in effect.groups if group[0].has(link)]
        if of_link:
            group = max(of_link, key=lambda one: _weight(page, one))
            told.setdefault(_others(page, effect.name, group), []).append(
                (_over(link).strip(), _in_order(page, effect.name, group))
            )
    parts = []
    for others, of_links in told.items():
        first = [_with(effect.name, cell) for cell in of_links[0][1]]
        texts = []
        for at, (where, group) in enumerate(of_links):
            values = [_with(effect.name, cell) for cell in group]
            if at and values == first:
                medians = [short(median_of(cell, page.measure)) for cell in group]
                figures = f"{_list(medians)} {page.of_measure.unit}".rstrip()
            else:
                figures = _list(
                    [f"{page.median(cell)} {_with(effect.name, cell)}" for cell in group]
                )
            texts.append(f"{where} {figures}".strip())
        parts.append(f"{others}: {', '.join(texts)}" if others else ", ".join(texts))
    return "; ".join(parts)


def _others(page: PageOne, name: str, group: Sequence[Cell]) -> str:
    """Return the other values of a group that were swept: `CUBIC, no VPN`."""
    first = group[0].values
    names = [one for one in ("cc", "vpn", "pep", "loss") if one != name and one in page.swept]
    if first.get("pep") == "none":
        names = [one for one in names if one != "pep"]
    told = [_value(one, first[one]) for one in names]
    if name in _link_names(page):
        others = [one for one in page.links[0] if one not in (name, *ACCESS)]
        rest = {one: first[one] for one in others if one in first}
        told += [link_in_words(rest)] if rest else []
    return ", ".join(told)


def _in_order(page: PageOne, name: str, group: Sequence[Cell]) -> list[Cell]:
    """Return a cell for each value.

    If there are many, those with the least and the most of the measure.
    """
    order = page.campaigns.distinct(name, group)
    by_value = {_with(name, cell): cell for cell in reversed(group)}
    chosen = sorted(by_value.values(), key=lambda cell: order.index(cell.values[name]))
    if len(chosen) > MOST_VALUES:
        by_median = sorted(chosen, key=lambda cell: median_of(cell, page.measure))
        chosen = [by_median[0], by_median[-1]]
    return chosen


def _weight(page: PageOne, group: Sequence[Cell]) -> tuple[bool, bool, float]:
    """Return what is greatest for the group to show: decided, usual hosts, far apart."""
    medians = [median_of(cell, page.measure) for cell in group]
    plain = [("vpn", "none"), ("pep", "none"), ("cc", END_HOSTS)]
    usual = []
    for name, value in plain:
        values = {cell.values.get(name, value) for cell in group}
        usual.append(len(values) > 1 or values == {value})
    ratio = max(medians) / min(medians) if min(medians) > 0 else max(medians)
    pairs = itertools.combinations(group, 2)
    decided = any(differ(*pair, page.measure, page.tie) for pair in pairs)
    return decided, all(usual), ratio


def what_hosts_do(page: PageOne) -> str:
    """Say what another congestion control of the hosts changes where most is lost."""
    if "cc" not in page.swept or not page.is_time:
        return ""
    most = page.losses[-1] if page.losses else ""
    told: dict[str, list[str]] = {}
    price: dict[str, list[str]] = {}
    for link, own, best in _faster_hosts(page, most):
        cc = best.values["cc"]
        every = [page.find(**link, cc=cc, **_loss(loss)) for loss in page.losses or [""]]
        medians = [median_of(cell, page.measure) for cell in every if cell]
        low, high = _ends(medians)
        unit = page.of_measure.unit
        told.setdefault(cc, []).append(
            f"{_span(low, high)} {unit}{_over(link)} (CUBIC up to"
            f" {short(median_of(own, page.measure))})"
        )
        least = page.losses[0] if page.losses else ""
        bare, dear = page.find(**link, **_loss(least)), page.find(**link, cc=cc, **_loss(least))
        if bare and dear and least != most and slower(dear, bare, page.measure, page.tie):
            more = median_of(dear, page.measure) - median_of(bare, page.measure)
            price.setdefault(cc, []).append(f"{short(more)} {unit} more{_over(link)}")
    if not told:
        return _no_better_hosts(page, most)
    parts = []
    for cc, of_links in told.items():
        text = f"{named(cc)} on the hosts takes {_list(of_links)}"
        text += f"{', whatever the loss' if len(page.losses) > 1 else ''}"
        if cc in price:
            text += f"; {at_loss(page.losses[0])} it takes {_list(price[cc])} than CUBIC"
        parts.append(text)
    return f"{'; '.join(parts)}."


def what_tails_do(page: PageOne) -> str:
    """Say of which cell the slowest tenth is furthest above the median."""
    tails = []
    for cell in page.cells if page.is_time else ():
        found = cell.estimate(page.measure)
        if found and found.p90 is not None and found.p90 >= COSTLY * found.median > 0:
            tails.append((found.p90 / found.median, found.p90, cell))
    if not tails:
        return ""
    _, p90, cell = max(tails, key=lambda one: one[0])
    where = _over(next((one for one in page.links if cell.has(one)), {}))
    told = f"{_others(page, '', [cell])}{where}".strip()
    unit = page.of_measure.unit
    return (
        f"Chance matters most{f' with {told}' if told else ''}: half of the runs have a"
        f" {page.of_measure.title} of at most {page.median(cell)}, one in ten of more than"
        f" {short(p90)} {unit}."
    )


def best_hosts(page: PageOne) -> str | None:
    """Return the hosts' congestion control that page 1 says is faster, on most links; or None."""
    if not page.is_time:
        return None
    faster = _faster_hosts(page, page.losses[-1] if page.losses else "")
    names = [best.values["cc"] for _, _, best in faster]
    return max(names, key=names.count) if names else None


def _faster_hosts(page: PageOne, loss: str) -> list[tuple[dict[str, str], Cell, Cell]]:
    """Return the links where hosts with another control than the usual are faster.

    Each is with the cell of usual hosts, and that of the fastest, both without VPN and PEP.
    """
    found = []
    for link in page.links:
        own = page.find(**link, **_loss(loss))
        others = [cell for cell in _other_controls(page, link, loss) if cell is not own]
        if own is None or not others:
            continue
        best = min(others, key=lambda cell: median_of(cell, page.measure))
        if slower(own, best, page.measure, page.tie):
            found.append((link, own, best))
    return found


def _no_better_hosts(page: PageOne, most: str) -> str:
    """Say that CUBIC is as good as any other control, if that was decided on every link."""
    for link in page.links:
        own = page.find(**link, **_loss(most))
        others = _other_controls(page, link, most)
        decided = [own and differ(cell, own, page.measure, page.tie) for cell in others]
        if own is None or not others or any(one is None for one in decided):
            return ""
    where = f" {at_loss(most)}" if page.losses else ""
    return f"No congestion control of the hosts is faster than CUBIC{where}."


def _other_controls(page: PageOne, link: Mapping[str, str], loss: str) -> list[Cell]:
    found = []
    for cc in page.campaigns.distinct("cc", page.cells):
        cell = page.find(**link, cc=cc, **_loss(loss)) if cc != END_HOSTS else None
        found += [cell] if cell else []
    return found


def what_asking_costs(page: PageOne) -> str:
    """Say what a VPN costs where return capacity is asked for, beside an assigned return link."""
    if not page.is_time:
        return ""
    told: list[tuple[str, str]] = []
    alike: list[str] = []
    decided = True
    for link in page.links:
        beside = _assigned_beside(page, link)
        if beside is None:
            continue
        dearer, found = _dearer_vpns(page, link, beside)
        decided = decided and found
        kinds = kinds_of_capacity(_access_of(page, link))
        if dearer:
            asked = _costs_in_words([(vpn, cost) for vpn, cost, _ in dearer])
            assigned = _costs_in_words([("", cost) for _, _, cost in dearer])
            told.append((kinds, f"{asked} of no VPN's time, on an assigned one {assigned}"))
        elif kinds:
            alike.append(kinds)
    if not decided or not (told or alike):
        return ""
    if not told:
        return "On a return link on demand no VPN costs more than on an assigned one."
    parts = [f"with {kinds} {costs}" if kinds else costs for kinds, costs in told]
    rest = f"; with {' or with '.join(alike)} no VPN costs more" if alike else ""
    return f"On a return link on demand a VPN costs more: {'; '.join(parts)}{rest}."


def _access_of(page: PageOne, link: Mapping[str, str]) -> dict[str, str]:
    """Return the way to return capacity of a link's cells."""
    cells = page.of(**link)
    return {name: cells[0].values.get(name, "") for name in ACCESS} if cells else {}


def _assigned_beside(page: PageOne, link: Mapping[str, str]) -> dict[str, str] | None:
    """Return the link with an assigned return link that differs least from one that is asked for.

    None if capacity is not asked for on this link, or there is no such other one.
    """
    if _access_of(page, link).get("access") != DAMA:
        return None
    others = [one for one in page.links if _access_of(page, one).get("access") == ASSIGNED]
    for free in (ACCESS, (*ACCESS, "orbit")):
        for other in others:
            if all(other.get(name) == value for name, value in link.items() if name not in free):
                return other
    return None


Dearer = list[tuple[str, Estimate, Estimate]]
"""VPNs, each with its cost where capacity is asked for, and on the assigned return link."""


def _dearer_vpns(
    page: PageOne, link: Mapping[str, str], beside: Mapping[str, str]
) -> tuple[Dearer, bool]:
    """Return the VPNs that cost more on a link than on the other one beside it.

    Then whether anything was compared, and no comparison was left to chance.
    """
    least = _loss(page.losses[0] if page.losses else "")
    dearer: Dearer = []
    compared, undecided = 0, False
    for vpn in page.campaigns.distinct("vpn", page.cells):
        cells = [
            page.find(**one, vpn=name, **least) for one in (link, beside) for name in (vpn, "none")
        ]
        if vpn == "none" or None in cells:
            continue
        cell, bare, other, other_bare = (one for one in cells if one)
        cost, usual = change(cell, bare, page.measure), change(other, other_bare, page.measure)
        is_more = differ(cell, bare, page.measure, page.tie)
        if cost is None or usual is None or is_more is None:
            undecided = True
            continue
        compared += 1
        tie = widest_tie((cell, other), page.tie)
        most = usual.high or usual.median
        if is_more and cost.median > 1 and (cost.low or cost.median) > most * tie:
            dearer.append((vpn, cost, usual))
    return dearer, compared > 0 and not undecided


def _costs_in_words(costs: Sequence[tuple[str, Estimate]]) -> str:
    """Return costs as percents: `WireGuard +95 % and OpenVPN UDP +74 %`, a span of many."""
    percents = [100 * (one.median - 1) for _, one in costs]
    if len(costs) > MOST_NAMED:
        low, high = (f"{one:+.0f}".replace("-", "−") for one in _ends(percents))
        which = f"{len(costs)} VPNs " if costs[0][0] else ""
        return f"{which}{low} to {high} %"
    texts = []
    for (vpn, _), one in zip(costs, percents, strict=True):
        texts.append(f"{named(vpn) if vpn else ''} {one:+.0f} %".strip().replace("-", "−"))
    return _list(texts)


def what_a_pep_does(page: PageOne) -> str:
    """Say which PEP helps hosts that stay on CUBIC where most is lost, and which does nothing."""
    if "pep" not in page.swept or not page.is_time:
        return ""
    most = page.losses[-1] if page.losses else ""
    idle = any(has_idle_pep(cell) for cell in page.cells)
    nothing = "between the tunnel's ends (A) it does nothing for a tunnel that it cannot split"
    compared = _with_pep(page, most)
    helpful = _helpful(page, compared)
    if not helpful:
        return _no_pep_helps(page, compared, most)
    best = best_pep(page)
    assert best is not None
    parts = []
    for link in page.links:
        pairs = [pair for pair in helpful[best] if pair[0].has(link)]
        if pairs:
            now = _span(*_ends([median_of(cell, page.measure) for cell, _ in pairs]))
            before = _span(*_ends([median_of(cell, page.measure) for _, cell in pairs]))
            unit = page.of_measure.unit
            parts.append(f"{now} {unit}{_over(link)} instead of {before} {unit}")
    outside = ", outside the tunnel," if best[0].startswith("B") else ""
    own = "" if best[1] == SAME else f" with {named(best[1])}"
    where = f" {at_loss(most)}" if page.losses and most != "0" else ""
    text = f"If the hosts stay on CUBIC, a PEP at {best[0].replace('_', ' ')}{outside}{own} takes"
    return f"{text} {_list(parts)}{where}{f'; {nothing}' if idle else ''}."


def _no_pep_helps(page: PageOne, compared: Pairs, loss: str) -> str:
    """Say in how many comparisons PEPs help CUBIC hosts, where none helps in most of them."""
    pairs = [pair for pairs in compared.values() for pair in pairs]
    if not pairs:
        return ""
    faster = sum(slower(without, cell, page.measure, page.tie) for cell, without in pairs)
    hindered = sum(slower(cell, without, page.measure, page.tie) for cell, without in pairs)
    changes = [change(cell, without, page.measure) for cell, without in pairs]
    steps = [100 * (one.median - 1) for one in changes if one]
    where = f" {at_loss(loss)}" if page.losses else ""
    limit = f" (medians change by {_percents(*_ends(steps))})" if steps else ""
    same = all(control == SAME for _, control in compared)
    pep = "A PEP with the hosts' congestion control" if same else "A PEP"
    if not faster:
        return f"{pep} does not make transfers of CUBIC hosts faster{where}{limit}."
    found = f"{faster} of {len(pairs)} comparisons and slower in {hindered or 'none'}"
    return f"{pep} makes transfers of CUBIC hosts faster in {found}{where}{limit}."


def best_pep(page: PageOne) -> tuple[str, str] | None:
    """Return position and congestion control of the PEP that helps CUBIC hosts most, or None."""
    if "pep" not in page.swept or not page.is_time:
        return None
    helpful = _helpful(page, _with_pep(page, page.losses[-1] if page.losses else ""))
    return min(helpful, key=lambda key: _gain(page, helpful[key])) if helpful else None


Pairs = dict[tuple[str, str], list[tuple[Cell, Cell]]]
"""Position of a PEP and its congestion control → cells with it, each with that without."""


def _with_pep(page: PageOne, loss: str) -> Pairs:
    found: Pairs = {}
    for link in page.links:
        for cell in page.of(**link, **_loss(loss), **_hosts(page)):
            if cell.values["pep"] != "none" and not has_idle_pep(cell):
                without = page.find(**link, **_loss(loss), vpn=cell.values["vpn"])
                key = cell.values["pep"], cell.values.get("cc_pep", SAME)
                if without:
                    found.setdefault(key, []).append((cell, without))
    return found


def _helpful(page: PageOne, compared: Pairs) -> Pairs:
    """Return the pairs in which the PEP makes a transfer faster, for PEPs that do in most."""
    found = {}
    for key, pairs in compared.items():
        better = [pair for pair in pairs if slower(*pair[::-1], page.measure, page.tie)]
        if 2 * len(better) > len(pairs):
            found[key] = better
    return found


def _gain(page: PageOne, pairs: Iterable[tuple[Cell, Cell]]) -> float:
    """Return the time with the PEP as a part of that without, over all pairs."""
    ratios = [
        median_of(cell, page.measure) / median_of(without, page.measure) for cell, without in pairs
    ]
    return sum(ratios) / len(ratios)


def _fastest(page: PageOne, vpns: Sequence[str]) -> list[str]:
    """Return the VPNs that are equivalent and cost least, where least is lost."""
    least = page.losses[0] if page.losses else ""
    known = [vpn for vpn in vpns if _costs(page, vpn, least)]
    return _alike(page, known) if known else []


def equivalent_vpns(page: PageOne) -> str:
    """Say which VPNs are equivalent, and what they cost where least is lost."""
    vpns = [one for one in page.campaigns.distinct("vpn", page.cells) if one != "none"]
    if not vpns or not page.is_time:
        return ""
    least = page.losses[0] if page.losses else ""
    alike = _fastest(page, vpns)
    if not alike:
        return ""
    costs = {vpn: _costs(page, vpn, least) for vpn in alike}
    of_each = {}
    for vpn in alike:
        of_each[vpn] = _percents(*_ends([100 * (one.median - 1) for one, _, _ in costs[vpn]]))
    low, high = _ends([100 * (one.median - 1) for vpn in alike for one, _, _ in costs[vpn]])
    headers = all(_is_headers(*one) for vpn in alike for one in costs[vpn])
    where = f" {at_loss(least)}" if least else ""
    if any(_assigned_beside(page, link) for link in page.links):
        where += " on an assigned return link"
    alone = f"{'' if len(vpns) == 1 else 'Of the VPNs the fastest: '}{named(alike[0])}"
    if len(alike) == 1 and high < 0:
        return f"{alone} takes {_percents(-high, -low)} less time than no VPN{where}."
    if len(alike) == 1:
        which, told, whose, s = alone, of_each[alike[0]], "its", "s"
    else:
        each = _list([f"{figures} ({named(vpn)})" for vpn, figures in of_each.items()])
        told = each if len(alike) <= MOST_NAMED else _percents(low, high)
        which, whose, s = f"{_some(alike, 'and')} are equivalent: they", "their", ""
    # What takes less time somewhere is no cost.
    if low <= -1:
        return f"{which} change{s} the time by {told} against no VPN{where}."
    why = f", which is {whose} headers" if headers else ""
    return f"{which} cost{s} {told} of no VPN's time{where}{why}."


def _alike(page: PageOne, vpns: Sequence[str]) -> list[str]:
    """Return the VPNs that are equivalent with the one that costs least, and that one."""
    by_cost = sorted(vpns, key=lambda vpn: _mean_cost(page, vpn))
    found = [by_cost[0]]
    for vpn in by_cost[1:]:
        if all(_are_equivalent(page, vpn, one) for one in found):
            found.append(vpn)
    return found


def _mean_cost(page: PageOne, vpn: str) -> float:
    costs = []
    for loss in page.losses or [""]:
        costs += [one.median for one, _, _ in _costs(page, vpn, loss)]
    return sum(costs) / len(costs) if costs else float("inf")


def _are_equivalent(page: PageOne, vpn: str, other: str) -> bool:
    """Return whether neither is shown to take more than 5 % longer, without a PEP."""
    decided = 0
    for cell in page.of(vpn=vpn, **_without_pep(page)):
        partner = page.partner(cell, other)
        found = change(cell, partner, page.measure) if partner else None
        if found is None or (found.low is None and is_random(cell.values)):
            continue
        decided += 1
        low, high = found.low or found.median, found.high or found.median
        if high < 1 / EQUIVALENT or low > EQUIVALENT:
            return False
    return decided > 0


def best_vpns(page: PageOne) -> str:
    """Say which VPNs have the most or least of a measure that is no time."""
    better = page.of_measure.better
    vpns = [one for one in page.campaigns.distinct("vpn", page.cells) if one != "none"]
    if page.is_time or better is None or len(vpns) < 2:
        return ""
    sign = -1 if better == "more" else 1
    ranks: dict[str, list[float]] = {vpn: [] for vpn in vpns}
    groups: list[dict[str, Cell]] = []
    for group in next((one.groups for one in page.effects if one.name == "vpn"), []):
        measured = [cell for cell in group if cell.values["vpn"] in ranks]
        measured.sort(key=lambda cell: sign * median_of(cell, page.measure))
        for rank, cell in enumerate(measured):
            ranks[cell.values["vpn"]].append(rank)
        groups.append({cell.values["vpn"]: cell for cell in measured})
    ranked = [vpn for vpn in vpns if ranks[vpn]]
    order = sorted(ranked, key=lambda vpn: sum(ranks[vpn]) / len(ranks[vpn]))
    if len(order) < 2:
        return ""
    first: dict[str, Cell] = {}
    for one in groups:
        first = {**one, **first}
    if not differ(first[order[0]], first[order[-1]], page.measure, page.tie):
        return ""
    best = _same_everywhere(page, order[0], order, groups)
    last = [one for one in _same_everywhere(page, order[-1], order, groups) if one not in best]
    if not last:  # the two were not run under one condition
        return ""
    most, least = ("most", "least") if better == "more" else ("least", "most")
    have_best, have_last = ("has" if len(some) == 1 else "have" for some in (best, last))
    whose = "its" if len(best) == 1 else "their"
    return (
        f"Of {len(order)} VPNs {_some(best, 'and')} ({page.median(first[order[0]])}) {have_best}"
        f" the {most} {page.of_measure.title}, by {whose} rank in every condition;"
        f" {_some(last, 'and')} ({page.median(first[order[-1]])}) {have_last} the {least}."
    )


def _same_everywhere(
    page: PageOne, vpn: str, others: Sequence[str], groups: Sequence[Mapping[str, Cell]]
) -> list[str]:
    """Return a VPN, and the others that do not differ from it in any condition, in their order."""
    found = []
    for other in others:
        pairs = [(one[vpn], one[other]) for one in groups if vpn in one and other in one]
        is_same = all(differ(*pair, page.measure, page.tie) is False for pair in pairs)
        if other == vpn or (pairs and is_same):
            found.append(other)
    return found


def vpns_to_avoid(page: PageOne) -> str:
    """Say which VPNs take much longer than no VPN, where that is worst, the worst VPN first.

    Those that are the fastest of all are not to be avoided, though they may cost as much somewhere.
    """
    vpns = [one for one in page.campaigns.distinct("vpn", page.cells) if one != "none"]
    if not page.is_time:
        return ""
    fastest = _fastest(page, vpns)
    every: list[tuple[float, str, str]] = []
    for vpn in vpns:
        parts = []
        greatest = 0.0
        for link in page.links:
            worst: dict[str, tuple[float, str]] = {}
            for cell in page.of(vpn=vpn, **link, **_without_pep(page)):
                bare = page.partner(cell, "none")
                found = change(cell, bare, page.measure) if bare else None
                if found and _is_costly(page, cell, bare, found):
                    loss = cell.values.get("loss", "")
                    where = [at_loss(loss)] if page.losses else []
                    where += [f"({named(cell.values['cc'])})"] if "cc" in page.swept else []
                    text = f"+{100 * (found.median - 1):.0f} % {' '.join(where)}".rstrip()
                    worst[loss] = max(worst.get(loss, (0.0, "")), (found.median, text))
            if worst:
                by_size = sorted(worst.values(), reverse=True)[:2]
                greatest = max(greatest, by_size[0][0])
                parts.append(f"{_over(link)} {_list([text for _, text in by_size])}".strip())
        if parts:
            every.append((greatest, vpn, f"{named(vpn)}: {', '.join(parts)}"))
    every.sort(key=lambda one: -one[0])
    told = [text for _, vpn, text in every if vpn not in fastest]
    costly = [text for _, vpn, text in every if vpn in fastest]
    if not told:
        told, costly = costly, []
    more = f"; and {len(told) - MOST_NAMED} others" if len(told) > MOST_NAMED else ""
    too = f"; the fastest VPNs cost more, too: {'; '.join(costly[:MOST_NAMED])}" if costly else ""
    return f"Avoid {'; '.join(told[:MOST_NAMED])}{more}{too}." if told else ""


def _is_costly(page: PageOne, cell: Cell, bare: Cell | None, found: Estimate) -> bool:
    """Return whether a VPN's cost is shown to be large, and more than a tie."""
    least = found.median if found.low is None else found.low
    return least >= COSTLY and bare is not None and slower(cell, bare, page.measure, page.tie)


def several_flows(page: PageOne) -> str:
    """Say which VPNs slow several flows in one tunnel, where that is worst."""
    worst: tuple[float, str] = (COSTLY, "")
    for one in settings(page.campaigns):
        measures = [name for name in measures_of(one.cells) if FLOW.fullmatch(name)]
        if not measures or "vpn" not in one.cells[0].values:
            continue
        measure = max(measures)
        timed = [cell for cell in one.cells if cell.values.get("vpn_2", "none") == "none"]
        spans: dict[str, list[Cell]] = {}
        for cell in timed:
            spans.setdefault(cell.values["vpn"], []).append(cell)
        bare = spans.get("none", [])
        slow = []
        for vpn, cells in spans.items():
            # Every cell against that without VPN which has the same other values.
            pairs = [(cell, other) for cell in cells for other in bare if _pair(cell, other)]
            if vpn != "none" and pairs and all(slower(*pair, measure, {}) for pair in pairs):
                slow.append(vpn)
        rest = [cell for vpn, cells in spans.items() if vpn not in slow for cell in cells]
        if not slow or not rest:
            continue
        bad = [cell for vpn in slow for cell in spans[vpn]]
        low, high = _ends([median_of(cell, measure) for cell in bad])
        least, most = _ends([median_of(cell, measure) for cell in rest])
        if low / most > worst[0]:
            conditions = [f"{max(int(FLOW.fullmatch(name)[1]) for name in measures)} flows"]  # type: ignore[index]
            conditions += [at_loss(one.shared["loss"])] if "loss" in one.shared else []
            orbit = one.shared.get("orbit")
            where = f"{' '.join(conditions)}{f' over {orbit.upper()}' if orbit else ''}"
            cc = f" ({named(one.shared['cc'])})" if "cc" in one.shared else ""
            text = f"With {where}{cc} the last one's transfer takes {_span(low, high)} s through"
            text += f" {_list([named(vpn) for vpn in slow], 'or')}, else {_span(least, most)} s."
            worst = low / most, text
    return worst[1]


def what_is_missing(page: PageOne) -> str:
    """Say how many runs failed or are missing."""
    failed = sum(len(cell.failed) for cell in page.campaigns.cells)
    missing = sum(cell.not_run for cell in page.campaigns.cells)
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{missing} were not run"] if missing else []
    of_all = len(page.campaigns.runs)
    return f"Of {of_all} runs {_list(parts)}: see Failures." if parts else ""


def use_table(page: PageOne) -> Table | None:
    """Return the table of page 1: what one controls, what to use, and the time on each link."""
    rows = []
    for one in page.choices:
        seconds = []
        for link in page.links:
            told = []
            for loss in page.losses or [""]:
                cells = [cell for cell in one.cells.values() if cell.has({**link, **_loss(loss)})]
                told.append(_with_tail(page, cells[0]) if cells else NOT_RUN)
            seconds.append(", ".join(told))
        reach = [REACH[name] for name in one.control]
        rows.append(
            [_list(reach) + (" only" if len(reach) == 1 else ""), _use(page, one), *seconds]
        )
    if not rows:
        return None
    unit = page.of_measure.unit
    if len(page.links) > MOST_LINKS:
        for row, one in zip(rows, page.choices, strict=True):
            of_choice = list(one.cells.values())
            row[2:] = [_span(*_ends([median_of(cell, page.measure) for cell in of_choice]))]
            known = _links_of(page, of_choice)
            if len(known) < len(page.links):
                row[2] += f", run on {len(known)} of {len(page.links)} links"
        columns = [f"any link ({unit})"]
    else:
        columns = [
            f"{link_in_words(link)} ({unit})" if link_in_words(link) else unit
            for link in page.links
        ]
    of_loss = f" at {', '.join(page.losses)} % random loss" if len(page.losses) > 1 else ""
    note = f"median {page.of_measure.title}{of_loss}; chosen is what is least bad at its worst on"
    note += " any link, among equivalent ones the simplest"
    note += "; in brackets p90: one in ten is above" if _has_tails(rows) else ""
    note += f"; {NOT_RUN}: not run" if any(NOT_RUN in text for row in rows for text in row) else ""
    return Table("What to use", ["you control", "use", *columns], rows, note, 2 + len(columns))


def _with_tail(page: PageOne, cell: Cell) -> str:
    """Return a cell's median, and its 90th percentile where that is another number: `82 (95)`."""
    found = cell.estimate(page.measure)
    texts = [short(one) for one in (found.median, found.p90) if one is not None] if found else []
    return texts[0] + (f" ({texts[-1]})" if len({*texts}) > 1 else "")


def _has_tails(rows: Sequence[Sequence[str]]) -> bool:
    return any(one.endswith(")") for row in rows for text in row[2:] for one in text.split(", "))


def _links_of(page: PageOne, cells: Sequence[Cell]) -> list[dict[str, str]]:
    """Return the links on which any of the cells was run."""
    found = []
    for link in page.links:
        if any(cell.has(link) for cell in cells):
            found.append(link)
    return found


def missing_commands(page: PageOne) -> list[str]:
    """Return the commands that run the cells which the table has as not run."""
    wanted: dict[tuple[tuple[str, str], ...], dict[str, dict[str, None]]] = {}
    for choice in page.choices:
        cells = list(choice.cells.values())
        if any(" " in cells[0].values.get(name, "") for name in REACH):
            continue  # it has settings behind its name, which are no value of the argument
        for link, loss in itertools.product(page.links, page.losses or [""]):
            if any(cell.has({**link, **_loss(loss)}) for cell in cells):
                continue
            options = by_engine.options(cells[0].values)
            given = [("", cells[0].values["scenario"]), *options]
            for name in (*REACH, "cc_pep", "cc_tunnel", "size"):
                value = cells[0].values.get(name, SAME)
                given += [(name, value)] if name != "vpn" and value not in (SAME, "") else []
            swept = wanted.setdefault(tuple(given), {})
            every = [one.values.get("vpn", "") for one in (*cells[:1], *choice.others)]
            vpns = [vpn for vpn in every if vpn and " " not in vpn]
            of_link = {name: one for name, one in link.items() if name not in ("engine", "clock")}
            told = {
                "vpn": vpns,
                **{name: [value] for name, value in of_link.items()},
                "loss": [loss],
            }
            for name, values in told.items():
                swept.setdefault(name, {}).update(dict.fromkeys(filter(None, values)))
    found = []
    for ((_, scenario), *given), swept in wanted.items():
        words = [f"{name}={','.join(values)}" for name, values in swept.items() if values]
        words += [f"{name}={value}" for name, value in given]
        command = ["./openbach-run", scenario, *words, "--seeds", str(MIN_SEEDS)]
        found.append(shlex.join(command))
    return found


def _use(page: PageOne, choice: Choice) -> str:
    cell = next(iter(choice.cells.values()))
    vpns = [cell, *choice.others]
    told = [_some([one.values["vpn"] for one in vpns], "or")] if "vpn" in cell.values else []
    if "cc" in choice.control:
        told.append(f"{named(cell.values['cc'])} on the hosts")
    pep, of_pep = cell.values.get("pep", "none"), cell.values.get("cc_pep", SAME)
    if "pep" in choice.control:
        with_cc = "" if of_pep == SAME else f" with {named(of_pep)}"
        told.append("no PEP" if pep == "none" else f"PEP at {pep.replace('_', ' ')}{with_cc}")
    return ", ".join(told)


def conditions_in_words(page: PageOne) -> str:
    """Return what the figures of page 1 hold for: `30 MB, 10 Mbit/s; GEO and LEO; 5 seeds`."""
    first = page.cells[0].values
    told = []
    for name in ("size", "rate", "direction"):
        values = page.campaigns.distinct(name, page.cells)
        if len(values) == 1 and values[0] not in ("none", ""):
            told.append(value_of(name, values[0]))
    orbits = page.campaigns.distinct("orbit", page.cells)
    if any(orbits):
        told.append(_list([one.upper() for one in orbits if one]))
    told.append(seeds_in_words(page.cells))
    return (
        f"{said('scenario', first['scenario'])}: {', '.join(told)}"
        if len(told) < 2
        else ", ".join(told)
    )


def seeds_in_words(cells: Sequence[Cell]) -> str:
    """Return how many seeds the cells have: `5 seeds`, `5 to 20 seeds`."""
    counts = sorted({len(cell.runs) for cell in cells})
    text = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    return f"{text} seed{'s' if counts[-1] > 1 else ''}"


def _costs(page: PageOne, vpn: str, loss: str) -> list[tuple[Estimate, Cell, Cell]]:
    """Return what a VPN costs with the hosts' usual control, on each link.

    Where capacity is asked for it costs something else (`what_asking_costs`): such a link counts
    only if there is none with an assigned return link beside it.
    """
    found = []
    for link in (one for one in page.links if _assigned_beside(page, one) is None):
        cell = page.find(**link, vpn=vpn, **_loss(loss))
        bare = page.find(**link, vpn="none", **_loss(loss))
        ratio = change(cell, bare, page.measure) if cell and bare else None
        if cell and bare and ratio and (ratio.low is not None or not is_random(cell.values)):
            found.append((ratio, cell, bare))
    return found


def _is_headers(ratio: Estimate, cell: Cell, bare: Cell) -> bool:
    carried = change(cell, bare, CARRIED)
    return carried is not None and abs(carried.median - ratio.median) <= OF_HEADERS


def measures_of(cells: Iterable[Cell]) -> list[str]:
    """Return the names of the measures that any run of these cells has."""
    found: dict[str, None] = {}
    for cell in cells:
        for run in cell.runs:
            found |= dict.fromkeys(run.record.measures if run.record else ())
    return list(found)


def _pair(cell: Cell, other: Cell) -> bool:
    return {**cell.values, "vpn": ""} == {**other.values, "vpn": ""}


def _own(page: PageOne, cell: Cell) -> dict[str, str]:
    """Return the values of a cell that were swept, and those of its hosts and PEP."""
    links = page.links[0] if page.links else {}
    names = dict.fromkeys([*page.swept, *links, "cc", "pep", "cc_pep", "cc_tunnel"])
    return {name: cell.values[name] for name in names if name in cell.values}


def _hosts(page: PageOne) -> dict[str, str]:
    return {"cc": END_HOSTS} if any(cell.values.get("cc") for cell in page.cells) else {}


def _without_pep(page: PageOne) -> dict[str, str]:
    return {"pep": "none"} if any(cell.values.get("pep") for cell in page.cells) else {}


def _loss(value: str) -> dict[str, str]:
    return {"loss": value} if value else {}


def _link_names(page: PageOne) -> set[str]:
    return set(page.links[0]) if page.links else set()


def _argument(name: str) -> str:
    return {
        "cc": "congestion control",
        "vpn": "the VPN",
        "pep": "the PEP",
        "orbit": "the orbit",
        "access": "the access to the return link",
    }.get(name, argument(name))


def _value(name: str, value: str) -> str:
    return at_loss(value) if name == "loss" else said(name, value)


def _with(name: str, cell: Cell) -> str:
    """Return a cell's value as it follows a figure: `with WireGuard`, `at 1 % loss`."""
    value = cell.values[name]
    if name == "loss":
        return at_loss(value)
    if name == "orbit":
        return f"over {value.upper()}"
    if name in ACCESS[:2]:
        return f"over {access_in_words(cell.values)}"
    if name in ("vpn", "pep") and value == "none":
        return "without VPN" if name == "vpn" else "without PEP"
    of_pep = cell.values.get("cc_pep", SAME) if name == "pep" else SAME
    return f"with {said(name, value)}{'' if of_pep == SAME else f' ({named(of_pep)})'}"


def at_loss(loss: str) -> str:
    """Return a random loss in a sentence: `without loss`, `at 0.1 % loss`."""
    if is_numeral(loss):
        return f"at {loss} % loss" if float(loss) else "without loss"
    return f"with {said('loss', loss)}"


def link_in_words(link: Mapping[str, str], *, is_brief: bool = False) -> str:
    """Return the values of a link in words; brief ones fit above a small figure."""
    of_link = {name: value for name, value in link.items() if value and name not in ACCESS}
    of_link = unusual(of_link)
    if any(name in link for name in ACCESS[:2]):
        assigned = "assigned" if link.get("access") == ASSIGNED else "on demand"
        kinds = kinds_of_capacity(link).replace(" and ", ", ").replace("bit/s", "")
        brief = re.sub(r"no \w+(, )?", "", kinds) or assigned
        of_return = brief if is_brief else access_in_words(link)
    elif number(link.get("rate", "")) and number(link.get("return_rate", "")):
        rates = [value_of(name, link[name]) for name in ("rate", "return_rate")]
        # As one says it: 250/3 Mbit/s.
        units = {one.partition(" ")[2] for one in rates}
        numbers = [one.partition(" ")[0] for one in rates]
        del of_link["rate"]
        of_return = f"{'/'.join(numbers)} {units.pop()}" if len(units) == 1 else " / ".join(rates)
    else:
        of_return = said("return_rate", link["return_rate"]) if "return_rate" in link else ""
    told = []
    for name, value in of_link.items():
        told.append(value_of(name, value) if name == "size" else said(name, value))
    return ", ".join(filter(None, [*told, of_return]))


def _over(link: Mapping[str, str]) -> str:
    where = link_in_words(link)
    return f" over {where}" if where else ""


def _percents(low: float, high: float) -> str:
    ends = dict.fromkeys(f"{one:.1f}" for one in (low, high))
    return f"{' to '.join(ends)} %".replace("-", "−")


def _span(low: float, high: float) -> str:
    """Return a range, as one number if both ends look the same: `30 to 33`."""
    return " to ".join(dict.fromkeys((short(low), short(high))))


def short(value: float) -> str:
    """Return a number as a sentence has it: no decimals from 20 on, one below."""
    return (
        f"{value:.0f}"
        if abs(value) >= 20
        else f"{value:.1f}"
        if abs(value) >= 1
        else f"{value:.2g}"
    )


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _some(values: Sequence[str], last: str) -> str:
    """Return values in words: those that can be named, and the number of others."""
    words = [named(one) for one in values[:MOST_NAMED]]
    more = len(values) - MOST_NAMED
    return _list(words + ([f"{more} other{'s' if more > 1 else ''}"] if more > 0 else []), last)


def capital(words: str) -> str:
    """Return words with a capital letter first."""
    return words[:1].upper() + words[1:]


def _list(words: Sequence[str], last: str = "and") -> str:
    """Return words as a list in a sentence: `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
