# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders and files of a user's are checked before a guest starts.

VPNs, congestion controls, impairments, CPUs, satellites.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.fake_engine import Transfers

from openbach_run.campaign import engines
from openbach_run.campaign.entries import CHECKED, check_entries
from openbach_run.catalog import Catalog
from openbach_run.commands import main
from openbach_run.engine.native.features import FEATURES
from openbach_run.errors import InputError
from openbach_run.openbach.shapes import check, schema_of

FOLDERS = {
    "vpn-configs": "{}/vpn.json",
    "congestion-controls": "{}/profile.json",
    "peps": "{}/pep.json",
    "satellites": "{}.yml",
}
SETTINGS = {
    "vpn-configs": ("geo", "vpn=mine"),
    "congestion-controls": ("geo", "cc=mine"),
    "impairments": ("lan_tcp", "impairment=mine"),
    "cpus": ("geo", "cpu=mine"),
    "satellites": ("geo", "orbit=mine"),
    "peps": ("geo", "pep_program=mine"),
}
CPU = {
    "encrypt": {"ns_per_packet": 5000, "ns_per_byte": 1},
    "decrypt": {"ns_per_packet": 5000, "ns_per_byte": 1},
}


Refused = Callable[[str, str], str]


@pytest.fixture
def refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Refused:
    """What the command says, before any guest, of an entry `mine` of a kind, "" if it takes it."""

    def told(kind: str, content: str) -> str:
        monkeypatch.setattr(engines, "VirtualEngine", Transfers().engine)
        monkeypatch.chdir(tmp_path)
        file = tmp_path / kind / FOLDERS.get(kind, "{}.json").format("mine")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
        scenario, setting = SETTINGS[kind]
        others = [one for one in ("vpn=none", "cc=cubic") if one[:3] != setting[:3]]
        options = ["--with", str(tmp_path), "--dry-run", "--quiet"]
        code = main.main([scenario, setting, *others, *options])
        said = capsys.readouterr().err
        assert (code == 0) != ("\nopenbach-run: " in f"\n{said}"), said
        return said if code else ""

    return told


VPN, CONTROL, PEP = "vpn-configs", "congestion-controls", "peps"


def wireguard(**more: object) -> dict[str, Any]:
    """The description of a VPN that is WireGuard but for this."""
    return {"base": "wireguard", **more}


def pep(**recipe: str) -> dict[str, Any]:
    """The description of a PEP whose program has this recipe."""
    return {"command": ["mined"], "programs": {"mined": recipe}}


FAULTS: list[tuple[str, Any, str]] = [
    (PEP, {"programs": {}}, "peps/mine/pep.json: command is missing"),
    (PEP, pep(crate="mine", host="example.org"), "programs.mined: has crate and host; it needs"),
    (PEP, pep(binary="mined", build="make"), "programs.mined: source is missing"),
    (PEP, pep(source="mined", version="1", wheel="mined"), "programs.mined: build is missing"),
    (
        VPN,
        wireguard(values={"keepalife": 25}),
        (
            "values.keepalife: no script of {root}/wireguard reads VPN_KEEPALIFE, so it has no"
            " effect; did you mean keepalive?"
        ),
    ),
    (VPN, {"base": "nebula", "values": {"punch": 25}}, "values.punch: no script"),
    (
        VPN,
        {"base": "easytier", "values": {"cipher": "AES-128-GCM"}},
        "so it has no effect; there are clamp",
    ),
    (VPN, wireguard(values={"rtt_s": 5}), "VPN_RTT_S is not a value: the job says that"),
    (VPN, wireguard(values={"psk": "yes"}), "values.psk: yes should be on or off"),
    (
        VPN,
        {"base": "openvpn_udp", "values": {"cipher": "BF-OFB"}},
        "how many bytes the cipher BF-OFB adds is not",
    ),
    (VPN, wireguard(takes={"psk": "on"}), 'takes.psk: "on" should be an object'),
    (VPN, wireguard(takes={"psk": {"pattern": "(", "like": "on"}}), "takes.psk.pattern: missing )"),
    (VPN, wireguard(fixed="psk"), 'fixed: "psk" should be a list'),
    (VPN, wireguard(values={"mtu": 1280}), "inner_mtu is a key beside values"),
    (VPN, wireguard(values={"Keepalive": 25}), 'the name "Keepalive" should be a text like'),
    (VPN, wireguard(values={"keepalive": True}), "should be a text, or a number"),
    (VPN, {"base": "openvpn_udp", "options": "--mssfix 1200"}, "options: no such key; "),
    (VPN, wireguard(inner_mtu="1412"), 'inner_mtu: "1412" should be a whole number from 576 to'),
    (
        VPN,
        wireguard(inner_mtu=20),
        "inner_mtu: 20 should be a whole number from 576 to 65535 bytes",
    ),
    (
        VPN,
        {"base": "wireguard", "inner-mtu": 1412},
        "inner-mtu: no such key; did you mean inner_mtu?",
    ),
    (VPN, wireguard(carrier="udp"), 'carrier: "udp" should be a text like UDP, TCP'),
    (VPN, wireguard(needs=["wiregard"]), 'needs.0: "wiregard" is none of '),
    (VPN, wireguard(handshake_line="("), "handshake_line: missing ), unterminated subpattern"),
    (VPN, {"base": ["strongswan"]}, 'base: ["strongswan"] should be a text'),
    (VPN, {"base": "mine"}, "base: mine is the folder itself"),
    (
        VPN,
        {"base": "openvpn_mptcp"},
        "base: openvpn_mptcp has no scripts but a base itself, openvpn_tcp",
    ),
    (VPN, {"base": "wiregard"}, "base: there is no vpn-configs/wiregard; did you mean wireguard?"),
    (
        VPN,
        {"carrier": "UDP", "daemon": False, "inner_mtu": 1380},
        "overhead_bytes is missing: a whole number",
    ),
    (
        VPN,
        {"carrier": "UDP", "daemon": False, "inner_mtu": 1380, "overhead_bytes": 60},
        "keygen is missing",
    ),
    (VPN, {"base": "nebula_lighthouse"}, "has no scripts but a base"),
    (VPN, wireguard(coordinator="hub"), "daemon should be true"),
    (VPN, [], "should be a JSON object"),
    (
        VPN,
        '{"base": "wireguard", "inner_mtu": 1400, "inner_mtu": 1280}',
        "the key 'inner_mtu' is there twice",
    ),
    (CONTROL, {"algoritm": "reno"}, "algoritm: no such key; did you mean algorithm?"),
    (
        CONTROL,
        {"parameters": {"tcp_cubic.hystart": "0"}},
        "should be a text like tcp_cubic/hystart",
    ),
    (CONTROL, {"sysctls": {"net.ipv4.tcp_ecn": 1}}, "sysctls.net.ipv4.tcp_ecn: 1 should be a text"),
    ("impairments", {"los_pct": 3}, "los_pct: no such key; did you mean loss_pct?"),
    ("impairments", {"loss_pct": "3"}, 'loss_pct: "3" should be a number from 0 to 100 %'),
    ("impairments", {"reorder_pct": 3}, "packets overtake others only where there is a delay"),
    (
        "cpus",
        {"vpns": {"wireguard": {"encrypt": CPU["encrypt"]}}},
        "vpns.wireguard: decrypt is missing",
    ),
    (
        "cpus",
        {"vpns": {"wireguard": {**CPU, "decrypt": {"ns_per_packet": 10**400, "ns_per_byte": 1}}}},
        "vpns.wireguard.decrypt.ns_per_packet: 1",
    ),
    ("cpus", {"vpns": {"wireguard": CPU}, "queue_packet": 5}, "did you mean queue_packets?"),
    (
        "cpus",
        {"vpns": {}, "queue_packets": 0},
        "queue_packets: 0 should be a whole number from 1 to 10000 packets",
    ),
]


