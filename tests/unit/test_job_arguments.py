# SPDX-License-Identifier: GPL-3.0-or-later
"""A job's YAML and its program agree.

What the backend lets through, the program understands, and the reverse.
"""

from __future__ import annotations

import importlib
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from openbach_run.openbach.job import argv
from openbach_run.openbach.job_folders import load_packages

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = load_packages([ROOT / "jobs"])
LINK = {"forward_interface": "to_st", "return_interface": "to_gw"}
TUNNEL = {"local_ip": "10.10.1.1", "remote_ip": "10.10.4.2", "remote_network": "192.168.20.0/24"}
CLIENT = {"server_ip": "192.168.20.2", "size": "30M"}


def values(**more: Any) -> dict[str, Any]:
    return more


def link(orbit: str, **more: Any) -> dict[str, Any]:
    return {"orbit": orbit, **LINK, **more}


def tunnel(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, **TUNNEL, **more}


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # the job, a scenario's arguments, what its program reads of them
    (
        "satcom_link",
        link("leo", run={}),
        values(mode="run", orbit="leo", rate=10e6, loss=0.0, delay_ms=None),
    ),
    (
        "satcom_link",
        link("geo", rate="20M", delay_ms=240, loss="0.1", buffer_bdp="2", seed=3, run={}),
        values(rate=20e6, delay_ms=240.0, loss=0.1, return_loss=0.1, seed=3),
    ),
    (
        "satcom_link",
        link(
            "geo",
            rate="preset",
            return_rate="2M",
            loss="0",
            return_loss="1",
            buffer="100p",
            buffer_bdp="none",
            run={},
        ),
        {"rate": 10e6, "return_rate": 2e6, "loss": 0.0, "return_loss": 1.0},
    ),
    (
        "transport_profile",
        {"cc": "cubic_nohystart", "initcwnd": "40", "buffer_bytes": 4194304},
        {"cc": "cubic_nohystart", "initcwnd": 40, "buffer_bytes": 4194304},
    ),
    ("vpn", tunnel("openvpn_tcp", server={}), {"role": "server", "tunnel_ip": "10.200.0.1"}),
    ("vpn", tunnel("wireguard", client={}), {"role": "client", "remote_tunnel_ip": "10.200.0.1"}),
    (
        "vpn",
        tunnel("none", tunnel_ip="10.9.0.1", wait={}),
        {"role": "wait", "tunnel_ip": "10.9.0.1"},
    ),
    (
        "satpep",
        {
            "position": "A_double",
            "at": "A,A_double",
            "run": {"cc": "bbr", "initcwnd": "40", "except_ports": "5999,22"},
        },
        values(
            position="A_double",
            at=["A", "A_double"],
            mode="run",
            cc="bbr",
            initcwnd=40,
            except_ports="5999,22",
        ),
    ),
    (
        "satpep",
        {"position": "none", "wait": {}},
        {"mode": "wait", "at": ("A", "B", "A_double", "B_double")},
    ),
    ("tcp_series", {"interval_s": 0.5, "port": 5201}, {"interval_s": 0.5, "port": 5201}),
    (
        "satcom_link",
        link("geo", queue="codel", link_file="/a.csv", wait={}),
        {"mode": "wait", "return_rate": None, "queue": "codel", "link_file": "/a.csv"},
    ),
    (
        "lan_link",
        {"interface": "to_pc", "loss": "1", "burst_packets": "3", "loss_at": "satellite"},
        {"interface": "to_pc", "loss": 1.0, "burst_packets": 3.0, "loss_at": "satellite"},
    ),
    (
        "vpn",
        tunnel("openvpn_tcp", tunnel="1", flow_port="5211", server={}),
        {"device": "vpn1", "exchange_port": 5998, "tunnel_ip": "10.200.1.1", "flow_port": 5211},
    ),
    (
        "file_transfer",
        {"port": 5211, "server": {}},
        {"mode": "server", "http": "none", "port": 5211},
    ),
    (
        "file_transfer",
        {
            "client": values(
                server_ip="10.0.0.1",
                size="unlimited",
                duration_s="80",
                cc="bbr2",
                own_cc="yes",
                interval_s="1",
                flow="flow_2",
                streams="4",
            )
        },
        values(
            size=0, duration_s=80, own_cc="yes", interval_s=1.0, flow="flow_2", streams=4, port=5201
        ),
    ),
    (
        "file_transfer",
        {"http": "3", "client": {**CLIENT, "direction": "download", "deadline_s": 60}},
        values(mode="client", http="3", size=30_000_000, direction="download", deadline_s=60),
    ),
    (
        "file_transfer",
        {"client": {**CLIENT, "warm_up": "10M"}},
        {"warm_up": 10_000_000, "size": 30_000_000},
    ),
    ("file_transfer", {"client": {**CLIENT, "warm_up": "none"}}, {"warm_up": 0}),
    (
        "file_transfer",
        {"client": {**CLIENT, "direction": "none"}},
        {"mode": "client", "direction": "none"},
    ),
    (
        "ping_series",
        {"interval_s": "0.5", "destination_ip": "10.0.0.1"},
        {"interval_s": 0.5, "destination_ip": "10.0.0.1"},
    ),
    ("voip", {"server": {}}, {"mode": "server"}),
    (
        "voip",
        {"client": {"server_ip": "192.168.20.2", "duration_s": "30", "buffer_ms": 60}},
        {"mode": "client", "server_ip": "192.168.20.2", "duration_s": 30.0, "buffer_ms": 60.0},
    ),
    ("dash_video", {"server": {"duration_s": "8"}}, {"mode": "server", "duration_s": 8}),
    ("web_page", {"server": {"http": "3"}}, {"mode": "server", "http": "3"}),
    (
        "web_page",
        {"client": {"server_ip": "192.168.20.2", "http": "1.1", "loads": "5", "deadline_s": 60}},
        values(mode="client", server_ip="192.168.20.2", http="1.1", loads=5, deadline_s=60),
    ),
]


