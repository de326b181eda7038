# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of vpn-configs: one a VPN, described by its vpn.json.

The README.md there is the contract.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openbach_jobs.data import data_folder

CONFIGS = data_folder("vpn-configs")
OTHERS = ("stack.json", "pep.json")
"""Files that describe other things whose programs are built as those of VPNs."""
NONE = "none"
VALUES = r"[\w-]+=[\w.:/@%+= -]+(;[\w-]+=[\w.:/@%+= -]+)*"
"""Pattern of vpn.yml: nothing that a shell, or a VPN's configuration, takes for more than words."""
TAKES = {
    "clamp": {"pattern": "on|off", "like": "on or off"},
    "mtu": {
        "pattern": "57[6-9]|5[89][0-9]|[6-9][0-9]{2}|[1-9][0-9]{3}|[1-5][0-9]{4}",
        "like": "bytes from 576 to 59999",
    },
    "setup": {"pattern": "time", "like": "time: the column setup_time_s"},
}
"""Values that any VPN takes: whether the segment size of TCP in it is set, its MTU, and whether the
job times the set-up."""
ENDS = ("client-", "server-")
"""Beginnings of the names of values that are of one end only."""
LAST_LINES = 8
"""Lines at the end of a log that a message has. A record keeps them twice, as log and as last
words."""
MOST_ERRORS, MOST_WARNINGS, MOST_BYTES = 6, 8, 16 << 20
STAMP = re.compile(r'^(time="\S*" )?([\dT:./Z-]{8,} )*')
"""Date and time at the beginning of a daemon's line."""
WARNING = re.compile(r"warn|deprecat|\bignor|no effect|not supported|unsupported|disabl", re.I)
ERROR = re.compile(
    r"error|fail|fatal|critical|cannot|can't|could not|unable|refused|denied|invalid|mismatch|"
    r"does not have|unrecognized|no such|not found|no proposal|unsupported",
    re.I,
)
HARMLESS = re.compile(r"Could not determine IPv4/IPv6|Unroutable control packet|SIGUSR1\[soft")
"""Lines of OpenVPN: of each start, and behind an error of the other end."""
NOTHING = re.compile(r"(?!)")
"""Pattern that no line matches."""
DEFAULTS: dict[str, Any] = {
    "commands": [],
    "programs": {},
    "values": {},
    "takes": {},
    "fixed": [],
    "device": True,
    "ends_tcp": False,
    "handshake_line": None,
    "coordinator": None,
    "framing": None,
    "behind_nat": {},
    "ipv6": [],
    **dict.fromkeys(("runs_in", "device_type", "cipher_line", "usual_warnings"), None),
    **dict.fromkeys(("multipath", "post_quantum", "post_quantum_line"), None),
    "rtt_max_s": None,
    "rtt_max_because": "",
}


def kinds() -> list[str]:
    """Return the names of all VPNs."""
    return sorted(file.parent.name for file in CONFIGS.glob("*/vpn.json"))


def scripts(kind: str) -> Path:
    """Return the folder with the VPN's scripts: its own, or that of its base."""
    return CONFIGS / str(_read(kind).get("base", kind))


def describe(kind: str, set_values: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a VPN's vpn.json, with what it leaves to its base and to DEFAULTS.

    Values that are set take the place of its own.
    """
    own = _read(kind)
    base = _read(own["base"]) if "base" in own else {}
    values = {**base.get("values", {}), **own.get("values", {}), **(set_values or {})}
    takes = {**TAKES, **base.get("takes", {}), **own.get("takes", {})}
    if own.keys() & {"overhead_bytes"} and "framing" not in own:
        base = {name: value for name, value in base.items() if name != "framing"}
    merged = {"values": values, "takes": takes}
    own_mtu = "inner_mtu" in own and "cipher" not in (set_values or {})
    return {**DEFAULTS, **base, **own, **merged, "own_mtu": own_mtu}


def text_of(log: Path) -> str:
    """Return the text of a log. `open` would make calls that fail, and those take virtual time."""
    file = os.open(log, os.O_RDONLY)
    try:
        return os.read(file, MOST_BYTES).decode(errors="replace")
    finally:
        os.close(file)


def lines_with(log: Path, wanted: re.Pattern[str], but: re.Pattern[str], most: int) -> list[str]:
    """Return the first lines of a log that say something, each once and without its time."""
    lines = (STAMP.sub("", line).strip() for line in text_of(log).splitlines())
    chosen = (line for line in lines if wanted.search(line) and not but.search(line))
    return [*dict.fromkeys(chosen)][:most]


def last_lines(log: Path) -> str:
    """Return what a log says of a failure, to be put behind a message: its errors, or its end."""
    if errors := lines_with(log, ERROR, HARMLESS, MOST_ERRORS):
        return "; its errors:\n" + "\n".join(errors)
    lines = text_of(log).splitlines()[-LAST_LINES:]
    return "; its last lines:\n" + "\n".join(lines) if lines else "; it said nothing"


def warnings_of(vpn: Mapping[str, Any], log: Path) -> list[str]:
    """Return the warnings of a daemon, but those that it gives in each run of this testbed."""
    return lines_with(log, WARNING, re.compile(vpn["usual_warnings"] or NOTHING), MOST_WARNINGS)


def cipher_of(vpn: Mapping[str, Any], log: Path) -> str:
    """Return the cipher that the daemon tells of, else the only one that the VPN may have."""
    ciphers = re.findall(vpn["cipher_line"] or NOTHING, text_of(log))
    return str(ciphers[-1] if ciphers else vpn["values"].get("cipher") or vpn.get("ciphers", ""))


def values_in(text: str, role: str = "") -> dict[str, str]:
    """Return name → value of `cipher=AES-256-CBC;keepalive=10`; `none` has none. Raises ValueError.

    With a role those of the other end are left out, and `client-keepalive` is the client's.
    """
    if text == NONE:
        return {}
    if not re.fullmatch(VALUES, text):
        raise ValueError(f"{text!r} is no text like cipher=AES-256-CBC;keepalive=10")
    pairs = [part.split("=", 1) for part in text.split(";")]
    names = [name for name, _ in pairs]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{text!r} has {min(twice)} twice")
    if not role:
        return dict(pairs)
    both = {name: value for name, value in pairs if not name.startswith(ENDS)}
    own = {name: value for name, value in pairs if name.startswith(f"{role}-")}
    return both | {name.removeprefix(f"{role}-"): value for name, value in own.items()}


def error_in_values(kind: str, values: Mapping[str, str]) -> str:
    """Return what is wrong with values for a VPN, before any of its scripts runs.

    It is "" if the VPN has them all.
    """
    vpn = describe(kind)
    files = [*scripts(kind).iterdir(), CONFIGS / "lib.sh"]
    read = "".join(file.read_text(errors="replace") for file in files if file.is_file())
    for name, value in values.items():
        if not re.search(rf"\bVPN_{name.upper()}\b", read):
            return f"{kind} does not read the value {name}"
        if name in vpn["fixed"]:
            return f"{kind} has the value {name} fixed"
        taken = vpn["takes"].get(name)
        if taken and not re.fullmatch(taken["pattern"], value):
            return f"{kind}: {name}={value} should be {taken['like']}"
    return ""


def _read(kind: str) -> dict[str, Any]:
    folder = CONFIGS / kind
    # A path may be that of another thing whose program is built as that of a VPN.
    file = next((folder / name for name in OTHERS if (folder / name).exists()), folder / "vpn.json")
    described: dict[str, Any] = json.loads(file.read_bytes())
    return described
