# SPDX-License-Identifier: GPL-3.0-or-later
"""Read run.json of an ended run: what its guest got.

The host writes it, but a results directory may be somebody else's, or damaged. The web page checks
by itself what it shows of it: the run may not have ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address
from pathlib import Path
from types import NoneType
from typing import Any

from openbach_run.results import run_files
from openbach_run.results.run_files import DamagedRecord
from openbach_run.topology.hosts import Inventory

FILE = "run.json"
TEXT_OR_NONE, NUMBER_OR_NONE = (str, NoneType), (int, NoneType)
HOST = {
    **dict.fromkeys(("entity", "name", "role"), str),
    **dict.fromkeys(("interfaces", "routes", "rules"), list),
}
PORT = {**dict.fromkeys(("name", "network", "address"), str), "ipv6": TEXT_OR_NONE}
ROUTE = {"to": str, "via": str, "metric": NUMBER_OR_NONE, "table": NUMBER_OR_NONE}
"""Fields of the inventory's parts."""
LATER: dict[str, Any] = {
    "role": "",
    "routes": [],
    "rules": [],
    "ipv6": None,
    "metric": None,
    "table": None,
}
"""Defaults for fields that older runs lack."""


def read(run_dir: Path) -> dict[str, Any]:
    """Return the content of run.json as the engine writes it: `scenario`, `arguments`, `inventory`.

    The last two may be missing. Raises DamagedRecord.
    """
    place = run_dir / FILE
    try:
        content: dict[str, Any] = run_files.document(run_dir, FILE)
    except FileNotFoundError:
        raise DamagedRecord(f"{place}: no such file; the run's record is not whole") from None
    if wrong := next(_faults(content), None):
        raise DamagedRecord(f"{place}: {wrong}")
    return content


def inventory(run_dir: Path) -> Inventory:
    """Return the hosts and networks that the run ran on. Raises DamagedRecord."""
    content = read(run_dir)
    try:
        hosts = Inventory.from_dict(content["inventory"])
        for host in hosts.hosts:
            for port in host.interfaces:
                # This only checks the address: it raises ValueError for a wrong one.
                IPv4Address(port.address.partition("/")[0])
        return hosts
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        text = f"{run_dir / FILE}: inventory: is none of this version ({error})"
        raise DamagedRecord(text) from error


def _faults(content: Any) -> Iterator[str]:
    """Yield what is wrong with the content, fault by fault."""
    whole = {"arguments": {}, "inventory": {}, **content} if isinstance(content, dict) else content
    if wrong := run_files.fields(whole, {"scenario": dict, "arguments": dict, "inventory": dict}):
        yield wrong
        return
    for at, function in _of(whole["scenario"], "openbach_functions", "scenario"):
        job = function.get("start_job_instance", {}) if isinstance(function, dict) else None
        if wrong := run_files.fields(job, {"entity_name": str} if job else {}):
            yield f"{at}: start_job_instance: {wrong}"
    for at, host in _of(whole["inventory"], "hosts", "inventory"):
        if wrong := run_files.fields(_older(host), HOST):
            yield f"{at}: {wrong}"
            return
        for name, shape in (("interfaces", PORT), ("routes", ROUTE)):
            for inner, part in _of(host, name, at):
                if wrong := run_files.fields(_older(part), shape):
                    yield f"{inner}: {wrong}"


def _of(content: Mapping[str, Any], name: str, at: str) -> Iterator[tuple[str, Any]]:
    """Yield each entry of a list with its place in the file; a single None if it is no list."""
    listed = content.get(name, [])
    for number, entry in enumerate(listed if isinstance(listed, list) else [None]):
        yield f"{at}.{name}.{number}", entry


def _older(part: Any) -> Any:
    """Return the fields with defaults for those that older runs lack."""
    return {**LATER, **part} if isinstance(part, dict) else part
