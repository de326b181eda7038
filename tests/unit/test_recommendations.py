# SPDX-License-Identifier: GPL-3.0-or-later
"""Recommendations from planted times, whose right answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, cast

import pytest

from openbach_run.report.cells import Campaigns, Cell, Run
from openbach_run.report.page_advice import choices
from openbach_run.report.page_model import page_one
from openbach_run.report.recommendations import ties
from openbach_run.results.record import Record

MEASURE = "transfer_time_s"


class Measured(NamedTuple):
    """What the recommendations read of a record."""

    measures: dict[str, float]
    finished: bool = True


def cell(time_s: float, vpn: str, pep: str = "none", cc: str = "cubic", **more: str) -> Cell:
    """Return a cell with five seeds around a time; the same seeds are slow in every cell."""
    values = {"scenario": "geo_loss", "orbit": "geo", "vpn": vpn, "pep": pep, "cc": cc}
    luck = (1.0, 0.99, 1.01, 0.98, 1.02)
    runs = [
        Run(seed, Path(), cast("Record", Measured({MEASURE: time_s * one})))
        for seed, one in enumerate(luck, 1)
    ]
    return Cell({**values, "loss": "1", **more}, runs)


def advised(cells: list[Cell]) -> tuple[str, ...]:
    """Return VPN, PEP and transport that page 1 advises who controls all of them."""
    page = page_one(Campaigns([], cells))
    assert page is not None
    (block,) = page.blocks
    found = choices(page, block)
    return tuple(found[0].cells[0].values[name] for name in ("vpn", "pep", "cc")) if found else ()


def test_a_pep_that_does_nothing_is_no_candidate_even_where_it_is_faster() -> None:
    cells = [cell(30, "openvpn_udp"), cell(28, "openvpn_udp", "A"), cell(40, "wireguard")]
    assert advised(cells) == ("openvpn_udp", "none", "cubic")


@pytest.mark.parametrize("vpn", ["openvpn_tcp", "of_mine"])
def test_a_pep_between_the_ends_of_a_tunnel_over_tcp_is_a_candidate(vpn: str) -> None:
    """And that of a VPN that is not known."""
    assert advised([cell(30, vpn), cell(28, vpn, "A")]) == (vpn, "A", "cubic")


@pytest.mark.parametrize(("with_pep_s", "tie"), [(30.9, 1.03), (30 / 1.03, 1.03), (30.03, 1.01)])
def test_a_tie_is_what_a_pep_that_does_nothing_changes(with_pep_s: float, tie: float) -> None:
    """In either direction, and only for the congestion control that shows it."""
    cells = [
        cell(30, "openvpn_udp", cc="bbr2"),
        cell(with_pep_s, "openvpn_udp", "A", "bbr2", scenario="mixed_cc", cc_pep="bbr2"),
        cell(20, "openvpn_tcp", cc="cubic"),
        cell(30, "openvpn_tcp", "A", "cubic"),
    ]
    assert ties(cells, MEASURE) == {"bbr2": pytest.approx(tie)}


def test_among_equivalent_ones_the_simplest_is_advised() -> None:
    """No PEP is worth more than CUBIC on the hosts, and that more than a VPN in the kernel."""
    found = [cell(30, "openvpn_udp", "B")]
    for vpn, pep, cc in (
        ("wireguard", "B", "cubic"),
        ("openvpn_udp", "none", "bbr2"),
        ("wireguard", "none", "bbr2"),
        ("openvpn_udp", "none", "cubic"),
        ("wireguard", "none", "cubic"),
    ):
        found.append(cell(30.1, vpn, pep, cc))
        assert advised(found) == (vpn, pep, cc)


def test_what_is_worse_by_more_than_five_percent_is_not_advised_for_being_simple() -> None:
    assert advised([cell(30, "openvpn_udp", "B"), cell(32, "wireguard")])[0] == "openvpn_udp"


def test_few_seeds_advise_nothing() -> None:
    cells = [cell(30, "openvpn_udp"), cell(40, "wireguard")]
    assert advised([Cell(one.values, one.runs[:4]) for one in cells]) == ()
