# SPDX-License-Identifier: GPL-3.0-or-later
"""A tunnel's MTU: the largest whose packets fit the path in one piece.

What the cipher in force adds is counted.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

tunnel_mtu = importlib.import_module("tunnel_mtu")
folders = importlib.import_module("vpn_folders")
PATHS = (700, 1280, 1281, 1400, 1460, 1492, 1499, 1500)
PACKETS = [kind for kind in folders.kinds() if folders.describe(kind)["overhead_bytes"]]
"""VPNs whose carrier is no stream."""


def with_cipher(kind: str, cipher: str) -> dict[str, Any]:
    described = folders.describe(kind)
    return {**described, "values": {**described["values"], "cipher": cipher}, "own_mtu": False}


@pytest.mark.parametrize("kind", PACKETS)
def test_a_full_packet_fits_the_path_and_a_larger_one_would_not(kind: str) -> None:
    described = folders.describe(kind)
    framing = tunnel_mtu.framing_of(described)
    for path in PATHS:
        mtu = tunnel_mtu.fitting_mtu(described, path)
        assert tunnel_mtu.outer_bytes(framing, mtu) <= path
        most = min(path, framing.get("most", path)) - framing.get("spare", 0)
        assert mtu == described["inner_mtu"] or tunnel_mtu.outer_bytes(framing, mtu + 1) > most


@pytest.mark.parametrize("kind", PACKETS)
def test_over_ethernet_it_is_the_folders(kind: str) -> None:
    described = folders.describe(kind)
    assert tunnel_mtu.fitting_mtu(described, 1500) == described["inner_mtu"]
    framing = tunnel_mtu.framing_of(described)
    larger = described["inner_mtu"] if "most" in framing else described["inner_mtu"] + 7500
    assert tunnel_mtu.fitting_mtu(described, 9000) == larger
    full = tunnel_mtu.outer_bytes(framing, described["inner_mtu"])
    assert full == described["inner_mtu"] + described["overhead_bytes"]


@pytest.mark.parametrize(
    ("kind", "cipher", "mtu"),
    [
        ("openvpn_udp", "AES-256-GCM", 1448),
        ("openvpn_udp", "CHACHA20-POLY1305", 1448),
        ("openvpn_udp", "AES-256-CBC", 1419),
        ("openvpn_udp", "aes-128-cbc", 1419),
        ("strongswan", "aes256-sha256", 1438),
        ("strongswan_udp", "aes256-sha256", 1422),
    ],
)
def test_the_cipher_counts(kind: str, cipher: str, mtu: int) -> None:
    """At commit 94585d7 AES-256-CBC had GCM's 52 bytes, and each full packet became two."""
    assert tunnel_mtu.fitting_mtu(with_cipher(kind, cipher), 1500) == mtu


def test_a_cipher_that_nobody_has_described_is_named() -> None:
    with pytest.raises(
        tunnel_mtu.MtuError, match="how many bytes the cipher BF-OFB adds is not known"
    ):
        tunnel_mtu.fitting_mtu(with_cipher("openvpn_udp", "BF-OFB"), 1500)


def test_an_mtu_that_a_run_asks_for_is_not_made_smaller() -> None:
    """At commit 33a89e92 no run could have a tunnel whose packets do not fit (F3)."""
    described = folders.describe("wireguard", {"mtu": "1420"})
    assert tunnel_mtu.fitting_mtu(described, 1440) == 1420
    assert tunnel_mtu.fitting_mtu(folders.describe("wireguard"), 1440) == 1380


def test_an_mtu_that_is_too_big_is_told() -> None:
    described = {**folders.describe("wireguard"), "inner_mtu": 1441}
    with pytest.raises(
        tunnel_mtu.MtuError, match="its MTU is too big: packets of 1441 bytes take 1501"
    ):
        tunnel_mtu.fitting_mtu(described, 1500)


def test_a_path_that_is_too_small_is_told() -> None:
    with pytest.raises(tunnel_mtu.MtuError, match="no tunnel fits a path of 600 bytes"):
        tunnel_mtu.fitting_mtu(folders.describe("wireguard"), 600)


@pytest.mark.parametrize("kind", ["openvpn_tcp", "yggdrasil"])
def test_a_stream_needs_no_smaller_packets(kind: str) -> None:
    assert tunnel_mtu.fitting_mtu(folders.describe(kind), 1280) == 1500
