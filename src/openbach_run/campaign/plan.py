# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario and values become a campaign whose cells are checked.

reading.py reads the sweep, model.py expands it, checks.py checks what came of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from openbach_run.campaign.checks import check_campaign
from openbach_run.campaign.model import Campaign, Seeds, Sweep, expanded
from openbach_run.campaign.reading import read_with_subs, sweep_of
from openbach_run.campaign.settings import parse_settings
from openbach_run.campaign.vpn_config import CONFIG
from openbach_run.campaign.vpn_values import read_configs
from openbach_run.openbach.job_folders import Package


def plan(
    path: Path, settings: Sequence[str], seeds: Seeds, packages: Mapping[str, Package]
) -> Campaign:
    """Return the campaign of a scenario file with `NAME=VALUE[,VALUE…]` settings.

    Raises InputError.
    """
    scenario, subs = read_with_subs(path, packages)
    values = parse_settings(settings)
    return campaign_of(sweep_of(path, scenario, subs, values, seeds, packages))


def campaign_of(sweep: Sweep) -> Campaign:
    """Return the checked campaign of a sweep, with the VPN files it names. Raises InputError."""
    campaign = expanded(sweep)
    # Most campaigns name none, and may have a hundred thousand cells.
    if any(f"{CONFIG}=" in text for text in chain(*sweep.values.values())):
        vpns = sweep.entries["vpn-configs"]
        configs = read_configs(campaign.vpn_places, campaign.cells, vpns)
        campaign = replace(campaign, vpn_configs=configs)
    check_campaign(campaign)
    return campaign
