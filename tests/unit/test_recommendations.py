# SPDX-License-Identifier: GPL-3.0-or-later
"""Recommendations from planted times, whose right answer is known."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from openbach_run.report.cells import Campaigns, Cell, Run
from openbach_run.report.content import advice_table, missing
from openbach_run.report.recommendations import advice, recommend, ties
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


def named(cells: list[Cell]) -> list[tuple[str, ...]]:
    return [tuple(one.values[name] for name in ("vpn", "pep", "cc")) for one in cells]


def test_a_pep_that_does_nothing_is_no_candidate_even_where_it_is_faster() -> None:
    cells = [cell(30, "openvpn_udp"), cell(28, "openvpn_udp", "A"), cell(40, "wireguard")]
    found = recommend(cells, MEASURE, {})
    assert found is not None and found.of == 2
    assert named([found.best]) == [("openvpn_udp", "none", "cubic")]


def test_a_pep_between_the_ends_of_a_tunnel_over_tcp_is_a_candidate() -> None:
    found = recommend([cell(30, "openvpn_tcp"), cell(28, "openvpn_tcp", "A")], MEASURE)
    assert found is not None and found.of == 2 and found.best.values["pep"] == "A"


def test_a_vpn_that_is_not_known_keeps_its_candidates() -> None:
    found = recommend([cell(30, "of_mine"), cell(28, "of_mine", "A")], MEASURE)
    assert found is not None and found.of == 2


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


def test_among_equivalent_ones_the_simplest_is_recommended() -> None:
    """No PEP is worth more than CUBIC on the hosts, and that more than a VPN in the kernel."""
    fastest = cell(30, "openvpn_udp", "B")
    ladder = [
        cell(30.1, "wireguard", "B"),
        cell(30.1, "openvpn_udp", cc="bbr2"),
        cell(30.1, "wireguard", cc="bbr2"),
        cell(30.1, "openvpn_udp"),
        cell(30.1, "wireguard"),
    ]
    for number in range(len(ladder)):
        found = recommend([fastest, *ladder[: number + 1]], MEASURE)
        assert found is not None and found.best is ladder[number]
        assert len(found.equivalent) == number + 1


def test_what_is_slower_than_a_tie_is_not_recommended_for_being_simple() -> None:
    cells = [cell(30, "openvpn_udp", "B"), cell(30.5, "wireguard")]
    found = recommend(cells, MEASURE)
    assert found is not None and found.best is cells[0] and not found.equivalent
    wider = recommend(cells, MEASURE, {"cubic": 1.02})
    assert wider is not None and wider.best is cells[1]


@pytest.fixture
def incomplete() -> list[Cell]:
    """Return a campaign whose winner with loss was not run without loss."""
    proxied = cell(31, "wireguard", "B", scenario="mixed_cc", cc_pep="bbr2")
    simple = product(("wireguard", "openvpn_tcp"), (("0", 28), ("1", 450)))
    return [*(cell(time, vpn, loss=loss) for vpn, (loss, time) in simple), proxied]


def test_a_winner_that_was_not_run_everywhere_is_missing(incomplete: list[Cell]) -> None:
    found = {
        (one.conditions["loss"], one.control): named(one.missing)
        for one in advice(incomplete, MEASURE)
    }
    without_loss = [names for (loss, _), names in found.items() if loss == "0"]
    assert all(not names for (loss, _), names in found.items() if loss == "1")
    assert without_loss == [[]], "who controls the VPN only cannot have the PEP"


def test_the_command_runs_the_missing_cells(incomplete: list[Cell]) -> None:
    campaigns = Campaigns([], [*incomplete, cell(40, "wireguard", "B", loss="0")])
    assert missing(campaigns) == [
        "./openbach-run mixed_cc vpn=wireguard loss=0 orbit=geo pep=B cc=cubic cc_pep=bbr2"
        " --seeds 5"
    ]
    table = advice_table(campaigns)
    assert table is not None and "1.0 % (the campaigns have no PEP that does nothing" in table.note
