# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user may add, one folder or file each: this checkout, and any directory of the same shape, has

    vpn-configs/NAME/vpn.json …              a VPN
    congestion-controls/NAME/profile.json …  a congestion control
    jobs/NAME/files/NAME.yml …               a job
    satellites/NAME.yml or .csv              a satellite
    impairments/NAME.json                    a profile of impairment
    cpus/NAME.json                           what packets of VPNs cost a CPU
    topologies/NAME.yml                      hosts, networks and routes
    scenarios/NAME.json or .yml              what is run
    campaigns/NAME.yml                       several scenarios with values

An argument of a job whose values are names of such folders says so in the job's YAML: `limits: {folder: vpn-configs}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from openbach_run.errors import InputError
from openbach_run.json_files import read_json, read_text
from openbach_run.paths import REPOSITORY
from openbach_run.playbook import installation_of

DESCRIBED = {"vpn-configs": "vpn.json", "congestion-controls": "profile.json"}
"""Kinds whose entries are folders that the guest gets whole, and the file of a folder that describes it."""
PATTERNS = {
    **{kind: (f"*/{file}",) for kind, file in DESCRIBED.items()},
    "jobs": ("*/files/*.yml",),
    "satellites": ("*.yml", "*.csv"),
    "impairments": ("*.json",),
    "cpus": ("*.json",),
    "topologies": ("*.yml",),
    "scenarios": ("*.json", "*.yml"),
    "campaigns": ("*.yml",),
}
KINDS = tuple(PATTERNS)
UNTESTED = "not tested here"
PACKAGES = "packages.txt"
DEBIAN_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
Uses = Mapping[str, Sequence[str]]
"""What a run uses: kind → names, sorted."""


@dataclass(frozen=True)
class Additions:
    """Directories of that shape: of a name that several have, the first one's entry counts."""

    roots: tuple[Path, ...] = (REPOSITORY,)

    @staticmethod
    def beside_ours(directories: Iterable[Path]) -> Additions:
        """The user's directories, before the checkout's. Raises InputError for one that has nothing to add."""
        roots = tuple(directory.resolve() for directory in directories)
        for root in roots:
            if not any((root / kind).is_dir() for kind in KINDS):
                shape = f"it should have one of the folders {', '.join(KINDS)}"
                if root.parent.name in KINDS:
                    shape += f"; {root.name} is in one: give --with {root.parent.parent}"
                raise InputError(f"--with {root}: nothing to add there: {shape}")
        return Additions((*roots, REPOSITORY))

    def all(self, kind: str) -> dict[str, Path]:
        """Name → folder (or file), of all roots."""
        return self._found[kind]

    def find(self, kind: str, name: str) -> Path | None:
        return self._found[kind].get(name)

    def untested(self) -> set[str]:
        """The names of folders that say of themselves that they are not tested here."""
        entries = [entry for kind in DESCRIBED for entry in self.all(kind).items()]
        return {name for name, folder in entries if _tested(folder) == UNTESTED}

    @property
    def jobs(self) -> list[Path]:
        """The folders of jobs."""
        return [root / "jobs" for root in self.roots if (root / "jobs").is_dir()]

    def shared(self, kind: str) -> dict[str, Path]:
        """Files beside the folders of a kind that these have in common, by their names."""
        if kind not in DESCRIBED:
            return {}
        files = [file for root in reversed(self.roots) for file in (root / kind).glob("*") if file.is_file()]
        return {file.name: file for file in files if file.suffix != ".md"}

    def with_base(self, kind: str, name: str) -> tuple[str, ...]:
        """The names of what is needed for an entry: itself, and the folder that its `base` names. Raises InputError."""
        base = description(self.all(kind)[name]).get("base")
        return (name,) if base is None else (name, str(base))

    def parts(self, uses: Uses, jobs: Mapping[str, Path]) -> dict[str, Path]:
        """What the guest gets of the jobs (whose files are in the folders given) and entries that are used, by its place
        there."""
        parts = {f"jobs/{name}": jobs[name] for name in uses.get("jobs", ())}
        for kind, names in uses.items():
            if kind != "jobs" and names:
                entries = [self.all(kind)[name] for name in names]
                parts |= {f"{kind}/{entry.name}": entry for entry in (*entries, *self.shared(kind).values())}
        return parts

    @cached_property
    def _found(self) -> dict[str, dict[str, Path]]:
        found: dict[str, dict[str, Path]] = {kind: {} for kind in KINDS}
        for kind, patterns in PATTERNS.items():
            depth = patterns[0].count("/")
            for root in self.roots:
                for file in sorted(file for pattern in patterns for file in (root / kind).glob(pattern)):
                    entry = file.parents[depth - 1] if depth else file
                    if kind != "jobs" or file.stem == entry.name:
                        found[kind].setdefault(entry.stem if entry.is_file() else entry.name, entry)
        return found


def _tested(folder: Path) -> Any:
    """What a folder says of its tests; None if it is malformed, which matters to those only who use it."""
    try:
        return description(folder).get("tested")
    except InputError:
        return None


def description(folder: Path) -> dict[str, Any]:
    """The content of the file that describes a folder; nothing for one of another kind. Raises InputError."""
    file = next((file for name in DESCRIBED.values() if (file := folder / name).exists()), None)
    if file is None:
        return {}
    described = read_json(file)
    if not isinstance(described, dict):
        raise InputError(f"{file}: should be a JSON object")
    return described


def packages_of(folder: Path) -> list[str]:
    """The Debian packages that a folder names: those of its description's key `packages`; a job's `files`, those of the
    packages.txt beside it, one a line, or else those that its playbook installs. Raises InputError."""
    return list(wanted_by(folder))


def wanted_by(folder: Path) -> dict[str, str]:
    """The same packages, each with what wants it, in words. Raises InputError."""
    if folder.name == "files" and (file := folder.parent / PACKAGES).exists():
        lines = [line.partition("#")[0].strip() for line in read_text(file).splitlines()]
        places = [(f"{file}, line {number}", line) for number, line in enumerate(lines, 1) if line]
        return {check_package(place, line): place for place, line in places}
    if folder.name == "files" and (installed := installation_of(folder)):
        place = f"the job {installed.job}: its playbook install_{installed.job}.yml"
        return {check_package(f"{place}, {why}", name): f"{place}, {why}" for name, why in installed.debian.items()}
    names = description(folder).get("packages", [])
    if not isinstance(names, list):
        raise InputError(f"{folder}: packages should be a list of the names of Debian packages")
    return {check_package(f"{folder}: packages", name): f"{folder}: packages" for name in names}


def check_package(at: str, name: Any) -> str:
    """The name of a Debian package, which is given to apt. Raises InputError for something else."""
    if not isinstance(name, str) or not DEBIAN_NAME.fullmatch(name):
        raise InputError(f"{at}: {name!r} is no name of a Debian package, like iperf3")
    return name


def is_used(place: str, uses: Uses) -> bool:
    """Whether a run that uses these has what is at that place in the guest (see `Additions.parts`)."""
    kind, _, entry = place.partition("/")
    if kind not in KINDS or not entry:
        return True
    names, entry = uses.get(kind, ()), entry.partition("/")[0]
    is_shared = kind in DESCRIBED and Path(entry).suffix != ""
    return bool(names) if is_shared else Path(entry).stem in names


def joined(several: Iterable[Uses]) -> dict[str, list[str]]:
    """What at least one of several runs uses."""
    names: dict[str, set[str]] = {}
    for uses in several:
        for kind, listed in uses.items():
            names.setdefault(kind, set()).update(listed)
    return {kind: sorted(listed) for kind, listed in sorted(names.items())}
