# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a scenario's addresses come from.

The constants of x-inventory, from the inventory that it runs on.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from openbach_run.campaign.reading import plan
from openbach_run.campaign.spec import runs_of
from openbach_run.commands import main
from openbach_run.errors import InputError
from openbach_run.openbach.addresses import inventory_file, unknown_entities, with_addresses
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.reading import parse_scenario, read_scenario
from openbach_run.openbach.scenario import Scenario
from openbach_run.paths import LIBRARY
from openbach_run.topology.inventory import load_inventory
from openbach_run.topology.references import value_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = load_packages([ROOT / "jobs"])
JOBS = {name: package.job for name, package in PACKAGES.items()}
OURS = load_inventory(ROOT / "inventory.yml")
LONG = load_inventory(LIBRARY / "topologies/long_thin.yml")
SCENARIOS = sorted([*(ROOT / "scenarios").glob("*.yml"), *(LIBRARY / "topologies").glob("*.json")])

_spec = importlib.util.spec_from_file_location("build_topologies", LIBRARY / "topologies/build.py")
assert _spec and _spec.loader
build = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(build)


def scenario(**changed: Any) -> Scenario:
    ping = {"entity_name": "satvpn_pc", "path_ready": {"destination_ip": "$server_ip"}}
    content = {
        "name": "ping",
        "constants": {"server_ip": "192.0.2.1"},
        "openbach_functions": [{"id": 0, "start_job_instance": ping}],
        "x-inventory": {"constants": {"server_ip": "satvpn_server.enterprise_lan.address"}},
    }
    return parse_scenario(content | changed, JOBS)


def other_inventory(folder: Path) -> Path:
    """inventory.yml with another enterprise LAN."""
    file = folder / "other.yml"
    file.write_text((ROOT / "inventory.yml").read_text().replace("192.168.20.", "172.30.0."))
    return file


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_file_has_the_addresses_of_its_inventory(file: Path) -> None:
    """A controller takes it as it is."""
    read = read_scenario(file, JOBS)
    inventory = load_inventory(inventory_file(read, file, None))
    assert with_addresses(read, inventory).constants == read.constants
    assert list(unknown_entities(read, inventory)) == []


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_no_address_is_anywhere_else(file: Path) -> None:
    read = read_scenario(file, JOBS)
    functions = json.dumps(read.functions)
    inventory = load_inventory(inventory_file(read, file, None))
    ports = [port for host in inventory.hosts for port in host.interfaces]
    assert not [
        text for port in ports for text in (port.address, port.name) if f'"{text}"' in functions
    ]


def test_topologies_are_in_step_with_their_builder(tmp_path: Path) -> None:
    build.write_star(tmp_path, build.STAR_TERMINALS)
    for one in (*build.SCENARIOS.values(), *map(build.with_vpn, build.WITH_VPN)):
        file = one["x-inventory"]["file"]
        (tmp_path / file).write_text((build.HERE / file).read_text())
        build.write(tmp_path, one)
    for file in tmp_path.iterdir():
        assert (build.HERE / file.name).read_text() == file.read_text(), "run `make scenarios`"
    of_scenarios = {
        "three_hosts.yml",
        "three_hosts_jumbo.yml",
    }  # of those in scenarios/ that have no satellite
    assert {file.name for file in tmp_path.iterdir()} | of_scenarios == {
        file.name for file in build.HERE.iterdir() if file.suffix in (".json", ".yml")
    }


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("satvpn_server.enterprise_lan.address", "192.168.20.2"),
        ("satvpn_server.enterprise_lan.ipv6", "fd00:168:20::2"),
        ("satvpn_server.enterprise_lan.interface", "to_isp"),
        ("enterprise_lan.address", "192.168.20.0/24"),
        ("enterprise_lan.ipv6", "fd00:168:20::/64"),
        ("uplink.mtu", "1280"),
    ],
)
def test_what_a_reference_stands_for(reference: str, value: str) -> None:
    assert value_of(reference, LONG) == value


