# SPDX-License-Identifier: GPL-3.0-or-later
"""transfer_table: what it reads from a collector, and the files that it stores."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from helpers.job_code import ROOT, load

from openbach_run.openbach.expand import expand
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.lint import lint
from openbach_run.openbach.reading import parse_scenario

table = load("transfer_table")
QUERY = re.compile(r'SELECT "transfer_time_s", "(\S+)" FROM "file_transfer" WHERE (.+)')
CONDITION = re.compile(r"\"@scenario_instance_id\" = '(\d+)'")
CELLS = ["vpn=none,loss=0", "vpn=none,loss=1", "vpn=a,b,loss=0", "vpn=a,b,loss=1"]


class Collector:
    """InfluxDB 1.7 for this one query: each answer has the next of `arriving`, time by instance."""

    def __init__(self, *arriving: dict[int, float], error: str = "") -> None:
        self.arriving, self.error, self.asked = list(arriving), error, 0

    def answer(self, query: str) -> dict[str, Any]:
        found = QUERY.fullmatch(query)
        assert found and found[1] == "@scenario_instance_id"
        # Tags are texts there.
        wanted = [int(one) for one in CONDITION.findall(found[2])]
        assert found[2].count(" OR ") == len(wanted) - 1
        times = self.arriving[min(self.asked, len(self.arriving) - 1)]
        self.asked += 1
        columns = ["time", "transfer_time_s", "@scenario_instance_id"]
        rows = [[1, time_s, str(one)] for one, time_s in times.items() if one in wanted]
        series = [{"name": "file_transfer", "columns": columns, "values": rows}]
        said = {"error": self.error} if self.error else {"series": series} if rows else {}
        return {"results": [{"statement_id": 0, **said}]}


class Place:
    """An agent with a collector: the program runs on it, and the files that it stores are kept."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch, self.logs, self.waits_s = folder, patch, list[str](), list[float]()
        patch.delenv("OPENBACH_STATISTICS", raising=False)
        patch.setattr(table, "COLLECTOR", str(folder / "collector.yml"))
        patch.setattr(table.collect_agent, "store_files", self.store)
        patch.setattr(table.collect_agent, "send_log", lambda _, text: self.logs.append(text))
        patch.setattr(table.time, "monotonic", lambda: sum(self.waits_s))
        patch.setattr(table.time, "sleep", self.waits_s.append)

    def store(self, _: int, **files: str) -> str:
        for name, file in files.items():
            assert name == Path(file).name.replace(".", "_")
            shutil.copy(file, self.folder)
        return "OK"

    def run(self, collector: Collector, *words: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                said = parse_qs(urlsplit(self.path).query)
                assert (said["db"], said["epoch"]) == (["openbach"], ["ms"])
                text = json.dumps(collector.answer(said["q"][0])).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stats = f"{{port: 2222, query: {server.server_port}, database: openbach}}"
            (self.folder / "collector.yml").write_text(f"address: 127.0.0.1\nstats: {stats}\n")
            self.patch.setattr(sys, "argv", ["transfer_table", *words])
            try:
                table.main()
            finally:
                server.shutdown()

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def test_the_table_of_finished_instances(place: Place) -> None:
    times = {11: 27.335, 12: 63.0, 13: 28.46, 14: 70.25, 15: 1.0}
    place.run(Collector(times), "11", "12", "13", "14", "--cells", *CELLS, "--title", "GEO: a | b")
    assert place.text("table.md").splitlines() == [
        "**GEO: a | b**",
        "",
        "| vpn | loss=0 | loss=1 |",
        "| --- | ---: | ---: |",
        "| none | 27.34 | 63.00 |",
        "| a,b | 28.46 | 70.25 |",
        "",
        "runs of each cell: 1",
    ]
    rows = list(csv.reader(io.StringIO(place.text("table.csv"))))
    figures = [f"{one}_transfer_time_s" for one in ("median", "least", "greatest")]
    assert rows[0] == ["vpn", "loss", *figures, "runs", "failed"]
    assert rows[3] == ["a,b", "0", *3 * ["28.46"], "1", "0"]
    assert (place.folder / "table.png").read_bytes().startswith(b"\x89PNG")
    assert not place.logs and not place.waits_s


def test_runs_of_one_cell_and_cells_that_failed(place: Place) -> None:
    """Who has not sent a time within the limit has failed."""
    times = {1: 30.0, 2: 20.0, 3: 25.0, 6: 9.0}
    cells = [*["cc=bbr"] * 4, "cc=cubic", "cc=reno"]
    place.run(Collector(times), *map(str, range(1, 7)), "--cells", *cells)
    assert place.text("table.md").splitlines()[2:] == [
        "| cc | transfer time (s) |",
        "| --- | --- |",
        "| bbr | 25.00 [20.00–30.00] (1 failed) |",
        "| cubic | failed |",
        "| reno | 9.00 |",
        "",
        "runs of each cell: 1 to 4; median [least–greatest]; 1 of 3 cells failed",
    ]
    rows = list(csv.reader(io.StringIO(place.text("table.csv"))))
    assert rows[1:3] == [
        ["bbr", "25.0", "20.0", "30.0", "4", "1"],
        ["cubic", "failed", "failed", "failed", "1", "1"],
    ]
    assert sum(place.waits_s) == table.ARRIVAL_LIMIT_S


def test_what_the_collector_gets_late_is_waited_for(place: Place) -> None:
    place.run(Collector({}, {7: 1.0}, {7: 1.0, 8: 2.0}), "7", "8")
    assert "| 7 | 1.00 |\n| 8 | 2.00 |" in place.text("table.md")
    assert place.waits_s == 2 * [table.PAUSE_S]


def test_what_the_collector_refuses_is_said(place: Place) -> None:
    with pytest.raises(SystemExit, match=r"/query\?.*: database not found: openbach"):
        place.run(Collector({}, error="database not found: openbach"), "7")


def test_without_matplotlib_the_other_files_are_stored(place: Place) -> None:
    place.patch.setitem(sys.modules, "matplotlib.figure", None)
    place.run(Collector({7: 1.0}), "7")
    assert place.text("table.csv") and not (place.folder / "table.png").exists()
    assert len(place.logs) == 1 and place.logs[0].startswith("no table.png: ")


def test_a_table_that_is_not_stored_is_an_error(place: Place) -> None:
    place.patch.setattr(table.collect_agent, "store_files", lambda *_, **__: "KO no rstats")
    with pytest.raises(SystemExit, match="the table was not stored: KO no rstats"):
        place.run(Collector({7: 1.0}), "7")


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["vpn=none"], "2 instances, but 1 cells"),
        (["vpn=none", "cc=bbr"], "the cells do not have the same names"),
    ],
)
def test_cells_are_those_of_the_instances(
    cells: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        table.parse(["1", "2", "--cells", *cells])
    assert said in capsys.readouterr().err


def test_the_scenario_of_a_table_starts_it_last() -> None:
    jobs = {name: package.job for name, package in load_packages([ROOT / "jobs"]).items()}
    for name in ("geo_loss_table", "leo_loss_table"):
        scenario = parse_scenario(expand(ROOT / f"scenarios/{name}.yml"), jobs)
        *cells, last = scenario.functions
        assert len(cells) == 36 and last["wait"]["finished_ids"] == [35]
        job = last["start_job_instance"]["transfer_table"]
        assert job["scenarios"] == [[[number] for number in range(36)]]
        (texts,) = job["cells"]
        labels = [one.replace("=", " ").replace(",", ", ") for one in texts]
        assert labels == [one["label"] for one in cells]
        assert last["start_job_instance"]["entity_name"] == "satvpn_pc"
        # Failed, it leaves the instance as it is.
        assert last["on_fail"] == {"policy": "Ignore"}
        assert not [*lint(scenario, jobs)]
