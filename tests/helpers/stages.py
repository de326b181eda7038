# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of a scenario's way: it is read, expanded into cells, checked, and described as runs.

A function is of the stage that its module has in STAGES. Methods are of none, as they hand out what
an object has, nor are the tools that every stage uses (placeholders, conditions, refusals).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from openbach_run.campaign.plan import plan
from openbach_run.openbach.job_folders import load_packages
from openbach_run.paths import REPOSITORY
from openbach_run.topology.inventory import load_inventory

SOURCE = REPOSITORY / "src/openbach_run"
STAGES = {
    "read": (
        *(f"openbach/{name}.py" for name in ("reading", "functions", "stored", "job_arguments")),
        *(f"openbach/{name}.py" for name in ("expand", "source", "extras")),
        *(f"campaign/{name}.py" for name in ("settings", "file", "reading")),
    ),
    "expand": ("openbach/uses.py", "campaign/cells.py"),
    "check": (
        *("openbach/value_checks.py", "openbach/start.py"),
        *("campaign/checks.py", "campaign/entries.py"),
    ),
    "describe": ("campaign/spec.py",),
}
"""The stages of a scenario's way in their order, and their modules."""


def stages_of(call: Callable[[], object], rooms: Sequence[str]) -> tuple[list[str], list[str]]:
    """Run a call; return the stages that it went through, in order, and its climbs.

    A climb is a call from a room to one that comes later in `rooms`: `caller → called`.
    """
    stage_of = {file: stage for stage, files in STAGES.items() for file in files}
    visited: list[str] = []
    climbs: set[str] = set()

    def ours(frame: FrameType | None) -> str:
        """Return the file of a frame's code, or "" if it is not in a room."""
        file = Path(frame.f_code.co_filename) if frame else Path()
        name = str(file.relative_to(SOURCE)) if file.is_relative_to(SOURCE) else ""
        return name if name and room_of(name) in rooms else ""

    def seen(frame: FrameType, event: str, _argument: object) -> None:
        name = ours(frame)
        if event != "call" or not name or frame.f_code.co_name == "<module>":
            return
        function = frame.f_code.co_qualname.partition(".<locals>")[0]
        stage = None if "." in function else stage_of.get(name)
        if stage and visited[-1:] != [stage]:
            visited.append(stage)
        # Between two functions of ours there may be one of Python's, like sorted().
        caller = frame.f_back
        while caller is not None and not ours(caller):
            caller = caller.f_back
        if caller and rooms.index(room_of(ours(caller))) < rooms.index(room_of(name)):
            climbs.add(f"{caller.f_code.co_qualname} → {frame.f_code.co_qualname}")

    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
    return visited, sorted(climbs)


def room_of(file: str) -> str:
    """Return the room of a file, which is given from src/openbach_run."""
    return Path(file).parts[0].removesuffix(".py")


def scenario_way(rooms: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the stages from a scenario's file to its runs' names, and the climbs."""
    packages = load_packages([REPOSITORY / "jobs"])
    inventory = load_inventory(REPOSITORY / "inventory.yml")
    settings = ["vpn=none,wireguard", "cc=cubic", "loss=0,1"]

    def planned() -> None:
        campaign = plan(REPOSITORY / "scenarios/geo.yml", settings, (1,), packages)
        runs = campaign.runs(packages, inventory, lambda _uses: {})
        assert all(run.run_id for run in runs)

    return stages_of(planned, rooms)
