# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution of tasks on several CPUs, in the order of their priority."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from itertools import count
from queue import PriorityQueue

from openbach_run.errors import InputError

Task = Callable[[int], None]
"""Called with the number of the CPU on which it is to work. It raises nothing."""


class Executor:
    """A queue of tasks, and a thread for each CPU that takes tasks from it.

    The task with the lowest priority number comes first; tasks of the same number come in the order
    in which they were submitted. Any thread may submit a task, also a task itself.
    """

    def __init__(self, cpus: Sequence[int]) -> None:
        """Start a thread for each CPU."""
        self._queue: PriorityQueue[tuple[float, int, Task | None]] = PriorityQueue()
        self._numbers = count()
        self._changed = threading.Condition()
        self._unfinished = 0
        self._threads = [
            # Daemons: a run that does not end must not keep the command from ending.
            threading.Thread(target=self._work, args=(cpu,), daemon=True)
            for cpu in cpus
        ]
        for thread in self._threads:
            thread.start()

    @property
    def workers(self) -> int:
        """Return the number of tasks that go on at the same time at most."""
        return len(self._threads)

    def submit(self, task: Task, priority: float = 0, run: object = None) -> None:
        """Add a task to the queue; `run` is what a ClusterExecutor sends elsewhere for it."""
        with self._changed:
            self._unfinished += 1
            # The number keeps the order, and keeps the queue from comparing two tasks.
            self._queue.put((priority, next(self._numbers), task))

    def wait(self, limit_s: float) -> bool:
        """Return whether all tasks have ended, after at most this time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._unfinished, limit_s)

    def close(self, limit_s: float = 10) -> None:
        """Begin no further task, and wait for each that goes on, for at most this time."""
        for _ in self._threads:
            # Before all that wait: they are not begun.
            self._queue.put((-math.inf, next(self._numbers), None))
        for thread in self._threads:
            thread.join(limit_s)

    def _work(self, cpu: int) -> None:
        """Execute tasks until None comes."""
        while True:
            _, _, task = self._queue.get()
            if task is None:
                return
            try:
                task(cpu)
            finally:
                with self._changed:
                    self._unfinished -= 1
                    self._changed.notify_all()


def cpus_for(workers: int | None) -> list[int]:
    """Return a CPU for each worker; without a number, one for each CPU that this process may use.

    Each process begins with another CPU: of two commands with one run each, neither waits for the
    other. Raises InputError.
    """
    available = sorted(os.sched_getaffinity(0))
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers}: at least 1")
    return [
        available[(os.getpid() + number) % len(available)]
        for number in range(workers or len(available))
    ]
