# SPDX-License-Identifier: GPL-3.0-or-later
"""Job packages on disk: OpenBACH's folders, or a file with the argument trees of many jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from openbach_run.catalog import KINDS, PACKAGES, Catalog, Entries, Uses, packages_of
from openbach_run.errors import InputError
from openbach_run.json_files import read_json
from openbach_run.openbach import job_content
from openbach_run.openbach.job import CONVERTERS, INSTANCE_TYPES, Argument, Command, Job
from openbach_run.openbach.limits import NAMING, check_declaration
from openbach_run.openbach.measures import (
    STEP,
    Measure,
    check_agreement,
    described_measure,
    read_measures,
)
from openbach_run.openbach.scenario import Scenario, jobs_of
from openbach_run.openbach.shapes import check
from openbach_run.playbook import REMEDY, installation_of
from openbach_run.yaml_files import read_yaml

TYPES = ("str", *CONVERTERS, "None", *INSTANCE_TYPES)


class KnownCommand(Command):
    """A command that keeps its arguments by name, which are asked for some thousand times."""

    @cached_property
    def arguments(self) -> dict[str, Argument]:
        """Return the arguments by name, without those of subcommands."""
        return super().arguments

    @cached_property
    def subcommands(self) -> dict[str, Command]:
        """Return the subcommands of all groups by name."""
        return super().subcommands


class KnownJob(Job):
    """A job that keeps what its tree comes to: a command asks for that some hundred times."""

    @cached_property
    def arguments(self) -> Command:
        """Return the argument tree."""
        return _known(super().arguments)

    @cached_property
    def subcommands(self) -> dict[str, tuple[tuple[str, ...], Command]]:
        """Return all subcommands at any depth, with the names that lead to them."""
        return super().subcommands


def _known(command: Command) -> KnownCommand:
    """Return a command that keeps its arguments by name, and whose subcommands do."""
    groups = []
    for group in command.groups:
        choices: dict[str, Command] = {name: _known(sub) for name, sub in group.choices.items()}
        groups.append(group._replace(choices=choices))
    return KnownCommand(command.required, command.optional, tuple(groups))


class MalformedJob(Job):
    """A job whose package is malformed: who asks for its arguments gets told `fault`."""

    fault = ""

    @property
    def arguments(self) -> Command:
        """Raise InputError with the fault."""
        raise InputError(self.fault)


@dataclass(frozen=True)
class Package:
    """A job, the folder with its files if it can be run here, its measures and Debian packages."""

    job: Job
    files: Path | None
    measures: tuple[Measure, ...] = ()
    debian: tuple[str, ...] = ()
    entries: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)
    """Entries that its arguments may name, and the platforms: kind → name → folder or file."""
    refused: tuple[str, ...] = ()
    """Tasks of its playbook without which it cannot do its work in a guest, in words."""
    left_out: tuple[str, ...] = ()
    """Tasks of its playbook that are not done in a guest."""


def load_packages(paths: Sequence[Path], catalog: Catalog | None = None) -> dict[str, Package]:
    """Return the jobs in the paths given, by name; the first one of a name wins.

    A path is a job's folder, a folder with jobs anywhere below it (a checkout), or a JSON file
    {name: {arguments, …}}. The catalog's folders (by default ours) are choices of the arguments
    that name some. A malformed job matters only to what uses it (`faults`). Raises InputError for a
    path without jobs.
    """
    packages: dict[str, Package] = {}
    catalog = catalog or Catalog()
    for path in paths:
        for package in _load(path):
            packages.setdefault(package.job.name, _with_folders(package, catalog))
    return packages


def faults(packages: Mapping[str, Package]) -> list[str]:
    """Return what is wrong with each malformed package."""
    return [item.job.fault for item in packages.values() if isinstance(item.job, MalformedJob)]


def well_formed(packages: Mapping[str, Package]) -> dict[str, Package]:
    """Return the packages that are not malformed."""
    return {name: item for name, item in packages.items() if not isinstance(item.job, MalformedJob)}


def _malformed(name: str, error: InputError) -> Package:
    """Return the package of a job that cannot be read.

    The error waits in it: a checkout may hold a broken job that no scenario uses.
    """
    job = MalformedJob(name, "", {})
    job.fault = f"the job {name} is malformed: {error}"
    return Package(job, None)


def _with_folders(package: Package, catalog: Catalog) -> Package:
    """Return the package with the folders that its arguments may name, also as their choices."""
    if isinstance(package.job, MalformedJob):
        return package
    entries: dict[str, Mapping[str, Path]] = {"platforms": catalog.all("platforms")}
    tree = _with_names(package.job.tree, catalog, entries)
    return replace(package, job=package.job._replace(tree=tree), entries=entries)


def _with_names(
    tree: Mapping[str, Any], catalog: Catalog, entries: dict[str, Mapping[str, Path]]
) -> dict[str, Any]:
    """Return an argument tree with names of folders as choices; put the folders in `entries`."""
    copy = dict(tree)
    for kind in ("required", "optional"):
        if tree.get(kind):
            copy[kind] = [_with_choices(argument, catalog, entries) for argument in tree[kind]]
    groups = []
    for group in tree.get("subcommand") or ():
        choices = [_with_names(choice, catalog, entries) for choice in group["choices"]]
        groups.append({**group, "choices": choices})
    return {**copy, "subcommand": groups} if groups else copy


def _with_choices(
    argument: dict[str, Any], catalog: Catalog, entries: dict[str, Mapping[str, Path]]
) -> dict[str, Any]:
    """Return an argument with the names of folders as choices; put the folders in `entries`."""
    limits = argument.get("limits")
    if not isinstance(limits, dict):
        return argument
    for key in NAMING:
        if key in limits:
            entries[limits[key]] = catalog.all(limits[key])
    if "folder" not in limits:
        return argument
    kind = limits["folder"]
    choices = dict.fromkeys([*(argument.get("choices") or ()), *entries[kind]])
    return {**argument, "choices": list(choices)}


def entries_of(packages: Mapping[str, Package]) -> Entries:
    """Return the folders and files that arguments of the jobs may name: kind → name → place."""
    places: dict[str, dict[str, Path]] = {kind: {} for kind in KINDS}
    for package in packages.values():
        for kind, entries in package.entries.items():
            places[kind] |= entries
    return places


def measures_of(
    scenarios: Sequence[Scenario], packages: Mapping[str, Package]
) -> dict[str, tuple[Measure, ...]]:
    """Return the measures of the scenarios' jobs, by job.

    A scenario with steps says itself what they measure (`x-measures`). Raises InputError for two
    that do not agree on a column.
    """
    jobs = sorted(set(jobs_of(scenarios)))
    measures = {name: packages[name].measures for name in jobs if packages[name].measures}
    for scenario in scenarios:
        check(f"{scenario.name}: x-measures", scenario.measures, "measures")
    own = {
        column: described_measure(f"{scenario.name}: x-measures.{column}", column, described)
        for scenario in scenarios
        for column, described in scenario.measures.items()
    }
    if own:
        measures[STEP] = tuple(own.values())
    check_agreement(measures)
    return measures


def parts_of(uses: Uses, packages: Mapping[str, Package], catalog: Catalog) -> dict[str, Path]:
    """Return the files and folders that a run uses, by their places in the guest.

    Raises InputError for a job that imports, or is built from, what is not there.
    """
    jobs = {}
    for name in uses["jobs"]:
        folder = packages[name].files
        # A job whose arguments alone are known has no files, and its start is refused elsewhere.
        if folder is not None:
            jobs[name] = folder
    parts = catalog.parts(uses, jobs)
    for name, folder in jobs.items():
        paths = job_content.beside(folder, catalog.checkout)
        parts |= {f"jobs/{name}/{place}": path for place, path in paths.items()}
    return parts


def check_installed(names: Iterable[str], packages: Mapping[str, Package]) -> None:
    """Raise InputError for jobs whose playbooks install what no guest can have."""
    refused = [_of_playbook(name, text) for name in names for text in packages[name].refused]
    if refused:
        raise InputError("\n".join(f"{text}. {REMEDY}" for text in refused))


def left_out(names: Iterable[str], packages: Mapping[str, Package]) -> list[str]:
    """Return the tasks of these jobs' playbooks that an agent does and a guest does not."""
    return [_of_playbook(name, text) for name in names for text in packages[name].left_out]


