# SPDX-License-Identifier: GPL-3.0-or-later
"""A run can never hang, and an empty one costs next to nothing.

Guests that run a few lines of Python instead of a scenario.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.guest_code import FINISH, engine_with
from helpers.guest_runs import REPOSITORY

from openbach_run.engine.contract import Outcome
from openbach_run.engine.virtual.image import GUEST_PYTHON
from openbach_run.engine.virtual.jail import Jail
from openbach_run.errors import SetupError

GuestRun = Callable[..., Outcome]
UNCHECKED_HASH = 0b01
"""Of the flags of a compiled file (PEP 552)."""


SPIN = """
    import subprocess
    subprocess.run(["mawk", "BEGIN { while (1) n++ }"])
"""


@pytest.fixture
def guest_run(tmp_path: Path) -> GuestRun:
    def run(*parts: str) -> Outcome:
        engine = engine_with(tmp_path / "code", *parts)
        record = tmp_path / "record"
        record.mkdir()
        return engine.run({"seed": 1}, record, 0, lambda event: None)

    return run


def test_an_empty_run_ends_well(guest_run: GuestRun) -> None:
    outcome = guest_run(FINISH)
    assert outcome.error is None
    assert outcome.virtual_s < 1


def test_no_compiled_file_depends_on_the_time_of_its_source(tmp_path: Path) -> None:
    """Python wrote into the tree of a bundle where they did, which then was damaged."""
    library = engine_with(tmp_path, FINISH).image.root / "usr/lib" / GUEST_PYTHON
    compiled = {
        file.name: int.from_bytes(file.read_bytes()[4:8], "little")
        for file in library.rglob("*.pyc")
    }
    assert len(compiled) > 100
    assert [name for name, flags in compiled.items() if flags != UNCHECKED_HASH] == []


def test_a_program_that_computes_for_ever_is_named(guest_run: GuestRun) -> None:
    outcome = guest_run(SPIN)
    assert outcome.error is not None
    assert "program mawk" in outcome.error
    assert "computes without end" in outcome.error


MEASURE = """
    import hashlib, os, time
    if os.fork():
        os.wait()
    end = time.monotonic() + 1000
    while time.monotonic() < end:
        hashlib.sha256(bytes(200_000)).digest()
"""


@pytest.mark.nightly  # a minute of CPU time and more
def test_a_program_that_measures_for_ever_how_fast_it_computes_is_named(tmp_path: Path) -> None:
    """Every hundredth reading of the clock enters the kernel.

    What is computed meanwhile takes no time there.
    """
    (tmp_path / "record").mkdir()
    outcome = engine_with(tmp_path / "code", MEASURE, silence_limit_s=900).run(
        {"seed": 1}, tmp_path / "record", 0, print
    )
    assert outcome.error is not None
    said = r"program python3 \(pid \d+\) computes without end: no sleep in 60 s of CPU time"
    assert re.search(said, outcome.error)


@pytest.mark.nightly  # a minute of CPU time and more
def test_many_programs_that_compute_a_little_are_no_program_that_computes_for_ever(
    tmp_path: Path,
) -> None:
    """A host process serves one program of the guest after another, and keeps its CPU time.

    They compute for more than 60 s altogether, none of them for more than 3 s. Virtual time stands
    meanwhile, for minutes on a busy machine: so silence has a limit that this does not reach.
    """
    (tmp_path / "record").mkdir()
    begun_s = time.process_time()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 400_000)
    rounds = int(400_000 * 2.5 / (time.process_time() - begun_s))
    code = f"import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', {rounds})"
    programs = f"""
        import subprocess, sys
        for _ in range(42):
            subprocess.run([sys.executable, "-c", {code!r}], check=True)
    """
    engine = engine_with(tmp_path / "code", programs, FINISH, silence_limit_s=900)
    outcome = engine.run({"seed": 1}, tmp_path / "record", 0, print)
    assert outcome.error is None


FLOOD = """
    with open("/run/openbach/flood", "wb", buffering=0) as file:
        while True:
            file.seek(file.tell() % (64 << 20))
            file.write(bytes(1 << 20))
