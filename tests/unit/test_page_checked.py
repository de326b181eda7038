# SPDX-License-Identifier: GPL-3.0-or-later
"""Each sentence and row of page 1 is true, by a second reader of the results (helpers.page_reader).

Of all reports in reports/, of random planted campaigns, whose number PLANTED sets, and of those that
once showed a fault.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from helpers import planted
from helpers.page_checks import check
from helpers.page_reader import Faults, Reader

from openbach_run.paths import REPOSITORY
from openbach_run.report.cells import read_campaigns
from openbach_run.report.page_model import page_one
from openbach_run.report.page_one import sentences, use_table
from openbach_run.results.record import Record

ONCE_WRONG = (253, 332)
PLANTED = (*range(int(os.environ.get("PLANTED", "50"))), *ONCE_WRONG)
BATCH = 26
REPORTS = sorted((REPOSITORY / "reports").glob("*/results.parquet"))
VPNS = ("none", "wireguard", "openvpn_udp", "openvpn_tcp", "quic_split")


def faults_of(file: Path) -> Faults:
    """Return what page 1 of these results says and the results deny."""
    page = page_one(read_campaigns([file]))
    if page is None:
        return Faults()
    table = use_table(page)
    header, rows = (table.header, table.rows) if table else ([], [])
    return check(Reader(file), sentences(page), header, rows)


@pytest.mark.parametrize("file", REPORTS, ids=lambda file: file.parent.name)
def test_page_one_of_a_report_says_what_its_runs_say(file: Path) -> None:
    found = faults_of(file)
    assert found.tried > 1 and found == []


class Plan:
    """A random campaign: what it sweeps, and what each value is worth."""

    def __init__(self, number: int) -> None:
        self.number, self.luck = number, random.Random(number)
        self.noise = self.luck.choice((0.0, 0.001, 0.02, 0.2))
        self.worth: dict[tuple[str, str], float] = {}

    def some(self, values: tuple[str, ...], least: int = 1) -> tuple[str, ...]:
        """Return some of the values, in their order."""
        chosen = self.luck.sample(values, self.luck.randint(least, len(values)))
        return tuple(one for one in values if one in chosen)

    def factor(self, values: Mapping[str, str], *names: str) -> float:
        """Return what these values together are worth: the same for every run."""
        key = ("+".join(names), "+".join(values.get(name, "") for name in names))
        if key not in self.worth:
            self.worth[key] = self.luck.choice((1.0, 1.0, 1.004, 1.03, 1.2, 2.0, 0.5))
        return self.worth[key]

    def value(self, base: float, values: Mapping[str, str], luck: random.Random) -> float:
        found = base * luck.uniform(1 - self.noise, 1 + self.noise)
        for names in (
            ("vpn", "pep"),
            ("cc", "loss"),
            ("vpn",),
            ("pep", "cc_pep", "pep_profile"),
            ("orbit",),
        ):
            found *= self.factor(values, *names)
        return found * self.factor(values, "vpn", "cc_tunnel") * self.factor(values, "http")

    def transfer(self, values: dict[str, str], luck: random.Random) -> dict[str, float]:
        return {
            "transfer_time_s": self.value(20, values, luck),
            "forward_lost_packets": self.luck.choice((0, 0, 5)),
        }

    def page(self, values: dict[str, str], luck: random.Random) -> dict[str, float]:
        return {"page_load_time_s": self.value(5, values, luck)}

    def call(self, values: dict[str, str], luck: random.Random) -> dict[str, float]:
        return {
            "to_client_mos": min(4.4, self.value(2, values, luck)),
            "to_server_mos": min(4.4, self.value(2.5, values, luck)),
            "ping_rtt_ms": self.value(600, values, luck),
            "ping_lost_pct": self.luck.choice((0.0, 0.0, 14.0)),
        }

    def lan(self, values: dict[str, str], luck: random.Random) -> dict[str, float]:
        return {f"pc_{pc}_transfer_time_s": self.value(4 * pc, values, luck) for pc in (1, 2, 3)}

    def records(self) -> list[Record]:
        """Return the records of one to three scenarios, some cells left out, some runs failed."""
        found: list[Record] = []
        formulas = {"planted": self.transfer, "web": self.page, "voip": self.call, "lan": self.lan}
        for scenario in self.some(tuple(formulas)):
            swept = {"vpn": self.some(VPNS), "orbit": self.some(("geo", "leo", "starlink_isl"))}
            if scenario in ("planted", "web"):
                swept["pep"] = self.some(("none", "A", "B"))
                swept["cc"] = self.some(("cubic", "bbr", "bbr2"))
                swept["loss"] = self.some(("0", "0.1", "1"))
            if scenario == "planted":
                swept["cc_pep"] = swept["cc_tunnel"] = self.some(("same", "bbr2"))
                swept["vpn_values"] = self.luck.choice((("none",), ("none", "cc=fixed:9M:9M")))
                swept["delay_ms"] = self.luck.choice((("250",), ("none",)))
            if scenario == "web":
                swept |= {"http": self.some(("1.1", "2", "3")), "quic": ("nginx",)}
                swept["pep_profile"] = ("plain", "satcom")[: 1 + self.number % 4 // 2]
            seeds = self.luck.choice((1, 5, 5, 5, 8, 20 if len(swept) < 4 else 5))
            every = planted.runs(scenario, formulas[scenario], seeds, **swept)
            rare = self.luck.choice((0.0, 0.0, 0.1, 0.4))
            left_out = {one.run_id for one in every if self.luck.random() < rare / 20}
            cells: dict[str, bool] = {}
            for one in every:
                cell = str(one.arguments)
                cells.setdefault(cell, self.luck.random() < rare)
                own = {one.arguments.get(name) for name in ("cc_pep", "cc_tunnel")}
                is_twice = one.arguments["cc"] in own  # the same runs as with `same`
                if not cells[cell] and one.run_id not in left_out and not is_twice:
                    found.append(one)
        return found


@pytest.mark.parametrize("batch", range(-(-len(PLANTED) // BATCH)))
def test_page_one_of_random_campaigns_says_what_their_runs_say(batch: int, tmp_path: Path) -> None:
    tried = 0
    for number in PLANTED[batch * BATCH : (batch + 1) * BATCH]:
        records = Plan(number).records()
        if records:
            found = faults_of(planted.write(records, tmp_path / str(number)))
            tried += found.tried
            assert found == [], f"Plan({number})"
    assert tried > BATCH
