# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that no registry has and a user does: a VPN's and a PEP's, as a source tree or a binary.

Small programs of ours play their part. The build has no network, and a run names their hash.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

from helpers.guest_runs import REPOSITORY, Run, command, records

TUNNEL = REPOSITORY / "tests/guest/programs/udp_tunnel.c"
GCC = ("gcc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-static", "-Wall", "-Wextra", "-Werror")
SCRIPTS = {
    "keygen": "#!/bin/sh\necho none\n",
    "up": """#!/bin/sh
set -eu
. "${0%/*}/../lib.sh"
ip tuntap add dev "$VPN_DEVICE" mode tun
run_daemon true configure_device mined "$VPN_DEVICE" $((7000 + VPN_TUNNEL)) "$VPN_REMOTE_IP"
""",
    "down": '#!/bin/sh\nnft delete table inet "$VPN_DEVICE"\nip link del "$VPN_DEVICE"\n',
}


def add_vpn(mine: Path, name: str, recipe: dict[str, Any]) -> None:
    """Write the folder of a VPN whose program is `mined`, by a recipe."""
    folder = mine / "vpn-configs" / name
    folder.mkdir(parents=True)
    described = {
        "carrier": "UDP",
        "daemon": True,
        "inner_mtu": 1472,
        "overhead_bytes": 28,
        "packages": ["nftables"],
        "commands": ["mined"],
        "programs": {"mined": recipe},
    }
    (folder / "vpn.json").write_text(json.dumps(described))
    for script, text in SCRIPTS.items():
        (folder / script).write_text(text)
        (folder / script).chmod(0o755)


def own_programs(run: Run) -> list[str]:
    """Return what records of a run's directory say of their user's own programs."""
    shared = (run.record.parents[1] / "shared").glob("*.json")
    told = [json.loads(file.read_text())["identity"] for file in shared]
    return [one["own_programs"] for one in told if "own_programs" in one]


def test_a_vpn_of_a_source_tree_and_of_a_binary(tmp_path: Path) -> None:
    tree, binary = tmp_path / "mine/tunnel", tmp_path / "mine/built/mined"
    tree.mkdir(parents=True)
    shutil.copy(TUNNEL, tree)
    build = f"{' '.join(GCC)} udp_tunnel.c -o $OUT/mined; ! getent hosts example.org"
    add_vpn(tmp_path / "mine", "tree", {"source": "../../tunnel", "version": "1", "build": build})
    add_vpn(tmp_path / "mine", "binary", {"binary": "../../built/mined"})
    binary.parent.mkdir()
    subprocess.run([*GCC, str(TUNNEL), "-o", str(binary)], check=True)
    cell = ("geo", "cc=cubic", "size=100k", "--seeds", "1,", "--with", str(tmp_path / "mine"))
    done = command(*cell, "vpn=tree", "--results", str(tmp_path / "tree"))
    assert done.returncode == 0, done.stderr
    done = command(*cell, "vpn=binary", "--results", str(tmp_path / "binary"))
    assert done.returncode == 0, done.stderr
    (of_tree,), (of_binary,) = records(tmp_path / "tree"), records(tmp_path / "binary")
    digest = sha256(binary.read_bytes()).hexdigest()
    assert own_programs(of_binary) == own_programs(of_tree) == [f"mined {digest}"]
    assert of_tree.row["transfer_time_s"] == of_binary.row["transfer_time_s"]
    # Another source, another program, another run.
    (tree / "udp_tunnel.c").write_text(TUNNEL.read_text().replace("0x5a", "0x5b"))
    done = command(*cell, "vpn=tree", "--results", str(tmp_path / "tree"))
    assert done.returncode == 0, done.stderr
    (changed,) = records(tmp_path / "tree")
    assert changed.row["run_id"] != of_tree.row["run_id"]


def test_a_source_tree_of_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    recipe = {"source": "../../../secret", "version": "1", "build": "cp * $OUT"}
    add_vpn(tmp_path / "mine", "evil", recipe)
    refused = command("geo", "vpn=evil", "cc=cubic", "--with", str(tmp_path / "mine"))
    assert refused.returncode == 2
    assert f"../../../secret is not in {tmp_path / 'mine'}, which was added" in refused.stderr


def test_a_pep_of_a_source_tree(tmp_path: Path) -> None:
    """The tree is satpep's own, under another name."""
    mine = tmp_path / "mine"
    shutil.copytree(REPOSITORY / "pep", mine / "splitter")
    recipe = {
        "source": "../../splitter",
        "version": "1",
        "build": 'make OUT="$OUT" LDFLAGS=-static satpep && mv "$OUT/satpep" "$OUT/splitter"',
    }
    described = {
        "command": ["splitter", "-p", "{port}", "-c", "{max_connections}"],
        "cc": ["-C", "{cc}"],
        "programs": {"splitter": recipe},
    }
    (mine / "peps/splitter").mkdir(parents=True)
    (mine / "peps/splitter/pep.json").write_text(json.dumps(described))
    path = ("geo", "vpn=none", "cc=cubic", "size=300k", "pep=B", "--seeds", "1,")
    cell = (*path, "http=1.1")
    programs = ("pep_program=satpep,splitter", "--with", str(mine))
    done = command(*cell, *programs, "--results", str(tmp_path / "r"))
    assert done.returncode == 0, done.stderr
    ours, theirs = records(tmp_path / "r")
    times_s = [float(one.row["transfer_time_s"]) for one in (ours, theirs)]
    assert abs(times_s[0] - times_s[1]) < 0.001
    (told,) = own_programs(theirs)
    assert told.startswith("splitter ")
    refused = command(*cell, *programs, "initcwnd_pep=40", "--results", str(tmp_path / "r"))
    assert refused.returncode == 2 and "only satpep has such an option" in refused.stderr
    # PEPsal holds iperf3's small messages back: 3 MB over GEO were 3.92 s, and came in 5.5 s.
    by_iperf3 = command(*path, *programs, "--results", str(tmp_path / "r"))
    assert by_iperf3.returncode == 2 and "give http=1.1" in by_iperf3.stderr


def test_pepsal_is_not_in_the_repository() -> None:
    missing = command("geo", "vpn=none", "cc=cubic", "http=1.1", "pep=B", "pep_program=pepsal")
    assert missing.returncode == 1
    assert "pepsal needs pepsal (get it from https://github.com/CNES/pepsal)" in missing.stderr
