# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that a job would refuse, found before anything starts.

A job declares in its YAML what an argument takes beyond OpenBACH's type, under the key `limits`
(OpenBACH ignores it):

    minimum, maximum    bounds, both included; of a str argument as numbers with a decimal suffix
                        (`64k`, `1G`)
    unit                of the number, for people; numbers of `bytes` are whole
    pattern             regular expression that the whole text has to match
    like                examples of such texts, for people
    also                values beside these, e.g. [none]
    refused             what it does not take together with other arguments' values: a list of {if:
                        CONDITION (rules.py),
                        because: what would be right}
    noted               what it takes, and the user should know of: a list of the same shape
    idle                with which other values it has no effect: a list of the same shape. It is
                        noted if that holds wherever
                        the scenario gives the value to a job
    endless             with which other values the job goes on until it is stopped: a list of the
                        same shape. Such a value
                        is refused where no function of the scenario stops the job
    needs               what its host's kernel has to have for it: {FEATURE: CONDITION}, features as
                        engine/native/boundary.py
                        calls them
    folder              values are the names of folders of this kind (catalog.py), beside the
                        choices
    mentions            words of the text may be names of folders of this kind, which the run gets
                        then (`cc=bbr2,mss=1300`)
    values_of           the text is NAME=VALUE;NAME=VALUE of the VPN that this argument names, which
                        has to read each of them

`choices` is OpenBACH's own key; its backend stores them and never checks them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from string import Template
from typing import Any

from openbach_run.catalog import KINDS, Catalog, Uses
from openbach_run.errors import InputError
from openbach_run.openbach import rules
from openbach_run.openbach.job import INSTANCE_TYPES, Argument, Job, convert
from openbach_run.openbach.refusals import near
from openbach_run.openbach.scenario import SAME, Scenario
from openbach_run.openbach.start import names_in
from openbach_run.openbach.values import job_values, jobs_started, placeholders, sole_placeholder
from openbach_run.units import MULTIPLIERS, number

RANGE = ("minimum", "maximum", "pattern")
NAMING = ("folder", "mentions")
"""Keys with a kind of folders that values name."""
IDLE = "idle"
ENDLESS = "endless"
TOGETHER = ("refused", "noted", IDLE, ENDLESS)
NEEDS = "needs"
VALUES_OF = "values_of"
KEYS = (*RANGE, "unit", "also", *NAMING, "like", *TOGETHER, NEEDS, VALUES_OF)
WITHIN = " > "
"""Between the places of a function and of what is in the sub-scenario that it starts."""
WEEK_S = 7 * 24 * 3600
TIMES = [
    Argument(name, "float", "1", "", (), False, "", {"minimum": 0, "maximum": WEEK_S, "unit": "s"})
    for name in (
        "wait.time",
        "on_fail.delay",
        "start_job_instance.offset",
        "start_job_instance.interval",
    )
]
"""The times of a function, as if they were arguments of a job."""


@dataclass(frozen=True)
class Use:
    """A value in a scenario and what it is given to; `template` has placeholders of the scenario
    that is started.
    """

    place: str
    """JSON path; through sub-scenarios, `function > path in the sub-scenario`."""
    argument: Argument
    template: str
    beside: Mapping[str, str] = field(default_factory=dict)
    """Templates of the arguments, itself included, of the same start of the job that its conditions name."""
    is_stopped: bool = True
    """Whether a function of the scenario stops the job."""

    @cached_property
    def own_names(self) -> set[str]:
        """Return the names in the template."""
        return names_in(self.template)

    @cached_property
    def names(self) -> set[str]:
        """Return the names whose values decide whether its own is refused, and what is noted."""
        asked = asked_beside(self.argument) & self.beside.keys()
        return self.own_names.union(*(names_in(self.beside[name]) for name in asked))


@dataclass(frozen=True)
class Wrong:
    """A value that will be refused, and what would be right."""

    use: Use
    value: str
    right: str

    @property
    def name(self) -> str | None:
        """The scenario's argument (or constant) that has this value, if it is given alone."""
        return sole_placeholder(self.use.template)

    def __str__(self) -> str:
        if self.name is not None:
            return f"{self.name}={self.value}: {self.right}"
        here = "" if self.use.template == self.value else f" is {self.value!r} here"
        return f"{self.use.place}: {self.use.template!r}{here}: {self.right}"