def program(job: str) -> Any:
    return importlib.import_module(job)


def stored(arguments: dict[str, Any]) -> dict[str, Any]:
    """The backend's form of a scenario's arguments.

    Values in two lists, subcommands as they are.
    """
    return {
        name: stored(value) if isinstance(value, dict) else [[str(value)]]
        for name, value in arguments.items()
    }


@pytest.mark.parametrize(("job", "given", "read"), CASES)
def test_a_scenarios_arguments_reach_the_program(
    job: str, given: dict[str, Any], read: dict[str, Any]
) -> None:
    parsed = vars(program(job).parse(argv(PACKAGES[job].job.arguments, stored(given))))
    assert {name: parsed[name] for name in read} == read


@pytest.mark.parametrize("job", sorted(PACKAGES))
def test_the_command_is_the_programs_path_on_an_agent(job: str) -> None:
    assert (
        PACKAGES[job].job.command
        == f"/opt/openbach/virtualenv/bin/python3 /opt/openbach/agent/jobs/{job}/{job}.py"
    )


def test_transports_are_the_same_in_yaml_and_program() -> None:
    (cc,) = PACKAGES["transport_profile"].job.arguments.required
    assert list(cc.choices) == program("transport_profile").profiles.names()


REFUSED = {
    "cache_download": [
        "",
        "client",
        "client 10.0.0.1 --parallel 0",
        "client 10.0.0.1 --parallel 51",
        "client 10.0.0.1 --files -1",
        "client 10.0.0.1 --http 3",
        "client 10.0.0.1 --deadline-s 0",
    ],
    "daemons": ["--interval-s -1", "--interval-s nan", "5"],
    "file_transfer": [
        "",
        "client 10.0.0.1 0.5",
        "client 10.0.0.1 30X",
        "--http 2 client 10.0.0.1 1M --direction upload",
    ],
    "nat": ["box to_sat", "terminal", "none a --udp-timeout-s -1"],
    "outage": [
        "",
        "eth0 --after-s -1",
        "eth0 --duration-s nan",
        "eth0 --kind address --new-address here",
    ],
    "ping_series": [
        "",
        "1",
        "1 10.0.0.1 --payload-bytes 8",
        "-1 10.0.0.1",
        "0.001 10.0.0.1",
        "nan 10.0.0.1",
    ],
    "satcom_link": [
        "moon a b run",
        "geo a run",
        "geo a b --loss 101 run",
        "geo a b --rate 0 run",
        "geo a b --rate 10Q run",
        "geo a b --buffer-bdp -1 run",
        "geo a b --seed x run",
        "geo a b --burst-packets 0.5 run",
        "geo a b --loss 90 --burst-packets 2 run",
        "geo a b --jitter-ms -1 run",
        "geo a b --queue red run",
    ],
    "tcp_throughput": ["client 10.0.0.1 --streams 0", "client 10.0.0.1 --interval-s 0.05"],
    "udp_stress": [
        "client 10.0.0.1",
        "client 10.0.0.1 1M --payload-bytes 8",
        "client 10.0.0.1 1",
        "client 10.0.0.1 nan",
        "client 10.0.0.1 inf",
        "client 10.0.0.1 101G",
    ],
    "voip": ["", "client 10.0.0.1", "client 10.0.0.1 0", "client 10.0.0.1 60 --buffer-ms -1"],
    "dash_video": ["", "client", "client 10.0.0.1 --buffer-s 0", "server --http 4"],
    "web_page": ["", "client", "client 10.0.0.1 --loads 0", "client 10.0.0.1 --http 4"],
}


@pytest.mark.parametrize(
    ("job", "words"), [(job, words) for job, every in REFUSED.items() for words in every]
)
def test_what_a_job_refuses(job: str, words: str) -> None:
    with pytest.raises(SystemExit) as end:
        program(job).parse(words.split())
    assert end.value.code == 2


def test_an_outage_of_20_seconds_at_once_is_the_default() -> None:
    arguments = program("outage").parse(["eth0"])
    assert (arguments.kind, arguments.after_s, arguments.duration_s) == ("drop", 0, 20)


def test_nothing_comes_in_by_the_outer_interface_of_a_nat() -> None:
    arguments = program("nat").parse(["terminal", "to_sat"])
    assert arguments.udp_timeout_s == 0
    rules = program("nat").RULES.format(outside=arguments.outside)
    assert 'oifname "to_sat" masquerade' in rules
    assert 'iifname "to_sat" ct state new counter name refused drop' in rules


def close_next(listener: socket.socket) -> None:
    listener.accept()[0].close()


def test_a_server_that_closes_is_no_answer() -> None:
    program("file_transfer")
    control: Any = importlib.import_module("openbach_jobs.control")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=close_next, args=(listener,), daemon=True).start()
        with pytest.raises(OSError, match=r"without an answer|reset"):
            control.ask("127.0.0.1", listener.getsockname()[1], limit_s=5, retransmits=True)
