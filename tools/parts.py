# SPDX-License-Identifier: GPL-3.0-or-later
"""Run what CI runs, part by part, and print a table of the parts at the end.

Without names: all that every push needs (`make check`), and where that took less than 25 minutes
one stale part of the nightly tests. All parts run; the exit code is 1 if one of them failed.

    .ci/run                    every part
    .ci/run lint unit          these
    .ci/run guest-1            the first half of the guest's tests, for a machine beside another
    .ci/run --nightly          what is too long for every push (`make nightly`)
    .ci/run --nightly wheels   a part of it (`make nightly PART=wheels`)

A part of the nightly tests is stale 200 commits after it last passed (`.ci/nightly.stamp`, which
`make nightly` writes; commit it).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from openbach_run.engine.virtual.debian import BUILD_TOOLS, ensure_tools
from openbach_run.errors import SetupError
from openbach_run.paths import REPOSITORY

STAMP = REPOSITORY / ".ci/nightly.stamp"
STALE_COMMITS = 200
TIME_IS_LEFT_S = 25 * 60
IN_TURN_LIMIT_S = 50 * 60
FUZZ_S, FUZZ_IN_TURN_S = 3600, 900
SLOWEST = 5

STAGES = (("lint", "pep", "peers"), ("unit",), ("guest",), ("pages",))
"""Parts of a check, as targets of the Makefile. Those of a stage use one CPU each and run at the
same time, one for each CPU; a part that is alone uses all CPUs."""
HALVES = ("guest-1", "guest-2")
NIGHTLY = {
    "reports": ("test_reports",),
    "kernel": ("test_kernel_without_speed", "test_engine"),
    "upstream": ("test_kernel_upstream",),
    "bundles": ("test_bundle", "test_archive", "test_artifact", "test_prompt_docs"),
    "wheels": ("test_wheel",),
    "clusters": ("test_cluster",),
    "chaos": ("test_chaos",),
    "native": ("test_native_runs",),
    "long": ("test_campaigns", "test_try", "test_module", "test_topologies", "test_workloads"),
}
"""Part of the nightly tests → files of tests/guest of which it runs tests marked `nightly`."""
LONG = {"examples": ("unit", "MARK=nightly"), "fuzz": ("fuzz",), "builds": ("vpns",),
        "newest": ("newest",)}  # fmt: skip
"""Further parts → targets of the Makefile: more examples of what unit tests try, an hour of mutated
inputs, the VPNs whose programs are built from registries of Go and Rust, which not every machine
reaches, and today's newest Python packages; the last two have no turn."""
NIGHTS = (*NIGHTLY, *LONG)
IN_TURN = (*NIGHTLY, "examples", "fuzz")

SATPEP = {"nft": "nftables", "ip": "iproute2", "ss": "iproute2", "systemd-analyze": "systemd"}
USUAL = {**BUILD_TOOLS, "ip": "iproute2", "tshark": "tshark", "tcptrace": "tcptrace",
         "perl": "perl", "bwrap": "bubblewrap", "setpriv": "util-linux", "zstd": "zstd",
         "/usr/include/zstd.h": "libzstd-dev"}  # fmt: skip
NS3 = {"/usr/include/ns3/core-module.h": "libns3-dev", "g++": "g++"}
TOOLS: Mapping[str, Mapping[str, str]] = {
    "lint": {"make": "make"},
    "pep": {**BUILD_TOOLS, **SATPEP},
    "pages": {**BUILD_TOOLS, "chromium": "chromium"},
    "peers": {**BUILD_TOOLS, **NS3},
}
"""Part → programs and files that it needs of Debian, and their packages; others need the usual."""


@dataclass(frozen=True)
class Ended:
    """A part that has run; `tests` are seconds by test, slowest first."""

    name: str
    exit_code: int
    seconds: float
    tests: Sequence[tuple[float, str]] = ()

    def lines(self) -> list[str]:
        """Return its lines of the table."""
        result = "failed" if self.exit_code else "passed"
        tests = str(len(self.tests) or "")
        slowest = [f"{seconds:7.1f} {name:.90}" for seconds, name in self.tests[:SLOWEST]] or [""]
        first = f"{self.name:18} {result:6} {self.seconds:7.0f} {tests:>6} {slowest[0]}"
        return [first.rstrip(), *(f"{'':41}{line}" for line in slowest[1:])]


HEAD = f"{'part':18} {'result':6} {'seconds':>7} {'tests':>6} slowest (s)"


def tests_of(report: Path) -> list[tuple[float, str]]:
    """Return the tests of a file that pytest wrote (`--junitxml`), slowest first; [] without it."""
    if not report.exists():
        return []
    cases = ElementTree.parse(report).iter("testcase")
    tests = []
    for case in cases:
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        tests.append((float(case.get("time", 0)), name))
    return sorted(tests, reverse=True)


def half_of(number: int) -> list[str]:
    """Return every second file of the guest's tests: the first half (1), or the other (2)."""
    files = sorted((REPOSITORY / "tests/guest").glob("test_*.py"))
    return [str(file.relative_to(REPOSITORY)) for file in files[number - 1 :: 2]]


def words_of(part: str, report: Path, *, in_turn: bool = False) -> list[str]:
    """Return the command of a part; a nightly one in turn has less time than one of the night."""
    make = ["make", "--no-print-directory", f"PYTEST=--junitxml={report}"]
    if in_turn:
        make = ["timeout", "--kill-after=10", str(IN_TURN_LIMIT_S), *make]
    if part in HALVES:
        return [*make, "guest", f"GUEST={' '.join(half_of(1 + HALVES.index(part)))}"]
    name = part.removeprefix("nightly-")
    if name == part:
        return [*make, part]
    if name in LONG:
        return [*make, *LONG[name], f"SECONDS={FUZZ_IN_TURN_S if in_turn else FUZZ_S}"]
    files = " ".join(f"tests/guest/{file}.py" for file in NIGHTLY[name])
    return [*make, "guest", "MARK=nightly", f"GUEST={files}"]


