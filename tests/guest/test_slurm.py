# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/clusters/slurm.sh on a real Slurm: Debian's, on two nodes that are namespaces of this machine.

Runs are made up. One of the nodes dies in the middle.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.guest_runs import REPOSITORY
from helpers.waiting import HANG_S

from openbach_run.results.store import Store

PLACE = REPOSITORY / "tests/guest/slurm"
EDITED = """
sed -i s/cpus-per-task=8/cpus-per-task=2/ docs/clusters/slurm.sh
cp -r tests/helpers src
cat tests/guest/slurm/made_up.py >> src/openbach_run/engine/virtual/engine.py
exec docs/clusters/slurm.sh 2 "$@"
"""
"""On the nodes' own copy of the checkout; they have two CPUs."""
RUNS = 1000
CELLS = ("geo_loss", "noise=off", "vpn=none,wireguard", "cc=bbr", "loss=0", "pep=none", "size=10M")


@pytest.mark.nightly
@pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces with networks and mounts")
def test_a_node_of_slurm_dies_and_nothing_is_lost_or_kept_twice(tmp_path: Path) -> None:
    words = [*CELLS, "--seeds", str(RUNS // 2), "--results", "/tmp/results", "--quiet"]
    path = os.environ["PATH"].removeprefix(f"{sys.prefix}/bin:")  # as a person has it
    environment = {**os.environ, "PATH": path}
    # The nodes reach no index of packages: both environments are there before.
    for extra, word in (("cluster", "true"), ("", "--version")):
        told = {**environment, "OPENBACH_RUN_EXTRA": extra}
        subprocess.run([REPOSITORY / "openbach-run", word], env=told, check=True)
    done = subprocess.run(
        [
            *(PLACE / "nodes.sh", tmp_path, "/tmp/results/runs", str(RUNS // 3)),
            *("bash", "-euc", f"cd {REPOSITORY}{EDITED}", "-", *words),
        ],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "n1 died with " in done.stdout
    results = tmp_path / "upper/tmp/results"
    records = Store(results).all()
    assert len({(one.arguments["vpn"], one.seed) for one in records}) == len(records) == RUNS
    assert all(one.finished and one.capture_hash == "ab" for one in records)
    assert len((results / "results.csv").read_text().splitlines()) == 1 + RUNS
