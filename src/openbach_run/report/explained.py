# SPDX-License-Identifier: GPL-3.0-or-later
"""The map that `openbach-run explain` has made (reports/assumptions/map.json): under which assumptions each finding holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "map.json"


@dataclass(frozen=True)
class Explained:
    """Of a claim's part on an orbit, in words."""

    claim: str
    part: str
    orbit: str
    ours: str
    """The verdict as our scenarios are."""
    joint: str
    """The verdict under the joint set."""
    holds_under: str
    driven_by: str


@dataclass(frozen=True)
class Map:
    """`joint`: the set of assumptions under which most holds, in words."""

    command: str
    commit: str
    whole: bool
    joint: str
    findings: list[Explained]

    def of(self, claim: str) -> list[Explained]:
        return [one for one in self.findings if one.claim == claim]

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def assumptions_of(folder: Path) -> Map | None:
    """None where no map was made."""
    file = folder / FILE
    if not file.exists():
        return None
    content: Mapping[str, object] = json.loads(file.read_text(encoding="utf-8"))
    findings = content["findings"]
    assert isinstance(findings, list)
    return Map(
        str(content["command"]),
        str(content["commit"]),
        bool(content["whole"]),
        str(content["joint"]),
        [Explained(**one) for one in findings],
    )
