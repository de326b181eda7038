# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of VPNs (`vpn.NAME=VALUE`) and of the end hosts' TCP.

Each is seen to act, in the packets or in the kernel.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers.guest_runs import REPOSITORY, Run, RunCells, command, records
from helpers.scenario_with import made_of, ran
from helpers.vpns_tested import on

GEO = ("cc=cubic", "size=60k")
RTT_S = 0.5
WINDOW_BYTES = 65535
"""The largest without window scaling."""
MSS, WINDOW_SCALE, SACK_PERMITTED = 2, 3, 4
"""Options of TCP."""
TCP = 6
SYN, ACK, ECE, CWR = 0x02, 0x10, 0x40, 0x80
MARKED = 3
"""Of the two bits of ECN."""
NO_KEY = "A" * 43 + "="
KEEPALIVE = {"wireguard": 20 + 8 + 32, "openvpn_udp": 52 + 16}
"""Length of a packet outside the tunnel that carries nothing."""


class Segment(NamedTuple):
    """A TCP segment: its flags, the bits of ECN of its packet, and its options by number."""

    flags: int
    ecn: int
    options: dict[int, bytes]


def segments(run: Run, interface: str) -> list[Segment]:
    return [segment(packet) for packet in on(run, interface) if packet[9] == TCP]


def segment(packet: bytes) -> Segment:
    tcp = packet[4 * (packet[0] & 15) :]
    return Segment(tcp[13], packet[1] & 3, dict(options(tcp[20 : 4 * (tcp[12] >> 4)])))


def options(text: bytes) -> Iterator[tuple[int, bytes]]:
    while text and text[0]:
        length = 1 if text[0] == 1 else text[1]
        yield text[0], text[2:length]
        text = text[length:]


def syns(run: Run) -> list[Segment]:
    """Those of the end hosts, of the transfer and its control."""
    found = [one for name in ("pc/", "server/") for one in segments(run, name) if one.flags & SYN]
    assert found
    return found


def by_values(runs: list[Run], name: str = "vpn_values") -> dict[str, Run]:
    return {run.row[name]: run for run in runs}


def fragments(run: Run) -> int:
    return sum(int(run.row[f"{side}_fragments"]) for side in ("forward", "return"))


def largest(run: Run, interface: str) -> int:
    return max(map(len, on(run, interface)))


def time_s(run: Run) -> float:
    return float(run.row["transfer_time_s"])


# A VPN's


def test_the_mtu_follows_the_cipher_that_is_given(run_cells: RunCells) -> None:
    settings = ("vpn=openvpn_udp", "vpn.cipher=AES-256-CBC,CHACHA20-POLY1305,default")
    runs = by_values(run_cells("geo", *settings, *GEO, pcap=True))
    assert {values: fragments(run) for values, run in runs.items()} == dict.fromkeys(runs, 0)
    assert {values: largest(run, "pop/to_gw") for values, run in runs.items()} == {
        "cipher=AES-256-CBC": 1492,
        "cipher=CHACHA20-POLY1305": 1500,
        "none": 1500,
    }


OTHER_CIPHERS = (
    ("nebula", "chachapoly"),
    ("openvpn_dco", "CHACHA20-POLY1305"),
    ("openvpn_tcp", "AES-128-CBC"),
    ("strongswan", "aes128-sha256"),
)


@pytest.mark.parametrize(("vpn", "cipher"), OTHER_CIPHERS)
def test_other_vpns_take_a_cipher(run_cells: RunCells, vpn: str, cipher: str) -> None:
    (run,) = run_cells("geo", f"vpn={vpn}", f"vpn.cipher={cipher}", *GEO, pcap=True)
    assert fragments(run) == 0
    assert 1450 < largest(run, "pop/to_gw") <= 1500


def test_a_lighthouse_and_its_ends_have_the_same_values(tmp_path: Path) -> None:
    settings = [
        "orbit=leo",
        "vpn=nebula_lighthouse",
        "vpn.cipher=chachapoly",
        "cc=cubic",
        "size=60k",
    ]
    ended = command("coordinated", *settings, "--results", str(tmp_path / "r"))
    assert ended.returncode == 0, ended.stderr
    (run,) = records(tmp_path / "r")
    assert float(run.row["transfer_time_s"]) > 0


@pytest.mark.parametrize("setting", ["vpn.mssfix=1300 fixed", "vpn.options=--mssfix 1300 fixed"])
@pytest.mark.parametrize("vpn", ["openvpn_udp", "openvpn_tcp"])
def test_openvpn_makes_the_segments_in_the_tunnel_smaller(
    run_cells: RunCells, vpn: str, setting: str
) -> None:
    (run,) = run_cells("geo", f"vpn={vpn}", setting, *GEO, pcap=True)
    assert largest(run, "server/") == 1300
    assert {
        int.from_bytes(one.options[MSS], "big")
        for one in segments(run, "box/to_pc")
        if one.flags & SYN
    } == {1260}


