# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of many runs in few files: what is packed is read as before, and none is ever lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.kills import killed_at
from helpers.made_up import write_results
from helpers.records import RECORD, write_statistics

from openbach_run.results import packed_runs, run_files
from openbach_run.results.record import Record, statistics
from openbach_run.results.run_files import DamagedRecord
from openbach_run.results.store import Store

STATISTIC = {"bytes": 1, "_metadata": {"job_name": "x", "suffix": None, "time": 1}}
LEFT = ("record.json", "statistics.jsonl", "run.json", "jobs/1_x_pc/stdout")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openbach_run.results.store.LOOSE", 3)


def made(number: int, **others: Any) -> Record:
    return replace(RECORD, run_id=f"{number:016x}", seed=number, **others)


def keep(store: Store, kept: Record, *more: str) -> Path:
    run_dir = store.begin(kept.run_id)
    write_statistics(run_dir, [{**STATISTIC, "bytes": kept.seed}])
    (run_dir / "run.json").write_text(f'{{"seed": {kept.seed}}}')
    (run_dir / "jobs/1_x_pc").mkdir(parents=True)
    (run_dir / "jobs/1_x_pc/stdout").write_text("x" * 700 * kept.seed)
    for name in more:
        (run_dir / name).write_text(name)
    return store.keep(run_dir, kept)


def store_of(place: Path, *numbers: int) -> Store:
    store = Store(place)
    with store.opened():
        for number in numbers:
            keep(store, made(number))
    return store


def archives(store: Store) -> list[Path]:
    return sorted(store.runs.glob("packed/*"))


def loose(store: Store) -> list[str]:
    return sorted(place.name for place in store.runs.iterdir() if place.name != "packed")


def left_by(store: Store, number: int) -> list[bytes]:
    run_dir = store.runs / f"{number:016x}"
    return [run_files.content(run_dir, name) for name in LEFT]


def test_packed_runs_are_read_as_before(tmp_path: Path) -> None:
    store = store_of(tmp_path, 1, 2)
    before = [left_by(store, number) for number in (1, 2)]
    keep(store, made(3))
    assert loose(store) == [] and len(archives(store)) == 1
    assert [left_by(store, number) for number in (1, 2)] == before
    again = Store(tmp_path)
    assert again.all() == [made(1), made(2), made(3)] and again.load(made(4).run_id) is None
    assert statistics(again.runs / made(2).run_id) == [{**STATISTIC, "bytes": 2}]
    assert run_files.tail(again.runs / made(2).run_id, "record.json", 1) == ["}"]
    with pytest.raises(FileNotFoundError):
        run_files.content(again.runs / made(1).run_id, "capture.pcapng")


def test_tar_makes_the_directories_again(tmp_path: Path) -> None:
    store = store_of(tmp_path, 1, 2, 3)
    before = [left_by(store, number) for number in (1, 2, 3)]
    (archive,) = archives(store)
    subprocess.run(["tar", "-xf", archive, "-C", store.runs], check=True)
    shutil.rmtree(store.runs / "packed")
    assert [left_by(store, number) for number in (1, 2, 3)] == before
    assert Store(tmp_path).all() == [made(1), made(2), made(3)]


def test_only_finished_runs_without_a_capture_are_packed(tmp_path: Path) -> None:
    store = store_of(tmp_path, 1)
    keep(store, made(2, status="Finished Ko"))
    keep(store, made(3), "capture.pcapng")
    keep(store, made(4))
    keep(store, made(5))
    assert loose(store) == [made(2).run_id, made(3).run_id]
    assert len(store.all()) == 5


def test_an_unreadable_record_is_not_packed(tmp_path: Path) -> None:
    store = store_of(tmp_path, 1, 2)
    (store.runs / made(1).run_id / "record.json").write_text("{")
    (store.runs / made(2).run_id / "files.tar.gz").unlink()
    (store.runs / made(2).run_id / "files.tar.gz").symlink_to("/etc/passwd")
    for number in (3, 4, 5, 6):
        keep(store, made(number))
    assert loose(store) == [made(1).run_id, made(2).run_id]
    assert store.all() == [made(number) for number in (2, 3, 4, 5, 6)]


def test_a_directory_with_many_runs_is_packed_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openbach_run.results.store.LOOSE", 1000)
    store = Store(write_results(tmp_path, 1, vpn=("none",), loss=("0",)))
    before = store.all()
    monkeypatch.setattr("openbach_run.results.store.LOOSE", 3)
    with Store(tmp_path).opened():
        pass
    assert not [name for name in loose(store) if (store.load(name) or RECORD).finished]
    assert Store(tmp_path).all() == before and len(before) > 3


