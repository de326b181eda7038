# SPDX-License-Identifier: GPL-3.0-or-later
"""Builders of the scenarios beside the inventories of this folder, and of the star.

`python library/topologies/build.py` writes them anew; with the words `star 50 DIR` it writes a star
of 50 terminals into another folder.

Each scenario: every PC downloads the same size at the same time. That with a VPN follows from its
YAML in scenarios/ here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from openbach_run.openbach.expand import expand
from openbach_run.topology.inventory import load_inventory
from openbach_run.topology.references import value_of

HERE = Path(__file__).parent
STAR_TERMINALS = 3
ARGUMENTS = {
    "cc": "Congestion control of the server: cubic, bbr, bbr2, hybla or reno",
    "size": "Bytes that each PC downloads; k, M and G are decimal, e.g. 5M",
    "rate": "Rate of a satellite link in bit/s, each direction; k, M and G are decimal, e.g. 10M",
    "loss": "Random loss on a satellite link in percent, in each direction, e.g. 0.1",
}
STAR_CONSTANTS = {
    "orbit": ("geo", "Satellite: geo, leo, meo, or one of your own (folder satellites)"),
    "access": (
        "preset",
        "How terminals get return capacity: assigned, or dama (they ask for it; orbit=geo_rcs2)",
    ),
    "shares": (
        "none",
        "What terminals have of their own with the access dama: of the inventory (satvpn_share)",
    ),
    "dama_values": (
        "none",
        "Values of the access dama, which dama.NAME=VALUE gives: cra=100k;rbdc=2M; none: the"
        " satellite's",
    ),
    "forward": (
        "preset",
        "Forward link: rate (all terminals share it), or dvbs2 (frames with a MODCOD for each"
        " terminal; orbit=geo_dvbs2)",
    ),
    "forward_values": (
        "none",
        "Values of the forward link dvbs2, which forward.NAME=VALUE gives:"
        " symbols=20M;es_n0_db=14.5/2; none: the satellite's",
    ),
    "es_n0_file": (
        "none",
        "CSV file with the terminals' Es/N0 over time, for the forward link dvbs2; none is as its"
        " values say",
    ),
}
DEFAULTS = {"cc": "cubic", "size": "5M", "rate": "10M", "loss": "0"}


def downloads(
    inventory: str, description: str, links: dict[str, tuple[str, str, str]], pcs: Sequence[str]
) -> dict[str, Any]:
    """Return a scenario; `links` are each satellite's orbit and the networks on both sides."""
    functions: list[dict[str, Any]] = []
    references = {"server_ip": "satvpn_server.enterprise_lan.address"}

    def add(
        host: str,
        job: str,
        label: str,
        launched: Sequence[int],
        finished: Sequence[int],
        **arguments: Any,
    ) -> int:
        wait = {"time": 0, "launched_ids": [*launched], "finished_ids": [*finished]}
        start = {"entity_name": f"satvpn_{host}", job: arguments}
        functions.append(
            {"id": len(functions), "label": label, "wait": wait, "start_job_instance": start}
        )
        return len(functions) - 1

    running, ready = [], []
    for satellite, (orbit, uplink, feeder) in links.items():
        names = {f"{satellite}_forward": uplink, f"{satellite}_return": feeder}
        references |= {
            name: f"satvpn_{satellite}.{network}.interface" for name, network in names.items()
        }
        forward, back = (f"${name}" for name in names)
        link = {"orbit": orbit, "forward_interface": forward, "return_interface": back}
        running.append(
            add(
                satellite,
                "satcom_link",
                satellite,
                [],
                [],
                **link,
                rate="$rate",
                loss="$loss",
                run={},
            )
        )
        ready.append(
            add(
                satellite, "satcom_link", f"{satellite} measured", running[-1:], [], **link, wait={}
            )
        )
    running.append(add("server", "transport_profile", "TCP of server", [], [], cc="$cc"))
    server = add("server", "file_transfer", "web server", running, [], http="1.1", server={})
    paths = [
        add(pc, "path_ready", f"path of {pc}", [], ready, destination_ip="$server_ip") for pc in pcs
    ]
    client = {"server_ip": "$server_ip", "size": "$size"}
    transfers = [
        add(pc, "file_transfer", pc, [server], paths, http="1.1", client={**client, "flow": pc})
        for pc in pcs
    ]
    end = {"time": 0, "launched_ids": [], "finished_ids": transfers}
    stopped = {"openbach_function_ids": [server, *running]}
    functions.append(
        {"id": len(functions), "label": "tear down", "wait": end, "stop_job_instances": stopped}
    )
    return {
        "name": inventory.removesuffix(".yml"),
        "description": description,
        "arguments": ARGUMENTS,
        "constants": dict.fromkeys(references, ""),
        "openbach_functions": functions,
        "x-inventory": {"file": inventory, "constants": references},
        "x-sweep": {
            "defaults": {"rate": DEFAULTS["rate"]},
            "values": {name: [value] for name, value in DEFAULTS.items() if name != "rate"},
            "measure": f"{pcs[0]}_transfer_time_s",
        },
    }