@pytest.mark.parametrize("vpn", KEEPALIVE)
def test_a_keepalive_is_sent_while_nothing_else_is(run_cells: RunCells, vpn: str) -> None:
    """Beside three pings, 5 s apart."""
    settings = (f"vpn={vpn}", "delay_ms=100", "pings=3", "ping_s=5", "impairment=none")
    runs = by_values(run_cells("lan_ping", *settings, "vpn.keepalive=1,default", pcap=True))
    counted = {
        values: sum(len(one) == KEEPALIVE[vpn] for one in on(run, "box_1/to_lan"))
        for values, run in runs.items()
    }
    assert counted["keepalive=1"] >= counted["none"] + 6, counted


def test_wireguard_has_a_preshared_key_which_is_nowhere_else(tmp_path: Path) -> None:
    settings = ("vpn=wireguard", "vpn.psk=on,off", *GEO, "--pcap", "--keys")
    ended = command("geo", *settings, "--results", str(tmp_path / "r"))
    assert ended.returncode == 0, ended.stderr
    keys = {run.row["vpn_values"]: preshared(run) for run in records(tmp_path / "r")}
    assert keys["psk=off"] == {NO_KEY}
    (key,) = keys["psk=on"]
    assert key != NO_KEY
    for file in (tmp_path / "r").rglob("*"):
        if file.is_file() and file.name != "wireguard.keys":
            assert key.encode() not in file.read_bytes(), file
    assert key not in ended.stdout + ended.stderr


def preshared(run: Run) -> set[str]:
    """The pre-shared keys of a run's handshakes."""
    lines = (run.record / "wireguard.keys").read_text().splitlines()
    return {line.partition(" = ")[2] for line in lines if line.startswith("PRESHARED_KEY")}


def test_wireguard_in_user_space_has_a_preshared_key(run_cells: RunCells) -> None:
    (run,) = run_cells("geo", "vpn=wireguard_go", "vpn.psk=on", *GEO)
    assert time_s(run) < 5


def test_strongswan_takes_a_proposal(run_cells: RunCells) -> None:
    (run,) = run_cells("geo", "vpn=strongswan", "vpn.proposal=aes128gcm16-prfsha256-x25519", *GEO)
    assert time_s(run) < 5


@pytest.mark.parametrize("buffer", ["sndbuf", "rcvbuf"])
def test_a_small_socket_buffer_of_openvpn_slows_its_tcp(run_cells: RunCells, buffer: str) -> None:
    runs = run_cells("geo", "vpn=openvpn_tcp", "cc=cubic", "size=1M", f"vpn.{buffer}=40000,default")
    small, usual = map(time_s, runs)
    assert small > 1.5 * usual


def test_a_buffer_that_the_kernel_does_not_give_is_told(tmp_path: Path) -> None:
    settings = ("vpn=openvpn_udp", "vpn.rcvbuf=9000000", *GEO)
    ended = command("geo", *settings, "--results", str(tmp_path / "r"))
    assert ended.returncode == 1
    assert (
        "this kernel gives a socket at most 4194304 bytes, not 9000000 (net.core.rmem_max)"
        in ended.stderr
    )


def test_a_sweep_is_in_the_table_and_in_the_records(tmp_path: Path) -> None:
    settings = ("vpn=wireguard", "vpn.keepalive=10,default", "vpn.psk=on", *GEO)
    ended = command("geo", *settings, "--results", str(tmp_path / "r"))
    assert ended.returncode == 0, ended.stderr
    assert "vpn_values=keepalive=10;psk=on  vpn_values=psk=on" in ended.stdout
    runs = records(tmp_path / "r")
    assert [run.row["vpn_values"] for run in runs] == ["keepalive=10;psk=on", "psk=on"]
    recorded = json.loads((runs[0].record / "record.json").read_text())
    assert "'vpn_values=keepalive=10;psk=on'" in recorded["command"], "it can be pasted"


# TCP's


def test_without_window_scaling_a_window_is_64_kib(run_cells: RunCells) -> None:
    settings = ("vpn=none", "cc=cubic", "size=500k", "window_scaling=off,default")
    off, usual = run_cells("geo", *settings, pcap=True)
    assert not any(WINDOW_SCALE in one.options for one in syns(off))
    assert all(WINDOW_SCALE in one.options for one in syns(usual))
    assert time_s(off) > 500_000 / WINDOW_BYTES * RTT_S > time_s(usual)
    assert read_back(off) == {"window_scaling": 0}
    assert read_back(usual) == {}


def test_without_sack_nobody_offers_it(run_cells: RunCells) -> None:
    off, usual = run_cells("geo", "vpn=none", *GEO, "sack=off,default", pcap=True)
    assert not any(SACK_PERMITTED in one.options for one in syns(off))
    assert all(SACK_PERMITTED in one.options for one in syns(usual))
    assert read_back(off) == {"sack": 0}


