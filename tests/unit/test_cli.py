# SPDX-License-Identifier: GPL-3.0-or-later
"""The command with an engine that is made up: what it prints, keeps, resumes and refuses."""

from __future__ import annotations

import csv
import gzip
import html
import io
import json
import os
import shlex
import shutil
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas
import pytest
from blake3 import blake3
from helpers.fake_engine import FakeEngine, Transfers
from helpers.waiting import HANG_S

import openbach_run
from openbach_run.campaign import engines
from openbach_run.commands import main
from openbach_run.engine.contract import Outcome
from openbach_run.errors import SetupError
from openbach_run.progress import only_shown
from openbach_run.results.files import csv_cell

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def transfers(monkeypatch: pytest.MonkeyPatch) -> Transfers:
    made = Transfers()
    monkeypatch.setattr(engines, "VirtualEngine", made.engine)
    return made


def run(*arguments: str) -> int:
    """With one seed, if they do not say otherwise."""
    seeds = () if "--seeds" in arguments else ("--seeds", "1")
    return main.main(
        [str(ROOT / "scenarios/geo_loss.json"), "cc=bbr", "vpn=none", *seeds, *arguments]
    )


def test_if_anything_is_random_all_is_run_with_five_seeds_after_a_first_table(
    tmp_path: Path, transfers: Transfers, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        str(ROOT / "scenarios/geo_loss.json"),
        "cc=bbr",
        "vpn=none",
        "--results",
        str(tmp_path),
        "--workers",
        "1",
    ]
    assert main.main(words) == 0
    printed = capsys.readouterr()
    assert [one["loss"] for one in transfers.ran] == 5 * ["0", "0.1", "1"], (
        "the first seed of all comes first"
    )
    first, _, rest = printed.err.partition("now the other seeds (")
    assert (
        "10.01     11.01   20.01" in first
        and "one seed, and the link is random" in first
        and "15 of 15 runs" in rest
    )
    assert "10.03 [10.01–10.05]  11.03 [11.01–11.05]  20.03 [20.01–20.05]" in printed.out
    assert "median [least to greatest] of 5 seeds" in printed.out
    assert "95 %" not in printed.out
    rows = list(csv.DictReader((tmp_path / "results.csv").open()))
    assert [(row["loss"], row["seed"]) for row in rows[:3]] == [("0", "1"), ("0", "2"), ("0", "3")]
    assert main.main([*words, "loss=0"]) == 0
    assert len(transfers.ran) == 15 and "now the other seeds" not in capsys.readouterr().err


def test_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--results", str(tmp_path)) == 0
    printed = capsys.readouterr()
    assert "loss=0  loss=0.1  loss=1" in printed.out
    assert "10.01     11.01   20.01" in printed.out
    assert "at least 25.09 s" in printed.out
    assert "3 of 3 runs" in printed.err


def test_results_csv_has_a_row_per_run(tmp_path: Path) -> None:
    run("--results", str(tmp_path), "--seeds", "2", "--quiet")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "results.csv").read_text())))
    assert len(rows) == 6
    assert list(rows[0])[:5] == ["scenario", "vpn", "pep", "cc", "loss"]
    assert rows[0]["goodput_mbps"] == "8.0"
    assert {row["status"] for row in rows} == {"Finished Ok"}


def test_results_open_in_pandas(tmp_path: Path) -> None:
    run("--results", str(tmp_path))
    frame = pandas.read_csv(tmp_path / "results.csv")
    assert frame.transfer_time_s.tolist() == [10.01, 11.01, 20.01]


def test_finished_runs_are_not_repeated(tmp_path: Path, transfers: Transfers) -> None:
    run("--results", str(tmp_path), "loss=0")
    run("--results", str(tmp_path))
    assert len(transfers.ran) == 3
    run("--results", str(tmp_path), "--rerun")
    assert len(transfers.ran) == 6


def test_a_failed_run_is_shown_and_done_again(
    tmp_path: Path, transfers: Transfers, capsys: pytest.CaptureFixture[str]
) -> None:
    transfers.failing = {"1"}
    assert run("--results", str(tmp_path)) == 1
    printed = capsys.readouterr()
    assert "failed" in printed.out
    assert "job vpn on satvpn_box: Error" in printed.err
    assert "loss=1" in printed.err
    transfers.failing = set()
    assert run("--results", str(tmp_path)) == 0
    assert len(transfers.ran) == 4