SATELLITE = {"sat": ("geo", "uplink", "feeder")}
SCENARIOS = {
    "lan": downloads(
        "lan.yml",
        "Three PCs of an office download over its GEO terminal",
        SATELLITE,
        ["pc_1", "pc_2", "pc_3"],
    ),
    "two_links": downloads(
        "two_links.yml",
        "Two PCs behind a box with two access links: one downloads over GEO, the other over LEO",
        {
            "sat_geo": ("geo", "geo_uplink", "geo_feeder"),
            "sat_leo": ("leo", "leo_uplink", "leo_feeder"),
        },
        ["pc_1", "pc_2"],
    ),
    "long_thin": downloads(
        "long_thin.yml", "A download over GEO and a long path behind it", SATELLITE, ["pc"]
    ),
}
WITH_VPN = ("coordinated",)


def with_vpn(name: str) -> dict[str, Any]:
    """Return a scenario of scenarios/ here as JSON, which names its inventory here."""
    made = expand(HERE / f"scenarios/{name}.yml")
    return {**made, "x-inventory": {**made["x-inventory"], "file": f"{name}.yml"}}


def star_scenario(terminals: int) -> dict[str, Any]:
    """Return the scenario of a star: every terminal's PC downloads at the same time.

    The satellite is a constant, so that it may be one whose return link has to be asked for.
    """
    pcs = [f"pc_{number}" for number in range(1, terminals + 1)]
    made = downloads(
        "star.yml",
        f"{terminals} PCs, each behind a terminal of its own, download over one satellite",
        {"sat": ("$orbit", "uplink", "feeder")},
        pcs,
    )
    link = made["openbach_functions"][0]["start_job_instance"]["satcom_link"]
    run = link.pop("run")
    link |= {name: f"${name}" for name in STAR_CONSTANTS if name != "orbit"} | {"run": run}
    constants = {name: value for name, (value, _) in STAR_CONSTANTS.items()}
    texts = {name: text for name, (_, text) in STAR_CONSTANTS.items()}
    made["x-inventory"]["constants"]["shares"] = "satvpn_sat.uplink.shares"
    sweep = {**made["x-sweep"], "link_files": ["es_n0_file"]}
    added = {"constants": constants | made["constants"], "x-constants": texts, "x-sweep": sweep}
    return {**made, **added}