def _of_playbook(job: str, text: str) -> str:
    """Return a text about a task with the playbook that has it."""
    return f"the job {job}: its playbook install_{job}.yml, {text}"


def form_of(described: Iterable[Mapping[str, Any]]) -> str | None:
    """Return which form of packages a platform takes: "2.7" (and later) or "2.6" (and before).

    `described` is its answer to GET job/. None if it has no job that shows it. What it says at
    version/ is no help: OpenBACH 2.7.0 says 2.6.0 there.
    """
    for job in described:
        for platform in job.get("platform_configuration") or []:
            if "ansible_distribution_release" in platform:
                return "2.7"
            if "ansible_distribution_version" in platform:
                return "2.6"
    return None


def _load(path: Path) -> Iterator[Package]:
    """Yield the packages of a path. Raises InputError if there is none."""
    if path.is_file():
        yield from _from_schemas(path)
        return
    if not path.is_dir():
        raise InputError(f"{path}: no job folder, folder of jobs or JSON file with jobs is there")
    # By its name and not by its content: files/ has other YAML, too.
    files = [
        file
        for file in sorted(path.resolve().glob("**/files/*.yml"))
        if file.stem == file.parent.parent.name
    ]
    if not files:
        raise InputError(
            f"{path}: no job in it; a job is a folder <job> with <job>/files/<job>.yml"
        )
    for file in files:
        try:
            yield _from_folder(file)
        except InputError as error:
            yield _malformed(file.stem, error)


