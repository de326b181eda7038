# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run package`: writes what an OpenBACH administrator imports (openbach/project.py)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from openbach_run.catalog import Catalog
from openbach_run.commands.arguments import add_with, command_parser
from openbach_run.errors import InputError
from openbach_run.openbach.addresses import with_addresses
from openbach_run.openbach.job_folders import Package, faults, load_packages
from openbach_run.openbach.project import (
    begin,
    check_project_name,
    instructions,
    load_scenarios,
    packed,
    project,
    write_json,
)
from openbach_run.openbach.scenario import Scenario, jobs_by_entity
from openbach_run.paths import INVENTORY, PROJECT, REPOSITORY
from openbach_run.topology.hosts import Inventory
from openbach_run.topology.inventory import agent_addresses, load_inventory

DESCRIPTION = """\
Makes a folder with what an OpenBACH administrator imports: the project with its entities
and scenarios, and the jobs as packages for OpenBACH 2.7 and for 2.6 and before. Its
README.md says what to do with each, with the names and addresses of inventory.yml.
With --install HOST it does all of that itself, step by step, on a platform with agents.
"""
EPILOG = """\
exit codes: 0 all well, 1 something is missing on the platform (each is named), 2 bad input.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = command_parser("package", DESCRIPTION, EPILOG)
    made.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("openbach-package"),
        metavar="DIR",
        help=(
            "where to write; what is there of an earlier time is replaced (default"
            " openbach-package)"
        ),
    )
    made.add_argument(
        "--project",
        default=PROJECT,
        metavar="NAME",
        help=f"name of the project (default {PROJECT})",
    )
    made.add_argument(
        "--inventory",
        type=Path,
        default=INVENTORY,
        metavar="FILE",
        help=(
            "the platform's hosts and networks; the scenarios get its addresses (default"
            " inventory.yml)"
        ),
    )
    add_with(made, "a directory of yours whose jobs are packed as well (docs/jobs.md)")
    made.add_argument(
        "--install",
        metavar="HOST",
        help=(
            "do it on this controller: HOST, HOST:PORT or a URL; login and password are in the file"
            " 'controller' of this directory, or asked for"
        ),
    )
    made.add_argument("--check", action="store_true", help="with --install: only say what lacks")
    made.add_argument(
        "--again",
        action="store_true",
        help="with --install: add and install the jobs once more (other files, same version)",
    )
    return made


def main(argv: list[str]) -> int:
    """Write the package; return the exit code. Raises InputError."""
    arguments = parser().parse_args(argv)
    check_project_name(arguments.project)
    catalog = Catalog.beside_ours(arguments.with_dirs)
    packages = load_packages(catalog.jobs, catalog)
    # A job that is malformed here would be refused by the administrator's platform.
    for fault in faults(packages):
        raise InputError(fault)
    inventory = load_inventory(arguments.inventory)
    scenarios = [
        with_addresses(one, inventory)
        for one in load_scenarios(REPOSITORY / "scenarios", packages, arguments.inventory)
    ]
    if arguments.check and arguments.install is None:
        raise InputError("--check looks at a platform: --install HOST names it")
    if arguments.install is not None:
        return _install(arguments, catalog, packages, inventory, scenarios)
    output: Path = arguments.output
    begin(output)
    write_json(output / "project.json", project(arguments.project, inventory, scenarios))
    for scenario in scenarios:
        write_json(output / f"scenarios/{scenario.name}.json", scenario.as_stored())
    for name, package in packages.items():
        (output / f"jobs-2.7/{name}.tar.gz").write_bytes(packed(package, catalog, "2.7"))
        try:
            (output / f"jobs-2.6/{name}.tar.gz").write_bytes(packed(package, catalog, "2.6"))
        except InputError as error:
            # A job of the user's may be made for 2.7 alone; the package of 2.7 is whole.
            print(f"not in jobs-2.6: {error}", file=sys.stderr)
    addresses = agent_addresses(arguments.inventory)
    (output / "README.md").write_text(
        instructions(arguments.project, inventory, scenarios, addresses, packages)
    )
    print(
        f"{output}: {len(packages)} jobs, {len(scenarios)} scenarios, {len(inventory.hosts)}"
        " entities"
    )
    print(f"what to do with them is in {output / 'README.md'}", file=sys.stderr)
    return 0


def _install(
    arguments: argparse.Namespace,
    catalog: Catalog,
    packages: Mapping[str, Package],
    inventory: Inventory,
    scenarios: Sequence[Scenario],
) -> int:
    """Install everything on a controller; return the exit code."""
    # Late, as it imports requests.
    from openbach_run.engine.platform.install import STEP_LIMIT_S, Content, Installation
    from openbach_run.engine.platform.rest import CONTROLLER_FILE, Controller, read_access

    needed = jobs_by_entity(scenarios)
    jobs = set().union(*needed.values())
    content = Content(
        project(arguments.project, inventory, scenarios),
        {name: packages[name].job for name in jobs},
        lambda name, form: packed(packages[name], catalog, form),
        needed,
        agent_addresses(arguments.inventory),
    )
    access = read_access(arguments.install, Path(CONTROLLER_FILE))
    controller = Controller(access, STEP_LIMIT_S)
    missing = Installation(controller, content, print, again=arguments.again).run(
        check=arguments.check
    )
    for text in missing:
        print(f"openbach-run: missing: {text}", file=sys.stderr)
    return 1 if missing else 0
