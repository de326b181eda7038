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
    refused             what it does not take together with other arguments' values: a list of
                        {if: CONDITION (rules.py), because: what would be right}
    noted               what it takes, and the user should know of: a list of the same shape
    idle                with which other values it has no effect: a list of the same shape. It is
                        noted if that holds wherever the scenario gives the value to a job
    endless             with which other values the job goes on until it is stopped: a list of the
                        same shape. Such a value is refused where no function stops the job
    needs               what its host's kernel has to have for it: {FEATURE: CONDITION}, features
                        as engine/native/boundary.py calls them
    folder              values are the names of folders of this kind (catalog.py), beside the
                        choices
    mentions            words of the text may be names of folders of this kind, which the run gets
                        then (`cc=bbr2,mss=1300`)
    ipv6                an address that may be one of IPv6: `inside`, of the traffic, or `outside`,
                        of a tunnel's end (campaign/ip_versions.py)
    values_of           the text is NAME=VALUE;NAME=VALUE of the VPN that this argument names,
                        which has to read each of them

`choices` is OpenBACH's own key; its backend stores them and never checks them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from openbach_jobs.link_file import near
from openbach_jobs.netem import MULTIPLIERS
from openbach_run.catalog import KINDS
from openbach_run.errors import InputError
from openbach_run.openbach import rules
from openbach_run.openbach.job import Argument
from openbach_run.units import number

RANGE = ("minimum", "maximum", "pattern")
NAMING = ("folder", "mentions")
"""Keys with a kind of folders that values name."""
IDLE = "idle"
ENDLESS = "endless"
TOGETHER = ("refused", "noted", IDLE, ENDLESS)
NEEDS = "needs"
VALUES_OF = "values_of"
IPV6, INSIDE, OUTSIDE = "ipv6", "inside", "outside"
KEYS = (*RANGE, "unit", "also", *NAMING, "like", *TOGETHER, NEEDS, VALUES_OF, IPV6)


def refusal(argument: Argument, value: str, called: str) -> str:
    """Return what would be right in place of a value; "" if the job takes it.

    The value has no placeholders. `called` is the name by which the user knows the argument.
    """
    limits = argument.limits
    if argument.choices and value not in argument.choices:
        return f"{near(value, argument.choices)}{called} is one of {', '.join(argument.choices)}"
    if not limits.keys() & set(RANGE) or value in map(str, limits.get("also", ())):
        return ""
    if "pattern" in limits:
        return (
            ""
            if re.fullmatch(limits["pattern"], value, re.ASCII)
            else f"{called} is {in_words(argument)}"
        )
    # number() takes a suffix (30M). Of other types than str the job gets a number, without one.
    amount = number(value)
    # A number may be written in several ways: 0, 0.0 and 00 are the same value beside the range.
    also = [number(str(text)) for text in limits.get("also", ())] if argument.type != "str" else []
    is_right = argument.type != "int" or re.fullmatch("[+-]?[0-9]+", value)
    fits = (
        amount is not None
        and is_right
        and (amount or value[0] != "-")
        and bound(limits.get("minimum", -math.inf))
        <= amount
        <= bound(limits.get("maximum", math.inf))
        and (limits.get("unit") != "bytes" or amount == int(amount))
        and (argument.type == "str" or value[-1:] not in MULTIPLIERS)
    )
    whole = "" if is_right else ", a whole number"
    return "" if fits or amount in also else f"{called} is {in_words(argument)}{whole}"


def in_words(argument: Argument) -> str:
    """Return what an argument takes, for a person."""
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


def bound(text: Any) -> float:
    """Return a bound of `limits` as a number. Raises ValueError for what is none."""
    value = text if isinstance(text, float) else number(str(text))
    if value is None:
        raise ValueError(f"{text!r} is not a number, or one with k, M or G behind it")
    return value


def asked_beside(argument: Argument) -> set[str]:
    """Return the names of the job's arguments in the conditions of this one."""
    if not argument.limits:
        return set()
    conditions = [rule["if"] for key in TOGETHER for rule in argument.limits.get(key, ())]
    conditions += argument.limits.get(NEEDS, {}).values()
    named = [argument.limits[VALUES_OF]] if VALUES_OF in argument.limits else []
    return {*named, *(name for condition in conditions for name in rules.names(condition))}


def names_folders(argument: Argument) -> set[str]:
    """Return the keys of an argument's limits that let its values name folders."""
    return {*NAMING} & argument.limits.keys()


def check_declaration(at: str, limits: Mapping[str, Any]) -> None:
    """Check what a job declares as the `limits` of an argument.

    Raises InputError, with its place, for what says nothing clear.
    """
    # A misspelled limit would let every value through.
    if unknown := limits.keys() - set(KEYS):
        raise InputError(f"{at}.{min(unknown)} is unknown; there are {', '.join(KEYS)}")
    # A unit or an example alone limits nothing.
    if not {*RANGE, *NAMING, *TOGETHER, NEEDS, IPV6} & limits.keys() or not isinstance(
        limits.get("also", []), list
    ):
        keys = ", ".join((*RANGE, *NAMING, NEEDS, *TOGETHER, IPV6))
        raise InputError(f"{at} should have one of {keys}; also is a list")
    for key in {*NAMING} & limits.keys():
        if limits[key] not in KINDS:
            raise InputError(
                f"{at}.{key} is {limits[key]!r}, and should be one of {', '.join(KINDS)}"
            )
    if (side := limits.get(IPV6, INSIDE)) not in (INSIDE, OUTSIDE):
        raise InputError(f"{at}.{IPV6} is {side!r}, and should be {INSIDE} or {OUTSIDE}")
    for key in TOGETHER:
        listed = limits.get(key, [])
        if not isinstance(listed, list) or not all(
            isinstance(rule, dict) and {*rule} == {"if", "because"} for rule in listed
        ):
            raise InputError(f"{at}.{key} should be a list of {{if: CONDITION, because: TEXT}}")
    if not isinstance(needs := limits.get(NEEDS, {}), dict):
        raise InputError(f"{at}.needs should be a mapping of features of a kernel to a CONDITION")
    try:
        for condition in [
            *(rule["if"] for key in TOGETHER for rule in limits.get(key, [])),
            *needs.values(),
        ]:
            rules.check(str(condition))
        re.compile(str(limits.get("pattern", "")))
        bounds = [bound(limits[key]) for key in ("minimum", "maximum") if key in limits]
    except (ValueError, re.error) as error:
        raise InputError(f"{at}: {error}") from None
    if bounds != sorted(bounds):
        raise InputError(f"{at}: the minimum is above the maximum")
