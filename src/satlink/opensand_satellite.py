# SPDX-License-Identifier: GPL-3.0-or-later
"""A satellite by OpenSAND's files: its values, and where each one is from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from openbach_jobs import dama, dvbs2, presets
from satlink.xml_file import Element, printable


@dataclass
class Satellite:
    """A satellite's values, where each one comes from, and what is assumed and not modelled."""

    values: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    not_modelled: list[str] = field(default_factory=list)

    def put(self, name: str, text: str, element: Element, note: str = "") -> None:
        """Put a value that an element says. Raises LinkFileError if no satellite can have it."""
        try:
            if name.startswith(dvbs2.IN_FILE):
                dvbs2.checked(name.removeprefix(dvbs2.IN_FILE), text)
            elif name in dama.VALUES:
                dama.checked(name, text)
            else:
                presets.value(name, text)
        except ValueError as error:
            raise element.wrong(f"{printable(element.text)!r} makes {error}") from None
        self.values[name] = text
        place = f"{printable(element.file.name)}, line {element.line}"
        self.places[name] = f"{place}: {note}" if note else place

    def say(self, name: str, text: str, place: str) -> None:
        """Put a value that no element says, and where it is from."""
        self.values[name], self.places[name] = text, place

    def lines(self) -> list[str]:
        """Return the lines of the satellite's file."""
        named = (f"{name}: {text}  # {self.places[name]}" for name, text in self.values.items())
        return [
            "# SPDX-License-Identifier: GPL-3.0-or-later",
            "description: A satellite by OpenSAND's files (openbach-run link opensand)",
            *named,
            *(f"# {text}" for text in (*self.remarks, *self.not_modelled)),
        ]


def described(path: Path, satellite: Satellite) -> Iterable[str]:
    """Yield the lines that are printed: values and where they are from, then the rest."""
    yield f"{path}:"
    for name, text in satellite.values.items():
        yield f"  {name}: {text}  # {satellite.places[name]}"
    for remark in satellite.remarks:
        yield f"  {remark}"
    yield f"not modelled ({len(satellite.not_modelled)}):"
    for line in satellite.not_modelled:
        yield f"  {line}"