"""


def test_a_run_that_fills_the_disk_is_ended(
    guest_run: GuestRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openbach_run.engine.local.RUN_LIMIT_BYTES", 32 << 20)
    outcome = guest_run(FLOOD)
    assert outcome.error is not None
    assert "wrote more than 32 MiB in" in outcome.error


def test_time_passes_for_a_program_that_polls(guest_run: GuestRun) -> None:
    """100 virtual seconds of a loop on select() with nothing to wait for.

    Without a price per call it would never end. The guest's first program has none: it does not
    poll, but sets the hosts up.
    """
    outcome = guest_run(
        """
        import os, select, time
        if os.fork() == 0:
            end = time.monotonic() + 100
            while time.monotonic() < end:
                select.select([], [], [], 0)
            os._exit(0)
        os.wait()
        """,
        FINISH,
    )
    assert outcome.error is None
    assert 100 <= outcome.virtual_s < 101


def test_a_program_that_polls_does_not_hold_up_the_others(guest_run: GuestRun) -> None:
    """A host's poller has no CPU of another host.

    Each sleep ends when it is due, or within Linux's timer slack of 50 µs.
    """
    outcome = guest_run(
        """
        import os, select, time
        time.sleep(0.1)  # timers are exact soon after the start
        if (poller := os.fork()) == 0:
            end = time.monotonic() + 4
            while time.monotonic() < end:
                select.select([], [], [], 0)
            os._exit(0)
        begin = time.monotonic_ns()
        late_ns = []
        for number in range(1, 1000):
            due_ns = begin + number * 3_333_333
            time.sleep((due_ns - time.monotonic_ns()) / 1e9)
            late_ns.append(time.monotonic_ns() - due_ns)
        assert max(late_ns) < 52_000, max(late_ns)
        assert os.waitpid(poller, 0)[1] == 0
        """,
        FINISH,
    )
    assert outcome.error is None
    assert 4 <= outcome.virtual_s < 4.2


CLOCKS = """
    import ctypes, os, time

    class Times(ctypes.Structure):
        _fields_ = [("tv_sec", ctypes.c_long), ("tv_part", ctypes.c_long)]

    c = ctypes.CDLL("libc.so.6")
    now = Times()

    def read(call, part, *arguments):
        assert call(*arguments) == 0
        return now.tv_sec * 10**9 + now.tv_part * part

    def by_vdso(clock):
        return read(c.clock_gettime, 1, clock, ctypes.byref(now))

    def by_call(clock):
        return read(c.syscall, 1, 228, clock, ctypes.byref(now))

    def of_day():
        return read(c.gettimeofday, 1000, ctypes.byref(now), None)

    # as by system calls, whichever way: never back, never stopped, not more than readings take
    for clock in (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC):
        last = by_call(clock)
        for number in range(1000):
            read_now = by_call(clock) if number % 7 == 3 else by_vdso(clock)
            assert 0 < read_now - last <= 1024, (clock, number, read_now - last)
            last = read_now
    earlier = of_day()  # in whole µs
    assert 0 < by_vdso(time.CLOCK_REALTIME) - earlier <= 1000 + 1024
    assert abs(c.time(None) - by_call(time.CLOCK_REALTIME) // 10**9) <= 1

    # a fork and a thread's sleep in between
    before = by_vdso(time.CLOCK_MONOTONIC)
    if (child := os.fork()) == 0:
        os._exit(not 0 < by_vdso(time.CLOCK_MONOTONIC) - before < 10**7)
    assert os.waitpid(child, 0)[1] == 0
    time.sleep(1)
    assert 10**9 < by_vdso(time.CLOCK_MONOTONIC) - before < 1.1 * 10**9

    # polled by nothing but readings; in a program of its own, since polling of the first is free
    if (poller := os.fork()) == 0:
        until = c.time(None) + 2
        while c.time(None) < until:
            pass
        os._exit(0)
    assert os.waitpid(poller, 0)[1] == 0
"""


def test_clocks_read_without_a_system_call_are_right(guest_run: GuestRun) -> None:
    outcome = guest_run(CLOCKS, FINISH)
    assert outcome.error is None
    assert 2 < outcome.virtual_s < 5


def test_a_panic_is_told(guest_run: GuestRun) -> None:
    outcome = guest_run("""
        import os
        os.kill(1, 11)
        os._exit(1)
    """)
    assert outcome.error is not None
    assert "ended before the scenario did" in outcome.error
    assert "panic" in outcome.error


def test_a_kernel_that_warns_fails_the_run(guest_run: GuestRun) -> None:
    """As WARN() prints it; a program's own words on the console are none of the kernel's."""
    warn = """
        print("WARNING: of a program", flush=True)
        with open("/dev/kmsg", "w") as log:
            log.write("<4>WARNING: net/ipv4/tcp_made_up.c:1 at tcp_made_up+0x1/0x2, CPU#0: curl/1")
    """
    outcome = guest_run(warn, FINISH)
    assert outcome.status == "Kernel Complained"
    assert outcome.error is not None
    assert outcome.error.startswith(
        "the guest's kernel complained: WARNING: net/ipv4/tcp_made_up.c:1 at"
    )


def test_a_guest_without_progress_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has twice the time where two programs want each CPU: it may only not have had its turn."""
    cpus = os.cpu_count() or 1
    monkeypatch.setattr(os, "getloadavg", lambda: (2.0 * cpus, 0.0, 0.0))
    engine = engine_with(tmp_path / "code", "import signal; signal.pause()", silence_limit_s=1)
    record = tmp_path / "record"
    record.mkdir()
    outcome = engine.run({"seed": 1}, record, 0, lambda event: None)
    assert outcome.error is not None
    assert "no progress for 2 s" in outcome.error
    assert not _guests_of(record)


SEND = """
    import os, socket, subprocess, time
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        while not os.path.exists("/run/openbach/enough"):
            sender.sendto(bytes(1400), ("127.0.0.1", 9))
            time.sleep(0.001)
"""


def test_packets_are_progress(tmp_path: Path) -> None:
    """A guest with much to carry needs long for the 10 virtual seconds to its next event.

    It needs the longer the busier the host is.
    """
    engine = engine_with(tmp_path / "code", SEND, FINISH, silence_limit_s=2)
    record = tmp_path / "record"
    record.mkdir()
    enough = threading.Timer(5, (record / "enough").touch)
    enough.start()
    outcome = engine.run({"seed": 1}, record, 0, print)
    enough.join()
    assert outcome.error is None
    assert outcome.wall_s > 4


def test_stop_ends_the_guest(tmp_path: Path) -> None:
    engine = engine_with(tmp_path / "code", SPIN)
    record = tmp_path / "record"
    record.mkdir()
    outcomes: list[Outcome] = []
    thread = threading.Thread(
        target=lambda: outcomes.append(engine.run({"seed": 1}, record, 0, lambda event: None))
    )
    thread.start()
    _wait_for(lambda: _guests_of(record), "the guest")
    engine.stop()
    thread.join(timeout=10)
    assert outcomes[0].error is not None
    assert not _guests_of(record)


def test_a_process_that_the_jail_has_left_is_not_waited_for_without_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the pipe of the packets: the command waited for the end of it."""
    monkeypatch.setattr("openbach_run.engine.virtual.engine.END_LIMIT_S", 1)
    engine = engine_with(tmp_path / "code", FINISH)
    (leaky := tmp_path / "jail").write_text(
        f"#!/bin/sh\nexec 3<&0\nsleep 1000 & echo $! > '{tmp_path}/left'\n"
    )
    leaky.chmod(0o755)
    engine.jail = Jail(leaky, "none")
    (tmp_path / "record").mkdir()
    try:
        with pytest.raises(SetupError, match="a process of the guest was there 1 s after its end"):
            engine.run({"seed": 1}, tmp_path / "record", 0, lambda event: None)
    finally:
        os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)


def test_no_guest_outlives_its_command(tmp_path: Path) -> None:
    """The command that runs it is killed by signal 9."""
    engine_with(tmp_path / "code", SPIN)
    record = tmp_path / "record"
    record.mkdir()
    program = f"""
from pathlib import Path
from openbach_run.engine.virtual.engine import VirtualEngine
code = Path({str(tmp_path / "code")!r})
engine = VirtualEngine(Path({str(REPOSITORY)!r}), {{"src": code, "jobs": code / "jobs"}})
engine.prepare(lambda text, part: None)
engine.run({{"seed": 1}}, Path({str(record)!r}), 0, lambda event: None)
"""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    with subprocess.Popen([sys.executable, "-c", program], env=environment) as command:
        _wait_for(lambda: _guests_of(record), "the guest")
        command.kill()
    _wait_for(lambda: not _guests_of(record), "the end of the guest")


def _guests_of(record: Path) -> list[int]:
    """Processes of jails whose command line names the record, zombies apart.

    The guest's kernel ends with them.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().split(b"\0")
            if line[0].endswith(b"/jail") and str(record).encode() in line:
                found.append(int(process.name))
        except OSError:
            continue
    return found


def _wait_for(state: Callable[[], object], what: str, limit_s: float = 20) -> None:
    end = time.monotonic() + limit_s
    while not state():
        assert time.monotonic() < end, f"{what} did not come in {limit_s} s"
        time.sleep(0.05)


def test_seed_and_place(tmp_path: Path) -> None:
    """Random numbers follow from the seed alone, not from where the record is."""
    draw = """
        import os
        with open("/run/openbach/random", "wb") as file:
            file.write(os.urandom(32))
    """
    engine = engine_with(tmp_path / "code", draw, FINISH)
    drawn = {}
    for name, seed in (("a", 1), ("a_longer_name", 1), ("b", 2)):
        record = tmp_path / name
        record.mkdir()
        assert engine.run({"seed": seed}, record, 0, lambda event: None).error is None
        drawn[name] = (record / "random").read_bytes()
    assert drawn["a"] == drawn["a_longer_name"] != drawn["b"]
    assert json.loads((tmp_path / "a/run.json").read_text())["seed"] == 1


def test_a_guest_without_memory_fails_the_run_and_says_so(guest_run: GuestRun) -> None:
    eater = """
        import os
        if (child := os.fork()) == 0:
            held = [bytes([1]) * (1 << 24) for _ in range(200)]
        os.waitpid(child, 0)
    """
    outcome = guest_run(eater, FINISH)
    assert outcome.status == "Kernel Complained"
    assert outcome.error is not None and outcome.error.startswith(
        "the guest's kernel complained: Out of memory: Killed process"
    )
