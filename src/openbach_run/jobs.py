# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH jobs: their argument trees, the types of their values, and the command line that values become.

Only the standard library: the director uses this inside the guest. Reading packages from disk is job_packages.py.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

RATIOS = ("", "K", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "m", "u", "n")
INSTANCE_TYPES = ("job", "scenario")
"""Types whose values are paths of function ids, and on the command line instance ids."""


@dataclass(frozen=True)
class Argument:
    """One argument: positional without a flag, a switch if its type is None."""

    name: str
    type: str
    count: str
    flag: str
    choices: tuple[str, ...]
    repeatable: bool
    description: str

    @property
    def is_switch(self) -> bool:
        return self.type == "None"

    def takes(self, number: int) -> bool:
        """Whether this many values are right for one occurrence (`2`, `2-4`, `+`, `*`)."""
        if self.count in "+*":
            return number > 0 or self.count == "*"
        least, _, most = self.count.partition("-")
        return int(least) <= number <= int(most or least)


@dataclass(frozen=True)
class Group:
    """Subcommands of which one is chosen."""

    name: str
    optional: bool
    choices: dict[str, Command]


@dataclass(frozen=True)
class Command:
    """The arguments of a job or of one of its subcommands."""

    required: tuple[Argument, ...]
    optional: tuple[Argument, ...]
    groups: tuple[Group, ...]

    @property
    def arguments(self) -> dict[str, Argument]:
        return {argument.name: argument for argument in (*self.required, *self.optional)}

    @property
    def subcommands(self) -> dict[str, Command]:
        return {name: command for group in self.groups for name, command in group.choices.items()}


@dataclass(frozen=True)
class Job:
    """A job as the controller knows it, with the command lines that its agent runs."""

    name: str
    version: str
    tree: Mapping[str, Any]
    """The `arguments` block of its YAML: required, optional, subcommand."""
    command: str = ""
    command_stop: str = ""

    @property
    def arguments(self) -> Command:
        return _command(self.tree)

    def to_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Job:
        return Job(**data)


def _command(tree: Mapping[str, Any]) -> Command:
    return Command(
        tuple(_argument(entry) for entry in tree.get("required") or ()),
        tuple(_argument(entry) for entry in tree.get("optional") or ()),
        tuple(
            Group(group["group_name"], bool(group.get("optional")), {c["name"]: _command(c) for c in group["choices"]})
            for group in tree.get("subcommand") or ()
        ),
    )


def _argument(entry: Mapping[str, Any]) -> Argument:
    return Argument(
        entry["name"],
        str(entry["type"]),
        str(entry.get("count", 1)),
        str(entry.get("flag") or ""),
        tuple(map(str, entry.get("choices") or ())),
        bool(entry.get("repeatable")),
        entry.get("description") or "",
    )


class WrongType(ValueError):
    """A value that is not of its argument's type; the text is the backend's."""

    def __init__(self, value: object, expected: str) -> None:
        super().__init__(f"value has an invalid type '{type(value).__name__}' should be '{expected}'")


def convert(value: Any, kind: str) -> Any:
    """`value` as an argument of that type is stored; raises WrongType. Without placeholders in it."""
    try:
        match kind:
            case "int":
                return int(value)
            case "float":
                return float(value)
            case "ip":
                return str(ipaddress.ip_address(str(value)))
            case "network":
                ipaddress.ip_interface(str(value))
                return str(value)
            case "ratio" if str(value) not in RATIOS:
                raise ValueError(value)
            case "date":
                datetime.fromisoformat(str(value))
                return str(value)
    except (ValueError, TypeError, OverflowError):
        names = {"ip": "IPv4Address or IPv6Address", "network": "IPv4Interface or IPv6Interface"}
        raise WrongType(value, names.get(kind, kind)) from None
    return str(value)


def argv(command: Command, values: Mapping[str, Any]) -> list[str]:
    """The command line of typed values in stored form ({name: [[v]]}, {switch: true}, {subcommand: {…}})."""
    words = [str(value) for argument in command.required for value in values[argument.name][0]]
    for argument in command.optional:
        if not argument.is_switch:
            words += _options(argument, values.get(argument.name, []))
    words += [argument.flag for argument in command.optional if argument.is_switch and values.get(argument.name)]
    for name, subcommand in command.subcommands.items():
        if name in values:
            words += [name, *argv(subcommand, values[name])]
    return words


def _options(argument: Argument, occurrences: list[list[Any]]) -> Iterator[str]:
    for occurrence in occurrences:
        yield argument.flag
        yield from map(str, occurrence)
