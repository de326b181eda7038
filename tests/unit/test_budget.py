# SPDX-License-Identifier: GPL-3.0-or-later
"""The project is no larger than tests/budget.toml allows, and the budget rises by its rule only."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import size_budget as budget

REASON = re.compile(r"^(Deleted|Allowance): .+", re.MULTILINE)


def test_every_place_is_within_its_budget() -> None:
    """Whoever needs more has something to delete; the head of budget.toml says the rule."""
    budgets = budget.read((budget.ROOT / budget.FILE).read_text())
    assert not budget.above(budget.sizes(budgets), budgets)


def test_what_is_above_its_budget_is_named() -> None:
    budgets = {"code_lines": {".": 5, "src": 7}, "tracked": {"bytes": 9}}
    today = {"code_lines": {".": 5, "src": 8}, "tracked": {"bytes": 9}}
    assert budget.above(today, budgets) == ["src: 8 code lines, 7 allowed"]


PYTHON = '''"""Say what it is."""

# Why.
LIMIT = 3  # at most
"""The limit
of all."""


def text() -> str:
    """Return a text."""
    return """one
two"""
'''


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("a.py", PYTHON, 4),
        ("a.c", '/* why\n * so */\nint a; // one\n\nchar *b = "/* no comment";\n', 2),
        ("a.sh", "#!/bin/sh\n# why\n\ntrue # yes\n", 1),
        ("keygen", "#!/bin/sh\nset -e\n", 1),
        ("Makefile", "# why\nall:\n\ttrue\n", 2),
        ("a.patch", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same\n", 2),
        ("a.yml", "a: 1\n", None),
    ],
)
def test_code_lines_are_no_blanks_comments_or_docstrings(
    name: str, text: str, count: int | None
) -> None:
    assert budget.code_lines(Path(name), text) == count


def test_a_file_belongs_to_the_longest_place_and_a_new_folder_to_the_root() -> None:
    places = {".": 0, "src/openbach_run": 0, "src/openbach_run/web": 0}
    for file, place in {
        "src/openbach_run/web/heat.py": "src/openbach_run/web",
        "src/openbach_run/api.py": "src/openbach_run",
        "src/openbach_run/new/room.py": "src/openbach_run",
        "new/place.py": ".",
    }.items():
        assert budget.place_of(Path(file), places) == place


def test_numbers_are_lowered_and_never_raised() -> None:
    text = '# Why\n[code_lines]\n"." = 1_000\njobs = 5\n\n[words]\ndocs = 9_000\n\n[tracked]\nbytes = 300_000\n'
    today = {
        "code_lines": {".": 999, "jobs": 6},
        "words": {"docs": 8_901},
        "tracked": {"bytes": 199_999},
    }
    assert budget.lowered(text, today) == text.replace("1_000", "999").replace("300_000", "200_000")


def git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=budget.ROOT, check=True, capture_output=True, text=True
    ).stdout


def wrong_raise(before: str, after: str, changed: list[str], body: str) -> str:
    """Return what is wrong with a commit that changes a budget.toml, or ""."""
    raised = budget.raised(budget.read(before), budget.read(after))
    if not raised:
        return ""
    if changed != [str(budget.FILE)]:
        return f"raises {', '.join(raised)} beside other changes: in a commit of its own, please"
    if not REASON.search(body):
        return f"raises {', '.join(raised)} without a line `Deleted: …` or `Allowance: …`"
    return ""


def test_a_number_rises_only_in_a_commit_of_its_own_that_says_for_what() -> None:
    """The first commit that has the file is where the counting begins."""
    commits = git("log", "--format=%H", "--no-merges", "--", str(budget.FILE)).split()
    wrong = {}
    for commit in commits[:-1]:
        said = wrong_raise(
            git("show", f"{commit}^:{budget.FILE}"),
            git("show", f"{commit}:{budget.FILE}"),
            git("show", "--format=", "--name-only", commit).split(),
            git("show", "--format=%b", "--no-patch", commit),
        )
        if said:
            wrong[commit[:10]] = said
    assert not wrong


@pytest.mark.parametrize(
    ("after", "changed", "body", "said"),
    [
        ("jobs = 5", ["jobs/x.py", "tests/budget.toml"], "", ""),
        ("jobs = 4", ["jobs/x.py", "tests/budget.toml"], "", ""),
        ("jobs = 6", ["tests/budget.toml"], "Deleted: the old bbr2, 40 lines", ""),
        ("jobs = 6", ["tests/budget.toml"], "Allowance: issue 59, 900 lines", ""),
        ("jobs = 6", ["tests/budget.toml"], "It is needed.", "without a line"),
        ("jobs = 6", ["jobs/x.py", "tests/budget.toml"], "Deleted: a", "beside other changes"),
        ("jobs = 5\npep = 1", ["tests/budget.toml"], "", "raises pep without"),
    ],
)
def test_a_raise_without_its_reason_is_seen(
    after: str, changed: list[str], body: str, said: str
) -> None:
    found = wrong_raise("[code_lines]\njobs = 5", f"[code_lines]\n{after}", changed, body)
    assert said in found and bool(said) == bool(found)
