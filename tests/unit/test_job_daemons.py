# SPDX-License-Identifier: GPL-3.0-or-later
"""daemons: which processes are a VPN's, and what is read of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.job_code import load
from helpers.waiting import HANG_S

from openbach_run.openbach.expand import expand

daemons = load("daemons")


def process(pid: int, parent: int) -> object:
    return daemons.Process(pid, parent, 0.0, 0.0, 0)


def test_a_vpns_programs_are_all_below_its_job() -> None:
    every = [process(1, 0), process(10, 1), process(11, 10), process(12, 11), process(20, 1)]
    assert [one.pid for one in daemons.below([10], every)] == [11, 12]
    assert daemons.below([20], every) == []


def test_this_process_is_read_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "openbach-vpn0.pid").write_text(str(os.getpid()))
    monkeypatch.setattr(daemons, "RUN", tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", "bytes(1 << 25); input()"], stdin=subprocess.PIPE
    ) as child:
        assert child.pid in {one.pid for one in daemons.daemons()}
        assert daemons.descriptors(child.pid) >= 3
        child.kill()
    (own,) = [one for one in daemons.processes() if one.pid == os.getpid()]
    assert own.parent == os.getppid() and own.rss_bytes > 10e6
    assert own.user_s == pytest.approx(os.times().user, rel=0.5)


def sent(monkeypatch: pytest.MonkeyPatch, clock: str) -> dict[str, object]:
    """The last statistics of a job that is told to stop at once."""
    lines: list[dict[str, object]] = []
    monkeypatch.setenv("OPENBACH_RUN_CLOCK", clock)
    monkeypatch.setattr(daemons, "daemons", list)
    monkeypatch.setattr(
        daemons.collect_agent, "send_stat", lambda *_, **values: lines.append(values)
    )
    monkeypatch.setattr(signal, "sigwait", lambda _: signal.SIGTERM)
    daemons.watch(daemons.parse([]))
    return lines[-1]


def test_cpu_time_is_told_where_the_clock_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sent(monkeypatch, "real")
    assert real["cpu"] == "measured" and {"user_s", "system_s", "host_softirq_s"} < real.keys()
    virtual = sent(monkeypatch, "virtual")
    assert virtual == {
        "suffix": None,
        "cpu": "not measured: virtual time",
        "rss_growth_bytes": None,
    }


def test_a_daemon_that_ends_takes_no_cpu_time_back(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[dict[str, float]] = []
    looks = iter([[(7, 2.0), (8, 1.0)], [(7, 3.0)]])
    monkeypatch.setenv("OPENBACH_RUN_CLOCK", "real")
    monkeypatch.setattr(
        daemons, "daemons", lambda: [daemons.Process(pid, 1, s, s, 0) for pid, s in next(looks)]
    )
    monkeypatch.setattr(
        daemons.collect_agent, "send_stat", lambda *_, **values: lines.append(values)
    )
    monkeypatch.setattr(signal, "sigwait", lambda _: signal.SIGTERM)
    daemons.watch(daemons.parse([]))
    assert (lines[-1]["user_s"], lines[-1]["system_s"]) == (1, 1)


JOB = """import sys; sys.argv = ["daemons.py", *sys.argv[2:]]; from pathlib import Path; import test_job_daemons as here
here.daemons.RUN = Path({run!r}); here.daemons.collect_agent.send_stat = lambda *_, **values: print(values, flush=True)
here.daemons.main()"""


def job(run: Path, *words: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", JOB.format(run=str(run)), "-", *words]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])
    }
    return subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def test_an_end_has_ended_when_the_last_look_is_had(tmp_path: Path) -> None:
    """What stops the VPNs waits for it.

    Their closed descriptors were counted on a busy machine (3 of OpenVPN's 8).
    """
    with job(tmp_path, "--name", "client") as watching:
        assert watching.stdout is not None and "processes" in watching.stdout.readline()
        with job(tmp_path, "--name", "client", "--end") as end:
            assert end.wait(HANG_S) == 0
        assert watching.wait(0) == 0 and "'cpu': " in watching.stdout.read()
    with job(tmp_path, "--name", "client", "--end") as end:
        assert (
            end.wait(HANG_S) == 1 and "no job daemons named client runs" in (end.communicate()[1])
        )


def test_the_vpns_of_lan_stability_are_stopped_after_the_last_looks() -> None:
    functions = expand(Path(__file__).parents[2] / "scenarios/lan_stability.yml")[
        "openbach_functions"
    ]
    ends = {
        one["id"]
        for one in functions
        if one.get("start_job_instance", {}).get("daemons", {}).get("end")
    }
    (stops,) = [one for one in functions if "stop_job_instances" in one]
    assert len(ends) == 2 and ends < set(stops["wait"]["finished_ids"])
