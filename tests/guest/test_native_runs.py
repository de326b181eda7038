# SPDX-License-Identifier: GPL-3.0-or-later
"""The native engine on this machine's kernel.

It runs as root and as an ordinary user, says why it cannot, leaves nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.guest_runs import REPOSITORY, Run, command, records

from openbach_run.catalog import Catalog
from openbach_run.engine.local import guest_code
from openbach_run.engine.native.boundary import VARIABLE, Boundary
from openbach_run.engine.native.cpu import descendants
from openbach_run.engine.native.engine import PYTHON, NativeEngine
from openbach_run.engine.native.enter import ROOT, USER
from openbach_run.openbach.job_folders import load_packages, parts_of
from openbach_run.results.store import Store

NOBODY = "65534"
NATIVE = ("--engine", "native", "cc=reno", "rate=unlimited", "delay_ms=0", "--quiet")
PINGS = ("lan_ping", *NATIVE, "vpn=none", "pings=10", "ping_s=0.01")
LIMIT_S = 60.0


def of_the_host() -> dict[str, object]:
    """What a run might have changed or left."""
    return {
        "mounts": Path("/proc/self/mounts").read_text(),
        "interfaces": sorted(os.listdir("/sys/class/net")),
        "congestion control": Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(),
        "cgroups": sorted(
            str(place)
            for place in Path("/sys/fs/cgroup").glob("**/openbach-run-*")
            if not _lives_of(place)
        ),
    }


def _lives_of(cgroup: Path) -> bool:
    """Whether the command that has made it still runs.

    Another one's run may go on beside this test.
    """
    return Path(f"/proc/{cgroup.name.split('-')[2]}").exists()


def wait_until(what: str, state: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not state():
        assert time.monotonic() < end_s, f"{what}: not after {LIMIT_S:g} s"
        time.sleep(0.05)


def identity(results: Path, run: Run) -> dict[str, str]:
    record = Store(results).load(run.record.name)
    assert record is not None
    return record.identity


@pytest.fixture(scope="module")
def pings(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    results = tmp_path_factory.mktemp("native")
    before = of_the_host()
    done = command(*PINGS, "--results", str(results))
    assert done.returncode == 0, done.stderr
    assert of_the_host() == before
    (run,) = records(results)
    return results, run


def test_a_run_says_its_engine_its_clock_and_its_cpu_time(pings: tuple[Path, Run]) -> None:
    results, run = pings
    said = identity(results, run)
    assert (said["engine"], said["clock"], run.row["capture_hash"]) == ("native", "real", "")
    assert {"kernel", "cpu", "mode", "image", "code"} <= said.keys()
    assert 0 < float(run.row["ping_rtt_ms"]) < 50
    assert 0 < float(run.row["cpu_s"]) < float(run.row["wall_s"]) * (os.cpu_count() or 1)
    assert float(run.row["cpu_others_s"]) >= 0
    assert "--engine native" in json.loads((run.record / "record.json").read_text())["command"]


def test_a_finished_run_is_one_of_its_engine(pings: tuple[Path, Run]) -> None:
    """The virtual engine's run of the same values is another one.

    The native run is not repeated.
    """
    results, run = pings
    assert command(*PINGS, "--results", str(results)).returncode == 0
    assert [one.row["run_id"] for one in records(results)] == [run.row["run_id"]]
    virtual = [word for word in PINGS if word not in ("--engine", "native")]
    assert command(*virtual, "--results", str(results)).returncode == 0
    (other,) = records(results)
    assert other.row["run_id"] != run.row["run_id"]
    assert (identity(results, other)["engine"], identity(results, other)["clock"]) == (
        "virtual",
        "virtual",
    )


@pytest.mark.nightly
def test_daemons_tell_their_cpu_time(tmp_path: Path) -> None:
    cell = (
        "lan_stability",
        *NATIVE,
        "vpn=openvpn_udp",
        "duration_s=3",
        "looks_s=1",
        "--results",
        str(tmp_path),
    )
    done = command(*cell)
    assert done.returncode == 0, done.stderr
    (run,) = records(tmp_path)
    for end in ("client", "server"):
        assert int(run.row[f"{end}_descriptors_end"]) > 3
        assert 0 <= float(run.row[f"{end}_cpu_user_s"]) <= float(run.row["wall_s"])
    assert [line["cpu"] for line in run.statistics("daemons") if "cpu" in line] == [
        "measured",
        "measured",
    ]
    assert all(
        line["host_user_s"] + line["host_system_s"] > 0
        for line in run.statistics("daemons")
        if "cpu" in line
    )


@pytest.fixture(scope="module")
def readable(pings: tuple[Path, Run]) -> Iterator[tuple[Path, Path, Path]]:
    """Guest tree, code and enter.py where an ordinary user can read them."""
    uses = json.loads((pings[1].record / "run.json").read_text())["uses"]
    parts = parts_of(uses, load_packages([REPOSITORY / "jobs"]), Catalog())
    engine = NativeEngine(REPOSITORY, guest_code(REPOSITORY, parts))
    engine.prepare(lambda text, part: None)
    place = Path("/tmp") / f"openbach-run-native-{os.getpid()}"
    try:
        place.mkdir()
        for source, name in ((engine.image.root, "root"), (engine.code, "code")):
            subprocess.run(["cp", "-a", str(source), place / name], check=True)
        shutil.copy(REPOSITORY / "src/openbach_run/engine/native/enter.py", place)
        yield place / "root", place / "code", place / "enter.py"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def test_an_ordinary_user_needs_no_root(
    readable: tuple[Path, Path, Path], pings: tuple[Path, Run]
) -> None:
    if os.geteuid() != 0:
        return  # the other tests were that
    root, code, program = readable
    run_dir = program.with_name("run")
    run_dir.mkdir()
    shutil.copy(pings[1].record / "run.json", run_dir)
    subprocess.run(["chown", "-R", NOBODY, run_dir], check=True)
    words = Boundary(USER).command("", root, code, run_dir, *PYTHON)
    python = next(
        one for one in ("/usr/bin/python3", "/usr/local/bin/python3") if os.path.exists(one)
    )
    user = [
        "setpriv",
        "--reuid",
        NOBODY,
        "--regid",
        NOBODY,
        "--clear-groups",
        python,
        "-SE",
        str(program),
        *words[3:],
    ]
    with subprocess.Popen(
        user, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as started:
        code_of_it = started.wait(LIMIT_S)
        assert started.stdout
        assert code_of_it == 0, started.stdout.read().decode()
    assert json.loads((run_dir / "result.json").read_text())["status"] == "Finished Ok"


WITHOUT = "echo 0 > /proc/sys/user/max_user_namespaces; exec {drop} {words}"


def without_user_namespaces(drop: str, results: Path) -> subprocess.CompletedProcess[str]:
    """In a user namespace whose own limit lets nobody make another one."""
    words = " ".join([sys.executable, "-m", "openbach_run", *PINGS, "--results", str(results)])
    return subprocess.run(
        ["unshare", "-Ur", "sh", "-c", WITHOUT.format(drop=drop, words=words)],
        check=False,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": "src"},
    )


@pytest.mark.nightly
def test_without_user_namespaces_root_is_enough(tmp_path: Path) -> None:
    done = without_user_namespaces("", tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = records(tmp_path)
    assert identity(tmp_path, run)["mode"] == ROOT


def test_without_user_namespaces_and_without_root_it_says_why_not(tmp_path: Path) -> None:
    done = without_user_namespaces("setpriv --bounding-set=-all --inh-caps=-all", tmp_path)
    assert done.returncode == 1
    assert "this host lets nobody make the namespaces of a native run" in done.stderr
    assert "user: making namespaces: No space left on device" in done.stderr
    assert "root: making namespaces: Operation not permitted" in done.stderr
    assert "max_user_namespaces" in done.stderr


def test_a_mode_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, "chroot")
    done = command(*PINGS, "--results", str(tmp_path))
    assert done.returncode == 1
    assert f"{VARIABLE}=chroot: none of user, root" in done.stderr


def test_what_the_kernel_lacks_is_said_before_anything_starts(tmp_path: Path) -> None:
    """No Linux kernel has BBRv2; the link's rate needs netem, which not every host has."""
    done = command(
        "lan_tcp", "--engine", "native", "vpn=none", "cc=bbr2", "--results", str(tmp_path / "none")
    )
    assert done.returncode == 2
    assert "cc=bbr2: no congestion control of this host's namespaces" in done.stderr
    assert not (tmp_path / "none/runs").exists() or not any((tmp_path / "none/runs").iterdir())