def check(
    scenario: Scenario,
    values: Mapping[str, str],
    jobs: Mapping[str, Job],
    sub_scenarios: Mapping[str, Scenario] | None = None,
) -> list[Wrong]:
    """Return the values for which jobs would refuse a start of the scenario, in the scenario's
    order.

    Left out are values that need an argument without a value here, and values that are not of their
    type (start.check_values).
    """
    subs = sub_scenarios or {}
    constants = {
        name: value for one in (*subs.values(), scenario) for name, value in one.constants.items()
    }
    return wrong_values(uses(scenario, jobs, subs), {**constants, **values})


def wrong_values(uses: Sequence[Use], values: Mapping[str, str]) -> list[Wrong]:
    """Return the values that jobs would refuse, among uses that were found once for many starts."""
    found = []
    for use in uses:
        try:
            value = Template(use.template).substitute(values)
            convert(value, use.argument.type)
        except (KeyError, ValueError, TypeError, OverflowError):
            continue
        argument = use.argument if use.is_stopped else _ending(use, values)
        right = refusal(argument, value, sole_placeholder(use.template) or use.argument.name)
        if right := refusal_beside(use, values) or right:
            found.append(Wrong(use, value, right))
    return found


def refusal(argument: Argument, value: str, called: str) -> str:
    """Return what would be right in place of a value that the job refuses; "" if it takes the
    value.

    The value has no placeholders. `called` is the name by which the user knows the argument.
    """
    limits = argument.limits
    if argument.choices and value not in argument.choices:
        return f"{near(value, argument.choices)}{called} is one of {', '.join(argument.choices)}"
    if not limits.keys() & set(RANGE) or value in map(str, limits.get("also", ())):
        return ""
    if "pattern" in limits:
        return (
            "" if re.fullmatch(limits["pattern"], value) else f"{called} is {_in_words(argument)}"
        )
    given = number(value)
    also = [number(str(one)) for one in limits.get("also", ())] if argument.type != "str" else []
    fits = (
        given is not None
        and bound(limits.get("minimum", -math.inf))
        <= given
        <= bound(limits.get("maximum", math.inf))
        and (limits.get("unit") != "bytes" or given == int(given))
        and (argument.type == "str" or value[-1:] not in MULTIPLIERS)
    )
    return "" if fits or given in also else f"{called} is {_in_words(argument)}"


def refusal_beside(use: Use, values: Mapping[str, str]) -> str:
    """Why the job refuses a value together with those of its other arguments, which are named; ""
    if it does not.

    Also if it would never end with it.
    """
    return _reason(use, "refused", values) or (
        "" if use.is_stopped else _reason(use, ENDLESS, values)
    )


def _ending(use: Use, values: Mapping[str, str]) -> Argument:
    """The argument without the values beside its bounds with which the job would never end: no
    refusal suggests them.
    """
    also = use.argument.limits.get("also", [])
    others = {name: text for name, text in use.beside.items() if name != use.argument.name}
    ending = [
        one
        for one in also
        if not _reason(
            replace(use, beside={**others, use.argument.name: str(one)}), ENDLESS, values
        )
    ]
    return (
        use.argument
        if ending == also
        else use.argument._replace(limits={**use.argument.limits, "also": ending})
    )


def _reason(use: Use, key: str, values: Mapping[str, str]) -> str:
    """Why the first of the conditions holds that the argument has under one of TOGETHER, with the
    values it is about; "" if none does.
    """
    conditions = use.argument.limits.get(key)
    if not conditions:
        return ""
    given = given_beside(use, values)
    for one in conditions:
        if rules.holds(one["if"], given):
            named = sorted(rules.names(one["if"]) & given.keys() - {use.argument.name})
            texts = {
                sole_placeholder(use.beside[name]) or name: Template(use.beside[name]).substitute(
                    values
                )
                for name in named
            }
            others = ", ".join(f"{name}={text}" for name, text in texts.items())
            return f"{one['because']}{f' (with {others})' if others else ''}"
    return ""


