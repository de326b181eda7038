# SPDX-License-Identifier: GPL-3.0-or-later
"""The size of the project by places, beside what tests/budget.toml allows: `make budget`.

A code line has something that is no blank, no comment and no docstring. Every tracked file of code
belongs to the longest place of budget.toml that its path begins with, so none is left out.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = Path("tests/budget.toml")
BINARY = {".pdf", ".parquet", ".png"}
C_LIKE = {".c", ".h", ".S", ".go", ".rs", ".js", ".css"}
HASHED = {".sh", ".mk"}
HASHED_NAMES = {"Makefile", "Kbuild", "Containerfile"}
STEPS = {"bytes": 100_000, "text_lines": 1_000, "words": 100}
"""A group of budgets → what its numbers are rounded up to. Code lines are counted to the line."""
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
C_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""", re.DOTALL | re.VERBOSE
)
Sizes = dict[str, dict[str, int]]


def tracked(root: Path = ROOT) -> Iterator[Path]:
    """Yield the paths of the files that git has, from the root; links are none."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file() and not (root / name).is_symlink():
            yield Path(name)


def python_code_lines(text: str) -> int:
    """Count the code lines of a Python program; docstrings of constants are docstrings, too."""
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                documentation |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE and token.string:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    return len(lines - documentation)


def c_code_lines(text: str) -> int:
    """Count the code lines of a text whose comments are those of C."""

    def without_comment(token: re.Match[str]) -> str:
        is_comment = token[0].startswith(("//", "/*"))
        return "\n" * token[0].count("\n") if is_comment else token[0]

    lines = C_TOKENS.sub(without_comment, text).splitlines()
    return sum(bool(line.strip()) for line in lines)


def hashed_code_lines(text: str) -> int:
    """Count the code lines of a text whose comments begin with #."""
    lines = (line.strip() for line in text.splitlines())
    return sum(bool(line) and not line.startswith("#") for line in lines)


def code_lines(path: Path, text: str) -> int | None:
    """Count the code lines of a file by what it is called, or None if it is no code."""
    if path.suffix in {".py", ".pyi"} or text.startswith("#!/usr/bin/env python"):
        return python_code_lines(text)
    if path.suffix in C_LIKE:
        return c_code_lines(text)
    if path.suffix == ".patch":
        added = [line[1:] for line in text.splitlines() if re.match(r"[+-](?![+-]{2} )", line)]
        return sum(bool(line.strip()) for line in added)
    if path.suffix in HASHED or path.name in HASHED_NAMES or text.startswith("#!"):
        return hashed_code_lines(text)
    return None


def place_of(path: Path, places: Mapping[str, int]) -> str:
    """Return the longest place that a path begins with; the root's place is `.`."""
    return next(str(parent) for parent in path.parents if str(parent) in places)


def sizes(budgets: Sizes, root: Path = ROOT) -> Sizes:
    """Return today's sizes in the places of the budgets, in the form of budget.toml."""
    code: Counter[str] = Counter(dict.fromkeys(budgets["code_lines"], 0))
    words: Counter[str] = Counter(dict.fromkeys(budgets["words"], 0))
    total: Counter[str] = Counter()
    for path in tracked(root):
        total["bytes"] += (root / path).stat().st_size
        if path.suffix in BINARY:
            continue
        text = (root / path).read_text(encoding="utf-8")
        total["text_lines"] += text.count("\n")
        count = code_lines(path, text)
        if count is not None:
            code[place_of(path, budgets["code_lines"])] += count
        elif path.suffix == ".md" and path.name != "CHANGELOG.md":
            words[place_of(path, budgets["words"])] += len(text.split())
    return {"code_lines": {**code}, "words": {**words}, "tracked": {**total}}


def read(text: str) -> Sizes:
    """Return the groups of a budget.toml, each a place → its number."""
    groups: Sizes = tomllib.loads(text)
    return groups


def above(today: Sizes, budgets: Sizes) -> list[str]:
    """Name each place that is larger than its budget."""
    return [
        f"{place}: {size} {group.replace('_', ' ')}, {budgets[group][place]} allowed"
        for group, places in today.items()
        for place, size in places.items()
        if size > budgets[group][place]
    ]


def lowered(text: str, today: Sizes) -> str:
    """Return a budget.toml in which no number is higher than today's size needs."""
    group, lines = "", []
    for line in text.splitlines():
        if line.startswith("["):
            group = line.strip("[]")
        elif number := re.fullmatch(r'"?([^"=]+?)"? = ([\d_]+)', line):
            step = STEPS.get(number[1], STEPS.get(group, 1))
            needed = -(-today[group][number[1]] // step) * step
            lines.append(f"{line.removesuffix(number[2])}{min(needed, int(number[2])):_}")
            continue
        lines.append(line)
    return "\n".join(lines) + "\n"


def raised(before: Sizes, after: Sizes) -> list[str]:
    """Name each number that is higher after a change, or new."""
    return [
        place
        for group, places in after.items()
        for place, size in places.items()
        if size > before.get(group, {}).get(place, 0)
    ]


def main() -> int:
    """Print each place with its size and its budget; `--lower` writes lower budgets."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lower", action="store_true", help=f"lower {FILE} to today's sizes")
    asked = parser.parse_args()
    budgets = read((ROOT / FILE).read_text())
    today = sizes(budgets)
    for group, places in today.items():
        print(f"{group.replace('_', ' '):50} {'today':>11} {'budget':>11}")
        for place, size in sorted(places.items()):
            print(f"  {place:48} {size:11_} {budgets[group][place]:11_}")
        if group == "code_lines":
            allowed = sum(budgets[group].values())
            print(f"  {'in all':48} {sum(places.values()):11_} {allowed:11_}")
    if asked.lower:
        (ROOT / FILE).write_text(lowered((ROOT / FILE).read_text(), today))
    too_large = above(today, budgets)
    print("\n".join(too_large), file=sys.stderr, end="\n" if too_large else "")
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())
