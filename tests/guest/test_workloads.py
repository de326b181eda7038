# SPDX-License-Identifier: GPL-3.0-or-later
"""Web pages and telephone calls in the guest, against what follows from the path."""

from __future__ import annotations

import json
from pathlib import Path

import e_model
import page
import pytest
from helpers import pcapng
from helpers.guest_runs import REPOSITORY, Run, RunCells, command, records
from scipy.stats import binom

from openbach_run.openbach.expand import expand

GEO_RTT_S = 0.5
RATE_BPS = 10e6
CALL = ("vpn=none", "duration_s=30")
FULL_CALL_MS = 20 + 250 + 40  # packetization, one way of the GEO link, playout buffer


@pytest.fixture(scope="module")
def pages(run_cells: RunCells) -> dict[str, Run]:
    """The page over the GEO link by version of HTTP."""
    return {run.row["http"]: run for run in run_cells("web", "vpn=none", "pep=none", "loads=2")}


HANDSHAKES = {"1.1": 2, "2": 2, "3": 1}
"""Round trips until the first request: TCP and TLS 1.3, or QUIC."""


def test_handshakes_take_a_round_trip_each(pages: dict[str, Run]) -> None:
    assert pages.keys() == HANDSHAKES.keys()
    for http, run in pages.items():
        assert float(run.row["handshake_time_s"]) == pytest.approx(
            HANDSHAKES[http] * GEO_RTT_S, abs=0.02
        )
        assert float(run.row["ttfb_s"]) >= (HANDSHAKES[http] + 1) * GEO_RTT_S  # and the request
    for http in ("1.1", "2"):
        assert float(pages[http].row["connect_time_s"]) == pytest.approx(GEO_RTT_S, abs=0.01)
        assert float(pages[http].row["tls_time_s"]) == pytest.approx(GEO_RTT_S, abs=0.01)
    assert not pages["3"].row["connect_time_s"] and not pages["3"].row["tls_time_s"]


def test_a_page_takes_at_least_its_round_trips_and_its_bytes(pages: dict[str, Run]) -> None:
    """The handshakes, the HTML, the objects; and every byte through the bottleneck."""
    for http, run in pages.items():
        least_s = (HANDSHAKES[http] + 2) * GEO_RTT_S + sum(page.sizes().values()) * 8 / RATE_BPS
        assert float(run.row["page_load_time_s"]) >= least_s


def test_every_load_is_whole_and_cold(pages: dict[str, Run]) -> None:
    for http, connections in (("1.1", 6), ("2", 1), ("3", 1)):
        loads = pages[http].statistics("web_page")
        assert len(loads) == 2
        for load in loads:
            assert (load["objects"], load["bytes"]) == (
                len(page.sizes()),
                sum(page.sizes().values()),
            )
            assert load["connections"] == connections
            assert load["handshake_time_s"] > 0.9 * HANDSHAKES[http] * GEO_RTT_S


def test_http_2_is_not_slower(pages: dict[str, Run]) -> None:
    assert float(pages["2"].row["page_load_time_s"]) <= float(pages["1.1"].row["page_load_time_s"])


def test_the_servers_key_stays_on_the_server(pages: dict[str, Run]) -> None:
    for run in pages.values():
        for file in run.record.rglob("*"):
            assert not file.is_file() or b"PRIVATE KEY" not in file.read_bytes(), file


def test_a_page_through_tunnel_and_proxy(run_cells: RunCells) -> None:
    """All of it arrives, and satpep has carried it."""
    (run,) = run_cells("web", "vpn=wireguard", "pep=B", "http=2", "loads=1", "orbit=leo")
    assert run.row["status"] == "Finished Ok"
    assert float(run.row["page_load_time_s"]) < 6
    assert split_at_the_pop(run) >= 1


def split_at_the_pop(run: Run) -> int:
    """Connections that satpep has split there."""
    (pop,) = [
        one
        for one in run.statistics("satpep")
        if one["_metadata"]["agent_name"] == "satvpn_pop" and "connections" in one
    ]
    return int(pop["connections"])


UDP, WEB_PORT = 17, 8443
SMALLEST_QUIC, LARGEST_PACKET = 1200 + 28, 1500
"""IPv4 packets, in bytes: datagrams of 1200 are what QUIC starts with (RFC 9000, 14); nginx looks
for larger ones."""


@pytest.mark.parametrize("vpn", ["none", "wireguard", "openvpn_udp", "openvpn_tcp"])
def test_a_page_over_quic_passes_every_tunnel_and_no_proxy(run_cells: RunCells, vpn: str) -> None:
    """The load is over HTTP/3, as libcurl reports; else it fails.

    In the clear, all between pc and box are whole datagrams of QUIC.
    """
    (run,) = run_cells("web", f"vpn={vpn}", "pep=B", "http=3", "loads=1", "orbit=leo", pcap=True)
    assert split_at_the_pop(run) == 0
    clear = ["sat/to_st", "box/to_pc"] if vpn == "none" else ["box/to_pc"]
    for interface in clear:
        packets = [
            packet.ip
            for packet in pcapng.read(run.capture)
            if packet.interface == interface and packet.ip
        ]
        sent = [ip for ip in packets if ip[9] == UDP and int.from_bytes(ip[20:22]) == WEB_PORT]
        assert sum(map(len, sent)) > sum(page.sizes().values())
        assert SMALLEST_QUIC <= max(map(len, sent)) <= LARGEST_PACKET
        assert not any(int.from_bytes(ip[6:8]) & 0x3FFF for ip in sent)  # more fragments, offset
        assert not [ip for ip in packets if ip[9] == 6]  # TCP


