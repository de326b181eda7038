# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the pages of `openbach-run serve` with 100 000 runs in 2000 folders, and its memory.

    tools/dev tools/bench/serve.py

The runs are made up; their records are as the engine leaves them. Prints how long the index takes,
then for each view the median time of the answer as a client sees it and the server's CPU time in
it, and how many bytes it is with all that it loads; the server's resident memory; with Chromium the
first paint, and how long curves of 100 000 points take to zoom.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import requests

REPOSITORY = Path(__file__).resolve().parents[2]
RUNS, SEEDS, POINTS, TIMES = 20_000, 5, 100_000, 7
FOLDERS, EACH = 2_000, 40
"""The other folders, and the runs in each."""
VPNS = [f"vpn{number}" for number in range(20)]
MEASURES = (
    "transfer_time_s",
    "goodput_mbps",
    "bytes",
    "ttfb_s",
    "retransmits",
    "forward_queue_delay_ms",
    "return_queue_delay_ms",
)
SETTINGS = {f"setting{number}": "preset" for number in range(25)}
LIMIT_MS, LIMIT_MB = 300, 250


def main() -> int:
    """Make the results, start the server, print its figures, and return the exit code."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        make_store(results)
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
        command = [
            sys.executable,
            "-m",
            "openbach_run",
            "serve",
            "--port",
            "0",
            "--results",
            str(results),
        ]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment
        ) as server:
            assert server.stdout
            url, _, token = server.stdout.readline().split()[0].partition("?token=")
            session = requests.Session()
            session.get(url, params={"token": token}, timeout=60).raise_for_status()
            try:
                measure(url, session, server.pid)
                in_browser(url, session)
            finally:
                server.terminate()
    return 0


def make_store(results: Path) -> None:
    """4000 cells in one folder, one run with long curves in another, and FOLDERS small ones."""
    begun_s = time.monotonic()
    shared = {"identity": {"engine": "made up"}, "packages": ["made-up_1"], "declared": {}}
    sets = {"large": RUNS, **{f"small{number}": EACH for number in range(FOLDERS)}, "curves": 1}
    for folder in sets:
        (results / folder / "shared").mkdir(parents=True)
        (results / folder / "shared/0.json").write_text(json.dumps(shared))
    luck = random.Random(1)
    planned = []
    for place, number in [
        (name, number) for name, count in sets.items() for number in range(count)
    ]:
        cell, seed = divmod(number, SEEDS)
        values = {
            "vpn": VPNS[cell % 20],
            "cc": f"cc{cell // 20 % 5}",
            "loss": str(cell // 100 % 8),
            "size": f"{cell // 800 + 1}M",
        }
        run = {"scenario": "geo", "arguments": {**values, **SETTINGS}, "seed": seed + 1}
        if place == "large":
            planned.append({"run_id": f"{number:016x}", **run})
        points = {"large": 5, "curves": POINTS}.get(place, 0)
        write_run(results / place / f"runs/{number:016x}", run, luck.uniform(10, 100), points)
    lines = "\n,".join(map(json.dumps, planned))
    (results / "large/campaign.json").write_text(
        f'{{"command": "./openbach-run campaign.yml",\n "runs": [\n {lines}\n]}}\n'
    )
    print(f"made {RUNS + FOLDERS * EACH} runs in {time.monotonic() - begun_s:.0f} s")


def write_run(place: Path, run: Mapping[str, Any], time_s: float, points: int) -> None:
    """Write a made-up run's record with a curve of `points` points."""
    place.mkdir(parents=True)
    record = {
        "run_id": place.name,
        **run,
        "status": "Finished Ok",
        "error": None,
        "virtual_s": time_s,
        "wall_s": 2.0,
        "capture_hash": "0" * 64,
        "measures": dict.fromkeys(MEASURES, time_s),
        "command": "./openbach-run geo",
        "parts": [],
        "shared": "0",
    }
    (place / "record.json").write_text(json.dumps(record, indent=1))
    if not points:
        return
    metadata = {
        "job_name": "tcp_series",
        "agent_name": "satvpn_server",
        "job_instance_id": 1,
        "scenario_instance_id": 1,
        "is_file": False,
    }
    lines = (
        {
            "goodput_bps": 1e6 * (1 + number % 97),
            "_metadata": {**metadata, "time": 1_767_225_600_000 + number},
        }
        for number in range(points)
    )
    with gzip.open(place / "statistics.jsonl.gz", "wt", compresslevel=1) as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def measure(url: str, session: requests.Session, pid: int) -> None:
    """Print the times of each view of the server `pid` at `url`."""
    begun_s, begun_cpu_s = time.monotonic(), cpu_s(pid)
    wanted = f"{FOLDERS + 2} found."
    while wanted not in (shown := session.get(url + "page/results", timeout=60).text) or (
        "more are being read" in shown
    ):
        time.sleep(1)
    took_s = time.monotonic() - begun_s, cpu_s(pid) - begun_cpu_s
    print("index: {:.1f} s, {:.1f} CPU s (once; kept)\n".format(*took_s))
    time.sleep(3)
    keys = re.findall(r"/cell/(\w+)", session.get(url + "page/set/folder/large", timeout=60).text)
    cells = [f"folder/large/{key}" for key in keys[:12]]
    run = f"large/{0:016x}"
    views = {
        "first page": "",
        "first page, search": "?q=vpn",
        "all results": "page/results",
        "found by words": "page/results?q=small19+geo&sort=total",
        "found by value": "page/results?q=vpn=vpn7",
        "table of cells": "page/set/folder/large/table?sort=-transfer_time_s",
        "heat map": "page/set/folder/large",
        "heat map, page 5": "page/set/folder/large?page=5",
        "heat map of one size": "page/set/folder/large?only.size=1M",
        "state": "page/set/folder/large/state",
        "cell": f"page/set/folder/large/cell/{keys[0]}",
        "run": f"page/run/{run}",
        "comparison of cells": f"page/compare?cell={'&cell='.join(cells)}",
        "curves": f"page/curves.json?run={run}",
        "form": "page/scenario/satvpn/geo",
    }
    print(f"{'view':24}{'median':>10}{'longest':>10}{'CPU':>10}{'answer':>10}")
    for name, path in views.items():
        times_s, cpus_s = [], []
        for _ in range(TIMES):
            asked_s, before_s = time.monotonic(), cpu_s(pid)
            answer = session.get(url + path, timeout=60)
            answer.raise_for_status()
            times_s.append(time.monotonic() - asked_s)
            cpus_s.append(cpu_s(pid) - before_s)
        slow = "  over the limit" if median(times_s) * 1000 > LIMIT_MS else ""
        print(
            f"{name:24}{1000 * median(times_s):>7.0f} ms{1000 * max(times_s):>7.0f}"
            f" ms{1000 * median(cpus_s):>7.0f} ms{len(answer.content) / 1000:>7.0f} kB{slow}"
        )
    print(f"\nserver: {resident_mb(pid):.0f} MB (limit {LIMIT_MB})")


