# SPDX-License-Identifier: GPL-3.0-or-later
"""A VPN's folder: its vpn.json, merged with that of its base, and the values that it takes.

vpn-configs/README.md has the keys. The values are those of `takes`, `values` and `reads`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from openbach_jobs.link_file import near
from openbach_run.catalog import DESCRIBED, description
from openbach_run.errors import InputError
from openbach_run.openbach.shapes import check

FILE = DESCRIBED["vpn-configs"]
MERGED = ("values", "takes")
"""Keys of vpn.json of which a variant has the entries of its base beside its own."""
DIRECTORY = "bin"
"""Folder in a VPN's folder into which the virtual engine puts the user's own programs."""
SCRIPTS = ("keygen", "up", "down")
SET_BY_JOB = (
    "dir", "role", "device", "tunnel", "local_ip", "remote_ip", "local_network", "remote_network",
    "tunnel_ip", "remote_tunnel_ip", "remote_public", "coordinator_ip", "coordinator_tunnel_ip",
    "coordinator_public", "mtu", "paths", "rtt_s", "remote_seen_ip",
)  # fmt: skip
"""Variables of the scripts that the job sets: a value of such a name would take their place."""
MTU = "mtu"
"""Name of the only such variable that a run may give; a folder has `inner_mtu` for it."""
SETUP = "setup"
"""Name of the value that the job reads itself."""
TAKES = {
    SETUP: {"pattern": "time", "like": "time: the column setup_time_s"},
    "clamp": {"pattern": "on|off", "like": "on or off"},
    MTU: {
        "pattern": "57[6-9]|5[89][0-9]|[6-9][0-9]{2}|[1-9][0-9]{3}|[1-5][0-9]{4}",
        "like": "bytes from 576 to 59999",
    },
}
"""Values that every VPN takes, as the job's vpn_folders.py has them."""


def vpn_of(name: str, vpns: Mapping[str, Path]) -> dict[str, Any]:
    """Return a VPN's vpn.json merged with that of its base, and as `reads` all values it takes.

    Raises InputError for a vpn.json of another shape.
    """
    own, scripts = _read(vpns[name]), vpns[name]
    base: dict[str, Any] = {}
    if own.get("base") in vpns:
        scripts = vpns[own["base"]]
        base = _read(scripts)
    return _merged(own, base, scripts, vpns)


def _merged(
    own: Mapping[str, Any], base: Mapping[str, Any], scripts: Path, vpns: Mapping[str, Path]
) -> dict[str, Any]:
    """Return a vpn.json merged with its base's, like the job's vpn_folders.py, and its values."""
    merged = {key: {**base.get(key, {}), **own.get(key, {})} for key in MERGED}
    merged["takes"] = {**TAKES, **merged["takes"]}
    # The base's framing does not fit a variant that has another overhead.
    if "overhead_bytes" in own and "framing" not in own:
        base = {key: value for key, value in base.items() if key != "framing"}
    declaring, text = base or own, _text(scripts, vpns)
    declared = {*TAKES, *chain(*(declaring.get(key, ()) for key in (*MERGED, "reads")))}
    reads = [name for name in sorted(declared) if f"VPN_{name.upper()}" in text]
    free = [name for name in reads if name == MTU or name not in SET_BY_JOB]
    return {**base, **own, **merged, "reads": sorted([*free, SETUP])}


def _text(scripts: Path, vpns: Mapping[str, Path]) -> str:
    """Return the text of a folder's scripts, with the files that VPNs share if they read these."""
    text = _joined(scripts)
    if "/../" in text:
        text += "".join(map(_joined, {folder.parent for folder in vpns.values()}))
    return text


