# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a campaign linear in its runs.

Work done once, files written once, few files a run (times: tools/bench/scale.py).
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pytest
from helpers.fake_engine import EVENT, SENT, FakeEngine, few_files, leave
from helpers.plans import planned
from helpers.records import RECORD
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.campaign import checks
from openbach_run.campaign import forecast as forecasts
from openbach_run.campaign import spec as specs
from openbach_run.campaign.execute import Execution, PlannedRun
from openbach_run.campaign.executor import Executor
from openbach_run.commands.main import COMMANDS
from openbach_run.openbach.reading import parse_scenario
from openbach_run.progress import Reporter
from openbach_run.results import run_files
from openbach_run.results.record import events, statistics
from openbach_run.results.run_files import DamagedRecord
from openbach_run.results.store import Store

ROOT = Path(__file__).resolve().parents[2]


def execute(
    store: Store, runs: list[PlannedRun], cpus: tuple[int, ...] = (0,), rerun: bool = False
) -> Execution:
    reporter = Reporter(quiet=True)
    execution = Execution(runs, store, reporter.show, reporter.say, rerun=rerun)
    with store.opened():
        execution.execute(cpus)
    return execution


# Planning


def test_a_scenario_is_hashed_once_for_all_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each use of a run's name hashed the whole scenario.

    Half a second a run in a campaign of a thousand.
    """
    taken: list[int] = []
    digest = specs._digest

    def counted(value: Any) -> str:
        taken.append(len(json.dumps(value)))
        return digest(value)

    monkeypatch.setattr(specs, "_digest", counted)
    runs = planned(FakeEngine(few_files), "vpn=none,wireguard", "loss=0,1", seeds=(1, 2, 3))
    names = [one.spec.run_id for _ in range(10) for one in runs]
    assert len(set(names)) == 12
    assert len(taken) == 1 + 4 + 12
    assert sum(size > 3000 for size in taken) == 1


def test_values_are_checked_once_not_in_every_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Mapping[str, str]] = []
    monkeypatch.setattr(checks, "wrong_values", lambda places, own: checked.append(own))
    losses = ",".join(str(number / 10) for number in range(40))
    runs = planned(
        FakeEngine(few_files), "vpn=none,wireguard,openvpn_udp", "pep=none,A,B", f"loss={losses}"
    )
    assert len(runs) == 3 * 3 * 40
    assert len(checked) < 60


@given(
    st.lists(st.fixed_dictionaries({name: st.sampled_from("01") for name in "abcd"}), min_size=1),
    st.data(),
)
def test_every_combination_is_in_a_cell_that_is_checked(
    cells: list[dict[str, str]], data: st.DataObject
) -> None:
    groups = data.draw(st.lists(st.sets(st.sampled_from("abcde"))))
    first = list(checks.first_of_each(cells, groups))
    for names in groups:
        known = sorted(names - {"e"})
        combinations = [[cell[name] for name in known] for cell in cells]
        in_first = [[cell[name] for name in known] for cell in first]
        assert all(one in in_first for one in combinations)
        assert [cells.index(cell) for cell in first] == sorted(cells.index(cell) for cell in first)


def test_a_forecast_compares_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run to do was compared with every known one."""
    compared = 0
    like = forecasts.most_like_s

    def counted(cell: Any, walls_s: Any) -> float:
        nonlocal compared
        compared += 1
        return like(cell, walls_s)

    monkeypatch.setattr(forecasts, "most_like_s", counted)
    known = [replace(RECORD, arguments={"loss": str(number)}, wall_s=2.0) for number in range(5000)]
    origin = specs.Origin(parse_scenario({"name": "geo", "openbach_functions": []}, {}))
    to_do = [
        specs.RunSpec(specs.CellSpec(origin, {"loss": str(number)}), 1)
        for number in range(2500, 7500)
    ]
    assert forecasts.mean_wall_s(
        [forecasts._values(spec) for spec in to_do], known
    ) == pytest.approx(2.0)
    assert 0 < compared <= forecasts.SAMPLE


# Results while runs end


