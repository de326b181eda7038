# SPDX-License-Identifier: GPL-3.0-or-later
"""The package that an OpenBACH administrator imports.

It is made from this checkout's jobs, scenarios and inventory:

    DIR/
        README.md                   what to do with it, command by command
        project.json                the project: entities, networks, scenarios
        scenarios/<name>.json       each scenario, to import by itself
        jobs-2.7/<job>.tar.gz       the jobs for OpenBACH 2.7 and later
        jobs-2.6/<job>.tar.gz       the same for 2.6 and before

The same checkout gives the same files, byte for byte.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from openbach_run.catalog import Catalog, with_base
from openbach_run.errors import InputError
from openbach_run.openbach.addresses import inventory_file
from openbach_run.openbach.job_content import walk, whole
from openbach_run.openbach.job_folders import Package, entries_of
from openbach_run.openbach.playbooks import ARCHIVE, playbooks
from openbach_run.openbach.reading import read_scenario
from openbach_run.openbach.refusals import Malformed
from openbach_run.openbach.scenario import Scenario, jobs_by_entity
from openbach_run.openbach.uses import argument_choices
from openbach_run.paths import INVENTORY
from openbach_run.topology.hosts import Host, Inventory
from openbach_run.yaml_files import read_yaml

PROJECT_DESCRIPTION = (
    "VPNs and performance enhancing proxies over GEO and LEO satellite links: transfer times by"
    " VPN, position of the proxy, congestion control and loss. Seven hosts in a row: pc, box, st,"
    " sat, gw, pop, server"
)
ROLES = {
    "pc": "The user's computer: it downloads, and its clock times the transfer",
    "box": "The client's box between the user's network and the terminal: client end of the VPN",
    "st": "The satellite terminal: user side of the satellite link, place of a proxy",
    "sat": "The satellite: bottleneck, buffer, delay and loss of both directions",
    "gw": "The gateway: ground side of the satellite link, place of a proxy",
    "pop": "The operator's point of presence: server end of the VPN",
    "server": "The enterprise's server: it sends the file",
}
UBUNTU_VERSIONS = {"jammy": "22.04", "noble": "24.04"}
"""The Ubuntu versions that the packages for OpenBACH 2.6 name.

It knows a platform by its whole version. That of Debian changes with each point release, and 2.6's
own jobs do not run on Debian.
"""

FOR_2_6 = ("ansible_system", "ansible_distribution_release", "command")
"""Keys that the description of a platform has to have for OpenBACH 2.6."""


def check_project_name(name: str) -> None:
    """Raise InputError for a name that the backend refuses."""
    # The name is a part of the backend's addresses (URLs), and its column has 500 characters.
    if not name or name.isdigit() or "/" in name or len(name) > 500:
        raise InputError(f"--project {name!r}: a name that is neither a number nor has a '/'")


def begin(output: Path) -> None:
    """Make the package's folders anew. Raises InputError for a folder that holds anything else."""
    parts = ("scenarios", "jobs-2.7", "jobs-2.6", "project.json", "README.md")
    try:
        output.mkdir(parents=True, exist_ok=True)
        # Folders are removed below: never in a directory that is somebody's own.
        if strange := sorted(file.name for file in output.iterdir() if file.name not in parts):
            raise InputError(
                f"{output}: holds {strange[0]}, which is not of a package; -o names another folder"
            )
        for name in parts[:3]:
            shutil.rmtree(output / name, ignore_errors=True)
            (output / name).mkdir()
    except OSError as error:
        raise InputError(
            f"{output}: cannot be written: {error.strerror}; -o names another folder"
        ) from error


def write_json(file: Path, content: Any) -> None:
    """Write a JSON file for people."""
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


# Scenarios and project


def load_scenarios(
    folder: Path, packages: Mapping[str, Package], inventory: Path
) -> list[Scenario]:
    """Return the scenarios of a folder that run on an inventory, in the order to import them.

    Those that others start come first. Raises InputError for one that is malformed.
    """
    files: dict[str, Path] = {}
    # The JSON of a scenario is made from its YAML and stands for it, where there is both.
    for pattern in ("*.yml", "*.json"):
        files |= {file.stem: file for file in folder.glob(pattern)}
    scenarios = []
    for file, scenario in read_scenarios([files[name] for name in sorted(files)], packages):
        if inventory_file(scenario, file, None).resolve() in (INVENTORY, inventory.resolve()):
            scenarios.append(scenario)
    return in_order(scenarios)


