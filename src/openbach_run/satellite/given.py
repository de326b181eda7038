# SPDX-License-Identifier: GPL-3.0-or-later
"""The link files that arguments name: checked before any run begins."""

from __future__ import annotations

from pathlib import Path

import link_file

from openbach_run.errors import InputError


def read_link_file(path: Path) -> str:
    """The text of a link file without a mistake. Raises InputError with the line of the first one."""
    try:
        link_file.check(path)
    except link_file.LinkFileError as error:
        raise InputError(str(error)) from error
    except ValueError as error:  # a name that no file can have
        raise InputError(f"{str(path)!r}: {error}") from error
    return path.read_text(encoding="utf-8-sig")
