# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON that OpenBACH imports, of a scenario that is written as YAML (source.py).

Everything in the JSON is literal: entities, numbers of functions where the YAML has their labels,
addresses of the inventory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from openbach_jobs.link_file import near
from openbach_run.errors import InputError
from openbach_run.openbach import rules
from openbach_run.openbach.refusals import BadPlaceholder
from openbach_run.openbach.source import DECLARED, KEYS, Source, find, is_labels, read_source
from openbach_run.openbach.steps import declared, with_steps
from openbach_run.openbach.table_scenario import table_of
from openbach_run.openbach.values import leaves, placeholders, sole_placeholder
from openbach_run.paths import INVENTORY
from openbach_run.topology.hosts import Inventory
from openbach_run.topology.inventory import load_inventory
from openbach_run.topology.mappings import listed
from openbach_run.topology.references import value_of

WAITS = ("launched", "finished", "after_s")
ONLY_IF = "only_if"
"""Key of a function with the condition on values under which it is there at all."""
TEAR_DOWN = "tear down"
NOWHERE = "none"
"""Value of a constant that names a function's host: the function is not there."""


def expand(path: Path) -> dict[str, Any]:
    """Return the scenario of a YAML file as OpenBACH's JSON has it.

    Raises InputError with the file, the key, and what would be right.
    """
    source = read_source(path)
    if "table_of" in source.content:
        return _table(path, source)
    for key in ("functions", "end"):
        if key not in source.content:
            raise InputError(
                f"{path}: {key}: is missing, here and in what the file inherits;"
                f" {KEYS[key]['form']}"
            )
    own = source.content.get("inventory")
    inventory_file = INVENTORY if own is None else source.files["inventory",].parent / own
    inventory = load_inventory(inventory_file)
    hosts = {name: host.name for host in inventory.hosts for name in (host.name, host.entity)}
    source = with_steps(source, hosts)
    content, values = source.content, _values(source)
    numbered = _Functions(source, inventory, _leaders(source, values), values)
    declared_here = _in_use(content, numbered)
    arguments, constants, addresses = (declared_here[key] for key in DECLARED)
    sweep = _sweep(source, arguments | constants)
    idle = _of(content, "idle", arguments | constants)
    instead = _of(content, "instead", constants)
    # Relative, so that the scenario and its inventory can be moved together.
    file = {"file": os.path.relpath(inventory_file, path.parent)} if own else {}
    files = [name for name, entry in constants.items() if entry.get("file") == "yes"]
    same = numbered.same
    defaults = [name for name in values if name in arguments and name not in sweep]
    return {
        "name": path.stem,
        "description": content.get("description", ""),
        "arguments": {
            name: text if isinstance(text, str) else text["text"]
            for name, text in arguments.items()
        },
        "constants": {
            **{name: values[name] for name in constants if name not in same},
            **{name: _address(source, name, inventory) for name in addresses},
        },
        "openbach_functions": numbered.all,
        "x-inventory": {**file, "constants": addresses},
        "x-constants": {name: constant["text"] for name, constant in constants.items()},
        **({"x-idle": idle} if idle else {}),
        **({"x-instead": instead} if instead else {}),
        **({"x-only-if": numbered.only_if} if numbered.only_if else {}),
        **({"x-measures": declared(content["measures"])} if "steps" in content else {}),
        "x-same": {name: same[name] for name in constants if name in same},
        "x-sweep": {
            "defaults": {name: values[name] for name in defaults},
            "values": sweep,
            **({"link_files": files} if files else {}),
            **content.get("plot", {}),
        },
    }


def _table(path: Path, source: Source) -> dict[str, Any]:
    """Return the scenario that starts another one for each of its cells. Raises InputError."""
    whole = expand(find(path, "table_of", source.content["table_of"]))
    # One level only: the cells of a table's table would be in no table that is shown.
    keys = {key for function in whole["openbach_functions"] for key in function}
    if source.content.keys() != {"table_of"} or "start_scenario_instance" in keys:
        raise source.wrong(
            "a table has no other key, and is of a scenario that is no table", "table_of"
        )
    return table_of(path.stem, whole)


def _of(content: Mapping[str, Any], key: str, names: Collection[str]) -> dict[str, Any]:
    """Return what a key of the file has of these names."""
    return {name: entry for name, entry in content.get(key, {}).items() if name in names}


def _in_use(content: Mapping[str, Any], functions: _Functions) -> dict[str, dict[str, Any]]:
    """Return the arguments, constants and addresses that a function uses, by their keys.

    A file may inherit more than its functions use, but the backend refuses an argument or a
    constant that is unused: so what nobody uses is left out.
    """
    started = [leaves(function.get("start_job_instance", {})) for function in functions.all]
    used = {name for texts in started for text in texts for name in placeholders(str(text))}
    return {key: _of(content, key, used | functions.same.keys()) for key in DECLARED}