def read_scenarios(
    files: Iterable[Path],
    packages: Mapping[str, Package],
    leave_out: Callable[[str], None] | None = None,
) -> Iterator[tuple[Path, Scenario]]:
    """Yield the scenario of each file.

    Raises InputError for one that is malformed, unless `leave_out` is to be told of it.
    """
    jobs = {name: package.job for name, package in packages.items()}
    for file in files:
        try:
            yield file, read_scenario(file, jobs)
        except InputError as error:
            text = f"{file}: {error}" if isinstance(error, Malformed) else str(error)
            if leave_out is None:
                raise InputError(text) from error
            leave_out(text)


def in_order(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """Return scenarios in the order to import them: those that others start come first."""
    # An import refuses a scenario that starts one which is not there yet; sorted() keeps the order.
    return sorted(
        scenarios,
        key=lambda scenario: any("start_scenario_instance" in part for part in scenario.functions),
    )


def project(name: str, inventory: Inventory, scenarios: Iterable[Scenario]) -> dict[str, Any]:
    """Return a project in the form that the backend exports and imports.

    Agents are attached by hand: an import ignores them.
    """
    return {
        "name": name,
        "description": PROJECT_DESCRIPTION,
        "owners": [],
        "entity": [entity(host, inventory) for host in inventory.hosts],
        "scenario": [scenario.as_stored() for scenario in scenarios],
        "network": [
            {"name": network, "address": inventory.networks[network].address}
            for network in used_networks(inventory)
        ],
        "hidden_network": [],
        "reserved_agents": [],
    }


def entity(host: Host, inventory: Inventory) -> dict[str, Any]:
    """Return a host as an entity of the project."""
    return {
        "name": host.entity,
        "description": ROLES.get(host.role, f"Host {host.role} of the testbed"),
        "agent": None,
        "networks": [
            {
                "name": port.network,
                "address": inventory.networks[port.network].address,
                "interface": port.name,
                "ip": port.address,
            }
            for port in host.interfaces
        ],
    }


def used_networks(inventory: Inventory) -> list[str]:
    """Return the names of the networks that hosts are in."""
    return [network for network, _ in inventory.attached()]


# Jobs


def packed(package: Package, catalog: Catalog, form: str) -> bytes:
    """Return a job as a .tar.gz with `files/` at its root: all that it needs to run alone.

    `form` is the one that a platform takes, 2.7 or 2.6. What is in files/ is there a second time,
    in one piece for the playbook. Raises InputError.
    """
    assert package.files is not None
    texts = playbooks(package)
    if form == "2.6":
        name = f"files/{package.job.name}.yml"
        texts[name] = for_2_6(package.files.parent / name)
    paths = walk(package.files.parent)
    for place, file in whole(package.files, package.entries, catalog).items():
        paths[f"files/{place}"] = file
    contents = {place: (file.read_bytes(), file.stat().st_mode) for place, file in paths.items()}
    contents |= {name: (text.encode(), 0) for name, text in texts.items()}
    start = "files/"
    files = {name[len(start) :]: file for name, file in contents.items() if name.startswith(start)}
    return _archive({**contents, ARCHIVE: (_archive(files), 0)})


def _archive(contents: Mapping[str, tuple[bytes, int]]) -> bytes:
    """Return a .tar.gz of contents and modes by path; the same contents give the same bytes."""
    packed = io.BytesIO()
    with (
        # Without the time, and in the order of the names.
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as tar,
    ):
        for name, (content, mode) in sorted(contents.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o755 if mode & 0o100 else 0o644
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


# 2.6 looks for its hosts' distribution and version; 2.7 has their release in its place.
def for_2_6(file: Path) -> str:
    """Return a job's description with its platforms as a list, as OpenBACH had it before 2.7.

    Raises InputError.
    """
    description = read_yaml(file)
    block = description.get("platform_configuration") if isinstance(description, dict) else None
    if isinstance(block, list):
        return file.read_text()
    platforms = block.get("supported_platforms") if isinstance(block, dict) else None
    if not isinstance(platforms, list) or not all(isinstance(entry, dict) for entry in platforms):
        raise InputError(
            f"{file}: platform_configuration.supported_platforms should be a list of platforms"
        )
    assert isinstance(block, dict)
    common = {key: value for key, value in block.items() if key != "supported_platforms"}
    platforms = [{**common, **platform} for platform in platforms]
    ubuntu = [entry for entry in platforms if entry.get("ansible_distribution") == "Ubuntu"]
    for entry in ubuntu:
        if missing := [key for key in FOR_2_6 if not isinstance(entry.get(key), str)]:
            raise InputError(
                f"{file}: supported_platforms: Ubuntu: {missing[0]} is missing, or no text"
            )
        if entry["ansible_distribution_release"] not in UBUNTU_VERSIONS:
            known = ", ".join(UBUNTU_VERSIONS)
            raise InputError(
                f"{file}: supported_platforms: Ubuntu {entry['ansible_distribution_release']}: only"
                f" {known}"
            )
    description["platform_configuration"] = [
        {
            "ansible_system": platform["ansible_system"],
            "ansible_distribution": "Ubuntu",
            "ansible_distribution_version": UBUNTU_VERSIONS[
                platform["ansible_distribution_release"]
            ],
            "command": platform["command"],
            "command_stop": platform.get("command_stop"),
        }
        for platform in ubuntu
    ]
    if not description["platform_configuration"]:
        raise InputError(
            f"{file}: supported_platforms names no Ubuntu: OpenBACH 2.6 could not install the job"
        )
    return yaml.safe_dump(
        description, sort_keys=False, allow_unicode=True, explicit_start=True, width=120
    )


# Instructions


INSTRUCTIONS = """\
# Installing the testbed on an OpenBACH platform

`openbach-run package --install ADDRESS --project {project}` does sections 1 and 2 step by step, and
goes on where it was interrupted; with `--check` it only says what is missing.

By hand, the commands are scripts of OpenBACH's auditorium, in `apis/auditorium_scripts` of its
repository openbach-extra: `python3 add_job.py …` stands for `PYTHONPATH=EXTRA/apis python3
EXTRA/apis/auditorium_scripts/add_job.py …`. Run them here, beside a file `controller`:
`{{"controller": "ADDRESS", "login": "…", "password": "…"}}`.

## 1. Jobs

OpenBACH 2.7 and later take the packages in `jobs-2.7/`, earlier versions those in `jobs-2.6/`; each
answers HTTP 500 to the other's. Do not go by the version that the platform shows: 2.7.0 says 2.6.0.
Look at a job that it has:

```sh
python3 get_job_infos.py fping | grep ansible_distribution_
```

`ansible_distribution_release` means `jobs-2.7/`, `ansible_distribution_version` means `jobs-2.6/`.

Uninstalling a job removes its own files only, and no Debian package.

```sh
{add_jobs}
```

{left_out}Agents are those of `inventory.yml`; on each the jobs that its entity needs. One command
after the other: each waits for its playbooks, and many at once overload a small controller.

```sh
{install_jobs}
```

`install_jobs.py` can say too early that an operation was successful. What an agent has, it says:

```sh
{check_jobs}
```

A job that is not listed some minutes later is to be installed again.

### VPNs

{vpns}

## 2. Project

```sh
python3 add_project.py project.json
```

(OpenBACH's web UI has an Import Project that does not work in 2.7; importing a file of `scenarios/`
there does.) Then attach the agents, in the web UI or with:

```sh
{attach}
```

Interfaces must be called as `inventory.yml` calls them. An entity's name may be in one project
only: with the same name in two projects OpenBACH starts neither.

## 3. Run

{scenarios}

From the web UI: open the project, choose the scenario, give its arguments, start. It asks for every
argument and shows neither defaults nor choices; these are they, in the order of its fields (of a
scenario that sweeps an argument, the first value, then the others):

{values}

{arguments}

Everything else is a constant of the scenario, with the value that is in its file. From a terminal,
with defaults, sweeps and the table at the end, constants included (`buffer_bdp=4`; such a scenario
is uploaded under a name of its own):

```sh
openbach-run --engine controller --controller ADDRESS --project {project} geo_loss
```

## 4. When something goes wrong

OpenBACH can lose a stop that reaches a job while it is being started. The job stays and its port
stays taken, so that later runs fail. This ends all jobs of the testbed on its hosts:

```sh
{stop_all}
```

A job's log is in `/var/log/openbach/JOB_*.log` on its agent, and in the collector's Elasticsearch
(in Kibana: `scenario_instance_id: N`).
"""


VPNS = """\
From Debian's packages, as far as the agents' distribution has them: {packaged}.
`openvpn_dco` needs OpenVPN 2.7 and Linux 6.16 (module `ovpn`).

Built by the job's playbook, with cargo, Go or gcc on the agents, where it is told to: {built}.
Append to `/opt/openbach/controller/ansible/group_vars/all` on the controller, with those you want,
and install `vpn` again:

```yaml
satvpn_built_vpns: {wanted}
```

Brought by hand, into `/usr/local/sbin` of both ends (the job says from where): {by_hand}."""


def _left_out(jobs: Sequence[str]) -> str:
    """Return why the list of jobs to add does not have all that are packed; "" if it has."""
    if not jobs:
        return ""
    names = ", ".join(f"`{job}`" for job in jobs)
    text = (
        f"Not in this list, because no scenario of the package starts them: {names}. Their packages"
        " are for scenarios of"
    )
    return f"{text} yours,\nand are added the same way.\n\n"


def vpn_list(folders: Mapping[str, Path]) -> str:
    """Return which VPNs agents have once the job is installed, and how the others come."""
    names: dict[str, list[str]] = {"packaged": [], "built": [], "by_hand": []}
    wanted: list[str] = []
    for kind in sorted(folders):
        config = with_base(folders[kind], folders)
        programs: dict[str, Any] = config.get("programs", {})
        is_brought = any("host" in program for program in programs.values())
        how = "by_hand" if is_brought else "built" if programs else "packaged"
        names[how].append(f"`{kind}`")
        wanted += [] if is_brought else [f"{config.get('base', kind)} {name}" for name in programs]
    listed = {how: ", ".join(kinds) for how, kinds in names.items()}
    return VPNS.format(wanted=json.dumps([*dict.fromkeys(wanted)]), **listed)


def value_table(scenarios: Sequence[Scenario]) -> str:
    """Return a Markdown table of a value to type for each argument, a row for each scenario."""
    lines = ["| scenario | values, if you have no other |", "|---|---|"]
    for scenario in scenarios:
        swept, defaults = scenario.sweep.get("values", {}), scenario.sweep.get("defaults", {})
        texts = []
        for name in scenario.arguments:
            first, *others = [defaults[name]] if name in defaults else swept.get(name, [""])
            more = f" (also {', '.join(f'`{other}`' for other in others)})" if others else ""
            texts.append(f"`{name}={first}`{more}")
        lines.append(f"| `{scenario.name}` | {', '.join(texts)} |")
    return "\n".join(lines)


def argument_table(scenarios: Sequence[Scenario], packages: Mapping[str, Package]) -> str:
    """Return a Markdown table of all scenarios' arguments: choices, meaning."""
    jobs = {name: package.job for name, package in packages.items()}
    subs = {scenario.name: scenario for scenario in scenarios}
    rows: dict[str, tuple[str, str]] = {}
    for scenario in scenarios:
        choices = argument_choices(scenario, jobs, subs)
        for name, text in scenario.arguments.items():
            listed = " ".join(f"`{choice}`" for choice in choices.get(name, ()))
            rows.setdefault(name, (listed, text))
    lines = [f"| `{name}` | {listed} | {text} |" for name, (listed, text) in rows.items()]
    return "\n".join(["| argument | values | meaning |", "|---|---|---|", *lines])


def instructions(
    name: str,
    inventory: Inventory,
    scenarios: Sequence[Scenario],
    addresses: Mapping[str, str],
    packages: Mapping[str, Package],
) -> str:
    """Return the README of a package."""
    needed = {name: sorted(jobs) for name, jobs in jobs_by_entity(scenarios).items()}
    jobs = sorted({job for listed in needed.values() for job in listed})
    address = {host.entity: addresses.get(host.entity, "ADDRESS") for host in inventory.hosts}
    return INSTRUCTIONS.format(
        project=name,
        add_jobs="\n".join(f"python3 add_job.py {job} -t jobs-2.7/{job}.tar.gz" for job in jobs),
        left_out=_left_out(sorted(packages.keys() - set(jobs))),
        check_jobs="\n".join(
            f"python3 list_installed_jobs.py {address[entity_name]} --update   # {entity_name}:"
            f" {', '.join(listed)}"
            for entity_name, listed in needed.items()
        ),
        install_jobs="\n".join(
            f"python3 install_jobs.py -j {' '.join(listed)} -a {address[entity_name]}   #"
            f" {entity_name}"
            for entity_name, listed in needed.items()
        ),
        attach="\n".join(
            f"python3 modify_entity.py {host.entity} {name} -a {address[host.entity]}"
            for host in inventory.hosts
        ),
        vpns=vpn_list(entries_of(packages)["vpn-configs"]),
        values=value_table(scenarios),
        arguments=argument_table(scenarios, packages),
        stop_all=f"python3 stop_all_job_instances.py {' '.join(address[name] for name in needed)} "
        + " ".join(f"-j {job}" for job in jobs),
        scenarios="\n".join(
            f"- `{scenario.name}`: {scenario.description}" for scenario in scenarios
        ),
    )