def test_results_csv_grows_by_a_line_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was written anew after every run: in a campaign of ten thousand that took 13 hours."""
    lines: list[int] = []
    written: list[str] = []
    store = Store(tmp_path)
    write = Store.write

    def counted(self: Store, name: str, text: Any) -> None:
        written.append(name)
        write(self, name, text)

    monkeypatch.setattr(Store, "write", counted)
    engine = FakeEngine(
        few_files,
        before=lambda number: lines.append(
            len((tmp_path / "results.csv").read_text().splitlines())
        ),
    )
    runs = planned(engine, "vpn=none,wireguard", "loss=0,1", seeds=(1, 2, 3))
    execute(store, runs)
    assert lines[1:] == list(range(2, 13)), "the head, and what has finished"
    assert written.count("results.csv") == 3, "at the start, for the first columns, at the end"


def test_results_csv_has_the_order_of_the_campaign_at_the_end(tmp_path: Path) -> None:
    runs = planned(FakeEngine(few_files), "loss=0,1", "vpn=none", seeds=(1, 2))
    execute(Store(tmp_path), list(reversed(runs)))
    before = pandas.read_csv(tmp_path / "results.csv", dtype=str).run_id.tolist()
    assert before == [one.spec.run_id for one in reversed(runs)]
    execute(Store(tmp_path), runs)
    execute(Store(tmp_path), runs, rerun=True)
    assert pandas.read_csv(tmp_path / "results.csv", dtype=str).run_id.tolist() == [
        one.spec.run_id for one in runs
    ]


def test_an_interrupt_while_runs_are_queued_ends_the_guests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, submitted = Executor.submit, 0

    def interrupted(self: Executor, *arguments: Any) -> None:
        nonlocal submitted
        submitted += 1
        if submitted == 2:
            raise KeyboardInterrupt
        submit(self, *arguments)

    engine = FakeEngine(few_files)
    runs = planned(engine, "vpn=none", "loss=0,1", seeds=(1, 2))
    monkeypatch.setattr(Executor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute(Store(tmp_path), runs, cpus=(0, 0))
    assert engine.stopping.is_set()
    assert (tmp_path / "results.csv").exists()


# Records


def test_a_record_is_few_files_and_is_read_as_before(tmp_path: Path) -> None:
    (run,) = planned(FakeEngine(few_files), "vpn=none", "loss=0")
    store = Store(tmp_path)
    execute(store, [run])
    run_dir = store.runs / run.spec.run_id
    assert sorted(place.name for place in run_dir.rglob("*")) == [
        "events.jsonl.gz",
        "files.tar.gz",
        "record.json",
        "statistics.jsonl.gz",
    ]
    assert (statistics(run_dir), events(run_dir)) == ([SENT], [EVENT])
    assert run_files.document(run_dir, "run.json")["seed"] == 1
    assert run_files.content(run_dir, "jobs/1_vpn_box/stdout") == b"1_vpn_box\n"
    with pytest.raises(FileNotFoundError):
        run_files.content(run_dir, "jobs/1_vpn_box/nothing")
    assert pandas.read_json(
        run_dir / "statistics.jsonl.gz", lines=True
    ).transfer_time_s.tolist() == [9.5]
    with tarfile.open(run_dir / "files.tar.gz") as archive:
        assert "jobs/2_file_transfer_pc/stdout" in archive.getnames()


def test_the_same_run_is_packed_into_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        leave(tmp_path / name, {"seed": 1})
        run_files.pack(tmp_path / name, ())
    for file in ("files.tar.gz", "events.jsonl.gz", "statistics.jsonl.gz"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_run_that_failed_keeps_its_files(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.opened():
        place = store.begin(RECORD.run_id)
        leave(place, {})
        kept = store.keep(place, replace(RECORD, status="Finished Ko"))
    assert (kept / "jobs/1_vpn_box/stdout").read_text() == "1_vpn_box\n"
    assert statistics(kept) == [SENT]


@pytest.mark.parametrize("odd", ["link", "fifo", "long", "long in bytes", "large"])
def test_a_run_that_left_something_else_is_not_packed(
    tmp_path: Path, odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, {})
    match odd:
        case "link":
            (tmp_path / "jobs/passwd").symlink_to("/etc/passwd")
        case "fifo":
            subprocess.run(["mkfifo", tmp_path / "jobs/fifo"], check=True)
        case "long":
            (tmp_path / ("x" * 120)).write_text("x")
        case "long in bytes":
            (tmp_path / ("é" * 60)).write_text("x")
        case "large":
            monkeypatch.setattr(run_files, "FILE_LIMIT_BYTES", 1000)
            (tmp_path / "large").write_bytes(bytes(1001))
    before = sorted(tmp_path.rglob("*"))
    run_files.pack(tmp_path, ())
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["statistics.jsonl.gz", "events.jsonl.gz", "files.tar.gz"])
@pytest.mark.parametrize(
    "damage", [lambda content: content[: len(content) // 2], lambda content: b"no archive"]
)
def test_a_damaged_archive_is_named(
    tmp_path: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    leave(tmp_path, {"seed": 1})
    run_files.pack(tmp_path, ())
    (tmp_path / name).write_bytes(damage((tmp_path / name).read_bytes()))
    with pytest.raises(DamagedRecord, match=name):
        run_files.content(tmp_path, name.removesuffix(".gz") if "jsonl" in name else "run.json")


def test_a_packed_file_without_end_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "FILE_LIMIT_BYTES", 1000)
    (tmp_path / "statistics.jsonl.gz").write_bytes(gzip.compress(bytes(100_000)))
    with pytest.raises(DamagedRecord, match="larger than"):
        run_files.content(tmp_path, "statistics.jsonl")


def test_what_records_have_in_common_is_kept_once(tmp_path: Path) -> None:
    runs = planned(FakeEngine(few_files), "vpn=none", "loss=0", seeds=(1, 2, 3))
    execute(Store(tmp_path), runs)
    assert len(list((tmp_path / "shared").iterdir())) == 1
    store = Store(tmp_path)
    first, second, third = (record for one in runs if (record := store.load(one.spec.run_id)))
    assert first.packages is second.packages is third.packages
    assert first.packages == ["made-up_1"] and first.declared
    assert "packages" not in json.loads((store.runs / first.run_id / "record.json").read_text())


def test_a_record_without_what_it_shares_counts_as_none(tmp_path: Path) -> None:
    (run,) = planned(FakeEngine(few_files), "vpn=none", "loss=0")
    execute(Store(tmp_path), [run])
    for file in (tmp_path / "shared").iterdir():
        file.unlink()
    assert Store(tmp_path).load(run.spec.run_id) is None


def test_records_of_older_versions_are_read(tmp_path: Path) -> None:
    run_dir = tmp_path / "runs" / RECORD.run_id
    run_dir.mkdir(parents=True)
    leave(run_dir, {"seed": 1})
    fields = {
        name: value for name, value in RECORD.__dict__.items() if name not in ("declared", "parts")
    }
    (run_dir / "record.json").write_text(json.dumps(fields))
    assert Store(tmp_path).load(RECORD.run_id) == RECORD
    assert (statistics(run_dir), events(run_dir)) == ([SENT], [EVENT])


# Statistics and the start


def imported(statement: str) -> set[str]:
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                f"import sys, contextlib\nwith contextlib.suppress(SystemExit):\n {statement}\n"
                "print(*sys.modules, file=sys.stderr)"
            ),
        ],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": "src:tests"},
    )
    return set(told.stderr.split())


LATER = {"requests", "rich", "numpy", "pandas", "pyarrow", "matplotlib", "distributed", "fastapi"}


def test_the_start_imports_only_what_it_uses() -> None:
    assert not imported("import openbach_run.commands.main as it; it.main(['--help'])") & {
        *LATER,
        "yaml",
    }
    assert not imported("import openbach_run.commands.run") & {
        *LATER,
        "yaml",
        "logging",
        "statistics",
    }
    assert not imported("import openbach_run.commands.report as it; it.main(['--help'])") & {
        "matplotlib",
        "typst",
    }


def test_a_run_imports_only_what_it_uses(tmp_path: Path) -> None:
    """The import of pyarrow was a tenth of the command of one run."""
    command = f"it.main(['geo', 'vpn=none', '--seeds', '1', '--results', '{tmp_path}'])"
    there = imported(
        "import openbach_run.commands.main as it, helpers.fake_engine as fake;"
        " import openbach_run.campaign.engines as engines;"
        f" engines.VirtualEngine = fake.Transfers().engine; {command}"
    )
    assert (tmp_path / "results.csv").exists() and not (tmp_path / "results.parquet").exists()
    assert "openbach_run.campaign.execute" in there
    assert not there & {*LATER, "typst", "asyncio"}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_starts_by_itself(name: str) -> None:
    """Without what another one has imported before; its help is there at once."""
    there = imported(f"import openbach_run.commands.main as it; it.main(['{name}', '--help'])")
    assert COMMANDS[name] in there
    # The readers of measurements compute with arrays.
    needed = {"numpy"} if name == "link" else set()
    assert not there & LATER - needed
