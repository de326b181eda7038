# SPDX-License-Identifier: GPL-3.0-or-later
"""collect_agent, where jobs touch what is outside of them.

Files, signals, several writers of one file.
"""

from __future__ import annotations

import json
import os
import signal
from multiprocessing import get_context
from pathlib import Path

import collect_agent
import pytest
from helpers.waiting import wait_for

NOW_MS = 1_795_216_367_675


@pytest.fixture
def statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "statistics.jsonl"
    monkeypatch.setenv("OPENBACH_STATISTICS", str(file))
    monkeypatch.setenv("JOB_NAME", "toy")
    monkeypatch.setenv("JOB_INSTANCE_ID", "3")
    return file


def test_a_job_run_by_hand_sends_its_statistics_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBACH_STATISTICS", raising=False)
    assert collect_agent.send_stat(NOW_MS, rate=1).startswith("KO")


def test_stored_files_are_copied_and_named(
    statistics: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect_agent, "FILES", str(tmp_path / "files"))
    plot = tmp_path / "plot.svg"
    plot.write_text("<svg/>")
    assert collect_agent.store_files(NOW_MS, figure=str(plot)) == "OK"
    line = json.loads(statistics.read_text())
    assert line["figure"] == str(tmp_path / f"files/toy/3/{NOW_MS}/plot.svg")
    assert Path(line["figure"]).read_text() == "<svg/>"
    assert line["_metadata"]["is_file"] is True


def test_a_file_that_is_not_there_cannot_be_stored(
    statistics: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect_agent, "FILES", str(tmp_path / "files"))
    with pytest.raises(RuntimeError, match=r"missing\.svg"):
        collect_agent.store_files(NOW_MS, figure=str(tmp_path / "missing.svg"))


def _send_many(count: int) -> None:
    for number in range(count):
        collect_agent.send_stat(NOW_MS, text="x" * 5000, number=number)


def test_lines_of_several_jobs_never_mix(statistics: Path) -> None:
    context = get_context("fork")
    writers = [context.Process(target=_send_many, args=(50,)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len([json.loads(line) for line in statistics.read_text().splitlines()]) == 200


def test_wait_for_signal_returns_and_calls_its_handler() -> None:
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(
            signal.SIG_BLOCK, {signal.SIGTERM}
        )  # so that the signal comes before the wait
        os.kill(os.getpid(), signal.SIGTERM)
        collect_agent.wait_for_signal(lambda number, _: os._exit(number))
        os._exit(0)
    try:
        status = wait_for(
            lambda: (ended := os.waitpid(pid, os.WNOHANG))[0] and ended, "the end of the wait"
        )
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        raise
    assert os.waitstatus_to_exitcode(status[1]) == signal.SIGTERM
