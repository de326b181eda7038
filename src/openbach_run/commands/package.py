# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run package`: writes what an OpenBACH administrator imports (openbach/project.py)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from openbach_run.catalog import Catalog
from openbach_run.commands.arguments import add_with, command_parser
from openbach_run.errors import InputError
from openbach_run.openbach.addresses import with_addresses
from openbach_run.openbach.job_folders import faults, load_packages
from openbach_run.openbach.playbooks import playbooks
from openbach_run.openbach.project import (
    begin,
    check_project_name,
    for_2_6,
    instructions,
    load_scenarios,
    pack,
    project,
    write_json,
)
from openbach_run.paths import INVENTORY, PROJECT, REPOSITORY
from openbach_run.topology.inventory import agent_addresses, load_inventory

DESCRIPTION = """\
Makes a folder with what an OpenBACH administrator imports: the project with its entities
and scenarios, and the jobs as packages for OpenBACH 2.7 and for 2.6 and before. Its
README.md says what to do with each, with the names and addresses of inventory.yml.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = command_parser("package", DESCRIPTION)
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
    output: Path = arguments.output
    begin(output)
    write_json(output / "project.json", project(arguments.project, inventory, scenarios))
    for scenario in scenarios:
        write_json(output / f"scenarios/{scenario.name}.json", scenario.as_stored())
    for name, package in packages.items():
        assert package.files is not None
        made = playbooks(package)
        (output / f"jobs-2.7/{name}.tar.gz").write_bytes(pack(package, catalog, made))
        try:
            old = {f"files/{name}.yml": for_2_6(package.files / f"{name}.yml")}
        except InputError as error:
            # A job of the user's may be made for 2.7 alone; the package of 2.7 is whole.
            print(f"not in jobs-2.6: {error}", file=sys.stderr)
        else:
            (output / f"jobs-2.6/{name}.tar.gz").write_bytes(pack(package, catalog, made | old))
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