def in_browser(url: str, session: requests.Session) -> None:
    """Print what a person waits for in a browser."""
    from playwright.sync_api import sync_playwright

    if shutil.which("chromium") is None:
        print("no Chromium here: no first paint")
        return
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        context = browser.new_context(viewport={"width": 1400, "height": 900})
        context.add_cookies(
            [
                {"name": name, "value": value, "url": url}
                for name, value in session.cookies.get_dict().items()
            ]
        )
        page = context.new_page()
        for name, path in {
            "heat map": "page/set/folder/large",
            "run": f"page/run/large/{0:016x}",
        }.items():
            page.goto(url + path, wait_until="networkidle")
            paint_ms = page.evaluate(
                "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            )
            loaded = page.evaluate(
                "[...performance.getEntriesByType('navigation'),"
                " ...performance.getEntriesByType('resource')].reduce((sum, one) => sum +"
                " one.transferSize, 0)"
            )
            print(
                f"{name}: first paint after {paint_ms:.0f} ms, {loaded / 1000:.0f} kB with style,"
                " scripts and curves"
            )
        page.goto(url + f"page/run/curves/{0:016x}", wait_until="networkidle")
        page.wait_for_selector(".uplot")
        zoom_ms = page.evaluate(
            "async () => { const times = []; for (const factor of [0.5, 0.5, 0.5, 2, 2, 2]) { const"
            " begun = performance.now(); charts.zoom(factor); await new"
            " Promise(requestAnimationFrame); times.push(performance.now() - begun); } return"
            " Math.max(...times); }"
        )
        print(f"curves of {POINTS} points: the slowest of 6 zooms takes {zoom_ms:.0f} ms")
        browser.close()


def cpu_s(pid: int) -> float:
    """Return the CPU time in s of a process (proc(5), utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    (line,) = [
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmRSS")
    ]
    return int(line.split()[1]) / 1000


if __name__ == "__main__":
    sys.exit(main())