def _sweep(source: Source, names: Collection[str]) -> dict[str, Any]:
    """Return the swept values by name. Raises InputError for a name that no function uses."""
    sweep: dict[str, Any] = source.content.get("sweep", {})
    if "steps" in source.content and source.files["sweep",] != source.files["steps",]:
        # Of the measurement that the steps replace.
        return _of(source.content, "sweep", names)
    # Swept values that change nothing would make equal cells with different names.
    for name in sorted(sweep.keys() - names):
        raise source.wrong(f"no function of the scenario uses ${name}", "sweep", name)
    return sweep


def _values(source: Source) -> dict[str, str]:
    """Return the values of constants and arguments; what the file gives in `values` comes first.

    Raises InputError for a value or a sweep of a name that is not declared.
    """
    arguments, constants = source.content.get("arguments", {}), source.content.get("constants", {})
    own = source.content.get("values", {})
    for key in ("values", "sweep"):
        for name in source.content.get(key, {}):
            if name not in arguments | constants:
                known = arguments | constants
                text = (
                    f"no argument or constant has this name; {near(name, known)}there are"
                    f" {listed(known)}"
                )
                raise source.wrong(text, key, name)
    return {**{name: entry["value"] for name, entry in constants.items() if name not in own}, **own}


def _leaders(source: Source, values: Mapping[str, str]) -> dict[str, str]:
    """Return constant → the argument or constant whose value it has unless it is given its own.

    Raises InputError for a constant that follows another follower, or nothing.
    """
    constants = source.content.get("constants", {})
    leaders = {}
    for name in constants:
        leader = sole_placeholder(values[name])
        if leader is not None:
            leaders[name] = leader
    for name, leader in leaders.items():
        if leader in leaders or leader not in {**constants, **source.content.get("arguments", {})}:
            text = (
                f"{values[name]}: after $ comes an argument, or a constant with a value of its own"
            )
            raise source.wrong(
                text, "values" if name in source.content.get("values", {}) else "constants", name
            )
    return leaders


