# SPDX-License-Identifier: GPL-3.0-or-later
"""How each VPN ends when something is wrong.

Within a stated time, with the reason, and nothing has gone in clear.

A fault is a change of the VPN's own folder, in a directory beside ours (--with); all VPNs with the
same fault are one campaign.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import pcapng
from helpers.guest_runs import Run, command, records
from helpers.scenario_with import TEST_JOBS, Job, scenario_of, with_snapshot
from helpers.vpns_tested import LIMIT_S, VPNS, describe, error_of, scripts

from openbach_run.engine.virtual.engine import GUEST_START_NS
from openbach_run.results import run_files

SETUP_S = 15
"""Until both ends of the tunnel are launched."""
END_S = LIMIT_S + SETUP_S
POP = {"local_ip": "10.10.4.2", "remote_ip": "10.10.1.1", "remote_network": "192.168.10.0/24"}
POLICIES = "strongswan_policies"
"""The VPN without an interface."""
LAN, SERVER = bytes([192, 168]), bytes([192, 168, 20])
ENDS = ("server/to_pop", "box/to_pc")
"""Where the download's packets are first and last."""
DAEMONS = sorted({describe(vpn)["commands"][0] for vpn in VPNS if describe(vpn)["daemon"]})
Reasons = dict[str, tuple[Run, str]]
"""By VPN: its run, and why that failed."""

WRONG_KEY = """#!/bin/sh
# The client tells the server of another key than the one it has.
set -eu
[ "$VPN_ROLE" = client ] || exec "$(dirname "$0")/own_keygen"
"$(dirname "$0")/own_keygen" > "$VPN_DIR/told"
mkdir "$VPN_DIR/other"
VPN_DIR="$VPN_DIR/other" exec "$(dirname "$0")/own_keygen"
"""
NEVER_COMES = """#!/bin/sh
[ "$VPN_ROLE" = client ] || exec "$(dirname "$0")/own_up"
exec sleep 1000
"""


def instead_of(script: str, text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / script).rename(folder / f"own_{script}")
        (folder / script).write_text(text)
        (folder / script).chmod(0o755)

    return change


def too_big(folder: Path) -> None:
    described = json.loads((folder / "vpn.json").read_text())
    described["inner_mtu"] = 1501 - described["overhead_bytes"]
    (folder / "vpn.json").write_text(json.dumps(described))


@pytest.fixture(scope="module")
def reasons(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Reasons]:
    """Runs of all VPNs with a fault, which is the function of that name."""
    done: dict[str, Reasons] = {}

    def run(fault: str) -> Reasons:
        if fault not in done:
            place = tmp_path_factory.mktemp(fault)
            vpns = [vpn for vpn in VPNS if fault != "too_big" or describe(vpn)["overhead_bytes"]]
            for vpn in vpns:
                folder = place / f"vpn-configs/{vpn}_{fault}"
                shutil.copytree(scripts(vpn), folder)
                own = {
                    key: value
                    for key, value in describe(vpn).items()
                    if key not in ("base", "own_mtu")
                }
                (folder / "vpn.json").write_text(json.dumps(own))
                FAULTS[fault](folder)
            names = ",".join(f"{vpn}_{fault}" for vpn in vpns)
            cells = (f"vpn={names}", "cc=cubic", "loss=0", "size=300k")
            ended = command(
                "geo", *cells, "--with", str(place), "--results", str(place / "r"), "--pcap"
            )
            assert ended.returncode == 1, ended.stderr
            done[fault] = by_vpn(place / "r", f"_{fault}")
        return done[fault]

    return run


def by_vpn(results: Path, suffix: str = "") -> Reasons:
    return {run.row["vpn"].removesuffix(suffix): (run, error_of(run)) for run in records(results)}


def nothing_went_in_clear(run: Run, until_ns: float = math.inf) -> bool:
    return not [
        packet
        for packet in pcapng.read(run.capture)
        if packet.interface.startswith("sat/")
        and packet.ip
        and LAN in (packet.ip[12:14], packet.ip[16:18])
        and packet.time_ns < until_ns
    ]


def stopped_ns(run: Run) -> float:
    """When the POP's VPN is told to stop, on the guest's clock in ns; its run begins in second 1."""
    events = map(json.loads, run_files.content(run.record, "events.jsonl").splitlines())
    stops = [
        event["t_s"]
        for event in events
        if (event["event"], event.get("job"), event.get("entity"))
        == ("job_stop_ordered", "vpn", "satvpn_pop")
    ]
    return GUEST_START_NS + 1e9 * (1 + min(stops, default=math.inf))


FAULTS = {
    "wrong_key": instead_of("keygen", WRONG_KEY),
    "never_comes": instead_of("up", NEVER_COMES),
    "too_big": too_big,
}


@pytest.mark.parametrize("vpn", VPNS)
@pytest.mark.parametrize("fault", ["wrong_key", "never_comes"])
def test_no_tunnel(reasons: Callable[[str], Reasons], fault: str, vpn: str) -> None:
    run, error = reasons(fault)[vpn]
    name = f"{vpn}_{fault}"
    said = (
        f"no packet has gone through {name} after 60 s",
        f"is not reached through {name} (vpn0) after 60 s",  # the role `wait` of the same host
        f"{name} ended by itself",
        f"{name}: `up` has not ended after 60 s",
    )
    assert run.row["status"] == "Finished Ko"
    assert any(reason in error for reason in said), error
    assert float(run.row["virtual_s"]) < END_S
    assert nothing_went_in_clear(run)


