# SPDX-License-Identifier: GPL-3.0-or-later
"""What `tools/bump_debian.py` says has moved, and the table that it keeps."""

from __future__ import annotations

import bump_debian
from helpers.locked import locked

PRINTED = """geo_loss: transfer time (s)

vpn   cc     loss=0  loss=1
────  ─────  ──────  ──────
none  cubic   27.34   86.52
none  bbr2    29.97  failed

seed 1; at least 25.09 s for a size of 30M at a rate of 10M (Ethernet, IP and TCP headers; no slow start); one seed, and
"""


def test_the_table_is_found_whole() -> None:
    table = bump_debian.table()
    assert table.startswith("    geo_loss: transfer time (s)\n") and "seed 1; at least" in table
    assert len(bump_debian.cells_of(table)) == 36


def test_a_printed_table_is_kept_with_its_note_in_short_lines() -> None:
    shown = bump_debian.indented(PRINTED)
    assert shown.splitlines()[4] == "    none  cubic   27.34   86.52"
    assert (
        shown.splitlines()[-2].startswith("    seed 1; at least")
        and shown.splitlines()[-1] == "    seed, and"
    )
    assert bump_debian.TABLE.fullmatch(shown)


def test_cells_are_read_by_row_and_column() -> None:
    cells = bump_debian.cells_of(PRINTED)
    assert cells == {
        "none cubic loss=0": 27.34,
        "none cubic loss=1": 86.52,
        "none bbr2 loss=0": 29.97,
    }


def test_what_moved_is_said() -> None:
    before = [locked("libc6"), locked("tinc"), locked("gone")]
    now = [locked("libc6", version="1:3"), locked("tinc"), locked("new")]
    lines = list(bump_debian.moved_packages(before, now))
    assert lines == ["gone: 1:2.0-1+b1 → none", "libc6: 1:2.0-1+b1 → 1:3", "new: none → 1:2.0-1+b1"]
    figures = bump_debian.moved_figures({"a": 10.0, "b": 2.0}, {"a": 11.9, "b": 2.0, "c": 1.0})
    assert list(figures) == ["a: 10.00 → 11.90 s (+19.0 %)", "c: new, 1.00 s"]
    cells = bump_debian.moved_cells(
        {"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}, "other packets"
    )
    assert list(cells) == ["b: other packets", "c: new"]
    assert list(bump_debian.part("Packages", iter(()))) == ["Packages:", "- none moved", ""]
