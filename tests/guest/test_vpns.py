# SPDX-License-Identifier: GPL-3.0-or-later
"""Every VPN: the same packets for the same seed, and nothing in clear.

Its overhead is what its vpn.json says, and its counters count.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from helpers.guest_runs import Run, RunCells, command, records
from helpers.scenario_with import TEST_JOBS, Job, scenario_of
from helpers.vpns_tested import LIMIT_S, VPNS, describe, on

IN_CLEAR = [kind for kind in VPNS if kind.endswith("_plain")]
CELLS = ("geo", f"vpn={','.join(['none', *VPNS])}", "cc=cubic", "loss=1", "size=300k")
WITHOUT_HANDSHAKES = [kind for kind in VPNS if kind.partition("_")[0] in ("easytier", "vpncloud")]
"""Their daemons tell of none."""
NEEDLE_BYTES = 64
PROTOCOL, TCP = 9, 6
"""Where an IP header has the protocol, and its number of TCP."""


@pytest.fixture
def runs(run_cells: RunCells) -> dict[str, Run]:
    """By VPN, with their captures."""
    return {run.row["vpn"]: run for run in run_cells(*CELLS, pcap=True)}


def payload_on_the_satellite(run: Run) -> bool:
    """Whether bytes of a full segment of the download are in a packet of the satellite."""
    segment = max(on(run, "server/to_pop"), key=len)
    return any(segment[-NEEDLE_BYTES:] in packet for packet in on(run, "sat/"))


def test_same_seed_same_capture(runs: dict[str, Run], run_cells: RunCells) -> None:
    again = {run.row["vpn"]: run.row["capture_hash"] for run in run_cells(*CELLS)}
    assert {vpn: run.row["capture_hash"] for vpn, run in runs.items()} == again


@pytest.mark.parametrize("vpn", VPNS)
def test_the_payload_is_not_on_the_satellite(runs: dict[str, Run], vpn: str) -> None:
    assert payload_on_the_satellite(runs["none"])
    assert payload_on_the_satellite(runs[vpn]) == (vpn in IN_CLEAR)


@pytest.mark.parametrize("vpn", [vpn for vpn in VPNS if describe(vpn)["overhead_bytes"]])
def test_extra_bytes_of_a_full_packet_are_the_overhead(runs: dict[str, Run], vpn: str) -> None:
    described, run = describe(vpn), runs[vpn]
    for where in ("server/to_pop", "box/to_pc"):
        assert max(map(len, on(run, where))) == described["inner_mtu"], where
    carriers = [
        packet for packet in on(run, "pop/to_gw") if packet[PROTOCOL] != TCP
    ]  # the exchange of keys is TCP
    sizes = Counter(map(len, carriers))
    assert sizes.most_common(1)[0][0] == described["inner_mtu"] + described["overhead_bytes"]
    assert max(sizes) <= 1500


@pytest.mark.parametrize("vpn", VPNS)
def test_every_tunnel_tells_the_same(runs: dict[str, Run], vpn: str) -> None:
    told = runs[vpn].statistics("vpn")
    ready = [line for line in told if "setup_time_s" in line]
    assert len(ready) == 2
    assert all(0 < line["up_time_s"] < line["setup_time_s"] < LIMIT_S for line in ready)
    assert all(500 <= line["first_rtt_ms"] < 1000 * LIMIT_S for line in ready)
    counters = [line for line in told if "rx_bytes" in line]
    assert len(counters) == 2
    assert max(line["rx_bytes"] for line in counters) > 300_000
    # A host's own TCP, which a VPN that ends TCP has, makes packets of 64 kB for its interface.
    least = 10 if describe(vpn)["ends_tcp"] else 100
    assert all(line["rx_packets"] > least and line["tx_packets"] > least for line in counters)
    if vpn not in WITHOUT_HANDSHAKES:
        assert all(1 <= line["handshakes"] < 10 for line in counters)


@pytest.mark.parametrize(
    ("shell", "printed"),
    [
        (
            "echo /sys/class/net/*",
            " ".join(f"/sys/class/net/{name}" for name in ("lo", "to_pc", "to_st")),
        ),  # no tunl0
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
