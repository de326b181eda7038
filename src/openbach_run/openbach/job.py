# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH jobs: their arguments, the types of values, and the command line from them.

Only the standard library: the director uses this inside the guest. Reading packages from disk is
job_folders.py.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

RATIOS = {
    "_": 1,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "m": 1e-3,
    "u": 1e-6,
    "n": 1e-9,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "To": 2**40,
    "Ti": 2**40,
}
"""Numbers of OpenBACH 2.7's ratios by name, `To` included; an empty text is `_`."""
INSTANCE_TYPES = ("job", "scenario")
"""Types whose values are paths of function ids, and on the command line instance ids."""


class Argument(NamedTuple):
    """One argument: positional without a flag, a switch if its type is None."""

    name: str
    type: str
    count: str  # type: ignore[assignment]  # as its YAML calls it; the tuple's own is not used
    flag: str
    choices: tuple[str, ...]
    repeatable: bool
    description: str
    limits: Mapping[str, Any] = MappingProxyType({})
    """Limits of its values beyond the type; see limits.py."""

    @property
    def is_switch(self) -> bool:
        """Return whether it has no value: it is given or not."""
        return self.type == "None"

    def takes(self, number: int) -> bool:
        """Return whether this many values are right for one occurrence (`2`, `2-4`, `+`, `*`)."""
        if self.count in "+*":
            return number > 0 or self.count == "*"
        least, _, most = self.count.partition("-")
        return int(least) <= number <= int(most or least)

    def miscounted(self, occurrences: list[list[Any]]) -> str:
        """Return what is wrong with the number of values in stored form; "" if nothing is."""
        if self.is_switch:
            return ""
        if len(occurrences) > 1 and not self.repeatable:
            return f"is given {len(occurrences)} times, but cannot be repeated"
        wrong = [len(values) for values in occurrences if not self.takes(len(values))]
        return f"has {wrong[0]} values, takes {self.count}" if wrong else ""


class Group(NamedTuple):
    """A choice of subcommands, of which one is given."""

    name: str
    optional: bool
    choices: dict[str, Command]


class Command(NamedTuple):
    """The arguments of a job or of one of its subcommands."""

    required: tuple[Argument, ...]
    optional: tuple[Argument, ...]
    groups: tuple[Group, ...]

    @property
    def arguments(self) -> dict[str, Argument]:
        """Return the arguments by name, without those of subcommands."""
        return {argument.name: argument for argument in (*self.required, *self.optional)}

    @property
    def subcommands(self) -> dict[str, Command]:
        """Return the subcommands of all groups by name."""
        return {name: command for group in self.groups for name, command in group.choices.items()}


class Job(NamedTuple):
    """A job as the controller knows it, with the command lines that its agent runs."""

    name: str
    version: str
    tree: Mapping[str, Any]
    """The `arguments` block of its YAML: required, optional, subcommand."""
    command: str = ""
    command_stop: str = ""
    setup: Sequence[Sequence[str]] = ()
    """Tasks of its playbook on a host beside packages: pairs of a task, in words, and its command
    for a shell."""

    @property
    def arguments(self) -> Command:
        """Return the argument tree."""
        return _command(self.tree)

    @property
    def subcommands(self) -> dict[str, tuple[tuple[str, ...], Command]]:
        """Return all subcommands at any depth, with the names that lead to them.

        Their names are unique in a job.
        """
        return dict(_subcommands(self.arguments, ()))

    def to_dict(self) -> dict[str, Any]:
        """Return the job as JSON; `setup` only if there is any."""
        return {name: value for name, value in self._asdict().items() if name != "setup" or value}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Job:
        """Return the job that `to_dict` gave."""
        return Job(**data)


def _command(tree: Mapping[str, Any]) -> Command:
    """Return the arguments of a job or subcommand from its description."""
    groups = []
    for group in tree.get("subcommand") or ():
        choices = {choice["name"]: _command(choice) for choice in group["choices"]}
        groups.append(Group(group["group_name"], bool(group.get("optional")), choices))
    return Command(
        tuple(_argument(entry) for entry in tree.get("required") or ()),
        tuple(_argument(entry) for entry in tree.get("optional") or ()),
        tuple(groups),
    )


