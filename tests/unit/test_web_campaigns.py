# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenarios on other topologies than the platform's, and campaign files, launched from the page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from helpers.web import SCENARIOS, application, ended, visiting

from openbach_run.catalog import Catalog
from openbach_run.openbach.scenario import Scenario
from openbach_run.web.page import first_comment


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with visiting(application(tmp_path)) as made:
        yield made


def token_of(page: str) -> str:
    found = re.search(r'name="token" value="([^"]+)"', page)
    assert found
    return found[1]


def test_every_scenario_and_campaign_is_on_the_first_page(client: TestClient) -> None:
    shown = client.get("/").text
    for name in ("geo", "lan_tcp", "multipath", "star", "two_links", "long_thin", "lan"):
        assert f"/page/scenario/satvpn/{name}" in shown
    for name in Catalog().all("campaigns"):
        assert f"/page/campaign/{name}" in shown


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_every_scenario_has_its_form_and_its_check(client: TestClient, scenario: Scenario) -> None:
    name = scenario.name
    page = client.get(f"/page/scenario/satvpn/{name}")
    assert page.status_code == 200
    checked = client.post(f"/page/check/satvpn/{name}", data={"token": token_of(page.text)})
    assert "entities" not in checked.text and "not in the project" not in checked.text


def test_a_run_on_another_topology_has_its_hosts(client: TestClient, tmp_path: Path) -> None:
    sent = {"arguments": {"vpn": "none", "impairment": "baseline", "cc": "cubic"}}
    answer = client.post("/project/satvpn/scenario/lan_ping/scenario_instance/", json=sent)
    assert answer.status_code == 200, answer.text
    number = int(answer.json()["scenario_instance_id"])
    ended(client, number)  # the made-up engine never ends a series of pings
    (file,) = tmp_path.glob("*/runs/*/run.json")
    hosts = {host["entity"] for host in json.loads(file.read_text())["inventory"]["hosts"]}
    assert {"pc_1", "pc_2"} <= {name.removeprefix("satvpn_") for name in hosts}


def test_a_topology_that_is_not_there_is_refused_by_name(client: TestClient) -> None:
    (lan,) = [one for one in SCENARIOS if one.name == "lan_ping"]
    source = {**lan.source, "name": "mine", "x-inventory": {"file": "../../etc/passwd"}}
    assert client.post("/project/satvpn/scenario/", json=source).status_code == 200
    sent = {"arguments": {"vpn": "none"}}
    answer = client.post("/project/satvpn/scenario/mine/scenario_instance/", json=sent)
    assert answer.status_code == 422
    assert "there is no passwd.yml in topologies/" in answer.text


def test_a_campaign_file_is_shown_and_launched(client: TestClient) -> None:
    page = client.get("/page/campaign/multipath").text
    assert first_comment(Catalog().all("campaigns")["multipath"])[:30] in page
    runs = int(re.findall(r"(\d+) runs; about", page)[0])
    answer = client.post(
        "/page/campaign/multipath", data={"token": token_of(page)}, follow_redirects=False
    )
    assert answer.status_code == 303, answer.text
    sets = client.get("/page/results").text
    assert runs > 0 and "multipath" in sets


def test_a_campaign_that_is_not_there_is_no_page(client: TestClient) -> None:
    assert client.get("/page/campaign/nothing").status_code == 404
