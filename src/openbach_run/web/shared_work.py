# SPDX-License-Identifier: GPL-3.0-or-later
"""Long work that is done only once when several clients ask for it at a time; all get it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Sequence

from starlette.concurrency import run_in_threadpool

from openbach_run.errors import InputError


def own_command(
    words: Sequence[str], limit_s: float, what: str, hint: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command of ours as its own process, which can be ended after a time, with its guest.

    Raises InputError if it takes longer than `limit_s`.
    """
    # -P: modules do not come from the current directory.
    command = [sys.executable, "-P", "-m", "openbach_run", *words]
    try:
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise InputError(f"{what} took longer than {limit_s:.0f} s{hint}") from None


class Once:
    """A doer of work by name, one piece at a time.

    The work goes on when the clients that asked for it have left.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Semaphore(1)

    async def do(self, name: str, work: Callable[[], None]) -> None:
        """Wait until the work of this name is done. Raises what `work` raises."""
        if name not in self._tasks:
            self._tasks[name] = task = asyncio.create_task(self._do(work))
            task.add_done_callback(lambda done: self._tasks.pop(name))
        # A client that leaves ends its own waiting, not the work.
        await asyncio.shield(self._tasks[name])

    async def _do(self, work: Callable[[], None]) -> None:
        """Do a piece of work when no other one goes on."""
        async with self._turn:
            await run_in_threadpool(work)
