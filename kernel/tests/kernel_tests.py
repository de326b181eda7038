# SPDX-License-Identifier: GPL-2.0
"""Run the kernel's own tests in our kernel and in the same source without patches.

Every test is a boot of its own (init.sh), so one that takes its kernel down takes no other with
it. README.md says what is run, what is left out, and how to read RESULTS.md, which this writes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from openbach_run.errors import SetupError
from openbach_run.paths import cache_directory
from openbach_run.progress import Reporter

from making import (
    COLLECTIONS,
    HERE,
    KERNEL_DIR,
    KERNELS,
    KUNIT,
    PATCHED,
    TC,
    WIREGUARD,
    Made,
    make,
)
from verdicts import (
    TIMEOUT,
    WHOLE,
    Results,
    Verdicts,
    cause_of,
    differences,
    kunit_verdicts_in,
    load_known,
    report,
    verdicts_in,
)

OUTPUTS = KERNEL_DIR.parent / "results/kernel-tests"
"""Each test's output, and verdicts.json; neither is tracked."""
VIRTUAL, REAL = CLOCKS = ("virtual", "real")
ARGUMENTS = {
    VIRTUAL: ("time-travel=inf-cpu", "time-travel-start=1767225600000000000"),
    REAL: (),
}
PATCHED_ARGUMENTS = ("seed=1",)
KUNIT_ARGUMENTS = ("kunit.enable=1", "kunit.autorun=1", "kunit_shutdown=poweroff")

ONLY_IN_REAL_TIME = (WIREGUARD,)
"""Transfers for seconds without a limit: in virtual time, where computing takes none, no such one
ends."""
IN_REAL_TIME = (KUNIT, "futex", "timers", "signal", "mm", "seccomp", WIREGUARD)
"""What is run with the real clock, too: the others sleep for hours."""
OUTPUT_BYTES = 4 << 20
LIMIT_S = 90.0
"""Wall time of one test. One that takes longer has the verdict `timeout`."""
LIMITS_S = {WIREGUARD: 900.0, TC: 300.0}
"""Of collections whose tests take longer: hundreds of cases in a file, transfers for seconds."""
LONGER = 4
"""How many times as long a test gets that ended in one of the kernels only: one is slower."""
ATTEMPTS = 3
"""Runs of a test whose verdicts differ, in each kernel: some differ from run to run."""


@dataclass(frozen=True)
class Test:
    """A boot: what runs in it."""

    collection: str
    name: str
    command: tuple[str, ...] = ()
    """In the collection's folder; nothing for a suite of KUnit, which the kernel runs itself."""


@dataclass(frozen=True)
class Column:
    """A kernel under a clock: a pair of columns of the table is two kernels under one clock."""

    kernel: str
    clock: str


def tests_of(made: Made, outputs: Path) -> list[Test]:
    """Return the tests to run, in the order of the table."""
    listed = (made.selftests / "kselftest-list.txt").read_text().split()
    selftests = [line.split(":") for line in listed]
    found = [Test(KUNIT, suite) for suite in _kunit_suites(made, outputs)]
    for collection in COLLECTIONS:
        names = sorted(name for one, name in selftests if one == collection)
        if not names:
            raise SetupError(f"the selftests of {collection} were not built")
        found += [Test(collection, name, (f"./{name}",)) for name in names]
    for file in sorted((made.selftests / TC / "tc-tests").glob("*/*.json")):
        name = f"{file.parent.name}/{file.name}"
        found.append(Test(TC, name, ("./tdc.py", "-f", f"tc-tests/{name}")))
    found.append(Test(WIREGUARD, "netns.sh", ("./netns.sh",)))
    return found


def _kunit_suites(made: Made, outputs: Path) -> list[str]:
    """Return the suites of KUnit in both kernels, which may differ in them."""
    suites: set[str] = set()
    for kernel in KERNELS:
        arguments = [*KUNIT_ARGUMENTS, "kunit.action=list"]
        log = outputs / f"{kernel}-suites.log"
        # The kernels themselves know what is built in: asked for both, as a patch may bring a
        # suite.
        listing = boot(made, Column(kernel, VIRTUAL), arguments, log)
        suites |= set(re.findall(r"^([\w-]+)\.\w+$", listing.output, re.MULTILINE))
    if not suites:
        raise SetupError(f"the kernels name no suite of KUnit: see {outputs}")
    return sorted(suites)


@dataclass(frozen=True)
class Booted:
    """The output of a boot."""

    output: str
    timed_out: bool


