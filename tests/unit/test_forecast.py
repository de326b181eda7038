# SPDX-License-Identifier: GPL-3.0-or-later
"""The estimate of a campaign's time comes from the runs most like those that are to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.records import record

from openbach_run.campaign.execute import PlannedRun
from openbach_run.campaign.forecast import forecast
from openbach_run.campaign.spec import CellSpec, Origin, RunSpec
from openbach_run.openbach.reading import parse_scenario
from openbach_run.results.store import Store


def planned(**arguments: str) -> PlannedRun:
    engine: Any = None
    return PlannedRun(
        RunSpec(
            CellSpec(
                Origin(parse_scenario({"name": "geo", "openbach_functions": []}, {})), arguments
            ),
            1,
        ),
        engine,
        "geo",
    )


def test_like_runs_count(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.opened():
        for run_id, vpn, wall_s in [("a", "none", 1.0), ("b", "openvpn_udp", 600.0)]:
            store.keep(
                store.begin(run_id),
                replace(record(vpn=vpn, cc="bbr"), run_id=run_id, wall_s=wall_s),
            )
    assert "1 to do\nabout 10 min on 1 CPUs" in forecast(
        [planned(vpn="openvpn_udp", cc="cubic")], store, 1
    )
    assert "1 to do\nabout 1 s on 1 CPUs" in forecast([planned(vpn="none", cc="cubic")], store, 1)


@pytest.mark.parametrize(("workers", "words"), [(1, "about 8 s on 1"), (2, "about 4 s on 2")])
def test_without_runs_the_assumption_is_named(tmp_path: Path, workers: int, words: str) -> None:
    told = forecast([planned(vpn="none"), planned(vpn="wireguard")], Store(tmp_path), workers)
    assert words in told
    assert "an assumption" in told
