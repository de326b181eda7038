# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of a return link that has to be asked for (`tools/dev tools/bench/return_link.py`).

First the model alone, in user space: nanoseconds of wall time for a superframe and terminal, with
25 to 400 simulated terminals that ask for more than there is. It should not grow with their number.
Then, in the guest, how many times as fast as real time a download is over geo_rcs2, as a share of
geo's. The two take turns, and the median of the pairs counts.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "kernel/modules/dama"
TERMINALS = (25, 50, 100, 200, 400)
SECONDS, SUPERFRAME_US = 600, 26_500
PAIRS = 5
LEAST_SHARE = 0.7
VALUES = {
    "superframe_us": SUPERFRAME_US, "delay_us": 250_000, "request_period": 8, "request_rtt": 23,
    "rbdc_life": 39, "vbdc_life": 39, "burst_bytes": 59, "over_request_pct": 110,
    "cra_bps": 16_000, "rbdc_bps": 1_000_000, "queue_bytes": 100_000, "queue_packets": 1000,
    "terminals": 1, "simulated_bps": 200_000, "simulated_deviation_bps": 100_000,
    "simulated_on_us": 10_000_000, "simulated_off_us": 10_000_000, "seed": 1,
}  # fmt: skip


def model_ns(program: Path, terminals: int) -> float:
    """Return the wall time of a superframe and terminal, where half of the demand is met."""
    slots = terminals * 50_000 * SUPERFRAME_US // (8_000_000 * 59)
    values = {**VALUES, "simulated": terminals, "slots": slots}
    text = " ".join(f"{name}={value}" for name, value in values.items())
    began = time.perf_counter_ns()
    subprocess.run(
        [program], input=f"{text}\nend {SECONDS * 1_000_000}\n", text=True, check=True,
        capture_output=True,
    )  # fmt: skip
    taken = time.perf_counter_ns() - began
    return taken / (SECONDS * 1_000_000 / SUPERFRAME_US) / terminals


def speed(orbit: str, place: Path) -> float:
    """Return virtual by wall time of a download of 30 MB."""
    words = ["geo", f"orbit={orbit}", "vpn=none", "cc=cubic", "size=30M", "--quiet", "--rerun"]
    subprocess.run(
        [REPOSITORY / "openbach-run", *words, "--results", str(place)],
        check=True, capture_output=True,
    )  # fmt: skip
    with (place / "results.csv").open() as file:
        (row,) = csv.DictReader(file)
    return float(row["virtual_s"]) / float(row["wall_s"])


def main() -> int:
    """Print the figures; return 1 if geo_rcs2 is slower than it may be."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    with tempfile.TemporaryDirectory(prefix="openbach-run-") as folder:
        place = Path(folder)
        program = place / "dama"
        sources = [REPOSITORY / "tests/unit/dama.c", SOURCE / "core.c"]
        subprocess.run(["gcc", "-O2", f"-I{SOURCE}", *sources, "-o", program], check=True)
        model_ns(program, TERMINALS[0])
        for terminals in TERMINALS:
            print(
                f"{terminals:4} terminals: {model_ns(program, terminals):7.1f} ns each", flush=True
            )
        shares = []
        for pair in range(PAIRS):
            both = [speed(orbit, place / f"{pair}-{orbit}") for orbit in ("geo", "geo_rcs2")]
            shares.append(both[1] / both[0])
            print(f"geo {both[0]:.1f}, geo_rcs2 {both[1]:.1f}: {shares[-1]:.2f}", flush=True)
    share = statistics.median(shares)
    print(f"geo_rcs2 has {share:.2f} of geo's speed (at least {LEAST_SHARE})")
    return 0 if share >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
