# SPDX-License-Identifier: GPL-3.0-or-later
"""A VPN of a user's own, in a directory outside the checkout."""

from __future__ import annotations

from pathlib import Path

from conftest import command, records

FILES = {
    "vpn.json": """{
  "carrier": "UDP", "daemon": false, "inner_mtu": 1380, "overhead_bytes": 60,
  "packages": ["wireguard-tools", "nftables"], "commands": ["wg", "nft"],
  "values": {"keepalive": 25}
}
""",
    "keygen": """#!/bin/sh
set -eu
umask 077
wg genkey > "$VPN_DIR/private"
wg pubkey < "$VPN_DIR/private"
""",
    "up": """#!/bin/sh
set -eu
. "$(dirname "$0")/../lib.sh"
ip link add "$VPN_DEVICE" type wireguard || exit 69
configure_wireguard
wg set "$VPN_DEVICE" peer "$(cat "$VPN_REMOTE_PUBLIC")" persistent-keepalive "$VPN_KEEPALIVE"
""",
    "down": """#!/bin/sh
nft delete table inet "$VPN_DEVICE"
ip link del "$VPN_DEVICE"
""",
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
    assert without == before, "a run of before is not made again"
    assert float(own.row["transfer_time_s"]) > float(without.row["transfer_time_s"])


def test_a_directory_with_nothing_to_add(tmp_path: Path) -> None:
    (tmp_path / "vpn-configs/mine").mkdir(parents=True)
    for place, said in (
        (tmp_path / "vpn-configs/mine", f"give --with {tmp_path}"),
        (tmp_path / "no", "nothing to add"),
    ):
        refused = command("geo", "vpn=none", "--with", str(place))
        assert refused.returncode == 2 and said in refused.stderr
