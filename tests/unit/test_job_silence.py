# SPDX-License-Identifier: GPL-3.0-or-later
"""silence: who speaks after it, when the answer comes, and the cell of one that never does."""

from __future__ import annotations

import os
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.job_code import load

from openbach_run.campaign.table import _cell
from openbach_run.errors import InputError
from openbach_run.link_checks import MOST_BYTES, read_file_of
from openbach_run.openbach.measures import described_measure, to_records

silence = load("silence")


def with_ping(monkeypatch: pytest.MonkeyPatch, folder: Path, code: int) -> None:
    """Put a program in place of ping that ends with this exit code."""
    program = folder / "ping"
    program.write_text(f'#!/bin/sh\necho "$@" > {folder}/words; exit {code}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_the_first_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_ping(monkeypatch, tmp_path, 0)
    assert 0 < silence.answer_after_s("10.0.0.1", 20) < 20
    assert (tmp_path / "words").read_text() == "-nq -c 1 -w 20 10.0.0.1\n"
    with_ping(monkeypatch, tmp_path, 1)
    assert silence.answer_after_s("10.0.0.1", 20) is None
    with_ping(monkeypatch, tmp_path, 2)
    with pytest.raises(SystemExit, match="ping -nq"):
        silence.answer_after_s("10.0.0.1", 20)


@pytest.mark.parametrize(("first", "sent"), [("server", {"answered": 1}), ("client", {})])
def test_one_end_speaks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: str, sent: dict[str, int]
) -> None:
    told: dict[str, Any] = {}
    with_ping(monkeypatch, tmp_path, 0)
    monkeypatch.setattr(silence.collect_agent, "send_stat", lambda _, **one: told.update(one))
    monkeypatch.setattr(silence.collect_agent, "now", lambda: 0)
    words = ["silence", "10.0.0.1", first, "server", "--silence-s", "0"]
    monkeypatch.setattr(sys, "argv", words)
    silence.main()
    told.pop("answer_after_s", None)
    assert told == sent


@pytest.mark.parametrize("first", ["data", "call"])
def test_data_and_calls_are_answered(monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setattr(silence, "PORT", free.getsockname()[1])
    monkeypatch.setattr(silence, "HUNG_UP_S", 0.1)
    answers = threading.Thread(target=silence.answer, args=(first, 30))
    answers.start()
    found = None
    while found is None:
        with suppress(SystemExit):  # refused: it does not listen yet
            found = silence.answer_after_s("127.0.0.1", 20, first)
    answers.join()
    assert 0 < found < 20


@pytest.mark.parametrize("first", ["data", "call"])
def test_without_an_answer_it_is_never(monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.socket(type=socket.SOCK_DGRAM) as own,
    ):
        own.bind(silent.getsockname())
        monkeypatch.setattr(silence, "PORT", silent.getsockname()[1])
        assert silence.answer_after_s("127.0.0.1", 0.1, first) is None
    silence.answer(first, 0.01)


@pytest.mark.parametrize("words", [["--silence-s", "-1"], ["--patience-s", "0"]])
def test_times_have_limits(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        silence.parse(["10.0.0.1", "server", "server", *words])


def test_never_is_a_cell() -> None:
    never = described_measure("x", "answer_after_s", {"absent": "never", "better": "less"})
    campaign: Any = SimpleNamespace(measure="answer_after_s", declared=[never])
    campaign.scenario = SimpleNamespace(sweep={"measure": "answer_after_s"})

    def cell(*values: float | None) -> str:
        done: list[Any] = [
            SimpleNamespace(finished=True, measures={"answer_after_s": one}) for one in values
        ]
        return _cell(done, campaign)

    assert cell(None, None) == "never"
    assert cell(0.5, None, 0.5) == "0.50 (1 never)"
    assert cell(0.5) == "0.50"
    failed: Any = SimpleNamespace(finished=False, measures={})
    assert _cell([failed], campaign) == "failed"


def test_the_word_is_in_the_record_only_where_there_is_one() -> None:
    (bare,) = to_records({"a": (described_measure("x", "b_s", {}),)})["a"]
    (word,) = to_records({"a": (described_measure("x", "b_s", {"absent": "no"}),)})["a"]
    assert "absent" not in bare and word["absent"] == "no"


def test_a_file_of_commands_is_any_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("any\n")
    (tmp_path / "b").write_bytes(b"x" * (MOST_BYTES + 1))
    (tmp_path / "c").write_bytes(b"\xff")
    assert read_file_of("file_a", tmp_path / "a") == "any\n"
    for other in (tmp_path / "b", tmp_path / "c", tmp_path, Path("/dev/zero"), tmp_path / "none"):
        with pytest.raises(InputError):
            read_file_of("file_a", other)
    with pytest.raises(InputError, match="unknown column"):
        read_file_of("link_file", tmp_path / "a")