def boot(
    made: Made, column: Column, arguments: Sequence[str], log: Path, limit_s: float = LIMIT_S
) -> Booted:
    """Boot a kernel, which runs one test and powers off, or is killed after `limit_s`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        str(made.kernels[column.kernel]),
        *("mem=1024M", "root=/dev/root", "rootfstype=hostfs", f"rootflags={made.root}", "ro"),
        *(*ARGUMENTS[column.clock], "seccomp=on", "con=null", "con0=fd:0,fd:1"),
        # Without times, whose digits would differ from run to run.
        *("panic=-1", "printk.time=0", "init=/init", f"INIT={HERE}"),
        f"SELFTESTS={made.selftests}",
        *(PATCHED_ARGUMENTS if column.kernel == PATCHED else ()),
        *arguments,
    ]
    # KUnit prints its verdicts as messages of the kernel; of all other tests only errors are shown.
    if not any(argument.startswith("kunit.") for argument in arguments):
        command.append("loglevel=4")
    with (
        # UML keeps its socket and pid there, by default in the user's home.
        tempfile.TemporaryDirectory() as own,
        log.open("wb") as output,
        subprocess.Popen(
            [*command, f"uml_dir={own}"],
            env={"HOME": own, "PATH": "/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # UML has several processes on the host; a session of its own ends them all.
            start_new_session=True,
        ) as guest,
    ):
        try:
            guest.wait(limit_s)
            timed_out = False
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _kill_session(guest.pid)
    with log.open("rb") as printed:
        # Bounded: a test that loops may print without end.
        text = printed.read(OUTPUT_BYTES).decode(errors="replace")
    return Booted(text.replace("\r", ""), timed_out)


def _kill_session(leader: int) -> None:
    """End the guest and all of its processes on the host."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def run_test(made: Made, column: Column, test: Test, log: Path, limit_s: float) -> Verdicts:
    """The verdicts of one run of a test in one kernel; its output is kept in `log`."""
    if test.collection == KUNIT:
        suite = [*KUNIT_ARGUMENTS, f"kunit.filter_glob={test.name}"]
        booted = boot(made, column, suite, log, limit_s)
        return kunit_verdicts_in(booted.output, timed_out=booted.timed_out)
    arguments = [f"FOLDER={test.collection}", f"TEST={','.join(test.command)}"]
    booted = boot(made, column, arguments, log, limit_s)
    return verdicts_in(booted.output, timed_out=booted.timed_out)


def verdicts_of(
    made: Made, test: Test, clock: str, outputs: Path, limit_s: float
) -> dict[str, list[Verdicts]]:
    """The verdicts of a test in both kernels: of one run, or of several if they differ.

    Where it ended in one kernel only, both run it again with a longer limit, and only the runs
    with that limit count: what is left then is not that one kernel is slower.
    """
    found: dict[str, list[Verdicts]] = {kernel: [] for kernel in KERNELS}
    name = key_of(test).replace("/", "-")
    limits_s = [limit_s, *[limit_s * LONGER] * (ATTEMPTS - 1)]
    for attempt, limit_s in enumerate(limits_s, 1):
        for kernel in KERNELS:
            log = outputs / f"{kernel}-{clock}" / f"{name}.{attempt}.log"
            verdicts = run_test(made, Column(kernel, clock), test, log, limit_s)
            found[kernel].append(verdicts)
        if not any(differences({clock: {key_of(test): found}})):
            break
        if TIMEOUT in {runs[-1][WHOLE] for runs in found.values()}:
            if attempt > 1:
                break
            found = {kernel: [] for kernel in KERNELS}
    return found


def key_of(test: Test) -> str:
    """Return the name of a test with its collection, as the expectations have it."""
    return f"{test.collection}/{test.name}"


def _is_run(collection: str, clock: str) -> bool:
    return collection in IN_REAL_TIME if clock == REAL else collection not in ONLY_IN_REAL_TIME


def main() -> int:
    """The command's exit code: 1 if a difference has no cause in differences.toml."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", help="only tests with one of these in their names")
    parser.add_argument("--clock", choices=CLOCKS, action="append", help="only this one")
    parser.add_argument("--resume", action="store_true", help="only what has no verdicts yet")
    parser.add_argument(
        "--limit", type=float, metavar="SECONDS", help="wall time of a test, in place of ours"
    )
    options = parser.parse_args()
    known = load_known((HERE / "differences.toml").read_text())
    with Reporter(quiet=False) as reporter:
        made = make(cache_directory(), reporter.show)
        stamp = [made.version, *sorted(str(place) for place in made.kernels.values())]
        kept = OUTPUTS / "verdicts.json"
        results: Results = {}
        if (options.part or options.resume) and kept.exists():
            of, old = json.loads(kept.read_text())
            results = old if of == stamp else {}
        tests = tests_of(made, OUTPUTS)
        for clock in options.clock or CLOCKS:
            earlier = results.get(clock, {}) if options.resume else {}
            wanted = []
            for test in tests:
                asked = not options.part or any(part in key_of(test) for part in options.part)
                if asked and _is_run(test.collection, clock) and key_of(test) not in earlier:
                    wanted.append(test)
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as beside:
                jobs = {
                    beside.submit(
                        verdicts_of,
                        made,
                        test,
                        clock,
                        OUTPUTS,
                        options.limit or LIMITS_S.get(test.collection, LIMIT_S),
                    ): key_of(test)
                    for test in wanted
                }
                for done, job in enumerate(as_completed(jobs), 1):
                    key, found = jobs[job], job.result()
                    results.setdefault(clock, {})[key] = found
                    kept.write_text(json.dumps([stamp, results], indent=1))
                    ends = " / ".join(found[kernel][-1][WHOLE] for kernel in KERNELS)
                    reporter.show(f"{clock} clock: {key}: {ends}", done / len(wanted))
            order = [key_of(test) for test in tests]
            results[clock] = dict(
                sorted(results.get(clock, {}).items(), key=lambda one: order.index(one[0]))
            )
            kept.write_text(json.dumps([stamp, results], indent=1))
        not_run = [
            f"{key_of(test)} ({clock} clock)"
            for clock in CLOCKS
            for test in tests
            if _is_run(test.collection, clock) and key_of(test) not in results.get(clock, {})
        ]
        (HERE / "RESULTS.md").write_text(report(made.version, results, known, not_run))
        unexplained = [
            one for one in differences(results) if not one.varies and not cause_of(one, known)
        ]
        for one in unexplained:
            said = f"{one.test} ({one.clock} clock) {one.point}"
            reporter.say(f"not explained: {said}: {one.unpatched}; patched: {one.patched}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SetupError as error:
        sys.exit(f"kernel-tests: {error}")
