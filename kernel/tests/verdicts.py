# SPDX-License-Identifier: GPL-2.0
"""Verdicts of tests: read from what they print, compared, and told in RESULTS.md."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from openbach_run.errors import SetupError

from making import KERNELS, TC

PASS, FAIL, SKIP, TIMEOUT, CRASH = "pass", "fail", "skip", "timeout", "crash"
EXITS = {0: PASS, 4: SKIP, 2: FAIL}
"""Of selftests: KSFT_PASS, KSFT_SKIP, KSFT_XFAIL; all others are failures."""
WHOLE = ""
"""The name of a test's own verdict, beside those of the points that it prints."""
POINT = re.compile(r"^[\s#]*(not )?ok (\d+)(?:\s+-?\s*(.*))?$")
BRACKET = re.compile(r"^(?:# )?\s*(?:TEST: )?(\S.*?)\s+\[\s*(OK|PASS|FAIL|SKIP|XFAIL)\s*\]\s*$")
EXIT = re.compile(r"^kernel-tests: exit (\d+)$", re.MULTILINE)
CHANCE = re.compile(r"-(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{6}\b")
"""What mktemp(1) gave the name of a network namespace."""
NUMBERS = re.compile(r"\b(0x[0-9a-f]+|\d+(\.\d+)?([mun]?s)?)\b")

Verdicts = dict[str, str]
"""Of one run of a test: each point's, and its own under WHOLE."""


Results = dict[str, dict[str, dict[str, list[Verdicts]]]]
"""Clock → `collection/test` → kernel → of each attempt its verdicts."""


def verdicts_in(output: str, *, timed_out: bool = False) -> Verdicts:
    """Return the verdicts in a test's output: of its points and, by the exit code, its own.

    The points are those of KTAP, or the lines `name [ OK ]` of the shell's tests.
    """
    found: Verdicts = {}
    seen: Counter[str] = Counter()
    for line in output.splitlines():
        if point := _point(line):
            name, verdict = point
            # Points of one name are told apart by their order.
            seen[name] += 1
            found[name if seen[name] == 1 else f"{name} #{seen[name]}"] = verdict
    if timed_out:
        found[WHOLE] = TIMEOUT
    # init.sh prints the exit code last: without it the kernel went down.
    elif (ended := EXIT.search(output)) is None:
        found[WHOLE] = CRASH
    else:
        found[WHOLE] = EXITS.get(int(ended[1]), FAIL)
    return found


def _point(line: str) -> tuple[str, str] | None:
    """Name and verdict, if the line has one."""
    # Some scripts print their verdicts in colour.
    line = re.sub(r"\x1b\[[0-9;]*m", "", line)
    if found := POINT.match(line):
        # KTAP: `ok 1 name # SKIP reason` (Documentation/dev-tools/ktap.rst).
        name, _, directive = (found[3] or found[2]).partition(" # ")
        if directive.upper().startswith(("SKIP", "XFAIL")) or name.startswith("# SKIP"):
            return _plain(name), SKIP
        return _plain(name), FAIL if found[1] else PASS
    if found := BRACKET.match(line):
        verdict = {"OK": PASS, "PASS": PASS, "FAIL": FAIL}.get(found[2], SKIP)
        return _plain(found[1]), verdict
    return None


def _plain(name: str) -> str:
    """A point's name without what is measured in it or by chance, which no two runs have alike."""
    return NUMBERS.sub("N", CHANCE.sub("-N", name)).strip()


def kunit_verdicts_in(output: str, *, timed_out: bool = False) -> Verdicts:
    """The verdicts in a boot with one suite of KUnit: its cases' are indented, its own is not."""
    lines = [line for line in output.splitlines() if POINT.match(line)]
    cases = [line for line in lines if line.startswith(" ")]
    found = verdicts_in("\n".join(cases), timed_out=timed_out)
    own = list(filter(None, (_point(line) for line in lines if line not in cases)))
    # The suite's own verdict is its last line; a guest that was killed may not have come to it.
    if own and not timed_out:
        found[WHOLE] = own[-1][1]
    return found


@dataclass(frozen=True)
class Difference:
    """A point of a test, or its own verdict, that the kernels differ in."""

    clock: str
    test: str
    point: str
    unpatched: str
    patched: str
    """The verdicts of all attempts."""
    varies: bool
    """One kernel has given the other's verdict, too."""


def differences(results: Results) -> Iterator[Difference]:
    """Yield the differences between two kernels' verdicts.

    Where a test's own verdict is that it did not end, its points are not told: those after the end
    are missing.
    """
    for clock, tests in results.items():
        for test, kernels in tests.items():
            runs = [kernels[kernel] for kernel in KERNELS]
            points = {point for attempts in runs for one in attempts for point in one}
            ends = {one[WHOLE] for attempts in runs for one in attempts}
            # One ended and the other did not: points after the end are missing, not different.
            if ends & {TIMEOUT, CRASH} and len(ends) > 1:
                points = {WHOLE}
            elif ends & {TIMEOUT, CRASH}:
                points = set()
            for point in sorted(points):
                unpatched, patched = (_seen(point, attempts) for attempts in runs)
                if unpatched != patched:
                    varies = bool(set(unpatched) & set(patched))
                    yield Difference(
                        clock, test, point, " ".join(unpatched), " ".join(patched), varies
                    )