def _subcommands(
    command: Command, path: tuple[str, ...]
) -> Iterator[tuple[str, tuple[tuple[str, ...], Command]]]:
    """Yield the name, path and arguments of each subcommand, at any depth."""
    for name, subcommand in command.subcommands.items():
        yield name, ((*path, name), subcommand)
        yield from _subcommands(subcommand, (*path, name))


def _argument(entry: Mapping[str, Any]) -> Argument:
    """Return an argument from its description; what it leaves out has OpenBACH's defaults."""
    return Argument(
        entry["name"],
        str(entry["type"]),
        str(entry.get("count", 1)),
        str(entry.get("flag") or ""),
        tuple(dict.fromkeys(map(str, entry.get("choices") or ()))),
        bool(entry.get("repeatable")),
        entry.get("description") or "",
        entry.get("limits") or {},
    )


class WrongType(ValueError):
    """A value that is not of its argument's type; the text is the backend's."""

    def __init__(self, value: object, expected: str) -> None:
        """Make the error for a value and the type that was expected, as the backend calls it."""
        super().__init__(
            f"value has an invalid type '{type(value).__name__}' should be '{expected}'"
        )


def _date(value: Any) -> datetime:
    """Return the date of an ISO 8601 text. Raises ValueError."""
    # Late: the director's memory is copied for each job, and few scenarios have dates.
    from datetime import datetime

    return datetime.fromisoformat(value)


CONVERTERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "int": ("int", int),
    "float": ("float", float),
    "ip": ("IPv4Address or IPv6Address", lambda value: str(ipaddress.ip_address(value))),
    "network": ("IPv4Interface or IPv6Interface", lambda value: str(ipaddress.ip_interface(value))),
    "ratio": ("Ratio", lambda value: (value or "_") if RATIOS[value or "_"] else None),
    "date": ("datetime", lambda value: str(_date(value))),
}
"""Type → its name in the backend's messages, and value → what is stored (no placeholders)."""


def convert(value: Any, kind: str) -> Any:
    """Return a value as one of a type, as JSON has it.

    Raises WrongType; TypeError for a list or object as a number.
    """
    # The backend keeps True as the text `True` where an int is expected.
    if kind not in CONVERTERS or (kind == "int" and isinstance(value, bool)):
        return str(value)
    expected, converter = CONVERTERS[kind]
    try:
        return converter(value)
    except (ValueError, KeyError):
        raise WrongType(value, expected) from None


def word(value: Any, kind: str) -> str:
    """Return a converted value on the command line.

    Ratios are whole numbers there, and dates milliseconds.
    """
    match kind:
        case "ratio":
            return str(int(RATIOS[value]))
        case "date":
            return str(int(_date(value).timestamp() * 1000))
    return str(value)


def argv(command: Command, values: Mapping[str, Any]) -> list[str]:
    """Return the command line of words in stored form.

    That is {name: [[word]]}, {switch: [[true]]}, {subcommand: {…}}. A command has its name, what is
    required, options and switches, in the order of the job's description.
    """
    words = [str(value) for argument in command.required for value in values[argument.name][0]]
    for argument in command.optional:
        if not argument.is_switch:
            words += _options(argument, values.get(argument.name, []))
    words += [
        argument.flag
        for argument in command.optional
        if argument.is_switch and values.get(argument.name)
    ]
    for name, subcommand in command.subcommands.items():
        if name in values:
            words += [name, *argv(subcommand, values[name])]
    return words


def _options(argument: Argument, occurrences: list[list[Any]]) -> Iterator[str]:
    """Yield the words of an option, once for each time that it is given."""
    for occurrence in occurrences:
        yield argument.flag
        yield from map(str, occurrence)
