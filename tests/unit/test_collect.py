# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run collect`: what others have launched on a platform becomes records.

The platform is our own controller over HTTP, whose answers are OpenBACH's.
"""

from __future__ import annotations

import csv
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.waiting import wait_for
from helpers.web import application, listening

from openbach_run.commands import main
from openbach_run.engine.platform import engine as engine_module
from openbach_run.engine.platform.rest import Access, Controller
from openbach_run.report.cells import read_campaigns
from openbach_run.results.record import Record
from openbach_run.results.store import Store

PASSWORD = "a password for a test"
VALUES = {"vpn": "none", "pep": "none", "cc": "bbr", "loss": "0", "size": "30M"}
Launch = Callable[..., int]


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine_module, "POLL_S", 0.02)
    with listening(application(tmp_path / "served", password=PASSWORD)) as url:
        access = {"controller": url, "login": "openbach", "password": PASSWORD}
        Path("controller").write_text(json.dumps(access))
        controller = Controller(Access(url, "openbach", PASSWORD))
        controller.log_in()
        yield controller


@pytest.fixture
def launch(platform: Controller) -> Launch:
    """Launch a scenario as a click in the web UI does, and wait for its end."""

    def launched(scenario: str, **arguments: str) -> int:
        place = ("project/", "satvpn", "scenario/", scenario, "scenario_instance/")
        number: int = platform.post(*place, body={"arguments": arguments})["scenario_instance_id"]
        wait_for(
            lambda: platform.get("scenario_instance/", number)["stop_date"], f"the end of {number}"
        )
        return number

    return launched


def records(results: str) -> list[Record]:
    return Store(Path("results") / results).all()


def rows(results: str) -> list[dict[str, str]]:
    with Path(f"results/{results}/results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_cells_of_one_click(launch: Launch, capsys: pytest.CaptureFixture[str]) -> None:
    """A parent's 36 children are the runs of geo_loss: table, report and archive have them."""
    launch("geo_loss_table", pep="none", size="30M")
    assert main.main(["collect", "geo_loss_table"]) == 0
    printed = capsys.readouterr()
    assert "geo_loss: transfer time (s)" in printed.out
    assert "loss=0  loss=0.1  loss=1" in printed.out
    assert printed.out.count("10.00") == 12
    assert len(rows("geo_loss")) == 36
    found = records("geo_loss")
    assert {one.identity["engine"] for one in found} == {"controller"}
    assert len({one.host["scenario_instance_id"] for one in found}) == 36
    assert all(one.virtual_s > 0 for one in found)
    cells = read_campaigns([Path("results/geo_loss")])
    assert len(cells.cells) == 36
    wanted = ["--runs", "0", "--without-bundle", "--quiet", "-o", "archive"]
    assert main.main(["archive", "results/geo_loss", *wanted]) == 0
    assert Path("archive/report/report.html").exists()


