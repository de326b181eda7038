# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages for users have the field's words, and a reader gets through their sentences."""

from __future__ import annotations

import pytest
import words

PAGES = words.pages()


@pytest.mark.parametrize("text", [
    "The page says what the model does.",
    "This is about what a\npacket costs.",
    "Larger than that of Reno.",
    "A clock of its own.",
    "Ten losses in a row.",
    "Both are as good.",
    "It cannot be told.",
    "Measured at commit 4bfc390.",
    "The kernel of 08aee6d.",
    "On a quiet machine it takes 3 s.",
    "A Zen 4 takes 3 s.",
    "The direction towards the user.",
])  # fmt: skip
def test_private_words_are_found(text: str) -> None:
    assert len(list(words.found_in("page.md", text))) == 1


@pytest.mark.parametrize("text", [
    "What does the VPN cost? Little.",
    "## What it is",
    "`what is` in code",
    "```\nthat of\n```",
    "Packages 1234567 and feedface.",
    "<!-- table: make lists -->\n| that of | \n<!-- end of table -->",
])  # fmt: skip
def test_other_words_are_not(text: str) -> None:
    assert not list(words.found_in("page.md", text))


def test_a_place_is_the_line_of_the_page() -> None:
    found = list(words.found_in("page.md", "# Title\n\n```\ncode\n```\n\nA clock\nof its own.\n"))
    assert [(one.line, one.text) for one in found] == [(8, "of its own")]


def test_sentences_are_those_of_paragraphs_and_lists() -> None:
    text = (
        "# Title\n\nOne two three. Four five\nsix.\n\n- Seven eight nine\n- ten\n\n| a | b c d |\n"
    )
    assert words.sentences(text) == ["One two three.", "Four five six.", "- Seven eight nine"]


@pytest.mark.parametrize("page", PAGES)
def test_no_page_has_a_private_word(page: str) -> None:
    text = (words.REPOSITORY / page).read_text(encoding="utf-8")
    found = [f"{page}:{one.line}: {one.text}: {one.reason}" for one in words.found_in(page, text)]
    assert len(found) <= ALLOWED.get(page, 0), "\n".join(found)


def test_what_is_allowed_is_there() -> None:
    """A page that has become better keeps no room for new ones."""
    counted = {
        page: len(list(words.found_in(page, (words.REPOSITORY / page).read_text())))
        for page in ALLOWED
    }
    assert counted == ALLOWED


ALLOWED: dict[str, int] = {
    "docs/additions.md": 2,
    "docs/arguments.md": 14,
    "docs/bundle.md": 9,
    "docs/captures.md": 2,
    "docs/clusters.md": 2,
    "docs/comparisons.md": 5,
    "docs/congestion-controls.md": 3,
    "docs/guide.md": 6,
    "docs/jobs.md": 11,
    "docs/limitations.md": 11,
    "docs/method/calls.md": 2,
    "docs/method/careful-resume.md": 9,
    "docs/method/congestion-control.md": 1,
    "docs/method/cpu.md": 16,
    "docs/method/proxy.md": 1,
    "docs/openbach.md": 11,
    "docs/python.md": 1,
    "docs/reference.md": 11,
    "docs/results.md": 17,
    "docs/satellites.md": 9,
    "docs/scenarios.md": 11,
    "docs/serve.md": 4,
    "docs/topologies.md": 2,
    "docs/vpns.md": 3,
    "docs/web-ui.md": 4,
}
"""Private words that are left, by page: to be less, never more."""