@pytest.mark.nightly
@pytest.mark.parametrize("victim", ["command", "keeper", "process 1"])
def test_killed_in_the_middle_it_leaves_nothing(victim: str, tmp_path: Path) -> None:
    before = of_the_host()
    words = [*("lan_tcp", *NATIVE, "vpn=none", "duration_s=300"), "--results", str(tmp_path)]
    started = subprocess.Popen(
        [sys.executable, "-m", "openbach_run", *words],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": "src"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def measures() -> bool:
        return any(
            '"job": "tcp_throughput", "entity": "satvpn_pc_1"' in file.read_text()
            for file in tmp_path.glob("runs/*.unfinished/events.jsonl")
        )

    wait_until("the transfer", measures)
    below = list(descendants(started.pid))
    keeper = next(pid for depth, pid, _ in below if depth == 0 and "enter.py" in _command_line(pid))
    process_1 = next(pid for depth, pid, _ in descendants(keeper) if depth == 1)
    namespaces = {os.stat(f"/proc/{pid}/ns/net").st_ino for _, pid, _ in descendants(keeper)}
    assert len(namespaces) > 1
    os.kill(
        {"command": started.pid, "keeper": keeper, "process 1": process_1}[victim], signal.SIGKILL
    )
    started.wait(LIMIT_S)
    assert started.returncode == (-signal.SIGKILL if victim == "command" else 1)
    wait_until("the end of all processes", lambda: not any(_lives(pid) for _, pid, _ in below))
    wait_until("the host as it was", lambda: of_the_host() == before)
    assert not namespaces & set(_network_namespaces())


def _command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _network_namespaces() -> Iterator[int]:
    for place in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            yield place.stat().st_ino
        except OSError:  # it has ended
            continue


def with_both_clocks(
    run_cells: Callable[..., list[Run]], clock: str, results: Path
) -> tuple[Run, Run]:
    """The same download in virtual time and with `clock`."""
    words = ("geo", "vpn=none", "cc=cubic", "size=100k")
    (virtual,) = run_cells(*words)
    done = command(*words, "--clock", clock, "--results", str(results), "--quiet")
    assert done.returncode == 0, done.stderr
    (real,) = records(results)
    assert identity(results, real)["clock"] == clock
    return virtual, real


@pytest.mark.nightly
def test_the_kernel_with_its_clock_running_agrees(
    run_cells: Callable[..., list[Run]], tmp_path: Path
) -> None:
    """Loosely, on a machine that does other things: make bench-clock compares."""
    virtual, real = with_both_clocks(run_cells, "real", tmp_path)
    assert real.row["run_id"] != virtual.row["run_id"]
    assert float(real.row["transfer_time_s"]) == pytest.approx(
        float(virtual.row["transfer_time_s"]), rel=0.2
    )
    buckets = {
        line["bucket_bytes"] for line in real.statistics("satcom_link") if "bucket_bytes" in line
    }
    assert buckets == {15400}
    assert {
        line["bucket_bytes"] for line in virtual.statistics("satcom_link") if "bucket_bytes" in line
    } == {1540}


@pytest.mark.nightly
def test_a_slow_clock_comes_nearer(run_cells: Callable[..., list[Run]], tmp_path: Path) -> None:
    """What the machine disturbs is ten times less of the guest's time."""
    virtual, slow = with_both_clocks(run_cells, "real/10", tmp_path)
    assert float(slow.row["wall_s"]) > 9 * float(slow.row["virtual_s"])
    assert float(slow.row["transfer_time_s"]) == pytest.approx(
        float(virtual.row["transfer_time_s"]), rel=0.05
    )
