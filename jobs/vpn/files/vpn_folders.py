# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of vpn-configs: one a VPN, described by its vpn.json (the README.md there is the contract)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONFIGS = Path(__file__).parent / "vpn-configs"
DEFAULTS: dict[str, Any] = {
    "commands": [],
    "programs": {},
    "values": {},
    "device": True,
    "handshake_line": None,
    "coordinator": None,
    "framing": None,
    "behind_nat": {},
    "rtt_max_s": None,
    "rtt_max_because": "",
}


def kinds() -> list[str]:
    """Names of all VPNs."""
    return sorted(file.parent.name for file in CONFIGS.glob("*/vpn.json"))


def scripts(kind: str) -> Path:
    """The folder with the VPN's scripts: its own, or that of its base."""
    return CONFIGS / str(_read(kind).get("base", kind))


def describe(kind: str) -> dict[str, Any]:
    """The VPN's vpn.json, with what it leaves to its base and to DEFAULTS."""
    own = _read(kind)
    base = _read(own["base"]) if "base" in own else {}
    values = {**base.get("values", {}), **own.get("values", {})}
    if own.keys() & {"overhead_bytes"} and "framing" not in own:
        base = {name: value for name, value in base.items() if name != "framing"}
    return {**DEFAULTS, **base, **own, "values": values, "own_mtu": "inner_mtu" in own}


def _read(kind: str) -> dict[str, Any]:
    described: dict[str, Any] = json.loads((CONFIGS / kind / "vpn.json").read_bytes())
    return described
