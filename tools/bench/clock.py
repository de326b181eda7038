# SPDX-License-Identifier: GPL-3.0-or-later
r"""Compare virtual time, with its hosts' noise, with a real clock (`make bench-clock`).

Downloads over GEO and LEO through four VPNs, without loss: 20 seeds in virtual time beside 20
repetitions on the same kernel with a real clock ten times slower (`--clock real/10`), which makes
ten times less of what disturbs this machine. Both are printed as median [10th to 90th percentile],
with the ratio of the medians, whether the real median lies within all of virtual time's, and the
p value of a two-sample test (Kolmogorov and Smirnov). The exit code is 0 if in all cells but one
the medians differ by less than 3 % and the real one lies within. A run takes ten times as long as
what it measures. One goes on each CPU, since iperf3 takes a whole one after its last byte; nothing
else should run meanwhile. A real clock's token bucket has two packets, virtual time's one: by that
alone `bbr2` over LEO differs by 1.5 % (docs/trust.md has both with two, by a change of
`bucket_bytes` in src/openbach_jobs/netem.py).

--beside compares with other words. That nothing follows from 2 us in a transfer's start:

    cp -r jobs/file_transfer /tmp; cd /tmp/file_transfer/files
    sed -i "s/^from __fut.*/&\nimport time\ntime.sleep(2e-6)/" file_transfer.py
    clock.py --beside="--jobs /tmp/file_transfer" --within 0.01 --may-differ 0 --cells CELL...
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from scipy import stats

from openbach_run import load

REPOSITORY = Path(__file__).resolve().parents[2]
CELLS = (
    "geo vpn=none cc=cubic size=30M",
    "geo vpn=wireguard cc=bbr2 size=5M",
    "geo vpn=openvpn_udp cc=bbr size=5M",
    "geo vpn=openvpn_tcp cc=cubic size=5M",
    "leo vpn=none cc=bbr2 size=30M",
    "leo vpn=wireguard cc=bbr size=5M",
    "leo vpn=openvpn_udp cc=cubic size=30M",
    "leo vpn=openvpn_tcp cc=bbr2 size=5M",
)


def times_s(cell: str, options: Iterable[str], seeds: int, results: Path) -> list[float]:
    """Return the transfer times of a cell's runs, those that finished."""
    words = [*cell.split(), "loss=0", "--seeds", str(seeds), "--results", str(results), *options]
    subprocess.run(
        [REPOSITORY / "openbach-run", *words, "--quiet"],
        check=False,
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
    )
    runs = load(results).runs
    return list(runs[runs["status"] == "Finished Ok"]["transfer_time_s"])


def shown(times: list[float]) -> str:
    """Return median, and 10th to 90th percentile."""
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return f"{statistics.median(times):.3f} [{tenths[0]:.3f}–{tenths[-1]:.3f}]"


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--beside", default="--clock real/10", help="(--clock real/10)")
    parser.add_argument("--within", type=float, default=0.03, help="ratio of the medians (0.03)")
    parser.add_argument("--may-differ", type=int, default=1, help="cells that may (1)")
    parser.add_argument("--noise", default="host", help="in virtual time (host)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="of its runs at a time")
    parser.add_argument("--results", type=Path, default=REPOSITORY / "results/clock")
    parser.add_argument("--cells", nargs="+", default=CELLS, metavar="CELL")
    arguments = parser.parse_args()
    beside = [*arguments.beside.split(), "--workers", str(arguments.workers)]
    print(f"load {os.getloadavg()[0]:.1f}; median [10th to 90th percentile] in s")
    print(f"{'cell':38} {'virtual':>25} {arguments.beside:>25}  ratio  within  p")
    bad = 0
    for number, cell in enumerate(arguments.cells):
        place = arguments.results / f"{number}"
        virtual = times_s(cell, [f"noise={arguments.noise}"], arguments.seeds, place / "virtual")
        measured = times_s(cell, beside, arguments.seeds, place / "beside")
        ratio = statistics.median(measured) / statistics.median(virtual)
        is_within = min(virtual) <= statistics.median(measured) <= max(virtual)
        p = stats.ks_2samp(virtual, measured).pvalue
        bad += abs(ratio - 1) > arguments.within or not is_within
        print(
            f"{cell:38} {shown(virtual):>25} {shown(measured):>25}  {ratio:.3f}"
            f"  {'yes' if is_within else 'no':6}  {p:.3f}",
            flush=True,
        )
    sys.exit(0 if bad <= arguments.may_differ else 1)


if __name__ == "__main__":
    main()
