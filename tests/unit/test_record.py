# SPDX-License-Identifier: GPL-3.0-or-later
"""Records are whole or not there, whatever happens to the command that makes them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.kills import killed_at
from helpers.records import RECORD

from openbach_run.errors import InputError
from openbach_run.results import record, run_files
from openbach_run.results import store as stores
from openbach_run.results.record import Record, statistics
from openbach_run.results.store import Store, share_runs


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "results/geo")
    with made.opened():
        return made


def keep(store: Store, record: Record) -> Path:
    store.keep(store.begin(record.run_id), record)
    return store.runs / record.run_id


def test_a_kept_record_is_loaded_again(store: Store) -> None:
    keep(store, RECORD)
    assert store.load(RECORD.run_id) == RECORD
    assert store.load("ffffffffffffffff") is None


def test_a_record_from_before_blake3_is_read_and_equals_none_of_today(store: Store) -> None:
    file = keep(store, RECORD) / "record.json"
    file.write_text(file.read_text().replace('"capture_hash"', '"capture_sha256"'))
    assert store.load(RECORD.run_id) == replace(RECORD, capture_hash="sha256:ab")


def test_a_record_replaces_an_older_one(store: Store) -> None:
    keep(store, RECORD)
    keep(store, replace(RECORD, wall_s=2.0))
    assert store.load(RECORD.run_id) == replace(RECORD, wall_s=2.0)
    assert [place.name for place in store.runs.iterdir()] == [RECORD.run_id]


def test_a_run_that_fails_replaces_no_good_record(store: Store) -> None:
    place = keep(store, RECORD)
    failed = replace(RECORD, status="Finished Ko", error="no route")
    assert store.keep(store.begin(RECORD.run_id), failed) == place.with_suffix(".failed")
    assert store.load(RECORD.run_id) == RECORD and store.all() == [RECORD]
    with store.opened():  # the failed one is not cleaned up with what killed commands leave
        assert "Finished Ko" in (place.with_suffix(".failed") / "record.json").read_text()
    assert store.keep(store.begin(RECORD.run_id), replace(RECORD, wall_s=2.0)) == place
    assert [left.name for left in store.runs.iterdir()] == [RECORD.run_id]


def test_a_failed_record_is_replaced_by_another(store: Store) -> None:
    keep(store, replace(RECORD, status="Finished Ko"))
    keep(store, replace(RECORD, status="Guest Lost"))
    assert [record.status for record in store.all()] == ["Guest Lost"]


@pytest.mark.parametrize("window", range(1, 8))
def test_killed_at_any_moment_of_a_replacement_a_good_record_is_there(
    store: Store, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    keep(store, RECORD)
    steps = ((Path, "rename"), (run_files, "write_new"), (run_files, "remove"), (stores, "_sync"))
    with killed_at(monkeypatch, window, steps):
        store.keep(store.begin(RECORD.run_id), replace(RECORD, wall_s=2.0))
    with store.opened():
        found = store.load(RECORD.run_id)
        assert found is not None and found.finished
        assert [left.name for left in store.runs.iterdir()] == [RECORD.run_id]


def test_what_a_run_made_unreadable_is_removed_all_the_same(store: Store) -> None:
    place = store.begin(RECORD.run_id)
    (place / "a/b").mkdir(parents=True)
    (place / "a/b/file").touch()
    (place / "a/b").chmod(0)
    (place / "a").chmod(0)
    with store.opened():
        assert list(store.runs.iterdir()) == []


def test_what_a_killed_command_has_left_is_removed(store: Store) -> None:
    (store.begin(RECORD.run_id) / "events.jsonl").touch()
    with store.opened():
        assert list(store.runs.iterdir()) == []


def test_directories_that_share_runs_are_written_by_one_command_at_a_time(tmp_path: Path) -> None:
    """What another command has begun would be taken for what a killed one has left."""
    (tmp_path / "runs").mkdir()
    stores = [Store(tmp_path / name) for name in ("full", "matrix")]
    for one in stores:
        one.directory.mkdir()
        share_runs(one.directory)
    with Store(stores[0].directory).opened():
        begun = stores[0].begin(RECORD.run_id)
        with pytest.raises(InputError, match="another openbach-run"), stores[1].opened():
            pass
        assert begun.exists()


def test_a_command_killed_while_it_replaces_a_record_loses_none(store: Store) -> None:
    place = keep(store, RECORD)
    place.rename(place.with_suffix(".replaced"))
    store.begin(RECORD.run_id)
    with store.opened():
        assert store.load(RECORD.run_id) == RECORD
        assert [left.name for left in store.runs.iterdir()] == [RECORD.run_id]


def test_a_command_killed_after_it_replaced_a_record_leaves_the_new_one(store: Store) -> None:
    place = keep(store, RECORD)
    shutil.copytree(place, place.with_suffix(".replaced"))
    keep_new = replace(RECORD, wall_s=2.0)
    (place / "record.json").write_text(json.dumps(keep_new.__dict__))
    with store.opened():
        assert store.load(RECORD.run_id) == keep_new
        assert [left.name for left in store.runs.iterdir()] == [RECORD.run_id]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"run_id": "0123456789abcdef"}'])
def test_a_record_of_another_version_counts_as_none(store: Store, content: str) -> None:
    place = keep(store, RECORD)
    (place / "record.json").write_text(content)
    assert store.load(RECORD.run_id) is None


MEASURE = {
    "column": "a",
    "statistic": "a",
    "unit": "s",
    "title": "a",
    "type": "float",
    "factor": 1.0,
    "take": "median",
}
PART = {"scenario": "geo", "arguments": {}, "status": "Finished Ok", "virtual_s": 1, "measures": {}}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("run_id", 5),
            ("scenario", None),
            ("arguments", {"vpn": 5}),
            ("arguments", []),
            ("seed", "1"),
            ("seed", 1e3),
        ),
        *(
            ("seed", 10**30),
            ("status", []),
            ("error", 5),
            ("virtual_s", "3"),
            ("virtual_s", 1e300),
            ("wall_s", None),
        ),
        *(
            ("capture_hash", None),
            ("measures", []),
            ("measures", {"a": "x"}),
            ("measures", {"a": 10**30}),
        ),
        *(
            ("command", ["x"]),
            ("parts", {}),
            ("parts", [5]),
            ("parts", [{**PART, "virtual_s": None}]),
            ("host", []),
        ),
        *(
            ("parts", [{**PART, "arguments": {"vpn": None}}]),
            ("shared", 5),
            ("shared", "a\0b"),
            ("shared", "none"),
        ),
    ],
)
def test_a_record_that_somebody_has_damaged_counts_as_none(
    store: Store, name: str, value: Any
) -> None:
    """It was taken as it is, and whoever used the field had a traceback."""
    file = keep(store, RECORD) / "record.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    assert store.load(RECORD.run_id) is None
    assert store.all() == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("identity", []),
            ("identity", {"engine": 5}),
            ("packages", {}),
            ("packages", [5]),
            ("declared", []),
        ),
        *(
            ("declared", {"job": 5}),
            ("declared", {"job": [5]}),
            ("declared", {"job": [{**MEASURE, "column": 5}]}),
        ),
        ("declared", {"job": [{**MEASURE, "factor": "x"}]}),
    ],
)
@pytest.mark.parametrize("kept", ["shared", "in the record"])
def test_so_does_one_whose_shared_fields_are_damaged(
    tmp_path: Path, name: str, value: Any, kept: str
) -> None:
    store = Store(tmp_path)
    store.runs.mkdir()
    file = keep(store, RECORD) / "record.json"
    (shared,) = store.shared.glob("*.json")
    changed = {**json.loads(shared.read_text()), name: value}
    if kept == "shared":
        shared.write_text(json.dumps(changed))
    else:
        fields = {**json.loads(file.read_text()), **changed}
        del fields["shared"]
        file.write_text(json.dumps(fields))
    assert Store(tmp_path).load(RECORD.run_id) is None


def test_a_record_says_what_the_guest_has_said(store: Store) -> None:
    """And what the host has measured; an older one says neither."""
    made = replace(RECORD, host={"exit": "exit code 0", "capture_bytes": 5, "last_packet_s": 1.5})
    file = keep(store, made) / "record.json"
    written = json.loads(file.read_text())
    assert written[record.SOURCES] == list(record.SAID_BY_GUEST)
    assert {*record.SAID_BY_GUEST, *record.MEASURED_BY_HOST} >= written.keys() - {
        record.SOURCES,
        "shared",
    }
    assert store.load(RECORD.run_id) == made
    del written[record.SOURCES], written["host"], written["parts"]
    file.write_text(json.dumps(written))
    assert store.load(RECORD.run_id) == RECORD


def test_two_commands_do_not_share_a_directory(store: Store) -> None:
    with (
        store.opened(),
        pytest.raises(InputError, match=r"another openbach-run .* --results DIR"),
        Store(store.directory).opened(),
    ):
        pass


def test_a_full_disk_is_told_before_anything_runs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with (
        pytest.raises(
            InputError, match=r"cannot be written there: No space left on device; --results"
        ),
        store.opened(),
    ):
        pass
    assert list(store.runs.iterdir()) == []


def test_a_directory_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match="cannot be written there"),
        Store(tmp_path / "file").opened(),
    ):
        pass


def test_files_are_whole_or_not_written(store: Store) -> None:
    store.write("results.csv", "old")

    def torn() -> Iterator[str]:
        yield "n"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        store.write("results.csv", torn())
    assert (store.directory / "results.csv").read_text() == "old"


def test_half_a_statistic_is_none(tmp_path: Path) -> None:
    assert statistics(tmp_path) == []
    sent = [
        {"a": 1, "_metadata": {"job_name": "x"}},
        {"a": "\u2028", "_metadata": {"job_name": "x"}},
    ]
    lines = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in sent)
    (tmp_path / "statistics.jsonl").write_text(lines + '{"_metadata": {"job_na')
    assert statistics(tmp_path) == sent


def test_of_a_records_command_only_scenario_values_and_seed_are_taken() -> None:
    one = replace(
        RECORD,
        command="./openbach-run scenarios/geo.json x=1 --with /evil --seeds 9, --results=/tmp",
        arguments={"vpn": "none"},
        seed=3,
    )
    assert one.repetition == ["scenarios/geo.json", "vpn=none", "--seeds=3,"]
    assert one.options == ["--results", "--with"]


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("", {}),
        ("./openbach-run --with=/evil geo", {}),
        ("./openbach-run geo", {"--with": "/evil"}),
        ("'", {}),
    ],
)
def test_an_option_in_place_of_a_scenario_or_a_value_is_refused(
    command: str, arguments: dict[str, str]
) -> None:
    with pytest.raises(InputError):
        replace(RECORD, command=command, arguments=arguments).repetition  # noqa: B018
