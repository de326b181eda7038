# SPDX-License-Identifier: GPL-3.0-or-later
"""Builders of the scenario files beside this one: `python scenarios/build.py` writes them anew.

The path and where each job runs (the entities are those of inventory.yml, and so are the addresses, as constants):

    pc ── box ── st ══ sat ══ gw ── pop ── server
    │     └ vpn client  └ satcom_link  └ vpn server
    └ file_transfer client                    └ file_transfer server

and a pep wherever PEP_HOSTS has one.

Only what runs on a real controller as well is used: literal entities, waits by launched_ids and finished_ids, no flag or
entity as a placeholder, every option a value that its job understands ("none" included).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from openbach_run.openbach.addresses import value_of
from openbach_run.topology.inventory import load_inventory

HERE = Path(__file__).parent
INVENTORY = load_inventory(HERE.parent / "inventory.yml")
ADDRESSES = {
    "client_network": "client_lan.address",
    "enterprise_network": "enterprise_lan.address",
    "box_ip": "satvpn_box.access.address",
    "pop_ip": "satvpn_pop.backhaul.address",
    "server_ip": "satvpn_server.enterprise_lan.address",
    "forward_interface": "satvpn_sat.uplink.interface",
    "return_interface": "satvpn_sat.feeder.interface",
    "last_mile_interface": "satvpn_box.client_lan.interface",
}
"""Constants of the scenarios, and what they are in the inventory."""
PC_LAN, ENTERPRISE_LAN = "$client_network", "$enterprise_network"
BOX_IP, POP_IP, SERVER_IP = "$box_ip", "$pop_ip", "$server_ip"
END_HOSTS = ("pc", "server")
TUNNEL_HOSTS = ("box", "pop")
PEP_HOSTS = {  # position → the hosts that split; change it here, then `make scenarios`
    "A": ("gw",),
    "A_double": ("st", "gw"),
    "B": ("pop",),
    "B_double": ("box", "pop"),
}
IPERF3_PORT, SECOND_PORT = "5201", "5211"
KEY_EXCHANGE_PORTS = "5998,5999"
"""Of the vpn job: its connections are no traffic of the scenario's, so no proxy splits them."""

SAME = "same"
"""On our command line: the value that the end hosts, or the other direction, have."""
ARGUMENTS = {
    "orbit": "Orbit of the satellite: geo or leo",
    "vpn": "VPN between the client's box and the POP: none, wireguard, openvpn_udp or openvpn_tcp",
    "pep": "Position of the performance enhancing proxy: none, A (between the VPN's ends), B (outside the tunnel), A_double or "
    "B_double (on both sides of the satellite)",
    "cc": "Congestion control of the end hosts: cubic, cubic_nohystart, bbr, bbr2, bbr3, hybla or reno",
    "loss": "Random loss in percent, in each direction, e.g. 0.1",
    "size": "Bytes to download; k, M and G are decimal, e.g. 30M",
    "http": "Version of HTTP: 1.1 (at most 6 connections, as browsers do) or 2 (one connection)",
    "background": "What is transferred during the call: none, download or upload",
}
"""What a person changes, in the order in which a platform's web UI asks for it: each is mandatory there and has no
default. A scenario has those that its functions use, six at most."""
CONSTANTS = {
    "cc_pep": (SAME, "Congestion control of both legs of the proxy; same is that of the end hosts"),
    "cc_tunnel": (SAME, "Congestion control of an OpenVPN TCP tunnel's own connection; same is that of the end hosts"),
    "rate": ("10M", "Rate of the satellite link towards the user in bit/s; k, M and G are decimal"),
    "return_rate": (SAME, "Rate of the satellite link from the user; same is that towards the user"),
    "queue": ("fifo", "Queue before the satellite link: fifo, codel, fq_codel or cake"),
    "buffer_bdp": ("1", "Buffer before the satellite link in bandwidth-delay products"),
    "jitter_ms": ("0", "Standard deviation of the satellite link's delay in ms; packets keep their order"),
    "link_file": ("none", "CSV file with the satellite link's rate, delay and loss over time; none is the orbit's own"),
    "burst_packets": ("1", "Mean number of packets that are lost in a row; 1 is independent loss"),
    "loss_at": ("satellite", "Where the loss is: satellite, or last_mile (between PC and box)"),
    "initcwnd": ("10", "Initial congestion window of the end hosts in segments"),
    "initcwnd_pep": (SAME, "Initial congestion window of both legs of the proxy; same is that of the end hosts"),
    "streams": ("1", "TCP connections that share the download"),
    "duration_s": ("60", "Length of the call in seconds"),
    "ping_s": ("1", "Seconds between two pings during the call (statistics of ping_series); 0 is none"),
    "loads": ("3", "How many times the page is loaded, one after the other, each time with cold connections"),
    "vpn_2": ("none", "The second flow's own tunnel: a VPN; none: both flows share the first tunnel"),
    "cc_2": (SAME, "Congestion control of the second flow's sender; same is that of the end hosts"),
    "direction_2": ("download", "Direction of the second flow: download or upload"),
    "series_s": ("0", "Seconds between two samples of goodput, RTT and window (statistics of tcp_series); 0 is none"),
}
"""Value and description. NAME=VALUE on our command line changes them, too."""
DEFAULTS = {"orbit": "geo", "pep": "none", "size": "30M"}
"""Of arguments, on our command line and page."""
VPNS = ["none", "wireguard", "openvpn_udp", "openvpn_tcp"]
TRANSPORTS = ["cubic", "cubic_nohystart", "bbr2"]
LOSSES = ["0", "0.1", "1"]


