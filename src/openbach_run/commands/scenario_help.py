# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of a scenario, for a person: `openbach-run geo --help`, and what TAB completes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill, indent

from openbach_run.campaign.ip_versions import IP
from openbach_run.campaign.options import Options
from openbach_run.campaign.reading import GENERAL, read_with_subs, settable, sweep_table
from openbach_run.campaign.request import installed, path_of
from openbach_run.catalog import Catalog
from openbach_run.commands.listing import text_of
from openbach_run.openbach.job_folders import Package
from openbach_run.openbach.limits import in_words
from openbach_run.openbach.scenario import defaults_of
from openbach_run.openbach.source import SUFFIXES, is_source
from openbach_run.openbach.titles import Title, titles_of, titles_of_ours
from openbach_run.openbach.uses import argument_choices, uses
from openbach_run.openbach.value_checks import ending
from openbach_run.openbach.values import sole_placeholder

FEW = 8
"""Choices that are listed in a help text; of more the first ones are."""
WIDTH, MARGIN = 100, 6 * " "


@dataclass(frozen=True)
class Setting:
    """An argument or constant of a scenario."""

    name: str
    text: str
    default: tuple[str, ...]
    """Values where none is given: several are swept; () where one has to be given."""
    choices: tuple[str, ...]
    takes: str
    """Values that its job takes, in words, if that is no list of choices."""
    is_argument: bool
    title: Title
    """Title and unit of it in tables and reports, as far as a scenario declares them."""


def settings_of(path: Path, catalog: Catalog, packages: dict[str, Package]) -> list[Setting]:
    """Return the settings of a scenario's file, its arguments first. Raises InputError."""
    scenario, subs = read_with_subs(path, packages)
    jobs = {name: package.job for name, package in packages.items()}
    titles = {**titles_of_ours(), **titles_of(path)}
    whole = {**GENERAL, IP: "4"} | defaults_of((*subs.values(), scenario))
    whole |= sweep_table(scenario, path, "defaults")
    defaults: dict[str, tuple[str, ...]] = {name: (str(value),) for name, value in whole.items()}
    for name, values in sweep_table(scenario, path, "values").items():
        defaults[name] = tuple(map(str, values))
    values = {name: first for name, (first, *_) in defaults.items()}
    choices: dict[str, tuple[str, ...]] = dict(argument_choices(scenario, jobs, subs))
    takes: dict[str, str] = {}
    for use in uses(scenario, jobs, subs):
        if (own := sole_placeholder(use.template)) is None:
            continue
        limits = use.argument.limits
        if kind := limits.get("folder"):
            names = (*choices.get(own, ()), *map(str, limits.get("also", ())), *catalog.all(kind))
            choices[own] = tuple(dict.fromkeys(names))
        elif own not in choices and limits.keys() & {"minimum", "maximum", "pattern"}:
            argument = use.argument if use.is_stopped else ending(use, values)
            takes.setdefault(own, in_words(argument))
    settings = [
        Setting(
            name,
            text,
            defaults.get(name, ()),
            choices.get(name, ()),
            takes.get(name, ""),
            name in scenario.arguments,
            titles.get(name, Title()),
        )
        for name, text in settable(scenario, subs).items()
    ]
    return sorted(settings, key=lambda setting: not setting.is_argument)


def help_of(scenario: str, options: Options) -> Iterator[str]:
    """Yield the lines of the help of a scenario or campaign. Raises InputError."""
    catalog, packages = installed(options)
    path = path_of(scenario, catalog)
    yield f"usage: openbach-run {scenario} [NAME=VALUE[,VALUE…] …] [--seeds N] [option …]"
    yield ""
    yield fill(text_of(path), WIDTH)
    yield ""
    if path.suffix in SUFFIXES and not is_source(path):
        yield f"A campaign: openbach-run {scenario} --dry-run says how many runs it has."
    else:
        every = settings_of(path, catalog, packages)
        for title, of_arguments in (("arguments", True), ("other values", False)):
            yield f"{title}, with their defaults (several values are swept):"
            for setting in every:
                if setting.is_argument is of_arguments:
                    yield from _lines(setting)
            yield ""
    yield "The options of all scenarios: openbach-run --help"


def _lines(setting: Setting) -> Iterator[str]:
    """Yield the lines of a setting."""
    title = ", ".join(filter(None, setting.title))
    text = f"{setting.text} [{title}]" if title else setting.text
    yield f"  {setting.name}={','.join(setting.default) or '… (has to be given)'}"
    yield indent(fill(text, WIDTH - len(MARGIN)), MARGIN)
    takes = _listed(setting.choices) if setting.choices else setting.takes
    if takes:
        yield indent(fill(f"takes {takes}", WIDTH - len(MARGIN)), MARGIN)


def _listed(choices: Sequence[str]) -> str:
    """Return choices for a person; of many only the first ones."""
    more = (
        f", … ({len(choices)}; TAB has all: openbach-run completion)" if len(choices) > FEW else ""
    )
    return ", ".join(choices[:FEW]) + more
