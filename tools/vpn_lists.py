# SPDX-License-Identifier: GPL-3.0-or-later
"""Write anew the lists that follow from vpn-configs (`tools/dev tools/vpn_lists.py`).

They are the choices of the job's `kind` and those of them that are not tested here (files/vpn.yml),
the Debian packages that a real agent gets (install_vpn.yml), and the table of docs/vpns.md.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from vpn_folders import describe, kinds

from openbach_run.paths import REPOSITORY

FOLDER = REPOSITORY / "jobs/vpn"
JOB, PLAYBOOK, TABLE = (
    FOLDER / "files/vpn.yml",
    FOLDER / "install_vpn.yml",
    REPOSITORY / "docs/vpns.md",
)
UNTESTED = "not tested here"
PACKAGES_OF_THE_JOB = [
    line for line in (FOLDER / "packages.txt").read_text().splitlines() if line[:1] != "#"
]
COLUMNS = (
    *("VPN", "version", "licence", "packets by", "carrier", "overhead", "ciphers", "keys"),
    *("TCP", "multipath", "post-quantum", "coordinator", "tested"),
)


def texts() -> dict[Path, str]:
    """Return the files as they should be."""
    described = {kind: describe(kind) for kind in kinds()}
    packages = sorted({name for vpn in described.values() for name in vpn["packages"]})
    of_vpns = [name for name in packages if name not in PACKAGES_OF_THE_JOB]
    playbook = _with_list(PLAYBOOK.read_text(), "loop: [", of_vpns, first=of_vpns[0])
    untested = [kind for kind, vpn in described.items() if vpn["tested"] == UNTESTED]
    job = _with_list(JOB.read_text(), "choices: [none", ["none", *described])
    return {
        JOB: re.sub(rf"(?m){UNTESTED} are .*$", f"{UNTESTED} are {', '.join(untested)}", job),
        PLAYBOOK: _with_list(playbook, "name: [", PACKAGES_OF_THE_JOB, first="iproute2"),
        TABLE: _with_table(TABLE.read_text(), described),
    }


def _with_list(text: str, start: str, names: list[str], first: str = "none") -> str:
    """`text` with the one list that begins so, on one line, holding `names`, `first` in front."""
    key = start.split(":")[0]
    ordered = ", ".join([first, *(name for name in names if name != first)])
    new, count = re.subn(rf"(?m)^( *){re.escape(start)}\b.*\]$", rf"\g<1>{key}: [{ordered}]", text)
    assert count == 1, f"{start}: {count} times"
    return new


def _with_table(text: str, described: dict[str, dict[str, Any]]) -> str:
    head, _, rest = text.partition("<!-- table: tools/vpn_lists.py -->\n")
    _, end, tail = rest.partition("<!-- end of table -->\n")
    assert end, f"{TABLE}: the marks of the table are missing"
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(_row(kind, vpn) for kind, vpn in described.items())]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"{head}<!-- table: tools/vpn_lists.py -->\n{table}<!-- end of table -->\n{tail}"


def _row(kind: str, vpn: dict[str, Any]) -> tuple[str, ...]:
    overhead = f"{vpn['overhead_bytes']} bytes, MTU {vpn['inner_mtu']}"
    if vpn["overhead_bytes"] is None:
        overhead = "not measured" if vpn["tested"] == UNTESTED else "a stream"
    if vpn["ends_tcp"]:
        overhead = f"a stream; of datagrams MTU {vpn['inner_mtu']}"
    flags = ("yes" if vpn[name] else "no" for name in ("multipath", "post_quantum"))
    plain = (vpn[name] for name in ("version", "licence", "runs_in", "carrier"))
    return (
        f"`{kind}`",
        *plain,
        overhead,
        vpn["ciphers"],
        vpn["keys"],
        "ends it" if vpn["ends_tcp"] else "end to end",
        *flags,
        vpn["coordinator"] or "none",
        vpn["tested"],
    )


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    for file, text in texts().items():
        file.write_text(text)