def notes(uses: Sequence[Use], values: Mapping[str, str]) -> list[str]:
    """Return what the user should know of a start with these values."""
    found = []
    for use in uses:
        if because := _reason(use, "noted", values):
            named = sole_placeholder(use.template) or use.argument.name
            found.append(f"{named}={Template(use.template).substitute(values)}: {because}")
    return found


def idle(uses: Sequence[Use], name: str, values: Mapping[str, str]) -> str:
    """Return why a value has no effect, wherever the scenario gives it to; "" if it has one."""
    first = ""
    for use in uses:
        if name in use.own_names:
            reason = _reason(use, IDLE, values)
            if not reason:
                return ""
            first = first or reason
    return first


def idle_here(
    conditions: Sequence[Mapping[str, str]],
    name: str,
    cell: Mapping[str, str],
    carriers: Mapping[str, str],
) -> str:
    """Return why a value has no effect, as the scenario itself declares it (`x-idle`); "" if it has
    one.
    """
    given = _as_numbers({**cell, **carriers})
    for one in conditions:
        if rules.holds(one["if"], given):
            beside = ", ".join(
                f"{other}={cell[other]}"
                for other in sorted(rules.names(one["if"]) & cell.keys() - {name})
            )
            return f"{one['because']}{f' (with {beside})' if beside else ''}"
    return ""


def names_asked(conditions: Sequence[Mapping[str, str]]) -> set[str]:
    """Names in the conditions; `vpn_carrier` follows from vpn."""
    return {name.removesuffix("_carrier") for one in conditions for name in rules.names(one["if"])}


def needed(uses: Sequence[Use], values: Mapping[str, str]) -> dict[str, Use]:
    """Return the kernel features that these values need, each with the first use that needs it."""
    found: dict[str, Use] = {}
    for use in uses:
        for feature, condition in use.argument.limits.get(NEEDS, {}).items():
            if rules.holds(condition, given_beside(use, values)):
                found.setdefault(feature, use)
    return found


def asked_beside(argument: Argument) -> set[str]:
    """Names of the job's arguments in the conditions of this one."""
    conditions = [one["if"] for key in TOGETHER for one in argument.limits.get(key, ())]
    conditions += argument.limits.get(NEEDS, {}).values()
    named = [argument.limits[VALUES_OF]] if VALUES_OF in argument.limits else []
    return {*named, *(name for one in conditions for name in rules.names(one))}


def given_beside(use: Use, values: Mapping[str, str]) -> dict[str, float | str]:
    """The values that conditions are about, of those arguments that have one."""
    given: dict[str, str] = {}
    for name, template in use.beside.items():
        with suppress(KeyError, ValueError):
            given[name] = Template(template).substitute(values)
    return _as_numbers(given)


def _as_numbers(texts: Mapping[str, str]) -> dict[str, float | str]:
    """The values as conditions see them: a number where it is one."""
    return {
        name: text if (known := number(text)) is None else known for name, text in texts.items()
    }


def bound(text: Any) -> float:
    """A bound of `limits`. Raises ValueError for what is no number."""
    value = text if isinstance(text, float) else number(str(text))
    if value is None:
        raise ValueError(f"{text!r} is not a number, or one with k, M or G behind it")
    return value


def _in_words(argument: Argument) -> str:
    limits = argument.limits
    if "pattern" in limits:
        text = f"like {limits['like']}" if "like" in limits else f"a text like {limits['pattern']}"
        return ", or ".join([*map(str, limits.get("also", ())), text])
    unit = f" {limits['unit']}" if "unit" in limits else ""
    match limits.get("minimum"), limits.get("maximum"):
        case least, None:
            text = f"at least {least}{unit}"
        case None, most:
            text = f"at most {most}{unit}"
        case least, most:
            text = f"from {least} to {most}{unit}"
    has_suffix = any(
        str(limits.get(key, ""))[-1:] in (*MULTIPLIERS,) for key in ("minimum", "maximum")
    )
    suffixes = ", with k, M or G for thousands, millions, billions" if has_suffix else ""
    return ", or ".join([*map(str, limits.get("also", ())), text + suffixes])


