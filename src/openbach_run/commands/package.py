# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run package`: writes what an OpenBACH administrator imports (openbach/project.py).

Makes a folder with what an OpenBACH administrator imports: the project with its entities
and scenarios, and the jobs as packages for OpenBACH 2.7 and for 2.6 and before. Its
README.md says what to do with each, with the names and addresses of inventory.yml.
With --install HOST it does all of that itself, step by step, on a platform with agents;
exit code 1: something is missing there (each is named).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from openbach_run.catalog import Catalog
from openbach_run.commands.arguments import add_with, command_parser
from openbach_run.errors import InputError
from openbach_run.openbach.addresses import with_addresses
from openbach_run.openbach.job_folders import faults, load_packages
from openbach_run.openbach.project import (
    begin,
    check_project_name,
    instructions,
    load_scenarios,
    packed,
    project,
    write_json,
)
from openbach_run.openbach.scenario import jobs_by_entity
from openbach_run.paths import INVENTORY, PROJECT, REPOSITORY
from openbach_run.topology.inventory import agent_addresses, load_inventory


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser("package", __doc__)
    cli.add_argument(
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
    cli.add_argument(
        "--project",
        default=PROJECT,
        metavar="NAME",
        help=f"name of the project (default {PROJECT})",
    )
    cli.add_argument(
        "--inventory",
        type=Path,
        default=INVENTORY,
        metavar="FILE",
        help=(
            "the platform's hosts and networks; the scenarios get its addresses (default"
            " inventory.yml)"
        ),
    )
    add_with(cli, "a directory of yours whose jobs are packed as well (docs/jobs.md)")
    host = "do it on this controller: HOST, HOST:PORT or a URL; the file 'controller' has the login"
    cli.add_argument("--install", metavar="HOST", help=host)
    cli.add_argument("--check", action="store_true", help="with --install: only say what lacks")
    again = "with --install: add and install the jobs once more (other files, same version)"
    cli.add_argument("--again", action="store_true", help=again)
    return cli


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
        with_addresses(scenario, inventory)
        for scenario in load_scenarios(REPOSITORY / "scenarios", packages, arguments.inventory)
    ]
    if arguments.check and arguments.install is None:
        raise InputError("--check looks at a platform: --install HOST names it")
    addresses = agent_addresses(arguments.inventory)
    if arguments.install is not None:
        # Late, as it imports requests.
        from openbach_run.engine.platform.install import STEP_LIMIT_S, Installation
        from openbach_run.engine.platform.rest import CONTROLLER_FILE, Controller, read_access

        access = read_access(arguments.install, Path(CONTROLLER_FILE))
        controller, needed = Controller(access, STEP_LIMIT_S), jobs_by_entity(scenarios)
        described = project(arguments.project, inventory, scenarios)
        what = described, packages, catalog, needed, addresses
        missing = Installation(controller, *what, arguments.again).run(print, arguments.check)
        for text in missing:
            print(f"openbach-run: missing: {text}", file=sys.stderr)
        return 1 if missing else 0
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
    (output / "README.md").write_text(
        instructions(arguments.project, inventory, scenarios, addresses, packages)
    )
    print(
        f"{output}: {len(packages)} jobs, {len(scenarios)} scenarios, {len(inventory.hosts)}"
        " entities"
    )
    print(f"what to do with them is in {output / 'README.md'}", file=sys.stderr)
    return 0