def _from_folder(file: Path) -> Package:
    """Return the package of a job's folder, from its description. Raises InputError."""
    data = read_yaml(file)
    job = _from_yaml(file, data)
    measures = read_measures(file.parent.parent, job.name, _statistics(file, data))
    debian = tuple(packages_of(file.parent))
    # Our jobs list their packages; of others the playbook that installs them is read.
    installed = None if (file.parent.parent / PACKAGES).exists() else installation_of(file.parent)
    if installed is None:
        return Package(job, file.parent, measures, debian)
    job = job._replace(setup=[[step.task, step.command] for step in installed.steps])
    return Package(
        job, file.parent, measures, debian, {}, tuple(installed.refused), tuple(installed.left_out)
    )


def _from_schemas(path: Path) -> Iterator[Package]:
    """Yield the packages of a JSON file: jobs whose arguments are known, without files."""
    data = read_json(path)
    if not isinstance(data, dict):
        raise InputError(f"{path}: should be a JSON object of jobs by name")
    for name, entry in data.items():
        try:
            yield Package(_job(path, name, entry, {}), None)
        except InputError as error:
            yield _malformed(name, error)


def _from_yaml(file: Path, data: Any) -> Job:
    """Return the job of a description. Raises InputError."""
    general = _mapping(file, "general", _mapping(file, "the whole", data).get("general"))
    entry = {"version": general.get("job_version", ""), "arguments": data.get("arguments")}
    return _job(file, str(general.get("name") or file.stem), entry, _platform(file, data))


def _statistics(file: Path, data: Mapping[str, Any]) -> list[str]:
    """Return the names of the statistics that a job says it sends."""
    return [
        str(entry.get("name")) for _, entry in _entries(file, "statistics", data.get("statistics"))
    ]


