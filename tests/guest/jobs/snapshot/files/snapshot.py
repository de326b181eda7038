# SPDX-License-Identifier: GPL-3.0-or-later
"""Test job: what a command prints on its host, as a statistic."""

import subprocess
import sys

import collect_agent

if __name__ == "__main__":
    with collect_agent.use_configuration(
        "/opt/openbach/agent/jobs/snapshot/snapshot_rstats_filter.conf"
    ):
        done = subprocess.run(["sh", "-c", sys.argv[1]], check=True, capture_output=True, text=True)
        collect_agent.send_stat(collect_agent.now(), printed=done.stdout)
