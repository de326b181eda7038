# SPDX-License-Identifier: GPL-3.0-or-later
"""What a published text leaves open (reports/assumptions.yml), and the campaign that is run under a choice of it.

The scenarios of a choice have the values of its alternatives; cells that an alternative cannot change (`needs`) stay as they
are, so that their runs are those of other choices too. What was run gets the names that the claims have for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openbach_run.errors import InputError
from openbach_run.openbach.scenario import SAME
from openbach_run.report.cells import Campaigns, Cell, Run, matches
from openbach_run.yaml_files import read_texts

KEYS = ("asks", "ours", "alternatives")
CHANGES = ("set", "scenarios", "read", "add")
OPTIONAL = "needs"

Choice = Mapping[str, str]
"""Assumption → name of its alternative; those that are not named are as our scenarios have them."""
Values = dict[str, list[str]]
"""Of a campaign file's scenario: argument → values."""


@dataclass(frozen=True)
class Alternative:
    """`set`: values of arguments, in the scenarios that are named (all if none is). `read`: argument → value of the claims →
    the value that is run in its place."""

    set: dict[str, str] = field(default_factory=dict)
    scenarios: tuple[str, ...] = ()
    read: dict[str, dict[str, str]] = field(default_factory=dict)
    add: dict[str, list[str]] = field(default_factory=dict)
    """Measure → measures that it includes besides."""


@dataclass(frozen=True)
class Assumption:
    """What the text leaves open, what our scenarios assume, and what is as plausible."""

    asks: str
    ours: str
    alternatives: dict[str, Alternative]
    needs: dict[str, Any] = field(default_factory=dict)
    """Argument → values: a cell without them is the same under every alternative."""


def read_assumptions(file: Path) -> dict[str, Assumption]:
    """Raises InputError for what is not of the form that the file's head describes."""
    content = read_texts(file)
    if not isinstance(content, dict):
        raise InputError(f"{file}: should have assumptions by name")
    return {str(name): _assumption(f"{file}: {name}", one) for name, one in content.items()}


def _assumption(where: str, given: Any) -> Assumption:
    if (
        not isinstance(given, dict)
        or given.keys() - {OPTIONAL} != set(KEYS)
        or not isinstance(given["alternatives"], dict)
    ):
        raise InputError(f"{where}: should have the keys {', '.join(KEYS)}, the last an object")
    alternatives = {}
    for name, one in given["alternatives"].items():
        if not isinstance(one, dict) or not one or one.keys() - set(CHANGES):
            raise InputError(f"{where}.alternatives.{name}: should have some of the keys {', '.join(CHANGES)}")
        for key, given_by_it in one.items():
            if not FORMS[key](given_by_it):
                raise InputError(f"{where}.alternatives.{name}.{key}: is not as the file's head describes it")
        changes = (one.get("read", {}), one.get("add", {}))
        alternatives[name] = Alternative(one.get("set", {}), tuple(one.get("scenarios", ())), *changes)
    if not all(isinstance(given[key], str) for key in ("asks", "ours")):
        raise InputError(f"{where}: asks and ours should be texts")
    needs = given.get(OPTIONAL, {})
    if not isinstance(needs, dict):
        raise InputError(f"{where}.{OPTIONAL}: should have lists of values by argument")
    return Assumption(
        given["asks"],
        given["ours"],
        alternatives,
        {name: _needed(f"{where}.{OPTIONAL}.{name}", allowed) for name, allowed in needs.items()},
    )


