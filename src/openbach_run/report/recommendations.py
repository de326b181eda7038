# SPDX-License-Identifier: GPL-3.0-or-later
"""Recommend a VPN, PEP position and transport, as far as the cells decide it.

The recommendations are by orbit, loss, and what one controls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from openbach_run.catalog import Catalog, with_base
from openbach_run.openbach.scenario import SAME
from openbach_run.report.cells import Cell, Partners, measured_against
from openbach_run.results.intervals import Estimate
from openbach_run.results.seeds import MIN_SEEDS

LEAST_TIE = 1.01
"""Two configurations are equivalent at least up to this ratio of their times."""
STREAMS = ("TCP", "MPTCP", "TLS")
"""Carriers of tunnels that a proxy between the tunnel's ends can split."""
BETWEEN_ENDS = ("A", "A_double")
"""Positions of the proxy between the tunnel's ends."""

END_HOSTS = "cubic"
"""The congestion control of end hosts that nobody has changed."""
CONTROLS: dict[str, Callable[[Mapping[str, str]], bool]] = {
    "end hosts, PEP and VPN": lambda values: True,
    "PEP and VPN; end hosts have CUBIC": lambda values: values.get("cc") == END_HOSTS,
    "the VPN only; end hosts have CUBIC": lambda values: (
        values.get("cc") == END_HOSTS and values.get("pep") == "none"
    ),
}
"""Name of what somebody controls → check whether a cell with these values is within reach."""
CHOSEN = ("vpn", "pep", "cc", "cc_pep", "cc_tunnel")
"""The arguments to choose; cells that differ in another argument are not compared."""
Conditions = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Advice:
    """A recommendation and where it applies.

    `conditions`: what its cells have in common, by argument; `control`: one of CONTROLS;
    `missing`: cells at another loss that are best there, and were not run under these conditions.
    """

    conditions: dict[str, str]
    control: str
    chosen: Recommendation
    missing: list[Cell] = field(default_factory=list)


@dataclass(frozen=True)
class Recommendation:
    """The simplest of the fastest cells with a VPN, and those equivalent to the fastest.

    `against` is its ratio to the same cell without VPN and PEP.
    """

    best: Cell
    found: Estimate
    equivalent: list[Cell]
    against: Estimate | None
    of: int
    """The number of configurations that it is the best of."""


def ties(cells: Sequence[Cell], measure: str) -> dict[str, float]:
    """Return by congestion control up to which ratio two cells are equivalent.

    A proxy between the ends of a tunnel that it cannot split does nothing, so the cells with and
    without it are one configuration measured twice. The tie is the largest change of the median
    that such a pair shows, and at least LEAST_TIE.
    """
    found: dict[str, float] = {}
    partners = Partners(cells, ("scenario", "pep", "cc_pep", "cc_tunnel"))
    for cell in filter(has_idle_pep, cells):
        for other in partners.of(cell):
            pair = measured_against(cell, other, measure)
            if other.values.get("pep") == "none" and pair and pair.seeds >= MIN_SEEDS:
                change = max(_slower(cell, other, measure), _slower(other, cell, measure))
                cc = cell.values.get("cc", "")
                found[cc] = max(change, found.get(cc, LEAST_TIE))
    return found


def recommend(
    cells: Sequence[Cell], measure: str, tie: Mapping[str, float] | None = None
) -> Recommendation | None:
    """Return the simplest cell of those that are equivalent to the one with the least `measure`.

    `cells` share all but VPN, PEP and transport; `tie` is as `ties` returns it. None if no cell
    with a VPN has at least MIN_SEEDS seeds and finished all runs.
    """
    tie = ties(cells, measure) if tie is None else tie
    able: dict[tuple[str, ...], tuple[float, int]] = {}
    # A PEP that does nothing comes last: its configuration is that without it.
    for number, cell in sorted(enumerate(cells), key=lambda one: has_idle_pep(one[1])):
        estimated = cell.estimate(measure)
        if cell.values.get("vpn") != "none" and estimated and is_candidate(cell, measure):
            able.setdefault(configuration_of(cell), (estimated.median, number))
    if not able:
        return None
    in_order = [cells[number] for _, number in sorted(able.values())]
    equal = [one for one in in_order if _is_tie(one, in_order[0], measure, tie)]
    best = min(equal, key=effort)  # of equally simple ones the first, which is the fastest
    found = best.estimate(measure)
    assert found is not None
    without = {"vpn": "none", "pep": "none"}
    # Without a PEP and a tunnel, their congestion control says nothing.
    free = (*without, "scenario", "cc_pep", "cc_tunnel")
    bare = [
        cell for cell in Partners(cells, free).of(best) if without.items() <= cell.values.items()
    ]
    against = measured_against(best, bare[0], measure) if bare else None
    equivalent = [cell for cell in equal if cell is not best]
    return Recommendation(best, found, equivalent, against, len(able))


