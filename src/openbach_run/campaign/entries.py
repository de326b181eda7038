# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the folders and files that the values of a campaign name (catalog.py).

They are the VPNs, satellites and the like. They are checked before a guest starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from openbach_run.campaign.vpn_folder import check_vpn
from openbach_run.catalog import DESCRIBED, Entries, Uses
from openbach_run.json_files import read_json
from openbach_run.link_checks import read_preset
from openbach_run.openbach.shapes import check

SCHEMAS = {
    **{kind: file.removesuffix(".json") for kind, file in DESCRIBED.items()},
    "impairments": "impairment",
    "cpus": "cpu",
}
"""Kind → JSON Schema of its entries."""
CHECKED = (*SCHEMAS, "satellites")


def check_entries(uses: Uses, entries: Entries) -> None:
    """Check the folders and files that are used. Raises InputError for the first mistake."""
    for kind in CHECKED:
        for name in uses.get(kind, ()):
            # A base that does not exist is refused by the check of the VPN that names it.
            if name in entries[kind]:
                _check(kind, entries[kind][name], entries[kind])


def _check(kind: str, entry: Path, others: Mapping[str, Path]) -> None:
    """Check an entry; `others` are all entries of its kind. Raises InputError."""
    if kind == "satellites":
        read_preset(entry)
    elif kind == "vpn-configs":
        check_vpn(entry, others)
    else:
        file = entry / DESCRIBED[kind] if kind in DESCRIBED else entry
        check(f"{file}", described := read_json(file), SCHEMAS[kind])
        # Then the kernel's name of a congestion control is the folder's.
        if kind == "congestion-controls" and "algorithm" not in described:
            at = f"{file}: the folder's name, which is the algorithm"
            check(at, {"algorithm": entry.name}, "profile")
