# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the same transfers here and in ns-3, and print both beside theory (`tools/dev tests/peers/beside_ns3.py`).

Bulk transfers without a VPN and a PEP: Reno and CUBIC, one-way delays of 250 ms (GEO) and 20 ms,
random loss of 0, 0.1 and 1 % in each direction, 3 and 30 MB, 10 Mbit/s, one bandwidth-delay product
of queue. Here it is Linux' TCP, there ns-3's own (Debian's libns3-dev). Random cells have as many
seeds as asked for; the random numbers differ, so medians are compared.

The second part times both in turn, each as a command: here the whole of it, from Python's start to
the table and the record, with a hash of every packet on every link; there the program alone, which
is built before, in two variants. One has the seven nodes of our path and a capture of each link
(pcap, in memory), the other four nodes and no capture: the least that gives the same times.

What theory says of random loss: Reno has 1.22 / √p packets in flight (Mathis et al., CCR 27(3),
1997), CUBIC 1.054 · (RTT / p)^0.75 with seconds, and at least what Reno has (RFC 9438, 4.3, 5.1).
Time-outs and the slow start are not in these. They need many losses: a transfer that expects fewer
than twenty has no theory.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import itertools
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from openbach_run.engine.virtual.debian import ensure_tools
from openbach_run.paths import cache_directory

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
SOURCE = HERE / "transfer.cc"
TOOLS = {"/usr/include/ns3/core-module.h": "libns3-dev", "g++": "g++"}
LIBRARIES = ("core", "network", "internet", "applications", "point-to-point", "traffic-control")
TYPES = {"cubic": "TcpCubic", "reno": "TcpLinuxReno"}
WITHOUT_JUMP = TYPES["reno"] + "WithoutJump"
"""Reno of transfer.cc: ns-3's, whose window does not grow with the ACK that ends a recovery."""
FIRST_IN_CPP20 = "3.43"
"""The version of Debian 13: its headers are C++20, those of 3.37 (Debian 12) are not."""
RATE_BPS = 10_000_000
FRAME_BYTES, DATA_BYTES = 1514, 1448
FEWEST_LOSSES = 20
INITIAL_PACKETS = 10
LINUX_MIN_RTO_S = 0.2


@dataclass(frozen=True, order=True)
class Cell:
    """One transfer over one path; `delay_ms` is one way, `loss_pct` in each direction."""

    delay_ms: int
    cc: str
    loss_pct: float
    size_bytes: int

    @property
    def rtt_s(self) -> float:
        """Return the round-trip time of the idle path."""
        return 2 * self.delay_ms / 1000

    @property
    def buffer_bytes(self) -> int:
        """Return one bandwidth-delay product."""
        return round(RATE_BPS * self.rtt_s / 8)


CELLS = tuple(
    Cell(*one)
    for one in itertools.product(
        (250, 20), ("reno", "cubic"), (0.0, 0.1, 1.0), (3_000_000, 30_000_000)
    )
)


def is_there() -> bool:
    """Return whether ns-3 and a compiler for C++ are installed."""
    return all(shutil.which(tool) or Path(tool).exists() for tool in TOOLS)


def version() -> str:
    """Return ns-3's, as `3.37`."""
    command = ["dpkg-query", "-W", "-f", "${Version}", "libns3-dev"]
    return subprocess.check_output(command, text=True).partition("-")[0]


def program() -> Path:
    """Return the ns-3 program; build it if this source was not built yet."""
    standard = "c++20" if version() >= FIRST_IN_CPP20 else "c++17"
    digest = hashlib.sha256(SOURCE.read_bytes() + version().encode()).hexdigest()[:16]
    built = cache_directory() / f"ns3-{digest}"
    if not built.exists():
        partial = built.with_suffix(f".{os.getpid()}")
        options = ["-O2", f"-std={standard}", "-Wall", "-Wextra", "-Werror"]
        libraries = [f"-lns3-{name}" for name in LIBRARIES]
        subprocess.run(
            ["g++", *options, str(SOURCE), "-o", str(partial), *libraries],
            check=True,
        )
        partial.rename(built)
    return built


def ns3_command(
    built: Path,
    cell: Cell,
    seed: int,
    nodes: int = 4,
    capture: Path | None = None,
    control: str | None = None,
) -> list[str]:
    """Return the command line of one transfer in ns-3.

    The least retransmission time-out is the RTT with a full queue and Linux' 200 ms: ns-3 compares
    its minimum with the whole time-out (RFC 6298), Linux with the part above the smoothed RTT.
    With 200 ms in ns-3 every RTT above that would be taken for a loss.
    """
    min_rto_s = 2 * cell.rtt_s + LINUX_MIN_RTO_S
    words = [
        str(built),
        f"--cc={control or TYPES[cell.cc]}",
        f"--rate_bps={RATE_BPS}",
        f"--delay_ms={cell.delay_ms}",
        f"--loss_pct={cell.loss_pct}",
        f"--size_bytes={cell.size_bytes}",
        f"--buffer_bytes={cell.buffer_bytes}",
        f"--min_rto_s={min_rto_s:.3f}",
        f"--seed={seed}",
        f"--nodes={nodes}",
    ]
    return words if capture is None else [*words, f"--capture={capture}"]


def in_ns3(
    cells: Iterable[Cell], seeds: int, control: str | None = None
) -> dict[Cell, list[dict[str, float]]]:
    """Run cells in ns-3, on all CPUs; return what each seed printed.

    `control` is the congestion control if it is not the cell's own.
    """
    built = program()
    runs = [
        (cell, seed) for cell in cells for seed in range(1, (seeds if cell.loss_pct else 1) + 1)
    ]

    def run(one: tuple[Cell, int]) -> dict[str, float]:
        printed = subprocess.run(
            ns3_command(built, *one, control=control), check=True, capture_output=True, text=True
        ).stdout
        return {name: float(value) for name, value in json.loads(printed).items()}

    found: dict[Cell, list[dict[str, float]]] = {}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for (cell, _), result in zip(runs, pool.map(run, runs), strict=True):
            found.setdefault(cell, []).append(result)
    return found


def our_command(cells: Iterable[Cell], seeds: int, results: Path) -> list[str]:
    """Return the command line of all combinations of the cells' values here."""
    values = {
        "cc": {one.cc for one in cells},
        "delay_ms": {str(one.delay_ms) for one in cells},
        "loss": {f"{one.loss_pct:g}" for one in cells},
        "size": {str(one.size_bytes) for one in cells},
    }
    words = [f"{name}={','.join(sorted(given))}" for name, given in values.items()]
    return [
        str(REPOSITORY / "openbach-run"), "geo", "vpn=none", "pep=none", *words,
        "--seeds", str(seeds), "--results", str(results), "--rerun", "--quiet",
    ]  # fmt: skip


def environment() -> dict[str, str]:
    """Return this process's environment without what would change the command's Python."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "OPENBACH_RUN_EXTRA"))
    }


def here(cells: Sequence[Cell], seeds: int) -> dict[Cell, list[float]]:
    """Run cells with this project; return the transfer times of each one's seeds in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        subprocess.run(
            our_command(cells, seeds, results),
            check=True,
            env=environment(),
            stdout=subprocess.DEVNULL,
        )
        rows = list(csv.DictReader((results / "results.csv").open()))
    found: dict[Cell, list[float]] = {}
    for row in rows:
        cell = Cell(int(row["delay_ms"]), row["cc"], float(row["loss"]), int(row["size"]))
        found.setdefault(cell, []).append(float(row["transfer_time_s"]))
    return {cell: found[cell] for cell in cells}


