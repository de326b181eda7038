# SPDX-License-Identifier: GPL-3.0-or-later
"""An XML file from a stranger, read without what makes XML dangerous.

There are no document types, so no entities but XML's own five: nothing is fetched, and nothing
grows. Size, depth and number of elements are bounded. Each element knows its lines, and whether
somebody has read it: what nobody has read can be named.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from openbach_jobs.link_file import LinkFileError

MOST_BYTES = 4_000_000
MOST_DEPTH = 30
MOST_ELEMENTS = 50_000
SHOWN_CHARACTERS = 60
NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


def printable(text: str) -> str:
    """Return a text of a file, or its name, so that it fits into a line of a message."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return shown if len(shown) <= SHOWN_CHARACTERS else f"{shown[: SHOWN_CHARACTERS - 1]}…"


@dataclass(eq=False)
class Element:
    """An element with its text, or with other elements in it."""

    file: Path
    path: str
    """Names from below the root to here, with the number of each `item` from 1 on."""
    name: str
    line: int
    last_line: int = 0
    text: str = ""
    children: list[Element] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)
    is_read: bool = False

    def wrong(self, text: str) -> LinkFileError:
        """Return the error that this element is the place of."""
        return LinkFileError(self.file, f"{self.path or self.name}: {text}", self.line)

    def get(self, path: str) -> Element | None:
        """Return the element at a path below this one, None if it is not there.

        Raises LinkFileError if it is there twice.
        """
        element = self
        for name in path.split("/"):
            same = [child for child in element.children if child.name == name]
            if not same:
                return None
            if len(same) > 1:
                raise same[1].wrong("is given twice; give one")
            element = same[0]
        return element

    def need(self, path: str) -> Element:
        """Return the element at a path below this one. Raises LinkFileError if it is missing."""
        if (element := self.get(path)) is None:
            raise self.wrong(f"there is no {path} in it")
        return element

    def items(self, path: str) -> list[Element]:
        """Return the items of a list below this element; none if there is no such list."""
        parent = self.get(path)
        return [] if parent is None else [item for item in parent.children if item.name == "item"]

    def read(self) -> str:
        """Return the text. Raises LinkFileError if there are elements in place of one."""
        if self.children:
            raise self.wrong(f"has {self.children[0].name} in it, and should have one value")
        self.is_read = True
        return self.text

    def number(self, least: float, most: float, right: str) -> float:
        """Return the number that the text is. Raises LinkFileError."""
        text = self.read()
        value = float(text) if NUMBER.fullmatch(text) else None
        if value is None or not least <= value <= most:
            raise self.wrong(f"{printable(text)!r} is not {right} from {least:g} to {most:g}")
        return value

    def whole(self, least: int, most: int, right: str) -> int:
        """Return the whole number that the text is. Raises LinkFileError."""
        value = self.number(least, most, right)
        if "." in self.text:
            raise self.wrong(f"{self.text!r} is not {right}: it has to be whole")
        return int(value)

    def one_of(self, names: tuple[str, ...]) -> str:
        """Return the text, which is one of the names. Raises LinkFileError."""
        text = self.read()
        if text not in names:
            raise self.wrong(f"{printable(text)!r} is none of {', '.join(names)}")
        return text

    def flag(self) -> bool:
        """Return whether the text is `true`. Raises LinkFileError."""
        return self.one_of(("true", "false")) == "true"

    def leaves(self) -> Iterator[Element]:
        """Yield each element without others in it, in the order of the file."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            if not element.children:
                yield element
            waiting += reversed(element.children)


def is_xml(path: Path) -> bool:
    """Return whether a file begins as an XML file does. Raises LinkFileError."""
    return _bytes(path)[:200].lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n\0").startswith(b"<")


def read(path: Path) -> Element:
    """Return the root of a file. Raises LinkFileError with the line."""
    tree = _Tree(path)
    try:
        tree.parser.Parse(_bytes(path), True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        if isinstance(error, LinkFileError):
            raise
        if isinstance(error, expat.ExpatError):
            reason = expat.ErrorString(error.code)
        else:
            reason = f"{error}"
        text = f"no whole XML file: {reason}. Was it cut off?"
        raise LinkFileError(path, text, tree.parser.ErrorLineNumber) from error
    return tree.roots[0]


class _Tree:
    """The elements of a file, as its parser comes to them."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0
        self.open: list[Element] = []
        self.roots: list[Element] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._add_text
        self.parser.StartDoctypeDeclHandler = self._refuse

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self.count += 1
        line = self.parser.CurrentLineNumber
        if self.count > MOST_ELEMENTS or len(self.open) >= MOST_DEPTH:
            raise LinkFileError(
                self.path,
                f"more than {MOST_ELEMENTS} elements, or {MOST_DEPTH} within each other: this is"
                " not a configuration",
                line,
            )
        within = self.open[-1] if self.open else None
        element = Element(self.path, _place(within, name), name, line, attributes=attributes)
        (within.children if within else self.roots).append(element)
        self.open.append(element)

    def _end(self, _: str) -> None:
        element = self.open.pop()
        element.last_line = self.parser.CurrentLineNumber
        element.text = element.text.strip()
        if element.text and element.children:
            raise element.wrong(
                f"{printable(element.text)!r} stands between elements: put it into one"
            )

    def _add_text(self, text: str) -> None:
        self.open[-1].text += text

    def _refuse(self, *_: object) -> None:
        text = "it has a document type (<!DOCTYPE …>): take it out, it is not read"
        raise LinkFileError(self.path, text, self.parser.CurrentLineNumber)


def _place(within: Element | None, name: str) -> str:
    """Return the path of a new element. The outermost two have none: all paths would begin so."""
    if within is None or (not within.path and name == "root"):
        return ""
    called = f"item[{len(within.children) + 1}]" if name == "item" else name
    return f"{within.path}/{called}" if within.path else called


def _bytes(path: Path) -> bytes:
    """Return the content of a regular file of a bounded size. Raises LinkFileError."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise LinkFileError(path, "not a file")
        if status.st_size > MOST_BYTES:
            raise LinkFileError(path, f"{status.st_size} bytes: OpenSAND's files are much smaller")
        return path.read_bytes()
    except OSError as error:
        raise LinkFileError(path, error.strerror or f"{error}") from error
