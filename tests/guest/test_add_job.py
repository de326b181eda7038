# SPDX-License-Identifier: GPL-3.0-or-later
"""A job of a user's own, in a directory outside the checkout, as docs/jobs.md has it.

With measures, a Debian package that no job of ours uses, and a program as source.
"""

from __future__ import annotations

import csv
import shlex
from pathlib import Path

import pytest
from helpers import own_files
from helpers.guest_runs import REPOSITORY, command, records

from openbach_run.results.store import Store

PROGRAM = (".c", ".py")
MOST_LINES = 40


def test_a_job_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        file.relative_to(tmp_path / "mine").as_posix(): file
        for file in own_files.write("jobs.md", tmp_path)
    }
    lines = {
        name: file.read_text().count("\n")
        for name, file in files.items()
        if file.suffix not in PROGRAM
    }
    with capsys.disabled():
        print(
            "\nlines of a job of one's own:",
            ", ".join(f"{count} {name}" for name, count in lines.items()),
        )
    assert len(files) == 7 and max(lines.values()) <= MOST_LINES
    first, sweep, report, packed = (shlex.split(line)[1:] for line in own_files.commands("jobs.md"))
    assert sweep[:3] == ["udp_rtt", "vpn=none", "datagrams=5,50"]

    def run(*more: str) -> tuple[int, str, str]:
        ended = command(*first, "noise=host", *more, cwd=tmp_path)
        return ended.returncode, ended.stdout, ended.stderr

    code, shown, said = run()
    assert code == 0, said
    assert shown in (REPOSITORY / "docs/jobs.md").read_text().replace("\n    ", "\n"), (
        "the table of the guide"
    )
    results = tmp_path / "results/udp_rtt"
    before = records(results)
    geo = before[0]
    assert float(geo.row["udp_rtt_ms"]) == pytest.approx(500, abs=5)
    assert geo.row["udp_lost_pct"] == "0.0" and float(geo.row["udp_rtt_p95_ms"]) >= float(
        geo.row["udp_rtt_ms"]
    )
    record = Store(results).load(geo.record.name)
    assert record is not None and any(one.startswith("datamash_") for one in record.packages)

    files["jobs/udp_rtt/measures.yml"].write_text(
        "udp_rtt_s: {statistic: rtt_ms, factor: 0.001, title: UDP delay}\n"
    )
    code, _, said = run()
    assert code == 2
    assert (
        "plot.measure: no job of the scenario measures udp_rtt_ms; did you mean udp_rtt_s (in s)?"
        in said
    )
    scenario = files["scenarios/udp_rtt.yml"]
    scenario.write_text(scenario.read_text().replace("udp_rtt_ms", "udp_rtt_s"))
    _, shown, _ = run()
    assert shown.startswith("udp_rtt: UDP delay (s)\n")
    again = records(results)
    assert [one.row["wall_s"] for one in again] == [one.row["wall_s"] for one in before], (
        "words make no run stale"
    )
    assert float(again[0].row["udp_rtt_s"]) == pytest.approx(
        float(geo.row["udp_rtt_ms"]) / 1000, abs=1e-6
    )

    ended = command(*report, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    output = tmp_path / "reports/udp_rtt"
    assert "UDP delay (s)" in (output / "report.md").read_text()
    assert ("udp_rtt_s", "s") in {
        (row["measure"], row["unit"]) for row in csv.DictReader((output / "cells.csv").open())
    }

    ended = command(*packed, cwd=tmp_path)
    assert (
        ended.returncode == 0 and (tmp_path / "openbach-package/jobs-2.7/udp_rtt.tar.gz").exists()
    ), ended.stderr

    job = files["jobs/udp_rtt/files/udp_rtt.py"]
    job.write_text(job.read_text().replace("rtt_ms=", "rtt_millis="))
    code, shown, said = run("orbit=leo", "vpn=none")
    assert code == 1 and "not sent" in shown
    assert (
        "1 of 1 finished runs have no udp_rtt_s (of the statistic rtt_ms), which its table shows"
        in said
    )
    assert "udp_rtt: lost_pct, p95_ms, rtt_millis" in said
