# SPDX-License-Identifier: GPL-3.0-or-later
"""Show what 2 us in the start of a job do to the figures: nothing should follow from them.

24 cells (GEO with PEP none and A, LEO with A; four VPNs; two congestion controls), as they are and
with the transfer's job begun 2 us later. Printed are both medians and their difference. The exit
code is 0 if none is above 1 %.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from openbach_run import load

REPOSITORY = Path(__file__).resolve().parents[1]
JOB, IMPORT = "file_transfer", "from __future__ import annotations\n"
SWEEPS = ("geo pep=none,A", "leo pep=A")
SWEEP = "vpn=none,wireguard,openvpn_udp,openvpn_tcp cc=cubic,bbr2 loss=0"
KEYS = ("orbit", "vpn", "pep", "cc")
WITHIN = 0.01


def medians(words: list[str], results: Path) -> dict[tuple[str, ...], float]:
    """Return the median transfer time of each cell in s."""
    command = [str(REPOSITORY / "openbach-run"), *words, "--results", str(results), "--quiet"]
    subprocess.run(command, check=True, cwd=REPOSITORY, stdout=subprocess.DEVNULL)
    cells = load(results).runs.groupby(list(KEYS), observed=True)
    found: dict[tuple[str, ...], float] = cells["transfer_time_s"].median().to_dict()
    return found


def shifted(job: Path, shift_us: float) -> Path:
    """Copy the job to `job`, with a sleep at its start."""
    shutil.copytree(REPOSITORY / "jobs" / JOB, job)
    program = job / f"files/{JOB}.py"
    sleep = f"import time\n\ntime.sleep({shift_us / 1e6})\n"
    program.write_text(program.read_text().replace(IMPORT, IMPORT + sleep))
    return job


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="20")
    parser.add_argument("--noise", default="host")
    parser.add_argument("--shift-us", type=float, default=2)
    arguments = parser.parse_args()
    most = 0.0
    with tempfile.TemporaryDirectory() as name:
        job = shifted(Path(name) / JOB, arguments.shift_us)
        for number, sweep in enumerate(SWEEPS):
            words = [*sweep.split(), *SWEEP.split(), f"noise={arguments.noise}"]
            words += ["--seeds", arguments.seeds]
            before = medians(words, Path(name) / f"{number}")
            after = medians([*words, "--jobs", str(job)], Path(name) / f"{number}-shifted")
            for cell, median_s in before.items():
                moved = after[cell] / median_s - 1
                most = max(most, abs(moved))
                print(
                    f"{' '.join(cell):32} {median_s:9.3f} {after[cell]:9.3f} {100 * moved:+7.2f} %"
                )
    print(f"at most {100 * most:.2f} %")
    sys.exit(0 if most <= WITHIN else 1)


if __name__ == "__main__":
    main()