def _seen(point: str, attempts: Iterable[Verdicts]) -> list[str]:
    """Return a point's verdict in each attempt."""
    return [one.get(point, "missing") for one in attempts]


def load_known(text: str) -> list[dict[str, str]]:
    """differences.toml: what is known to differ, and why."""
    known: list[dict[str, str]] = tomllib.loads(text).get("difference", [])
    for one in known:
        if unknown := one.keys() - {"test", "clock", "point", "cause"}:
            raise SetupError(f"differences.toml: {one}: unknown {', '.join(unknown)}")
        if not {"test", "cause"} <= one.keys():
            raise SetupError(f"differences.toml: {one}: test and cause are needed")
    return known


def cause_of(difference: Difference, known: Iterable[Mapping[str, str]]) -> str | None:
    """Return the known cause of a verdict, or None.

    An entry without a clock holds for both, one without a point for all of the test's.
    """
    for one in known:
        same = one["test"] == difference.test
        same &= one.get("clock", difference.clock) == difference.clock
        if same and re.search(one.get("point", ""), difference.point):
            return one["cause"]
    return None


def report(
    version: str,
    results: Results,
    known: Sequence[Mapping[str, str]],
    not_run: Sequence[str] = (),
) -> str:
    """RESULTS.md: sums by collection, the differences with their causes, every test."""
    found = list(differences(results))
    parts = [
        "# The kernel's own tests, with our patches and without",
        f"Made by `tools/dev kernel/tests/kernel_tests.py` ([README.md](README.md)) from {version}; do not edit.",
        (
            "Tests are counted as pass / fail / skip / did not end (time limit or panic), points"
            " (what a test prints a verdict for) as pass / fail / skip."
        ),
        *(_sums(clock, tests, found) for clock, tests in results.items()),
        "## Differences",
        _differences_table([one for one in found if not one.varies], known),
        "## Verdicts that vary",
        "Each was repeated in both kernels; one of them has given the other's verdict, too.",
        _differences_table([one for one in found if one.varies], known),
        "## Not run yet",
        ", ".join(not_run) or "None.",
        *(_every_test(clock, tests) for clock, tests in results.items()),
    ]
    return "\n\n".join(parts) + "\n"


HEAD = "| {} | unpatched: tests | patched: tests | unpatched: points | patched: points |"


def _sums(
    clock: str, tests: Mapping[str, Mapping[str, list[Verdicts]]], found: Sequence[Difference]
) -> str:
    lines = [f"## {clock.capitalize()} clock", "", HEAD.format("collection") + " differ |"]
    lines.append("|---" * 6 + "|")
    collections = {key: key.rpartition("/")[0] for key in tests}
    for key in tests:
        if key.startswith(f"{TC}/"):
            collections[key] = TC
    for collection in dict.fromkeys(collections.values()):
        members = [tests[key] for key in tests if collections[key] == collection]
        differ = {one.test for one in found if one.clock == clock and not one.varies}
        count = sum(collections[key] == collection for key in differ)
        lines.append(f"| {collection} | {_row(members)} | {count} |")
    lines.append(f"| all | {_row(list(tests.values()))} | {len(differ)} |")
    return "\n".join(lines)


def _row(members: Sequence[Mapping[str, list[Verdicts]]]) -> str:
    """The counts of some tests in both kernels, of the first attempt."""
    own, points = [], []
    for kernel in KERNELS:
        counts: Counter[str] = Counter()
        inner: Counter[str] = Counter()
        for member in members:
            verdicts = member[kernel][0]
            counts[verdicts[WHOLE]] += 1
            inner.update(verdict for point, verdict in verdicts.items() if point != WHOLE)
        ended = counts[TIMEOUT] + counts[CRASH]
        own.append(f"{counts[PASS]} / {counts[FAIL]} / {counts[SKIP]} / {ended}")
        points.append(f"{inner[PASS]} / {inner[FAIL]} / {inner[SKIP]}")
    return " | ".join(own + points)


def _differences_table(found: Sequence[Difference], known: Sequence[Mapping[str, str]]) -> str:
    if not found:
        return "None."
    lines = ["| test | clock | point | unpatched | patched | cause |", "|---" * 6 + "|"]
    for one in found:
        cause = cause_of(one, known) or ("" if one.varies else "**not explained**")
        point = one.point.replace("|", "\\|") or "the test"
        shown = (one.test, one.clock, point, one.unpatched, one.patched, cause)
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines)


def _every_test(clock: str, tests: Mapping[str, Mapping[str, list[Verdicts]]]) -> str:
    """Return a table of all tests; those with the same figures share a line."""
    alike: dict[str, list[str]] = {}
    for key, kernels in tests.items():
        own = [kernels[kernel][0][WHOLE] for kernel in KERNELS]
        points = _row([kernels]).split(" | ")[2:]
        alike.setdefault(" | ".join((*own, *points)), []).append(key)
    lines = [
        f"## Every test, {clock} clock",
        "",
        "| tests | unpatched | patched | points: unpatched | points: patched |",
        "|---" * 5 + "|",
        *(f"| {', '.join(keys)} | {figures} |" for figures, keys in alike.items()),
    ]
    return "\n".join(lines)
