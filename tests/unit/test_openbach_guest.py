# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest with a real OpenBACH (tests/openbach): what is in it of ours."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from openbach_run.paths import REPOSITORY


def test_it_has_every_kernel_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pop_users` needs cpu_model: without it the job vpn ended, and the scenario was Finished Ko."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "tests/openbach"))
    code = importlib.import_module("layer").PlatformEngine((), tmp_path).code_folders
    asked: list[str] = []
    modules = importlib.import_module("openbach_run.engine.virtual.modules")
    monkeypatch.setattr(modules, "_ensure_module", lambda *one: asked.append(one[3]))
    modules.ensure_modules(tmp_path, None, REPOSITORY / "kernel", code, None, print)
    assert {one.parent.name for one in (REPOSITORY / "kernel/modules").glob("*/Kbuild")} <= {*asked}
