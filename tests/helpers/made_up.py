# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of a campaign that was never run.

The published report's matrix with times from a formula, so that the report can be tested without
the engine.

One cell has failed runs, one was not run.
"""

from __future__ import annotations

import gzip
import json
import random
from itertools import product
from pathlib import Path
from typing import Any

from openbach_run.results.record import Record
from openbach_run.results.store import Store

VPNS, PEPS = ("none", "wireguard", "openvpn_udp", "openvpn_tcp"), ("none", "B", "A")
TRANSPORTS, LOSSES = ("cubic", "cubic_nohystart", "bbr2"), ("0", "0.1", "1")
FAILED, NOT_RUN = (
    ("geo_loss", "openvpn_tcp", "A", "cubic", "1"),
    ("leo_loss", "openvpn_tcp", "A", "cubic", "1"),
)
ERROR = 'job vpn on satvpn_box: *Error* `1` <b> [x](y) | # & "\\u{1}" \x1b[31mred'
STATUS = {"failed": "Finished Ko", "done": "Finished Ok"}


def time_s(scenario: str, arguments: dict[str, str], seed: int) -> float:
    """Return the transfer time of a run in s, by a formula.

    It has 1 % for a tunnel, 12 % for TCP in TCP, 3 % less with PEP B, and with loss CUBIC's
    collapse.
    """
    vpn, pep, cc, loss = (arguments[name] for name in ("vpn", "pep", "cc", "loss"))
    base = 28.0 if scenario == "geo_loss" else 26.0
    base *= (
        1
        + 0.01 * (vpn != "none")
        + 0.12 * (vpn == "openvpn_tcp" and pep == "A")
        - 0.03 * (pep == "B")
    )
    slow = (
        (12.0 if cc != "bbr2" else 1.1)
        * (1.0 if pep != "B" else 0.7)
        * (0.5 if vpn == "openvpn_tcp" else 1)
    )
    luck = random.Random(f"{scenario}{seed}{loss}").uniform(0.8, 1.2)
    return base + float(loss) * slow * luck * base / 28


def write_results(folder: Path, seeds: int = 5, **only: tuple[str, ...]) -> Path:
    """Writes results of GEO and LEO into `folder`; `only` narrows vpn, pep, cc or loss."""
    store = Store(folder)
    store.runs.mkdir(parents=True, exist_ok=True)
    names = {"vpn": VPNS, "pep": PEPS, "cc": TRANSPORTS, "loss": LOSSES, **only}
    runs: list[dict[str, Any]] = []
    cells = product(("geo_loss", "leo_loss"), *names.values())
    for (scenario, *cell), seed in product(cells, range(1, seeds + 1)):
        arguments = {
            **dict(zip(names, cell, strict=True)),
            "size": "30M",
            "rate": "10M",
            "direction": "download",
            "initcwnd": "10",
        }
        arguments["cc_pep"] = arguments["cc"]
        run_id = f"{len(runs):016x}"
        runs.append({"run_id": run_id, "scenario": scenario, "arguments": arguments, "seed": seed})
        if (scenario, *cell) != NOT_RUN:
            failed = (scenario, *cell) == FAILED and seed == 2
            write_run(store, run_id, scenario, arguments, seed, failed)
    asked = {"command": f"./openbach-run campaigns/matrix.yml --seeds {seeds}", "runs": runs}
    store.write("campaign.json", json.dumps(asked))
    return folder


def write_run(
    store: Store, run_id: str, scenario: str, arguments: dict[str, str], seed: int, failed: bool
) -> None:
    place = store.begin(run_id)
    link = {
        "id": 0,
        "start_job_instance": {"entity_name": "sat", "satcom_link": {"orbit": [[scenario[:3]]]}},
    }
    proxy = {
        "id": 1,
        "start_job_instance": {"entity_name": "satvpn_gw", "pep": {"at": [["A,A_double"]]}},
    }
    (place / "run.json").write_text(json.dumps({"scenario": {"openbach_functions": [link, proxy]}}))
    taken_s = time_s(scenario, arguments, seed)
    (place / "statistics.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in samples(taken_s))
    )
    measures = {
        "transfer_time_s": taken_s,
        "goodput_mbps": 240 / taken_s,
        "bytes": 30000000,
        "ttfb_s": 0.5,
        "retransmits": 0,
    }
    record = Record(
        run_id,
        scenario,
        arguments,
        seed,
        STATUS["failed" if failed else "done"],
        f"{ERROR}\n    no route" if failed else None,
        taken_s + 10,
        1.0,
        f"{seed:064x}",
        {} if failed else measures,
        f"./openbach-run scenarios/{scenario}.json --seeds {seed},",
        {
            "engine": "virtual",
            "kernel": "linux-source-7.2 7.2.13-1 0123456789abcdef",
            "image": "aa",
            "code": "code-bb",
        },
        ["iperf3_3.12-1_amd64", "openvpn_2.6.14-1_amd64", "iproute2_6.15.0-1_amd64"],
    )
    store.keep(place, record)


def samples(taken_s: float) -> list[dict[str, Any]]:
    """What a job sends once a second: goodput in slow start and after."""
    metadata = {"job_name": "tcp_info", "agent_name": "satvpn_pc", "job_instance_id": 1}
    return [
        {
            "goodput_mbps": min(2**second / 10, 240 / taken_s),
            "_metadata": {**metadata, "time": 1000 * second},
        }
        for second in range(int(taken_s))
    ]


def write_series(run_dir: Path, seconds: int = 5) -> None:
    """Give a run that is kept a goodput for each second, as the job tcp_series sends it."""
    metadata = {"is_file": False, "job_name": "tcp_series", "agent_name": "satvpn_server"}
    numbers = {"job_instance_id": 1, "scenario_instance_id": 1, "owner_scenario_instance_id": 1}
    lines = []
    for second in range(seconds):
        sent = {**metadata, **numbers, "time": 1000 * second}
        lines.append(json.dumps({"goodput_bps": 1e6 * second, "_metadata": sent}))
    text = "".join(f"{line}\n" for line in lines)
    (run_dir / "statistics.jsonl.gz").write_bytes(gzip.compress(text.encode()))