def is_candidate(cell: Cell, measure: str) -> bool:
    """Return whether all its runs finished, with at least MIN_SEEDS seeds."""
    found = cell.estimate(measure)
    return cell.whole and found is not None and found.seeds >= MIN_SEEDS


def _is_tie(cell: Cell, fastest: Cell, measure: str, tie: Mapping[str, float]) -> bool:
    """Return whether the cell takes no longer than chance alone can make of the fastest."""
    if cell is fastest:
        return True
    most = max(tie.get(one.values.get("cc", ""), LEAST_TIE) for one in (cell, fastest))
    return _slower(cell, fastest, measure) <= most


def _slower(cell: Cell, other: Cell, measure: str) -> float:
    """Return how many times as long the cell takes: compared, or by medians if that is more.

    That median alone would call a cell equivalent whose own median is seen to be longer.
    """
    change = measured_against(cell, other, measure)
    medians = [one.estimate(measure) for one in (cell, other)]
    if not change or medians[0] is None or not medians[1] or not medians[1].median:
        return math.inf
    return max(change.median, medians[0].median / medians[1].median)


def effort(cell: Cell) -> tuple[bool, bool, bool, bool]:
    """Return what is less for a simpler cell: no PEP, CUBIC on the hosts, a VPN in the kernel."""
    pep = cell.values.get("pep", "none")
    return (
        pep != "none",
        pep.endswith("_double"),
        cell.values.get("cc") != END_HOSTS,
        _vpn(cell).get("runs_in") != "kernel",
    )


def configuration_of(cell: Cell) -> tuple[str, ...]:
    """Return the values of CHOSEN, the same for cells that cannot differ."""
    pep = "none" if has_idle_pep(cell) else cell.values.get("pep", "none")
    of_pep = SAME if pep == "none" else cell.values.get("cc_pep", SAME)
    stream = _vpn(cell).get("carrier") in (*STREAMS, None)
    of_tunnel = cell.values.get("cc_tunnel", SAME) if stream else SAME
    return (cell.values.get("vpn", ""), pep, cell.values.get("cc", ""), of_pep, of_tunnel)


def has_idle_pep(cell: Cell) -> bool:
    """Return whether the PEP sees only packets of a tunnel that it cannot split."""
    carrier = _vpn(cell).get("carrier")
    return cell.values.get("pep") in BETWEEN_ENDS and carrier is not None and carrier not in STREAMS


def _vpn(cell: Cell) -> Mapping[str, str]:
    """Return the facts of the cell's VPN; none for one that this checkout does not have."""
    name, *_ = cell.values.get("vpn", "").split(" ")  # values of its own may stand behind it
    return _facts().get(name, {})


@cache
def _facts() -> dict[str, dict[str, str]]:
    """Return by VPN its carrier and where it runs, as far as its description has them."""
    folders = Catalog().all("vpn-configs")
    wanted = ["carrier", "runs_in"]
    found = {}
    for name, folder in folders.items():
        described = with_base(folder, folders)
        found[name] = {key: described[key] for key in wanted if key in described}
    return found


def advice(cells: Sequence[Cell], measure: str) -> list[Advice]:
    """Return the recommendations for each set of conditions, whatever scenario had them.

    There is one for each control that reaches other cells than a narrower one, if there are at
    least two configurations to choose from.
    """
    groups: dict[Conditions, list[Cell]] = {}
    for cell in cells:
        told = {name: value for name, value in cell.values.items() if value != SAME}
        key = tuple(sorted(pair for pair in told.items() if pair[0] not in (*CHOSEN, "scenario")))
        groups.setdefault(key, []).append(cell)
    tie = ties(cells, measure)
    found = []
    for key, group in groups.items():
        reached: list[list[int]] = []
        of_group: list[Advice] = []
        # The narrowest name for the same cells.
        for control, is_reached in reversed(CONTROLS.items()):
            within = [number for number, cell in enumerate(group) if is_reached(cell.values)]
            if within in reached:
                continue
            reached.append(within)
            chosen = recommend([group[number] for number in within], measure, tie)
            if chosen and chosen.of > 1:
                of_group.insert(0, Advice(dict(key), control, chosen))
        found += of_group
    return [
        Advice(one.conditions, one.control, one.chosen, _missing(one, found, groups))
        for one in found
    ]


def _missing(
    one: Advice, found: Sequence[Advice], groups: Mapping[Conditions, Sequence[Cell]]
) -> list[Cell]:
    """Return the best cells at another loss whose configuration was not run at this one."""
    was_run = set(map(configuration_of, groups[tuple(sorted(one.conditions.items()))]))
    best: dict[tuple[str, ...], Cell] = {}
    for other in found:
        if _but_loss(other.conditions) == _but_loss(one.conditions):
            for cell in (other.chosen.best, *other.chosen.equivalent):
                if CONTROLS[one.control](cell.values):
                    best.setdefault(configuration_of(cell), cell)
    return [cell for configuration, cell in best.items() if configuration not in was_run]


def _but_loss(conditions: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in conditions.items() if name != "loss"}
