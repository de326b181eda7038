# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach_run.lab`: a testbed that stays up between commands, in virtual time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from helpers.guest_runs import REPOSITORY
from helpers.terminals import is_alive

import openbach_run
from openbach_run.prompt.lab import _descendants

LEFT_OPEN = """
import openbach_run
lab = openbach_run.lab("geo", vpn="none", quiet=True)
from openbach_run.prompt.lab import _descendants
(keeper,) = lab._guest._engine.guests
print(keeper, *_descendants(keeper), flush=True)
{}
"""


def measured(pause_s: float) -> list[str]:
    """What some commands print, with somebody who thinks between them."""
    with openbach_run.lab("geo", vpn="wireguard", loss=1, quiet=True) as lab:
        pc, server = lab.host("pc"), lab.host("satvpn_server")
        printed = [pc.run("ping -c 3 server").stdout]
        time.sleep(pause_s)
        serving = server.start("iperf3 -s -p 7000 -1")
        printed.append(pc.run("iperf3 -c server -p 7000 -n 100k -R -J").stdout)
        time.sleep(pause_s)
        printed += [serving.wait().stdout, pc.run("date +%s.%N").stdout, str(lab.time_s)]
        return printed


def test_time_stands_still_between_commands() -> None:
    assert measured(0) == measured(1)


def test_a_lab_gives_what_commands_do(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("text\n")
    with openbach_run.lab("geo", vpn="none", quiet=True, files=[tmp_path / "given"]) as lab:
        assert lab.hosts == ["pc", "server", "box", "pop", "st", "sat", "gw"]
        ran = lab.host("pc").run("cat given; echo \xe9 >&2; exit 3")
        assert (ran.returncode, ran.stdout, ran.stderr) == (3, "text\n", "\xe9\n")
        assert lab.host("pc").run("kill -9 $$").returncode == -9
        assert lab.host("pc").run("sleep 2").seconds == pytest.approx(2, abs=0.02)
        lab.host("box").run("head -c 3 /dev/zero > zeros")
        assert lab.read("zeros") == bytes(3)
        with pytest.raises(openbach_run.InputError, match="nothere: cat: nothere"):
            lab.read("nothere")
        with pytest.raises(openbach_run.InputError, match="no host 'moon'"):
            lab.host("moon")
        with pytest.raises(openbach_run.InputError, match="an empty command"):
            lab.host("pc").run(" ")
        with pytest.raises(openbach_run.InputError, match="start"):
            lab.host("pc").run("sleep 1 &")
        keeper = lab._guest._engine.guests[0]
        guest = [keeper, *_descendants(keeper)]
        run_dir = lab._guest._run_dir
    assert not run_dir.exists()
    assert not any(is_alive(pid) for pid in guest)
    with pytest.raises(openbach_run.LabClosed):
        lab.host("pc").run("true")


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)"])
def test_a_lab_that_nobody_closes_is_closed(end: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", LEFT_OPEN.format(end)],
        check=False,
        env=environment,
        timeout=120,
        capture_output=True,
        text=True,
    )
    guest = [int(pid) for pid in done.stdout.split()]
    assert len(guest) > 3, done.stderr
    end_s = time.monotonic() + 60
    # What ends it after a kill is not the process that was killed.
    while left := [*tmp_path.iterdir(), *filter(is_alive, guest)]:
        assert time.monotonic() < end_s, left
        time.sleep(0.05)


def test_a_path_that_does_not_come_up_is_no_lab() -> None:
    before = set(Path(tempfile.gettempdir()).glob("openbach-run-*"))
    with pytest.raises(openbach_run.LabClosed, match="exit code 1"):
        openbach_run.lab("geo", vpn="wireguard", loss=100, quiet=True)
    assert set(Path(tempfile.gettempdir()).glob("openbach-run-*")) <= before


def test_a_guest_that_ends_says_why() -> None:
    with openbach_run.lab("geo", vpn="none", quiet=True) as lab:
        # No job of this path is a process, so the command itself is all that this ends.
        assert lab.host("pc").run("kill -KILL -1; sleep 5").returncode == -9
        (guest,) = lab._guest._engine.guests
        os.kill(guest, signal.SIGKILL)
        with pytest.raises(openbach_run.LabClosed, match=r"the guest ended .*SIGKILL"):
            lab.host("pc").run("sleep 5")
        with pytest.raises(openbach_run.LabClosed):
            lab.host("pc").run("true")