def _needed(where: str, allowed: Any) -> Any:
    """Values of an argument, or `above` a number."""
    if _is_texts(allowed):
        return allowed
    try:
        return {"above": float(allowed["above"])}
    except (TypeError, KeyError, ValueError):
        raise InputError(f"{where}: should be a list of values, or {{above: NUMBER}}") from None


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _has(value: Any, is_one: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(map(is_one, value.values()))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


FORMS: Mapping[str, Callable[[Any], bool]] = {
    "set": lambda value: _has(value, _is_text),
    "scenarios": _is_texts,
    "read": lambda value: _has(value, lambda one: _has(one, _is_text)),
    "add": lambda value: _has(value, _is_texts),
}
"""Whether what an alternative has under a key is as it should be."""


def relevant(assumptions: Mapping[str, Assumption], scenarios: Sequence[Mapping[str, Any]]) -> dict[str, Assumption]:
    """Those that can change something in a campaign file's scenarios."""
    cells = [Cell({name: str(value)}) for one in scenarios for name, some in one["values"].items() for value in some]
    return {
        name: one
        for name, one in assumptions.items()
        if all(any(matches(cell, {argument: allowed}) for cell in cells) for argument, allowed in one.needs.items())
    }


def scenarios_under(
    scenarios: Sequence[Mapping[str, Any]], choice: Choice, assumptions: Mapping[str, Assumption]
) -> list[dict[str, Any]]:
    """The scenarios of a campaign file with the values of a choice; one of which an alternative changes some cells only comes
    in several parts."""
    chosen = _chosen(choice, assumptions)
    made = []
    for entry in scenarios:
        claimed = {name: list(map(str, some)) for name, some in entry["values"].items()}
        parts: list[tuple[Values, Values]] = [(claimed, {})]
        for one, needs in chosen:
            if one.set and (not one.scenarios or entry["scenario"] in one.scenarios):
                divided = [(_divided(values, needs), given) for values, given in parts]
                given_by_one = {name: [value] for name, value in one.set.items()}
                parts = [
                    part
                    for (inside, outside), given in divided
                    for part in (
                        *((values, {**given, **given_by_one}) for values in inside),
                        *((values, given) for values in outside),
                    )
                ]
        for values, given in parts:
            run = {
                name: [_run_for(name, value, chosen) for value in some] for name, some in {**values, **given}.items()
            }
            made.append({**entry, "values": run})
    return made


def _divided(values: Values, needs: Mapping[str, Any]) -> tuple[list[Values], list[Values]]:
    """The cells that have what is needed, and the others."""
    inside = values
    outside: list[Values] = []
    for name, allowed in needs.items():
        having = [value for value in inside.get(name, ()) if matches(Cell({name: value}), {name: allowed})]
        if not having:
            return [], [*outside, inside]
        if lacking := [value for value in inside[name] if value not in having]:
            outside.append({**inside, name: lacking})
        inside = {**inside, name: having}
    return [inside], outside


def _run_for(name: str, claimed: str, chosen: Sequence[tuple[Alternative, Mapping[str, Any]]]) -> str:
    """What is run for a value of a claim: what each alternative, in turn, reads for that of the one before."""
    for one, _ in chosen:
        claimed = one.read.get(name, {}).get(claimed, claimed)
    return claimed


def needed(scenarios: Sequence[Mapping[str, Any]], claims: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of a campaign file's scenarios and their values those that some of the claims speak of."""
    parts = [part for claim in claims for part in claim["parts"]]
    made = []
    for entry in scenarios:
        of_entry = [one for one in parts if entry["scenario"] in one["cell"].get("scenario", [entry["scenario"]])]
        values = {
            name: [value for value in some if any(_speaks_of(part, name, str(value)) for part in of_entry)]
            for name, some in entry["values"].items()
        }
        if of_entry and all(values.values()):
            made.append({**entry, "values": values})
    return made


def _speaks_of(part: Mapping[str, Any], name: str, value: str) -> bool:
    selections = [part["cell"], part.get("against") or {}]
    named = [{name: one[name]} for one in selections if name in one]
    return not named or any(matches(Cell({name: value}), one) for one in named)


def as_claimed(campaigns: Campaigns, choice: Choice, assumptions: Mapping[str, Assumption]) -> Campaigns:
    """The cells of what was run under a choice, with the values that the claims have for them; arguments that the choice sets
    are `same` in all, because they tell no cell from another."""
    chosen = _chosen(choice, assumptions)
    claimed = {(name, value) for one, _ in chosen for name, instead in one.read.items() for value in instead}
    back = {(name, _run_for(name, value, chosen)): value for name, value in claimed}
    cells = []
    for cell in campaigns.cells:
        values = {name: back.get((name, value), value) for name, value in cell.values.items()}
        for one, _ in chosen:
            if not one.scenarios or values["scenario"] in one.scenarios:
                values |= {name: SAME for name in one.set if name in values}
        cells.append(Cell(values, [_with_added(run, [one for one, _ in chosen]) for run in cell.runs]))
    return Campaigns(campaigns.commands, cells, campaigns.declared, campaigns.plots)


def _with_added(run: Run, chosen: Sequence[Alternative]) -> Run:
    added = {name: others for one in chosen for name, others in one.add.items()}
    if run.record is None or not added:
        return run
    before = run.record.measures
    sums = {
        name: sum(before[one] or 0 for one in (name, *others))
        for name, others in added.items()
        if all(before.get(one) is not None for one in (name, *others))
    }
    return replace(run, record=replace(run.record, measures={**before, **sums}))


def _chosen(choice: Choice, assumptions: Mapping[str, Assumption]) -> list[tuple[Alternative, Mapping[str, Any]]]:
    """Alternatives and what they need, in the order of the file: what several read for the same value depends on that."""
    return [(one.alternatives[choice[name]], one.needs) for name, one in assumptions.items() if name in choice]
