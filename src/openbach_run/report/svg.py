# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a figure's SVG small: the same picture in a fraction of the bytes, on one line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from string import ascii_lowercase
from xml.etree import ElementTree

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
GROUP, USE = f"{{{SVG}}}g", f"{{{SVG}}}use"
HREF = f"{{{XLINK}}}href"
NAME = re.compile(r"#([\w-]+)")
MOVE = re.compile(r"translate\((\S+) (\S+)\)")
PER_PT = 10
"""Places are rounded to this part of a point; in letters to 1/200 em."""
COORDINATES = {"M": 2, "L": 2, "Q": 4, "C": 6, "z": 0}


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
    _name_words(root, short)
    _name_styles(root, short)
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
        style = re.sub(r"([:;])\s+", r"\1", values["style"])
        values["style"] = re.sub(r"#(.)\1(.)\2(.)\3\b", r"#\1\2\3", style)
    if "transform" in values:
        values["transform"] = MOVE.sub(
            lambda match: f"translate({_tenths(match[1])} {_tenths(match[2])})", values["transform"]
        )
    for key in {"x", "y"} & values.keys():
        values[key] = _tenths(values[key])
    if "d" in values:
        if values.get("transform") == "scale(0.015625)":  # a letter's: its em has 6400 units
            values |= {"transform": "scale(0.5)", "d": _path(values["d"], 1 / 32, 1)}
        else:
            values["d"] = _path(values["d"], PER_PT, PER_PT)
    # A letter's place in its word, in 1/100 em.
    if element.tag == USE and (move := MOVE.fullmatch(values.get("transform", ""))):
        del values["transform"]
        values["x"] = str(round(float(move[1])))
    element.attrib.clear()
    element.attrib.update(values)


def _tenths(text: str) -> str:
    return f"{round(float(text), 1):g}"


def _path(text: str, scale: float, unit: int) -> str:
    """Return a path with its steps in place of its places, rounded without a sum of errors."""
    words, now, start = text.split(), (0, 0), (0, 0)
    steps, last = list[str](), ""
    while words:
        sign, count = words[0], COORDINATES[words[0]]
        places = [round(float(word) * scale) for word in words[1 : 1 + count]]
        words = words[1 + count :]
        here = [place - now[number % 2] for number, place in enumerate(places)]
        now = (places[-2], places[-1]) if places else start
        if sign == "M":
            start = now
        if sign == "L" and 0 in here:
            sign, here = ("h", here[:1]) if here[1] == 0 else ("v", here[1:])
        drawn = " ".join(f"{step / unit:g}" for step in here)
        drawn = re.sub(r"\b0(?=\.)", "", drawn).replace(" -", "-")
        # The same command again needs no letter.
        if sign != last or sign in "Mz":
            steps.append(sign.lower() + drawn)
        else:
            steps.append(drawn if drawn.startswith("-") else " " + drawn)
        last = sign
    return "".join(steps)


def _name_words(root: ElementTree.Element, names: Iterator[str]) -> None:
    """Draw a word that was drawn before by a name of that."""
    words: dict[tuple[str, ...], ElementTree.Element] = {}
    for group in list(root.iter(GROUP)):
        letters = group.findall(USE)
        if "transform" not in group.attrib or len(letters) < 2:
            continue
        word = tuple(" ".join(letter.attrib.values()) for letter in letters)
        if word not in words:
            words[word] = ElementTree.SubElement(group, GROUP)
            words[word].extend(letters)
        else:
            if "id" not in words[word].attrib:
                words[word].set("id", next(names))
            ElementTree.SubElement(group, USE, href=f"#{words[word].get('id')}")
        for letter in letters:
            group.remove(letter)
    _unwrap(root)


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


def _unwrap(parent: ElementTree.Element) -> None:
    """Put the children of groups that say nothing into the places of the groups."""
    for child in list(parent):
        _unwrap(child)
        if child.tag == GROUP and not child.attrib:
            at = list(parent).index(child)
            parent[at : at + 1] = list(child)