def test_what_congestion_control_is_set_does_not_change_quic(run_cells: RunCells) -> None:
    loads = run_cells(
        "web", "vpn=none", "pep=none", "http=3", "loads=1", "orbit=leo", "cc=cubic,bbr2", "loss=0.5"
    )
    one, other = (float(run.row["page_load_time_s"]) for run in loads)
    assert abs(one - other) < 1e-5  # setting the one takes some system calls more


def test_each_flow_has_its_own_tunnel_with_a_proxy_at_its_ends_too(run_cells: RunCells) -> None:
    """Both carry data, and satpep splits both.

    What answers the proxy is not sent into the second flow's tunnel.
    """
    for run in run_cells(
        "multi_flow", "vpn=openvpn_tcp", "vpn_2=openvpn_tcp", "pep=B,B_double", "orbit=leo"
    ):
        assert run.row["status"] == "Finished Ok"
        at_pop = [
            one
            for one in run.statistics("vpn")
            if one["_metadata"]["agent_name"] == "satvpn_pop" and "tx_bytes" in one
        ]
        assert len(at_pop) == 2
        assert all(one["tx_bytes"] > 20e6 for one in at_pop)
        split = {
            one["server"]
            for one in run.statistics("satpep")
            if one.get("bytes_to_client", 0) > 20e6 and "server" in one
        }
        assert split == {"192.168.20.2:5201", "192.168.20.2:5211"}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("truncate -s 100 /tmp/*/page/0.js", "0.js: 100 of 26155 bytes arrived"),
        ("rm /tmp/*/page/0.js", "404"),
    ],
    ids=["short", "missing"],
)
def test_a_load_without_an_object_fails(tmp_path: Path, damage: str, said: str) -> None:
    scenario = expand(REPOSITORY / "scenarios/web.yml")
    functions = scenario["openbach_functions"]
    by_label = {function["label"]: function for function in functions}
    functions.append(
        {
            "id": len(functions),
            "label": "damage",
            "wait": {"time": 0, "launched_ids": [], "finished_ids": [by_label["path ready"]["id"]]},
            "on_fail": {},
            "start_job_instance": {"entity_name": "satvpn_server", "snapshot": {"command": damage}},
        }
    )
    by_label["page loads"]["wait"]["finished_ids"] = [functions[-1]["id"]]
    file = tmp_path / "web.json"
    file.write_text(json.dumps(scenario))
    cell = ("vpn=none", "pep=none", "http=2", "orbit=leo")
    options = ("--jobs", "tests/guest/jobs", "--results", str(tmp_path / "results"))
    ended = command(str(file), *cell, *options)
    assert ended.returncode == 1
    (run,) = records(tmp_path / "results")
    (output,) = run.record.glob("jobs/*_web_page_satvpn_pc/stderr")
    assert said in output.read_text()


def test_a_folder_is_loaded_as_a_page(run_cells: RunCells, tmp_path: Path) -> None:
    sizes = {"index.html": 4000, "a.css": 300, "b.js": 50_000, "c.png": 70_000, "d.json": 9}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(bytes(size))
    words = ("vpn=none", "pep=none", "orbit=leo", "http=2", "loads=1", f"page={tmp_path}")
    (run,) = run_cells("web", *words)
    (load,) = run.statistics("web_page")
    assert (load["objects"], load["bytes"]) == (5, sum(sizes.values()))


@pytest.mark.nightly
def test_a_browser_takes_as_long_as_web_page(run_cells: RunCells, pages: dict[str, Run]) -> None:
    """Chromium asks for images after scripts, so it is not equal: docs/browser/README.md."""
    browser = ("../docs/browser/scenarios/browser", "--with", "docs/browser", "pep=none", "loads=2")
    for run in run_cells(*browser, "vpn=none", "http=1.1,2"):
        web_s = float(pages[run.row["http"]].row["page_load_time_s"])
        assert float(run.row["page_load_time_s"]) == pytest.approx(web_s, rel=0.15)
        for load in run.statistics("browser_page"):
            assert (load["objects"], load["bytes"]) == (55, sum(page.sizes().values()))
    quic = (*browser, "vpn=wireguard", "http=3")
    (first,), (second,) = run_cells(*quic), run_cells(*quic, again=1)
    assert first.row["capture_hash"] == second.row["capture_hash"]


VIDEO = ("vpn=none", "pep=none", "http=1.1", "duration_s=40")


