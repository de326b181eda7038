# SPDX-License-Identifier: GPL-3.0-or-later
"""Text and JSON that people write: whatever is wrong is said with its file, line and column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from openbach_run.errors import InputError


def read_text(path: Path) -> str:
    """The text of a file, with or without a byte order mark. Raises InputError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from error


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises InputError, also for a key that is there twice: only one of its values would
    count."""
    text = read_text(path)
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}, column {error.colno}: broken JSON: {error.msg}") from error
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    except RecursionError:
        raise InputError(f"{path}: JSON nested too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise ValueError(f"the key {key!r} is there twice in one object")
        content[key] = value
    return content
