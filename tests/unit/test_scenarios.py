# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenario files are what their builders make."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from openbach_run.openbach.job_folders import load_packages

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
_spec = importlib.util.spec_from_file_location("build", SCENARIOS / "build.py")
assert _spec and _spec.loader
build = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(build)


@pytest.mark.parametrize("name", build.SCENARIOS)
def test_file_is_in_step_with_its_builder(name: str) -> None:
    assert (SCENARIOS / f"{name}.json").read_text() == build.text(build.SCENARIOS[name]), "run `make scenarios`"


def test_every_file_has_a_builder() -> None:
    assert {file.stem for file in SCENARIOS.glob("*.json")} == set(build.SCENARIOS)


def test_positions_are_the_same_in_job_and_builder() -> None:
    pep = load_packages([SCENARIOS.parent / "jobs/pep"])["pep"].job
    (position,) = pep.arguments.required
    assert sorted(position.choices) == sorted(["none", *build.PEP_HOSTS])
