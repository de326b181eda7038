# SPDX-License-Identifier: GPL-3.0-or-later
"""A job of a user's own, in a directory outside the checkout, as docs/jobs.md has it: with measures, a Debian package that no
job of ours uses, and a program as source."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path

import pytest
from conftest import REPOSITORY, command, records

GUIDE = (REPOSITORY / "docs/jobs.md").read_text()
FILES = dict(re.findall(r"^`~/mine/([^`]+)`.*?\n```\w*\n(.*?)^```", GUIDE, re.S | re.M))
PROGRAM = (".c", ".py")
MOST_LINES = 40


def commands(mine: Path) -> list[list[str]]:
    """The guide's, for the directory `mine`."""
    lines = re.findall(r"^\./openbach-run (.*)$", GUIDE, re.M)
    return [shlex.split(line.replace("~/mine", str(mine))) for line in lines]


def test_a_job_of_ones_own(tmp_path: Path) -> None:
    assert len(FILES) == 7
    mine = tmp_path / "mine"
    for name, text in FILES.items():
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text(text)
        if Path(name).suffix not in PROGRAM:
            print(f"{name}: {text.count(chr(10))} lines")
            assert text.count("\n") <= MOST_LINES
    first, sweep, report = commands(mine)
    results = tmp_path / "results"
    ended = command(*first, "--results", str(results))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout in GUIDE.replace("\n    ", "\n"), "the table of the guide"
    geo, leo = records(results)
    assert float(geo.row["udp_rtt_ms"]) == pytest.approx(500, abs=30)
    assert float(leo.row["udp_rtt_ms"]) < 100
    assert geo.row.keys().isdisjoint({"vpn", "pep", "cc", "loss"}), "columns that the scenario has nothing for"
    assert geo.row["udp_lost_pct"] == "0.0" and float(geo.row["udp_rtt_p95_ms"]) >= float(geo.row["udp_rtt_ms"])
    assert any(one.startswith("datamash_") for one in json.loads((geo.record / "record.json").read_text())["packages"])

    (mine / "jobs/udp_rtt/measures.yml").write_text("udp_rtt_s: {statistic: rtt_ms, factor: 0.001, title: UDP delay}\n")
    refused = command(*first, "--results", str(results))
    assert refused.returncode == 2
    assert "x-sweep.measure: no job of the scenario measures udp_rtt_ms; did you mean udp_rtt_s?" in refused.stderr
    scenario = mine / "scenarios/udp_rtt.json"
    scenario.write_text(scenario.read_text().replace("udp_rtt_ms", "udp_rtt_s"))
    ended = command(*first, "--results", str(results))
    assert ended.stdout.startswith("udp_rtt: UDP delay (s)\n")
    again = records(results)
    assert [one.row["wall_s"] for one in again] == [geo.row["wall_s"], leo.row["wall_s"]], "words make no run stale"
    assert float(again[0].row["udp_rtt_s"]) == pytest.approx(float(geo.row["udp_rtt_ms"]) / 1000, abs=1e-6)

    assert sweep[:2] == ["udp_rtt", "datagrams=5,50"]
    output = tmp_path / "report"
    assert report[:2] == ["report", "results/udp_rtt"]
    assert command("report", str(results), "-o", str(output)).returncode == 0
    assert "| orbit | UDP delay (s) |" in (output / "report.md").read_text()
    (measure,) = {row["measure"] for row in csv.DictReader((output / "cells.csv").open()) if row["unit"] == "s"}
    assert measure == "udp_rtt_s"

    job = mine / "jobs/udp_rtt/files/udp_rtt.py"
    job.write_text(job.read_text().replace("rtt_ms=", "rtt_millis="))
    ended = command(*first, "orbit=leo", "--results", str(results))
    assert ended.returncode == 1
    assert "not sent" in ended.stdout
    assert (
        "1 of 1 finished runs have no udp_rtt_s (of the statistic rtt_ms), which x-sweep.measure names" in ended.stderr
    )
    assert "udp_rtt: lost_pct, p95_ms, rtt_millis" in ended.stderr
