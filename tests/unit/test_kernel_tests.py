# SPDX-License-Identifier: GPL-3.0-or-later
"""The harness of kernel/tests/kernel_tests.py reads verdicts as the kernel's tests print them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import kernel_tests as command
import making
import pytest
import verdicts as harness

from openbach_run.errors import SetupError
from openbach_run.paths import REPOSITORY

KTAP = """\
TAP version 13
1..4
ok 1 global.wait
not ok 2 - requeue of 3 waiters
ok 3 # SKIP no huge pages
ok 4 b5e1 - Add a qdisc # skipped - no such device
# Totals: pass:1 fail:1
kernel-tests: exit 1
"""
KUNIT = """\
KTAP version 1
1..1
    KTAP version 1
    # Subtest: list
    1..2
    ok 1 list_test_init
    not ok 2 list_test_add
not ok 1 list
reboot: Power down
"""


def test_points_of_ktap() -> None:
    assert harness.verdicts_in(KTAP) == {
        "global.wait": "pass",
        "requeue of N waiters": "fail",
        "# SKIP no huge pages": "skip",
        "b5e1 - Add a qdisc": "skip",
        "": "fail",
    }


def test_points_of_shell_tests_in_colour_and_with_one_name_twice() -> None:
    printed = (
        "TEST: route \x1b[1m[ OK ]\x1b[0m\nTEST: route   [FAIL]\n    ping [XFAIL]\nkernel-tests:"
        " exit 0\n"
    )
    assert harness.verdicts_in(printed) == {
        "route": "pass",
        "route #2": "fail",
        "ping": "skip",
        "": "pass",
    }


@pytest.mark.parametrize(
    ("printed", "timed_out", "verdict"),
    [
        ("kernel-tests: exit 0\n", False, "pass"),
        ("kernel-tests: exit 4\n", False, "skip"),
        ("kernel-tests: exit 124\n", False, "fail"),
        ("Kernel panic - not syncing\n", False, "crash"),
        ("ok 1 first\n", True, "timeout"),
    ],
)
def test_a_test_has_a_verdict_of_its_own(printed: str, timed_out: bool, verdict: str) -> None:
    assert harness.verdicts_in(printed, timed_out=timed_out)[harness.WHOLE] == verdict


def test_a_suite_of_kunit_has_the_verdict_of_its_line() -> None:
    assert harness.kunit_verdicts_in(KUNIT) == {
        "list_test_init": "pass",
        "list_test_add": "fail",
        "": "fail",
    }
    assert harness.kunit_verdicts_in("Kernel panic - not syncing\n") == {"": "crash"}
    assert harness.kunit_verdicts_in("1..0\n") == {"": "crash"}


def test_the_chance_in_a_name_is_left_out() -> None:
    printed = "TEST: testns-uQzwgC: vrf vrf-slaves up, lock-on-fault [ OK ]\nkernel-tests: exit 0\n"
    assert harness.verdicts_in(printed) == {
        "testns-N: vrf vrf-slaves up, lock-on-fault": "pass",
        "": "pass",
    }


def results(unpatched: list[dict[str, str]], patched: list[dict[str, str]]) -> harness.Results:
    return {"virtual": {"net/tls": {"unpatched": unpatched, "patched": patched}}}


def test_what_differs_each_time_differs_and_what_does_not_varies() -> None:
    found = harness.differences(
        results(
            [{"": "pass", "a": "pass", "b": "fail"}] * 2,
            [{"": "pass", "a": "fail"}, {"": "pass", "b": "fail"}],
        )
    )
    assert [(one.point, one.unpatched, one.patched, one.varies) for one in found] == [
        ("a", "pass pass", "fail missing", False),
        ("b", "fail fail", "missing fail", True),
    ]


def test_the_points_of_a_test_that_did_not_end_are_not_compared() -> None:
    both = results([{"": "timeout", "a": "pass"}], [{"": "timeout"}])
    assert not list(harness.differences(both))
    (only,) = harness.differences(results([{"": "pass", "a": "pass"}], [{"": "crash"}]))
    assert (only.point, only.unpatched, only.patched) == (harness.WHOLE, "pass", "crash")


def test_a_cause_is_of_a_test_and_where_it_says_so_of_a_clock_and_a_point() -> None:
    (found,) = harness.differences(results([{"": "pass"}], [{"": "fail"}]))
    known = harness.load_known(
        '[[difference]]\ntest = "net/tls"\nclock = "real"\ncause = "other clock"\n'
        '[[difference]]\ntest = "net/tls"\npoint = "send"\ncause = "other point"\n'
        '[[difference]]\ntest = "net/tls"\npoint = "^$"\ncause = "this"\n'
    )
    assert harness.cause_of(found, known) == "this"
    assert harness.cause_of(found, known[:2]) is None
    assert "**not explained**" in harness.report(
        "source", results([{"": "pass"}], [{"": "fail"}]), []
    )


@pytest.mark.parametrize(
    "text", ['test = "net/tls"', 'test = "net/tls"\ncause = "c"\npoints = "a"']
)
def test_an_entry_of_the_known_differences_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(SetupError):
        harness.load_known(f"[[difference]]\n{text}\n")


def test_the_causes_in_the_repository_can_be_read() -> None:
    assert (
        harness.load_known((REPOSITORY / "kernel/tests/differences.toml").read_text()) is not None
    )


@pytest.mark.parametrize(
    ("seconds", "runs", "ends"),
    [
        ((5, 5), 1, ["pass", "pass"]),
        ((25, 5), 2, ["pass", "pass"]),
        ((99, 5), 2, ["timeout", "pass"]),
        ((99, 99), 1, ["timeout", "timeout"]),
    ],
)
def test_where_one_kernel_does_not_end_both_get_more_time_once(
    monkeypatch: pytest.MonkeyPatch, seconds: Sequence[int], runs: int, ends: list[str]
) -> None:
    takes_s = dict(zip(making.KERNELS, seconds, strict=True))
    limits_s = []

    def run_test(
        made: object, column: command.Column, test: object, log: Path, limit_s: float
    ) -> harness.Verdicts:
        limits_s.append(limit_s)
        return {"": "timeout" if takes_s[column.kernel] > limit_s else "pass"}

    monkeypatch.setattr(command, "run_test", run_test)
    made = making.Made("7.2", {}, Path(), Path())
    found = command.verdicts_of(made, command.Test("net", "tls"), "virtual", Path(), 10.0)
    assert [found[kernel] for kernel in making.KERNELS] == [[{"": end}] for end in ends]
    assert limits_s == [10.0, 10.0, 40.0, 40.0][: 2 * runs]
