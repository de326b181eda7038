# SPDX-License-Identifier: GPL-3.0-or-later
"""The house in figures: `make house`.

What is tracked, how the rooms of src/openbach_run hang together, how the code reads, and the way
that a scenario and a measure take through the rooms.

The way of a measure is that of the calls: it is read and shown, while Python's profiler writes down
in which room each function is. A climb is a move to a room that comes later in ROOMS, a return one
to a room that was left before.

The way of a scenario is that of its stages (unit/stages.py): a return is a move to a stage that was
left before, a climb a call from a room to one that comes later. Its rooms cannot show this: each
stage uses tools of lower rooms, and every such call was counted as a move there and back.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

from helpers.records import OURS, campaign, record, write_statistics
from helpers.rooms import MODULES, ROOMS, changes_sys_path, imported, room
from helpers.stages import scenario_way

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "src/openbach_run"

BINARY = {".pdf", ".parquet", ".png"}
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
RIDDLES = re.compile(r"(What|Those|Of|Likewise|Whether|How|As|By|The same)\b")
"""First words of docstrings that do not say what comes back or what it is."""
Figures = Iterator[tuple[str, Any]]


def tracked() -> list[Path]:
    """Return every file that git has, links too."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return [
        REPOSITORY / name
        for name in listed.stdout.split("\0")
        if name and (REPOSITORY / name).exists()
    ]


def of_repository(files: list[Path]) -> Figures:
    """Count the files, and the lines of those that are texts, in all and by folder."""
    links = [file for file in files if file.is_symlink()]
    texts = [file for file in files if file not in links and file.suffix not in BINARY]
    lines: Counter[str] = Counter()
    for file in texts:
        lines[file.relative_to(REPOSITORY).parts[0]] += file.read_bytes().count(b"\n")
    yield "tracked files", len(files)
    yield "tracked lines, without PDF, Parquet and PNG", sum(lines.values())
    yield "most lines", ", ".join(f"{name} {count}" for name, count in lines.most_common(8))
    yield "symbolic links", len(links)


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
    python = [file for file in files if file.suffix == ".py" and not file.is_symlink()]
    hidden = [file for file in python if changes_sys_path(ast.parse(file.read_text()))]
    yield "files that change sys.path", len(hidden)
    linked = [
        file for file in files if file.is_symlink() and (file.suffix == ".py" or file.is_dir())
    ]
    yield "links to code or folders", len(linked)


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
    python = [file for file in files if file.suffix == ".py" and not file.is_symlink()]
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


def of_scenario(visited: list[str], climbs: list[str]) -> Figures:
    """Name the stages of a scenario's way, and count how often it turns back."""
    yield "scenario: stages", " → ".join(visited if len(visited) < 12 else [*visited[:12], "…"])
    returns = len(visited) - len(set(visited))
    yield "scenario: climbs, returns", f"{len(climbs)}, {returns}"


def way_of(call: Callable[[], object]) -> list[str]:
    """Run a call and return the rooms that its functions were in, in order.

    One after another of the same once.
    """
    visited: list[str] = []

    def seen(frame: FrameType, event: str, _argument: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(SOURCE) and frame.f_code.co_name != "<module>":
            name = file.relative_to(SOURCE).parts[0].removesuffix(".py")
            if name in ROOMS and visited[-1:] != [name]:
                visited.append(name)

    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
    return visited


def of_way(what: str, visited: list[str]) -> Figures:
    """Count the moves of a way, and those that turn back."""
    floors = [ROOMS.index(name) for name in visited]
    climbs = sum(after > before for before, after in pairwise(floors))
    yield f"{what}: rooms, moves", f"{len(set(visited))}, {len(visited)}"
    yield f"{what}: climbs, returns", f"{climbs}, {len(visited) - len(set(visited))}"


def measure_way() -> list[str]:
    """Return the rooms from a run's statistics to a table."""
    from openbach_run.campaign.table import campaign_table
    from openbach_run.results.measures import measures

    with tempfile.TemporaryDirectory() as folder:
        write_statistics(
            Path(folder), [{"_metadata": {"job_name": "file_transfer"}, "transfer_time_s": 30.0}]
        )

        def shown() -> None:
            measures(Path(folder), OURS)
            campaign_table(campaign(vpn=("none",)), [record(vpn="none")])

        return way_of(shown)


def main() -> None:
    """Print each figure on a line."""
    files = tracked()
    for part in (of_repository(files), of_rooms(files), of_words(files)):
        for name, value in part:
            print(f"{name:44} {value}", flush=True)
    for way in (of_scenario(*scenario_way(ROOMS)), of_way("measure", measure_way())):
        for name, value in way:
            print(f"{name:44} {value}")


if __name__ == "__main__":
    main()
