# SPDX-License-Identifier: GPL-3.0-or-later
"""Conditions over several arguments of a job, such as `size != 'unlimited' and duration_s > 0`.

A job's YAML declares them. They have Python's notation and no more of it than this: names of
arguments, numbers, texts in quotes, + - * /, comparisons, and, or, not. An argument has its value
as a number (`30M` is 30 000 000) if it is one, as a text otherwise, and is equal to nothing if it
has no value.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from openbach_run.units import number

OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}


def check(condition: str) -> None:
    """Check a condition. Raises ValueError, saying what is wrong, for a text that is none."""
    _parsed(condition)


def holds(condition: str, values: Mapping[str, float | str]) -> bool:
    """Return whether a condition holds.

    It does not where it cannot be computed: a value is absent or no number.
    """
    try:
        return bool(_value(_parsed(condition), values))
    except (TypeError, ArithmeticError):
        return False


def as_numbers(texts: Mapping[str, str]) -> dict[str, float | str]:
    """Return the values as conditions see them: a number where it is one."""
    values: dict[str, float | str] = {}
    for name, text in texts.items():
        value = number(text)
        values[name] = text if value is None else value
    return values


@cache
def names(condition: str) -> frozenset[str]:
    """Return the names of the arguments in a condition."""
    return frozenset(node.id for node in ast.walk(_parsed(condition)) if isinstance(node, ast.Name))


@cache
def _parsed(condition: str) -> ast.expr:
    """Return the tree of a condition. Raises ValueError for a text that is none."""
    try:
        tree = ast.parse(condition, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{condition!r} is no condition: {error.msg}") from None
    for node in ast.walk(tree):
        if not _is_known(node):
            raise ValueError(
                f"{condition!r} is no condition: {ast.unparse(node) or type(node).__name__} is not"
                " allowed"
            )
    return tree


def _is_known(node: ast.AST) -> bool:
    """Return whether a condition may have such a node."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | int | float)
    # No calls, attributes or subscripts: a job's YAML may come from anybody.
    structure = (
        ast.BoolOp,
        ast.BinOp,
        ast.UnaryOp,
        ast.Compare,
        ast.Name,
        ast.Load,
        ast.And,
        ast.Or,
    )
    return isinstance(node, structure) or type(node) in OPERATORS


def _value(node: ast.AST, values: Mapping[str, float | str]) -> Any:
    """Return the value of a part of a condition. Raises TypeError or ArithmeticError."""
    match node:
        case ast.Name(id=name):
            # None is equal to nothing, and compared with a number it is a TypeError: the condition
            # does not hold.
            return values.get(name)
        case ast.Constant(value=value):
            return value
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, values) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_value(part, values) for part in parts)
        case ast.UnaryOp(op=op, operand=operand):
            return OPERATORS[type(op)](_value(operand, values))
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](_value(left, values), _value(right, values))
        case ast.Compare(left=left, ops=ops, comparators=others):
            terms = [_value(term, values) for term in (left, *others)]
            return all(OPERATORS[type(op)](*terms[at : at + 2]) for at, op in enumerate(ops))
    raise TypeError(f"{type(node).__name__} in a condition")
