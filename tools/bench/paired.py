# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the speed of this checkout with another commit's, in pairs of runs.

    python tools/bench/paired.py 4bfc390 [--pairs 5] [--matrix]

Machines differ, and so does one machine from hour to hour. Both commits therefore run the same
command in turn, on the same CPU, and what counts is the ratio of each pair: the median of the
pairs, and the interval in which the true median lies with at least 90 % (binomial, from the ordered
pairs). Compared are the CPU seconds of the whole command as typed, all its processes, the wall time
of that, and the wall time of the run in it, from boot to power off. Of a machine that does other
things meanwhile, the CPU seconds say most; they too are larger then.

The other commit gets a worktree, /tmp/openbach-run-COMMIT by default, and its own kernel and guest
tree in the usual cache: 5 to 10 minutes once.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CELLS = [
    [orbit, f"vpn={vpn}", "cc=cubic"]
    for orbit, vpn in itertools.product(
        ("geo", "leo"), ("none", "wireguard", "openvpn_udp", "openvpn_tcp")
    )
]
MATRIX = ["campaigns/matrix.yml"]  # a path that commits before the library have, too
CONFIDENCE = 0.9


@dataclass(frozen=True)
class Cost:
    """The cost of one command in seconds; `run_s` is the wall time of its runs."""

    cpu_s: float
    wall_s: float
    run_s: float


def interval(ratios: Sequence[float]) -> tuple[float, float] | None:
    """Return the interval of the median; none if there are too few pairs for it.

    It is binomial: from how many pairs lie below the true median.
    """
    ordered, count = sorted(ratios), len(ratios)
    # From the narrowest interval outwards: the first that is wide enough is the answer.
    for outside in range((count - 1) // 2, -1, -1):
        beyond = 2 * sum(math.comb(count, k) for k in range(outside + 1)) / 2**count
        if 1 - beyond >= CONFIDENCE:
            return ordered[outside], ordered[-1 - outside]
    return None


def run_once(checkout: Path, arguments: Sequence[str], results: Path, workers: int) -> Cost:
    """Run a command of a checkout once, and return what it cost."""
    # One seed: how many there are without it is not the same in each commit.
    command = [str(checkout / "openbach-run"), *arguments, "--seeds", "1", "--rerun", "--quiet"]
    environment = {
        name: value
        for name, value in os.environ.items()
        # Each checkout has its own environment of Python.
        if not name.startswith(("PYTHON", "OPENBACH_RUN_EXTRA"))
    }
    before, start_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [*command, "--results", str(results), "--workers", str(workers)],
        check=True,
        cwd=checkout,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    wall_s, after = time.monotonic() - start_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    rows = list(csv.DictReader((results / "results.csv").open()))
    failed = [row["status"] for row in rows if row["status"] != "Finished Ok"]
    assert not failed, f"{checkout}: {failed}"
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu_s, wall_s, sum(float(row["wall_s"]) for row in rows))


def worktree(commit: str, place: Path) -> Path:
    """Return the worktree of a commit; make it if it is not there."""
    if not place.exists():
        subprocess.run(
            ["git", "worktree", "add", "--detach", str(place), commit], check=True, cwd=REPOSITORY
        )
    return place


def compare(
    checkouts: tuple[Path, Path], arguments: Sequence[str], pairs: int, workers: int
) -> list[tuple[Cost, Cost]]:
    """The other commit's cost and this one's, pair by pair, who is first in turn.

    The first pair sets up and is left out.
    """
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / name for name in ("other", "this")]
        costs = []
        for number in range(-1, pairs):
            pair = {}
            # Who is first changes from pair to pair: caches and clock rates favour one of the two.
            for which in (0, 1) if number % 2 else (1, 0):
                pair[which] = run_once(checkouts[which], arguments, places[which], workers)
            costs.append((pair[0], pair[1]))
        return costs[1:]


def shown(costs: Sequence[tuple[Cost, Cost]]) -> str:
    """Return the ratios of the pairs as text, each with its interval."""
    words = []
    for name in ("cpu_s", "wall_s", "run_s"):
        both = [(getattr(other, name), getattr(this, name)) for other, this in costs]
        ratios = [other / this for other, this in both]
        ends = interval(ratios)
        within = f"{ends[0]:.2f}–{ends[1]:.2f}" if ends else "?"
        before, after = (statistics.median(side) for side in zip(*both, strict=True))
        words.append(f"{before:7.2f} {after:7.2f} {statistics.median(ratios):5.2f} {within:>10}")
    return "  ".join(words)


def main() -> None:
    """Run the pairs, and print a line for each compared command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit", help="what to compare this checkout with")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument(
        "--worktree", type=Path, help="where the other commit is, or is to be checked out"
    )
    parser.add_argument(
        "--matrix", action="store_true", help="also the 144 cells, on all CPUs, one pair"
    )
    parser.add_argument(
        "--only",
        choices=sorted({word for cell in CELLS for word in cell}),
        help="only the cells with this word",
    )
    arguments = parser.parse_args()
    other = worktree(
        arguments.commit, arguments.worktree or Path(f"/tmp/openbach-run-{arguments.commit}")
    )
    print(
        f"load average {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} CPUs,"
        f" {arguments.pairs} pairs"
    )
    names = ("CPU of the command", "wall of the command", "wall of the run")
    heads = [f"{'before':>7} {'now':>7} {'ratio':>5} {'interval':>10}"] * len(names)
    print(" " * 28 + "  ".join(f"{name:>32}" for name in names))
    print(" " * 28 + "  ".join(heads), flush=True)
    for cell in CELLS:
        if arguments.only in (None, *cell):
            costs = compare((other, REPOSITORY), cell, arguments.pairs, 1)
            print(f"{' '.join(cell[:2]):28}{shown(costs)}", flush=True)
    if arguments.matrix:
        costs = compare((other, REPOSITORY), MATRIX, 1, os.cpu_count() or 1)
        print(f"{'matrix, 144 cells':28}{shown(costs)}")


if __name__ == "__main__":
    main()