def test_a_video_starts_after_its_round_trips(run_cells: RunCells) -> None:
    """TCP, TLS, the manifest, and three windows for the 72.5 kB of the first segment."""
    (run,) = run_cells("video", *VIDEO)
    assert float(run.row["start_delay_s"]) == pytest.approx(6 * GEO_RTT_S, abs=0.05)
    assert float(run.row["stalls"]) == float(run.row["stall_time_s"]) == 0
    segments = [sent for sent in run.statistics("dash_video") if "segment_bitrate_bps" in sent]
    mean_bps = sum(sent["segment_bitrate_bps"] for sent in segments) / len(segments)
    assert len(segments) == 10
    assert float(run.row["mean_bitrate_mbps"]) == pytest.approx(mean_bps / 1e6)


def test_a_video_stalls_where_the_link_is_slower_than_its_least_bitrate(
    run_cells: RunCells,
) -> None:
    """Each segment of 4 s and 145 kbit/s takes 5.8 s at 100 kbit/s, headers excluded."""
    (run,) = run_cells("video", *VIDEO, "orbit=leo", "rate=100k", "buffer=100kB")
    least_s = 9 * (145 * 4 / 100 - 4)
    assert float(run.row["stalls"]) == 9
    assert least_s < float(run.row["stall_time_s"]) < 1.3 * least_s
    assert float(run.row["mean_bitrate_mbps"]) == pytest.approx(0.145)


@pytest.fixture(scope="module")
def calls(run_cells: RunCells) -> dict[str, Run]:
    """Half a minute of a call over the GEO link, by what is transferred beside it."""
    return {run.row["background"]: run for run in run_cells("voip", *CALL, "cc=cubic_nohystart")}


@pytest.mark.parametrize("direction", ["to_client", "to_server"])
def test_a_call_alone_is_as_good_as_its_delay(calls: dict[str, Run], direction: str) -> None:
    row = calls["none"].row
    assert float(row[f"{direction}_delay_ms"]) == pytest.approx(250, abs=1)
    assert float(row[f"{direction}_loss_pct"]) == float(row[f"{direction}_late_pct"]) == 0
    assert float(row[f"{direction}_mos"]) == pytest.approx(
        e_model.mos(e_model.rating(FULL_CALL_MS, 0)), abs=0.02
    )


def test_a_download_fills_the_buffer_of_its_direction_only(calls: dict[str, Run]) -> None:
    alone, beside = calls["none"].row, calls["download"].row
    assert float(beside["to_client_delay_ms"]) > float(alone["to_client_delay_ms"]) + 100
    assert float(beside["to_server_delay_ms"]) == pytest.approx(
        float(alone["to_server_delay_ms"]), abs=5
    )
    assert float(beside["to_client_mos"]) < float(alone["to_client_mos"]) - 0.5
    assert float(beside["ping_rtt_ms"]) > float(alone["ping_rtt_ms"]) + 100


def test_the_calls_losses_are_those_of_the_link(run_cells: RunCells) -> None:
    """Within the central 99.99 % of the binomial distribution."""
    (run,) = run_cells("voip", *CALL, "background=none", "loss=1", "ping_s=0")
    assert not run.statistics("ping_series")
    for direction in run.statistics("voip"):
        sent = direction["packets"]
        assert sent == 1500
        low, high = binom.interval(0.9999, sent, 0.01)
        assert low <= direction["loss_pct"] * sent / 100 <= high


@pytest.mark.parametrize(
    "cell",
    [
        ("web", "vpn=openvpn_tcp", "pep=B", "http=1.1", "loads=1"),
        ("web", "vpn=wireguard", "pep=B", "http=3", "loads=1"),
        ("video", "vpn=wireguard", "pep=B", "http=2", "duration_s=20"),
        ("geo", "vpn=none", "cc=cubic", "http=3", "size=3M"),
        ("voip", "vpn=wireguard", "background=download", "duration_s=10"),
    ],
    ids=["web", "quic", "video", "quic transfer", "voip"],
)
def test_same_seed_same_capture(run_cells: RunCells, cell: tuple[str, ...]) -> None:
    (first,), (second,) = run_cells(*cell, "loss=0.5"), run_cells(*cell, "loss=0.5", again=1)
    assert first.row["capture_hash"] == second.row["capture_hash"]
    assert first.statistics("voip") == second.statistics("voip")
    assert first.statistics("web_page") == second.statistics("web_page")
    assert first.statistics("file_transfer") == second.statistics("file_transfer")


def test_a_transfer_lasts_as_long_as_it_was_told(tmp_path: Path) -> None:
    """Downloads and uploads of 15 s; the table shows their goodput, and says so."""
    cells = ("vpn=none,wireguard", "cc=bbr2", "duration_s=15", "direction=download,upload")
    ended = command("geo", *cells, "--results", str(tmp_path / "r"))
    assert ended.returncode == 0, ended.stderr
    assert "geo: goodput (Mbit/s) with cc=bbr2, duration_s=15" in ended.stdout
    assert "goodput (Mbit/s) in place of transfer_time_s, as duration_s is given" in ended.stdout
    for run in records(tmp_path / "r"):
        assert run.row["size"] == "unlimited"
        assert 15 <= float(run.row["transfer_time_s"]) < 17
        assert 3 < float(run.row["goodput_mbps"]) < 9.6
