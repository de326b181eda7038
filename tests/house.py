# SPDX-License-Identifier: GPL-3.0-or-later
"""The house in figures: `make house`.

What is tracked, how the rooms of src/openbach_run hang together, and how the code reads. `make budget`
has the sizes, each beside what is allowed.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from helpers.rooms import MODULES, ROOMS, changes_sys_path, imported, room
from size_budget import BINARY, tracked

REPOSITORY = Path(__file__).resolve().parents[1]

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
RIDDLES = re.compile(r"(What|Those|Of|Likewise|Whether|How|As|By|The same)\b")
"""First words of docstrings that do not say what comes back or what it is."""
Figures = Iterator[tuple[str, Any]]


def of_repository(files: list[Path]) -> Figures:
    """Count the files, and the lines of those that are texts, in all and by folder."""
    texts = [file for file in files if file.suffix not in BINARY]
    lines: Counter[str] = Counter()
    for file in texts:
        lines[file.relative_to(REPOSITORY).parts[0]] += file.read_bytes().count(b"\n")
    yield "tracked files", len(files)
    yield "tracked lines, without PDF, Parquet and PNG", sum(lines.values())
    yield "most lines", ", ".join(f"{name} {count}" for name, count in lines.most_common(8))


def of_rooms(files: list[Path]) -> Figures:
    """Count the rooms, the imports from room to room, and what reaches code in other ways."""
    arrows = {
        (room(name), room(one))
        for name in MODULES
        if "." in name
        for one in imported(name)
        if "." in one
    }
    yield "rooms", len(ROOMS)
    yield "arrows from room to room", sum(one != other for one, other in arrows)
    python = [file for file in files if file.suffix == ".py"]
    hidden = [file for file in python if changes_sys_path(ast.parse(file.read_text()))]
    yield "files that change sys.path", len(hidden)


def comprehensions_in(tree: ast.AST) -> Iterator[tuple[int, int]]:
    """Yield for each comprehension how many others and how many walruses it has within."""
    for node in ast.walk(tree):
        if isinstance(node, COMPREHENSIONS):
            within = [one for one in ast.walk(node) if one is not node]
            yield (
                sum(isinstance(one, COMPREHENSIONS) for one in within),
                sum(isinstance(one, ast.NamedExpr) for one in within),
            )


def of_words(files: list[Path]) -> Figures:
    """Count what src and jobs are made of: lines, comments, docstrings, comprehensions."""
    python = [file for file in files if file.suffix == ".py"]
    ours = [file for file in python if file.relative_to(REPOSITORY).parts[0] in ("src", "jobs")]
    lines, comments, long, skips, nested, walruses = 0, 0, 0, 0, 0, 0
    words: Counter[str] = Counter()
    lengths: list[tuple[int, str]] = []
    for file in ours:
        text = file.read_text()
        lines += len(text.splitlines())
        long += sum(len(line) > 100 for line in text.splitlines())
        skips += text.count("# fmt: skip")
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        comments += sum(
            token.type == tokenize.COMMENT and "SPDX" not in token.string for token in tokens
        )
        tree = ast.parse(text)
        for others, named in comprehensions_in(tree):
            nested += others > 0
            walruses += named > 0
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)) and (
                said := ast.get_docstring(node)
            ):
                words[said.split()[0]] += 1
                words["riddles"] += bool(RIDDLES.match(said))
            if isinstance(node, FUNCTIONS):
                lengths.append((node.end_lineno - node.lineno + 1, f"{file.name}:{node.name}"))  # type: ignore[operator]
    yield "files of src and jobs, and lines", f"{len(ours)}, {lines}"
    yield "comment lines, percent", round(100 * comments / lines, 1)
    yield "lines of more than 100 columns", long
    yield "# fmt: skip", skips
    yield "nested comprehensions, and with a walrus", f"{nested}, {walruses}"
    yield "docstrings that begin with a riddle", words.pop("riddles")
    yield "first words", ", ".join(f"{word} {count}" for word, count in words.most_common(15))
    yield (
        "functions: median of lines, longest",
        f"{statistics.median(n for n, _ in lengths):.0f}, {max(lengths)}",
    )
    longest = max(ours, key=lambda file: file.read_text().count("\n"))
    yield (
        "longest file",
        f"{longest.relative_to(REPOSITORY)} {len(longest.read_text().splitlines())}",
    )


def main() -> None:
    """Print each figure on a line."""
    files = [REPOSITORY / path for path in tracked()]
    for part in (of_repository(files), of_rooms(files), of_words(files)):
        for name, value in part:
            print(f"{name:44} {value}", flush=True)


if __name__ == "__main__":
    main()
