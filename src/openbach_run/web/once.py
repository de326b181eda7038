# SPDX-License-Identifier: GPL-3.0-or-later
"""Long work that several clients ask for at the same time: it is done once, and all get what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool


class Once:
    """Work by name. One piece of work at a time is done; it goes on when those who asked for it have left."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Semaphore(1)

    async def do(self, name: str, work: Callable[[], None]) -> None:
        """Raises what `work` raises."""
        if name not in self._tasks:
            self._tasks[name] = task = asyncio.create_task(self._do(work))
            task.add_done_callback(lambda done: self._tasks.pop(name))
        await asyncio.shield(self._tasks[name])

    async def _do(self, work: Callable[[], None]) -> None:
        async with self._turn:
            await run_in_threadpool(work)
