# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenario files are what their sources give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openbach_run.campaign.options import Options
from openbach_run.campaign.request import plan_of
from openbach_run.campaign.spec import runs_of
from openbach_run.commands.expand import as_text
from openbach_run.openbach.expand import expand
from openbach_run.openbach.job import Job
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.reading import parse_scenario
from openbach_run.paths import INVENTORY
from openbach_run.topology.inventory import load_inventory

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
JOBS = {name: package.job for name, package in load_packages([SCENARIOS.parent / "jobs"]).items()}
SOURCES = sorted(SCENARIOS.glob("*.yml"))
MADE = [source for source in SOURCES if source.with_suffix(".json").exists()]
"""Those that stand there as JSON, too: what people open, and import into OpenBACH's web UI."""


@pytest.mark.parametrize("source", MADE, ids=lambda source: source.stem)
def test_file_is_in_step_with_its_source(source: Path) -> None:
    assert source.with_suffix(".json").read_text() == as_text(expand(source)), (
        "run `make scenarios`"
    )


@pytest.mark.parametrize("name", ["leo", "voip", "geo_loss_table"])
def test_json_that_is_not_there_is_the_yaml_beside_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command of before, in a record or a script, runs what it ran: the same runs."""
    for place in (SCENARIOS.parent, tmp_path):
        monkeypatch.chdir(place)
        first, second = (names_of_runs(text) for text in (f"scenarios/{name}.json", name))
        assert first and first == second
    source = expand(SCENARIOS / f"{name}.yml")
    starts = [one.get("start_scenario_instance", {}) for one in source["openbach_functions"]]
    subs = {start["scenario_name"] for start in starts if start}
    for file in (name, *subs):
        made = as_text(expand(SCENARIOS / f"{file}.yml"))
        (tmp_path / f"{file}.json").write_text(made)
    assert names_of_runs(str(tmp_path / f"{name}.json")) == first


def names_of_runs(scenario: str) -> list[str]:
    """Return the names of a scenario's runs with the first seed."""
    plan = plan_of(scenario, [], "1", Options())
    inventory = load_inventory(INVENTORY)
    campaigns = [runs_of(one, inventory, lambda uses: {}) for one in plan.campaigns]
    return [run.run_id for runs in campaigns for run in runs]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_platform_asks_for_six_arguments_at_most(source: Path) -> None:
    assert len(expand(source)["arguments"]) <= 6


def test_every_file_has_a_source() -> None:
    assert {file.stem for file in SCENARIOS.glob("*.json")} == {source.stem for source in MADE}


def test_positions_are_the_same_in_job_and_scenario() -> None:
    pep = load_packages([SCENARIOS.parent / "jobs/satpep"])["satpep"].job
    (position,) = pep.arguments.required
    started = [
        one.get("start_job_instance", {})
        for one in expand(SCENARIOS / "geo.yml")["openbach_functions"]
    ]
    proxies = {
        one["entity_name"]: one["satpep"]["at"].split(",") for one in started if "satpep" in one
    }
    at = {
        position: [host for host, positions in proxies.items() if position in positions]
        for position in position.choices
    }
    assert at == {
        "none": [],
        "A": ["satvpn_gw"],
        "A_double": ["satvpn_gw", "satvpn_st"],
        "B": ["satvpn_pop"],
        "B_double": ["satvpn_pop", "satvpn_box"],
    }


def with_old_names(scenario: str) -> dict[str, Any]:
    """A scenario that somebody made before the job `pep` was called satpep."""
    text = json.dumps(expand(SCENARIOS / f"{scenario}.yml"))
    old: dict[str, Any] = json.loads(
        text.replace('"satpep": {', '"pep": {').replace(".satpep.", ".pep.")
    )
    assert '"satpep": {' not in json.dumps(old)
    return old


@pytest.mark.parametrize("scenario", ["geo", "multi_flow"])
def test_old_names_of_our_jobs_are_understood(scenario: str) -> None:
    now = expand(SCENARIOS / f"{scenario}.yml")
    read = parse_scenario(with_old_names(scenario), JOBS)
    assert read == parse_scenario(now, JOBS)
    assert read.with_constants({"cc_pep": "bbr"}).constants["cc_pep"] == "bbr"


def test_the_job_of_openbach_with_an_old_name_is_not_ours() -> None:
    described = [{"name": "redirect_ifaces", "type": "str", "flag": "-i"}]
    theirs = Job("pep", "1.3", {"optional": described})
    ours = load_packages([SCENARIOS.parent / "jobs/satpep"])["satpep"].job
    start = {"entity_name": "gw", "pep": {"redirect_ifaces": "to_sat"}}
    content = {"name": "x", "openbach_functions": [{"id": 0, "start_job_instance": start}]}
    read = parse_scenario(content, {"pep": theirs, "satpep": ours})
    assert "pep" in read.functions[0]["start_job_instance"]
    mixed = parse_scenario(with_old_names("geo"), {**JOBS, "pep": theirs})
    assert not any("pep" in one.get("start_job_instance", {}) for one in mixed.functions)


def test_no_job_of_ours_has_the_name_of_one_of_openbach() -> None:
    """Names of OpenBACH 2.7 and openbach-extra 2.6 that could be ours.

    A package would take their place on a platform.
    """
    theirs = {
        "pep", "openvpn", "wireguard", "iperf3", "iperf", "nuttcp", "fping", "hping", "quic",
        "voip_qoe", "vlc",
    }  # fmt: skip
    theirs |= {
        "tcp_conf_linux",
        "tcp_buffer",
        "tc_configure_link",
        "web_browsing_qoe",
        "netcat",
        "socat",
        "squid",
    }
    assert not theirs & JOBS.keys()