def _joined(folder: Path) -> str:
    """Return the text of the scripts in a folder; what is no UTF-8 in them names no variable."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    return "".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in files
        if path.suffix not in (".md", ".json", ".patch", ".yml")
    )


def _read(folder: Path) -> dict[str, Any]:
    """Return the vpn.json of a folder. Raises InputError for one of another shape."""
    described = description(folder)
    check(f"{folder / FILE}", described, "vpn")
    return described


def check_vpn(folder: Path, vpns: Mapping[str, Path]) -> None:
    """Check the folder of a VPN, with its base and its scripts. Raises InputError."""
    file, own, scripts = folder / FILE, _read(folder), folder
    base: dict[str, Any] = {}
    if "base" in own:
        scripts = _base(file, own["base"], vpns)
        base = _read(scripts)
        # A variant runs its base's scripts: a script of its own would have no effect.
        inside = {path.name for path in folder.iterdir()}
        if idle := sorted(inside - {FILE, "README.md", "config.yml", DIRECTORY}):
            raise InputError(
                f"{folder / idle[0]} has no effect: all but {FILE} is that of the base,"
                f" {own['base']}; leave the base out to have scripts of your own"
            )
    vpn = _merged(own, base, scripts, vpns)
    # The base's keys and the folder's own may be wrong only together.
    if base:
        check(f"{file}", vpn, "vpn")
    if (vpn["overhead_bytes"] or 0) + vpn["inner_mtu"] > 65535:
        raise InputError(
            f"{file}: inner_mtu and overhead_bytes are more than 65535 bytes together, the largest"
            " packet of IP"
        )
    if bool(vpn.get("rtt_max_s")) != bool(vpn.get("rtt_max_because")):
        raise InputError(
            f"{file}: rtt_max_s and rtt_max_because go together: a longest round trip, and why"
        )
    # A script that is no program would fail in the guest only, as Permission denied.
    for script in SCRIPTS:
        if not os.access(scripts / script, os.X_OK):
            raise InputError(
                f"{scripts / script} is missing, or no program: a VPN has {', '.join(SCRIPTS)}"
                " (chmod +x)"
            )
    taken = [name for name in vpn["reads"] if name != MTU]
    for name, value in own.get("values", {}).items():
        at, variable = f"{file}: values.{name}", f"VPN_{name.upper()}"
        if name in SET_BY_JOB:
            right = "inner_mtu is a key beside values" if name == MTU else "the job says that"
            raise InputError(f"{at}: {variable} is not a value: {right}")
        if name not in taken:
            raise InputError(
                f"{at}: no script of {scripts} reads {variable}, so it has no effect;"
                f" {near(name, taken)}there are {', '.join(taken) or 'none'}"
            )
        if wrong := not_taken(vpn, name, str(value)) or _idle(vpn, name, {}):
            raise InputError(f"{at}: {wrong}")


def _base(file: Path, base: str, vpns: Mapping[str, Path]) -> Path:
    """Return the folder of the base, which has the scripts. Raises InputError."""
    if base == file.parent.name:
        raise InputError(f"{file}: base: {base} is the folder itself; a base is another VPN")
    if base not in vpns:
        raise InputError(
            f"{file}: base: there is no vpn-configs/{base}; {near(base, vpns)}".rstrip("; ")
        )
    if further := description(vpns[base]).get("base"):
        raise InputError(
            f"{file}: base: {base} has no scripts but a base itself, {further}; give a base with"
            " scripts"
        )
    return vpns[base]


def check_vpn_values(
    vpn: str, values: Mapping[str, str], vpns: Mapping[str, Path], at: str = ""
) -> None:
    """Check the values that a run gives a VPN. `at` stands before their names in messages.

    Raises InputError for the first that the VPN does not take.
    """
    whole = vpn_of(vpn, vpns)
    known = whole["reads"]
    free = [name for name in known if name not in whole.get("fixed", ())]
    for name, value in values.items():
        here = f"{at}{name}={value}"
        if name in SET_BY_JOB and name not in known:
            raise InputError(f"{here}: {name} is no value of a VPN, the job says it to its scripts")
        if name in whole.get("fixed", ()):
            raise InputError(f"{here}: {vpn} has it fixed: {_instead(name, vpn, vpns)}")
        if name not in known:
            has = f"it has {', '.join(free)}" if free else "it has no values"
            raise InputError(f"{here}: {vpn} does not read it; {near(name, free)}{has}")
        if wrong := not_taken(whole, name, value) or _idle(whole, name, values):
            raise InputError(f"{here}: {vpn}: {wrong}")


def _instead(name: str, vpn: str, vpns: Mapping[str, Path]) -> str:
    """Return a text that names the VPNs with these scripts that set a fixed value, and it."""
    described = {other: description(folder) for other, folder in vpns.items()}
    scripts = described[vpn].get("base", vpn)
    sets = [
        f"{other} ({name}={_values(own)[name]})"
        for other, own in described.items()
        if scripts in (other, own.get("base")) and name in _values(own)
    ]
    return f"what else is in its vpn.json follows from it; give vpn={' or '.join(sets)}"


def _values(described: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `values` of an unchecked vpn.json; empty if they are no object."""
    values = described.get("values")
    return values if isinstance(values, dict) else {}


def is_taken(vpn: Mapping[str, Any], name: str, value: str) -> bool:
    """Return whether a VPN takes a value, by what its merged vpn.json says."""
    return not not_taken(vpn, name, value)


def not_taken(vpn: Mapping[str, Any], name: str, value: str) -> str:
    """Return what is wrong with a value; "" if the VPN takes it or does not say what it takes."""
    taken = vpn["takes"].get(name)
    if taken is not None and not re.fullmatch(taken["pattern"], value):
        return f"{value} should be {taken['like']}"
    framing = vpn.get("framing") or {}
    # A framing with `outer` is that of every cipher.
    if name != "cipher" or not framing or "outer" in framing:
        return ""
    if any(re.fullmatch(cipher, value, re.IGNORECASE) for cipher in framing):
        return ""
    return (
        f"how many bytes the cipher {value} adds is not known, so no MTU fits for sure; known are"
        f" {', '.join(framing)}"
    )


def _idle(vpn: Mapping[str, Any], name: str, of_run: Mapping[str, str]) -> str:
    """Return why a value that every VPN takes does nothing here; "" if it acts."""
    values: Mapping[str, str] = {**vpn["values"], **of_run}
    if name == MTU and not vpn.get("device", True):
        return "has no interface whose MTU could be set"
    if name == "clamp" and vpn.get("ends_tcp"):
        return "TCP ends before the tunnel, so no segment size goes through it"
    if name == "clamp" and ("mssfix" in values or "--mssfix" in values.get("options", "")):
        return "mssfix says the segment size itself: leave one of the two out"
    return ""
