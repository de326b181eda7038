# SPDX-License-Identifier: GPL-3.0-or-later
"""What page 1 of a planted campaign says where its rules once said what its own runs deny."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from helpers.planted import campaigns, runs

from openbach_run.report.front import costs_table, front_of
from openbach_run.report.page_model import page_one
from openbach_run.report.write import write_first
from openbach_run.results.record import Record

TIME, PAGE = "transfer_time_s", "page_load_time_s"
VPNS = ("none", "wireguard", "openvpn_udp", "openvpn_tcp")
Values = dict[str, str]


def told(records: list[Record], folder: Path) -> str:
    """Return all words of page 1: conditions, sentences and the table, a line each."""
    front = front_of(campaigns(records, folder))
    rows = [" | ".join(row) for row in front.use.rows] if front.use else []
    note = [front.use.note, *map(str, front.use.header)] if front.use else []
    return "\n".join([front.conditions, *front.sentences, *rows, *note])


def line(text: str, pattern: str) -> str:
    """Return the one line that has the pattern."""
    (found,) = [one for one in text.splitlines() if re.search(pattern, one)]
    return found


def noisy(value: float, luck: random.Random, part: float = 0.001) -> float:
    return value * luck.uniform(1 - part, 1 + part)


def calls(values: Values, luck: random.Random) -> dict[str, float]:
    busy = {"none": 3.28, "download": 1.27, "upload": 3.28}[values["background"]]
    worse = 0.92 if values["vpn"] == "openvpn_tcp" else 1.0
    back = 1.15 if values["background"] == "upload" else 3.28
    return {
        "to_client_mos": noisy(busy * worse, luck),
        "to_server_mos": noisy(back * worse, luck),
        "ping_rtt_ms": noisy(660, luck),
    }


def pages(values: Values, luck: random.Random) -> dict[str, float]:
    time_s = 4.31 if values["http"] == "3" else 6.84
    if values["vpn"] == "openvpn_tcp" and values["pep"] == "A":
        time_s *= 1.57 if values["http"] == "3" else 1.16
    return {PAGE: noisy(time_s, luck)}


def calls_and_pages(seeds: int = 5) -> list[Record]:
    of_calls = runs("voip", calls, seeds, vpn=VPNS, background=("none", "download", "upload"))
    swept = {"vpn": VPNS, "pep": ("none", "A"), "http": ("2", "3"), "quic": ("nginx",)}
    return of_calls + runs("web", pages, seeds, **swept)


def test_1_a_vpn_that_calls_and_pages_suffer_from_is_no_equivalent(tmp_path: Path) -> None:
    """OpenVPN TCP costs 57 % of a page beside a PEP, and a call its last tenth."""
    text = told(calls_and_pages(), tmp_path)
    assert "WireGuard and OpenVPN UDP" in line(text, "are equivalent")
    for one in text.splitlines():
        advised = one if "are equivalent" in one else one.rpartition(" | ")[0]
        assert "OpenVPN TCP" not in advised, one
    assert re.search(r"MOS.* 3\.3", text) and "G.107" in text and "page load time" in text
    assert "ping RTT" in text, "no measure is dropped"
    assert re.search(r"to the server.* 1\.1|to server.* 1\.1", text), "the worse direction"
    assert re.search(r"Avoid OpenVPN TCP.*57 %", text)


def test_1_of_one_seed_nothing_is_claimed_and_the_command_is_there(tmp_path: Path) -> None:
    text = told(calls_and_pages(seeds=1), tmp_path)
    assert "equivalent" not in text and "decides" not in text and "Avoid" not in text
    assert "./openbach-run made_up --seeds 5" in text


def test_1_one_run_is_called_one_cell_and_one_run(tmp_path: Path) -> None:
    write_first(
        campaigns(runs("geo_loss", losses, 1, cc=("cubic",), loss=("0",)), tmp_path), tmp_path
    )
    assert "1 cell, 1 run.\n" in (tmp_path / "report.md").read_text()


def losses(values: Values, luck: random.Random) -> dict[str, float]:
    slow = {"cubic": 450.0, "bbr2": 3.0}[values["cc"]]
    return {TIME: noisy(28 + slow * float(values["loss"]), luck)}


def test_2_what_holds_up_to_a_loss_is_said_with_it(tmp_path: Path) -> None:
    text = told(runs("geo_loss", losses, cc=("cubic", "bbr2"), loss=("0", "0.1", "1")), tmp_path)
    assert "whatever" not in text
    found = line(text, "BBRv2 .*instead of TCP CUBIC")
    assert "at up to 1 % loss, the most that was run" in found
    assert "above 1 % loss" in found, "where docs/ know a cliff, page 1 does"


def test_3_http_3_is_another_transport_and_no_cubic(tmp_path: Path) -> None:
    swept = {"vpn": VPNS[:2], "http": ("2", "3"), "quic": ("nginx",)}
    text = told(runs("web", pages, **swept), tmp_path)
    assert "CUBIC over HTTP/3" not in text and "ongestion control decides" not in text
    assert "QUIC (nginx, Reno)" in text and text.count("Transport decides") == 1


def with_pep(values: Values, luck: random.Random) -> dict[str, float]:
    helped = values["vpn"] == "none" and values["pep"] == "A"
    return {PAGE: noisy(5.52 if helped else 6.84, luck)}


def test_4_a_vpn_that_takes_the_pep_away_is_told(tmp_path: Path) -> None:
    swept = {"vpn": VPNS[:3], "pep": ("none", "A")}
    found = line(told(runs("web", with_pep, **swept), tmp_path), "PEP at A no longer helps")
    assert (
        "WireGuard" in found
        and "6.8 s instead of 6.8 s with WireGuard, 5.5 s instead of 6.8 s without VPN" in found
    )


def test_a_vpn_is_compared_with_the_pep_that_customers_have(tmp_path: Path) -> None:
    """In downloads and pages: in the title, a sentence and a table of both."""
    swept = {"vpn": VPNS[:3], "pep": ("none", "A"), "pep_program": ("satpep",)}
    records = runs("geo", with_pep_and_loss, loss=("0", "0.1"), **swept)
    front = front_of(campaigns(records + runs("web", with_pep, **swept), tmp_path))
    cost = "Customers with the PEP at A: transfer time 63 s with WireGuard instead of 21 s without"
    assert front.title.startswith(f"{cost} VPN (+200 %)")
    assert "pep_program" not in front.title and front.title.endswith("at 0.1 % loss")
    (pages,) = [one for one in front.sentences if "PEP at A: page load time" in one]
    assert "page load time 6.8 s with WireGuard instead of 5.5 s without VPN (+24 %)" in pages
    (block,) = front.behind_pep
    assert [row[:3] for row in costs_table(block).rows[1:3]] == [
        ["OpenVPN UDP", "TCP CUBIC", "PEP A"],
        ["WireGuard", "TCP CUBIC", "no PEP"],
    ]
    assert costs_table(block).rows[0][3].startswith("+23.")


def with_pep_and_loss(values: Values, luck: random.Random) -> dict[str, float]:
    helped = values["vpn"] == "none" and values["pep"] == "A"
    lossy = 21 if helped else 63
    return {TIME: noisy((14.6 if helped else 17) if values["loss"] == "0" else lossy, luck)}


def test_a_ping_beside_a_download_has_the_downloads_goodput(tmp_path: Path) -> None:
    def full(values: Values, luck: random.Random) -> dict[str, float]:
        is_full = values["vpn"] != "none"
        goodput = {"background_goodput_mbps": 17.3 if is_full else 12.3}
        return {"ping_rtt_ms": noisy(1011 if is_full else 645, luck), **goodput}

    text = told(runs("voip", full, vpn=VPNS[:2], background=("download",)), tmp_path)
    assert "645 ms without VPN (background: 12.3 Mbit/s)" in line(text, "The VPN decides")
    assert "with WireGuard (background: 17.3 Mbit/s)" in text


def test_what_is_more_than_ten_percent_or_worse_is_named_with_its_size(tmp_path: Path) -> None:
    def mixed(values: Values, luck: random.Random) -> dict[str, float]:
        with_a_pep = {"none": 5.8, "openvpn_tcp": 7.9}[values["vpn"]]
        return {PAGE: noisy(6.3 if values["pep"] == "none" else with_a_pep, luck)}

    text = told(runs("web", mixed, vpn=("none", VPNS[3]), pep=("none", "A")), tmp_path)
    assert re.search(r"by more: OpenVPN TCP.*: 6\.3 s without PEP and 7\.9", line(text, "by less"))
    worst = r"at worst 7\.9 s with OpenVPN TCP.* instead of 6\.3 s, "
    assert re.search(rf"and worse in 1 .*{worst}", text)


def of_tunnel(values: Values, luck: random.Random) -> dict[str, float]:
    if values["vpn"] == "openvpn_tcp" and values["pep"] == "B":
        return {TIME: noisy(43 if values["cc_tunnel"] == "bbr2" else 517, luck)}
    return {TIME: noisy(34 if values["pep"] == "B" else 480, luck)}


def test_5_the_control_of_the_tunnel_is_named_with_its_figure(tmp_path: Path) -> None:
    swept = {"vpn": (VPNS[1], VPNS[3]), "pep": ("none", "B"), "cc_pep": ("bbr2",), "loss": ("1",)}
    both = runs("mixed_cc", of_tunnel, cc_tunnel=("cubic", "bbr2"), **swept)
    text = told(both, tmp_path / "both")
    assert "43 s with OpenVPN TCP (own TCP: BBRv2)" in text
    assert "OpenVPN TCP (own TCP: as the hosts)" in text
    alone = told(runs("geo_loss", of_tunnel, cc_tunnel=("cubic",), **swept), tmp_path / "alone")
    assert "OpenVPN TCP (own TCP: as the hosts): 517 s" in alone


def test_5_each_percentage_names_its_transport(tmp_path: Path) -> None:
    def costs(values: Values, luck: random.Random) -> dict[str, float]:
        cost = {"none": 1.0, "wireguard": 1.037}[values["vpn"]] + 0.015 * (
            values["cc"] == "bbr2" and values["vpn"] != "none"
        )
        return {TIME: noisy(28 * cost, luck)}

    text = told(runs("geo_loss", costs, vpn=VPNS[:2], cc=("cubic", "bbr2")), tmp_path)
    found = line(text, "WireGuard costs")
    assert re.search(r"3\.\d (to 3\.\d )?%[^;]*TCP CUBIC", found)
    assert re.search(r"5\.\d (to 5\.\d )?%[^;]*TCP BBRv2", found)


def trace(values: Values, luck: random.Random) -> dict[str, float]:
    time_s = {"cubic": 15.0, "bbr3": 3.0, "aimd": 9.0}[values["cc"]]
    return {TIME: noisy(time_s, luck), "forward_lost_packets": 100}


def test_6_a_link_file_is_neither_geo_nor_without_loss(tmp_path: Path) -> None:
    swept = {"cc": ("cubic", "bbr3", "aimd"), "link_file": ("a/my_link.csv",)}
    records = runs("geo", trace, vpn=("wireguard",), delay_ms=("250",), **swept)
    text = told(records, tmp_path)
    assert "my_link" in text and "GEO" not in text and "without loss" not in text
    assert "its own loss" in text and "a median of 100 packets" in text
    front = front_of(campaigns(records, tmp_path))
    assert front.figure is not None
    legend = [one.get_text() for one in front.figure.figure.legends[0].get_texts()]
    assert any("aimd" in one for one in legend), "the subject of the paper"


@pytest.mark.parametrize("of", [{"link_file": ("a/burst.csv",)}, {"orbit": ("burst",)}])
def test_6_a_file_of_a_satellite_loses_as_one_by_argument_does(
    of: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    link = {"rate": ("none",), "return_rate": ("none",), "delay_ms": ("none",)}
    lossy = link | {"forward": ("rate",), "cc": ("cubic", "bbr3"), "loss": ("0", "1"), **of}
    text = told(runs("geo", slowed, **lossy), tmp_path / "lossy").lower()
    assert "without random loss" not in text and "without loss" not in text
    assert "over burst" in text and "at its own, 1 % random loss" in text
    assert "at up to 1 % loss" in text, "what was asked for comes on top"
    whole = told(runs("geo", without_losses, **lossy), tmp_path / "whole")
    assert "its own" not in whole and "at 0, 1 % random loss" in whole


def slowed(values: Values, luck: random.Random) -> dict[str, float]:
    whole = trace(values, luck)
    return whole | {TIME: whole[TIME] * (1 + float(values["loss"]))}


def without_losses(values: Values, luck: random.Random) -> dict[str, float]:
    return {**slowed(values, luck), "forward_lost_packets": 25.0 * float(values["loss"])}


def test_6_a_link_that_loses_by_itself_is_not_without_loss(tmp_path: Path) -> None:
    text = told(runs("leo", trace, cc=("cubic", "bbr3"), orbit=("starlink",)), tmp_path)
    assert "without loss" not in text and "Starlink" in text


def lan(values: Values, luck: random.Random) -> dict[str, float]:
    times_s = {"pc_1": 5.56, "pc_2": 10.31, "pc_3": 10.61}
    return {f"{pc}_transfer_time_s": noisy(time_s, luck) for pc, time_s in times_s.items()}


def test_7_of_a_lan_the_last_pc_and_each_one_are_told(tmp_path: Path) -> None:
    text = told(runs("lan", lan), tmp_path)
    assert re.search(r"slowest.* 10\.6 s|11 s", text)
    for pc in ("PC 1 5.6 s", "PC 2 10.3 s", "PC 3 10.6 s"):
        assert pc in text
    assert "transfer time 5.6 s" not in text


def leased(values: Values, luck: random.Random) -> dict[str, float]:
    fixed = values["vpn_values"] != "none"
    return {TIME: noisy(1.0 if fixed else 2.0 if values["vpn"] == "quic_split" else 3.0, luck)}


def test_8_no_sender_without_congestion_control_is_advised(tmp_path: Path) -> None:
    swept = {"vpn": (*VPNS[:3], "quic_split"), "vpn_values": ("none",)}
    fast = {"vpn": ("quic_split",), "vpn_values": ("cc=fixed:242M:2900k",), "rate": ("250M",)}
    every = runs("geo", leased, rate=("50M", "250M"), **swept) + runs("geo", leased, **fast)
    text = told(every, tmp_path)
    table = [one for one in text.splitlines() if " | " in one]
    assert table and not any("fixed" in one or "–" in one for one in table)
    assert "only on a leased rate" in text


def test_8_what_was_run_on_some_links_only_is_not_advised(tmp_path: Path) -> None:
    def fast(values: Values, luck: random.Random) -> dict[str, float]:
        return {TIME: noisy({"none": 3, "wireguard": 3.1, "openvpn_udp": 1}[values["vpn"]], luck)}

    every = runs("geo", fast, vpn=VPNS[:2], rate=("50M", "250M"))
    every += runs("geo", fast, vpn=(VPNS[2],), rate=("50M",))
    table = [one for one in told(every, tmp_path).splitlines() if " | " in one]
    assert not any("OpenVPN UDP" in one for one in table)


def test_9_what_is_advised_is_not_to_be_avoided(tmp_path: Path) -> None:
    """On an assigned return link OpenVPN UDP costs less, on demand WireGuard does by far."""

    def costly(values: Values, luck: random.Random) -> dict[str, float]:
        assigned = {"none": 1.0, "wireguard": 1.1, "openvpn_udp": 1.02}
        asked = {"none": 1.0, "wireguard": 1.6, "openvpn_udp": 2.1}
        cost = assigned if values["access"] == "assigned" else asked
        return {TIME: noisy(5 * cost[values["vpn"]], luck)}

    text = told(runs("rcs2", costly, vpn=VPNS[:3], access=("assigned", "dama")), tmp_path)
    assert re.search(r"\| WireGuard \|", text)
    assert not re.search("Avoid[^.]*WireGuard: ", text)


def test_9_a_noisy_change_has_its_interval_and_is_no_equivalence(tmp_path: Path) -> None:
    def spread(values: Values, luck: random.Random) -> dict[str, float]:
        wide = 0.5 if (values["orbit"], values["vpn"]) == ("starlink", "wireguard") else 0.002
        return {TIME: noisy(20, luck, wide)}

    text = told(runs("leo", spread, vpn=VPNS[:2], orbit=("leo", "starlink")), tmp_path)
    assert "equivalent" not in text
    assert re.search(r"WireGuard.* \[−?\d+\.\d(–| to )\d+\.\d\]", text)
    assert page_one(campaigns(runs("leo", spread), tmp_path)) is not None


@pytest.mark.parametrize("vpn", ["wireguard", "openvpn_udp"])
def test_4_a_pep_that_helps_through_the_vpn_is_not_said_to_be_taken_away(
    tmp_path: Path, vpn: str
) -> None:
    def helped(values: Values, luck: random.Random) -> dict[str, float]:
        return {PAGE: noisy(5.5 if values["pep"] == "B" else 6.8, luck)}

    text = told(runs("web", helped, vpn=("none", vpn), pep=("none", "B")), tmp_path)
    assert "no longer helps" not in text and "Customers" not in text
