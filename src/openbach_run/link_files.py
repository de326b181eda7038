# SPDX-License-Identifier: GPL-3.0-or-later
"""Link files (see jobs/satcom_link/files/link_file.py) on this side of the guest: they are checked before any run begins."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from openbach_run.errors import InputError

MODULE = Path(__file__).resolve().parents[2] / "jobs/satcom_link/files/link_file.py"


def read_link_file(path: Path) -> str:
    """The text of a link file without a mistake. Raises InputError with the line of the first one."""
    module = _link_file()
    try:
        module.check(path)
    except module.LinkFileError as error:
        raise InputError(str(error)) from error
    return path.read_text(encoding="utf-8-sig")


@cache
def _link_file() -> ModuleType:
    spec = importlib.util.spec_from_file_location("link_file", MODULE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["link_file"] = module
    spec.loader.exec_module(module)
    return module
