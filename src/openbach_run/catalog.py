# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders and files that a user may add, one for each thing.

A user's directory has at its top what this checkout has there or in the folder library:

    vpn-configs/NAME/vpn.json …              a VPN
    congestion-controls/NAME/profile.json …  a congestion control
    quic-stacks/NAME/stack.json …            an implementation of QUIC
    peps/NAME/pep.json …                     a PEP (a proxy that splits TCP) in place of satpep
    jobs/NAME/files/NAME.yml …               a job
    satellites/NAME.yml or .csv              a satellite
    impairments/NAME.json                    a profile of impairment
    cpus/NAME.json                           what packets of VPNs cost a CPU
    platforms/NAME.yml                       values of a platform that belong together
    topologies/NAME.yml                      hosts, networks and routes
    scenarios/NAME.json or .yml              what is run
    campaigns/NAME.yml                       several scenarios with values

The values of a job's argument may be names of such folders. The job's YAML then has
`limits: {folder: vpn-configs}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from openbach_jobs.data import LIBRARY
from openbach_run.errors import InputError
from openbach_run.json_files import read_json, read_text
from openbach_run.paths import REPOSITORY
from openbach_run.playbook import installation_of

DESCRIBED = {
    "vpn-configs": "vpn.json",
    "congestion-controls": "profile.json",
    "quic-stacks": "stack.json",
    "peps": "pep.json",
}
"""Kinds whose entries are folders that the guest gets whole, and the file of a folder that
describes it."""
PATTERNS = {
    **{kind: (f"*/{file}",) for kind, file in DESCRIBED.items()},
    "jobs": ("*/files/*.yml",),
    "satellites": ("*.yml", "*.csv"),
    "impairments": ("*.json",),
    "cpus": ("*.json",),
    "platforms": ("*.yml",),
    "topologies": ("*.yml",),
    "scenarios": ("*.json", "*.yml"),
    "campaigns": ("*.yml",),
}
KINDS = tuple(PATTERNS)
UNTESTED = "not tested here"
STREAMS = ("TCP", "MPTCP", "TLS")
"""Carriers of tunnels that a PEP between the tunnel's ends can split."""
PACKAGES = "packages.txt"
DEBIAN_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
Uses = Mapping[str, Sequence[str]]
"""The things that a run uses: kind → names, sorted."""
Entries = Mapping[str, Mapping[str, Path]]
"""The things that there are: kind → name → folder or file."""


@dataclass(frozen=True)
class Catalog:
    """Directories of this shape.

    Where several have an entry of the same name, the first one's counts.
    """

    roots: tuple[Path, ...] = (REPOSITORY,)

    @staticmethod
    def beside_ours(directories: Iterable[Path]) -> Catalog:
        """Return the user's directories, before the checkout's.

        Raises InputError for one that has nothing to add.
        """
        roots = tuple(directory.resolve() for directory in directories)
        for root in roots:
            if not any((root / kind).is_dir() for kind in KINDS):
                shape = f"it should have one of the folders {', '.join(KINDS)}"
                if root.parent.name in KINDS:
                    shape += f"; {root.name} is in one: give --with {root.parent.parent}"
                raise InputError(f"--with {root}: nothing to add there: {shape}")
        return Catalog((*roots, REPOSITORY))

    @property
    def shelves(self) -> tuple[Path, ...]:
        """Return the directories with folders of kinds: each root, and the library in it."""
        return tuple(place for root in self.roots for place in (root, root / LIBRARY))

    @property
    def checkout(self) -> Path:
        """Return the checkout, which is the last of the directories."""
        return self.roots[-1]

    def all(self, kind: str) -> dict[str, Path]:
        """Return name → folder (or file) of all entries of a kind."""
        return self.entries[kind]

    def find(self, kind: str, name: str) -> Path | None:
        """Return the folder (or file) of an entry; None if there is none."""
        return self.entries[kind].get(name)

    def untested(self) -> set[str]:
        """Return the names of the folders whose description says that they are not tested here."""
        names: set[str] = set()
        for kind in DESCRIBED:
            names |= {
                name for name, folder in self.all(kind).items() if _tested(folder) == UNTESTED
            }
        return names

    @property
    def jobs(self) -> list[Path]:
        """Return the folders that hold jobs."""
        return [root / "jobs" for root in self.roots if (root / "jobs").is_dir()]

    def shared(self, kind: str) -> dict[str, Path]:
        """Return the files that lie beside the folders of a kind, and which they share, by name."""
        if kind not in DESCRIBED:
            return {}
        by_name: dict[str, Path] = {}
        # In reverse: a file of the first root replaces one of the same name.
        for shelf in reversed(self.shelves):
            files = [file for file in (shelf / kind).glob("*") if file.is_file()]
            by_name |= {file.name: file for file in files if file.suffix != ".md"}
        return by_name

    def names_with_base(self, kind: str, name: str) -> tuple[str, ...]:
        """Return the names of an entry and of its base, if it has one. Raises InputError."""
        return names_with_base(self.all(kind), name)

    def parts(self, uses: Uses, jobs: Mapping[str, Path]) -> dict[str, Path]:
        """Return the files and folders that the guest gets for what is used, by place in the guest.

        `jobs` has the folder of each job's files.
        """
        parts = {f"jobs/{name}": jobs[name] for name in uses.get("jobs", ())}
        for kind, names in uses.items():
            if kind in KINDS and kind != "jobs" and names:
                entries = [self.all(kind)[name] for name in names]
                parts |= {
                    f"{kind}/{entry.name}": entry
                    for entry in (*entries, *self.shared(kind).values())
                }
        return parts

    @cached_property
    def entries(self) -> dict[str, dict[str, Path]]:
        """Return all entries: kind → name → folder or file."""
        kinds: dict[str, dict[str, Path]] = {kind: {} for kind in KINDS}
        for kind, patterns in PATTERNS.items():
            # The entry is the folder that the pattern's star stands for, or else the file itself.
            depth = patterns[0].count("/")
            for shelf in self.shelves:
                files = chain(*((shelf / kind).glob(pattern) for pattern in patterns))
                for file in sorted(files):
                    entry = file.parents[depth - 1] if depth else file
                    # A job's folder may have other YAML files; that of the job has its name.
                    if kind != "jobs" or file.stem == entry.name:
                        kinds[kind].setdefault(entry.stem if entry.is_file() else entry.name, entry)
        return kinds


def _tested(folder: Path) -> Any:
    """Return what a folder says of its tests; None if it is malformed.

    That is told where it is used.
    """
    try:
        return description(folder).get("tested")
    except InputError:
        return None


def description(folder: Path) -> dict[str, Any]:
    """Return the content of the file that describes a folder; empty if there is no such file.

    Raises InputError.
    """
    files = [folder / name for name in DESCRIBED.values()]
    file = next((path for path in files if path.exists()), None)
    if file is None:
        return {}
    described = read_json(file)
    if not isinstance(described, dict):
        raise InputError(f"{file}: should be a JSON object")
    return described


def with_base(folder: Path, folders: Mapping[str, Path]) -> dict[str, Any]:
    """Return a folder's description with what only its base has; `folders` are those of its kind.

    A base that is not there is left out: the check of the folder tells of it. Raises InputError.
    """
    own = description(folder)
    base = folders.get(str(own.get("base")))
    return {**(description(base) if base else {}), **own}


def names_with_base(entries: Mapping[str, Path], name: str) -> tuple[str, ...]:
    """Return the names of the entries that an entry needs: itself, and its `base` if it has one.

    `entries` are those of its kind, by name. Raises InputError.
    """
    base = description(entries[name]).get("base")
    return (name,) if base is None else (name, str(base))


def packages_of(folder: Path) -> list[str]:
    """Return the Debian packages that a folder names. Raises InputError.

    They are in the key `packages` of its description. For the `files` of a job they are in the
    packages.txt beside that folder, one in a line, or else those that its playbook installs.
    """
    return list(wanted_by(folder))


def wanted_by(folder: Path) -> dict[str, str]:
    """Return the same packages, each with what wants it, in words. Raises InputError."""
    if folder.name == "files" and (file := folder.parent / PACKAGES).exists():
        lines = [line.partition("#")[0].strip() for line in read_text(file).splitlines()]
        places = [(f"{file}, line {number}", line) for number, line in enumerate(lines, 1) if line]
        return {check_package(place, line): place for place, line in places}
    if folder.name == "files" and (installed := installation_of(folder)):
        place = f"the job {installed.job}: its playbook install_{installed.job}.yml"
        return {
            check_package(f"{place}, {why}", name): f"{place}, {why}"
            for name, why in installed.debian.items()
        }
    names = description(folder).get("packages", [])
    if not isinstance(names, list):
        raise InputError(f"{folder}: packages should be a list of the names of Debian packages")
    return {check_package(f"{folder}: packages", name): f"{folder}: packages" for name in names}


def check_package(at: str, name: Any) -> str:
    """Return the name of a Debian package, which is later given to apt.

    Raises InputError for any other text.
    """
    if not isinstance(name, str) or not DEBIAN_NAME.fullmatch(name):
        raise InputError(f"{at}: {name!r} is no name of a Debian package, like iperf3")
    return name


def is_used(place: str, uses: Uses) -> bool:
    """Return whether a run that uses these has the file at a place in the guest.

    `Catalog.parts` has these places.
    """
    kind, _, entry = place.partition("/")
    if kind not in KINDS or not entry:
        return True
    names, entry = uses.get(kind, ()), entry.partition("/")[0]
    # A shared file (lib.sh) is used by every entry of its kind; its suffix tells it from a folder.
    is_shared = kind in DESCRIBED and Path(entry).suffix != ""
    return bool(names) if is_shared else Path(entry).stem in names


def joined(several: Iterable[Uses]) -> dict[str, list[str]]:
    """Return what at least one of several runs uses, sorted."""
    names: dict[str, set[str]] = {}
    for uses in several:
        for kind, listed in uses.items():
            names.setdefault(kind, set()).update(listed)
    return {kind: sorted(listed) for kind, listed in sorted(names.items())}
