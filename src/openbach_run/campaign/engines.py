# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine and the inventory of a campaign, as the options choose them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from openbach_run.campaign import noise
from openbach_run.campaign.ip_versions import IP
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.options import Options
from openbach_run.campaign.request import Plan
from openbach_run.catalog import Catalog, Uses, joined
from openbach_run.engine.contract import Engine
from openbach_run.engine.local import guest_code
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.errors import InputError
from openbach_run.openbach.addresses import inventory_file, unknown_entities
from openbach_run.openbach.job_folders import Package, check_installed, parts_of
from openbach_run.paths import REPOSITORY
from openbach_run.progress import Progress
from openbach_run.topology.hosts import Inventory
from openbach_run.topology.inventory import load_inventory
from openbach_run.topology.networks import check_platform_mtus

if TYPE_CHECKING:
    from openbach_run.engine.platform.rest import Controller


def controller_of(options: Options) -> Controller | None:
    """Return the platform that executes the runs; None if no platform does. Raises InputError."""
    if options.engine != "controller":
        return None
    # Late, as it imports requests.
    from openbach_run.engine.platform.rest import CONTROLLER_FILE, Controller, read_access

    return Controller(read_access(options.controller, Path(CONTROLLER_FILE)))


def engine_of(
    campaign: Campaign, plan: Plan, options: Options, controller: Controller | None
) -> Engine:
    """Return the engine that the options choose, for the jobs and folders that a campaign uses."""
    runs = next((config for config in campaign.vpn_configs.values() if config.commands), None)
    if runs is not None and options.engine != "virtual":
        raise InputError(
            f"{runs.file}: its commands run in a guest only: leave vpn.commands out, or take the"
            " virtual engine"
        )
    if controller is not None:
        check_platform_mtus(campaign.values)
        if campaign.has_ipv6:
            raise InputError(
                f"{IP}={','.join(campaign.values[IP])}: a platform's hosts have the addresses of"
                f" its interfaces; give them in its inventory, and leave {IP}=4"
            )
        # Late, like the others below: each imports what the other engines have no use for.
        from openbach_run.campaign.needs import check_platform

        if plan.collected is None:  # what has ended there was possible there
            check_platform(campaign)
        from openbach_run.engine.platform.engine import ControllerEngine

        scenarios = [campaign.scenario, *campaign.sub_scenarios.values()]
        return ControllerEngine(controller, options.project, scenarios, collected=plan.collected)
    uses = joined(campaign.uses)
    parts = parts_of(uses, plan.packages, plan.catalog)
    if options.engine == "native":
        from openbach_run.engine.native.engine import NativeEngine

        return NativeEngine(REPOSITORY, guest_code(REPOSITORY, parts), locked=options.locked)
    # The native engine's agent has what this machine has; what a guest cannot have is refused here.
    check_installed(uses["jobs"], plan.packages)
    return VirtualEngine(
        REPOSITORY,
        guest_code(REPOSITORY, parts),
        pcap=options.pcap,
        keys=options.keys,
        clock=options.clock,
        locked=options.locked,
    )


def prepared_engine(
    uses: Uses, packages: Mapping[str, Package], catalog: Catalog, progress: Progress
) -> VirtualEngine:
    """Return a prepared virtual engine of this machine for runs that use these additions."""
    parts = parts_of(uses, packages, catalog)
    engine = VirtualEngine(REPOSITORY, guest_code(REPOSITORY, parts))
    engine.prepare(progress)
    return engine


def inventory_of(campaign: Campaign, catalog: Catalog, options: Options) -> Inventory:
    """Return the inventory that the campaign runs on.

    Raises InputError for entities that it does not have; a platform has its own entities, and says
    itself which are missing.
    """
    path = options.inventory
    if path is not None and not path.exists():
        # A name is looked up only where no file is called so: a file of the user's wins.
        path = catalog.find("topologies", str(path)) or path
    noise.check_engine(campaign.values.get(noise.NOISE, ()), options)
    file = inventory_file(campaign.scenario, campaign.path, path)
    inventory = load_inventory(file)
    if options.engine != "controller":
        for scenario in (campaign.scenario, *campaign.sub_scenarios.values()):
            for finding in unknown_entities(scenario, inventory):
                raise InputError(f"{campaign.path}: {scenario.name}: {finding} ({file})")
    return inventory
