# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader of text and JSON that people write. Each error names the file, line and column."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from openbach_run.errors import InputError

MOST_NESTED = 100
"""The most levels of nested lists and objects: code that walks them calls itself once or twice for
each."""


def read_text(path: Path) -> str:
    """Return the text of a file, with or without a byte order mark. Raises InputError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from error


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises InputError, also for a key that occurs twice: only one of its values would count.
    """
    text = read_text(path)
    try:
        content = json.loads(text, object_pairs_hook=_once)
        check_nesting(content)
        if "\\u" in text:
            # Half of a surrogate pair is no text: a file with it could not be written.
            json.dumps(content, ensure_ascii=False).encode()
        return content
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}, column {error.colno}: broken JSON: {error.msg}"
        ) from error
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    except RecursionError:
        raise InputError(f"{path}: JSON nested too deeply (at most {MOST_NESTED} levels)") from None


def folded(content: Any, width: int = 120, indent: str = "") -> str:
    """Return the JSON of a content for people: what fits into a line of that width is on one."""
    line = json.dumps(content, ensure_ascii=False)
    if len(indent) + len(line) <= width or not isinstance(content, (dict, list)):
        return line
    inner = f"{indent}  "
    if isinstance(content, list):
        brackets, texts = "[]", [folded(value, width, inner) for value in content]
    else:
        brackets = "{}"
        texts = [
            f"{json.dumps(key)}: {folded(value, width, inner)}" for key, value in content.items()
        ]
    lines = ",\n".join(f"{inner}{text}" for text in texts)
    return f"{brackets[0]}\n{lines}\n{indent}{brackets[1]}"


def short(value: object) -> str:
    """Return a value as JSON for a message, of at most 60 characters."""
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError):  # a date of YAML is no key of JSON
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def check_nesting(content: Any) -> None:
    """Check the depth of lists and objects.

    Raises RecursionError if it is more than MOST_NESTED levels.
    """
    # Level by level, not by calls: a deep content would exceed Python's stack before it is refused.
    level = [content]
    for _ in range(MOST_NESTED + 1):
        level = [*chain(*map(_inner, level))]
        if not level:
            return
    raise RecursionError


def _inner(content: Any) -> Iterable[Any]:
    """Return the values in a list or object; none for any other value."""
    if isinstance(content, dict):
        return content.values()
    return content if isinstance(content, list) else ()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object from its pairs. Raises ValueError for a key that occurs twice."""
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise ValueError(f"the key {key!r} is there twice in one object")
        content[key] = value
    return content