def expected_s(cell: Cell) -> float:
    """Return what theory says of a cell's transfer time in seconds; NaN if it says nothing.

    Without loss: the slow start doubles the window each round trip until it fills the link, then
    the rest is sent at the link's rate. With loss: the mean window of the loss process (head of
    this file), where that is less than the link takes.
    """
    packets = math.ceil(cell.size_bytes / DATA_BYTES)
    packet_s = FRAME_BYTES * 8 / RATE_BPS
    full = cell.rtt_s / packet_s
    rounds, sent, window = 0, 0.0, float(INITIAL_PACKETS)
    while window < full and sent + window < packets:
        rounds, sent, window = rounds + 1, sent + window, window * 2
    without_loss_s = rounds * cell.rtt_s + (packets - sent) * packet_s
    if not cell.loss_pct:
        return without_loss_s
    p = cell.loss_pct / 100
    if packets * p < FEWEST_LOSSES:
        return math.nan
    mean = 1.22 / math.sqrt(p)
    if cell.cc == "cubic":
        mean = max(mean, 1.054 * (cell.rtt_s / p) ** 0.75)
    return max(without_loss_s, packets / min(mean, full) * cell.rtt_s)


def table(ours: Mapping[Cell, list[float]], theirs: Mapping[Cell, list[dict[str, float]]]) -> str:
    """Return the cells as text: medians with their range, ratio, theory, and ns-3's slow start."""
    lines = [
        f"{'delay_ms':>8} {'cc':5} {'loss %':>6} {'MB':>3} {'here (s)':>24} {'ns-3 (s)':>24}"
        f" {'here/ns-3':>9} {'theory':>7}  ns-3: end of slow start, packets dropped by the queue"
    ]
    for cell, times in ours.items():
        runs = theirs[cell]
        others = [one["transfer_time_s"] for one in runs]
        sides = []
        for side in (times, others):
            middle = statistics.median(side)
            spread = f" ({min(side):.1f}–{max(side):.1f})" if len(set(side)) > 1 else ""
            sides.append(f"{middle:.2f}{spread}")
        ratio = statistics.median(times) / statistics.median(others)
        window = statistics.median(one["cwnd_at_slow_start_end_packets"] for one in runs)
        drops = statistics.median(one["queue_drops"] for one in runs)
        lines.append(
            f"{cell.delay_ms:>8} {cell.cc:5} {cell.loss_pct:>6g} {cell.size_bytes // 10**6:>3}"
            f" {sides[0]:>24} {sides[1]:>24} {ratio:>9.2f} {expected_s(cell):>7.1f}"
            f"  at {window:.0f} packets, {drops:.0f}"
        )
    return "\n".join(lines)


