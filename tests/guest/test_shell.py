# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run shell` on a real pseudo-terminal: prompts, job control, sizes, what is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from helpers.guest_runs import REPOSITORY, command
from helpers.terminals import LIMIT_S, is_alive, terminal

from openbach_run.prompt.lab import _descendants

GEO = ("geo", "vpn=wireguard", "cc=cubic", "loss=0")


def test_a_transcript(tmp_path: Path) -> None:
    with terminal(*GEO, cwd=tmp_path) as one:
        one.until("pc$ ")
        pings = one.run("ping -c 2 server")
        times_ms = [int(one) for one in re.findall(r"icmp_seq=\d ttl=62 time=(\d+)", pings)]
        assert len(times_ms) == 2 and 500 <= min(times_ms) <= max(times_ms) < 505  # with noise
        # It keeps pace with the clock of those who look at it.
        began_s = time.monotonic()
        one.run("sleep 2")
        assert 1.9 < time.monotonic() - began_s < 30

        assert "to_sat" in one.run("on gw ip -br link") or "to_pop" in one.run("on gw ip -br link")
        one.run("on box", "box$ ")
        assert "vpn0" in one.run("wg show", "box$ ")
        one.run("exit")
        assert "there are box gw pc" in one.run("on moon")

        # Job control, and Ctrl-C.
        one.type("sleep 1000\n")
        one.until("\n")
        one.type("\x1a")
        assert "Stopped" in one.until("pc$ ")
        one.run("bg")
        assert "Running" in one.run("jobs")
        one.type("fg\n")
        one.until("sleep 1000\r\n")
        one.type("\x03")
        one.until("pc$ ")
        assert "130" in one.run("echo $?")

        one.resize(33, 101)
        while "33 101" not in one.run("stty size"):
            pass

        # Another one, on the same host, and one elsewhere.
        with (
            terminal("--join", cwd=tmp_path) as two,
            terminal("--join", "--on", "server", cwd=tmp_path) as three,
        ):
            two.until("pc$ ")
            three.until("server$ ")
            two.run("echo from the other > said")
            assert "from the other" in one.run("cat said")
            assert "/dev/pts/" in three.run("tty", "server$ ")
            two.type("exit 3\n")
            assert two.code() == 3
            one.type("exit 7\n")
            assert one.code() == 7
            assert three.code() != 0, "the testbed is closed"
    kept = tmp_path / "results/shell.txt"
    assert "--script results/shell.txt" in one.last
    lines = kept.read_text().splitlines()
    assert lines[:5] == [
        "pc ping -c 2 server",
        "pc sleep 2",
        "gw ip -br link",
        "box wg show",
        "pc sleep 1000",
    ]
    kept.write_text("".join(f"{line}\n" for line in lines[:4]))
    again = command("exec", *GEO, "--script", str(kept))
    assert again.returncode == 0, again.stderr
    assert "2 received" in again.stdout and "interface: vpn0" in again.stdout
    assert not [*tmp_path.glob("openbach-run-*")]


def test_a_program_fills_the_window_and_ends_by_a_key(tmp_path: Path) -> None:
    with terminal(*GEO, cwd=tmp_path, term="linux") as one:
        one.until("pc$ ")
        one.type("mtr --no-dns server\n")
        one.until("Packets")
        one.until("10.200.0.1")
        one.type("q")
        one.until("pc$ ")
        one.type("exit 4\n")
        assert one.code() == 4


def test_a_killed_shell_leaves_nothing(tmp_path: Path) -> None:
    with terminal("geo", "vpn=none", "cc=cubic", cwd=tmp_path) as one:
        one.until("pc$ ")
        started = [one.pid, *_descendants(one.pid)]
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in started]
        assert "linux" in names and "jail" in names
        os.kill(one.pid, signal.SIGKILL)
        os.waitpid(one.pid, 0)
        end_s = time.monotonic() + LIMIT_S
        while left := [*tmp_path.glob("openbach-run-*"), *filter(is_alive, started)]:
            assert time.monotonic() < end_s, left
            time.sleep(0.05)
    joined = command("shell", "--join")
    assert joined.returncode == 2
    assert "no testbed of `openbach-run shell` is up" in joined.stderr


def typed_by_a_pipe(text: str, place: Path) -> subprocess.CompletedProcess[str]:
    """What became of a shell whose input is a text, with its lines kept in `place`/kept."""
    return subprocess.run(
        [sys.executable, "-m", "openbach_run", "shell", "geo", "vpn=none", "--keep", "kept"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), "TERM": "dumb"},
        timeout=LIMIT_S,
    )


def test_input_that_is_no_terminal_is_typed(tmp_path: Path) -> None:
    done = typed_by_a_pipe("echo $((6 * 7))\nexit 5\n", tmp_path)
    assert done.returncode == 5, done.stderr
    assert "42" in done.stdout
    assert (tmp_path / "kept").read_text() == "pc echo $((6 * 7))\n"


def test_a_pipe_ends_at_its_end_whatever_runs_then(tmp_path: Path) -> None:
    """Without `exit`, and with a program that is still running when the pipe ends."""
    done = typed_by_a_pipe("echo $((6 * 7))\nping -c 2 server\n", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 received" in done.stdout
    assert (tmp_path / "kept").read_text().splitlines()[1] == "pc ping -c 2 server"
