# SPDX-License-Identifier: GPL-3.0-or-later
"""Try what a link needs of this host's kernel, before anything on the host is changed.

It is tried in a network namespace that is gone afterwards. Where the host lets nobody make one,
nothing is tried, and the link's own commands fail.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterable

from openbach_jobs.command import run

DEVICE = "qdisc replace dev lo"
SEED = "seed"
"""Name of the piece that is tc's and not the kernel's: a seed of netem's losses."""
PIECES = {
    "ifb": ("ifb", "ip link add try_ifb type ifb"),
    "tbf": ("sch_tbf", f"tc {DEVICE} root tbf rate 1mbit burst 1540 limit 3000"),
    "htb": ("sch_htb", f"tc {DEVICE} root htb"),
    "netem": ("sch_netem", f"tc {DEVICE} root netem delay 1ms"),
    SEED: ("", f"tc {DEVICE} root netem delay 1ms seed 1"),
    "codel": ("sch_codel", f"tc {DEVICE} root codel"),
    "fq_codel": ("sch_fq_codel", f"tc {DEVICE} root fq_codel"),
    "cake": ("sch_cake", f"tc {DEVICE} root cake"),
    "clsact": ("sch_ingress", f"tc {DEVICE} clsact"),
    "matchall": ("cls_matchall", "tc filter add dev lo ingress matchall"),
    "mirred": (
        "act_mirred",
        "tc filter add dev lo egress matchall action mirred egress redirect dev lo",
    ),
    "nft": ("nf_tables", "nft add table inet try_nft"),
}
"""Piece → its module, and the command that shows that it is there; in this order."""
NO_SEED = (
    "this host's tc knows no seed of netem, which the value seed asks for: iproute2 6.6 and later"
    " do (tc -V says which it is); without the value the losses are by chance"
)
LINK = ("ifb", "netem", "clsact", "matchall", "mirred")
"""The pieces that every link needs."""


def check(pieces: Iterable[str]) -> None:
    """End the job if this host's kernel lacks any of the pieces, with what to install."""
    run("tc", "-V")  # where it is not installed, it says so
    if lacking := missing(pieces):
        sys.exit(NO_SEED if lacking == [SEED] else sentence(lacking))


def missing(pieces: Iterable[str]) -> list[str]:
    """Return which of the pieces the kernel lacks."""
    names = [name for name in PIECES if name in {*pieces}]
    tried = [f"{PIECES[name][1]} > /dev/null 2>&1 || echo {name}" for name in names]
    script = "\n".join(["ip link set lo up", *tried])
    words = ["unshare", "--net", "sh", "-c", script]
    absent = subprocess.run(words, check=False, capture_output=True, text=True).stdout.split()
    # Nobody can have what stands on a piece that is not there: that piece is told.
    on = {SEED: "netem", "matchall": "clsact", "mirred": "matchall"}
    return [name for name in absent if on.get(name) not in absent]


def sentence(lacking: Iterable[str]) -> str:
    """Return what the kernel lacks, and the packages that have it."""
    names = ", no ".join(f"{name} (module {PIECES[name][0]})" for name in lacking if name != SEED)
    return f"this host's kernel {platform.release()} has no {names}: {installed_by()}"


def installed_by() -> str:
    """Return the packages that have the pieces."""
    return (
        "on Debian linux-image-amd64 has it, in place of linux-image-cloud-amd64; on Ubuntu"
        f" linux-modules-extra-{platform.release()}"
    )
