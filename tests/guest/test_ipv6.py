# SPDX-License-Identifier: GPL-3.0-or-later
"""IPv6 as a value in the guest: all packets have it, and lookups of a name take their round trips."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.guest_runs import Run, RunCells, command, records

from openbach_run.results.captures import packets

GEO_RTT_S = 0.5
HOP_BY_HOP = 0
"""What follows IPv6's header in reports of multicast listeners, which every host sends at first."""
HEADERS_MORE = 20


def versions_on(run: Run, interface: str) -> set[int]:
    """Return the versions of IP of what leaves an interface."""
    found = set()
    for packet in packets(run.capture):
        ip = packet.frame[14:]
        if packet.interface == interface and not (ip[0] >> 4 == 6 and ip[6] == HOP_BY_HOP):
            found.add(ip[0] >> 4)
    return found


@pytest.mark.parametrize("vpn", ["wireguard", "openvpn_udp", "openvpn_tcp"])
@pytest.mark.parametrize(
    ("value", "inside", "outside"), [("6", 6, 6), ("6in4", 6, 4), ("4in6", 4, 6)]
)
def test_packets_in_a_tunnel_and_outside_have_their_versions(
    tmp_path: Path, vpn: str, value: str, inside: int, outside: int
) -> None:
    results = str(tmp_path / "results")
    words = ("geo", f"vpn={vpn}", "cc=cubic", f"ip={value}", "size=100k")
    ended = command(*words, "--pcap", "--results", results, "--seeds", "1")
    assert ended.returncode == 0, ended.stderr
    (run,) = records(Path(results))
    assert versions_on(run, "pc/to_box") == versions_on(run, "server/to_pop") == {inside}
    assert versions_on(run, "box/to_st") == versions_on(run, "pop/to_gw") == {outside}
    assert float(run.row["ttfb_s"]) == pytest.approx(2 * GEO_RTT_S, abs=0.05)


def test_only_the_headers_are_longer(run_cells: RunCells) -> None:
    four, six = run_cells("geo", "vpn=none", "cc=cubic", "ip=4,6", "size=10M")
    segments = [int(run.row["mss_bytes"]) for run in (four, six)]
    assert segments[0] - segments[1] == HEADERS_MORE
    payloads = [size - 12 for size in segments]  # TCP's timestamps
    more_s = 10e6 * 1514 * 8 / 10e6 * (1 / payloads[1] - 1 / payloads[0])
    took = [float(run.row["transfer_time_s"]) for run in (four, six)]
    assert took[1] - took[0] == pytest.approx(more_s, abs=0.01)


def test_a_proxy_splits_connections_of_ipv6(run_cells: RunCells) -> None:
    (run,) = run_cells("geo", "vpn=none", "cc=cubic", "ip=6", "pep=B", "size=100k")
    split = [one for one in run.statistics("satpep") if "client" in one]
    assert split and all(one["client"].startswith("[fd00::") for one in split)


def test_a_page_and_a_call_over_ipv6(run_cells: RunCells) -> None:
    words = ("vpn=wireguard", "ip=6")
    for run in run_cells("web", *words, "pep=none", "http=1.1,2,3", "loads=1"):
        assert float(run.row["page_load_time_s"]) > 3 * GEO_RTT_S
    (run,) = run_cells("voip", *words, "background=none", "duration_s=5")
    assert float(run.row["to_client_loss_pct"]) == 0


ROUND_TRIPS = {"udp": 1, "dot": 3, "doh": 3}
"""TCP, TLS 1.3 and the question, or the question alone."""


@pytest.mark.parametrize("settings", [(), ("dns_at=beside",), ("ip=6",)])
def test_lookups_take_their_round_trips(run_cells: RunCells, settings: tuple[str, ...]) -> None:
    for run in run_cells("name_lookup", "vpn=wireguard", *settings):
        trips = ROUND_TRIPS[run.row["dns"]]
        first_s, next_s = (float(run.row[f"{name}lookup_time_s"]) for name in ("", "next_"))
        assert first_s == pytest.approx(trips * GEO_RTT_S, abs=0.01)
        assert next_s == pytest.approx(GEO_RTT_S, abs=0.01)


def test_a_page_waits_for_its_servers_name(run_cells: RunCells) -> None:
    words = ("vpn=none", "pep=none", "http=2", "loads=1")
    runs = run_cells("web", *words, "dns=none,udp,dot,doh")
    times_s = {run.row["dns"]: float(run.row["page_load_time_s"]) for run in runs}
    for protocol, trips in ROUND_TRIPS.items():
        waits_s = times_s[protocol] - times_s["none"]
        assert waits_s == pytest.approx(trips * GEO_RTT_S, abs=0.02)
