# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of a scenario that OpenBACH ignores, `x-…`: their shapes.

docs/reference.md explains them; `Scenario` in scenario.py gives their contents.
"""

from __future__ import annotations

from pathlib import Path

from openbach_jobs.link_file import near
from openbach_run.errors import InputError
from openbach_run.openbach.scenario import Scenario
from openbach_run.openbach.shapes import check, schema_of

MEASURE = "measure"
"""The key of x-sweep that names the column which the table shows."""


def check_extras(path: Path, scenario: Scenario) -> None:
    """Check what a scenario has under the keys that `schemas/extras.json` describes.

    Raises InputError for the first that has another shape, is misspelled, or names what the
    scenario does not have. `path` stands before its name in the message.
    """
    known, at = schema_of("extras")["properties"], f"{path}: {scenario.name}"
    own = {key: value for key, value in scenario.source.items() if key.startswith("x-")}
    for key in own.keys() - known.keys():
        # Other x-… keys are other programs'; one that looks like ours is likely misspelled.
        if meant := near(key, known):
            raise InputError(f"{at}: {key}: no such key; {meant}".rstrip())
    check(at, own, "extras")
    _check_only_if(path, scenario)
    _check_instead(path, scenario)


def _check_only_if(path: Path, scenario: Scenario) -> None:
    """Check the functions of `x-only-if`. Raises InputError."""
    for place in scenario.only_if:
        if not place.isdecimal() or float(place) not in scenario.by_id:
            raise InputError(
                f"{path}: {scenario.name}: x-only-if.{place}: there is no such function"
            )


def _check_instead(path: Path, scenario: Scenario) -> None:
    """Check that `x-instead` names what the scenario has. Raises InputError."""
    for name, instead in scenario.instead.items():
        for own in (name, *instead["values"]):
            if own not in scenario.settings or (own == name and own not in scenario.constants):
                raise InputError(
                    f"{path}: {scenario.name}: x-instead.{name}: the scenario has no constant or"
                    f" value {own}"
                )
