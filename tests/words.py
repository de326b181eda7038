# SPDX-License-Identifier: GPL-3.0-or-later
"""Readability of the pages for users: length of pages and sentences, and private words.

`python tests/words.py` prints the figures of each page and of all; `--list` prints every private
word with its place. tests/unit/test_words.py fails where a page has more of them than it may.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
DEVELOPERS = ("docs/developers/", "docs/CONTRIBUTING.md", "docs/CHANGELOG.md")
"""Pages below these may name commits and machines, and are not counted."""
PRIVATE = {
    "says what: name what is said": (
        r"\b(say|says|said|tell|tells|told) (what|how|which|why|where|who|when|if|whether|by)\b"
    ),
    "a clause with `what`: name the thing": (
        r"\bwhat (is|are|was|were|it|they|we|one|the|this|that|these|a|an|has|have|can|does|do|did|of|each|no|else|"
        r"nobody|you|your|makes|comes|became|becomes|happens|follows|differs)\b"
    ),
    "that of, those of: repeat the noun": r"\b(that|those) of\b",
    "of its own: drop it, or `your`, `separate`": r"\bof (its|their|your|our|my|his|the user's) own\b",
    "forward link, return link": r"\b(towards|from) the (user|client's side)\b",
    "burst loss": r"\b(losses|lost|packets|pings) in a row\b",
    "equivalent": r"\bas good( as)?\b",
    "inconclusive": r"\b(cannot|could not|can) be told\b",
    "use": r"\bwhat to take\b",
    "retransmits": r"\brepeats? (of )?(a )?(packets?|segments?|bytes)\b|\bheaders and repetitions\b",
    "no commit in a page for users": r"\bcommits? [0-9a-f]{7,40}\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7}\b",
    "no state of a machine": r"\b(quiet|busy)\b(?! (sources?|links?|path))|\b(on|with) (an|two|one) idle (machine|cores|CPUs?)\b",
    "no model of a machine": r"\b(Zen [1-9]|Xeon|EPYC|Firecracker)\b",
}
"""Why a phrase is refused, or what takes its place, and how it is found."""


class Found(NamedTuple):
    """A private word in a page."""

    page: str
    line: int
    text: str
    reason: str


class Figures(NamedTuple):
    """How a text reads."""

    words: int
    sentence: float
    """Mean number of words."""
    long_pct: float
    """Share of sentences with more than 25 words."""
    private: int

    @property
    def per_1000(self) -> float:
        """Return the private words of 1000 words."""
        return 1000 * self.private / max(self.words, 1)


def pages() -> list[str]:
    """Return the pages for users: README.md and docs/, without the developers' pages."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "README.md", "docs"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [
        name
        for name in sorted(set(listed))
        if name.endswith(".md") and not name.startswith(DEVELOPERS) and (REPOSITORY / name).exists()
    ]


def prose(text: str) -> str:
    """Return a page's text without code, generated tables, addresses of links and pictures.

    Lines keep their numbers.
    """

    def blank(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n")

    text = re.sub(r"^```.*?^```$", blank, text, flags=re.M | re.S)
    text = re.sub(r"^<!-- table: .*?^<!-- end of table -->$", blank, text, flags=re.M | re.S)
    text = re.sub(r"^(    |\t).*$", "", text, flags=re.M)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.S)
    text = re.sub(r"`[^`\n]+`", "`x`", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def found_in(page: str, text: str) -> Iterator[Found]:
    """Yield the private words of a page; a phrase may go on in the next line."""
    bare = re.sub(r"^#.*$", "", prose(text), flags=re.M)
    seen: set[int] = set()
    for reason, pattern in PRIVATE.items():
        for match in re.finditer(pattern.replace(" ", r"\s+"), bare, re.I):
            if reason.startswith("a clause") and "?" in bare[match.end() :].partition(".")[0]:
                continue  # a question
            if not seen.isdisjoint(range(*match.span())):
                continue  # found already, for another reason
            seen.update(range(*match.span()))
            line = bare.count("\n", 0, match.start()) + 1
            yield Found(page, line, re.sub(r"\s+", " ", match[0]), reason)


def sentences(text: str) -> list[str]:
    """Return a page's sentences: of paragraphs and lists, without headings and tables."""
    kept = [line for line in prose(text).splitlines() if not re.match(r"#|\||!\[", line)]
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", "\n".join(kept))
    split = [re.split(r"(?<=[.?!:;])\s+", re.sub(r"\s+", " ", block)) for block in blocks]
    return [one.strip() for block in split for one in block if len(one.split()) > 2]


def figures_of(texts: dict[str, str]) -> Figures:
    """Return the figures of several pages together."""
    words = sum(len(re.findall(r"[\w'-]+", prose(text))) for text in texts.values())
    lengths = [len(one.split()) for text in texts.values() for one in sentences(text)] or [0]
    private = sum(len(list(found_in(name, text))) for name, text in texts.items())
    long = 100 * sum(length > 25 for length in lengths) / len(lengths)
    return Figures(words, statistics.fmean(lengths), long, private)


def main() -> None:
    """Print a line for each page and one for all."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--list", action="store_true", help="every private word, with its place")
    options.add_argument("pages", nargs="*", help="pages (default: all pages for users)")
    given = options.parse_args()
    texts = {name: (REPOSITORY / name).read_text() for name in given.pages or pages()}
    if given.list:
        for name, text in texts.items():
            for one in found_in(name, text):
                print(f"{one.page}:{one.line}: {one.text!r}: {one.reason}")
        return
    print(f"{'page':40} words  words a sentence  sentences > 25 words (%)  private words  per 1000")
    for name, page in [*((name, {name: text}) for name, text in texts.items()), ("all", texts)]:
        read = figures_of(page)
        print(
            f"{name:40} {read.words:5}  {read.sentence:16.1f}  {read.long_pct:24.1f}"
            f"  {read.private:13}  {read.per_1000:8.1f}"
        )


if __name__ == "__main__":
    main()
