# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure speed as ratios on this machine (`make bench`).

Absolute times are only an order of magnitude.

- Virtual time over wall time of a single run (CUBIC, 30 MB), for each VPN, on GEO and on LEO, whose
  delay changes every second: of the run itself, from boot to power off with its record, and of the
  whole command as typed, the start of Python included.
- Overhead: the wall time of openbach-run's run over that of bare.sh, a transfer in hand-made
  namespaces on the same kernel. The two are run in turn, and what counts is the median of the
  ratios: no machine is as fast as a minute before.
- An empty run: boot, nothing, power off.
- Virtual time over wall time of a cell of each suite of the published comparisons.
- The published report's matrix (library/campaigns/matrix.yml) as one command on all CPUs.
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
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from openbach_run.engine.contract import Outcome
from openbach_run.engine.virtual.engine import VirtualEngine

REPOSITORY = Path(__file__).resolve().parents[2]
MATRIX = "library/campaigns/matrix.yml"
ENVIRONMENT = {**os.environ, "PYTHONPATH": "src", "PYTHONDONTWRITEBYTECODE": ""}
"""Of commands: they keep what Python compiles, as the launcher has it."""
VPNS = {"none": 20, "wireguard": 20, "openvpn_udp": 8, "openvpn_tcp": 8}
"""And the ratio that each is to reach."""
REPEATS = 3
PAIRS = 9
CPU = 0
MATRIX_LIMIT_S = 600
SUITES = (
    *(("lan_tcp", "vpn=wireguard"), ("lan_udp", "vpn=wireguard"), ("lan_ping", "vpn=wireguard")),
    *(("lan_video", "vpn=wireguard", "impairment=none"), ("lan_cache", "vpn=wireguard")),
    *(("lan_reconnect", "vpn=wireguard", "event=reboot"), ("lan_stability", "vpn=wireguard")),
    *(
        ("multipath", "vpn=openvpn_mptcp", "event=drop"),
        ("multipath_udp", "vpn=openvpn_mptcp", "event=drop"),
    ),
)
"""A cell of each suite of docs/comparisons.md."""

BARE = "/opt/openbach-run/jobs/bare.sh"
GUEST_MAIN = """
import json, subprocess, time
def main():
    with open("/run/openbach/output", "w") as output:
        subprocess.run({command!r}, stdout=output, stderr=output, check=True)
    with open("/run/openbach/result.json", "w") as file:
        json.dump({{"status": "Finished Ok", "virtual_s": time.monotonic(), "failed": []}}, file)
"""


def bare_guest(command: list[str], folder: Path) -> Callable[[], Outcome]:
    """Run a command in a guest without director and jobs; bare.sh is at hand as BARE."""
    guest = folder / "code/openbach_run/guest"
    guest.mkdir(parents=True)
    for package in (guest.parent, guest):
        (package / "__init__.py").touch()
    (guest / "main.py").write_text(GUEST_MAIN.format(command=command))
    (folder / "jobs").mkdir()
    shutil.copy(REPOSITORY / "tools/bench/bare.sh", folder / "jobs")
    engine = VirtualEngine(REPOSITORY, {"src": folder / "code", "jobs": folder / "jobs"})
    engine.prepare(lambda text, part: None)

    def run() -> Outcome:
        outcome = engine.run(
            {"seed": 1}, Path(tempfile.mkdtemp(dir=folder)), CPU, lambda event: None
        )
        assert outcome.error is None, outcome.error
        return outcome

    return run


def overhead(bare: Callable[[], Outcome], results: Path) -> str:
    """The median of the pairs, the least and the greatest."""
    ratios = []
    for number in range(PAIRS):
        before = bare().wall_s if number % 2 else 0
        run_s = float(run_cell(results, "geo", "vpn=none", "cc=cubic")["wall_s"])
        ratios.append(run_s / (before or bare().wall_s))
    return (
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), {PAIRS} pairs"
    )


