# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a figure's SVG small: the same picture in a fraction of the bytes, on one line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from string import ascii_lowercase
from xml.etree import ElementTree

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
GROUP = f"{{{SVG}}}g"
HREF = f"{{{XLINK}}}href"
PATH, USE = f"{{{SVG}}}path", f"{{{SVG}}}use"
NAME = re.compile(r"#([\w-]+)")
FONT, FONTS = "'DejaVu Sans'", "DejaVu Sans,Verdana,sans-serif"
"""The font of every figure, and those that are as wide, for a machine without it."""
UNTURNED = "rotate(-0 "
"""Begins what matplotlib says of a word that is not turned."""
DIGITS = re.compile(r"-?\d+\.\d+")
PER_PT = 10
"""Places are rounded to this part of a point."""
COORDINATES = {"M": 2, "L": 2, "Q": 4, "C": 6, "z": 0}
LINE = re.compile(r"m[\d. -]+[hv]-?[\d.]+")
"""A path of one line along an axis, such as one of a grid."""


def slim(text: str) -> str:
    """Return matplotlib's SVG without notes, unused names and digits that nobody sees."""
    ElementTree.register_namespace("", SVG)
    root = ElementTree.fromstring(text)
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    used = set[str]()
    for element in root.iter():
        used |= {name for _, value in element.items() for name in NAME.findall(value)}
    ids = sorted(used & {element.get("id", "") for element in root.iter()})
    short = _short_names()
    names = dict(zip(ids, short, strict=False))
    for element in root.iter():
        _shorten(element, names)
    _unwrap(root)
    _name_styles(root, short)
    _join_lines(root)
    return ElementTree.tostring(root, encoding="unicode").replace(" />", "/>") + "\n"


def _short_names() -> Iterator[str]:
    """Yield a, b, … aa, ab, …."""
    for length in itertools.count(1):
        yield from map("".join, itertools.product(ascii_lowercase, repeat=length))


def _shorten(element: ElementTree.Element, names: Mapping[str, str]) -> None:
    """Shorten what an element says; leave out a name that nothing refers to."""
    element.text = (element.text or "").strip()
    element.tail = ""
    values = dict(element.items())
    if (name := values.pop("id", "")) in names:
        values["id"] = names[name]
    for key, value in values.items():
        values[key] = NAME.sub(lambda match: "#" + names.get(match[1], match[1]), value)
    if HREF in values:
        values["href"] = values.pop(HREF)
    if "style" in values:
        style = re.sub(r"([:;])\s+", r"\1", values["style"]).replace(FONT, FONTS)
        values["style"] = re.sub(r"#(.)\1(.)\2(.)\3\b", r"#\1\2\3", style)
    for key in {"x", "y", "width", "height", "transform"} & values.keys():
        values[key] = DIGITS.sub(lambda match: f"{round(float(match[0]), 1):g}", values[key])
    if values.get("transform", "").startswith(UNTURNED):
        del values["transform"]
    if "d" in values:
        values["d"] = _path(values["d"])
    element.attrib.clear()
    element.attrib.update(values)


def _path(text: str) -> str:
    """Return a path with its steps in place of its places, rounded without a sum of errors."""
    words, now, start = text.split(), (0, 0), (0, 0)
    steps, last = list[str](), ""
    while words:
        sign, count = words[0], COORDINATES[words[0]]
        places = [round(float(word) * PER_PT) for word in words[1 : 1 + count]]
        words = words[1 + count :]
        here = [place - now[number % 2] for number, place in enumerate(places)]
        now = (places[-2], places[-1]) if places else start
        if sign == "M":
            start = now
        if sign == "L" and 0 in here:
            sign, here = ("h", here[:1]) if here[1] == 0 else ("v", here[1:])
        drawn = " ".join(f"{step / PER_PT:g}" for step in here)
        drawn = re.sub(r"\b0(?=\.)", "", drawn).replace(" -", "-")
        # The same command again needs no letter.
        if sign != last or sign in "Mz":
            steps.append(sign.lower() + drawn)
        else:
            steps.append(drawn if drawn.startswith("-") else " " + drawn)
        last = sign
    return "".join(steps)


def _name_styles(root: ElementTree.Element, names: Iterator[str]) -> None:
    """Say how several elements look in one place."""
    styles: dict[str, list[ElementTree.Element]] = {}
    for element in root.iter():
        if clip := element.attrib.pop("clip-path", ""):
            element.set("style", f"{element.get('style', '')};clip-path:{clip}".strip(";"))
        if style := element.get("style"):
            styles.setdefault(style, []).append(element)
    rules = []
    for style, elements in styles.items():
        if len(elements) > 1:
            name = next(names)
            rules.append(f".{name}{{{style}}}")
            for element in elements:
                del element.attrib["style"]
                element.set("class", name)
    (sheet,) = root.findall(f"{{{SVG}}}defs/{{{SVG}}}style")
    sheet.text = (sheet.text or "") + "".join(rules)


def _join_lines(root: ElementTree.Element) -> None:
    """Make one path of lines that look alike; leave out a mark's look where its shape has it."""
    shapes = {f"#{element.get('id')}": element.get("class") for element in root.iter(PATH)}
    for parent in list(root.iter()):
        first = None
        for child in list(parent):
            if child.tag == USE and child.get("class") == shapes.get(child.get("href", ""), ""):
                del child.attrib["class"]
            if child.tag == PATH:
                line = LINE.fullmatch(child.get("d", "")) and child.get("class")
                if first is not None and line and line == first.get("class"):
                    first.set("d", f"{first.get('d')}M{child.get('d', '')[1:]}")
                    parent.remove(child)
                else:
                    first = child if line else None


def _unwrap(parent: ElementTree.Element) -> None:
    """Put the children of groups that say nothing into the places of the groups."""
    for child in list(parent):
        _unwrap(child)
        if child.tag == GROUP and not child.attrib:
            at = list(parent).index(child)
            parent[at : at + 1] = list(child)