class Functions(list[dict[str, Any]]):
    """The functions of a scenario, as they are added."""

    def add(
        self,
        host: str,
        job: str,
        label: str,
        launched: list[int],
        finished: list[int],
        after_s: int = 0,
        **arguments: Any,
    ) -> int:
        """A job on a host, some time after others were launched and have finished; its number."""
        started = {"entity_name": f"satvpn_{host}", job: arguments}
        return self._add(label, launched, finished, after_s, start_job_instance=started)

    def stop(self, finished: list[int], jobs: list[int]) -> None:
        """Ends the scenario: stops the jobs of these functions, after others have finished."""
        self._add("tear down", [], finished, 0, stop_job_instances={"openbach_function_ids": jobs})

    def _add(self, label: str, launched: list[int], finished: list[int], after_s: int, **what: Any) -> int:
        number = len(self)
        wait = {"time": after_s, "launched_ids": launched, "finished_ids": finished}
        self.append({"id": number, "label": label, "wait": wait, "on_fail": {}, **what})
        return number


class SatellitePath(NamedTuple):
    """What a workload waits for and what is stopped after it, as numbers of functions."""

    settled: list[int]
    """Link and TCP of the hosts: launched before anything of the workload is."""
    forwards: list[int]
    """Finished when the tunnel forwards: path_ready's wait."""
    running: list[int]


def satellite_path(functions: Functions, orbit: str) -> SatellitePath:
    """What all scenarios have: link, transports, proxies, tunnel. `orbit` may be an argument, `$orbit`."""
    add = functions.add
    interfaces: dict[str, Any] = {
        "orbit": orbit, "forward_interface": "$forward_interface", "return_interface": "$return_interface"
    }  # fmt: skip
    losses: dict[str, Any] = {"loss": "$loss", "burst_packets": "$burst_packets", "loss_at": "$loss_at"}
    link = add("sat", "satcom_link", "satellite link", [], [], **interfaces, **losses, rate="$rate",
               return_rate="$return_rate", buffer_bdp="$buffer_bdp", queue="$queue", jitter_ms="$jitter_ms",
               link_file="$link_file", series_s="$series_s", run={})  # fmt: skip
    link_ready = add("sat", "satcom_link", "satellite link measured", [link], [], **interfaces, wait={})
    last_mile = add("box", "lan_link", "last mile", [], [], interface="$last_mile_interface", **losses)
    transports = [
        add(host, "transport_profile", f"TCP of {host}", [], [], cc="$cc", initcwnd="$initcwnd") for host in END_HOSTS
    ]
    transports += [add(host, "transport_profile", f"TCP of {host}", [], [], cc="$cc_tunnel") for host in TUNNEL_HOSTS]
    proxies, proxies_ready = add_proxies(functions)
    settled = [link, last_mile, *transports]
    ready = [link_ready, *proxies_ready]
    pop: dict[str, Any] = {"kind": "$vpn", "local_ip": POP_IP, "remote_ip": BOX_IP, "remote_network": PC_LAN}
    box: dict[str, Any] = {"kind": "$vpn", "local_ip": BOX_IP, "remote_ip": POP_IP, "remote_network": ENTERPRISE_LAN}
    series: dict[str, Any] = {"series_s": "$series_s"}
    tunnel_server = add("pop", "vpn", "VPN server", settled, ready, **pop, **series, server={})
    tunnel_client = add("box", "vpn", "VPN client", [*settled, tunnel_server], ready, **box, **series, client={})
    forwards = [
        add("pop", "vpn", "VPN server ready", [tunnel_server], [], **pop, wait={}),
        add("box", "vpn", "VPN client ready", [tunnel_client], [], **box, wait={}),
    ]
    return SatellitePath(settled, forwards, [tunnel_client, tunnel_server, *proxies, *transports, last_mile, link])