def test_a_queue_marks_packets_that_have_ecn(run_cells: RunCells) -> None:
    settings = ("vpn=none", "cc=cubic", "size=10M", "queue=cake", "ecn=on,off,default")
    runs = by_values(run_cells("geo", *settings, pcap=True), "ecn")
    for value, run in runs.items():
        asked = [one for one in syns(run) if one.flags & (ACK | ECE | CWR) == ECE | CWR]
        answered = [one for one in syns(run) if one.flags & (ACK | ECE | CWR) == ACK | ECE]
        assert bool(asked) == bool(answered) == (value == "on")
    marked = {
        value: sum(one.ecn == MARKED for one in segments(run, "st/")) for value, run in runs.items()
    }
    assert marked["on"] > 0 == marked["off"] == marked["default"]
    assert {value: read_back(run) for value, run in runs.items()} == {
        "on": {"ecn": 1},
        "off": {"ecn": 0},
        "default": {},
    }


@pytest.mark.parametrize("direction", ["download", "upload"])
def test_a_small_buffer_is_the_largest_window(run_cells: RunCells, direction: str) -> None:
    settings = (
        "vpn=none",
        "cc=cubic",
        "size=300k",
        f"direction={direction}",
        "tcp_buffer=64k,default",
    )
    small, usual = run_cells("geo", *settings)
    assert time_s(small) > 300_000 / 64_000 * RTT_S > time_s(usual)
    assert read_back(small) == {"buffer_bytes": 64_000}


def test_large_buffers_find_memory(run_cells: RunCells) -> None:
    """They take what no other host lacks: the receiver drops nothing that it has acknowledged."""
    path = ("vpn=none", "cc=bbr", "delay_ms=300", "rate=100M", "size=100M")
    large, usual = run_cells("geo", *path, "tcp_buffer=32M,default")
    assert time_s(large) == pytest.approx(time_s(usual), rel=0.05)


def read_back(run: Run) -> dict[str, Any]:
    """What the end hosts' kernels have, of the options that were given."""
    hosts = ("satvpn_pc", "satvpn_server")
    names = ("buffer_bytes", "ecn", "sack", "window_scaling")
    lines = [
        one
        for one in run.statistics("transport_profile")
        if one["_metadata"]["agent_name"] in hosts
    ]
    found: list[dict[str, Any]] = [
        {name: one[name] for name in names if name in one} for one in lines
    ]
    assert len(found) == len(hosts)
    assert found[0] == found[1]
    return found[0]


SETTINGS = "cd /proc/sys/net/ipv4; cat tcp_ecn tcp_sack tcp_window_scaling tcp_rmem tcp_wmem"
GIVEN: Mapping[str, str] = {
    "cc": "reno",
    "ecn": "on",
    "sack": "off",
    "window_scaling": "off",
    "buffer_bytes": "50k",
}


def test_the_kernels_own_settings_come_back(tmp_path: Path) -> None:
    """A look before, while and after the profile is there."""
    looks = [look(number, [number - 1] if number else []) for number in (0, 2, 4)]
    start = function(
        1,
        [0],
        {"start_job_instance": {"entity_name": "satvpn_pc", "transport_profile": dict(GIVEN)}},
    )
    stop = function(3, [2], {"stop_job_instances": {"openbach_function_ids": [1]}})
    functions = sorted([*looks, start, stop], key=lambda one: one["id"])
    start["wait"] = {"time": 0, "launched_ids": [], "finished_ids": [0]}
    looks[1]["wait"] = {"time": 1, "launched_ids": [1], "finished_ids": []}
    looks[2]["wait"] = {"time": 1, "launched_ids": [3], "finished_ids": []}
    run = ran(made_of(tmp_path, functions), tmp_path / "r")
    before, meanwhile, after = (one["printed"].split() for one in run.statistics("snapshot"))
    assert meanwhile == ["1", "0", "0", "4096", "50000", "50000", "4096", "16384", "50000"]
    assert before == after != meanwhile


def look(number: int, finished: list[int]) -> dict[str, Any]:
    started = {"entity_name": "satvpn_pc", "snapshot": {"command": SETTINGS}}
    return function(number, finished, {"start_job_instance": started})


def function(number: int, finished: list[int], what: dict[str, Any]) -> dict[str, Any]:
    wait = {"time": 0, "launched_ids": [], "finished_ids": finished}
    return {"id": number, "label": str(number), "wait": wait, "on_fail": {}, **what}


# What is refused


@pytest.mark.parametrize(
    ("settings", "right"),
    [
        ("vpn=wireguard vpn.keepalife=25", "wireguard does not read it; did you mean keepalive?"),
        (
            "vpn=wireguard vpn.cipher=AES-256-CBC",
            "wireguard does not read it; it has clamp, keepalive, mtu, post_up, pre_up, psk",
        ),
        (
            "vpn=none,openvpn_udp vpn.cipher=AES-256-CBC",
            "there is no VPN that could have it (vpn=none)",
        ),
        (
            "vpn=strongswan vpn.encap=yes",
            "give vpn=strongswan (encap=no) or strongswan_udp (encap=yes)",
        ),
        ("vpn=openvpn_udp vpn.keepalive=abc", "abc should be seconds, as 10"),
        ("vpn=none window_scaling=of", "window_scaling is one of default, on, off"),
    ],
)
def test_what_a_vpn_does_not_have_starts_no_guest(settings: str, right: str) -> None:
    ended = command("geo", "cc=cubic", *settings.split(), "--dry-run", cwd=REPOSITORY)
    assert ended.returncode == 2
    assert right in ended.stderr
