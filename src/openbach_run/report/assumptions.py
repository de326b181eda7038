# SPDX-License-Identifier: GPL-3.0-or-later
"""The assumptions that a published text leaves open, and campaigns run under a choice of them.

reports/assumptions.yml lists the assumptions and their alternatives. The scenarios of a choice get
the values of its alternatives. Cells that an alternative cannot change (`needs`) stay as they are,
so that their runs serve other choices, too. Afterwards the cells that were run get the names that
the claims use for them.
"""

from __future__ import annotations

import itertools
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
"""Assumption → name of its alternative. An assumption that is not named is as our scenarios have
it."""
Values = dict[str, list[str]]
"""Argument → values, of a scenario in a campaign file."""


@dataclass(frozen=True)
class Alternative:
    """An alternative to what our scenarios assume, as changes to a campaign.

    `set`: values of arguments, in the named scenarios (in all if none is named). `read`: argument →
    value in the claims → value that is run in its place.
    """

    set: dict[str, str] = field(default_factory=dict)
    scenarios: tuple[str, ...] = ()
    read: dict[str, dict[str, str]] = field(default_factory=dict)
    add: dict[str, list[str]] = field(default_factory=dict)
    """Measure → further measures that are added to it."""


@dataclass(frozen=True)
class Assumption:
    """A question that the text leaves open, our scenarios' answer, and other plausible answers."""

    asks: str
    ours: str
    alternatives: dict[str, Alternative]
    needs: dict[str, Any] = field(default_factory=dict)
    """Argument → values: a cell without one of these is the same under every alternative."""


def read_assumptions(file: Path) -> dict[str, Assumption]:
    """Return the assumptions of a file by name.

    Raises InputError for a file that is not in the form that its head describes.
    """
    content = read_texts(file)
    if not isinstance(content, dict):
        raise InputError(f"{file}: should have assumptions by name")
    return {str(name): _assumption(f"{file}: {name}", one) for name, one in content.items()}


def _assumption(where: str, given: Any) -> Assumption:
    """Return one assumption; `where` names it in an error. Raises InputError."""
    if (
        not isinstance(given, dict)
        or given.keys() - {OPTIONAL} != set(KEYS)
        or not isinstance(given["alternatives"], dict)
    ):
        raise InputError(f"{where}: should have the keys {', '.join(KEYS)}, the last an object")
    alternatives = {}
    for name, one in given["alternatives"].items():
        if not isinstance(one, dict) or not one or one.keys() - set(CHANGES):
            raise InputError(
                f"{where}.alternatives.{name}: should have some of the keys {', '.join(CHANGES)}"
            )
        for key, given_by_it in one.items():
            if not FORMS[key](given_by_it):
                raise InputError(
                    f"{where}.alternatives.{name}.{key}: is not as the file's head describes it"
                )
        changes = (one.get("read", {}), one.get("add", {}))
        alternatives[name] = Alternative(
            one.get("set", {}), tuple(one.get("scenarios", ())), *changes
        )
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
    """Return the values that an argument may have: a list, or `above` a number.

    Raises InputError.
    """
    if _is_texts(allowed):
        return allowed
    try:
        return {"above": float(allowed["above"])}
    except (TypeError, KeyError, ValueError):
        raise InputError(f"{where}: should be a list of values, or {{above: NUMBER}}") from None


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _has(value: Any, is_one: Callable[[Any], bool]) -> bool:
    """Return whether a value is an object all of whose values fulfil `is_one`."""
    return isinstance(value, dict) and all(map(is_one, value.values()))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


FORMS: Mapping[str, Callable[[Any], bool]] = {
    "set": lambda value: _has(value, _is_text),
    "scenarios": _is_texts,
    "read": lambda value: _has(value, lambda one: _has(one, _is_text)),
    "add": lambda value: _has(value, _is_texts),
}
"""Checks by key: whether the value that an alternative has under the key has the right form."""


def relevant(
    assumptions: Mapping[str, Assumption], scenarios: Sequence[Mapping[str, Any]]
) -> dict[str, Assumption]:
    """Return the assumptions that can change something in a campaign file's scenarios."""
    # A cell with a single value is enough to ask whether that value is among the needed ones.
    cells: list[Cell] = []
    for one in scenarios:
        for name, some in one["values"].items():
            cells += [Cell({name: str(value)}) for value in some]

    def has_any(argument: str, allowed: Any) -> bool:
        return any(matches(cell, {argument: allowed}) for cell in cells)

    return {
        name: assumption
        for name, assumption in assumptions.items()
        if all(itertools.starmap(has_any, assumption.needs.items()))
    }


def scenarios_under(
    scenarios: Sequence[Mapping[str, Any]], choice: Choice, assumptions: Mapping[str, Assumption]
) -> list[dict[str, Any]]:
    """Return the scenarios of a campaign file with the values of a choice.

    A scenario of which an alternative changes only some cells is returned in several parts.
    """
    chosen = _chosen(choice, assumptions)
    made = []
    for entry in scenarios:
        claimed = {name: list(map(str, some)) for name, some in entry["values"].items()}
        parts: list[tuple[Values, Values]] = [(claimed, {})]
        for one, needs in chosen:
            if one.set and (not one.scenarios or entry["scenario"] in one.scenarios):
                parts = _changed_by(one, needs, parts)
        for values, given in parts:
            run: Values = {}
            for name, some in {**values, **given}.items():
                run[name] = [_run_for(name, value, chosen) for value in some]
            made.append({**entry, "values": run})
    return made


