# SPDX-License-Identifier: GPL-3.0-or-later
"""What a guest may leave in place of a file.

The host reads none of it, waits for none of it, and names it.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest
from helpers.records import OURS, RECORD
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.campaign.execute import PlannedRun, execute_run
from openbach_run.campaign.spec import CellSpec, Origin
from openbach_run.campaign.sub_runs import unfold
from openbach_run.engine.contract import Outcome
from openbach_run.engine.local import EventReader, tidy
from openbach_run.engine.virtual.outcome import outcome_of
from openbach_run.openbach.measures import Declared, Measure
from openbach_run.openbach.reading import parse_scenario
from openbach_run.results import run_files
from openbach_run.results.files import write_parquet
from openbach_run.results.measures import measures
from openbach_run.results.record import (
    DAMAGED,
    MEASURED_BY_HOST,
    SAID_BY_GUEST,
    Record,
    events,
    statistics,
)
from openbach_run.results.run_files import DamagedRecord
from openbach_run.results.store import Store

NOBODY = 65534
METADATA = {
    "job_name": "file_transfer",
    "agent_name": "pc",
    "time": 0,
    "job_instance_id": 1,
    "scenario_instance_id": 1,
}


def statistic(**values: object) -> str:
    return json.dumps({**values, "_metadata": METADATA}) + "\n"


def a_link(place: Path) -> None:
    target = place.parent.parent / "host"
    target.write_text('{"status": "Finished Ok", "virtual_s": 1, "failed": []}\n')
    place.symlink_to(target)


def a_hard_link(place: Path) -> None:
    a_link(place)
    target = place.readlink()
    place.unlink()
    place.hardlink_to(target)


def a_socket(place: Path) -> None:
    at = os.open(place.parent, os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"/proc/self/fd/{at}/{place.name}")
    finally:
        os.close(at)


KINDS: dict[str, Callable[[Path], None]] = {
    "a symbolic link": a_link,
    "a hard link": a_hard_link,
    "a FIFO": os.mkfifo,
    "a socket": a_socket,
    "a directory": lambda place: place.mkdir(),
}


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    made.mkdir()
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_only_regular_files_are_read(run_dir: Path, kind: str) -> None:
    for name, read in (("statistics.jsonl", statistics), ("events.jsonl", events)):
        KINDS[kind](run_dir / name)
        with pytest.raises(DamagedRecord, match=f"{name}: {kind}; a regular file was expected"):
            read(run_dir)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["result.json", "console.log"])
def test_a_guest_that_leaves_none_has_failed(run_dir: Path, kind: str, name: str) -> None:
    (run_dir / "console.log").touch()
    (run_dir / "result.json").write_text(
        '{"status": "Finished Ok", "virtual_s": 1, "failed": []}\n'
    )
    (run_dir / name).unlink()
    KINDS[kind](run_dir / name)
    told = outcome_of(run_dir, 1.0, "ab", None, 0)
    assert (told.status, told.error) == (
        DAMAGED,
        f"the guest left {name}: {kind}; a regular file was expected",
    )


def test_no_link_is_followed_on_the_way(run_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host/stdout").write_text("secret")
    (run_dir / "jobs").symlink_to(tmp_path / "host")
    with pytest.raises(DamagedRecord):
        run_files.content(run_dir, "jobs/stdout")
    assert run_files.tail(run_dir, "jobs/stdout", 3) == []


def test_a_file_without_end_is_not_read(run_dir: Path) -> None:
    with (run_dir / "statistics.jsonl").open("wb") as file:
        file.truncate(10 << 40)
    with pytest.raises(DamagedRecord, match="larger than 64 MiB"):
        statistics(run_dir)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_is_written_in_place_of_what_a_guest_left(tmp_path: Path, kind: str) -> None:
    store = Store(tmp_path)
    store.runs.mkdir()
    place = store.begin(RECORD.run_id)
    KINDS[kind](place / "record.json")
    before = {file: file.read_text() for file in store.runs.iterdir() if file.is_file()}
    store.keep(place, RECORD)
    assert store.load(RECORD.run_id) == RECORD
    assert {file: file.read_text() for file in before} == before


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("garbage\n", "line 2: Expecting value"),
        (statistic(transfer_time_s=float("nan")), "line 2: NaN is not a finite number"),
        (
            statistic(transfer_time_s=1).replace("1,", "1e999,", 1),
            "line 2: 1e999 is not a finite number",
        ),
        (statistic(transfer_time_s=10**400), "line 2: 10+ is not a finite number"),
        (statistic(transfer_time_s=-(10**309)), "line 2: -10+ is not a finite number"),
        (
            '{"_metadata": {"job_name": "a", "time": 1' + 400 * "0" + "}}\n",
            "line 2: 10+ is not a finite number",
        ),
        (
            '{"_metadata": {"job_name": "a", "time": 1e300}}\n',
            r'line 2: _metadata: "time" is 1e\+300; at most 10+ ms',
        ),
        (
            '{"_metadata": {"job_name": "a", "time": "noon"}}\n',
            "line 2: _metadata: \"time\" is 'noon'; float was expected",
        ),
        (r'{"_metadata": {"job_name": "a", "suffix": "\ud800"}}' + "\n", "line 2: 'utf-8' codec"),
        (statistic(transfer_time_s="fast"), "line 2: transfer_time_s is 'fast', not a number"),
        (
            statistic(interval_goodput_bps=[1]),
            r"line 2: interval_goodput_bps is \[1\], not a number",
        ),
        ("[" * 100_000 + "\n", "line 2: nested too deeply"),
        ("1\n", "line 2: 1 is no JSON object"),
        ("{}\n", 'line 2: has no "_metadata"'),
        (
            '{"_metadata": {"job_name": 7}}\n',
            'line 2: _metadata: "job_name" is 7; str was expected',
        ),
        ("\xff\n", "line 2: 'utf-8' codec"),
    ],
)
def test_a_bad_statistic_is_named(run_dir: Path, line: str, wrong: str) -> None:
    (run_dir / "statistics.jsonl").write_bytes(
        (statistic(transfer_time_s=1.0) + line).encode("latin-1")
    )
    with pytest.raises(DamagedRecord, match=f"statistics.jsonl, {wrong}"):
        measures(run_dir, statistics(run_dir), OURS)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        '{"status": 1, "virtual_s": 1, "failed": []}',
        '{"status": "Fine", "virtual_s": 1, "failed": []}',
        '{"status": "Finished Ok", "virtual_s": 1e99, "failed": []}',
        '{"status": "Finished Ok", "virtual_s": "1", "failed": []}',
        '{"status": "Finished Ok", "virtual_s": NaN, "failed": []}',
        '{"status": "Finished Ko", "virtual_s": 1, "failed": [3]}',
        '{"status": "Finished Ko", "virtual_s": 1, "failed": [{}]}',
    ],
)
def test_a_result_of_another_form_is_named(run_dir: Path, text: str) -> None:
    (run_dir / "console.log").touch()
    (run_dir / "result.json").write_text(text + "\n")
    told = outcome_of(run_dir, 1.0, "ab", None, 0)
    if text == "[]":
        assert told.status == "Guest Lost"
        return
    assert told.status == DAMAGED
    assert told.error is not None
    assert told.error.startswith("the guest left result.json: ")


def test_no_console_is_a_reason(run_dir: Path) -> None:
    (run_dir / "result.json").write_text(
        '{"status": "Finished Ok", "virtual_s": 1, "failed": []}\n'
    )
    told = outcome_of(run_dir, 1.0, "ab", None, 0)
    assert (told.status, told.error) == (DAMAGED, "the guest left console.log: no such file")


@dataclass
class LeavesGarbage:
    """An engine whose run ends well and has left these statistics and events."""

    statistics: str
    events: str = ""
    packages = ("made-up_1",)

    def run(self, spec: object, place: Path, cpu: int, on_event: object) -> Outcome:
        (place / "statistics.jsonl").write_text(self.statistics)
        (place / "events.jsonl").write_text(self.events)
        return Outcome("Finished Ok", 30.0, 1.0, "ab", None)


class Spec:
    run_id, values, seed = RECORD.run_id, RECORD.arguments, 1
    identity, scenario_name = RECORD.identity, "geo"
    cell = CellSpec(
        Origin(parse_scenario({"name": "geo", "openbach_functions": []}, {})), RECORD.arguments
    )

    def for_guest(self) -> dict[str, object]:
        return {}


def flow(suffix: str, *rates_bps: float, time: float = 1) -> str:
    about, lines = {**METADATA, "job_name": "many", "suffix": suffix}, ""
    for number, rate in enumerate(rates_bps):
        line = {"rate_bps": rate, "_metadata": {**about, "time": time * number}}
        lines += json.dumps(line) + "\n"
    return lines


def many(**measure: object) -> Declared:
    named = {"column": "rate", "statistic": "rate_bps", "unit": "", "title": "", **measure}
    return {"many": (Measure(**named),)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("left", "declared", "said"),
    [
        (
            statistic(transfer_time_s="fast"),
            OURS,
            "line 1: transfer_time_s is 'fast', not a number",
        ),
        (statistic(transfer_time_s=10**400), OURS, "line 1: 1000"),
        (
            statistic(bytes=1e300),
            OURS,
            "bytes: median of bytes is not a whole number up to 9223372036854775807",
        ),
        (
            flow("", 1e308, 1e308),
            many(take="mean"),
            "rate: mean of rate_bps is not a finite number",
        ),
        (flow("", 1e308, 1e308), many(take="sum"), "rate: sum of rate_bps is not a finite number"),
        (
            flow("", 1e308, 1e308),
            many(take="median"),
            "rate: median of rate_bps is not a finite number",
        ),
        (flow("", 1e308), many(factor=10.0), "rate: median of rate_bps is not a finite number"),
        (
            flow("", 1e308),
            many(type="int", factor=10.0),
            "rate: median of rate_bps is not a whole number",
        ),
        (
            flow("1", 1e300, 1e300) + flow("2", 1, 1),
            many(take="fairness"),
            "fairness of rate_bps is not a finite",
        ),
        (
            flow("1", 1, 1) + flow("2", -1, -1),
            many(take="first_share_pct"),
            "first_share_pct of rate_bps is not a finite",
        ),
        (
            flow("1", 1e308, 1e308, time=1e13) + flow("2", 1, 1),
            many(take="total_rate"),
            "total_rate of rate_bps is not",
        ),
    ],
)
def test_a_run_that_leaves_garbage_fails_and_no_other(
    tmp_path: Path, left: str, declared: Declared, said: str
) -> None:
    store = Store(tmp_path)
    store.runs.mkdir()
    planned = PlannedRun(Spec(), LeavesGarbage(left), "command", declared)  # type: ignore[arg-type]
    place, record = execute_run(planned, store, 0, lambda event: None)
    assert (record.status, record.measures) == (DAMAGED, {})
    assert str(record.error).startswith("the run left statistics.jsonl")
    assert said in str(record.error)
    store.keep(place, record)
    write_parquet([record], tmp_path / "results.parquet")
    assert (kept := store.load(record.run_id)) and kept.error == record.error


def test_statistics_of_a_run_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    content = run_files.content

    def counted(run_dir: Path, name: str) -> bytes:
        read.append(name)
        return content(run_dir, name)

    monkeypatch.setattr(run_files, "content", counted)
    store, engine = Store(tmp_path), LeavesGarbage(statistic(transfer_time_s=2.5))
    store.runs.mkdir()
    planned = PlannedRun(Spec(), engine, "command", OURS)  # type: ignore[arg-type]
    _, record = execute_run(planned, store, 0, lambda event: None)
    assert (record.status, record.measures["transfer_time_s"]) == ("Finished Ok", 2.5)
    assert read.count("statistics.jsonl") == 1


def test_flows_without_time_between_their_intervals_have_no_rate(run_dir: Path) -> None:
    (run_dir / "statistics.jsonl").write_text(flow("1", 1, 1, time=0) + flow("2", 1, 1, time=0))
    assert measures(run_dir, statistics(run_dir), many(take="total_rate")) == {}


@pytest.mark.parametrize("t_s", [-1, 1e11, 10**400])
def test_an_event_of_no_time_is_named(run_dir: Path, t_s: float) -> None:
    (run_dir / "events.jsonl").write_text(json.dumps({"t_s": t_s, "event": "heartbeat"}) + "\n")
    with pytest.raises(
        DamagedRecord, match=r"line 1: .*(0 to 10000000000 s was expected|not a finite number)"
    ):
        events(run_dir)


def test_a_finished_record_whose_events_are_damaged_later_keeps_its_row(
    run_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (run_dir / "events.jsonl").write_text('{"t_s": 0, "event": "heartbeat"}\nxx\n')
    assert unfold(RECORD, run_dir) == [RECORD]
    assert f"{run_dir}/events.jsonl, line 2: " in caplog.text


def test_events_are_read_as_they_come(run_dir: Path) -> None:
    told: list[object] = []
    reader = EventReader(run_dir, told.append)
    assert not reader.read()
    with (run_dir / "events.jsonl").open("w", buffering=1) as file:
        file.write('{"t_s": 0, "event": "heartbeat"}\n{"t_s": 1, ')
        assert reader.read()
        file.write('"event": "heartbeat"}\nxx\n')
        with pytest.raises(DamagedRecord, match=r"events\.jsonl, line 3: "):
            reader.read()
    assert told == [{"t_s": 0, "event": "heartbeat"}]


@pytest.mark.parametrize(
    ("fill", "passed"),
    [
        (
            lambda place: [(place / str(number)).touch() for number in range(101)],
            "made more than 100 files",
        ),
        (
            lambda place: [(place / str(number)).mkdir() for number in range(101)],
            "made more than 100 files",
        ),
        (
            lambda place: os.truncate(
                os.open(place / "sparse", os.O_CREAT | os.O_WRONLY), 10 << 40
            ),
            "wrote more than 1 MiB",
        ),
        (lambda place: deep(place, 60), "made directories 40 deep"),
    ],
)
def test_limits_hold_for_every_kind_of_file(
    run_dir: Path, fill: Callable[[Path], object], passed: str
) -> None:
    assert run_files.excess(run_dir, 1 << 20, 100, "capture.pcapng") is None
    fill(run_dir)
    told = run_files.excess(run_dir, 1 << 20, 100, "capture.pcapng")
    assert told is not None
    assert told.startswith(passed)
    run_files.keep_only(run_dir, ("run.json",))
    assert list(run_dir.iterdir()) == []


def test_modes_that_a_guest_gave_do_not_stay(run_dir: Path, tmp_path: Path) -> None:
    """Neither a mode with its owner's rights, nor one that keeps its owner out.

    Nor is there a way in for others.
    """
    (host := tmp_path / "host").touch(0o644)
    (run_dir / "link").symlink_to(host)
    (run_dir / "jobs/closed").mkdir(parents=True)
    (set_id := run_dir / "jobs/closed/set-id").touch()
    for place, mode in {
        set_id: 0o6777,
        set_id.parent: 0,
        run_dir / "jobs": 0o777,
        run_dir: 0o500,
    }.items():
        place.chmod(mode)
    run_files.restrict(run_dir)
    modes = {
        place.name: place.lstat().st_mode & 0o7777 for place in (run_dir, *run_dir.rglob("*"), host)
    }
    assert modes == {
        run_dir.name: 0o700,
        "jobs": 0o700,
        "closed": 0o700,
        "set-id": 0o600,
        "link": 0o777,
        "host": 0o644,
    }


def test_no_other_user_reaches_what_a_run_leaves(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.opened():
        assert store.begin("run").stat().st_mode & 0o7777 == 0o700


def test_a_tree_deeper_than_any_path_is_removed(run_dir: Path) -> None:
    deep(run_dir, 6000)
    run_files.remove(run_dir)
    assert not run_dir.exists()


@pytest.fixture
def ordinary_user() -> Iterator[Path]:
    """The test goes on as one, with a directory of its own.

    Root could look into a directory of mode 0.
    """
    with tempfile.TemporaryDirectory(
        dir="/tmp"
    ) as place:  # pytest's own directories are closed to others
        if os.geteuid():
            yield Path(place)
            return
        os.chown(place, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield Path(place)
        finally:
            os.seteuid(0)


@pytest.mark.parametrize("mode", [0, 0o100, 0o500, 0o555])
def test_modes_of_directories_keep_nobody_out(ordinary_user: Path, mode: int) -> None:
    run = ordinary_user / "run"
    (run / "jobs/1").mkdir(parents=True)
    (run / "jobs/1/stdout").write_text("said\n")
    (run / "link").symlink_to(ordinary_user)
    ordinary_user.chmod(0o711)
    for folder in (run / "jobs/1", run / "jobs", run):
        folder.chmod(mode)
    assert tidy(run, {"seed": 1}) is None
    run_files.write_new(run, "record.json", "{}")
    run_files.pack(run, ("record.json", "link"))
    assert run_files.content(run, "jobs/1/stdout") == b"said\n"
    assert run_files.content(run, "run.json") == b'{"seed": 1}'
    assert stat.S_IMODE(ordinary_user.stat().st_mode) == 0o711


def deep(place: Path, depth: int) -> None:
    """Directories in directories, each made from the one around it."""
    at = os.open(place, os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)


@given(st.binary(max_size=200))
def test_any_bytes_are_lines_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    place = tmp_path_factory.mktemp("any")
    for name in ("statistics.jsonl", "events.jsonl"):
        (place / name).write_bytes(data + b"\n")
    for read in (statistics, events):
        try:
            read(place)
        except DamagedRecord as damage:
            assert ".jsonl, line " in str(damage)


def test_a_status_is_told_of_each_part(run_dir: Path) -> None:
    assert unfold(replace(RECORD, status=DAMAGED), run_dir)[0].status == DAMAGED


FORGED = {
    "run_id": "f" * 16,
    "seed": 9,
    "wall_s": 0.0,
    "capture_hash": "forged",
    "command": "rm",
    "identity": {"engine": "f"},
}


class Forges(LeavesGarbage):
    """An engine whose guest writes records of its own, and whatever else it likes."""

    def run(self, spec: object, place: Path, cpu: int, on_event: object) -> Outcome:
        for name in (
            "record.json",
            "record.json.new",
            "result.json",
            "events.jsonl.gz",
            "statistics.jsonl.gz",
            "run.json",
        ):
            (place / name).write_text(json.dumps(FORGED))
        return super().run(spec, place, cpu, on_event)


def test_a_guest_forges_nothing_that_the_host_measures(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.runs.mkdir()
    honest, forged = (
        execute_run(PlannedRun(Spec(), engine, "scenario", OURS), store, 0, lambda event: None)  # type: ignore[arg-type]
        for engine in (LeavesGarbage(statistic(bytes=1)), Forges(statistic(bytes=1)))
    )
    kept = store.keep(*forged)
    loaded = store.load(kept.name)
    assert loaded is not None
    for name in MEASURED_BY_HOST:
        assert json.dumps(getattr(loaded, name)) == json.dumps(getattr(honest[1], name)), name
    assert {*MEASURED_BY_HOST, *SAID_BY_GUEST} == {field.name for field in fields(Record)}
