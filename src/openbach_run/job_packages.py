# SPDX-License-Identifier: GPL-3.0-or-later
"""Job packages on disk: folders in the form that OpenBACH installs, or a file with the argument trees of many jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from openbach_run.errors import InputError
from openbach_run.jobs import Job
from openbach_run.model import read_json


@dataclass(frozen=True)
class Package:
    """A job and, if it can be run here, the folder with its files."""

    job: Job
    files: Path | None


def load_packages(paths: Sequence[Path]) -> dict[str, Package]:
    """Jobs by name from the paths given, the first one of a name wins. Raises InputError.

    A path is a job's folder, a folder with jobs anywhere below it (a checkout), or a JSON file {name: {arguments, …}}.
    """
    packages: dict[str, Package] = {}
    for path in paths:
        for package in _load(path):
            packages.setdefault(package.job.name, package)
    return packages


def _load(path: Path) -> Iterator[Package]:
    if path.is_file():
        yield from _from_schemas(path)
        return
    if not path.is_dir():
        raise InputError(f"{path}: no job folder, folder of jobs or JSON file with jobs is there")
    found = [file for file in sorted(path.glob("**/files/*.yml")) if file.stem == file.parent.parent.name]
    if not found:
        raise InputError(f"{path}: no job in it; a job is a folder <job> with <job>/files/<job>.yml")
    for file in found:
        yield Package(_from_yaml(file), file.parent)


def _from_schemas(path: Path) -> Iterator[Package]:
    data = read_json(path)
    if not isinstance(data, dict):
        raise InputError(f"{path}: should be a JSON object of jobs by name")
    for name, entry in data.items():
        yield Package(_job(path, name, entry, {}), None)


def _from_yaml(file: Path) -> Job:
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{file}: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("general"), dict):
        raise InputError(f"{file}: a job's description is a mapping with general, platform_configuration, arguments")
    general = data["general"]
    entry = {"version": general.get("job_version", ""), **data}
    return _job(file, str(general.get("name", file.stem)), entry, _platform(file, data))


def _platform(file: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Commands of the platform: a mapping since OpenBACH 2.7, a list of platforms before."""
    block = data.get("platform_configuration")
    if isinstance(block, list) and block:
        block = block[0]
    if not isinstance(block, dict) or not block.get("command"):
        raise InputError(f"{file}: platform_configuration has no command")
    return block


def _job(file: Path, name: str, entry: Any, platform: dict[str, Any]) -> Job:
    try:
        job = Job(
            name,
            str(entry.get("version", "")),
            entry.get("arguments") or {},
            str(platform.get("command") or ""),
            str(platform.get("command_stop") or ""),
        )
        _ = job.arguments
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file}: job {name}: its arguments are not as OpenBACH describes them: {error!r}") from error
    return job
