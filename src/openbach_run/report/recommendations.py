# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cells may be recommended, which of them is simpler, and which times count as equal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

from openbach_run.catalog import STREAMS, Catalog, with_base
from openbach_run.report.cells import Cell, Partners, measured_against
from openbach_run.results.seeds import MIN_SEEDS

LEAST_TIE = 1.01
"""Two cells count as equal at least up to this ratio of their times."""
BETWEEN_ENDS = ("A", "A_double")
"""Positions of the PEP between the tunnel's ends."""

END_HOSTS = "cubic"
"""The congestion control of end hosts that nobody has changed."""


def ties(cells: Sequence[Cell], measure: str) -> dict[str, float]:
    """Return by congestion control up to which ratio two cells count as equal.

    A PEP between the ends of a tunnel that it cannot split does nothing, so the cells with and
    without it are one configuration measured twice. The tie is the largest change of the median
    that such a pair shows, and at least LEAST_TIE.
    """
    widest: dict[str, float] = {}
    partners = Partners(cells, ("scenario", "pep", "cc_pep", "cc_tunnel"))
    for cell in filter(has_idle_pep, cells):
        for other in partners.of(cell):
            pair = measured_against(cell, other, measure)
            if other.values.get("pep") == "none" and pair and pair.seeds >= MIN_SEEDS:
                change = max(_slower(cell, other, measure), _slower(other, cell, measure))
                cc = cell.values.get("cc", "")
                widest[cc] = max(change, widest.get(cc, LEAST_TIE))
    return widest


def is_candidate(cell: Cell, measure: str) -> bool:
    """Return whether all its runs finished, with at least MIN_SEEDS seeds."""
    estimate = cell.estimate(measure)
    return cell.whole and estimate is not None and estimate.seeds >= MIN_SEEDS


def _slower(cell: Cell, other: Cell, measure: str) -> float:
    """Return how many times as long the cell takes: compared, or by medians if that is more.

    That median alone would call a cell equivalent whose own median is seen to be longer.
    """
    change = measured_against(cell, other, measure)
    medians = [each.estimate(measure) for each in (cell, other)]
    if not change or medians[0] is None or not medians[1] or not medians[1].median:
        return math.inf
    return max(change.median, medians[0].median / medians[1].median)


def effort(cell: Cell) -> tuple[bool, bool, bool, bool]:
    """Return what is less for a simpler cell: no PEP, CUBIC on the hosts, a VPN in the kernel."""
    pep = cell.values.get("pep", "none")
    return (
        pep != "none",
        pep.partition(" ")[0].endswith("_double"),
        cell.values.get("cc") != END_HOSTS,
        _vpn(cell).get("runs_in") != "kernel",
    )


def has_idle_pep(cell: Cell) -> bool:
    """Return whether the PEP sees only packets of a tunnel that it cannot split."""
    carrier = carrier_of(cell.values.get("vpn", ""))
    position = cell.values.get("pep", "").partition(" ")[0]
    return position in BETWEEN_ENDS and carrier is not None and carrier not in STREAMS


def is_in_clear(cell: Cell) -> bool:
    """Return whether its VPN encrypts nothing."""
    return _vpn(cell).get("ciphers", "").startswith("none")


def carrier_of(vpn: str) -> str | None:
    """Return what carries a VPN; None for one that this checkout does not have."""
    return _facts().get(vpn.partition(" ")[0], {}).get("carrier")


def _vpn(cell: Cell) -> Mapping[str, str]:
    """Return the facts of the cell's VPN; none for one that this checkout does not have."""
    name, *_ = cell.values.get("vpn", "").split(" ")  # values of its own may stand behind it
    return _facts().get(name, {})


@cache
def _facts() -> dict[str, dict[str, str]]:
    """Return by VPN its carrier, where it runs, its ciphers, as far as its description says."""
    folders = Catalog().all("vpn-configs")
    wanted = ["carrier", "runs_in", "ciphers"]
    facts = {}
    for name, folder in folders.items():
        described = with_base(folder, folders)
        facts[name] = {key: described[key] for key in wanted if key in described}
    return facts
