# SPDX-License-Identifier: GPL-3.0-or-later
"""Live progress on stderr: a bar, a changing line, or a line now and then.

A terminal gets the bar, a notebook the line that changes, and anything else the lines.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

# rich: its import takes as long as the rest of a short command: only a terminal needs it.
if TYPE_CHECKING:
    from rich.progress import Progress as Bar

Progress = Callable[[str, float], None]
"""Called with a text on what is being made, and the part of it that is done (0 to 1)."""
LINE_EVERY_S, NOTEBOOK_EVERY_S = 5.0, 0.5
Made = TypeVar("Made")


UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that a terminal takes for an order, or shows in another place than theirs."""


def shown(text: str) -> str:
    r"""Return the text with escapes (`\x1b`) in place of orders to a terminal.

    The text may come from a job, or from another file.
    """
    return UNSHOWN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class _Shown:
    """A stream that passes on text only after `shown`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(shown(text))
        # The length of what was given: callers compare it with their text.
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def only_shown() -> Iterator[None]:
    """Keep orders to the terminal out of all output within the context.

    This holds for messages, and for what is printed to a terminal. A file or a program gets the
    output unchanged.
    """
    before = sys.stdout, sys.stderr
    sys.stderr = cast("TextIO", _Shown(sys.stderr))
    if sys.stdout.isatty():
        sys.stdout = cast("TextIO", _Shown(sys.stdout))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class Together:
    """One progress for several things that are made at the same time, each in a thread.

    It shows the texts of all, and the part that the slowest has done.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._latest: dict[object, tuple[str, float]] = {}

    def make(self, what: Callable[[Progress], Made]) -> Made:
        """Call `what` with a progress of its own; return its result."""
        own = object()

        def tell(text: str, part: float) -> None:
            with self._lock:
                self._latest[own] = text, part
                texts, parts = zip(*self._latest.values(), strict=True)
            self._progress("; ".join(texts), min(parts))

        try:
            return what(tell)
        finally:
            with self._lock:
                self._latest.pop(own, None)


def beside(progress: Progress, *tasks: Callable[[Progress], Made]) -> list[Made]:
    """Run tasks at the same time, each in a thread, with one progress; return their results.

    Raises what the first of them raises, once all have ended.
    """
    from concurrent.futures import ThreadPoolExecutor

    if not tasks:
        return []
    together = Together(progress)
    # The end of the block waits for all, so no task goes on behind an error of another.
    with ThreadPoolExecutor(len(tasks)) as threads:
        running = [threads.submit(together.make, task) for task in tasks]
    return [future.result() for future in running]


class Reporter:
    """A progress on stderr: a text and the part that is done (0 to 1).

    Several threads may call it.
    """

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._lock = threading.Lock()
        self._bar: Bar | None = None
        self._last_line_s = -LINE_EVERY_S
        self._last_line = ""
        # Its stderr is no terminal, but takes "\r" as one does.
        self._notebook = type(sys.stderr).__module__.startswith("ipykernel.")
        if not quiet and sys.stderr.isatty():
            self._bar = _bar()

    def __enter__(self) -> Reporter:
        if self._bar:
            self._bar.start()
            self._task = self._bar.add_task("", total=1.0)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()
        elif self._notebook and self._last_line:
            print(file=sys.stderr, flush=True)

    def show(self, text: str, part: float) -> None:
        """Show a text and the part that is done.

        A notebook gets it at most every NOTEBOOK_EVERY_S, a file every LINE_EVERY_S.
        """
        if self._quiet:
            return
        with self._lock:
            if self._bar:
                self._bar.update(self._task, completed=part, description=shown(text))
                return
            line = f"{part:4.0%}  {text}"
            every_s = NOTEBOOK_EVERY_S if self._notebook else LINE_EVERY_S
            # A log file gets few lines, and always the last one.
            due = part >= 1 or time.monotonic() - self._last_line_s >= every_s
            if due and line != self._last_line:
                over, end = (
                    ("\r", " " * (len(self._last_line) - len(line)))
                    if self._notebook
                    else ("", "\n")
                )
                print(f"{over}{line}", end=end, file=sys.stderr, flush=True)
                self._last_line_s, self._last_line = time.monotonic(), line

    def say(self, text: str) -> None:
        """Print a line that stays."""
        if self._bar:
            self._bar.console.print(shown(text), markup=False, highlight=False, soft_wrap=True)
        else:
            print(
                f"\n{text}" if self._notebook and self._last_line else text,
                file=sys.stderr,
                flush=True,
            )


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(20),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    return Progress(*columns, console=Console(file=sys.__stderr__), transient=True)


@contextmanager
def shown_when_due(quiet: bool) -> Iterator[Progress]:
    """Yield a progress that shows nothing, not even a bar, until it is called."""
    with ExitStack() as stack:
        reporters: list[Reporter] = []

        def show(text: str, part: float) -> None:
            if not reporters:
                reporters.append(stack.enter_context(Reporter(quiet)))
            reporters[0].show(text, part)

        yield show
