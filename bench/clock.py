# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the virtual clock with the real one, on the same kernel (`make bench-clock`).

The same runs with both clocks: downloads over GEO and LEO without loss, for each VPN and congestion
control, and pings. In real time a repetition differs by whatever else the machine did. Printed are
the medians with their 95 % intervals, the ratio (of transfer times) or the difference (of
round-trip times), and whether it is within what it should be. The token bucket follows the clock,
and changes a transfer too (by up to 2 %): so what counts is real time against virtual time with the
same bucket; virtual time as it is stands beside it. A clock ten times slower (`--clocks
real,real/10`) makes ten times less of whatever disturbs the machine. Real time takes real time:
some 10 s a run and half an hour with three repetitions, and of real/10 ten times that. Nothing else
should run meanwhile. A guest a hundred times slower uses 2 % of a CPU, and a disturbance of 10 ms
is 0.1 ms for it: with `--clocks real/100 --workers 24` two dozen run at the same time. Or virtual
time gets a disturbance: with `--jitter-ms 0.5` downloads with the same bucket have so much jitter
on the satellite link.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from openbach_run.clock import REAL, VIRTUAL
from openbach_run.results.intervals import estimate
from openbach_run.results.tables import figure

REPOSITORY = Path(__file__).resolve().parents[1]
VPNS, CONTROLS, ORBITS = "none,wireguard,openvpn_udp,openvpn_tcp", "cubic,bbr2", "geo,leo"
SAME_BUCKET = "virtual, ten packets"
RATIO_WITHIN, RTT_WITHIN_MS = 0.01, 1.0
Cell = tuple[str, ...]


def measured(
    scenario: str,
    measure: str,
    keys: Sequence[str],
    results: Path,
    options: Sequence[str],
    words: Sequence[str],
) -> dict[Cell, list[float]]:
    """The measure of each cell's repetitions, as far as they finished."""
    command = [
        sys.executable,
        "-m",
        "openbach_run",
        scenario,
        *words,
        *options,
        "--results",
        str(results),
        "--quiet",
    ]
    environment = {**os.environ, "PYTHONPATH": "src"}
    subprocess.run(command, check=False, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL)
    found: dict[Cell, list[float]] = {}
    for row in csv.DictReader((results / "results.csv").open()):
        values = found.setdefault(tuple(row[key] for key in keys), [])
        if row["status"] == "Finished Ok":
            values.append(float(row[measure]))
    return found


def options_of(clock: str, workers: int | None, folder: Path) -> list[str]:
    """Return the command's options.

    `folder` gets the job satcom_link with the bucket of real time.
    """
    if clock == VIRTUAL:
        return []
    if clock != SAME_BUCKET:
        return ["--clock", clock, "--workers", str(workers or 1)]
    job = folder / "satcom_link"
    shutil.copytree(REPOSITORY / "jobs/satcom_link", job, dirs_exist_ok=True)
    with (job / "files/fragments.py").open("a") as module:  # one that the job imports
        module.write('\nfrom openbach_jobs import netem\n\nnetem.CLOCK = "NO_CLOCK"\n')
    return ["--jobs", str(job)]


def compared(
    title: str, unit: str, by_clock: Mapping[str, Mapping[Cell, list[float]]], as_ratio: bool
) -> bool:
    """Print a line for each cell and real clock; whether all are as they should be."""
    bound = RATIO_WITHIN if as_ratio else RTT_WITHIN_MS
    words = f"ratio, 1 ± {bound:g}" if as_ratio else f"difference, ± {bound:g} {unit}"
    print(f"\n{f'{title} ({unit})':36}{VIRTUAL:>26}{SAME_BUCKET:>26}  {'clock':10}{'':24}  {words}")
    good = True
    for cell, clock in itertools.product(by_clock[VIRTUAL], list(by_clock)[2:]):
        taken = {one: by_clock[one].get(cell, []) for one in (VIRTUAL, SAME_BUCKET, clock)}
        if not all(taken.values()):
            print(
                f"{' '.join(cell):36}  without a finished run:"
                f" {', '.join(one for one in taken if not taken[one])}"
            )
            good = False
            continue
        virtual, real = (statistics.median(taken[one]) for one in (SAME_BUCKET, clock))
        found = real / virtual if as_ratio else real - virtual
        off = abs(found - 1) if as_ratio else abs(found)
        good &= off <= bound
        shown = [figure(estimate(values), 3) for values in taken.values()]
        end = "" if off <= bound else "  NOT WITHIN"
        print(
            f"{' '.join(cell):36}{shown[0]:>26}{shown[1]:>26}  {clock:10}{shown[2]:>24} "
            f" {found:.4f}{end}"
        )
    return good


def _file(clock: str) -> str:
    return clock.replace("/", "_")


def main() -> None:
    """Print the comparison of clocks for the scenarios of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--size", default="5M")
    parser.add_argument("--vpns", default=VPNS)
    parser.add_argument("--controls", default=CONTROLS)
    parser.add_argument("--orbits", default=ORBITS)
    parser.add_argument("--clocks", default=REAL, help="real ones (default real)")
    parser.add_argument(
        "--jitter-ms",
        type=float,
        default=0,
        help="of downloads in virtual time with the same bucket",
    )
    parser.add_argument(
        "--workers", type=int, help="runs at the same time in real time (default 1)"
    )
    parser.add_argument("--results", type=Path, help="kept there; what is there is not run again")
    arguments = parser.parse_args()
    print(
        f"load average {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} CPUs,"
        f" {arguments.repetitions} repetitions"
    )
    print("token bucket: one packet (1540 bytes) in virtual time, ten (15400 bytes) in real time")
    if arguments.jitter_ms:
        print(
            f"jitter of downloads in virtual time with ten packets: {arguments.jitter_ms:g} ms",
            flush=True,
        )
    with tempfile.TemporaryDirectory() as name:
        place = arguments.results or Path(name)
        same = ["loss=0", f"vpn={arguments.vpns}", "--seeds", str(arguments.repetitions)]
        clocks = (VIRTUAL, SAME_BUCKET, *arguments.clocks.split(","))
        times: dict[str, dict[Cell, list[float]]] = {clock: {} for clock in clocks}
        pings: dict[str, dict[Cell, list[float]]] = {clock: {} for clock in clocks}
        for orbit, clock in itertools.product(arguments.orbits.split(","), clocks):
            words = [f"cc={arguments.controls}", f"size={arguments.size}", *same]
            if clock == SAME_BUCKET and arguments.jitter_ms:
                words.append(f"jitter_ms={arguments.jitter_ms:g}")
            keys = ("orbit", "vpn", "cc")
            options = options_of(clock, arguments.workers, Path(name))
            times[clock] |= measured(
                orbit, "transfer_time_s", keys, place / f"{orbit}-{_file(clock)}", options, words
            )
            words = [f"orbit={orbit}", *same]
            path = place / f"{orbit}-pings-{_file(clock)}"
            pings[clock] |= measured(
                "bench/path_ping.yml", "ping_rtt_ms", ("orbit", "vpn"), path, options, words
            )
    good = compared(f"transfer of {arguments.size}", "s", times, as_ratio=True)
    good &= compared("round-trip time, median of pings", "ms", pings, as_ratio=False)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