def scenario_run(orbit: str, vpn: str, results: Path) -> dict[str, Any]:
    """Return the results.csv row of the quickest of some runs, with `command_s`.

    That is the wall time of its whole command.
    """
    rows = []
    for _ in range(REPEATS):
        start_s = time.monotonic()
        row = run_cell(results / orbit / vpn, orbit, f"vpn={vpn}", "cc=cubic")
        rows.append({**row, "command_s": time.monotonic() - start_s})
    return min(rows, key=lambda row: row["command_s"])


def run_cell(results: Path, *words: str) -> dict[str, Any]:
    """Row of results.csv of the one run that the words of the command line ask for."""
    subprocess.run(
        [
            sys.executable,
            "-m",
            "openbach_run",
            *words,
            "--rerun",
            "--quiet",
            "--workers",
            "1",
            "--results",
            str(results),
        ],
        check=True,
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
    )
    (row,) = csv.DictReader((results / "results.csv").open())
    return row


def suites(results: Path, cells: Sequence[Sequence[str]] = SUITES) -> Iterator[str]:
    """Yield for each suite a cell, its virtual time, its wall time, their ratio."""
    for number, words in enumerate(cells):
        row = run_cell(results / str(number), *words)
        virtual_s, wall_s = float(row["virtual_s"]), float(row["wall_s"])
        yield f"{' '.join(words):48}  {virtual_s:7.1f}  {wall_s:6.2f}  {virtual_s / wall_s:5.1f}"


def matrix(results: Path) -> str:
    """Return the cells of the matrix, its virtual time and wall time, and their ratio."""
    start_s = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "openbach_run", MATRIX, "--results", str(results)],
        check=False,
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
    )
    wall_s = time.monotonic() - start_s
    rows = list(csv.DictReader((results / "results.csv").open()))
    virtual_s = sum(float(row["virtual_s"]) for row in rows)
    failed = sum(row["status"] != "Finished Ok" for row in rows)
    return (
        f"{len(rows)} cells ({failed} failed), {virtual_s:.0f} virtual s in {wall_s:.0f} s on"
        f" {len(os.sched_getaffinity(0))} CPUs: {virtual_s / wall_s:.1f} (144 cells to be at most"
        f" {MATRIX_LIMIT_S} s)"
    )


def main() -> None:
    """Print each measurement as soon as it is taken."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        empty, transfer = (
            bare_guest(["true"], folder / "empty"),
            bare_guest(["sh", BARE], folder / "bare"),
        )
        print(
            f"empty run                 {min(empty().wall_s for _ in range(REPEATS)):.2f} s (to be"
            " at most 1)"
        )
        bare = min((transfer() for _ in range(REPEATS)), key=lambda outcome: outcome.wall_s)
        print(
            f"bare transfer             {bare.virtual_s:.1f} virtual s in {bare.wall_s:.2f} s: "
            f"{bare.virtual_s / bare.wall_s:.1f}"
        )
        print(f"  a run over it: {overhead(transfer, folder / 'overhead')} (to be at most 1.2)")
        print(f"{'':24}  virtual s   run s  ratio   command s  ratio   to be")
        for orbit, (vpn, wanted) in itertools.product(("geo", "leo"), VPNS.items()):
            row = scenario_run(orbit, vpn, folder)
            virtual_s, wall_s, command_s = (
                float(row["virtual_s"]),
                float(row["wall_s"]),
                row["command_s"],
            )
            print(
                f"{f'{orbit} vpn={vpn}':24}  {virtual_s:9.1f}  {wall_s:6.2f} "
                f" {virtual_s / wall_s:5.1f}  {command_s:10.2f}  {virtual_s / command_s:5.1f}  ≥"
                f" {wanted:4}"
            )
        print(f"{'':48}  virtual s   run s  ratio")
        for line in suites(folder / "suites"):
            print(line)
        print(f"the report's matrix       {matrix(folder / 'matrix')}")


if __name__ == "__main__":
    main()