@pytest.mark.parametrize(
    ("reference", "words"),
    {
        "satvpn_serve.enterprise_lan.address": "no entity satvpn_serve; it has satvpn_pc, satvpn_server",
        "satvpn_server.wan.address": "no network 'wan'; it has client_lan",
        "satvpn_server.client_lan.address": "satvpn_server has no interface in client_lan; it has some in enterprise_lan",
        "satvpn_server.enterprise_lan.mac": "'mac' is none of address, ipv6, interface",
        "enterprise_lan.interface": "'interface' is none of address, ipv6, mtu",
        "satvpn_server.enterprise_lan.ipv6": "enterprise_lan has no IPv6 addresses",
        "": "no network ''",
    }.items(),
)
def test_references_to_nothing_say_what_there_is(reference: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        with_addresses(scenario(**{"x-inventory": {"constants": {"server_ip": reference}}}), OURS)
    assert f"ping: x-inventory.constants.server_ip: {reference!r}: " in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "x-inventory should be an object with the keys file and constants"),
        ({"fiel": "x.yml"}, "the keys file and constants"),
        ({"constants": ["server_ip"]}, "object of texts by constant"),
        ({"constants": {"server_ip": 1}}, "object of texts by constant"),
        ({"constants": {"sever_ip": "uplink.address"}}, "no such constant; it has server_ip"),
        ({"file": 1}, "x-inventory.file: should be the path"),
    ],
)
def test_x_inventory_must_have_its_shape(given: Any, words: str) -> None:
    made = scenario(**{"x-inventory": given})
    with pytest.raises(InputError, match=words):
        with_addresses(made, load_inventory(inventory_file(made, Path("made.json"), None)))


def test_the_inventory_is_the_given_one_or_the_scenarios_or_ours() -> None:
    own = scenario(**{"x-inventory": {"file": "../star.yml"}})
    assert inventory_file(own, Path("folder/own.json"), None) == Path("folder/../star.yml")
    assert inventory_file(own, Path("folder/own.json"), Path("given.yml")) == Path("given.yml")
    assert inventory_file(scenario(), Path("folder/own.json"), None) == ROOT / "inventory.yml"


def test_entities_that_an_inventory_lacks() -> None:
    (finding,) = unknown_entities(scenario(), OURS._replace(hosts=OURS.hosts[1:]))
    assert finding.path == "openbach_functions.0.start_job_instance.entity_name"
    assert "no entity satvpn_pc; it has satvpn_server" in finding.message


def test_runs_have_the_addresses_of_the_inventory_and_no_setting_for_them(tmp_path: Path) -> None:
    campaign = plan(ROOT / "scenarios/geo_loss_table.yml", [], (1,), PACKAGES)
    (run,) = runs_of(campaign, load_inventory(other_inventory(tmp_path)), lambda uses: {})
    (sub,) = run.sub_scenarios.values()
    assert (sub["constants"]["server_ip"], sub["constants"]["enterprise_network"]) == (
        "172.30.0.2",
        "172.30.0.0/24",
    )
    assert "rate" in run.values and "server_ip" not in run.values
    (same,) = runs_of(campaign, OURS, lambda uses: {})
    assert same.run_id != run.run_id
    with pytest.raises(InputError, match="has no argument server_ip"):
        plan(ROOT / "scenarios/geo.yml", ["server_ip=10.0.0.1"], (1,), PACKAGES)


def test_a_package_has_the_addresses_of_the_platform(tmp_path: Path) -> None:
    assert (
        main.main(
            ["package", "-o", str(tmp_path / "out"), "--inventory", str(other_inventory(tmp_path))]
        )
        == 0
    )
    project = json.loads((tmp_path / "out/project.json").read_text())
    given = {one["name"]: one["constants"].get("server_ip") for one in project["scenario"]}
    assert given["geo"] == given["voip"] == "172.30.0.2"
    assert (
        json.loads((tmp_path / "out/scenarios/geo.json").read_text())["constants"]["server_ip"]
        == "172.30.0.2"
    )
    assert {"name": "enterprise_lan", "address": "172.30.0.0/24"} in project["network"]


def test_a_host_that_the_inventory_lacks_is_refused_before_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lan = LIBRARY / "topologies/lan.yml"
    asked = [
        str(ROOT / "scenarios/geo.yml"),
        "--inventory",
        str(lan),
        "--results",
        str(tmp_path / "r"),
        "--dry-run",
    ]
    assert main.main(asked) == 2
    said = capsys.readouterr().err
    assert "geo.yml: geo: openbach_functions." in said
    assert (
        "the inventory has no entity satvpn_pop; it has satvpn_pc_1, satvpn_pc_2" in said
        and str(lan) in said
    )


def test_check_warns_of_hosts_that_the_inventory_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = scenario().source
    made["openbach_functions"][0]["start_job_instance"]["entity_name"] = "satvpn_cp"
    file = tmp_path / "ping.json"
    file.write_text(json.dumps(made))
    assert main.main(["--check", str(file)]) == 0
    assert (
        "warning: openbach_functions.0.start_job_instance.entity_name: the inventory has no"
        in capsys.readouterr().err
    )
    assert main.main(["--check", str(file), "--inventory", str(tmp_path / "none.yml")]) == 2
    assert "none.yml: no such file" in capsys.readouterr().err