def second_tunnel(functions: Functions, path: SatellitePath, port: str) -> SatellitePath:
    """The path with one more tunnel, which only the TCP flow with this server port takes."""
    own = {"tunnel": "1", "flow_port": port}
    pop: dict[str, Any] = {"kind": "$vpn_2", "local_ip": POP_IP, "remote_ip": BOX_IP, "remote_network": PC_LAN, **own}
    box: dict[str, Any] = {
        "kind": "$vpn_2",
        "local_ip": BOX_IP,
        "remote_ip": POP_IP,
        "remote_network": ENTERPRISE_LAN,
        **own,
    }
    server = functions.add("pop", "vpn", "second VPN server", [], path.forwards, **pop, server={})
    client = functions.add("box", "vpn", "second VPN client", [server], path.forwards, **box, client={})
    forwards = [
        functions.add("pop", "vpn", "second VPN server ready", [server], [], **pop, wait={}),
        functions.add("box", "vpn", "second VPN client ready", [client], [], **box, wait={}),
    ]
    return SatellitePath(path.settled, [*path.forwards, *forwards], [client, server, *path.running])


def path_ready(functions: Functions, path: SatellitePath) -> int:
    """Finished when the server answers the client: then measuring may begin."""
    return functions.add("pc", "path_ready", "path ready", [], path.forwards, destination_ip=SERVER_IP)


def file_transfer(name: str, orbit: str, lossy: bool, own: Mapping[str, str] | None = None) -> dict[str, Any]:
    """One download over a GEO or LEO link; `lossy` sweeps the loss, otherwise it is 0 unless the user gives it; `own` are
    constants with other values."""
    functions = Functions()
    path = satellite_path(functions, orbit)
    server = functions.add("server", "file_transfer", "transfer server", path.settled, [], server={})
    series = functions.add(
        "server", "tcp_series", "time series", [server], [], interval_s="$series_s", port=IPERF3_PORT
    )
    ready = path_ready(functions, path)
    client = functions.add("pc", "file_transfer", "download", [server], [ready],
                           client={"server_ip": SERVER_IP, "size": "$size", "cc": "$cc", "streams": "$streams"})  # fmt: skip
    functions.stop([client], [series, server, *path.running])
    return scenario_of(
        name,
        f"Transfer time of a file over a {orbit.upper()} satellite link, by VPN and congestion control"
        + (", with random loss" if lossy else ""),
        functions,
        {} if lossy else {"loss": "0"},
        {"vpn": VPNS, "cc": TRANSPORTS, **({"loss": LOSSES} if lossy else {})},
        own=own,
    )


def mixed_cc(name: str) -> dict[str, Any]:
    """Section IV-A of the published report: CUBIC on the end hosts, BBRv2 on the proxy and in the tunnel."""
    scenario = file_transfer(name, "$orbit", lossy=True, own={"cc_pep": "bbr2", "cc_tunnel": "bbr2"})
    sweep = scenario["x-sweep"]
    sweep["defaults"] |= {"cc": "cubic"}
    sweep["values"] = {"orbit": ["geo", "leo"], "vpn": VPNS, "pep": ["B", "A"], "loss": LOSSES[1:]}
    return scenario | {
        "description": "Transfer time of a file over a lossy satellite link, with CUBIC on the end hosts and BBRv2 elsewhere"
    }


SECOND_FLOW_AFTER_S = 10
FLOW_INTERVAL_S = "1"
PEPS = ["none", "B", "A"]