@pytest.mark.parametrize("vpn", [vpn for vpn in VPNS if describe(vpn)["overhead_bytes"]])
def test_a_tunnel_that_does_not_fit(reasons: Callable[[str], Reasons], vpn: str) -> None:
    run, error = reasons("too_big")[vpn]
    assert "its MTU is too big" in error
    assert float(run.row["virtual_s"]) < SETUP_S


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Reasons:
    """Runs in which the client's daemon is killed in mid transfer.

    Of a VPN without one, its interface is deleted.
    """
    place = tmp_path_factory.mktemp("killed")
    of_this_host = f"pkill -9 --ns $$$$ --nslist net -x '{'|'.join(DAEMONS)}'"
    kill = with_snapshot(place, ("box", 6, f"{of_this_host} || ip link del vpn0"))
    cells = (f"vpn={','.join(VPNS)}", "cc=cubic", "loss=0", "size=10M")
    ended = command(
        str(kill), *cells, "--jobs", str(TEST_JOBS), "--results", str(place / "r"), "--pcap"
    )
    assert ended.returncode == 1, ended.stderr
    return by_vpn(place / "r")


@pytest.mark.parametrize("vpn", VPNS)
def test_a_tunnel_that_ends_in_mid_transfer(killed: Reasons, vpn: str) -> None:
    """The run ends soon, with the reason.

    The sender goes on for a while, and what it sends must not leave the POP.
    """
    run, error = killed[vpn]
    # Where the tunnel ends TCP, the kernel of the killed program resets the transfer at once.
    reset = describe(vpn)["ends_tcp"] and "control socket has closed" in error
    assert f"{vpn} ended by itself" in error or reset
    assert "private" not in error.lower(), "a daemon's last lines tell its key"
    assert float(run.row["virtual_s"]) < LIMIT_S
    # Policies are gone as soon as the VPN is stopped; a server's FIN that comes then is in clear.
    assert nothing_went_in_clear(run, stopped_ns(run) if vpn == POLICIES else math.inf)
    packets = [
        packet for packet in pcapng.read(run.capture) if packet.ip and packet.ip[12:15] == SERVER
    ]
    sent_ns, arrived_ns = (
        [packet.time_ns for packet in packets if packet.interface == name] for name in ENDS
    )
    assert len(arrived_ns) > 50, "it was killed before the transfer"
    assert max(sent_ns) > max(arrived_ns), "the server sent nothing more: the test shows nothing"


MOVE = (
    "way=$$(ip route show default); ip address del 10.10.1.1/24 dev to_st; ip address add"
    " 10.10.1.77/24 dev to_st; ip route replace $$way; echo $$way"
)
ROAMS = {
    "connect_ip", "easytier", "nebula", "nebula_chacha", "nebula_lighthouse", "openvpn_dco",
    "quic_split", "rosenpass", "tailscale", "tinc_router", "tinc_switch", "wireguard",
    "wireguard_go", "yggdrasil", "zerotier",
}  # fmt: skip
"""VPNs whose tunnel outlives the address of the client: tinc connects anew from the new one."""
ROAMED_S = 150
"""By then the transfer of some 10 s has ended: EasyTier's other end takes two minutes to find the
client again, and TCP doubles its time-out while tinc connects."""


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Reasons:
    """Runs in which the client's address changes in mid transfer."""
    place = tmp_path_factory.mktemp("moved")
    cells = (f"vpn={','.join(VPNS)}", "cc=cubic", "loss=0", "size=10M")
    scenario = with_snapshot(place, ("box", 5, MOVE))
    ended = command(str(scenario), *cells, "--jobs", str(TEST_JOBS), "--results", str(place / "r"))
    assert ended.returncode == (0 if {*VPNS} <= ROAMS else 1), ended.stderr
    return by_vpn(place / "r")


@pytest.mark.parametrize("vpn", VPNS)
def test_an_address_that_changes_in_mid_transfer(moved: Reasons, vpn: str) -> None:
    run, error = moved[vpn]
    if vpn in ROAMS:
        assert run.row["status"] == "Finished Ok", error
        assert float(run.row["virtual_s"]) < ROAMED_S
    else:
        lost = (
            f"no packet has gone through {vpn} since this host lost its address 10.10.1.1, after"
            " 60 s"
        )
        assert lost in error or f"{vpn} ended by itself" in error
        assert float(run.row["virtual_s"]) < END_S + 20


def test_a_client_that_never_comes(tmp_path: Path) -> None:
    """The exchange of keys is the job's: the same for every VPN."""
    server = Job("pop", "vpn", {"kind": "wireguard", **POP, "server": {}})
    wait = Job("pop", "vpn", {"kind": "wireguard", **POP, "wait": {}}, launched=[0])
    scenario = scenario_of(tmp_path, server, wait)
    arguments = ["--jobs", str(TEST_JOBS), "--results", str(tmp_path / "r")]
    assert command(str(scenario), *arguments).returncode == 1
    (run,) = records(tmp_path / "r")
    assert "no VPN client has connected to port 5999 after 180 s" in error_of(run)
    assert float(run.row["virtual_s"]) < 180 + SETUP_S