@pytest.mark.parametrize(("kind", "content", "words"), FAULTS)
def test_what_is_wrong_with_an_entry_is_told_before_a_guest_starts(
    kind: str, content: Any, words: str, tmp_path: Path, refused: Refused
) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    said = refused(kind, text)
    assert words.format(root=Catalog().roots[0] / "vpn-configs") in said
    assert str(tmp_path / kind) in said


@pytest.mark.parametrize(
    "content",
    [
        {"base": "wireguard", "values": {"keepalive": 25}},
        {"base": "openvpn_udp", "values": {"options": "--mssfix 1200"}},
        {"base": "wireguard", "inner_mtu": 1280},
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_variant_of_a_vpn_is_taken(content: Any, mark: str, refused: Refused) -> None:
    assert refused(VPN, mark + json.dumps(content)) == ""


def test_a_vpn_may_need_every_feature_that_is_known() -> None:
    assert schema_of("vpn")["properties"]["needs"]["items"]["enum"] == [*FEATURES]


def test_scripts_beside_a_base_have_no_effect(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "vpn-configs/mine").mkdir(parents=True)
    (tmp_path / "vpn-configs/mine/up").write_text("#!/bin/sh\n")
    said = refused(VPN, '{"base": "wireguard"}')
    assert "mine/up has no effect: all but vpn.json is that of the base, wireguard" in said


def test_bases_in_a_circle_are_told(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "vpn-configs/other").mkdir(parents=True)
    (tmp_path / "vpn-configs/other/vpn.json").write_text('{"base": "mine"}')
    said = refused(VPN, '{"base": "other"}')
    assert "base: other has no scripts but a base itself, mine" in said


def test_a_satellite_of_any_argument_is_read_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "satellites").mkdir()
    (tmp_path / "satellites/mine.yml").write_text("delay: 250\n")
    (tmp_path / "topologies").mkdir()
    with pytest.raises(Exception, match="line 1: unknown: delay; did you mean delay_ms"):
        check_entries({"satellites": ["mine"]}, Catalog.beside_ours([tmp_path]).entries)


@pytest.mark.parametrize("kind", CHECKED)
def test_our_own_entries_have_their_shape(kind: str) -> None:
    ours = Catalog()
    check_entries({kind: sorted(ours.all(kind))}, ours.entries)


def test_the_error_at_any_length_that_calibrate_checks_is_taken() -> None:
    """`calibrate --check-bytes 500` wrote a profile that cpu=NAME refused."""
    costs = {"ns_per_packet": 1000, "ns_per_byte": 1}
    check("mine.json", {**costs, "off_pct_at_500_bytes": 0.5}, "cpu#/$defs/costs")
    with pytest.raises(InputError, match=r"of_pct: the name .* like off_pct_at_700_bytes"):
        check("mine.json", {**costs, "of_pct": 0.5}, "cpu#/$defs/costs")
