# SPDX-License-Identifier: GPL-3.0-or-later
"""CI (`.ci/run`): its parts are named, with their times; the first that fails ends it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from openbach_run.paths import REPOSITORY


@pytest.fixture
def run(tmp_path: Path) -> list[str]:
    """The command of CI, with a `make` that does nothing and fails for `unit`."""
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\n[ "$2" != unit ] || exit 3\n')
    make.chmod(0o755)
    return ["env", f"PATH={tmp_path}:{os.environ['PATH']}", str(REPOSITORY / ".ci/run")]


def test_each_part_is_named_with_its_seconds(run: list[str]) -> None:
    ended = subprocess.run([*run, "lint", "pep"], check=True, capture_output=True, text=True)
    said = re.sub(r"\d+ s", "N s", ended.stdout).splitlines()
    assert said == ["== lint", "== lint: N s", "== pep", "== pep: N s"]


def test_the_first_part_that_fails_ends_it_with_its_exit_code(run: list[str]) -> None:
    ended = subprocess.run(run, check=False, capture_output=True, text=True)
    assert ended.returncode == 3
    assert ended.stdout.splitlines()[-1] == "== unit"
    assert re.fullmatch(r"== unit failed after \d+ s\n", ended.stderr)


def test_a_part_that_is_not_there_is_refused(run: list[str]) -> None:
    ended = subprocess.run([*run, "guests"], check=False, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "no part guests; there are: lint unit guest pages pep peers" in ended.stderr


def test_every_part_is_a_target_of_the_makefile() -> None:
    (parts,) = re.findall(r"PARTS=\((.+)\)", (REPOSITORY / ".ci/run").read_text())
    targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert {*parts.split()} <= {*targets}


def test_github_runs_what_ci_is() -> None:
    workflow = yaml.safe_load((REPOSITORY / ".github/workflows/check.yml").read_text())
    assert workflow["jobs"]["check"]["steps"][-1] == {"run": ".ci/run"}
