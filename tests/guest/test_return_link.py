# SPDX-License-Identifier: GPL-3.0-or-later
"""A return link that has to be asked for, in the guest: the checks of docs/method/return-link.md.

tests/unit/test_dama.py has those that need no guest.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.guest_runs import REPOSITORY, Run, command, records
from helpers.job_code import load
from helpers.scenario_with import Job, ran, scenario_of, with_snapshot
from helpers.scenario_with import sent_of as told

from openbach_run.results.seeds import MIN_SEEDS

dama_qdisc = load("satcom_link", "dama_qdisc")

LINK = {"forward_interface": "to_st", "return_interface": "to_gw", "delay_ms": "250"}
GW = "10.10.3.2"
UP_S = 6
"""After this time the link has measured itself."""
TIME = re.compile(r"time=([\d.]+) ms")
D_MS, T_MS, P_MS = 250, 26.5, 38 * 26.5


def run_link(place: Path, link: dict[str, Any], host: str, shell_command: str) -> Run:
    """The link alone, and a command on one of the hosts beside it."""
    jobs = [
        Job("sat", "satcom_link", {**LINK, **link, "run": {}}),
        Job(host, "snapshot", {"command": f"sleep {UP_S}; {shell_command}"}, launched=[0]),
    ]
    return ran(scenario_of(place, *jobs), place / "r")


def printed(run: Run) -> str:
    (text,) = [line["printed"] for line in run.statistics("snapshot")]
    return str(text)


def rtts_ms(place: Path, link: dict[str, Any], every_s: float, count: int) -> list[float]:
    """The RTT of pings of 44 bytes, which one burst carries."""
    run = run_link(place, link, "st", f"ping -n -s 16 -i {every_s} -c {count} -W 5 {GW}")
    found = [float(one) for one in TIME.findall(printed(run))]
    assert len(found) == count
    return found


def test_a_ping_waits_for_a_superframe_where_constant_capacity_is_enough(tmp_path: Path) -> None:
    """Check 1: RTT = 2 D + U(0, T)."""
    link = {"orbit": "geo_rcs2_opensand", "dama_values": "cra=3M"}
    found = rtts_ms(tmp_path, link, 0.28313, 200)
    print(f"RTT {min(found)} to {max(found)}, mean {sum(found) / len(found):.2f} ms")
    assert min(found) >= 2 * D_MS and max(found) <= 2 * D_MS + T_MS + 0.1
    assert sum(found) / len(found) == pytest.approx(2 * D_MS + T_MS / 2, abs=1)


def test_a_ping_pays_a_request_cycle_where_capacity_has_to_be_asked_for(tmp_path: Path) -> None:
    """Check 2: RTT = 4 D + U(0, P) + two alignments, here of 10 T - D each.

    Check 5 with it: between two pings the request's life ends, so each of them pays.
    """
    link = {"orbit": "geo_rcs2_opensand", "dama_values": "cra=0;rbdc=1M"}
    found = rtts_ms(tmp_path, link, 5.6573, 60)
    print(f"RTT {min(found)} to {max(found)}, mean {sum(found) / len(found):.2f} ms")
    # Between two pings 5.618 periods pass, so that all of them are evenly spread over the period.
    least = 4 * D_MS + 2 * (10 * T_MS - D_MS)
    assert min(found) >= least and max(found) <= least + P_MS + T_MS
    assert sum(found) / len(found) == pytest.approx(least + P_MS / 2, abs=20)


def test_a_ping_by_the_timing_of_sns3(tmp_path: Path) -> None:
    link = {"orbit": "geo_rcs2_sns3", "dama_values": "cra=0"}
    found = rtts_ms(tmp_path, link, 3.0137, 40)
    print(f"RTT {min(found)} to {max(found)}, mean {sum(found) / len(found):.2f} ms")
    assert min(found) >= 1100 and max(found) <= 1400


def test_nothing_is_lost_or_made_in_the_guest(tmp_path: Path) -> None:
    """More is sent than the link carries: each packet is out or dropped, each burst full.

    The job itself ends if packets and bytes in are not those out, dropped and queued.
    """
    send = (
        'python3 -c "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);'
        f" [s.sendto(b'.' * 972, ('{GW}', 9)) for n in range(600)]\""
    )
    link = {
        "orbit": "geo_rcs2",
        "dama_values": "cra=100k;rbdc=1M;simulated=3;simulated_rate=1M",
        "buffer": "50kB",
    }
    run = run_link(tmp_path, link, "st", f"{send}; sleep 20")
    one = told(run, "terminal_0_BE")
    assert one["class_packets"] + one["class_dropped"] >= 600 and one["class_dropped"] > 300
    assert one["used_bytes"] >= one["class_packets"] * 1000 * 0.95
    whole = told(run, "terminal_0")
    sent = whole["used_bytes"] + whole["header_bytes"] + whole["padded_bytes"]
    assert sent + whole["unused_bytes"] == whole["granted_bytes"]
    assert sent % 59 == 0
    assert told(run, "simulated")["requests"] > 0


def test_the_same_seed_makes_the_same_packets(tmp_path: Path) -> None:
    hashes = []
    for number, seed in enumerate((1, 1, 2)):
        place = tmp_path / f"{number}"
        ended = command(
            "geo", "orbit=geo_rcs2", "vpn=wireguard", "cc=cubic", "size=200k",
            "dama.simulated=20", "dama.symbols=4M", "--seeds", f"{seed},", "--results", str(place),
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        (run,) = records(place)
        hashes.append(run.row["capture_hash"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_seeds_begin_at_other_phases_of_the_cycle_of_requests(tmp_path: Path) -> None:
    """Nothing is lost, and nobody else asks: only the phase differs, and the time with it."""
    words = ("orbit=geo_rcs2", "vpn=none", "cc=cubic", "size=1M")
    ended = command("geo", *words, "--results", str(tmp_path / "r"))
    assert ended.returncode == 0, ended.stderr
    times_s = [float(run.row["transfer_time_s"]) for run in records(tmp_path / "r")]
    assert len(times_s) == MIN_SEEDS
    assert max(times_s) - min(times_s) > 0.1


ACKS = {"none": (52, 1514), "openvpn_udp": (104, 1514), "wireguard": (124, 1494)}
"""Bytes of an ACK on the return link, and of a full frame on the forward link, by VPN."""
BURST_BYTES, FORWARD_BPS = 59, 10e6
WINDOW_S = 40


def header_bytes(length: int, packets: int) -> float:
    """The bytes of RLE's headers, for each of so many packets that are sent one after another.

    A header has 2 bytes. A packet that is cut has 2 more at its start, and 2 for each further part.
    """
    headers = space = 0
    for _ in range(packets):
        left, begins = length, True
        while left:
            if left + 2 <= space:
                headers, space, left = headers + 2, space - left - 2, 0
                continue
            header = 4 if begins else 2
            if space <= header or left == 1:
                space = BURST_BYTES
                continue
            part = min(space - header, left - 1)
            headers, left, begins = headers + header, left - part, False
            space = space - header - part
    return headers / packets


def window(place: Path, vpn: str) -> tuple[Any, Any]:
    """The counters of the return link at two times while a download fills the forward link."""
    look = f"cat /proc/net/dama; sleep {WINDOW_S}; echo then; cat /proc/net/dama"
    # The receive window, which is above the BDP and below it and the buffer, keeps the link full without a loss.
    scenario = with_snapshot(place, ("sat", 30, look))
    run = ran(
        scenario, place / "r", "orbit=geo_rcs2", f"vpn={vpn}", "pep=none", "cc=cubic", "loss=0", "dama.cra=3M",
        "dama.rbdc=0", "size=unlimited", "duration_s=90", "buffer_bdp=4", "tcp_buffer=2M", "--seeds", "1",
    )  # fmt: skip
    begin, end = printed(run).split("then\n")
    return dama_qdisc.shown(begin), dama_qdisc.shown(end)


@pytest.mark.parametrize("vpn", ACKS)
def test_the_return_capacity_that_a_download_of_10_mbit_needs(tmp_path: Path, vpn: str) -> None:
    """An ACK for each second full frame, its own bytes and headers: within 2 %.

    The table of docs/method/return-link.md.
    """
    before, after = window(tmp_path, vpn)
    length, frame = ACKS[vpn]
    acks = FORWARD_BPS / 8 / frame / 2
    in_superframe = round(acks * T_MS / 1000)
    theory_bps = 8 * acks * (length + header_bytes(length, in_superframe))
    one, other = before.terminals["0"], after.terminals["0"]
    used = other.used_bytes + other.header_bytes - one.used_bytes - one.header_bytes
    print(f"{vpn}: {8 * used / WINDOW_S / 1000:.1f} kbit/s, theory {theory_bps / 1000:.1f}")
    assert 8 * used / WINDOW_S == pytest.approx(theory_bps, rel=0.02)


SEGMENTS = {"none": 1448, "openvpn_udp": 1375, "wireguard": 1368}
"""Bytes of a full segment, by VPN."""


def test_constant_capacity_limits_a_download_by_its_acks(tmp_path: Path) -> None:
    """Check 6: over 100 kbit/s, 1 : 1.9 : 2.3, and what a tunnel's smaller segments cost on top.

    No ACK is dropped, so the goodput is two segments for each ACK that passes.
    """
    ended = command(
        "geo", "orbit=geo_rcs2", f"vpn={','.join(ACKS)}", "cc=cubic", "dama.cra=100k", "dama.rbdc=0",
        "buffer=4MB", "size=unlimited", "duration_s=60", "--results", str(tmp_path / "r"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    goodput = {run.row["vpn"]: float(run.row["goodput_mbps"]) for run in records(tmp_path / "r")}
    print(goodput)
    for vpn, (length, _) in ACKS.items():
        acks = 100_000 / 8 / (length + header_bytes(length, 6))
        assert goodput[vpn] == pytest.approx(2 * acks * 8 * SEGMENTS[vpn] / 1e6, rel=0.08)


@pytest.mark.parametrize(
    "values",
    ["cra=0;rbdc=0;vbdc_bytes=50000", "cra=0;rbdc=0;fca=200k", "random_access=crdsa;cra=0;rbdc=1M",
     "algorithm=opensand_8_2;cra=16k;rbdc=1M", "waveform=22;cra=0;rbdc=2M;vbdc_bytes=9000"],
)  # fmt: skip
def test_each_kind_of_capacity_carries_a_download(tmp_path: Path, values: str) -> None:
    """The link has proved itself before: a packet waits for as long as the formula says at most."""
    ended = command(
        "geo", "orbit=geo_rcs2", "vpn=none", "cc=cubic", "size=100k", f"dama_values={values}",
        "--seeds", "1", "--results", str(tmp_path / "r"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    (run,) = records(tmp_path / "r")
    link = told(run, "return")
    assert 0 < link["measured_access_ms"] <= link["longest_access_ms"] * 1.03
    assert told(run, "terminal_0_BE")["class_packets"] > 50


def test_real_terminals_beside_simulated_ones(tmp_path: Path) -> None:
    """The star's three and 180 simulated ones all ask, and equal ones get equal shares."""
    ended = command(
        "library/topologies/star.json", "orbit=geo_rcs2", "cc=cubic", "loss=0", "size=1M", "rate=40M", "dama.cra=32k",
        "dama.rbdc=1024k", "dama.symbols=20M", "dama.simulated=180", "--seeds", "1",
        "--results", str(tmp_path / "r"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    (run,) = records(tmp_path / "r")
    granted = [told(run, f"terminal_{number}")["granted_bytes"] for number in range(3)]
    assert sum(granted) ** 2 / (3 * sum(one * one for one in granted)) >= 0.99
    simulated = told(run, "simulated")
    seconds = run.row["virtual_s"]
    # Half of the time each, at 200 kbit/s on average.
    rate_bps = simulated["used_bytes"] * 8 / (float(seconds) - UP_S) / 180
    print(f"granted {granted}, simulated {rate_bps:.0f} bit/s each")
    assert rate_bps == pytest.approx(100_000, rel=0.25)


SHARES = ("cra: 64k, rbdc: 2M", "cra: 200k, rbdc: 2M, weight: 3", "rbdc: 500k")
LAST_S = 20


def test_terminals_of_an_inventory_have_shares_of_their_own(tmp_path: Path) -> None:
    """All ask for more than there is: each has its constant rate, and the rest goes by weight.

    The second one's part by weight is more than it asks for; the others share what it leaves.
    """
    inventory = (REPOSITORY / "library/topologies/star.yml").read_text()
    for number, share in enumerate(SHARES, 1):
        host = f"        satvpn_st_{number}:\n"
        inventory = inventory.replace(host, f"{host}          satvpn_share: {{{share}}}\n")
    (tmp_path / "star.yml").write_text(inventory)
    scenario = json.loads((REPOSITORY / "library/topologies/star.json").read_text())
    flood = (
        'python3 -c "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);'
        f" [(s.sendto(b'.' * 1400, ('{GW}', 9)), time.sleep(0.00189)) for n in range(20000)]\""
    )
    # What they ask for by themselves goes up and down with what is on its way.
    wishes = "; ".join(f"echo wish {number} 16000000 > /proc/net/dama" for number in range(3))
    look = f"{wishes}; sleep 15; cat /proc/net/dama; sleep {LAST_S}; echo then; cat /proc/net/dama"
    hosts = {"st_1": flood, "st_2": flood, "st_3": flood, "sat": look}
    first = len(scenario["openbach_functions"])
    for number, (host, shell_command) in enumerate(hosts.items(), first):
        wait = {"time": 0, "launched_ids": [], "finished_ids": [1]}
        start = {"entity_name": f"satvpn_{host}", "snapshot": {"command": shell_command}}
        scenario["openbach_functions"].append(
            {"id": number, "label": host, "wait": wait, "start_job_instance": start}
        )
    (end,) = [one for one in scenario["openbach_functions"] if "stop_job_instances" in one]
    end["wait"]["finished_ids"] += range(first, first + len(hosts))
    (tmp_path / "star.json").write_text(json.dumps(scenario))
    options = ["orbit=geo_rcs2", "size=10k", "dama.symbols=4M", "dama.cra=0", "--seeds", "1"]
    run = ran(tmp_path / "star.json", tmp_path / "r", *options)
    texts = [line["printed"] for line in run.statistics("snapshot") if "then" in line["printed"]]
    before, after = map(dama_qdisc.shown, texts[0].split("then\n"))
    burst_bits = BURST_BYTES * 8
    granted = [
        (after.terminals[name].granted_slots - before.terminals[name].granted_slots) * burst_bits
        for name in ("0", "1", "2")
    ]
    slot_bps = burst_bits / T_MS * 1000
    slots = int(4e6 * T_MS / 1000 / 536)
    # Requests are rounded up to whole slots.
    wanted = [math.ceil(rate_bps / slot_bps) for rate_bps in (2e6, 2e6, 500e3)]
    left = slots - 264_000 / slot_bps - wanted[1]
    first_slots = left * wanted[0] / (wanted[0] + wanted[2])
    expected = [
        64_000 + first_slots * slot_bps,
        200_000 + wanted[1] * slot_bps,
        (left - first_slots) * slot_bps,
    ]
    found = [bits / LAST_S for bits in granted]
    print(f"found {[round(one) for one in found]}, formula {[round(one) for one in expected]}")
    assert sum(found) == pytest.approx(slots * slot_bps, rel=0.005)
    assert found == pytest.approx(expected, rel=0.005)
    for name in ("0", "1", "2"):
        used = after.terminals[name].used_slots - before.terminals[name].used_slots
        assert used * burst_bits >= 0.98 * LAST_S * found[int(name)]


def test_more_free_capacity_brings_nothing_to_tcp(tmp_path: Path) -> None:
    """Check 7, as found: free capacity helps up to half of the rate that may be asked for.

    It comes and goes with the demand of others. Four times as much helps no more.
    """
    ended = command(
        "geo", "orbit=geo_rcs2", "vpn=none", "cc=bbr2", "direction=upload", "size=4M", "buffer=70kB",
        "dama.rbdc=1M", "dama.fca=0,500k,2M", "dama.symbols=8M", "dama.simulated=10",
        "dama.simulated_rate=600k", "dama.simulated_deviation=300k", "dama.simulated_on_s=2",
        "dama.simulated_off_s=2", "--seeds", "1", "--results", str(tmp_path / "r"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    time_s = [
        float(run.row["transfer_time_s"])
        for name in ("fca=0;", "fca=500k;", "fca=2M;")
        for run in records(tmp_path / "r")
        if name in run.row["dama_values"]
    ]
    print(f"{time_s} s")
    assert time_s[1] < time_s[0]
    assert time_s[2] > 0.97 * time_s[1]


def test_a_wish_on_an_assigned_link_is_without_effect(tmp_path: Path) -> None:
    ended = command(
        "rcs2", "vpn=none", "direction=upload", "pep=B_double", "access=assigned", "dama_values=none",
        "size=300k", "pep_ask=none,2M", "--seeds", "1", "--results", str(tmp_path / "r"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "pep_ask=2M has no effect: nothing is asked for" in ended.stderr
    time_s = [float(run.row["transfer_time_s"]) for run in records(tmp_path / "r")]
    assert time_s[0] == pytest.approx(time_s[1], rel=0.001)


@pytest.mark.parametrize("pep", ["A_double", "B_double"])
def test_a_pep_that_asks_makes_an_upload_faster(tmp_path: Path, pep: str) -> None:
    """The rate that it wants is there a request cycle later, and not after the growth of a queue."""
    ended = command(
        "rcs2", "vpn=none", "direction=upload", f"pep={pep}", "dama_values=cra=100k;rbdc=5120k",
        "pep_ask=none,5M", "--seeds", "1", "--results", str(tmp_path / "r"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found = {run.row["pep_ask"]: run for run in records(tmp_path / "r")}
    time_s = {name: float(run.row["transfer_time_s"]) for name, run in found.items()}
    print(f"{time_s} s")
    assert time_s["5M"] < 0.7 * time_s["none"]
    # It says so when the first connection begins, and when the last one has ended.
    assert told(found["5M"], "pep")["wishes"] >= 2