def test_a_rerun_that_fails_leaves_the_good_record(
    tmp_path: Path, transfers: Transfers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--results", str(tmp_path)) == 0
    transfers.failing = {"1"}
    assert run("--results", str(tmp_path), "--rerun", "--quiet") == 1
    printed = capsys.readouterr()
    assert "job vpn on satvpn_box: Error" in printed.err  # --quiet says no progress, but says why
    assert "the good record of an earlier run stays" in printed.err
    assert [row["status"] for row in csv.DictReader((tmp_path / "results.csv").open())] == 3 * [
        "Finished Ok"
    ]
    assert run("--results", str(tmp_path)) == 0
    assert len(transfers.ran) == 6  # nothing to do


def test_an_interrupted_rerun_leaves_every_row(tmp_path: Path, transfers: Transfers) -> None:
    assert run("--results", str(tmp_path)) == 0
    transfers.interrupt_after = 4
    assert run("--results", str(tmp_path), "--rerun", "--workers", "1") == 1
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 4


def test_a_full_disk_loses_nothing_that_finished(
    tmp_path: Path, transfers: Transfers, capsys: pytest.CaptureFixture[str]
) -> None:
    transfers.interrupt_after = 2
    assert run("--results", str(tmp_path), "--workers", "1") == 1
    assert "No space left on device" in capsys.readouterr().err
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 3
    transfers.interrupt_after = None
    assert run("--results", str(tmp_path)) == 0
    assert len(transfers.ran) == 3


def test_sigterm_keeps_what_finished(
    tmp_path: Path,
    transfers: Transfers,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stopped = threading.Event()
    transfer = FakeEngine.run

    def run_until_stopped(self: FakeEngine, spec: Mapping[str, Any], *more: Any) -> Outcome:
        if transfers.ran:
            os.kill(os.getpid(), signal.SIGTERM)
            assert stopped.wait(HANG_S), "the engine was not stopped"
            return Outcome("Guest Lost", 0.0, 1.0, "", "killed")
        return transfer(self, spec, *more)

    monkeypatch.setattr(FakeEngine, "run", run_until_stopped)
    monkeypatch.setattr(FakeEngine, "stop", lambda self: stopped.set())
    assert run("--results", str(tmp_path), "--workers", "1") == 130
    printed = capsys.readouterr()
    assert "10.01" in printed.out
    assert "interrupted" in printed.err
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 2


def test_what_cannot_be_stopped_is_told_beside_the_reason(
    tmp_path: Path,
    transfers: Transfers,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As by an engine of a platform that does not answer any more.

    Every other engine is stopped all the same.
    """
    stopped = []

    def stop(self: FakeEngine) -> None:
        stopped.append(self)
        raise SetupError("scenario instance 7 may run on")

    monkeypatch.setattr(FakeEngine, "stop", stop)
    transfers.interrupt_after = 1
    (tmp_path / "two.yml").write_text(
        "scenarios: [{scenario: geo_loss, values: &v {loss: [0]}}, {scenario: leo_loss, values:"
        " *v}]"
    )
    words = [str(tmp_path / "two.yml"), "--results", str(tmp_path / "results"), "--workers", "1"]
    assert main.main(words) == 1
    told = capsys.readouterr().err
    assert (
        "No space left on device" in told
        and "stopping the other runs: scenario instance 7 may run on" in told
    )
    assert "Traceback" not in told
    assert len(set(map(id, stopped))) == 2


def test_a_table_scenario_that_is_interrupted_before_its_first_run_has_a_table(
    tmp_path: Path, transfers: Transfers, capsys: pytest.CaptureFixture[str]
) -> None:
    transfers.interrupt_after = 0
    assert main.main(["geo_loss_table", "--results", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert (
        "No space left on device" in printed.err and "geo_loss_table: transfer time" in printed.out
    )


def test_a_scenario_without_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bare.json").write_text('{"name": "bare", "openbach_functions": []}')
    assert (
        main.main([str(tmp_path / "bare.json"), "--results", str(tmp_path / "results"), "--quiet"])
        == 0
    )
    assert "done" in capsys.readouterr().out


def test_a_scenarios_name_leads_nowhere_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "up.json").write_text('{"name": "../up", "openbach_functions": []}')
    assert main.main([str(tmp_path / "up.json")]) == 2
    assert "name one with --results DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["a b", "'\"", "$HOME ${vpn} `id`", "ünï ⅷ", "a\nb", "-rf", "%s {0} \\ |*#", "<b>x"]
)
def test_a_scenario_may_have_any_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command to the report.

    The command that is kept to repeat a run can be pasted into a shell.
    """
    monkeypatch.chdir(tmp_path)
    scenario = json.loads((ROOT / "scenarios/geo_loss.json").read_text())
    Path("odd.json").write_text(json.dumps({**scenario, "name": name}))
    assert (
        main.main(["odd.json", "cc=bbr", "vpn=none", "loss=0", "noise=off", "--format", "csv"]) == 0
    )
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out, newline=""))
    assert (row["scenario"], row["status"], row["transfer_time_s"]) == (
        csv_cell(name),
        "Finished Ok",
        "10.01",
    )
    (record,) = (tmp_path / "results" / name).glob("runs/*/record.json")
    assert shlex.split(json.loads(record.read_text())["command"])[:2] == [
        "./openbach-run",
        "odd.json",
    ]
    assert main.main(["report", "--quiet", "--", f"results/{name}"]) == 0
    shown = (tmp_path / "reports" / name / "report.html").read_text()
    assert " ".join(name.split()) in html.unescape(shown) and "<b>x" not in shown


def test_a_campaign_file_has_its_own_results_and_a_table_per_scenario(
    tmp_path: Path,
    transfers: Transfers,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    both = (
        "scenarios: [{scenario: geo_loss, values: &v {cc: [bbr], vpn: [none], loss: [0]}},"
        " {scenario: leo_loss, values: *v}]"
    )
    (tmp_path / "two.yml").write_text(both)
    assert main.main(["two.yml", "--quiet", "--seeds", "2"]) == 0
    printed = capsys.readouterr().out
    assert "geo_loss: transfer time" in printed and "leo_loss: transfer time" in printed
    asked = json.loads((tmp_path / "results/two/campaign.json").read_text())
    assert asked["command"] == "./openbach-run two.yml --seeds 2"
    rows = list(csv.DictReader((tmp_path / "results/two/results.csv").open()))
    assert [run["run_id"] for run in asked["runs"]] == [row["run_id"] for row in rows]
    assert [row["scenario"] for row in rows] == 2 * ["geo_loss"] + 2 * ["leo_loss"]


def test_a_dry_run_tells_what_there_is_to_do_and_runs_nothing(
    tmp_path: Path, transfers: Transfers, capsys: pytest.CaptureFixture[str]
) -> None:
    run("--results", str(tmp_path), "--workers", "1", "--quiet")
    capsys.readouterr()
    assert run("--results", str(tmp_path), "--workers", "1", "--seeds", "61", "--dry-run") == 0
    printed = capsys.readouterr().out
    assert "183 runs, 3 finished already, 180 to do" in printed
    assert "about 3 min on 1 CPUs" in printed  # the made-up engine's runs take 1 s
    assert len(transfers.ran) == 3


def test_a_report_is_written_after_the_runs_or_refused_before_them(
    tmp_path: Path, transfers: Transfers, capsys: pytest.CaptureFixture[str]
) -> None:
    results, output = str(tmp_path / "results"), tmp_path / "report"
    (tmp_path / "mine").mkdir()
    for words in (("--report", str(tmp_path / "mine")), ("--report", str(output), "--dry-run")):
        assert run("--results", results, *words) == 2
    assert not transfers.ran
    assert run("--results", results, "--report", str(output), "--format", "json", "--quiet") == 0
    assert len(json.loads(capsys.readouterr().out)) == 3
    assert (output / "report.pdf").exists()


def test_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("--results", str(tmp_path), "--format", "json")
    assert [row["loss"] for row in json.loads(capsys.readouterr().out)] == ["0", "0.1", "1"]
    run("--results", str(tmp_path), "--format", "markdown")
    assert "| loss=0 | loss=0.1 | loss=1 |" in capsys.readouterr().out
    run("--results", str(tmp_path), "--format", "csv")
    assert capsys.readouterr().out == (tmp_path / "results.csv").read_text()


def test_a_second_command_hides_no_run_of_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in docs/start.md: a report is of all runs of the directory."""
    place = ("--results", str(tmp_path / "kept"))
    run("loss=0,1", *place)
    run("loss=1,2", "size=10M", *place)
    run("loss=2", *place)
    with (tmp_path / "kept/results.csv").open() as file:
        rows = [(one["loss"], one["size"], one["run_id"]) for one in csv.DictReader(file)]
    assert [row[:2] for row in rows] == [
        ("2", "30M"),
        *(("1", "10M"), ("2", "10M"), ("0", "30M"), ("1", "30M")),
    ]
    asked = json.loads((tmp_path / "kept/campaign.json").read_text())
    assert [one["run_id"] for one in asked["runs"]] == [row[2] for row in rows]
    assert "loss=2" in asked["command"]
    assert ["loss=0,1" in one or "loss=1,2" in one for one in asked["earlier"]] == [True, True]
    capsys.readouterr()
    run("loss=0,1,2", *place)
    run("loss=1,2", "size=10M", *place)
    assert len((tmp_path / "kept/results.csv").read_text().splitlines()) == 1 + 5
    # A run that is gone is forgotten, and so is a damaged list.
    shutil.rmtree(tmp_path / "kept/runs" / rows[0][2])
    run("loss=0", *place)
    assert len((tmp_path / "kept/results.csv").read_text().splitlines()) == 1 + 4
    (tmp_path / "kept/campaign.json").write_text("{")
    run("loss=0", *place)
    assert len((tmp_path / "kept/results.csv").read_text().splitlines()) == 1 + 1


def test_unwritable_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert run("--results", str(tmp_path / "file/below")) == 2
    assert "--results DIR names another place" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name a scenario, such as scenarios/geo_loss.json"),
        (["nothing.json"], "no such file"),
        (
            ["geo_los"],
            "geo_los: no such scenario or campaign; did you mean geo_loss? there are alternatives, ",
        ),
        (["geo", "vpm=none"], "did you mean vpn"),
        (["geo", "--vpn", "none"], "--vpn: no such option; a scenario's values are written vpn=…"),
        (["geo", "--vpn=none"], "--vpn: no such option; a scenario's values are written vpn=…"),
        (["exec", "geo", "--vpn", "none", "--", "pc", "ls"], "; openbach-run exec --help lists"),
        (["shell", "geo", "--vpn", "none"], "a scenario's values are written vpn=…"),
        (["geo", "-x"], "-x: no such option; openbach-run --help lists them"),
        (["geo", "--seeds", "x"], "--seeds x"),
        (["geo", "--workers", "0"], "at least 1"),
        (
            ["geo", "--pcap", "--scheduler", "tcp://127.0.0.1:9"],
            "captures stay on the machine of a run",
        ),
        (["geo", "--keys"], "it goes with --pcap"),
        (
            ["geo", "--workers", "2", "--scheduler", "tcp://127.0.0.1:9"],
            "--workers: a cluster runs",
        ),
    ],
)
def test_bad_input_exits_with_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--help"], ["C1", "--budget", "2h"]])
def test_a_withdrawn_command_says_what_took_its_place(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["explain", *more]) == 2
    printed = capsys.readouterr()
    assert "docs/trust.md says why" in printed.err and printed.err.count("\n") == 1
    # What it names in its place can be typed.
    words = printed.err.partition("openbach-run ")[2].partition(" (")[0]
    assert main.main([*words.split(), "--dry-run"]) == 0
    assert "the search (`explain`, " in (ROOT / "docs/trust.md").read_text()
    assert "explain" not in main.parser().format_help()


def test_a_renamed_command_is_understood_and_says_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["archive", "--verify", str(tmp_path), "--runs", "all"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == "openbach-run: archive is now artifact --plain"
    assert second == f"openbach-run: {tmp_path}: is no artifact: it lacks SHA256SUMS"


@pytest.mark.parametrize("beside", [None, '{"name": "other"}', "{"])
def test_check_of_a_scenario_that_starts_another_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], beside: str | None
) -> None:
    """The backend takes it: a platform may have the other one. One that is there is checked."""
    start = {"id": 0, "start_scenario_instance": {"scenario_name": "other", "arguments": {}}}
    file = tmp_path / "parent.json"
    file.write_text(json.dumps({"name": "parent", "openbach_functions": [start]}))
    if beside is not None:
        (tmp_path / "other.json").write_text(beside)
    assert main.main(["--check", str(file), "--format", "json"]) == (0 if beside is None else 2)
    told = capsys.readouterr()
    assert json.loads(told.out).get("name", "") == ("parent" if beside is None else "")
    note = "note: the platform must have other, which it starts and which was not checked: "
    assert (note in told.err) is (beside is None) and "other.json" in told.err


@pytest.mark.parametrize("content", [None, "{", "[]", '{"name": "a"}'])
def test_check_in_json_is_json_in_every_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    file = tmp_path / "a.json"
    if content is not None:
        file.write_text(content)
    for more in ([], ["--jobs", str(tmp_path / "nothing")]):
        assert main.main(["--check", str(file), "--format", "json", *more]) == 2
        assert json.loads(capsys.readouterr().out)["error"]
    assert main.main(["--check", "no_such_one", "--format", "json"]) == 2
    assert "no_such_one" in json.loads(capsys.readouterr().out)["error"]


def test_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--check", "geo"]) == 0
    assert "accepted" in capsys.readouterr().out
    bad = tmp_path / "bad.json"
    bad.write_text(
        '{"name": "t", "openbach_functions": [{"id": 0, "start_job_instance": {"entity_name": "e",'
        ' "nojob": {}}}]}'
    )
    assert main.main(["--check", str(bad), "--format", "json"]) == 2
    printed = capsys.readouterr()
    assert (
        json.loads(printed.out)["error_message"]["error"]
        == "No such job in the controller database: nojob"
    )
    assert "openbach_functions.0.start_job_instance.nojob" in printed.err
    schemas = str(ROOT / "tests/data/job_schemas.json")
    bad.write_text(
        bad.read_text().replace('"nojob": {}', '"fping": {"destination_ip": "10.0.0.2"}')
    )
    assert main.main(["--check", str(bad), "--jobs", schemas, "--format", "json"]) == 0


@pytest.mark.parametrize("on_terminal", [False, True])
def test_no_text_of_a_job_gives_orders_to_the_terminal(
    tmp_path: Path,
    transfers: Transfers,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    on_terminal: bool,
) -> None:
    """Neither what it wrote to stderr, nor its statistics' names, nor a scenario's texts.

    The record has them as they are.
    """
    evil = "\x1b]0;owned\x07\x1b[2J\r\u202e\x9b31m"

    def failing(*_: Any) -> Outcome:
        return Outcome(
            "Finished Ko", 3.0, 0.1, "00", f"job vpn on satvpn_box: Error, exit code 1\n    {evil}"
        )

    monkeypatch.setattr(FakeEngine, "run", failing)
    monkeypatch.setattr("sys.stdout.isatty", lambda: on_terminal)
    assert run("loss=0", "--results", str(tmp_path / "r")) == 1
    out, said = capsys.readouterr()
    assert "exit code 1\n    \\x1b]0;owned\\x07\\x1b[2J\\r\\u202e\\x9b31m" in said
    assert run(f"loss={evil}", "--results", str(tmp_path / "r")) == 2
    more = capsys.readouterr()
    assert not {"\x1b", "\x07", "\r", "\u202e", "\x9b"} & {*out, *said, *more.out, *more.err}
    (record,) = (tmp_path / "r/runs").glob("*/record.json")
    assert evil in json.loads(record.read_text())["error"]


def test_what_is_printed_to_a_terminal_gives_it_no_orders(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What goes to a file or a program is as it is."""
    for on_terminal, printed in ((True, "a\\x1b[2J\tb\n"), (False, "a\x1b[2J\tb\n")):
        monkeypatch.setattr("sys.stdout.isatty", lambda here=on_terminal: here)
        with only_shown():
            print("a\x1b[2J\tb")
        assert capsys.readouterr().out == printed


def test_a_dry_run_says_what_is_not_made(
    tmp_path: Path,
    transfers: Transfers,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def prepare(self: FakeEngine, progress: Callable[[str, float], None]) -> None:
        pytest.fail("--dry-run makes nothing")

    monkeypatch.setattr(FakeEngine, "prepare", prepare)
    monkeypatch.setattr(FakeEngine, "first_missing", lambda self: "vpncloud")
    assert run("--results", str(tmp_path), "--dry-run") == 0
    assert (
        "3 runs; which of them are finished is not known: vpncloud is not in the cache"
        in capsys.readouterr().out
    )


def test_a_parquet_file_is_of_the_last_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is written when it is asked for, and removed when there are other runs."""
    file = tmp_path / "results.parquet"
    for loss, rows in (("loss=0", 1), ("loss=0,1", 2)):
        assert run("--results", str(tmp_path), loss) == 0
        assert not file.exists()
        capsys.readouterr()
        assert main.main(["export", str(tmp_path), "--parquet"]) == 0
        assert capsys.readouterr().out == f"{file}\n"
        written = file.read_bytes()
        frame = pandas.read_parquet(file)
        csv_frame = pandas.read_csv(tmp_path / "results.csv")
        assert list(frame) == list(csv_frame) and len(frame) == rows
        assert frame.run_id.tolist() == csv_frame.run_id.tolist()
        assert openbach_run.load(tmp_path).runs.run_id.tolist() == frame.run_id.tolist()
        assert file.read_bytes() == written


def test_what_the_runs_need_can_be_made_alone(tmp_path: Path, transfers: Transfers) -> None:
    assert run("--results", str(tmp_path / "r"), "--prepare") == 0
    assert transfers.ran == [] and not (tmp_path / "r").exists()


def damaged(runs: Path, name: str, damage: Callable[[bytes], bytes]) -> Path:
    """Damage a file of the first run; return the run's directory."""
    run_dir = min(runs.iterdir())
    (run_dir / name).write_bytes(damage((run_dir / name).read_bytes()))
    return run_dir


DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "time": ("record.json", lambda text: text.replace(b"10.01", b"0.5"), "transfer_time_s is 0.5"),
    "goodput": ("record.json", lambda text: text.replace(b": 8.0", b": 9.0"), "goodput_mbps is 9.0"),
    "run": ("record.json", lambda text: text.replace(b'id": "', b'id": "0'), "cannot be read"),
    "seed": ("record.json", lambda text: text.replace(b'"seed": 1', b'"seed": 7'), "of another run"),
    "record": ("record.json", lambda text: text[:99], "record.json: cannot be read"),
    "emptied": ("statistics.jsonl.gz", lambda _: b"", "statistics.jsonl.gz: it is empty"),
    "files": ("files.tar.gz", lambda _: b"", "files.tar.gz: it is empty"),
    "cut": ("statistics.jsonl.gz", lambda text: text[:40], "statistics.jsonl.gz: "),
    "none": ("statistics.jsonl.gz", lambda _: gzip.compress(b""), "statistics.jsonl.gz: it is empty"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_named_and_the_campaign_repeats_the_run(
    kind: str, tmp_path: Path, transfers: Transfers, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("loss=0", "noise=off", "--results", str(tmp_path / "geo"))
    assert run(*words) == 0
    run_dir = damaged(tmp_path / "geo/runs", *DAMAGES[kind][:2])
    capsys.readouterr()
    for command in (
        ["export"],
        ["report", "-o", str(tmp_path / "report"), "--quiet", "--runs"],
        ["artifact", "-o", str(tmp_path / "artifact"), "--plain", "--without-bundle"],
    ):
        assert main.main([command[0], str(tmp_path / "geo"), *command[1:]]) == 2
        told = capsys.readouterr().err
        assert DAMAGES[kind][2] in told and run_dir.name in told
    before = len(transfers.ran)
    assert run(*words) == 0
    assert len(transfers.ran) == before + 1
    assert "10.01" in capsys.readouterr().out
    assert main.main(["export", str(tmp_path / "geo")]) == 0


def test_a_record_with_other_values_is_of_another_run(tmp_path: Path, transfers: Transfers) -> None:
    words = ("loss=1", "--seeds", "1", "--results", str(tmp_path))
    assert run(*words) == 0
    damaged(tmp_path / "runs", "record.json", lambda text: text.replace(b'ss": "1"', b'ss": "0"'))
    assert run(*words) == 0
    assert len(transfers.ran) == 2


@pytest.mark.parametrize(
    ("damage", "repeated"),
    [
        (lambda packets: packets[: len(packets) // 2], True),
        (lambda _: b"", True),
        (lambda packets: packets[:40] + b"\xff" + packets[41:], False),
    ],
)
def test_a_damaged_capture_is_named_and_its_run_repeated(
    damage: Callable[[bytes], bytes],
    repeated: bool,
    tmp_path: Path,
    transfers: Transfers,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("loss=0", "noise=off", "--results", str(tmp_path))
    assert run(*words) == 0
    packets = bytes(range(100))
    (run_dir,) = (tmp_path / "runs").iterdir()
    (run_dir / "capture.pcapng").write_bytes(packets)
    said = json.loads((run_dir / "record.json").read_text())
    said |= {"capture_hash": blake3(packets).hexdigest(), "host": {"capture_bytes": 100}}
    (run_dir / "record.json").write_text(json.dumps(said))
    assert run(*words) == 0
    assert len(transfers.ran) == 1
    damaged(tmp_path / "runs", "capture.pcapng", damage)
    assert main.main(["capture", str(run_dir)]) == 2
    assert "capture.pcapng: is damaged" in capsys.readouterr().err
    assert run(*words) == 0
    assert len(transfers.ran) == 1 + repeated
