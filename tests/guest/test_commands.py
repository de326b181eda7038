# SPDX-License-Identifier: GPL-3.0-or-later
"""commands.sh, which each run leaves, makes the same platform again.

It is executed beside the run itself, in namespaces of its own in the same guest, and each host's
interfaces, addresses, routes, rules, queues, firewall and TCP are compared.
"""

from __future__ import annotations

import re
import subprocess

import pytest
from helpers.guest_runs import Run
from helpers.scenario_with import Snapshot, ran, with_snapshot

HOSTS = ("pc", "box", "st", "sat", "gw", "pop", "server")
SHOW = (
    "ip -br link; ip -br address; ip route show table all; ip rule; tc qdisc show; tc filter show"
    " dev to_st ingress; nft -s -t list ruleset; sysctl net.ipv4.tcp_congestion_control"
    " net.ipv4.tcp_rmem net.ipv4.ip_forward"
)
OUTSIDE = (
    'import os; os.setns(os.pidfd_open(1), os.CLONE_NEWNET); os.execvp("sh", ["sh",'
    ' "/tmp/commands.sh"])'
)
AGAIN = f"""
mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && mount -t tmpfs tmpfs /tmp && cp /run/openbach/commands.sh /tmp
echo again
timeout 60 python3 -c '{OUTSIDE}' > /tmp/said 2>&1 < /dev/null || exec tail -n 5 /tmp/said
for host in {" ".join(HOSTS)}; do echo "== $$host"; ip netns exec $$host sh -c '{SHOW}' 2>&1; done
"""
LIMIT_BYTES = 20_000


@pytest.fixture(scope="module", params=["wireguard", "openvpn_udp", "strongswan_policies"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("commands")
    shown: list[Snapshot] = [(host, 1, f"echo == {host}; ({SHOW}) 2>&1") for host in HOSTS]
    scenario = with_snapshot(place, *shown, ("pc", 1, AGAIN))
    settings = ["cc=bbr2", "pep=B", "loss=0.5", "initcwnd=20", "size=20M", "--seeds", "1"]
    return ran(scenario, place / "results", f"vpn={request.param}", *settings)


def by_host(printed: str) -> dict[str, list[str]]:
    """The lines that each host has shown, sorted, without what the kernel counts or draws.

    Numbers of interfaces, MAC addresses that nobody has given.
    """
    hosts = re.split(r"^== (\w+)\n", printed, flags=re.MULTILINE)[1:]
    counted = r"@if\d+|@\w+|\b(?!0[26]:00:)[0-9a-f]{2}(:[0-9a-f]{2}){5}\b"
    return {
        name: sorted(re.sub(counted, "", said).splitlines())
        for name, said in zip(hosts[::2], hosts[1::2], strict=True)
    }


def test_the_commands_make_the_same_platform_again(run: Run) -> None:
    printed = [line["printed"] for line in run.statistics("snapshot")]
    original = by_host("".join(text for text in printed if text.startswith("==")))
    (said,) = (text for text in printed if text.startswith("again"))
    again = by_host(said)
    assert set(original) == set(again) == set(HOSTS), said
    for host in HOSTS:
        assert again[host] == original[host], host


def test_the_commands_are_a_script_that_is_short_and_has_no_key(run: Run) -> None:
    file = run.record / "commands.sh"
    subprocess.run(["sh", "-n", str(file)], check=True)
    text = file.read_text()
    assert len(text) < LIMIT_BYTES
    # A user's machine does not have all of our controls.
    assert not re.search(r"PRIVATE|[A-Za-z0-9+/]{43}=|cubic_nohystart", text)