STEPS = (
    (Path, "rename"),
    (run_files, "remove"),
    (os, "fsync"),
    (packed_runs, "as_members"),
    (packed_runs, "remove_dead"),
)


@pytest.mark.parametrize("window", range(1, 15))
def test_killed_at_any_moment_no_record_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    store = store_of(tmp_path, 1, 2)
    with killed_at(monkeypatch, window, STEPS):
        keep(store, made(3))
    again = Store(tmp_path)
    with again.opened():
        assert [one for one in again.all() if one.seed < 3] == [made(1), made(2)]
        keep(again, made(3))
        keep(again, made(4))
    assert again.all() == [made(1), made(2), made(3), made(4)]
    assert not [name for name in loose(again) if "." in name]


def test_a_repeated_run_takes_the_place_of_its_packed_record(tmp_path: Path) -> None:
    store = store_of(tmp_path, 1, 2, 3)
    assert keep(store, made(1, status="Finished Ko")).suffix == ".failed"
    assert store.load(made(1).run_id) == made(1)
    for number in (1, 2, 3):
        keep(store, made(number, wall_s=2.0))
    assert store.all() == [made(number, wall_s=2.0) for number in (1, 2, 3)]
    # The second archive is the later one, although all records are of the same second.
    assert loose(store) == [] and len(archives(store)) == 1
    assert Store(tmp_path).all() == store.all()


def test_a_packed_run_is_rewritten_and_removed(tmp_path: Path) -> None:
    store = store_of(tmp_path, 1, 2, 3)
    files = left_by(store, 2)[1:]
    store.rewrite(made(2, measures={"transfer_time_s": 1.0}))
    assert loose(store) == [made(2).run_id] and left_by(store, 2)[1:] == files
    assert Store(tmp_path).all()[1] == made(2, measures={"transfer_time_s": 1.0})
    store.remove(made(2).run_id)
    assert store.all() == [made(1), made(3)] == Store(tmp_path).all()
    store.remove(made(1).run_id)
    store.remove(made(3).run_id)
    assert store.all() == [] == archives(store)


def test_results_directories_merge_by_a_copy(tmp_path: Path) -> None:
    store_of(tmp_path / "a", 1, 2, 3, 4)
    store = store_of(tmp_path / "b", 3, 5, 6, 7)
    shutil.copytree(tmp_path / "a", tmp_path / "b", dirs_exist_ok=True)
    assert store.all() == [made(number) for number in range(1, 8)]


def test_a_damaged_archive_makes_no_wrong_record(tmp_path: Path) -> None:
    store = store_of(tmp_path, 1, 2, 3)
    (archive,) = archives(store)
    whole, right = archive.read_bytes(), [made(1), made(2), made(3)]
    damages = [whole[:length] for length in range(0, len(whole), 331)]
    damages += [
        whole[: at - at % 512] + bytes(512) + whole[at - at % 512 + 512 :]
        for at in range(0, len(whole), 997)
    ]
    damages += [
        whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] for at in range(0, len(whole), 149)
    ]
    lost = 0
    for damage in damages:
        if damage == whole:
            continue
        archive.write_bytes(damage)
        packed_runs._known.clear()
        found = Store(tmp_path).all()
        for one in found:
            assert one.run_id in {known.run_id for known in right}
        if len(found) < 3 and packed_runs.index_of(store.runs).damaged:
            lost += 1
            with pytest.raises(DamagedRecord, match=archive.name):
                run_files.is_there(store.runs / ("f" * 16))
    assert lost > len(damages) / 4


def test_a_campaign_says_that_an_archive_is_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (archive,) = archives(store_of(tmp_path, 1, 2, 3))
    archive.write_bytes(archive.read_bytes()[:-2000])
    packed_runs._known.clear()
    with Store(tmp_path).opened():
        pass
    assert archive.name in caplog.text and "are run again" in caplog.text


@pytest.mark.parametrize("name", ["../x/record.json", "a/../b", "a/b/c", "a b/record.json", "a/"])
def test_names_that_lead_elsewhere_are_damage(tmp_path: Path, name: str) -> None:
    run_id, _, file = name.partition("/")
    packed_runs.write(tmp_path, [packed_runs.as_members(run_id, {file: b"x"}, 0)])
    index = packed_runs.index_of(tmp_path)
    assert index.damaged and not index.runs


def test_an_archive_that_is_no_regular_file_is_damage(tmp_path: Path) -> None:
    (tmp_path / "packed").mkdir()
    os.mkfifo(tmp_path / "packed/fifo.tar")
    (tmp_path / "packed/link.tar").symlink_to("/etc/passwd")
    assert packed_runs.index_of(tmp_path).damaged.keys() == {"fifo.tar", "link.tar"}