def environment() -> dict[str, str]:
    """Return that of the user: the launcher would make our own Python anew if it found it first."""
    ours = str(Path(sys.prefix) / "bin")
    path = [place for place in os.environ["PATH"].split(":") if place != ours]
    return {**os.environ, "PATH": ":".join(path)}


def run(part: str, words: Sequence[str], report: Path, *, alone: bool = True) -> Ended:
    """Run a part; what it prints is kept together, at its end, if it does not run alone."""
    start_s = time.monotonic()
    if alone:
        print(f"== {part}", flush=True)
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        output = None if alone else log
        ended = subprocess.run(
            words, check=False, cwd=REPOSITORY, env=environment(), stdin=subprocess.DEVNULL,
            stdout=output, stderr=output,
        )  # fmt: skip
        seconds = time.monotonic() - start_s
        log.seek(0)
        said = "" if alone else f"== {part}\n{log.read()}"
    code = ended.returncode
    result = f"failed with {code} after" if code else "passed in"
    print(f"{said}== {part} {result} {seconds:.0f} s", flush=True)
    return Ended(part, code, seconds, tests_of(report))


def run_stage(parts: Sequence[str], place: Path, *, in_turn: bool = False) -> list[Ended]:
    """Run the parts of a stage at the same time."""
    with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1)) as pool:
        started = []
        for part in parts:
            report = place / f"{part}.xml"
            words = words_of(part, report, in_turn=in_turn)
            started.append(pool.submit(run, part, words, report, alone=len(parts) == 1))
        return [job.result() for job in started]


def installed(parts: Sequence[str]) -> Ended:
    """Install what the parts need of Debian, in one go, before any of them begins."""
    start_s = time.monotonic()
    tools: dict[str, str] = {}
    for part in parts:
        tools |= TOOLS.get(part, USUAL)
    try:
        ensure_tools(tools)
        code = 0
    except SetupError as error:
        print(f"packages: {error}", file=sys.stderr)
        code = 1
    return Ended("packages", code, time.monotonic() - start_s)


def commit_count() -> int:
    """Return how many commits there are up to this one."""
    command = ["git", "rev-list", "--count", "HEAD"]
    ended = subprocess.run(command, check=False, cwd=REPOSITORY, capture_output=True)
    return int(ended.stdout or 0)


def stamps() -> dict[str, int]:
    """Return for each nightly part that has passed at how many commits it did."""
    lines = STAMP.read_text().splitlines() if STAMP.exists() else []
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {part: int(count) for part, count in rows}


def stamp(parts: Sequence[str], count: int) -> None:
    """Note that nightly parts have passed."""
    known = {**stamps(), **dict.fromkeys(parts, count)}
    lines = [f"{part} {known[part]}" for part in NIGHTS if part in known]
    head = "# Nightly part, and the number of commits at which it last passed: make nightly"
    STAMP.write_text("\n".join([head, *lines]) + "\n")


def in_turn(count: int) -> str | None:
    """Return the stale nightly part whose turn it is at this commit, if one is stale."""
    known = stamps()
    stale = [part for part in IN_TURN if count - known.get(part, -STALE_COMMITS) >= STALE_COMMITS]
    return stale[count % len(stale)] if stale else None


def check(names: Sequence[str], place: Path) -> list[Ended]:
    """Run the parts of a check, then a nightly one if all were asked for and time is left."""
    stages = [tuple(part for part in stage if not names or part in names) for stage in STAGES]
    stages += [(part,) for part in HALVES if part in names]
    start_s = time.monotonic()
    ended = [installed([part for stage in stages for part in stage])]
    for stage in filter(None, stages):
        ended += run_stage(stage, place)
    failed = any(part.exit_code for part in ended)
    if names or failed or time.monotonic() - start_s > TIME_IS_LEFT_S:
        return ended
    if part := in_turn(commit_count()):
        print(f"== time is left: nightly part {part}, in turn", flush=True)
        ended += run_stage([f"nightly-{part}"], place, in_turn=True)
    return ended


def nightly(names: Sequence[str], place: Path) -> list[Ended]:
    """Run nightly parts, and note those that pass."""
    ended = [installed(["guest"])]
    for name in names or NIGHTS:
        (part,) = run_stage([f"nightly-{name}"], place)
        ended.append(part)
        if not part.exit_code:
            stamp([name], commit_count())
    return ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts of the command line; 1 if one failed."""
    parser = argparse.ArgumentParser(
        prog=".ci/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nightly", action="store_true", help="the nightly tests")
    parser.add_argument("part", nargs="*", help="all by default")
    asked = parser.parse_args(argv)
    known = NIGHTS if asked.nightly else [*(part for stage in STAGES for part in stage), *HALVES]
    if unknown := [part for part in asked.part if part not in known]:
        parser.error(f"no part {unknown[0]}; there are: {' '.join(known)}")
    with tempfile.TemporaryDirectory(prefix="openbach-run-parts-") as name:
        ended = (nightly if asked.nightly else check)(asked.part, Path(name))
    print("\n".join(["", HEAD, *(line for part in ended for line in part.lines())]), flush=True)
    return int(any(part.exit_code for part in ended))


if __name__ == "__main__":
    sys.exit(main())
