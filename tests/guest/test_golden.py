# SPDX-License-Identifier: GPL-3.0-or-later
"""The packets of small, different cells are those of tests/data/golden.json, to the bit.

They are run on the packages of debian.lock. An edit that should change no packet changes none here.
Where one does, `make golden` writes the file anew, in the commit that says why packets change.
Where the locked packages can no longer be had, the test fails: `tools/bump_debian.py` locks those of
today.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from helpers.guest_runs import REPOSITORY, command, records

FILE = REPOSITORY / "tests/data/golden.json"
CELLS = (
    "geo vpn=none cc=cubic size=300k noise=off",
    "geo_loss vpn=wireguard cc=bbr2 pep=B loss=1 size=100k noise=off",
    "geo vpn=openvpn_udp cc=bbr3 pep=A size=100k noise=off",
    "geo_loss vpn=openvpn_tcp cc=cubic loss=1 size=100k noise=off",
    "leo vpn=strongswan cc=bbr2 size=300k noise=off",
    "leo_loss vpn=nebula cc=cubic loss=1 size=300k noise=off",
    "library/topologies/coordinated.json vpn=nebula_lighthouse orbit=leo cc=bbr loss=0 size=300k noise=off",
    "geo vpn=none cc=cubic http=3 size=100k noise=off",
    "multi_flow orbit=leo vpn=wireguard cc_2=bbr2 loss=0.1 pep=none rate=1M return_rate=1M noise=off",
    "lan_tcp vpn=openvpn_dco impairment=none rate=10M duration_s=2 noise=off",
    "web vpn=tinc_router http=2 pep=B pep_profile=plain loss=0.1 loads=1 noise=off",
    "voip orbit=leo vpn=none background=download duration_s=5 noise=off",
    "voip orbit=geo_rcs2 access=dama return_rate=none vpn=wireguard background=download duration_s=60 noise=off",
    "multipath_udp vpn=none first=geo second=leo event=none noise=off",
    "geo vpn=none cc=bbr2 noise=host size=300k",
    "geo_loss vpn=openvpn_tcp cc=cubic pep=A loss=1 noise=host size=100k",
    "leo vpn=wireguard cc=bbr noise=host size=300k",
)


def run_of(cell: str, results: Path) -> dict[str, Any]:
    """The command, capture's hash and virtual time of a cell's one run."""
    words = ("./openbach-run", *cell.split(), "--seeds", "1")
    ended = command(*words[1:], "--locked", "--results", str(results))
    assert ended.returncode != 2, (
        f"{ended.stderr}\ntools/bump_debian.py locks the packages of today"
    )
    assert ended.returncode == 0, ended.stderr
    (run,) = records(results)
    record = json.loads((run.record / "record.json").read_text())
    return {
        "command": " ".join(words),
        "capture_hash": record["capture_hash"],
        "virtual_s": record["virtual_s"],
    }


@pytest.mark.parametrize("cell", CELLS)
def test_the_packets_are_those_of_before(cell: str, tmp_path: Path) -> None:
    now = run_of(cell, tmp_path / "results")
    before = json.loads(FILE.read_text())["cells"]
    if "UPDATE_GOLDEN" in os.environ:
        others = [one for one in before if one["command"] != now["command"]]
        FILE.write_text(json.dumps({"cells": [*others, now]}, indent=1) + "\n")
        return
    assert now in before, (
        "other packets: if they are meant to move, make golden, and CHANGELOG.md says why"
    )