def _platform(file: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Return the commands of the platform.

    They are a mapping since OpenBACH 2.7, a list of platforms before.
    """
    block = data.get("platform_configuration")
    # The first stands for all: the guest is one platform, and only the commands are read.
    if isinstance(block, list) and block:
        block = block[0]
    platform = _mapping(file, "platform_configuration", block)
    if not platform.get("command"):
        raise InputError(
            f"{file}: platform_configuration.command is missing: what an agent runs to start"
            " the job"
        )
    return platform


def _job(file: Path, name: str, entry: Any, platform: dict[str, Any]) -> Job:
    """Return a job with a checked argument tree. Raises InputError."""
    tree = _mapping(file, name, entry).get("arguments") or {}
    _check_tree(file, "arguments" if platform else f"{name}.arguments", tree)
    command, command_stop = (str(platform.get(key) or "") for key in ("command", "command_stop"))
    return KnownJob(name, str(entry.get("version", "")), tree, command, command_stop)


def _check_tree(file: Path, at: str, tree: Any) -> None:
    """Check that arguments are as OpenBACH describes them. Raises InputError with the key."""
    _mapping(file, at, tree)
    for kind in ("required", "optional"):
        for place, argument in _entries(file, f"{at}.{kind}", tree.get(kind)):
            _check_name(file, place, argument, "name")
            if not isinstance(argument.get("choices") or [], list):
                raise InputError(f"{file}: {place}.choices ({argument['name']}) should be a list")
            if any(isinstance(choice, list | dict) for choice in argument.get("choices") or []):
                raise InputError(
                    f"{file}: {place}.choices ({argument['name']}) should be texts or numbers"
                )
            if str(argument.get("type")) not in TYPES:
                raise InputError(
                    f"{file}: {place}.type ({argument['name']}) should be one of {', '.join(TYPES)}"
                )
            if not re.fullmatch(r"[+*]|[0-9]{1,6}(-[0-9]{1,6})?", str(argument.get("count", 1))):
                raise InputError(
                    f"{file}: {place}.count ({argument['name']}) should be like 1, 2-4, + or *"
                )
            if kind == "optional" and not argument.get("flag"):
                raise InputError(
                    f"{file}: {place}.flag ({argument['name']}) is missing: the option, like --size"
                )
            if "limits" in argument:
                check_declaration(
                    f"{file}: {place}.limits", _mapping(file, f"{place}.limits", argument["limits"])
                )
    for place, group in _entries(file, f"{at}.subcommand", tree.get("subcommand")):
        _check_name(file, place, group, "group_name")
        if not group.get("choices"):
            raise InputError(f"{file}: {place} should have choices to choose from")
        for choice_place, choice in _entries(file, f"{place}.choices", group["choices"]):
            _check_name(file, choice_place, choice, "name")
            _check_tree(file, choice_place, choice)


def _check_name(file: Path, at: str, entry: Mapping[str, Any], key: str) -> None:
    """Check that an entry has a name that is a text. Raises InputError."""
    if not entry.get(key):
        raise InputError(f"{file}: {at}.{key} is missing")
    # YAML reads `on`, `no` and `1` as others than texts.
    if not isinstance(entry[key], str):
        raise InputError(
            f"{file}: {at}.{key} is {entry[key]!r}, and should be a text (in quotes, if YAML takes"
            " it for another)"
        )


def _entries(file: Path, at: str, entries: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the content of each entry of a list. Raises InputError."""
    if not isinstance(entries or [], list):
        raise InputError(f"{file}: {at} should be a list")
    for index, entry in enumerate(entries or []):
        yield f"{at}.{index}", _mapping(file, f"{at}.{index}", entry)


def _mapping(file: Path, at: str, value: Any) -> dict[str, Any]:
    """Return a value that is a mapping. Raises InputError for another one."""
    if not isinstance(value, dict):
        raise InputError(
            f"{file}: {at}"
            f" {'is missing' if value is None else 'should be a mapping of keys to values'}"
        )
    return value
