# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign on Slurm.

On a login node, in a checkout that all nodes see:

    OPENBACH_RUN_EXTRA=cluster ./openbach-run python docs/clusters/slurm.py 8 campaigns/matrix.yml
    --seeds 5

starts eight jobs of eight workers each, runs `./openbach-run campaigns/matrix.yml --seeds 5` on
them, and ends them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dask
from dask_jobqueue import SLURMCluster

CHECKOUT = Path(__file__).resolve().parents[2]
JOB = {
    "cores": 8,
    "processes": 8,  # a worker executes one run at a time, on one CPU
    "memory": "12GB",  # a guest has 512 MB
    "walltime": "04:00:00",
    "queue": None,  # the partition, if yours has to be named
    "account": None,
    "python": f"env OPENBACH_RUN_EXTRA=cluster {CHECKOUT}/openbach-run python",
    "local_directory": "/tmp",
    "job_script_prologue": [
        f"cd {CHECKOUT} || exit",
        # "export XDG_CACHE_HOME=/local/$USER",  # where homes are slow: each node then builds its
        # own kernel
    ],
}


def main() -> int:
    """Run the command on so many workers; return its exit code."""
    jobs, *arguments = sys.argv[1:]
    # How often the scheduler looks whether it is late.
    dask.config.set({"distributed.admin.tick.interval": "1s"})
    with SLURMCluster(**JOB) as cluster:
        cluster.scale(jobs=int(jobs))
        command = [
            sys.executable,
            "-m",
            "openbach_run",
            *arguments,
            "--scheduler",
            cluster.scheduler_address,
        ]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
