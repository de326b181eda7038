# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of a run, written as it goes.

What was done, what came of it, and a line for each check.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path


class Record:
    """Prints and keeps what it is told; report.md is always as long as the run has come."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        for old in (*directory.glob("*.png"), directory / "report.md"):
            old.unlink(missing_ok=True)
        (directory / "launched.json").unlink(missing_ok=True)
        shutil.rmtree(directory / "collected", ignore_errors=True)
        self.counts: Counter[str] = Counter()
        self.checks: list[tuple[str, bool, str]] = []
        self._lines: list[str] = []
        self._begun_s = time.monotonic()

    @property
    def holds(self) -> bool:
        return bool(self.checks) and all(so for _, so, _ in self.checks)

    def part(self, title: str) -> None:
        self._add(f"\n## {title}\n")
        print(f"== {self._minutes()} {title}", flush=True)

    def say(self, text: str) -> None:
        self._add(f"- {text}")
        print(f"   {self._minutes()} {text}", flush=True)

    def show(self, text: str) -> None:
        """What a program has printed."""
        self._add(f"\n```\n{text.strip()}\n```\n")

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number

    def check(self, what: str, is_so: bool, detail: str = "") -> None:
        self.checks.append((what, is_so, detail))
        self._add(f"- {'ok' if is_so else '**failed**'}: {what}{f' ({detail})' if detail else ''}")
        print(
            f"   {self._minutes()} {'ok    ' if is_so else 'FAILED'}"
            f" {what}{f' ({detail})' if detail else ''}",
            flush=True,
        )

    def picture(self, name: str) -> str:
        """Where a picture goes; it is shown in the report."""
        self._add(f"\n![{name}]({name}.png)\n")
        self.count("pictures")
        return str(self.directory / f"{name}.png")

    def write(self) -> None:
        failed = [what for what, so, _ in self.checks if not so]
        head = [
            "# This project on a real OpenBACH 2.7.0",
            "",
            f"{len(self.checks)} checks, {len(failed)} failed, after {self._minutes()} minutes. "
            + ", ".join(f"{what}: {number}" for what, number in self.counts.items()),
        ]
        told = [f"- {what}" for what in failed]
        (self.directory / "report.md").write_text(
            "\n".join([*head, "", *told, *self._lines]) + "\n"
        )

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self.write()

    def _minutes(self) -> str:
        past_s = round(time.monotonic() - self._begun_s)
        return f"{past_s // 60}:{past_s % 60:02}"