def test_later_ones_are_repetitions(
    launch: Launch, platform: Controller, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever launched them, and in whatever order they are collected: no record is made twice."""
    numbers = [launch("geo", **VALUES), launch("geo", **VALUES), launch("geo", **VALUES)]
    assert main.main(["collect", "geo", "--instance", str(numbers[1])]) == 0
    assert [row["seed"] for row in rows("geo")] == ["1"]
    assert main.main(["collect", "geo"]) == 0
    first = records("geo")
    assert {one.host["scenario_instance_id"]: one.seed for one in first} == {
        numbers[1]: 1,
        numbers[0]: 2,
        numbers[2]: 3,
    }
    asked = json.loads(Path("results/geo/campaign.json").read_text())["command"]
    assert "scenarios/geo.yml" in asked and "cc=bbr" in asked and asked.endswith("--seeds 3")
    numbers.append(launch("geo", **{**VALUES, "vpn": "wireguard"}))
    capsys.readouterr()
    assert main.main(["collect", "geo"]) == 0
    assert "vpn=none  vpn=wireguard" in capsys.readouterr().out
    assert {one.run_id for one in first} <= {one.run_id for one in records("geo")}
    assert len(rows("geo")) == 4
    starts = platform.get("project/", "satvpn", "scenario_instance/", quiet="")
    assert len(starts) == len(numbers), "nothing is started for it"


def test_a_platform_that_was_installed_anew(
    launch: Launch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its numbers begin again: the same number is another instance, and gets its own record beside that of before."""
    launch("geo", **VALUES)
    assert main.main(["collect", "geo"]) == 0
    (before,) = records("geo")
    place = Path("results/geo/runs") / before.run_id
    with tarfile.open(place / "files.tar.gz") as packed:
        packed.extractall(place, filter="data")
    (place / "files.tar.gz").unlink()
    shown = json.loads((place / "instance.json").read_text())
    (place / "instance.json").write_text(
        json.dumps({**shown, "start_date": "2020-01-01T00:00:00Z"})
    )
    assert main.main(["collect", "geo"]) == 0
    assert [row["seed"] for row in rows("geo")] == ["2", "1"]


def test_what_cannot_be_a_record_is_said(
    launch: Launch, platform: Controller, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another version of the scenario, other constants, one that was stopped, one that fails.

    A backend shows the ids that a function waits for in any order.
    """
    other = platform.get(*(place := ("project/", "satvpn", "scenario/", "geo")))
    functions = other["openbach_functions"]
    for wait in (function.get("wait", {}) for function in functions):
        wait.get("launched_ids", []).reverse()
    platform.put(*place, body=other)
    good = launch("geo", **VALUES)
    functions[-1]["wait"]["time"] = 7
    platform.put(*place, body=other)
    changed = launch("geo", **VALUES)
    assert main.main(["collect", "geo"]) == 1
    told = capsys.readouterr().err
    assert f"left out: instance {changed} of geo: it ran another version of geo" in told
    assert [one.host["scenario_instance_id"] for one in records("geo")] == [good]
    assert main.main(["collect", "geo", "--instance", str(changed)]) == 1
    assert "no instance of geo can be collected" in capsys.readouterr().err
    assert main.main(["collect", "geo", "--instance", "99"]) == 1
    assert f"geo has instances {good}, {changed}" in capsys.readouterr().err
    assert main.main(["collect", "leo"]) == 1
    assert "leo has no instance" in capsys.readouterr().err
    assert main.main(["collect", "geo", "--project", "other"]) == 1
    assert "The requested Project is not in the database" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ({"status": "Running", "stop_date": None}, "no whole results (Running)"),
        ({"status": "Stopped"}, "no whole results (Stopped)"),
        ({"arguments": {"rate": "20M"}}, "the controller shows other constants than this"),
        ({"arguments": {"cc": "no such"}}, "no such"),
    ],
)
def test_what_is_not_complete(
    launch: Launch,
    platform: Controller,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    shown: dict[str, Any],
    words: str,
) -> None:
    number = launch("geo", **VALUES)
    instance = platform.get("scenario_instance/", number)
    arguments = shown.pop("arguments", {})
    kept = [one for one in instance["arguments"] if one["name"] not in arguments]
    more = [{"name": name, "value": value} for name, value in arguments.items()]
    answer = {**instance, **shown, "arguments": [*kept, *more]}
    asked = Controller.get

    def get(self: Controller, *path: str | int, **query: Any) -> Any:
        return answer if path == ("scenario_instance/", number) else asked(self, *path, **query)

    monkeypatch.setattr(Controller, "get", get)
    assert main.main(["collect", "geo"]) == 1
    told = capsys.readouterr().err
    assert f"instance {number} of geo: " in told
    assert words in told
    assert not Path("results").exists()


def test_a_scenario_that_sweeps_its_constants(launch: Launch) -> None:
    launch("rcs2", **(VALUES | {"size": "3M"}))
    assert main.main(["collect", "rcs2"]) == 0
    (run,) = rows("rcs2")
    assert (run["direction"], run["vpn"]) == ("download", "none")


def test_a_failed_one_is_a_record_that_says_so(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    launch("geo", **VALUES)
    asked = Controller.get

    def get(self: Controller, *path: str | int, **query: Any) -> Any:
        answer = asked(self, *path, **query)
        return {**answer, "status": "Finished Ko"} if path[0] == "scenario_instance/" else answer

    monkeypatch.setattr(Controller, "get", get)
    assert main.main(["collect", "geo"]) == 1
    printed = capsys.readouterr()
    assert "failed" in printed.out and "Finished Ko" in printed.err
    assert [row["status"] for row in rows("geo")] == ["Finished Ko"]


def test_a_scenario_of_several_others_is_refused(
    platform: Controller, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = [
        {"id": number, "start_scenario_instance": {"scenario_name": name, "arguments": {}}}
        for number, name in enumerate(("one", "two"))
    ]
    for name, functions in (("both", starts), ("one", []), ("two", [])):
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({"name": name, "openbach_functions": functions}))
    assert main.main(["collect", str(tmp_path / "both.json")]) == 2
    assert "starts one, two: collect each by its own name" in capsys.readouterr().err


def test_what_the_command_has_started_is_collected_and_taken_up(
    platform: Controller, capsys: pytest.CaptureFixture[str]
) -> None:
    """With constants of its own a scenario has a name of its own there, and is the same run here."""
    cell = ["geo", "vpn=none", "cc=bbr", "size=30M", "loss=0", "rate=20M"]
    words = [*cell, "--engine", "controller", "--quiet", "--results"]
    assert main.main([*words, "first"]) == 0
    assert main.main(["collect", "geo", "--results", "second"]) == 0
    listed = platform.get("project/", "satvpn", "scenario_instance/", quiet="")
    assert [one["scenario_name"][:4] for one in listed] == ["geo-"]
    assert main.main([*words, "second"]) == 0
    assert platform.get("project/", "satvpn", "scenario_instance/", quiet="") == listed
    first, second = (Store(Path(name)).all() for name in ("first", "second"))
    assert [(one.run_id, one.arguments, one.measures) for one in first] == [
        (one.run_id, one.arguments, one.measures) for one in second
    ]
    assert second[0].arguments["rate"] == "20M"


def test_values_as_the_web_ui_is_given_them(launch: Launch) -> None:
    """`preset`, which the package's README has for it, is 0 in a record."""
    launch("geo", **{**VALUES, "loss": "preset"})
    main.main(["collect", "geo"])
    (found,) = records("geo")
    assert found.arguments["loss"] == "0"
