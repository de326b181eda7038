# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans: campaigns read from a name or file, values and seeds, and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openbach_jobs.link_file import near
from openbach_run.campaign.file import plan_file
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.notes import notes_of
from openbach_run.campaign.options import Options
from openbach_run.campaign.reading import plan
from openbach_run.catalog import Catalog
from openbach_run.errors import InputError, NoSuchScenario
from openbach_run.openbach.job_folders import Package, faults, left_out, load_packages
from openbach_run.openbach.lint import lint
from openbach_run.openbach.refusals import Malformed
from openbach_run.openbach.source import SUFFIXES, file_of, is_source
from openbach_run.results.seeds import FIRST_SEEDS, parse_seeds


@dataclass(frozen=True)
class Plan:
    """The campaigns that `run_campaign` runs, with the jobs and folders that they may use."""

    path: Path
    """The file of the scenario or campaign."""
    settings: tuple[str, ...]
    """The values as they were given: NAME=VALUE[,VALUE…]."""
    seeds: str | None
    """The seeds as they were given: `5`, `3,7`."""
    campaigns: tuple[Campaign, ...]
    packages: Mapping[str, Package]
    catalog: Catalog
    collected: Mapping[Any, int] | None = None
    """The platform's instances that are the runs, by run_key(); None: runs are executed."""

    @property
    def name(self) -> str:
        """Return the name of the results directory where none is given."""
        is_file_of_several = _is_campaign_file(self.path)
        return self.path.stem if is_file_of_several else self.campaigns[0].scenario.name

    def warnings(self, engine: str) -> Iterator[str]:
        """Yield the warnings and notes on jobs and scenarios, each for a line of its own."""
        for fault in faults(self.packages):
            yield f"openbach-run: warning: {fault}"
        for campaign in self.campaigns:
            for config in campaign.vpn_configs.values():
                yield f"{campaign.path}: note: {config.in_words()}"
            for scenario in (campaign.scenario, *campaign.sub_scenarios.values()):
                for finding in lint(scenario, campaign.jobs):
                    yield f"{campaign.path}: warning: {scenario.name}: {finding}"
            for text in notes_of(campaign):
                yield f"{campaign.path}: note: {text}"
            if engine == "virtual":
                for note in left_out(campaign.job_names, self.packages):
                    yield f"openbach-run: note: {note}"


def plan_of(scenario: str, settings: Sequence[str], seeds: str | None, options: Options) -> Plan:
    """Return the plan of a scenario or campaign: a file, or a name in scenarios/ or campaigns/.

    `settings` are NAME=VALUE[,VALUE…]; `seeds` is how many (`5`) or which ones (`3,7`, `7,`).
    Raises InputError.
    """
    catalog, packages = installed(options)
    path = path_of(scenario, catalog)
    campaigns = campaigns_of(path, settings, seeds, packages, catalog, options.in_real_time)
    return Plan(path, tuple(settings), seeds, tuple(campaigns), packages, catalog)


def installed(options: Options) -> tuple[Catalog, dict[str, Package]]:
    """Return the folders and the jobs that scenarios may use, with those of the user."""
    catalog = Catalog.beside_ours(options.additions)
    return catalog, load_packages([*options.jobs, *catalog.jobs], catalog)


def path_of(text: str, catalog: Catalog) -> Path:
    """Return the path of a scenario or campaign.

    `text` is a file here, one of ours (as records name it), or a name in scenarios/, campaigns/ or
    topologies/. Raises NoSuchScenario if a bare name is none of these.
    """
    path = file_of(Path(text))
    is_name = path.is_dir() and path.name == text and text in named(catalog)
    if path.exists() and not is_name:
        return path
    # Records name our files from the checkout, wherever the command is typed.
    if path.name != text or path.suffix:
        return _file_of_ours(path) or path
    names = named(catalog)
    if text not in names:
        raise NoSuchScenario(
            f"{text}: no such scenario or campaign; {near(text, names)}there are"
            f" {', '.join(sorted(names))}"
        )
    return names[text]


def named(catalog: Catalog) -> dict[str, Path]:
    """Return name → file of all scenarios and campaigns, with the scenarios of the topologies."""
    beside = (file.with_suffix(".json") for file in catalog.all("topologies").values())
    topologies = {file.stem: file for file in beside if file.exists()}
    return {**topologies, **catalog.all("campaigns"), **catalog.all("scenarios")}


def ours(text: str) -> str:
    """Return the path of the scenario or campaign of ours that a record names, else the text.

    A file of that name where the command is typed is another one: of another checkout, say.
    """
    if file := _file_of_ours(Path(text)):
        return str(file)
    names = named(Catalog())
    return str(names[text]) if text in names else text


def _file_of_ours(path: Path) -> Path | None:
    """Return the file at a path from the checkout or from its library; None if there is none.

    Records of version 1.0 name `campaigns/full.yml`, which is in the library now.
    """
    files = (file_of(shelf / path) for shelf in Catalog().shelves)
    return next((file for file in files if file.is_file()), None)


def campaigns_of(
    path: Path,
    settings: Sequence[str],
    seeds: str | None,
    packages: Mapping[str, Package],
    catalog: Catalog,
    in_real_time: bool = False,
) -> list[Campaign]:
    """Return the campaigns of a campaign file, or the one campaign of a scenario.

    Raises InputError.
    """
    chosen = None if seeds is None else parse_seeds(seeds)
    if _is_campaign_file(path):
        return plan_file(path, settings, chosen, packages, catalog)
    # A run in real time takes long: one seed, unless more are asked for.
    if in_real_time and chosen is None:
        chosen = FIRST_SEEDS
    try:
        return [plan(path, settings, chosen, packages)]
    except Malformed as error:
        raise InputError(f"{path}: {error}") from error


def _is_campaign_file(path: Path) -> bool:
    """Return whether a file names several scenarios, rather than being one."""
    return path.suffix in SUFFIXES and not is_source(path)
