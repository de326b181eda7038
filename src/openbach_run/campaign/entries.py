# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the folders and files that the values of a campaign name.

They are the VPNs, satellites and the like (catalog.py). They are checked before a guest starts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from openbach_run.catalog import DESCRIBED, Entries, Uses, description
from openbach_run.engine.native.features import FEATURES
from openbach_run.errors import InputError
from openbach_run.json_files import read_json
from openbach_run.link_checks import read_preset
from openbach_run.openbach.limits import INSIDE, OUTSIDE
from openbach_run.openbach.refusals import near
from openbach_run.openbach.shapes import Shape, check

TEXT: Shape = {"type": "string"}
TEXT_OR_NULL: Shape = {"type": ["string", "null"]}
TEXTS: Shape = {"type": "array", "items": TEXT}
NUMBER: Shape = {"type": "number"}
ANYTHING: Shape = {"type": "object", "additionalProperties": {}}
FLAG: Shape = {"type": "boolean"}
PROGRAM: Shape = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("crate", "go", "source", "binary", "host", "version", "build"), TEXT),
        **dict.fromkeys(("wheel", "python"), TEXT),
        "sha256": {"type": "string", "pattern": "[0-9a-f]{64}", "like": "64 hexadecimal digits"},
        "options": TEXTS,
        "also": TEXTS,
        "tools": {"type": "object", "additionalProperties": TEXT},
    },
}
PINNED_BY = {
    "crate": ("version", "sha256"),
    "go": ("version", "sha256"),
    "source": ("version",),  # the go.sum or Cargo.lock in the folder has the hashes
    "binary": (),
    "host": (),
}
"""What the recipe of a program has to say of its source, by the key that names that."""
WITH_A_WHEEL = ("build", "python", "sha256", "source")
# The bytes that a tunnel adds to a packet; 1500 is Ethernet's own MTU.
BYTES: Shape = {"type": "integer", "minimum": 0, "maximum": 1500, "unit": "bytes"}
FRAME: Mapping[str, Shape] = {
    **dict.fromkeys(("outer", "inner"), BYTES),
    "block": {"type": "integer", "minimum": 1, "maximum": 1500, "unit": "bytes"},
}
SPARED: Mapping[str, Shape] = {"spare": BYTES, "most": {**BYTES, "minimum": 576, "maximum": 65535}}
"""What a framing may have besides: bytes of a path that the program does not use."""
TAKEN: Shape = {
    "type": "object",
    "properties": {"pattern": TEXT, "like": TEXT},
    "required": ["pattern", "like"],
}
BY_VALUE: Shape = {
    "type": "object",
    "propertyNames": {"type": "string", "pattern": "[a-z][a-z0-9_]*", "like": "keepalive"},
}
FRAME_OR_SPARED: Mapping[str, Shape] = {**FRAME, **SPARED}
OF_A_CIPHER: Shape = {"type": "object", "properties": FRAME_OR_SPARED, "required": [*FRAME]}
OF_A_PATH: Mapping[str, Shape] = {
    "inner_mtu": {"type": "integer", "minimum": 576, "maximum": 65535, "unit": "bytes"},
    "overhead_bytes": {**BYTES, "type": ["integer", "null"]},
}
VPN: Shape = {
    "type": "object",
    "properties": {
        "base": TEXT,
        **dict.fromkeys(("title", "description", "version", "licence", "ciphers", "keys"), TEXT),
        "config": TEXT,
        "runs_in": {"enum": ["kernel", "user space"]},
        "carrier": {
            "type": "string",
            "pattern": "[A-Z][A-Za-z0-9-]*",
            "like": "UDP, TCP, MPTCP, TLS, QUIC, ESP",
        },
        "multipath": FLAG,
        "post_quantum": FLAG,
        "tested": {"enum": ["CI", "make vpns", "not tested here"]},
        "packages": TEXTS,
        "programs": {"type": "object", "additionalProperties": PROGRAM},
        "needs": {"type": "array", "items": {"enum": [*FEATURES]}},
        "commands": TEXTS,
        "daemon": FLAG,
        "device": FLAG,
        "ends_tcp": FLAG,
        **OF_A_PATH,
        "framing": {
            "type": ["object", "null"],
            "properties": FRAME_OR_SPARED,
            "additionalProperties": OF_A_CIPHER,
        },
        "behind_nat": {
            "type": ["object", "string"],
            "properties": {
                "carrier": TEXT,
                **OF_A_PATH,
                "framing": {
                    "type": "object",
                    "properties": FRAME_OR_SPARED,
                    "additionalProperties": OF_A_CIPHER,
                },
            },
        },
        "rtt_max_s": {"type": ["number", "null"], "minimum": 0.001, "maximum": 3600, "unit": "s"},
        "rtt_max_because": TEXT,
        "ipv6": {"type": "array", "items": {"enum": [INSIDE, OUTSIDE]}},
        "values": {**BY_VALUE, "additionalProperties": {"type": ["string", "number"]}},
        "takes": {**BY_VALUE, "additionalProperties": TAKEN},
        "fixed": TEXTS,
        **dict.fromkeys(("handshake_line", "cipher_line", "usual_warnings"), TEXT_OR_NULL),
        **dict.fromkeys(("post_quantum_line", "device_type"), TEXT_OR_NULL),
        "coordinator": {"type": ["string", "null"]},
    },
}
OWN_VPN: Shape = {**VPN, "required": ["carrier", "daemon", "inner_mtu", "overhead_bytes"]}
"""The shape of the vpn.json of a VPN without a base."""
CONTROL: Shape = {
    "type": "object",
    "properties": {
        "title": TEXT,
        "description": TEXT,
        "algorithm": {
            "type": "string",
            "pattern": "[a-z][a-z0-9_]{0,14}",  # TCP_CA_NAME_MAX
            "like": "bbr: at most 15 characters a to z, 0 to 9, _",
        },
        "parameters": {
            "type": "object",
            "propertyNames": {"type": "string", "pattern": r"\w+/\w+", "like": "tcp_cubic/hystart"},
            "additionalProperties": TEXT,
        },
        "sysctls": {
            "type": "object",
            "propertyNames": {
                "type": "string",
                "pattern": r"net\.[\w.]+",
                "like": "net.ipv4.tcp_ecn",
            },
            "additionalProperties": TEXT,
        },
    },
}
STACK: Shape = {
    "type": "object",
    "properties": {
        "description": TEXT,
        "congestion_controls": TEXTS,
        "ipv6": FLAG,
        "packages": TEXTS,
        "programs": {"type": "object", "additionalProperties": PROGRAM},
    },
    "required": ["congestion_controls"],
}
PEP: Shape = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("title", "description", "licence"), TEXT),
        **dict.fromkeys(("packages", "command", "cc"), TEXTS),
        "ipv6": FLAG,
        "programs": {"type": "object", "additionalProperties": PROGRAM},
    },
    "required": ["command"],
}
PERCENT: Shape = {"type": "number", "minimum": 0, "maximum": 100, "unit": "%"}
TIME_MS: Shape = {"type": "number", "minimum": 0, "maximum": 10_000, "unit": "ms"}
IMPAIRMENT: Shape = {
    "type": "object",
    "properties": {
        "description": TEXT,
        "source": TEXT,
        **dict.fromkeys(("delay_ms", "jitter_ms"), TIME_MS),
        **dict.fromkeys(("loss_pct", "reorder_pct", "duplicate_pct"), PERCENT),
    },
}
COSTS: Shape = {
    "type": "object",
    "properties": {
        "ns_per_packet": {"type": "number", "minimum": 0, "maximum": 100_000_000, "unit": "ns"},
        "ns_per_byte": {"type": "number", "minimum": 0, "maximum": 100_000, "unit": "ns"},
        **dict.fromkeys(("ns_per_packet_error", "ns_per_byte_error"), NUMBER),
    },
    # What calibrate has compared, at the length of --check-bytes.
    "additionalProperties": NUMBER,
    "propertyNames": {
        "type": "string",
        "pattern": "off_pct_at_[0-9]{1,5}_bytes",
        "like": "off_pct_at_700_bytes",
    },
    "required": ["ns_per_packet", "ns_per_byte"],
}
CPU: Shape = {
    "type": "object",
    "properties": {
        "description": TEXT,
        **dict.fromkeys(("machine", "measured"), ANYTHING),
        "queue_packets": {"type": "integer", "minimum": 1, "maximum": 10_000, "unit": "packets"},
        "vpns": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"encrypt": COSTS, "decrypt": COSTS},
                "required": ["encrypt", "decrypt"],
            },
        },
    },
    "required": ["vpns"],
}
MERGED = ("values", "takes")
"""Keys of vpn.json that are merged: a variant has the entries of its base and its own."""
DIRECTORY = "bin"
"""The folder in a VPN's folder into which the virtual engine puts the user's own programs."""
SCRIPTS = ("keygen", "up", "down")
GIVEN_BY_JOB = (
    "dir", "role", "device", "tunnel", "local_ip", "remote_ip", "local_network", "remote_network",
    "tunnel_ip", "remote_tunnel_ip", "remote_public", "coordinator_ip", "coordinator_tunnel_ip",
    "coordinator_public", "mtu", "paths", "rtt_s", "remote_seen_ip",
)  # fmt: skip
"""Variables of the scripts that the job sets itself: a value with such a name would replace the
job's."""
MTU = "mtu"
"""The one of them that a run may give; a folder has inner_mtu for it."""
TAKES = {
    "clamp": {"pattern": "on|off", "like": "on or off"},
    MTU: {
        "pattern": "57[6-9]|5[89][0-9]|[6-9][0-9]{2}|[1-9][0-9]{3}|[1-5][0-9]{4}",
        "like": "bytes from 576 to 59999",
    },
}
"""What any VPN takes, as the job's vpn_folders.py has it."""
FUNCTION = re.compile(r"^(\w+)\(\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
VARIABLE = re.compile(r"\bVPN_([A-Z0-9_]+)")


def check_entries(uses: Uses, entries: Entries) -> None:
    """Check the folders and files that are used. Raises InputError for the first mistake."""
    for kind, names in uses.items():
        there = entries[kind] if kind in CHECKS else {}
        # A base that is not there is told of by the check of the VPN that names it.
        for name in names:
            if name in there:
                CHECKS[kind](there[name], there)


def _check_cpu(file: Path, cpus: Mapping[str, Path]) -> None:
    """Check the file of a CPU. Raises InputError."""
    check(f"{file}", read_json(file), CPU)


def _check_satellite(file: Path, satellites: Mapping[str, Path]) -> None:
    """Check the file of a satellite. Raises InputError."""
    read_preset(file)


def _check_impairment(file: Path, impairments: Mapping[str, Path]) -> None:
    """Check the file of an impairment profile. Raises InputError."""
    profile = read_json(file)
    check(f"{file}", profile, IMPAIRMENT)
    # netem lets a packet overtake by sending it without the delay; without a delay nothing happens.
    if profile.get("reorder_pct") and not profile.get("delay_ms"):
        raise InputError(
            f"{file}: reorder_pct: packets overtake others only where there is a delay: give"
            " delay_ms"
        )


def _check_with_programs(folder: Path, others: Mapping[str, Path]) -> None:
    """Check the folder of an implementation of QUIC or of a PEP. Raises InputError."""
    file = folder / DESCRIBED[kind := folder.parent.name]
    check(f"{file}", described := read_json(file), PEP if kind == "peps" else STACK)
    for wrong in _faults_of_programs(described):
        raise InputError(f"{file}: {wrong}")


def _check_control(folder: Path, controls: Mapping[str, Path]) -> None:
    """Check the folder of a congestion control. Raises InputError."""
    file = folder / DESCRIBED["congestion-controls"]
    profile = read_json(file)
    check(f"{file}", profile, CONTROL)
    # Then the kernel's name of it is the folder's.
    if "algorithm" not in profile:
        check(
            f"{file}: the folder's name, which is the algorithm",
            folder.name,
            CONTROL["properties"]["algorithm"],
        )


def _check_vpn(folder: Path, vpns: Mapping[str, Path]) -> None:
    """Check the folder of a VPN, with its base and its scripts. Raises InputError."""
    file = folder / DESCRIBED["vpn-configs"]
    own = description(folder)
    check(f"{file}", own, VPN if "base" in own else OWN_VPN)
    scripts = folder
    if "base" in own:
        scripts = _base(file, own, vpns)
        base = description(scripts)
        check(f"{scripts / file.name}", base, OWN_VPN)
        # A variant runs its base's scripts: any script of its own would be ignored silently.
        inside = {one.name for one in folder.iterdir()}
        if idle := sorted(inside - {file.name, "README.md", "config.yml", DIRECTORY}):
            raise InputError(
                f"{folder / idle[0]} has no effect: all but {file.name} is that of the base,"
                f" {own['base']}; leave the base out to have scripts of your own"
            )
    else:
        base = {}
    whole = _whole(own, base)
    for wrong in _faults_together(whole):
        raise InputError(f"{file}: {wrong}")
    # A script that is no program would fail in the guest only, as Permission denied.
    for script in SCRIPTS:
        if not os.access(scripts / script, os.X_OK):
            raise InputError(
                f"{scripts / script} is missing, or no program: a VPN has {', '.join(SCRIPTS)}"
                " (chmod +x)"
            )
    known = [name for name in values_read(scripts, _shared(vpns)) if name not in GIVEN_BY_JOB]
    for name, value in own.get("values", {}).items():
        if name in GIVEN_BY_JOB:
            right = "inner_mtu is a key beside values" if name == "mtu" else "the job says that"
            raise InputError(f"{file}: values.{name}: VPN_{name.upper()} is not a value: {right}")
        if name not in known:
            there = ", ".join(known) or "none"
            raise InputError(
                f"{file}: values.{name}: no script of {scripts} reads VPN_{name.upper()}, so it has"
                f" no effect; {near(name, known)}there are {there}"
            )
        if wrong := _not_taken(whole, name, str(value)) or _idle(whole, name, {}):
            raise InputError(f"{file}: values.{name}: {wrong}")


def check_vpn_values(
    vpn: str, given: Mapping[str, str], vpns: Mapping[str, Path], at: str = ""
) -> None:
    """Check the values given for a VPN.

    Raises InputError for the first that the VPN does not read, or does not take. `at` stands before
    the value's name in the message.
    """
    whole, known = values_of(vpn, vpns)
    there = [name for name in known if name not in whole.get("fixed", ())]
    for name, value in given.items():
        here = f"{at}{name}={value}"
        if name in GIVEN_BY_JOB and name not in known:
            raise InputError(f"{here}: {name} is no value of a VPN, the job says it to its scripts")
        if name in whole.get("fixed", ()):
            raise InputError(f"{here}: {vpn} has it fixed: {_instead(name, vpn, vpns)}")
        if name not in known:
            has = f"it has {', '.join(there)}" if there else "it has no values"
            raise InputError(f"{here}: {vpn} does not read it; {near(name, there)}{has}")
        if wrong := _not_taken(whole, name, value) or _idle(whole, name, given):
            raise InputError(f"{here}: {vpn}: {wrong}")


def values_of(vpn: str, vpns: Mapping[str, Path]) -> tuple[dict[str, Any], list[str]]:
    """Return a VPN's vpn.json merged with that of its base, and the values that its scripts read.

    Raises InputError for a vpn.json of another shape.
    """
    own, scripts = description(vpns[vpn]), _scripts(vpn, vpns)
    base = description(scripts) if "base" in own else {}
    # Both: what is read below may be in the VPN's own file or in its base's.
    for folder, described in ((vpns[vpn], own), (scripts, base)):
        check(f"{folder / DESCRIBED['vpn-configs']}", described, VPN)
    return _whole(own, base), values_read(scripts, _shared(vpns))


def _scripts(vpn: str, vpns: Mapping[str, Path]) -> Path:
    """Return the folder with the scripts of a VPN: its own, or its base's."""
    return vpns.get(str(description(vpns[vpn]).get("base", vpn)), vpns[vpn])


def _idle(vpn: Mapping[str, Any], name: str, given: Mapping[str, str]) -> str:
    """Return why a value that every VPN takes does nothing here; "" if it acts."""
    values: Mapping[str, str] = {**vpn["values"], **given}
    if name == MTU and not vpn.get("device", True):
        return "has no interface whose MTU could be set"
    if name == "clamp" and vpn.get("ends_tcp"):
        return "TCP ends before the tunnel, so no segment size goes through it"
    if name == "clamp" and ("mssfix" in values or "--mssfix" in values.get("options", "")):
        return "mssfix says the segment size itself: leave one of the two out"
    return ""


def _whole(own: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Return a VPN's vpn.json merged with that of its base, like the job's vpn_folders.py."""
    merged = {key: {**base.get(key, {}), **own.get(key, {})} for key in MERGED}
    merged["takes"] = {**TAKES, **merged["takes"]}
    # The base's framing does not fit a variant that has another overhead.
    left_out = {"framing"} if "overhead_bytes" in own and "framing" not in own else set()
    kept = {key: value for key, value in base.items() if key not in left_out}
    return {**kept, **own, **merged}


def _instead(name: str, vpn: str, vpns: Mapping[str, Path]) -> str:
    """Return a text that names the VPNs with these scripts that set a fixed value, and it."""
    described = {one: description(folder) for one, folder in vpns.items()}
    scripts = _scripts(vpn, vpns)
    sets = [
        f"{kind} ({name}={one['values'][name]})"
        for kind, one in described.items()
        if scripts.name in (kind, one.get("base")) and name in _object(one, "values")
    ]
    return f"what else is in its vpn.json follows from it; give vpn={' or '.join(sets)}"


def _object(described: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object below a key of an unchecked vpn.json; empty if there is none."""
    found = described.get(key)
    return found if isinstance(found, dict) else {}


def is_taken(vpn: Mapping[str, Any], name: str, value: str) -> bool:
    """Return whether a VPN takes a value, by what its merged vpn.json says."""
    return not _not_taken(vpn, name, value)


def _not_taken(vpn: Mapping[str, Any], name: str, value: str) -> str:
    """Return what is wrong with a value; "" if the VPN takes it or does not say what it takes."""
    taken = vpn.get("takes", {}).get(name)
    if taken is not None and not re.fullmatch(taken["pattern"], value):
        return f"{value} should be {taken['like']}"
    framing: Mapping[str, Any] = vpn.get("framing") or {}
    if name != "cipher" or not framing or framing.keys() - SPARED.keys() == FRAME.keys():
        return ""
    if any(re.fullmatch(one, value, re.IGNORECASE) for one in framing):
        return ""
    return (
        f"how many bytes the cipher {value} adds is not known, so no MTU fits for sure; known are"
        f" {', '.join(framing)}"
    )


def _shared(vpns: Mapping[str, Path]) -> list[Path]:
    """Return the files that the VPNs' folders have in common, such as lib.sh.

    A file of the user's takes the place of ours, as in the guest (`Catalog.shared`).
    """
    places = dict.fromkeys(folder.parent for folder in vpns.values())
    found: dict[str, Path] = {}
    # The user's folders come first, and so are looked at last.
    for place in reversed(places):
        for file in sorted(place.glob("*")):
            if file.is_file() and file.suffix != ".md":
                found[file.name] = file
    return list(found.values())


def _base(file: Path, own: Mapping[str, Any], vpns: Mapping[str, Path]) -> Path:
    """Return the folder of the base, which has the scripts. Raises InputError."""
    named = own["base"]
    if named == file.parent.name:
        raise InputError(f"{file}: base: {named} is the folder itself; a base is another VPN")
    if named not in vpns:
        raise InputError(
            f"{file}: base: there is no vpn-configs/{named}; {near(named, vpns)}".rstrip("; ")
        )
    if further := description(vpns[named]).get("base"):
        raise InputError(
            f"{file}: base: {named} has no scripts but a base itself, {further}; give a base with"
            " scripts"
        )
    return vpns[named]


def _faults_together(vpn: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults of a merged vpn.json that only several keys together show."""
    if vpn.get("coordinator") and not vpn["daemon"]:
        yield (
            "coordinator: a VPN with a coordinator has a daemon, which serves it: daemon should be"
            " true"
        )
    if (vpn["overhead_bytes"] or 0) + vpn["inner_mtu"] > 65535:
        yield (
            "inner_mtu and overhead_bytes are more than 65535 bytes together, the largest packet"
            " of IP"
        )
    framing: Mapping[str, Any] = vpn.get("framing") or {}
    own = framing.keys() - SPARED.keys()
    if len(own & FRAME.keys()) > 0 and own != FRAME.keys():
        yield f"framing: has {', '.join(framing)}: give {', '.join(FRAME)}, or them by cipher"
    # The keys by cipher are regular expressions too.
    patterns = {f"framing.{cipher}": cipher for cipher in own - FRAME.keys()}
    takes: Mapping[str, Mapping[str, str]] = vpn.get("takes", {})
    patterns |= {f"takes.{name}.pattern": one["pattern"] for name, one in takes.items()}
    for key, pattern in {**patterns, "handshake_line": vpn.get("handshake_line") or ""}.items():
        try:
            re.compile(pattern)
        except re.error as error:
            yield f"{key}: {error}; it is a regular expression of Python's"
    if bool(vpn.get("rtt_max_s")) != bool(vpn.get("rtt_max_because")):
        yield "rtt_max_s and rtt_max_because go together: a longest round trip, and why"
    yield from _faults_of_programs(vpn)


def _faults_of_programs(described: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults of the recipes of a folder's programs."""
    for name, recipe in described.get("programs", {}).items():
        sources = [key for key in PINNED_BY if key in recipe]
        # Of what a user has himself, `host` says where he gets it.
        if len(sources) != 1 and sources not in (["source", "host"], ["binary", "host"]):
            has = " and ".join(sources) or "no source"
            yield f"programs.{name}: has {has}; it needs one of {', '.join(PINNED_BY)}"
            continue
        needed = {*PINNED_BY[sources[0]], *(WITH_A_WHEEL if "wheel" in recipe else ())}
        needed |= {"source"} if "build" in recipe else set()
        if missing := sorted(needed - recipe.keys()):
            yield (
                f"programs.{name}: {missing[0]} is missing: what is built is of one version, with"
                " one hash"
            )


def values_read(scripts: Path, shared: Iterable[Path]) -> list[str]:
    """Return the names of the values that the scripts in a folder read.

    They read them themselves, or in functions that they call of the files which VPNs share
    (lib.sh).
    """
    files = [
        one
        for one in scripts.iterdir()
        if one.is_file() and one.suffix not in (".md", ".json", ".patch", ".yml")
    ]
    # A comment that names a variable does not read it.
    text = COMMENT.sub("", "\n".join(map(_text, files)))
    functions = {name: body for one in shared for name, body in FUNCTION.findall(_text(one))}
    # A shared function may call others, whose bodies then count as read too: repeat until none is
    # new.
    while called := [name for name in functions if re.search(rf"\b{name}\b", text)]:
        text += "\n".join(functions.pop(name) for name in called)
    return sorted({name.lower() for name in VARIABLE.findall(text)} - ({*GIVEN_BY_JOB} - {MTU}))


def _text(file: Path) -> str:
    """Return the text of a script; what is no UTF-8 in it cannot be the name of a value."""
    return file.read_text(encoding="utf-8", errors="replace")


CHECKS: Mapping[str, Callable[[Path, Mapping[str, Path]], None]] = {
    "vpn-configs": _check_vpn,
    "congestion-controls": _check_control,
    **dict.fromkeys(("quic-stacks", "peps"), _check_with_programs),
    "impairments": _check_impairment,
    "cpus": _check_cpu,
    "satellites": _check_satellite,
}
"""By kind: the check of an entry, which is given with all entries of its kind by name."""
