# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of a scenario's values against what its jobs declare of their arguments (limits.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from string import Template

from openbach_run.openbach import rules
from openbach_run.openbach.job import Argument, Job, WrongType, convert
from openbach_run.openbach.limits import ENDLESS, IDLE, NEEDS, refusal
from openbach_run.openbach.scenario import Scenario
from openbach_run.openbach.uses import Use, uses
from openbach_run.openbach.values import sole_placeholder


@dataclass(frozen=True)
class Wrong:
    """A value that will be refused, and what would be right."""

    use: Use
    value: str
    right: str

    @property
    def name(self) -> str | None:
        """Return the scenario's argument (or constant) with this value, if it is given alone."""
        return sole_placeholder(self.use.template)

    def __str__(self) -> str:
        """Return what is wrong and what would be right, for a person."""
        if self.name is not None:
            return f"{self.name}={self.value}: {self.right}"
        shown = "" if self.use.template == self.value else f" is {self.value!r} here"
        return f"{self.use.place}: {self.use.template!r}{shown}: {self.right}"


def check(
    scenario: Scenario,
    values: Mapping[str, str],
    jobs: Mapping[str, Job],
    sub_scenarios: Mapping[str, Scenario] | None = None,
) -> list[Wrong]:
    """Return the values for which jobs would refuse a start of the scenario, in its order.

    Left out are values that need an argument without a value here, and values that are not of their
    type (start.check_values), unless that is a number with limits.
    """
    subs = sub_scenarios or {}
    # A scenario's own constants come after those of its sub-scenarios: they win.
    constants = {
        name: value for sub in (*subs.values(), scenario) for name, value in sub.constants.items()
    }
    return wrong_values(uses(scenario, jobs, subs), {**constants, **values})


def wrong_values(uses: Sequence[Use], values: Mapping[str, str]) -> list[Wrong]:
    """Return the values that jobs would refuse, among uses that were found once for many starts."""
    wrong = []
    for use in uses:
        try:
            value = Template(use.template).substitute(values)
            convert(value, use.argument.type)
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            # Limits say in words which numbers are right; the backend names Python's types.
            if not isinstance(error, WrongType) or use.argument.type not in ("int", "float"):
                continue
        # A proxy that nobody stops would keep the run from ending.
        argument = use.argument if use.is_stopped else ending(use, values)
        right = refusal(argument, value, sole_placeholder(use.template) or use.argument.name)
        if right := refusal_beside(use, values) or right:
            wrong.append(Wrong(use, value, right))
    return wrong


def refusal_beside(use: Use, values: Mapping[str, str]) -> str:
    """Return why the job refuses a value together with those of other arguments; "" if it does not.

    The others are named. It refuses a value, too, with which it would never end.
    """
    return _reason(use, "refused", values) or (
        "" if use.is_stopped else _reason(use, ENDLESS, values)
    )


def ending(use: Use, values: Mapping[str, str]) -> Argument:
    """Return the argument without values with which the job would never end.

    No refusal suggests them.
    """
    also = use.argument.limits.get("also", [])
    others = {name: text for name, text in use.beside.items() if name != use.argument.name}
    taken = [
        value
        for value in also
        if not _reason(
            replace(use, beside={**others, use.argument.name: str(value)}), ENDLESS, values
        )
    ]
    return (
        use.argument
        if taken == also
        else use.argument._replace(limits={**use.argument.limits, "also": taken})
    )


def _reason(use: Use, key: str, values: Mapping[str, str]) -> str:
    """Return why the first of an argument's conditions holds; "" if none does.

    `key` is one of TOGETHER. The values that the condition is about are named.
    """
    conditions = use.argument.limits.get(key)
    if not conditions:
        return ""
    numbers = given_beside(use, values)
    for rule in conditions:
        if rules.holds(rule["if"], numbers):
            named = sorted(rules.names(rule["if"]) & numbers.keys() - {use.argument.name})
            texts = {
                sole_placeholder(use.beside[name]) or name: Template(use.beside[name]).substitute(
                    values
                )
                for name in named
            }
            others = ", ".join(f"{name}={text}" for name, text in texts.items())
            return f"{rule['because']}{f' (with {others})' if others else ''}"
    return ""


def notes(uses: Sequence[Use], values: Mapping[str, str]) -> list[str]:
    """Return what the user should know of a start with these values."""
    texts = []
    for use in uses:
        if because := _reason(use, "noted", values):
            named = sole_placeholder(use.template) or use.argument.name
            texts.append(f"{named}={Template(use.template).substitute(values)}: {because}")
    return texts


def idle(uses: Sequence[Use], name: str, values: Mapping[str, str]) -> str:
    """Return why a value has no effect, wherever the scenario gives it to; "" if it has one.

    It begins with `: `.
    """
    first = ""
    for use in uses:
        if name in use.own_names:
            reason = _reason(use, IDLE, values)
            if not reason:
                return ""
            first = first or f": {reason}"
    return first


def idle_here(
    conditions: Sequence[Mapping[str, str]],
    name: str,
    cell: Mapping[str, str],
    carriers: Mapping[str, str],
) -> str:
    """Return why a value has no effect, as its scenario declares (`x-idle`); "" if it has one.

    It begins with `: `, or with ` on ` and the only thing that the value has no effect on.
    """
    numbers = rules.as_numbers({**cell, **carriers})
    for rule in conditions:
        if rules.holds(rule["if"], numbers):
            beside = ", ".join(
                f"{other}={cell[other]}"
                for other in sorted(rules.names(rule["if"]) & cell.keys() - {name})
            )
            on = f" on {rule['on']}" if "on" in rule else ""
            return f"{on}: {rule['because']}{f' (with {beside})' if beside else ''}"
    return ""


def names_asked(declared: Sequence[Mapping[str, str]]) -> set[str]:
    """Return the names in conditions; `vpn_carrier` follows from vpn."""
    return {name.removesuffix("_carrier") for rule in declared for name in rules.names(rule["if"])}


def needed(uses: Sequence[Use], values: Mapping[str, str]) -> dict[str, Use]:
    """Return the kernel features that these values need, each with the first use that needs it."""
    features: dict[str, Use] = {}
    for use in uses:
        for feature, condition in use.argument.limits.get(NEEDS, {}).items():
            if rules.holds(condition, given_beside(use, values)):
                features.setdefault(feature, use)
    return features


def given_beside(use: Use, values: Mapping[str, str]) -> dict[str, float | str]:
    """Return the values that conditions are about, of those arguments that have one."""
    texts: dict[str, str] = {}
    for name, template in use.beside.items():
        with suppress(KeyError, ValueError):
            texts[name] = Template(template).substitute(values)
    return rules.as_numbers(texts)
