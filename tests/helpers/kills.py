# SPDX-License-Identifier: GPL-3.0-or-later
"""A command that is killed at any of its steps on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest


class Killed(BaseException):
    """Ends a command as a signal does: nothing of ours catches it."""


@contextmanager
def killed_at(
    monkeypatch: pytest.MonkeyPatch, number: int, steps: Iterable[tuple[Any, str]]
) -> Iterator[None]:
    """End what is done within at the start of step `number`, counted over all functions `steps`.

    A function is its owner and its name there.
    """
    begun = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any, **named: Any) -> Any:
            nonlocal begun
            begun += 1
            if begun == number:
                raise Killed
            return real(*given, **named)

        return step

    with monkeypatch.context() as patched, suppress(Killed):
        for owner, name in steps:
            patched.setattr(owner, name, counted(getattr(owner, name)))
        yield