# Where a scenario gives values to what has limits


def uses(
    scenario: Scenario, jobs: Mapping[str, Job], sub_scenarios: Mapping[str, Scenario]
) -> list[Use]:
    """Return every value that is given to an argument with choices or limits, once for each
    argument.

    Sub-scenarios are included; their constants stand in the templates by their names.
    """
    subs = {name: sub.spelled_out for name, sub in sub_scenarios.items()}
    found = every_use(scenario.spelled_out, jobs, subs)
    return [use for use in found if use.argument.choices or use.argument.limits]


def every_use(
    scenario: Scenario, jobs: Mapping[str, Job], sub_scenarios: Mapping[str, Scenario]
) -> list[Use]:
    """Return every value that is given to an argument, once for each.

    A value that follows another one stands there by the other one's name.
    """
    found: dict[tuple[Any, ...], Use] = {}
    for use in _uses(scenario, jobs, sub_scenarios, None, "", (scenario.name,)):
        found.setdefault((id(use.argument), use.template, use.is_stopped, *use.beside.items()), use)
    return list(found.values())


def _uses(
    scenario: Scenario,
    jobs: Mapping[str, Job],
    subs: Mapping[str, Scenario],
    given: Mapping[str, str] | None,
    at: str,
    path: tuple[str, ...],
    all_stopped: bool = False,
) -> Iterator[Use]:
    """`given` are the templates that a parent gives to this sub-scenario's arguments; it may stop
    all of it.
    """
    stopped = _stopped(scenario)
    for index, function in enumerate(scenario.functions):
        here = f"{at}openbach_functions.{index}"
        is_stopped = all_stopped or function["id"] in stopped
        for place, argument, value, beside in (*_times(function), *_job_values(function, jobs)):
            template = str(value) if given is None else _composed(str(value), given)
            if template is not None:
                others = {
                    name: _composed(text, given) if given is not None else text
                    for name, text in beside.items()
                }
                known = {name: text for name, text in others.items() if text is not None}
                yield Use(f"{here}.{place}", argument, template, known, is_stopped)
        start = function.get("start_scenario_instance", {})
        sub = subs.get(str(start.get("scenario_name", "")))
        if sub is not None and sub.name not in path and isinstance(start["arguments"], dict):
            texts = {name: str(text) for name, text in start["arguments"].items()}
            if given is not None:
                composed = {name: _composed(text, given) for name, text in texts.items()}
                texts = {name: text for name, text in composed.items() if text is not None}
            constants = {name: f"${name}" for name in sub.constants}
            yield from _uses(
                sub, jobs, subs, constants | texts, f"{here}{WITHIN}", (*path, sub.name), is_stopped
            )


def _stopped(scenario: Scenario) -> set[int]:
    """The functions that another one stops, which does not itself wait for their end."""
    found: set[int] = set()
    for function in scenario.functions:
        one = [
            function.get(kind, {}).get("openbach_function_id")
            for kind in ("stop_job_instance", "stop_scenario_instance")
        ]
        listed = function.get("stop_job_instances", {}).get("openbach_function_ids", [])
        numbers = {*(listed if isinstance(listed, list) else []), *one}
        found |= numbers - {*function.get("wait", {}).get("finished_ids", [])}
    return found


def _times(function: Mapping[str, Any]) -> Iterator[tuple[str, Argument, Any, dict[str, str]]]:
    for argument in TIMES:
        part, name = argument.name.split(".")
        if (value := function.get(part, {}).get(name)) is not None:
            yield argument.name, argument, value, {}


def _job_values(
    function: Mapping[str, Any], jobs: Mapping[str, Job]
) -> Iterator[tuple[str, Argument, Any, dict[str, str]]]:
    for job, arguments in jobs_started(function):
        given = [
            one
            for one in job_values(jobs[job].arguments, arguments)
            if one[0].type not in INSTANCE_TYPES
        ]
        for argument, value in given:
            asked = asked_beside(argument)
            beside = {other.name: str(text) for other, text in given if other.name in asked}
            yield f"start_job_instance.{job}.{argument.name}", argument, value, beside


