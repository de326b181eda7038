# SPDX-License-Identifier: GPL-3.0-or-later
"""Every VPN: the same packets for the same seed, nothing in clear, the overhead that its vpn.json says, counters, and how it
fails. Those whose program is built from a crate are in `make vpns` (BUILT_VPNS=1) only."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

import pcapng
import pytest
from conftest import REPOSITORY, Run, RunCells, command, records
from scenario_with import TEST_JOBS, Job, scenario_of, with_snapshot

sys.path.insert(0, str(REPOSITORY / "jobs/vpn/files"))
from vpn_folders import describe, kinds

TESTED = ("CI", "make vpns") if os.environ.get("BUILT_VPNS") else ("CI",)
VPNS = [kind for kind in kinds() if describe(kind)["tested"] in TESTED]
IN_CLEAR = [kind for kind in VPNS if kind.endswith("_plain")]
CELLS = ("geo", f"vpn={','.join(['none', *VPNS])}", "cc=cubic", "loss=1", "size=300k")
WITHOUT_COUNTERS = [*(kind for kind in VPNS if not describe(kind)["device"]), "openvpn_dco"]
"""The interface of openvpn_dco goes with its daemon, which an agent ends first."""
NEEDLE_BYTES = 64
POP = {"local_ip": "10.10.4.2", "remote_ip": "10.10.1.1", "remote_network": "192.168.10.0/24"}
BOX = {"local_ip": "10.10.1.1", "remote_ip": "10.10.4.2", "remote_network": "192.168.20.0/24"}
LIMIT_S = 60
"""After which the job says what did not come (LIMIT_S of vpn.py)."""


@pytest.fixture
def runs(run_cells: RunCells) -> dict[str, Run]:
    """By VPN, with their captures."""
    return {run.row["vpn"]: run for run in run_cells(*CELLS, pcap=True)}


def on(run: Run, interface: str) -> list[bytes]:
    return [packet.ip for packet in pcapng.read(run.capture) if packet.interface.startswith(interface) and packet.ip]


def payload_on_the_satellite(run: Run) -> bool:
    """Whether bytes of a full segment of the download are in a packet of the satellite."""
    segment = max(on(run, "server/to_pop"), key=len)
    return any(segment[-NEEDLE_BYTES:] in packet for packet in on(run, "sat/"))


def test_same_seed_same_capture(runs: dict[str, Run], run_cells: RunCells) -> None:
    again = {run.row["vpn"]: run.row["capture_sha256"] for run in run_cells(*CELLS)}
    assert {vpn: run.row["capture_sha256"] for vpn, run in runs.items()} == again


@pytest.mark.parametrize("vpn", VPNS)
def test_the_payload_is_not_on_the_satellite(runs: dict[str, Run], vpn: str) -> None:
    assert payload_on_the_satellite(runs["none"])
    assert payload_on_the_satellite(runs[vpn]) == (vpn in IN_CLEAR)


@pytest.mark.parametrize("vpn", [vpn for vpn in VPNS if describe(vpn)["overhead_bytes"]])
def test_extra_bytes_of_a_full_packet_are_the_overhead(runs: dict[str, Run], vpn: str) -> None:
    described, run = describe(vpn), runs[vpn]
    assert max(map(len, on(run, "server/to_pop"))) == described["inner_mtu"]
    sizes = Counter(map(len, on(run, "pop/to_gw")))
    assert sizes.most_common(1)[0][0] == described["inner_mtu"] + described["overhead_bytes"]
    assert max(sizes) <= 1500


@pytest.mark.parametrize("vpn", VPNS)
def test_every_tunnel_tells_the_same(runs: dict[str, Run], vpn: str) -> None:
    told = runs[vpn].statistics("vpn")
    assert [line["setup_time_s"] < LIMIT_S for line in told if "setup_time_s" in line] == [True, True]
    assert all(500 <= line["first_rtt_ms"] < 1000 * LIMIT_S for line in told if "setup_time_s" in line)
    if describe(vpn)["handshake_line"]:
        assert all(1 <= line["handshakes"] < 10 for line in told if "setup_time_s" not in line)
    counters = [line for line in told if "rx_bytes" in line]
    if vpn in WITHOUT_COUNTERS:
        assert not counters
        return
    assert len(counters) == 2
    assert max(line["rx_bytes"] for line in counters) > 300_000
    assert all(line["rx_packets"] > 100 and line["tx_packets"] > 100 for line in counters)


@pytest.mark.parametrize(
    ("shell", "printed"),
    [
        ("echo /sys/class/net/*", " ".join(f"/sys/class/net/{name}" for name in ("lo", "to_pc", "to_st"))),  # no tunl0
        ("ethtool -k to_st | grep -c 'tx-udp-segmentation: off'", "1"),
        ("echo 5 > /var/run/test && awk '{print NR + 9}' /var/run/test", "10"),
    ],
)
def test_a_host_has_what_a_vpn_expects(tmp_path: Path, shell: str, printed: str) -> None:
    scenario = scenario_of(tmp_path, Job("box", "snapshot", {"command": shell}))
    ended = command(str(scenario), "--jobs", str(TEST_JOBS), "--results", str(tmp_path / "r"))
    assert ended.returncode == 0, ended.stderr
    (run,) = records(tmp_path / "r")
    assert run.statistics("snapshot")[0]["printed"].strip() == printed


# Failures


def failed_run(tmp_path: Path, scenario: Path, *values: str) -> Run:
    arguments = ["--jobs", str(TEST_JOBS), "--results", str(tmp_path / "r"), "--pcap"]
    assert command(str(scenario), *values, *arguments).returncode == 1
    (run,) = records(tmp_path / "r")
    assert run.row["status"] == "Finished Ko"
    return run


def error_of(run: Run) -> str:
    return str(json.loads((run.record / "record.json").read_text())["error"])


@pytest.mark.parametrize(("vpn", "daemon"), [("openvpn_udp", "openvpn"), ("strongswan_policies", "charon-systemd")])
def test_a_daemon_that_is_killed_ends_the_run_and_nothing_goes_in_clear(tmp_path: Path, vpn: str, daemon: str) -> None:
    """The run ends soon, with the reason; the sender goes on for a while, and what it sends must not leave the POP."""
    kill = with_snapshot(tmp_path, ("box", 3, f"pkill -9 -f ^{daemon}; echo 0"))
    run = failed_run(tmp_path, kill, f"vpn={vpn}", "cc=cubic", "loss=0", "size=30M")
    assert f"{vpn} ended by itself with exit code -9" in error_of(run)
    assert float(run.row["virtual_s"]) < LIMIT_S
    lan = bytes([192, 168])
    assert not [packet for packet in on(run, "sat/") if packet[12:14] == lan or packet[16:18] == lan]
    late = [packet.time_ns for packet in pcapng.read(run.capture) if packet.interface == "server/to_pop" and packet.ip]
    left = [packet.time_ns for packet in pcapng.read(run.capture) if packet.interface == "pop/to_gw" and packet.ip]
    assert max(late) > max(left), "the server sent nothing more: the test shows nothing"


def vpn_job(role: str, kind: str = "wireguard") -> Job:
    host, ends = ("pop", POP) if role == "server" else ("box", BOX)
    return Job(host, "vpn", {"kind": kind, **ends, role: {}})


def test_a_client_that_never_comes(tmp_path: Path) -> None:
    wait = Job("pop", "vpn", {"kind": "wireguard", **POP, "wait": {}}, launched=[0])
    run = failed_run(tmp_path, scenario_of(tmp_path, vpn_job("server"), wait))
    assert "no VPN client has connected to port 5999 after 60 s" in error_of(run)
    assert float(run.row["virtual_s"]) < LIMIT_S + 10


IMPOSTOR = """python3 -c '
import json, socket
server = socket.create_connection(("10.10.4.2", 5999))
server.sendall(json.dumps("{key}").encode() + bytes([10]))
print(len(server.recv(100)))'"""


def test_a_peer_with_a_wrong_key(tmp_path: Path) -> None:
    """Somebody else was faster to give the server a key: no packet goes through, and both ends say what they lack."""
    impostor = Job("box", "snapshot", {"command": "sleep 1; " + IMPOSTOR.format(key=43 * "A" + "=")}, launched=[0])
    scenario = scenario_of(tmp_path, vpn_job("server"), impostor, vpn_job("client")._replace(finished=[1]))
    run = failed_run(tmp_path, scenario)
    assert "no packet has gone through wireguard after 60 s" in error_of(run)
    assert float(run.row["virtual_s"]) < LIMIT_S + 10
