# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of each patch (tools/kernel_rebase.py), and mended ones (`--export`)."""

from __future__ import annotations

from pathlib import Path

import kernel_rebase
import pytest
from kernel_rebase import must

LINES = [f"int line_{number};\n" for number in range(12)]
NAMES = ("applies", "moved", "merges", "conflict", "upstream")


def commit(tree: Path, files: dict[str, list[str]], subject: str) -> None:
    for name, lines in files.items():
        (tree / f"{name}.c").write_text("".join(lines))
    must(tree, "add", "-A")
    must(tree, "commit", "-q", "-m", subject)


def ours(lines: list[str]) -> list[str]:
    return [*lines[:6], "int ours;\n", *lines[7:]]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A newer source, which knows the files of the older one that the series was made from."""
    folder = tmp_path / "kernel/patches/group"
    folder.mkdir(parents=True)
    monkeypatch.setattr(kernel_rebase, "KERNEL_DIR", tmp_path / "kernel")
    (tmp_path / "kernel/series").write_text("".join(f"group/{name}.patch\n" for name in NAMES))
    place = tmp_path / "tree"
    place.mkdir()
    must(place, "init", "-q")
    commit(place, dict.fromkeys(NAMES, LINES), "older")
    for name in NAMES:
        commit(place, {name: ours(LINES)}, f"change {name}")
        (folder / f"{name}.patch").write_text(kernel_rebase.mail(place, "HEAD"))
    must(place, "checkout", "-q", "--orphan", "newer")
    newer = {
        "applies": LINES,
        "moved": ["int before;\n", *LINES],
        "merges": [*LINES[:3], "int other;\n", *LINES[4:]],
        "conflict": [*LINES[:6], "int theirs;\n", *LINES[7:]],
        "upstream": ours(LINES),
    }
    commit(place, newer, "newer")
    must(place, "tag", kernel_rebase.PRISTINE)
    return place


def test_each_patch_is_told_and_the_first_conflict_waits(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not kernel_rebase.try_series(tree)
    said = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[: len(NAMES)]]
    assert said == [
        ["group/applies.patch", "applies"],
        ["group/moved.patch", "applies with offset"],
        ["group/merges.patch", "applies by a merge"],
        ["group/conflict.patch", "conflict in conflict.c"],
        ["group/upstream.patch", "already upstream"],
    ]
    assert must(tree, "diff", "--name-only", "--diff-filter=U") == "conflict.c\n"
    assert must(tree, "log", "-1", "--format=%s") == "change merges\n"


def test_what_was_mended_is_exported(tree: Path) -> None:
    kernel_rebase.try_series(tree)
    (tree / "conflict.c").write_text("int mended;\n")
    must(tree, "add", "conflict.c")
    must(tree, "am", "--continue")
    kernel_rebase.export(tree)
    patches = kernel_rebase.KERNEL_DIR / "patches/group"
    assert "+int mended;\n" in (patches / "conflict.patch").read_text()
    assert " int other;\n" in (patches / "merges.patch").read_text()
