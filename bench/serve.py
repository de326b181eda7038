# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast `openbach-run serve` answers: 50 clients that poll, 1000 scenario instances in its store. `make bench-serve`.

Every instance but the first finds its run finished. Prints, per page, how long answers took as clients saw them, and
the server's resident memory before and after.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from statistics import quantiles
from typing import Any

import requests

CLIENTS, INSTANCES, POLL_S, DURATION_S = 50, 1000, 1.5, 20.0
"""The web UI asks for a running instance every 1.5 s."""
ARGUMENTS = {"vpn": "none", "cc": "bbr", "pep": "none", "loss": "0", "size": "1M"}
SCENARIO = "project/satvpn/scenario/geo/scenario_instance/"
PAGES = (
    "",
    "project/satvpn/",
    "job/",
    "agent/?services",
    "logs/?level=4&delay=5000",
    "project/satvpn/scenario_instance/?quiet&offset=0&limit=15",
    "scenario_instance/1/",
    "scenario_instance/1/?quiet",
    "page/launch/1/state",
    "page/run/1/live",
)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "openbach_run", "serve", "--port", "0", "--results", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            url = server.stdout.readline().split()[0]
            try:
                measure(url, server.pid)
            finally:
                server.terminate()
    return 0


def measure(url: str, pid: int) -> None:
    fill(url)
    print(f"{INSTANCES} scenario instances; server {resident_mb(pid):.0f} MB")
    took: dict[str, list[float]] = defaultdict(list)
    end_s = time.monotonic() + DURATION_S
    clients = [threading.Thread(target=poll, args=(url, number, end_s, took)) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    print(f"\n{CLIENTS} clients, each asks for all of these every {POLL_S} s, for {DURATION_S:.0f} s:\n")
    print(f"{'page':62}{'answers':>8}{'median':>10}{'95 %':>10}{'longest':>10}")
    for page in PAGES:
        times = sorted(took[page])
        cuts = quantiles(times, n=20)
        print(f"/{page:61}{len(times):>8}" + "".join(f"{1000 * t:>7.1f} ms" for t in (cuts[9], cuts[18], times[-1])))
    print(f"\nserver {resident_mb(pid):.0f} MB")
    started_s = time.monotonic()
    got = len(requests.get(url + "project/satvpn/scenario_instance/", timeout=600).content)
    took_s = time.monotonic() - started_s
    print(f"all {INSTANCES} instances in full: {got / 1e6:.1f} MB in {took_s:.1f} s; server {resident_mb(pid):.0f} MB")


def fill(url: str) -> None:
    """The first instance is the only one that has something to run; a launch of the page comes with it."""
    for _ in range(INSTANCES):
        start = requests.post(url + SCENARIO, json={"arguments": ARGUMENTS}, timeout=60)
        start.raise_for_status()
    launch(url)
    last = start.json()["scenario_instance_id"]
    while requests.get(f"{url}scenario_instance/{last}/?quiet", timeout=60).json()["status"] != "Finished Ok":
        time.sleep(0.5)


def launch(url: str) -> None:
    session = requests.Session()
    page = session.get(url + "page/scenario/satvpn/geo", timeout=60).text
    token = page.partition('name="token" value="')[2].partition('"')[0]
    form: dict[str, Any] = {"token": token, "value.vpn": "none", "value.cc": "bbr", "values.size": "1M"}
    session.post(url + "page/scenario/satvpn/geo", data=form, timeout=60).raise_for_status()


def poll(url: str, number: int, end_s: float, took: dict[str, list[float]]) -> None:
    session = requests.Session()
    time.sleep(POLL_S * number / CLIENTS)
    while (started_s := time.monotonic()) < end_s:
        for page in PAGES:
            asked_s = time.monotonic()
            session.get(url + page, timeout=60).raise_for_status()
            took[page].append(time.monotonic() - asked_s)
        time.sleep(max(0.0, started_s + POLL_S - time.monotonic()))


def resident_mb(pid: int) -> float:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1000


if __name__ == "__main__":
    sys.exit(main())
