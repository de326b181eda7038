# SPDX-License-Identifier: GPL-3.0-or-later
"""What our jobs send is what they declare, to the last name.

In the statistics of their YAML, on which columns rely.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from helpers.guest_runs import REPOSITORY, Run, RunCells

from openbach_run.openbach.job_folders import load_packages
from openbach_run.yaml_files import read_yaml

CELLS = (
    (
        "geo",
        "vpn=openvpn_tcp",
        "vpn.options=--fast-io",
        "pep=B",
        "cc=cubic",
        "size=1M",
        "series_s=0.5",
        "loss=1",
        "loss_at=last_mile",
    ),
    (
        "geo",
        "vpn=none",
        "cc=cubic",
        "size=1M",
        "loss=1",
        "burst_ms=20",
        "nat=terminal",
        "ecn=on",
        "sack=off",
        "window_scaling=off",
        "queue=cake",
    ),
    ("rcs2", "vpn=none", "cc=cubic", "size=200k"),
    (
        "rcs2",
        "vpn=none",
        "cc=cubic",
        "size=200k",
        "direction=upload",
        "pep=B_double",
        "pep_ask=5M",
        "dama_values=none",
    ),
    (
        "geo",
        "orbit=geo_dvbs2",
        "rate=preset",
        "vpn=none",
        "cc=cubic",
        "size=200k",
        "loss=0",
        "series_s=0.5",
    ),
    ("web", "vpn=none", "pep=none", "http=2", "loads=1", "dns=udp"),
    ("idle", "vpn=wireguard", "vpn.setup=time", "silence_s=5"),
    ("name_lookup", "vpn=none"),
    ("video", "vpn=none", "pep=none", "rate=2M"),
    ("voip", "vpn=none", "background=download", "duration_s=5"),
    ("multi_flow_loss", "orbit=geo", "vpn=none", "pep=none", "loss=0", "size=200k"),
    ("lan_tcp", "vpn=none", "series_s=0.5", *(TCP := ("rate=20M", "duration_s=2"))),
    ("lan_udp", "vpn=none", *TCP, "udp_rate=10M"),
    ("lan_video", "vpn=none", "duration_s=2"),
    ("lan_stability", "vpn=openvpn_udp", "duration_s=5", "cpu=vm_xeon_2500"),
    ("lan_cache", "vpn=none", "rate=20M", "files=2"),
    (
        "lan_reconnect",
        "vpn=wireguard",
        "event=restart",
        "pings=100",
        "event_after_s=2",
        "event_s=2",
    ),
)
"""All jobs, with everything that they send."""
ELSEWHERE = {
    "daemons": ("user_s", "system_s", "host_"),
    "measured_command": ("seconds",),
    "transfer_table": ("table_",),
}
"""How names begin that are sent only where the clock is real, or of other files' tests.

test_measured.py, test_table_scenario.py.
"""


def statistics(runs: Iterable[Run]) -> dict[str, set[str]]:
    """Names by job."""
    sent: dict[str, set[str]] = {}
    for run in runs:
        for line in map(json.loads, (run.record / "statistics.jsonl").read_text().splitlines()):
            sent.setdefault(line["_metadata"]["job_name"], set()).update(
                line.keys() - {"_metadata"}
            )
    return sent


def test_every_statistic_that_is_sent_is_declared_and_the_other_way_round(
    run_cells: RunCells, tmp_path: Path
) -> None:
    (tmp_path / "link.csv").write_text("time_s,rate_bps,delay_ms\n0,9000000,20\n9,8000000,20\n")
    own_link = ("geo", "vpn=none", "size=200k", f"link_file={tmp_path}/link.csv", "link_start=seed")
    sent = statistics(run for cell in (*CELLS, own_link) for run in run_cells(*cell))
    declared = {
        name: {
            one["name"]
            for one in read_yaml(package.files / f"{name}.yml")["statistics"]
            if not one["name"].startswith(ELSEWHERE.get(name, ()))
        }
        for name, package in load_packages([REPOSITORY / "jobs"]).items()
        if package.files
    }
    pairs = {(job, name) for job, names in sent.items() for name in names}
    assert pairs ^ {(job, name) for job, names in declared.items() for name in names} == set()
    assert sent.keys() == {job for job, names in declared.items() if names}
