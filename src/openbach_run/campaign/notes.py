# SPDX-License-Identifier: GPL-3.0-or-later
"""Notes on values that the jobs take: what to know of them, and which have no effect."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from openbach_run.campaign.checks import first_of_each, own_values
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.platforms import notes as notes_on_platform
from openbach_run.campaign.reading import sweep_table
from openbach_run.catalog import STREAMS, with_base
from openbach_run.link_checks import remarks
from openbach_run.openbach.scenario import SAME
from openbach_run.openbach.uses import Use, every_use
from openbach_run.openbach.value_checks import idle, idle_here, names_asked, notes
from openbach_run.openbach.values import sole_placeholder

FRACTIONS = ("%", "ms", "s", "BDP")
"""Units in which people write fractions, perhaps with a decimal comma."""

ALIKE = ["0", "plain", "satellite"]
"""Delay beyond the POP, profile of the PEP and place of the loss where a split is none."""


def notes_of(campaign: Campaign) -> list[str]:
    """Return notes for the user on values that the jobs take, each note once.

    Some are on values that have no effect beside others.
    """
    noted = [use for use in campaign.places if "noted" in use.argument.limits]
    cells = first_of_each(campaign.cells, [use.names for use in noted])
    texts = [*_decimal_commas(campaign)]
    texts += notes_on_platform(campaign.cells, campaign.platforms)
    for cell in cells:
        texts += notes(noted, own_values(campaign, cell))
    for cell in campaign.cells:
        texts += remarks(cell, campaign.presets)
    for cell in campaign.cells if "pep" in campaign.given else ():
        texts.append(_same_pep(cell, {*_carriers(cell, campaign).values()}))
    return list(filter(None, dict.fromkeys([*texts, *_idle_values(campaign)])))


def _same_pep(cell: Mapping[str, str], carriers: set[str]) -> str:
    """Return a note on a proxy that splits off a path without delay, loss or other control.

    One that sees only a tunnel's packets splits nothing: the scenario says that (`x-idle`).
    """
    positions = ("A", "B") if carriers <= {*STREAMS} else ("B",)
    as_hosts = all(cell.get(f"{name}_pep") in (SAME, cell.get(name)) for name in ("cc", "initcwnd"))
    here = {name: cell.get(name) for name in ("terrestrial_ms", "pep_profile", "loss_at")}
    if cell.get("pep") not in positions or not as_hosts or [*here.values()] != ALIKE:
        return ""
    return (
        f"pep={cell['pep']} changes little here: it sends as the hosts do (cc_pep=same), and the"
        " server is 0 ms away (terrestrial_ms=0)"
    )


def _decimal_commas(campaign: Campaign) -> Iterator[str]:
    """Yield a text for each argument whose two values may be one that has a decimal comma."""
    usual = sweep_table(campaign.scenario, campaign.path, "values")
    for use in campaign.places:
        name = sole_placeholder(use.template) or ""
        values = campaign.values.get(name, ()) if name in campaign.given - campaign.of_file else ()
        may_be_one = re.fullmatch("[0-9],[0-9]+", ",".join(values))
        is_fraction = use.argument.limits.get("unit") in FRACTIONS
        if may_be_one and is_fraction and not {*values} <= {*map(str, usual.get(name, ()))}:
            yield f"{name}={','.join(values)} is two values; one value is {'.'.join(values)}"


def _idle_values(campaign: Campaign) -> Iterator[str]:
    """Yield a text for each value without effect in a cell that is not the scenario's own."""
    own = {**campaign.constants, **sweep_table(campaign.scenario, campaign.path, "defaults")}
    declared: dict[str, Any] = {}
    for scenario in campaign.scenarios:
        declared |= scenario.idle
    groups = [
        *(use.names for use in campaign.places),
        *({name, *names_asked(conditions)} for name, conditions in declared.items()),
    ]
    places: dict[tuple[str, ...], list[Use]] = {}
    for cell in first_of_each(campaign.cells, groups):
        # Which uses there are depends only on which names keep the value `same`: find them once for
        # each such set.
        key = tuple(name for name, value in own.items() if value == SAME and cell.get(name) == SAME)
        if key not in places:
            subs = {name: sub.with_constants(cell) for name, sub in campaign.sub_scenarios.items()}
            places[key] = every_use(campaign.scenario.with_constants(cell), campaign.jobs, subs)
        carriers = _carriers(cell, campaign)
        for name in cell:
            # The scenario's or file's own value may be without effect: nobody has typed it.
            if name in campaign.given - campaign.of_file and cell[name] != own.get(name, ""):
                reason = idle_here(declared.get(name, ()), name, cell, carriers)
                if because := reason or idle(places[key], name, cell):
                    yield f"{name}={cell[name]} has no effect{because}"


def _carriers(cell: Mapping[str, str], campaign: Campaign) -> dict[str, str]:
    """Return the carrier of each VPN that a cell names, for conditions.

    The key is the name of the argument that names the VPN, and `_carrier`.
    """
    vpns = campaign.entries["vpn-configs"]
    carriers = {}
    for use in campaign.places:
        name = sole_placeholder(use.template)
        if (
            use.argument.limits.get("folder") == "vpn-configs"
            and name
            and (folder := vpns.get(cell.get(name, "")))
        ):
            carriers[f"{name}_carrier"] = str(with_base(folder, vpns).get("carrier", ""))
    return carriers
