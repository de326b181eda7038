# SPDX-License-Identifier: GPL-3.0-or-later
"""satpep: what a stop leaves while the proxy is being set up."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest
from helpers.job_code import load

satpep = load("satpep")
PROXY = "import signal; print('\"ready\"', flush=True); signal.pause()"


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Which rules are there, and a host without nftables; signals are as before afterwards."""
    there: list[str] = []
    kept = [signal.getsignal(number) for number in satpep.STOPS]
    monkeypatch.setattr(satpep, "command_line", lambda _: [sys.executable, "-c", PROXY])
    monkeypatch.setattr(satpep, "put_rules", lambda *_: there.append("rules"))
    monkeypatch.setattr(satpep, "remove_rules", lambda _: there.clear())
    yield there
    for number, handler in zip(satpep.STOPS, kept, strict=True):
        signal.signal(number, handler)


def test_a_stop_during_the_proof_takes_the_rules_away_at_once(
    rules: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof waits 10 s for a connection; an agent kills a job 2 s after its stop."""

    def proof() -> bool:
        assert rules
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail("the proof goes on")

    monkeypatch.setattr(satpep.proof, "goes_through", proof)
    with pytest.raises(SystemExit, match="stopped before the proxy was ready"):
        satpep.split(satpep.parse(["B", "run"]))
    assert not rules


def test_a_second_signal_does_not_cut_the_cleaning_short(
    rules: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent ends a job's children first: then the job ends by itself, and is told to end."""

    def remove(_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        rules.clear()

    monkeypatch.setattr(satpep, "remove_rules", remove)
    monkeypatch.setattr(satpep.proof, "goes_through", lambda: sys.exit("its proxy is gone"))
    with pytest.raises(SystemExit, match="its proxy is gone"):
        satpep.split(satpep.parse(["B", "run"]))
    assert not rules
