# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare VPNs natively between two computers on a LAN without a rate.

    tools/dev tools/bench/native.py

The CPU is the bottleneck there. For networks of 1500 and of 9000 bytes: TCP and UDP throughput,
round-trip time and CPU seconds per GB (TCP) of each VPN that this host's kernel can run, medians
over repetitions with 95 % intervals; repetitions are interleaved in random order. Then the order by
TCP throughput at 1500 bytes beside the published one (reports/published.yml: Spearman's rank
correlation, and the probability p that a random order agrees as well or better, from all orders),
and an A/A test: the repetitions of one cell in pairs, as if A and B were two things to compare. The
interval of their ratio should contain 1; its width says what can be told apart here.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from openbach_run.report.published import rank_correlation
from openbach_run.results.intervals import estimate, figure

REPOSITORY = Path(__file__).resolve().parents[2]
VPNS = (
    "none,boringtun,nebula,openvpn_udp,openvpn_tcp,tailscale,tinc_router,tinc_switch,vpncloud,"
    "wireguard_go"
)
"""VPNs that need nothing of the kernel but TUN or TAP (easytier and yggdrasil need more). Not
zerotier: not measured yet; hyprspace and mqvpn: no registry has their programs."""
INVENTORIES = {1500: "three_hosts", 9000: "three_hosts_jumbo"}
LAN = ("cc=reno", "rate=unlimited", "delay_ms=0")
"""Reno: the one congestion control that every host's namespaces may have."""
MEASURES = {
    "lan_tcp": {"TCP (Mbit/s)": "tcp_mbps", "CPU (s/GB)": "cpu_s_per_gb"},
    "lan_udp": {"UDP (Mbit/s)": "udp_mbps", "UDP loss (%)": "udp_loss_pct"},
    "lan_ping": {"RTT (ms)": "ping_rtt_ms"},
}
NOISE = "cpu_others_s", "cpu_window_s"
Rows = list[dict[str, str]]


def rows(scenario: str, mtu: int, place: Path, vpns: str, seeds: int, *words: str) -> Rows:
    """Return the rows of results.csv, of the runs that finished."""
    results = place / f"{scenario}-{mtu}"
    command = [
        *(
            sys.executable,
            "-m",
            "openbach_run",
            scenario,
            "--engine",
            "native",
            "--inventory",
            INVENTORIES[mtu],
            *LAN,
        ),
        *(f"vpn={vpns}", "--seeds", str(seeds), "--results", str(results), "--quiet", *words),
    ]
    environment = {**os.environ, "PYTHONPATH": "src"}
    done = subprocess.run(
        command, check=False, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL
    )
    if not (results / "results.csv").exists():
        sys.exit(done.returncode)
    return [
        row
        for row in csv.DictReader((results / "results.csv").open())
        if row["status"] == "Finished Ok"
    ]


def values(found: Rows, vpn: str, measure: str) -> list[float]:
    """Return a VPN's values of a measure, one for each repetition."""
    return [float(row[measure]) for row in found if row["vpn"] == vpn and row.get(measure)]


def table(mtu: int, vpns: Sequence[str], found: Mapping[str, Rows]) -> Iterator[str]:
    """Yield the lines of the table for an MTU in bytes."""
    columns = [
        (scenario, title, name)
        for scenario, listed in MEASURES.items()
        for title, name in listed.items()
    ]
    yield f"\nnetworks of {mtu} bytes"
    yield f"{'vpn':14}" + "".join(f"{title:>28}" for _, title, _ in columns)
    for vpn in vpns:
        shown = [
            figure(estimate(values(found[scenario], vpn, name))) for scenario, _, name in columns
        ]
        yield f"{vpn:14}" + "".join(f"{one:>28}" for one in shown)


def order(vpns: Sequence[str], found: Rows) -> str:
    """Return our order by TCP throughput beside the published one."""
    (published,) = (
        one["figures"]
        for one in yaml.safe_load((REPOSITORY / "reports/published.yml").read_text())["ten_vpns"][
            "tables"
        ]
        if one["title"] == "TCP throughput, one connection"
    )
    both = [vpn for vpn in vpns if vpn in published and values(found, vpn, "tcp_mbps")]
    theirs = [float(published[vpn]) for vpn in both]
    estimates = [estimate(values(found, vpn, "tcp_mbps")) for vpn in both]
    ours = [one.median for one in estimates if one]
    agreement = rank_correlation(theirs, ours) if len(both) > 1 else None
    if agreement is None:
        return f"order beside the published one: too few in both ({', '.join(both)})"
    # All orders rather than a table of the distribution: there are few VPNs, with ties among them.
    as_good = [
        (rank_correlation(list(one), ours) or 0.0) >= agreement - 1e-9
        for one in itertools.permutations(theirs)
    ]
    p = sum(as_good) / len(as_good)
    return (
        f"order of {', '.join(both)} beside the published one: Spearman {agreement:.2f}, p ="
        f" {p:.3f} (one-sided)"
    )


def same_against_same(found: Rows, vpn: str, measure: str) -> str:
    """Return the ratio of A to B where both are the same cell.

    Of each two consecutive repetitions one is called A by lot.
    """
    taken = values(found, vpn, measure)
    lot = random.Random(1)
    pairs = [lot.sample(taken[first : first + 2], 2) for first in range(0, len(taken) - 1, 2)]
    ratio = estimate([one / other for one, other in pairs])
    if ratio is None or ratio.low is None or ratio.high is None:
        return f"A/A {vpn} {measure}: too few pairs ({len(pairs)})"
    verdict = "contains 1" if ratio.low <= 1 <= ratio.high else "DOES NOT CONTAIN 1"
    width = 100 * (ratio.high - ratio.low)
    return (
        f"A/A {vpn} {measure}: {figure(ratio, 3)} of {len(pairs)} pairs, {verdict}; {width:.1f} %"
        " wide"
    )


def main() -> None:
    """Run the repetitions, and print the tables and comparisons."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vpns", default=VPNS)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--duration-s", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=10, help="of the A/A test")
    parser.add_argument("--results", type=Path, help="kept there; what is there is not run again")
    arguments = parser.parse_args()
    vpns = arguments.vpns.split(",")
    print(
        f"load average {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} CPUs,"
        f" {arguments.repetitions} repetitions"
    )
    with tempfile.TemporaryDirectory() as name:
        place = arguments.results or Path(name)
        duration = f"duration_s={arguments.duration_s}"
        words = {"lan_tcp": [duration], "lan_udp": [duration, "udp_rate=1G"], "lan_ping": []}
        at = {}
        for mtu in INVENTORIES:
            at[mtu] = {
                scenario: rows(
                    scenario, mtu, place, arguments.vpns, arguments.repetitions, *words[scenario]
                )
                for scenario in MEASURES
            }
            print("\n".join(table(mtu, vpns, at[mtu])), flush=True)
        tcp = [row for found in at.values() for row in found["lan_tcp"]]
        others = sum(float(row[NOISE[0]]) for row in tcp) / (
            sum(float(row[NOISE[1]]) for row in tcp) or 1
        )
        print(f"\nnoise: everything else on the machine took {others:.2f} CPUs meanwhile")
        print(order(vpns, at[1500]["lan_tcp"]))
        same = rows("lan_tcp", 1500, place / "same", vpns[0], 2 * arguments.pairs, duration)
        for measure in ("tcp_mbps", "cpu_s_per_gb"):
            print(same_against_same(same, vpns[0], measure))


if __name__ == "__main__":
    main()