class _Functions:
    """The functions of a scenario, with numbers in place of labels.

    `same` has by constant the places where it stands but another one's value is (`x-same`).
    """

    def __init__(
        self,
        source: Source,
        inventory: Inventory,
        leaders: Mapping[str, str],
        values: Mapping[str, str],
    ) -> None:
        self._source, self._leaders, self._values = source, leaders, values
        self._groups = source.content.get("groups", {})
        # A function may name its host as the inventory does, with the prefix or without.
        self._entities = {
            name: host.entity for host in inventory.hosts for name in (host.name, host.entity)
        }
        entries = {
            label: entry
            for label, entry in source.content["functions"].items()
            if self._host(entry, "functions", label) != NOWHERE
        }
        # Waits name functions and groups alike, so a name must be one of them.
        for label in sorted(entries.keys() & {*self._groups, TEAR_DOWN}):
            raise source.wrong(
                "is the name of a group, or of the function of `end`, as well", "functions", label
            )
        self._numbers = {label: number for number, label in enumerate([*entries, TEAR_DOWN])}
        self.same: dict[str, list[str]] = {}
        self.only_if: dict[str, str] = {}
        self.all = [
            self._function(label, entry, "functions", label) for label, entry in entries.items()
        ]
        self.all.append(self._function(TEAR_DOWN, source.content["end"], "end"))

    def _function(self, label: str, entry: Mapping[str, Any], *place: str) -> dict[str, Any]:
        """Return a function as OpenBACH's JSON has it.

        `place` leads to it in the file. Raises InputError.
        """
        wait = {
            "time": self._seconds(entry.get("after_s", "0"), *place),
            "launched_ids": self._ids(entry.get("launched", []), *place, "launched"),
            "finished_ids": self._ids(entry.get("finished", []), *place, "finished"),
        }
        body = {key: value for key, value in entry.items() if key not in (*WAITS, ONLY_IF)}
        number = self._numbers[label]
        # What a value adds, beside what the scenario is for, does not make it fail.
        on_fail = {} if sole_placeholder(entry.get("on")) is None else {"policy": "Ignore"}
        if ONLY_IF in entry:
            self.only_if[str(number)] = self._condition(entry[ONLY_IF], *place)
        if body.keys() == {"stop"}:
            action: dict[str, Any] = {
                "stop_job_instances": {
                    "openbach_function_ids": self._ids(body["stop"], *place, "stop")
                }
            }
        else:
            host = self._host(entry, *place)
            body.pop("on", None)
            job, arguments = body.popitem() if body else (None, None)
            if body or not isinstance(host, str) or not isinstance(arguments, dict):
                text = (
                    "should have `on`, a host, and a job with its arguments, or `stop`; and may"
                    " have"
                )
                raise self._source.wrong(f"{text} {listed(WAITS)}", *place)
            if host not in self._entities:
                hosts = listed(name for name, entity in self._entities.items() if name != entity)
                raise self._source.wrong(
                    f"the inventory has no host {host}; it has {hosts}", *place, "on"
                )
            at = f"{number}.start_job_instance.{job}"
            started = {
                "entity_name": self._entities[host],
                job: self._replaced(arguments, at, *place),
            }
            action = {"start_job_instance": started}
        return {"id": number, "label": label, "wait": wait, "on_fail": on_fail, **action}

    def _host(self, entry: Mapping[str, Any], *place: str) -> Any:
        """Return a function's host, which may be the value of a constant. Raises InputError."""
        name = sole_placeholder(entry.get("on"))
        if name is not None and name not in self._source.content.get("constants", {}):
            raise self._source.wrong(f"${name} is no constant", *place, "on")
        return entry.get("on") if name is None else self._values[name]

    def _condition(self, text: Any, *place: str) -> str:
        """Return the text of a condition. Raises InputError for what is none."""
        try:
            rules.check(text)
        except (TypeError, ValueError) as error:
            raise self._source.wrong(str(error), *place, ONLY_IF) from None
        return str(text)

    def _seconds(self, text: Any, *place: str) -> int | float:
        """Return a time in s: a whole number if it is written as one. Raises InputError."""
        if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
            raise self._source.wrong(f"{text!r} should be a number of seconds", *place, "after_s")
        return float(text) if "." in text else int(text)

    def _ids(self, labels: Any, *place: str, within: tuple[str, ...] = ()) -> list[int]:
        """Return the numbers of functions; a group stands for the numbers of all in it.

        `within` are the groups that are being followed, so that one in itself is found. Raises
        InputError.
        """
        if not is_labels(labels):
            raise self._source.wrong("should be a function or a group, or a list of them", *place)
        numbers: list[int] = []
        for label in [labels] if isinstance(labels, str) else labels:
            if label in self._numbers:
                numbers.append(self._numbers[label])
            elif label in self._groups and label not in within:
                numbers += self._ids(self._groups[label], "groups", label, within=(*within, label))
            else:
                text = (
                    "holds itself"
                    if label in within
                    else near(label, [*self._numbers, *self._groups]).rstrip()
                )
                raise self._source.wrong(
                    f"{label!r} is no function and no group; {text}".rstrip("; "), *place
                )
        # Once each, in the order of the file: two groups may have a function in common.
        return list(dict.fromkeys(numbers))

    def _replaced(self, value: Any, at: str, *place: str) -> Any:
        """Return the text with the name that is followed in place of the name that follows it."""
        if isinstance(value, dict):
            return {key: self._replaced(part, f"{at}.{key}", *place) for key, part in value.items()}
        if isinstance(value, list):
            return [
                self._replaced(part, f"{at}.{number}", *place) for number, part in enumerate(value)
            ]
        # In three lists it is OpenBACH's path to what a function has started.
        if re.search(r"(\.\d+){3}$", at) and isinstance(value, str) and not value.isdecimal():
            return self._ids(value, *place)[0]
        name = sole_placeholder(value)
        if name is not None and name in self._leaders:
            self.same.setdefault(name, []).append(at)
            return f"${self._leaders[name]}"
        for follower in self._names(value, *place):
            if follower in self._leaders:
                raise self._source.wrong(
                    f"{value!r}: ${follower} can only be a whole value, as another's may be", *place
                )
        return value

    def _names(self, text: str, *place: str) -> list[str]:
        """Return the placeholders of a text. Raises InputError for one that is not declared."""
        known = [
            name
            for key in ("arguments", "constants", "addresses")
            for name in self._source.content.get(key, {})
        ]
        try:
            names = placeholders(text)
        except BadPlaceholder as error:
            raise self._source.wrong(
                f"{text!r}: {error}; a literal dollar is written $$", *place
            ) from None
        for name in names:
            if name not in known:
                raise self._source.wrong(
                    f"${name} is no argument, constant or address; {near(name, known).rstrip()}",
                    *place,
                )
        return names


def _address(source: Source, name: str, inventory: Inventory) -> str:
    """Return the address that the inventory has for a constant. Raises InputError."""
    try:
        return value_of(source.content["addresses"][name], inventory)
    except InputError as error:
        raise source.wrong(str(error), "addresses", name) from None
