# SPDX-License-Identifier: GPL-3.0-or-later
"""A VPN of a user's own, in a directory outside the checkout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import pcapng
from helpers.guest_runs import command, records

FILES = {
    "vpn.json": (
        """{
  "carrier": "UDP", "daemon": false, "inner_mtu": 1380, "overhead_bytes": 60,
  "packages": ["wireguard-tools", "nftables"], "commands": ["wg", "nft"],
  "values": {"keepalive": 25}
}
"""
    ),
    "keygen": (
        """#!/bin/sh
set -eu
umask 077
wg genkey > "$VPN_DIR/private"
wg pubkey < "$VPN_DIR/private"
"""
    ),
    "up": (
        """#!/bin/sh
set -eu
. "${0%/*}/../lib.sh"
ip link add "$VPN_DEVICE" type wireguard || exit 69
configure_wireguard
wg set "$VPN_DEVICE" peer "$(cat "$VPN_REMOTE_PUBLIC")" persistent-keepalive "$VPN_KEEPALIVE"
"""
    ),
    "down": (
        """#!/bin/sh
nft delete table inet "$VPN_DEVICE"
ip link del "$VPN_DEVICE"
"""
    ),
}


def test_a_vpn_of_ones_own(tmp_path: Path) -> None:
    results = tmp_path / "results"
    cell = ("geo", "cc=cubic", "size=100k", "--results", str(results))
    assert command(*cell, "vpn=none").returncode == 0
    (before,) = records(results)
    folder = tmp_path / "mine/vpn-configs/keepalive"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    lines = sum(text.count("\n") for text in FILES.values())
    print(f"a VPN: {lines} lines")
    assert lines <= 40
    refused = command(*cell, "vpn=none,keepalive")
    assert refused.returncode == 2 and "vpn=keepalive: vpn is one of none, " in refused.stderr
    done = command(*cell, "vpn=none,keepalive", "--with", str(tmp_path / "mine"))
    assert done.returncode == 0, done.stderr
    assert "vpn=keepalive" in done.stdout
    without, own = records(results)
    assert without.record == before.record
    assert before.row.items() <= without.row.items(), "a run of before is not made again"
    assert float(own.row["transfer_time_s"]) > float(without.row["transfer_time_s"])


STAND_IN = """#!/bin/sh
# A tunnel's daemon, as its user would have built it in a checkout of its own.
ip link add "$1" type wireguard
exec sleep 100000
"""


def test_a_vpn_with_a_program_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine/vpn-configs/own_program"
    folder.mkdir(parents=True)
    described = json.loads(FILES["vpn.json"])
    described |= {
        "daemon": True,
        "commands": ["mined"],
        "programs": {"mined": {"host": "https://example.org/mined"}},
    }
    up = """#!/bin/sh
set -eu
. "${0%/*}/../lib.sh"
run_daemon "[ -e /sys/class/net/$VPN_DEVICE ]" configure_wireguard mined "$VPN_DEVICE"
"""
    for name, text in {**FILES, "up": up, "vpn.json": json.dumps(described)}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    cell = ("geo", "vpn=own_program", "cc=cubic", "size=100k", "--with", str(tmp_path / "mine"))
    results = ("--results", str(tmp_path / "r"))
    missing = command(*cell, *results)
    assert missing.returncode != 0 and "own_program needs mined" in missing.stderr
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout/mined").write_text(STAND_IN)
    (tmp_path / "checkout/mined").chmod(0o755)
    monkeypatch.setenv("OPENBACH_RUN_PROGRAMS", str(tmp_path / "checkout"))
    done = command(*cell, *results)
    assert done.returncode == 0, done.stderr
    (first,) = records(tmp_path / "r")
    (tmp_path / "checkout/mined").write_text(STAND_IN.replace("100000", "200000"))
    assert command(*cell, *results).returncode == 0
    (second,) = records(tmp_path / "r")
    assert first.row["run_id"] != second.row["run_id"], "another program, another run"


VARIANTS = {
    "mtu": {"base": "wireguard", "inner_mtu": 1280},
    "keepalive": {"base": "wireguard", "values": {"keepalive": 1}},
    "cipher": {"base": "openvpn_udp", "values": {"cipher": "CHACHA20-POLY1305"}},
    "carrier": {"base": "yggdrasil", "carrier": "TCP", "values": {"carrier": "tcp"}},
}
"""VPNs of one line: what differs from another one."""


def test_variants(tmp_path: Path) -> None:
    for name, described in VARIANTS.items():
        (tmp_path / "vpn-configs" / name).mkdir(parents=True)
        (tmp_path / "vpn-configs" / name / "vpn.json").write_text(json.dumps(described))
    cells = (
        "geo",
        f"vpn=wireguard,{','.join(VARIANTS)}",
        "cc=cubic",
        "size=100k",
        "--with",
        str(tmp_path),
    )
    done = command(*cells, "--results", str(tmp_path / "r"), "--pcap")
    assert done.returncode == 0, done.stderr
    runs = {run.row["vpn"]: run for run in records(tmp_path / "r")}
    sizes = {
        vpn: [
            len(one.ip)
            for one in pcapng.read(runs[vpn].capture)
            if one.ip and one.interface == "pop/to_gw"
        ]
        for vpn in ("wireguard", "mtu", "keepalive")
    }
    assert max(sizes["mtu"]) == 1280 + 60
    empty = 32 + 28  # a keepalive is a packet without content
    assert sizes["keepalive"].count(empty) > sizes["wireguard"].count(empty)
    described = {"base": "openvpn_udp", "values": {"cipher": "NONSENSE"}}
    (tmp_path / "vpn-configs/cipher/vpn.json").write_text(json.dumps(described))
    refused = command("geo", "vpn=cipher", *cells[2:], "--results", str(tmp_path / "r"))
    assert refused.returncode == 2 and "NONSENSE" in refused.stderr


def test_a_directory_with_nothing_to_add(tmp_path: Path) -> None:
    (tmp_path / "vpn-configs/mine").mkdir(parents=True)
    for place, said in (
        (tmp_path / "vpn-configs/mine", f"give --with {tmp_path}"),
        (tmp_path / "no", "nothing to add"),
    ):
        refused = command("geo", "vpn=none", "--with", str(place))
        assert refused.returncode == 2 and said in refused.stderr