def _composed(template: str, given: Mapping[str, str]) -> str | None:
    """The template with templates in place of its placeholders; None if one of them has none."""
    try:
        if any(name not in given for name in placeholders(template)):
            return None
    except ValueError:
        return None
    return Template.pattern.sub(
        lambda match: (
            given[match["named"] or match["braced"]] if match["escaped"] is None else "$$"
        ),
        template,
    )


def names_folders(argument: Argument) -> set[str]:
    """Return those of the argument's limits that let its values name folders."""
    return {*NAMING} & argument.limits.keys()


def folders_used(uses: Sequence[Use], values: Mapping[str, str], catalog: Catalog) -> Uses:
    """The folders and files that the values name, of uses that were found once for many starts."""
    found: dict[str, set[str]] = {}
    for use in uses:
        for key in names_folders(use.argument):
            try:
                value = Template(use.template).substitute(values)
            except (KeyError, ValueError):
                continue
            kind = use.argument.limits[key]
            for name in [value] if key == "folder" else re.findall(r"[\w.-]+", value):
                if catalog.find(kind, name):
                    found.setdefault(kind, set()).update(catalog.with_base(kind, name))
    return {kind: sorted(names) for kind, names in sorted(found.items())}


def argument_choices(
    scenario: Scenario, jobs: Mapping[str, Job], sub_scenarios: Mapping[str, Scenario] | None = None
) -> dict[str, tuple[str, ...]]:
    """Values that an argument or constant, those of sub-scenarios included, may have where it is
    given alone to a job's argument with choices; `same` too where it may follow another one.
    """
    subs = sub_scenarios or {}
    followers = [
        name
        for one in (scenario, *subs.values())
        for name, value in one.defaults.items()
        if value == SAME
    ]
    found: dict[str, tuple[str, ...]] = {}
    for use in uses(scenario, jobs, subs):
        if use.argument.choices and (name := sole_placeholder(use.template)) is not None:
            found[name] = tuple(
                one for one in found.get(name, use.argument.choices) if one in use.argument.choices
            )
    return {
        name: (SAME, *choices) if name in followers else choices for name, choices in found.items()
    }


# What a job declares


def check_declaration(at: str, limits: Mapping[str, Any]) -> None:
    """Raises InputError, with its place, for a `limits` that says nothing clear."""
    if unknown := limits.keys() - set(KEYS):
        raise InputError(f"{at}.{min(unknown)} is unknown; there are {', '.join(KEYS)}")
    if not {*RANGE, *NAMING, *TOGETHER, NEEDS} & limits.keys() or not isinstance(
        limits.get("also", []), list
    ):
        raise InputError(
            f"{at} should have one of {', '.join((*RANGE, *NAMING, NEEDS, *TOGETHER))}; also is a"
            " list"
        )
    for key in {*NAMING} & limits.keys():
        if limits[key] not in KINDS:
            raise InputError(
                f"{at}.{key} is {limits[key]!r}, and should be one of {', '.join(KINDS)}"
            )
    for key in TOGETHER:
        listed = limits.get(key, [])
        if not isinstance(listed, list) or not all(
            isinstance(one, dict) and {*one} == {"if", "because"} for one in listed
        ):
            raise InputError(f"{at}.{key} should be a list of {{if: CONDITION, because: TEXT}}")
    if not isinstance(needs := limits.get(NEEDS, {}), dict):
        raise InputError(f"{at}.needs should be a mapping of features of a kernel to a CONDITION")
    try:
        for condition in [
            *(one["if"] for key in TOGETHER for one in limits.get(key, [])),
            *needs.values(),
        ]:
            rules.check(str(condition))
        re.compile(str(limits.get("pattern", "")))
        bounds = [bound(limits[key]) for key in ("minimum", "maximum") if key in limits]
    except (ValueError, re.error) as error:
        raise InputError(f"{at}: {error}") from None
    if bounds != sorted(bounds):
        raise InputError(f"{at}: the minimum is above the maximum")
