# SPDX-License-Identifier: GPL-3.0-or-later
r"""Numbers in what a command prints: `rtt_ms=time=([\d.]+) ms`, searched for by GNU grep.

    NAME=REGEX      the group of each match is a number
    NAME=seconds    how long the command took
    NAME=exit_code  its exit code, which may be another one than 0 then
    NAME@2=…        of the second command; without @ of the last one that is waited for
    NAME?=…         nothing may fit, and the column is empty then

grep (PCRE) gives up after ten million steps, so no regular expression takes for ever. Python's own
would, and in virtual time no time-out would end it. grep prints whole matches: what stands before
the group becomes a match that is left out (`\K`), what comes after it a look ahead.
"""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from math import isfinite
from pathlib import Path
from typing import NamedTuple

SECONDS, EXIT_CODE = "seconds", "exit_code"
FORM = re.compile(r"([A-Za-z][A-Za-z0-9_]*)(?:@([1-9][0-9]{0,3}))?(\??)=(.+)", re.DOTALL)
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
OF_A_STATISTIC = ("timestamp", "suffix", "metadatas")
"""Names that no column may have: the arguments of collect_agent itself."""
MOST_CHARACTERS = 500
MOST_NUMBERS = 10_000
UNLIKE_PCRE = re.compile(r"\(\?[a-zA-Z]*[aLux]|\(\?#|\[\[:|\\[uUN]")
"""Pattern of what Python and PCRE read differently."""
MATCHED, NOT_MATCHED = 0, 1
NOWHERE = -1


class Sought(NamedTuple):
    """A column, and what is looked for; `step` is the command's number, 0 the last one."""

    name: str
    find: str
    step: int = 0
    is_optional: bool = False

    @property
    def text(self) -> str:
        """Return it as a job gets it, without the number of the command."""
        return f"{self.name}{'?' * self.is_optional}={self.find}"

    @property
    def pattern(self) -> str:
        """Return the pattern for grep, whose match is the group alone."""
        begin, end = _group(self.find)
        after = self.find[end:]
        return f"{self.find[:begin]}\\K{self.find[begin:end]}" + (f"(?={after})" if after else "")


def sought(text: str) -> Sought:
    """Return what a text of the form NAME=REGEX looks for. Raises ValueError."""
    if not (parts := FORM.fullmatch(text)):
        raise ValueError(f"{text!r} should be NAME=REGEX, as 'rtt_ms=time=([\\d.]+) ms'")
    name, step, optional, find = parts.groups()
    if name in OF_A_STATISTIC:
        raise ValueError(f"{name}: is taken; call it otherwise")
    if find not in (SECONDS, EXIT_CODE):
        try:
            _check(find)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return Sought(name, find, int(step or 0), bool(optional))


def _check(find: str) -> None:
    """Check a regular expression. Raises ValueError."""
    if len(find) > MOST_CHARACTERS:
        raise ValueError(
            f"a regular expression of {len(find)} characters: {MOST_CHARACTERS} at most"
        )
    if not find.isprintable():
        raise ValueError(f"{find!r}: not printable; it is looked for in each line by itself")
    if unlike := UNLIKE_PCRE.search(find):
        raise ValueError(f"{find}: {unlike[0]} is not taken")
    try:
        with warnings.catch_warnings(action="error"):
            groups = re.compile(find).groups
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise ValueError(f"{find}: no regular expression: {error}") from None
    if groups != 1:
        raise ValueError(
            f"{find}: has {groups} groups, and should have one (…), which is the number, {SECONDS}"
            f" or {EXIT_CODE}; others are (?:…)"
        )
    _group(find)


def _group(find: str) -> tuple[int, int]:
    """Return where the group begins and ends. Raises ValueError if it is a part of others."""
    begin = end = NOWHERE
    depth = 0
    # Escaped characters and classes in one piece: a bracket in them is none.
    for part in re.finditer(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", find):
        after = find[part.end() :]
        if part[0] == "(":
            if not after.startswith("?") or after.startswith("?P<"):
                begin = part.start()
                if depth:
                    raise ValueError(f"{find}: the group stands in another one; leave that out")
            depth += 1
        elif part[0] == ")":
            depth -= 1
            if begin != NOWHERE and end == NOWHERE:
                end = part.end() if not depth else end
        elif part[0] == "|" and not depth:
            raise ValueError(f"{find}: alternatives stand in (?:…)")
    if find[end : end + 1] in ("*", "+", "?", "{"):
        raise ValueError(f"{find}: the group is repeated: put the {find[end]} into it")
    return begin, end


def numbers(column: Sought, printed: Path) -> list[float]:
    """Return the numbers in a file that fit. Ends the job with the reason if there is none."""
    done = subprocess.run(
        ["grep", "-aoP", "-e", column.pattern, str(printed)],
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode not in (MATCHED, NOT_MATCHED):
        sys.exit(f"{column.name}: {column.find}: {done.stderr.strip()}")
    texts = done.stdout.split("\n")[:-1]
    for text in texts:
        if not NUMBER.fullmatch(text) or not isfinite(float(text)):
            sys.exit(f"{column.name}: {column.find}: {text[:60]!r} is no number")
    if len(texts) > MOST_NUMBERS:
        sys.exit(f"{column.name}: {column.find}: {len(texts)} numbers; {MOST_NUMBERS} at most")
    return [float(text) for text in texts]