def multi_flow(name: str, lossy: bool) -> dict[str, Any]:
    """Section IV-B of the published report. Without loss a flow of 100 s, and one of 80 s that begins 10 s later; with loss
    an unlimited one, and a file that begins 10 s later."""
    functions = Functions()
    path = second_tunnel(functions, satellite_path(functions, "$orbit"), SECOND_PORT)
    servers = [
        functions.add("server", "file_transfer", f"server of flow {number}", path.settled, [], port=port, server={})
        for number, port in ((1, IPERF3_PORT), (2, SECOND_PORT))
    ]
    series = [
        functions.add(
            "server", "tcp_series", f"time series of flow {number}", [server], [], interval_s="$series_s", port=port
        )
        for number, port, server in ((1, IPERF3_PORT, servers[0]), (2, SECOND_PORT, servers[1]))
    ]
    ready = path_ready(functions, path)
    common = {"server_ip": SERVER_IP, "interval_s": FLOW_INTERVAL_S}
    first = {"size": "unlimited", "cc": "$cc"} | ({} if lossy else {"duration_s": "100"})
    second = {"cc": "$cc_2", "own_cc": "yes", "direction": "$direction_2"}
    second |= {"size": "$size"} if lossy else {"size": "unlimited", "duration_s": "80"}
    flow_1 = functions.add("pc", "file_transfer", "flow 1", servers, [ready],
                           port=IPERF3_PORT, client={**common, **first, "flow": "flow_1"})  # fmt: skip
    flow_2 = functions.add("pc", "file_transfer", "flow 2", [flow_1], [], after_s=SECOND_FLOW_AFTER_S,
                           port=SECOND_PORT, client={**common, **second, "flow": "flow_2"})  # fmt: skip
    if lossy:
        functions.stop([flow_2], [flow_1])
    functions.stop([flow_2, flow_1], [*series, *servers, *path.running])
    what = "an unlimited flow, and a file 10 s later" if lossy else "a flow of 100 s, and one of 80 s 10 s later"
    return scenario_of(
        name,
        f"Two flows over a satellite link{' with random loss' if lossy else ''}: {what}",
        functions,
        {"cc": "cubic", **({} if lossy else {"loss": "0"})},
        {"orbit": ["geo", "leo"], "vpn": VPNS, "pep": PEPS, **({"loss": LOSSES[1:]} if lossy else {})},
        measure="flow_2_transfer_time_s" if lossy else "total_goodput_mbps",
    )


def web(name: str) -> dict[str, Any]:
    """A page with many small objects, by version of HTTP."""
    functions = Functions()
    path = satellite_path(functions, "$orbit")
    server = functions.add("server", "web_page", "web server", path.settled, [], server={})
    ready = path_ready(functions, path)
    client = functions.add("pc", "web_page", "page loads", [server], [ready],
                           client={"server_ip": SERVER_IP, "http": "$http", "loads": "$loads"})  # fmt: skip
    functions.stop([client], [server, *path.running])
    return scenario_of(
        name,
        "Load time of a web page over a satellite link, by VPN, PEP position and version of HTTP",
        functions,
        {"cc": "cubic", "loss": "0"},
        {"vpn": VPNS, "pep": ["none", "B"], "http": ["1.1", "2"]},
        measure="page_load_time_s",
    )


def voip(name: str) -> dict[str, Any]:
    """A call, alone and beside an unlimited transfer."""
    functions = Functions()
    path = satellite_path(functions, "$orbit")
    transfer_server = functions.add("server", "file_transfer", "transfer server", path.settled, [], server={})
    call_server = functions.add("server", "voip", "call server", path.settled, [], server={})
    ready = path_ready(functions, path)
    unlimited = {
        "server_ip": SERVER_IP,
        "size": "unlimited",
        "direction": "$background",
        "cc": "$cc",
        "flow": "background",
    }
    transfer = functions.add("pc", "file_transfer", "background", [transfer_server], [ready], client=unlimited)
    pings = functions.add("pc", "ping_series", "pings", [], [ready], interval_s="$ping_s", destination_ip=SERVER_IP)
    call = functions.add("pc", "voip", "call", [call_server, transfer, pings], [ready],
                         client={"server_ip": SERVER_IP, "duration_s": "$duration_s"})  # fmt: skip
    functions.stop([call], [pings, transfer, call_server, transfer_server, *path.running])
    return scenario_of(
        name,
        "Quality of a telephone call over a satellite link, by VPN, alone and beside a transfer",
        functions,
        {"cc": "cubic", "loss": "0"},
        {"vpn": VPNS, "background": ["none", "download"]},
        measure="to_client_mos",
    )


