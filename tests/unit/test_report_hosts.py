# SPDX-License-Identifier: GPL-3.0-or-later
"""The drawing of a report's hosts follows from the inventory of its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openbach_run.report.hosts import drawing
from openbach_run.topology.inventory import load_inventory

ROOT = Path(__file__).resolve().parents[2]


def made(**networks: list[str]) -> dict[str, Any]:
    names = sorted({name for some in networks.values() for name in some})
    return {
        "hosts": [
            {
                "name": name,
                "interfaces": [{"network": key} for key, some in networks.items() if name in some],
            }
            for name in names
        ]
    }


@pytest.mark.parametrize(
    ("inventory", "lines"),
    [
        (made(lan=["pc", "box"], wan=["box", "pop"]), ["pc ── box ── pop"]),
        (made(lan=["pc_1", "pc_2", "pc_3"]), ["lan: pc_1, pc_2, pc_3"]),
        (made(a=["x", "y"], b=["y", "z"], c=["x", "z"]), ["a: x, y", "c: x, z", "b: y, z"]),
        (made(a=["x", "y"], b=["p", "q"]), ["b: p, q", "a: x, y"]),
        (made(), []),
    ],
)
def test_hosts_in_a_line_are_drawn_as_one(inventory: dict[str, Any], lines: list[str]) -> None:
    assert drawing(inventory) == lines


def test_our_path_is_a_line() -> None:
    inventory = load_inventory(ROOT / "inventory.yml")
    hosts = [
        {"name": one.name, "interfaces": [{"network": i.network} for i in one.interfaces]}
        for one in inventory.hosts
    ]
    assert drawing({"hosts": hosts}) == ["pc ── box ── st ── sat ── gw ── pop ── server"]