RECOVERY = {
    "recoveries": "recoveries",
    "timeouts": "time-outs",
    "cwnd_at_loss_packets": "cwnd at loss",
    "cwnd_after_packets": "after",
    "jump_packets": "and its jump",
    "cwnd_mean_packets": "mean cwnd",
    "recovery_s": "in recovery (s)",
}


def reno_with_loss(seeds: int) -> str:
    """Return why Reno with loss is faster in ns-3: what its recoveries end with, as text."""
    cells = [Cell(delay_ms, "reno", 1.0, 30_000_000) for delay_ms in (20, 250)]
    ours = here(cells, seeds)
    lines = [
        f"{'Reno, 1 %, 30 MB':28} {'time (s)':>9}" + "".join(f" {w:>15}" for w in RECOVERY.values())
    ]
    for cell in cells:
        name = f"{cell.delay_ms} ms"
        lines.append(f"{name + ', here':28} {statistics.median(ours[cell]):>9.1f}")
        for words, control in (("ns-3", None), ("ns-3 without the jump", WITHOUT_JUMP)):
            runs = in_ns3([cell], seeds, control)[cell]
            line = f"{name + ', ' + words:28} {statistics.median(one['transfer_time_s'] for one in runs):>9.1f}"
            for key in RECOVERY:
                line += f" {statistics.median(one[key] for one in runs):>15.1f}"
            lines.append(line)
    return "\n".join(lines)


def cost(command: Sequence[str]) -> tuple[float, float]:
    """Run a command; return its wall and CPU time in seconds, children included."""
    before, start_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, env=environment(), stdout=subprocess.DEVNULL)
    wall_s, after = time.monotonic() - start_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


VARIANTS = {"ns-3, 7 nodes, capture": (7, True), "ns-3, 4 nodes": (4, False)}


def speed(cells: Sequence[Cell], pairs: int) -> str:
    """Time all in turn, a cell at a time; return the medians and their ratios as text."""
    built = program()
    head = "".join(f"{name:>34}" for name in VARIANTS)
    of_each = "".join(f"{'wall':>8} {'CPU':>6} {'ratio':>9} {'(CPU)':>8}" for _ in VARIANTS)
    lines = [
        f"{'':24} {'here':>13}{head}   medians; ratio: of each pair, over here",
        f"{'':24} {'wall':>6} {'CPU':>6}{of_each}",
    ]
    for cell in cells:
        measured: list[list[tuple[float, float]]] = [[] for _ in (None, *VARIANTS)]
        # A disk would be a part of neither: /dev/shm is memory.
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            commands = [[*our_command([cell], 1, Path(folder) / "results"), "--workers", "1"]]
            for nodes, captures in VARIANTS.values():
                capture = Path(folder) / "capture" if captures else None
                commands.append(ns3_command(built, cell, 1, nodes, capture))
            for number in range(pairs):
                turn = range(len(commands))
                for which in turn if number % 2 else reversed(turn):
                    measured[which].append(cost(commands[which]))
        ours, *others = measured
        name = f"{cell.delay_ms} ms {cell.cc} {cell.loss_pct:g} % {cell.size_bytes // 10**6} MB"
        wall_s, cpu_s = (statistics.median(one[kind] for one in ours) for kind in (0, 1))
        line = f"{name:24} {wall_s:6.2f} {cpu_s:6.2f}"
        for side in others:
            wall_s, cpu_s = (statistics.median(one[kind] for one in side) for kind in (0, 1))
            ratios = []
            for kind in (0, 1):
                of_pairs = [b[kind] / a[kind] for a, b in zip(ours, side, strict=True)]
                ratios.append(statistics.median(of_pairs))
            line += f"{wall_s:8.2f} {cpu_s:6.2f} {ratios[0]:9.2f} {ratios[1]:8.2f}"
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5, help="of each random cell")
    parser.add_argument("--pairs", type=int, default=5, help="of each timed cell; 0: none")
    arguments = parser.parse_args()
    ensure_tools(TOOLS)
    if arguments.seeds:
        print(f"{arguments.seeds} seeds in each random cell: median (least–greatest)", flush=True)
        print(table(here(CELLS, arguments.seeds), in_ns3(CELLS, arguments.seeds)), flush=True)
        print(f"\n{reno_with_loss(arguments.seeds)}", flush=True)
    if arguments.pairs:
        print(f"\n{arguments.pairs} pairs, load average {os.getloadavg()[0]:.1f}", flush=True)
        large = [one for one in CELLS if one.size_bytes == 30_000_000 and one.loss_pct != 0.1]
        print(
            speed(
                [one for one in large if one.cc == "cubic" or not one.loss_pct][:5], arguments.pairs
            )
        )


if __name__ == "__main__":
    main()
