# SPDX-License-Identifier: GPL-3.0-or-later
"""A run, wholly described: what it depends on, and the name that follows from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openbach_run.guest.main import LINK_FILES
from openbach_run.prose import acting_job, acting_scenario

VIRTUAL_LIMIT_S = 4 * 3600.0
"""Virtual time after which a run is ended and what still runs is named."""


@dataclass(frozen=True)
class RunSpec:
    """Everything a run depends on; its hash, without the words for people, is the record's name."""

    scenario: dict[str, Any]
    sub_scenarios: dict[str, dict[str, Any]]
    arguments: dict[str, str]
    seed: int
    jobs: dict[str, dict[str, Any]]
    inventory: dict[str, Any]
    identity: dict[str, str]
    """Of the engine: kernel, guest tree, and the code that this run uses."""
    uses: dict[str, list[str]] = field(default_factory=dict)
    """Jobs and folders (additions.py) by kind."""
    link_files: dict[str, str] = field(default_factory=dict)
    """Content of the files that arguments and constants name, by their name."""
    values: dict[str, str] = field(default_factory=dict)
    """Of arguments and constants, those of sub-scenarios included, as they were given: the columns of results.csv."""

    @property
    def run_id(self) -> str:
        """16 hexadecimal digits."""
        acting = {
            **self.__dict__,
            "scenario": acting_scenario(self.scenario),
            "sub_scenarios": {name: acting_scenario(stored) for name, stored in self.sub_scenarios.items()},
            "jobs": {name: acting_job(job) for name, job in self.jobs.items()},
        }
        canonical = json.dumps(acting, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def for_guest(self) -> dict[str, Any]:
        """The run.json that the guest reads. The guest finds the files in LINK_FILES, under the names of arguments and
        constants; `values` has these as they were given."""
        there = {name: f"{LINK_FILES}/{name}" for name in self.link_files}
        return {
            **self.__dict__,
            "arguments": _put(self.arguments, there),
            "scenario": {**self.scenario, "constants": _put(self.scenario["constants"], there)},
            "sub_scenarios": {
                name: {**stored, "constants": _put(stored["constants"], there)}
                for name, stored in self.sub_scenarios.items()
            },
            "virtual_limit_s": VIRTUAL_LIMIT_S,
        }


def _put(values: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The values, with those that are given in place of their own."""
    return {name: given.get(name, value) for name, value in values.items()}