def star_inventory(terminals: int) -> dict[str, Any]:
    """Terminals and satellite are in one network, whose rate they share.

    The link is the satellite's.

    Up to 250.
    """
    numbers = range(1, terminals + 1)
    networks = {
        "uplink": "10.10.2.0/24",
        "feeder": "10.10.3.0/24",
        "enterprise_lan": "192.168.20.0/24",
        **{f"lan_{number}": f"172.16.{number}.0/24" for number in numbers},
    }
    pcs = {
        f"satvpn_pc_{number}": host(
            "pc", {"to_st": (f"lan_{number}", f"172.16.{number}.2")}, default=f"172.16.{number}.1"
        )
        for number in numbers
    }
    terminal_hosts = {
        f"satvpn_st_{number}": host(
            "st",
            {
                "to_pc": (f"lan_{number}", f"172.16.{number}.1"),
                "to_sat": ("uplink", f"10.10.2.{number + 1}"),
            },
            default="10.10.2.1",
        )
        for number in numbers
    }
    back = {f"lan_{number}": f"10.10.2.{number + 1}" for number in numbers}
    satellite = host(
        "sat",
        {"to_st": ("uplink", "10.10.2.1"), "to_gw": ("feeder", "10.10.3.1")},
        default="10.10.3.2",
        **back,
    )
    to_ground = {"to_sat": ("feeder", "10.10.3.2"), "to_server": ("enterprise_lan", "192.168.20.1")}
    gateway = host("gw", to_ground, default="10.10.3.1")
    server = host("server", {"to_gw": ("enterprise_lan", "192.168.20.2")}, default="192.168.20.1")
    routers = {**terminal_hosts, "satvpn_sat": satellite, "satvpn_gw": gateway}
    return {
        "all": {
            "vars": {"satvpn_networks": networks},
            "children": {
                "end_hosts": {"hosts": {**pcs, "satvpn_server": server}},
                "routers": {"vars": {"satvpn_forwarding": True}, "hosts": routers},
            },
        }
    }


def host(role: str, interfaces: dict[str, tuple[str, str]], **routes: str) -> dict[str, Any]:
    """Return a host of the inventory; `routes` are its routes, by network."""
    return {
        "satvpn_role": role,
        "satvpn_interfaces": [
            {"name": name, "network": network, "address": address}
            for name, (network, address) in interfaces.items()
        ],
        "satvpn_routes": [{"to": to, "via": via} for to, via in routes.items()],
    }


STAR_HEAD = """\
# SPDX-License-Identifier: GPL-3.0-or-later
# yaml-language-server: $schema=../../src/openbach_run/schemas/inventory.json
#
# A star: terminals behind one satellite, whose rate they share. Written by build.py, which also
# writes larger ones.
#
#     pc_1 ── st_1 ┐
#     pc_2 ── st_2 ┼ sat ══ gw ── server
#     pc_3 ── st_3 ┘
#
#     ./openbach-run library/topologies/star.json

"""


def write_star(folder: Path, terminals: int) -> None:
    """Write the inventory and the scenario of a star into a folder."""
    text = yaml.safe_dump(
        star_inventory(terminals), sort_keys=False, default_flow_style=None, width=110
    )
    (folder / "star.yml").write_text(STAR_HEAD + text)
    write(folder, star_scenario(terminals))


def write(folder: Path, scenario: dict[str, Any]) -> None:
    """Write a scenario with the addresses of its inventory, a line for each function."""
    inventory = load_inventory(folder / scenario["x-inventory"]["file"])
    references = scenario["x-inventory"]["constants"]
    addresses = {name: value_of(reference, inventory) for name, reference in references.items()}
    constants = {**scenario["constants"], **addresses}
    lines = []
    for name, value in {**scenario, "constants": constants}.items():
        text = json.dumps(value, ensure_ascii=False)
        if name == "openbach_functions":
            functions = [json.dumps(function, ensure_ascii=False) for function in value]
            text = "[\n  " + ",\n  ".join(functions) + "]"
        lines.append(f" {json.dumps(name)}: {text}")
    (folder / f"{scenario['name']}.json").write_text("{\n" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "star":
        write_star(Path(sys.argv[3]), int(sys.argv[2]))
    else:
        for scenario in (*SCENARIOS.values(), *map(with_vpn, WITH_VPN)):
            write(HERE, scenario)
        write_star(HERE, STAR_TERMINALS)
