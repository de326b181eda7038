# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the scenario geo_loss, planned for an engine."""

from __future__ import annotations

from openbach_run.campaign.execute import PlannedRun
from openbach_run.campaign.reading import plan
from openbach_run.campaign.spec import runs_of
from openbach_run.engine.contract import Engine
from openbach_run.openbach.job_folders import load_packages
from openbach_run.paths import REPOSITORY
from openbach_run.topology.inventory import load_inventory

PACKAGES = load_packages([REPOSITORY / "jobs"])


def planned(engine: Engine, *settings: str, seeds: tuple[int, ...] = (1,)) -> list[PlannedRun]:
    """Return the runs of geo_loss with CUBIC's rival BBR and these settings."""
    campaign = plan(REPOSITORY / "scenarios/geo_loss.json", ["cc=bbr", *settings], seeds, PACKAGES)
    runs = runs_of(campaign, load_inventory(REPOSITORY / "inventory.yml"), engine.identity_of)
    return [PlannedRun(spec, engine, "geo_loss", campaign.measures) for spec in runs]