def scenario_of(
    name: str,
    description: str,
    functions: Functions,
    defaults: dict[str, str],
    swept: dict[str, list[str]],
    measure: str | None = None,
    own: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The scenario file; `defaults` are those that only it has; `measure` is what its table shows in place of the
    transfer time; `own` are constants with other values than usual."""
    described = {name: text for name, (_, text) in CONSTANTS.items() if f'"${name}"' in json.dumps(functions)}
    values = {name: CONSTANTS[name][0] for name in described} | dict(own or {})
    same = {name: same_as(functions, name) for name, value in values.items() if value == SAME}
    used = json.dumps(functions)
    arguments = {name: text for name, text in ARGUMENTS.items() if f'"${name}"' in used}
    addresses = {name: reference for name, reference in ADDRESSES.items() if f'"${name}"' in used}
    return {
        "name": name,
        "description": description,
        "arguments": arguments,
        "constants": {
            **{name: value for name, value in values.items() if name not in same},
            **{name: value_of(reference, INVENTORY) for name, reference in addresses.items()},
        },
        "openbach_functions": functions,
        "x-inventory": {"constants": addresses},
        "x-constants": described,
        "x-same": same,
        "x-sweep": {
            "defaults": {name: value for name, value in {**DEFAULTS, **defaults}.items()
                         if name in arguments and name not in swept},
            "values": swept,
            "link_files": ["link_file"],
            **({"measure": measure} if measure else {}),
        },
    }  # fmt: skip


LEADERS = {"cc_pep": "cc", "cc_tunnel": "cc", "cc_2": "cc", "initcwnd_pep": "initcwnd", "return_rate": "rate"}


def same_as(functions: Functions, name: str) -> list[str]:
    """Puts the name's leader in its place, since no job understands `same`. The places, for whoever gives the name a value
    of its own."""
    places: list[str] = []

    def replace(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {key: replace(one, f"{path}.{key}") for key, one in value.items()}
        if value == f"${name}":
            places.append(path)
            return f"${LEADERS[name]}"
        return value

    for number, function in enumerate(functions):
        if "start_job_instance" in function:
            function["start_job_instance"] = replace(function["start_job_instance"], f"{number}.start_job_instance")
    return places


def add_proxies(functions: Functions) -> tuple[list[int], list[int]]:
    """A pep on every host that PEP_HOSTS names: the functions that run them, and those that end when they are ready."""
    at = {
        host: ",".join(position for position, hosts in PEP_HOSTS.items() if host in hosts)
        for host in dict.fromkeys(host for hosts in PEP_HOSTS.values() for host in hosts)
    }
    running = [
        functions.add(host, "pep", f"PEP on {host}", [], [], position="$pep", at=positions,
                      run={"cc": "$cc_pep", "initcwnd": "$initcwnd_pep", "except_ports": KEY_EXCHANGE_PORTS})
        for host, positions in at.items()
    ]  # fmt: skip
    return running, [
        functions.add(host, "pep", f"PEP on {host} ready", [run], [], position="$pep", at=at[host], wait={})
        for host, run in zip(at, running, strict=True)
    ]


SETTLE_S = 5
"""Between two cells: jobs that were told to stop get up to 3 s, and then put their host back as it was."""


def table(scenario: dict[str, Any]) -> dict[str, Any]:
    """A scenario that starts another one for each combination of the values that it sweeps, one after the other, so
    that one click in the web UI makes the whole table."""
    swept, defaults = scenario["x-sweep"]["values"], scenario["x-sweep"]["defaults"]
    cells = [dict(zip(swept, combination, strict=True)) for combination in product(*swept.values())]
    asked = {name: text for name, text in scenario["arguments"].items() if name not in swept}
    functions = [
        {
            "id": number,
            "label": ", ".join(f"{name} {value}" for name, value in cell.items()),
            "wait": {
                "time": SETTLE_S if number else 0,
                "launched_ids": [],
                "finished_ids": [number - 1] if number else [],
            },
            "on_fail": {},
            "start_scenario_instance": {
                "scenario_name": scenario["name"],
                "arguments": {name: cell.get(name, f"${name}") for name in scenario["arguments"]},
            },
        }
        for number, cell in enumerate(cells)
    ]
    values = "; ".join(f"{name}: {', '.join(listed)}" for name, listed in swept.items())
    return {
        "name": f"{scenario['name']}_table",
        "description": f"The whole table of {scenario['name']}: its {len(cells)} combinations one after the other ({values})",
        "arguments": asked,
        "constants": {},
        "openbach_functions": functions,
        "x-sweep": {"defaults": {name: defaults[name] for name in asked}, "values": {}},
    }


SCENARIOS = {
    "geo": file_transfer("geo", "geo", lossy=False),
    "geo_loss": file_transfer("geo_loss", "geo", lossy=True),
    "leo": file_transfer("leo", "leo", lossy=False),
    "leo_loss": file_transfer("leo_loss", "leo", lossy=True),
    "web": web("web"),
    "voip": voip("voip"),
}
SCENARIOS |= {
    "multi_flow": multi_flow("multi_flow", lossy=False),
    "multi_flow_loss": multi_flow("multi_flow_loss", lossy=True),
    "mixed_cc": mixed_cc("mixed_cc"),
}
SCENARIOS |= {f"{name}_table": table(SCENARIOS[name]) for name in ("geo_loss", "leo_loss")}


def text(scenario: dict[str, Any]) -> str:
    return json.dumps(scenario, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, scenario in SCENARIOS.items():
        (HERE / f"{name}.json").write_text(text(scenario))