def _changed_by(
    one: Alternative, needs: Mapping[str, Any], parts: Sequence[tuple[Values, Values]]
) -> list[tuple[Values, Values]]:
    """Return the parts of a scenario with the values that an alternative sets.

    Each part has its values as claimed, and the values that alternatives have set. It is divided
    where only some of its cells have what the alternative needs.
    """
    set_by_one = {name: [value] for name, value in one.set.items()}
    changed = []
    for values, given in parts:
        inside, outside = _divided(values, needs)
        changed += [(some, {**given, **set_by_one}) for some in inside]
        changed += [(some, given) for some in outside]
    return changed


def _divided(values: Values, needs: Mapping[str, Any]) -> tuple[list[Values], list[Values]]:
    """Return the values of the cells that have what is needed, and those of the others.

    Those of the others are in parts.
    """
    inside = values
    outside: list[Values] = []
    for name, allowed in needs.items():
        # What lacks one argument is taken out here, and the rest is divided by the next argument.
        having = [
            value for value in inside.get(name, ()) if matches(Cell({name: value}), {name: allowed})
        ]
        if not having:
            return [], [*outside, inside]
        if lacking := [value for value in inside[name] if value not in having]:
            outside.append({**inside, name: lacking})
        inside = {**inside, name: having}
    return [inside], outside


def _run_for(
    name: str, claimed: str, chosen: Sequence[tuple[Alternative, Mapping[str, Any]]]
) -> str:
    """Return the value that is run for a value of a claim.

    Each alternative in turn reads a value for the one that the alternative before it has given.
    """
    for one, _ in chosen:
        claimed = one.read.get(name, {}).get(claimed, claimed)
    return claimed


def needed(
    scenarios: Sequence[Mapping[str, Any]], claims: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the scenarios and values of a campaign file that some of the claims speak of."""
    parts = list(itertools.chain.from_iterable(claim["parts"] for claim in claims))
    made = []
    for entry in scenarios:
        scenario = entry["scenario"]
        of_entry = [one for one in parts if scenario in one["cell"].get("scenario", [scenario])]
        values: dict[str, list[Any]] = {}
        for name, some in entry["values"].items():
            values[name] = [value for value in some if _any_speaks_of(of_entry, name, str(value))]
        if of_entry and all(values.values()):
            made.append({**entry, "values": values})
    return made


def _any_speaks_of(parts: Iterable[Mapping[str, Any]], name: str, value: str) -> bool:
    return any(_speaks_of(part, name, value) for part in parts)


def _speaks_of(part: Mapping[str, Any], name: str, value: str) -> bool:
    """Return whether a part of a claim allows a value; it does if it does not name the argument."""
    selections = [part["cell"], part.get("against") or {}]
    named = [{name: one[name]} for one in selections if name in one]
    return not named or any(matches(Cell({name: value}), one) for one in named)


def as_claimed(
    campaigns: Campaigns, choice: Choice, assumptions: Mapping[str, Assumption]
) -> Campaigns:
    """Return the cells that were run under a choice, with the values that the claims have for them.

    Arguments that the choice sets are `same` in all cells, because they tell no cell from another.
    """
    chosen = _chosen(choice, assumptions)
    claimed: set[tuple[str, str]] = set()
    for one, _ in chosen:
        for name, instead in one.read.items():
            claimed.update((name, value) for value in instead)
    # The way back: argument and value that was run → value of the claim. Sorted, so that of two
    # claims' values which were run as one, the same wins in every process.
    back = {(name, _run_for(name, value, chosen)): value for name, value in sorted(claimed)}
    alternatives = [one for one, _ in chosen]
    cells = []
    for cell in campaigns.cells:
        values = {name: back.get((name, value), value) for name, value in cell.values.items()}
        for one in alternatives:
            if not one.scenarios or values["scenario"] in one.scenarios:
                values |= {name: SAME for name in one.set if name in values}
        cells.append(Cell(values, [_with_added(run, alternatives) for run in cell.runs]))
    return Campaigns(campaigns.commands, cells, campaigns.declared, campaigns.plots)


def _with_added(run: Run, chosen: Sequence[Alternative]) -> Run:
    """Return the run with the further measures of the alternatives added to its measures."""
    added: dict[str, list[str]] = {}
    for alternative in chosen:
        added |= alternative.add
    if run.record is None or not added:
        return run
    before = run.record.measures
    sums = {}
    for name, others in added.items():
        summands = [before.get(one) for one in (name, *others)]
        if all(one is not None for one in summands):
            sums[name] = sum(one or 0 for one in summands)
    return replace(run, record=replace(run.record, measures={**before, **sums}))


def _chosen(
    choice: Choice, assumptions: Mapping[str, Assumption]
) -> list[tuple[Alternative, Mapping[str, Any]]]:
    """Return the alternatives of a choice and what they need, in the order of the file.

    The order matters where several alternatives read for the same value.
    """
    return [
        (one.alternatives[choice[name]], one.needs)
        for name, one in assumptions.items()
        if name in choice
    ]
