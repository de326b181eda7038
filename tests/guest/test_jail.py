# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing gets out of a guest.

Code that stands in the place of its kernel, and jobs that are root in it, try every way.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import shutil
import stat
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.guest_code import FINISH, engine_with
from helpers.guest_runs import AWKWARD, REPOSITORY, Host, records
from helpers.scenario_with import Job, ran, scenario_of

from openbach_run.engine.virtual.jail import (
    EXIT_LIMIT,
    HOW_TO_ALLOW,
    MODES,
    PARTIAL,
    UNJAILED,
    VARIABLE,
    Jail,
)

LIMIT_S = 30
CELL = ("vpn=none", "cc=cubic", "size=1k")
OLD = "Linux 4.18"
"""The oldest host that a run is for: RHEL 8's."""


def built(name: str, place: Path, *more: str) -> Path:
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-static", *more]
    subprocess.run(
        ["gcc", *flags, REPOSITORY / f"tests/guest/jail/{name}.c", "-o", place / name], check=True
    )
    return place / name


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("evil", tmp_path_factory.mktemp("evil"))


@pytest.mark.parametrize(
    ("mode", "host_has"), [*((mode, "all") for mode in MODES), (MODES[0], OLD)]
)
def test_nothing_gets_out_of_the_jail(
    launcher: Path, evil: Path, listener: str, mode: str, host_has: str, host: Host
) -> None:
    program, copy = shutil.copy(evil, host.place), shutil.copy(launcher, host.place)
    guest, code, run = places = host.places()
    secret = host.place / "secret"
    secret.write_text("secret\n")
    host.own(secret)
    watched = [secret, *places[:2], *(place / "kept" for place in places[:2])]
    before = [one.stat() for one in watched]
    cpu = min(os.sched_getaffinity(0))
    attempts = (str(secret), str(os.getpid()), listener)
    command = Jail(Path(copy), mode).command(cpu, guest, code, run, Path(program), *attempts)
    old = without(OLD) if host_has == OLD else []
    done = subprocess.run(
        [*old, *host.user, *command],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("0 got through\n", "", 0)
    assert secret.read_text() == "secret\n"
    for one, was in zip(watched, before, strict=True):
        now = one.stat()
        assert (now.st_mode, now.st_uid, now.st_mtime_ns) == (
            was.st_mode,
            was.st_uid,
            was.st_mtime_ns,
        )
    assert {one.name for one in host.place.iterdir()} == {
        "evil",
        "jail",
        "secret",
        *(place.name for place in places),
    }
    assert [(place / "kept").read_text() for place in places[:2]] == ["kept\n"] * 2
    assert sorted(one.name for one in run.iterdir()) == ["allowed", "kept", "link"]


@pytest.fixture(scope="module")
def outlives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("outlives", tmp_path_factory.mktemp("outlives"))


@pytest.mark.parametrize("end", ["of the kernel", "by the command", "of the command"])
@pytest.mark.parametrize("mode", MODES)
def test_no_process_outlives_a_guest(
    launcher: Path, outlives: Path, host: Host, mode: str, end: str
) -> None:
    """Once the jail has ended no process has its standard output."""
    program, copy = shutil.copy(outlives, host.place), shutil.copy(launcher, host.place)
    how = "ends" if end == "of the kernel" else "stays"
    guest, code, run = host.places()
    jail = Jail(Path(copy), mode).command(
        min(os.sched_getaffinity(0)), guest, code, run, Path(program), how
    )
    between = "import signal, subprocess, sys; subprocess.Popen(sys.argv[1:]); signal.pause()"
    command = [*host.user, *jail]
    if end == "of the command":
        command = [sys.executable, "-c", between, *command]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"ready\n"
        if end == "by the command":
            started.terminate()
        if end == "of the command":
            started.kill()
        started.wait(LIMIT_S)
        limit_s = LIMIT_S if end == "of the command" else 0.0
        gone, _, _ = select.select([started.stdout], [], [], limit_s)
        assert gone, f"{limit_s:g} s after the jail has ended a process of the guest is there"
        assert started.stdout.read() == b""


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("raw", tmp_path_factory.mktemp("raw"), "-O1", "-mno-red-zone")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    engine = engine_with(tmp_path_factory.mktemp("kernel") / "code", FINISH)
    return engine.kernel.executable


def host_call(kernel: Path) -> int:
    """The address of a `syscall; ret` in the kernel's program."""
    program = kernel.read_bytes()
    (headers,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    for number in range(count):
        kind, flags, offset, address, _, length = struct.unpack_from(
            "<IIQQQQ", program, headers + number * size
        )
        found = program.find(b"\x0f\x05\xc3", offset, offset + length)
        if (kind, flags & 1) == (1, 1) and found >= 0:  # loaded, executable
            return int(address + found - offset)
    raise AssertionError(f"{kernel}: no syscall in it is followed by a ret")


@pytest.mark.parametrize("mode", MODES)
def test_host_calls_of_a_guests_program_get_nowhere(
    launcher: Path, raw: Path, kernel: Path, listener: str, host: Host, mode: str
) -> None:
    """In a real guest, whose kernel is in the process of its program.

    Nor does a process that it starts so live on.
    """
    guest, code, run = host.places()
    shutil.copy(raw, guest)
    (secret := host.place / "secret").write_text("secret\n")
    (other := host.place / "other").mkdir()
    (record := other / "record.json").write_text("{}")
    host.own(secret, other, record)
    before = [one.stat() for one in (secret, record, code / "kept")]
    jail = Jail(Path(shutil.copy(launcher, host.place)), mode)
    arguments = (
        *(
            "mem=64M",
            "quiet",
            "panic=-1",
            "root=/dev/root",
            "rootfstype=hostfs",
            "ro",
            "time-travel=inf-cpu",
        ),
        *("seccomp=on", "seed=1", "con=null", "con0=fd:3,fd:1", "init=/raw"),
        *("--", str(secret), str(record), str(os.getpid()), listener, f"{host_call(kernel):x}"),
    )
    linux = Path(shutil.copy(kernel, host.place))
    command = jail.command(min(os.sched_getaffinity(0)), guest, code, run, linux, *arguments)
    done = subprocess.run(
        [*host.user, *command],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=4 * LIMIT_S,
    )
    assert [line for line in done.stdout.splitlines() if not line.startswith("[")] == [
        "0 got through"
    ]
    assert done.returncode == 0
    after = [one.stat() for one in (secret, record, code / "kept")]
    assert [(one.st_mode, one.st_mtime_ns) for one in after] == [
        (one.st_mode, one.st_mtime_ns) for one in before
    ]
    assert {one.name for one in host.place.iterdir()} == {
        "jail",
        "linux",
        "other",
        "secret",
        guest.name,
        code.name,
        run.name,
    }
    assert sorted(one.name for one in other.iterdir()) == ["record.json"]
    assert sorted(one.name for one in run.iterdir()) == ["kept", "own"]


@pytest.fixture(scope="module")
def greedy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("greedy", tmp_path_factory.mktemp("greedy"))


NAMELESS = "64 MiB of shared memory and of files without a name"


ENDED = "jail: the guest had {} and was ended\n"


def taken(
    launcher: Path, greedy: Path, host: Host, mode: str, way: str
) -> subprocess.CompletedProcess[str]:
    """Run `greedy` in place of a guest's kernel, in one of its ways."""
    program, copy = shutil.copy(greedy, host.place), shutil.copy(launcher, host.place)
    guest, code, run = host.places()
    cpu = min(os.sched_getaffinity(0))
    command = Jail(Path(copy), mode).command(cpu, guest, code, run, Path(program), way)
    return subprocess.run(
        [*host.user, *command],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=4 * LIMIT_S,
    )


@pytest.mark.parametrize(
    ("way", "limit"),
    [
        ("processes", "512 processes"),
        ("siblings", "512 processes"),
        ("memory", "64 MiB of memory beside the guest's"),
        ("memory files", "576 MiB of memory"),
        ("shared memory", NAMELESS),
        ("open file", NAMELESS),
        ("mapped file", NAMELESS),
        ("child's file", NAMELESS),
        ("second thread's file", NAMELESS),
        ("second thread's memory", "64 MiB of memory beside the guest's"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_who_takes_more_than_a_guest_has_is_ended(
    launcher: Path, greedy: Path, host: Host, mode: str, way: str, limit: str
) -> None:
    """Also what no file in the run's directory shows."""
    done = taken(launcher, greedy, host, mode, way)
    assert (done.stderr, done.returncode) == (ENDED.format(f"more than {limit}"), EXIT_LIMIT)


@pytest.mark.parametrize("mode", MODES)
def test_who_hides_its_files_is_ended(launcher: Path, greedy: Path, host: Host, mode: str) -> None:
    """A jail that is root sees them."""
    done = taken(launcher, greedy, host, mode, "hidden file")
    reasons = ("a process that hides its files", f"more than {NAMELESS}")
    assert done.stderr in [ENDED.format(reason) for reason in reasons]
    assert done.returncode == EXIT_LIMIT


@pytest.mark.parametrize("mode", MODES)
def test_a_thread_that_has_ended_hides_nothing(
    launcher: Path, greedy: Path, host: Host, mode: str
) -> None:
    """It is root's, so an ordinary user may not look: each kernel's process is so when it ends."""
    done = taken(launcher, greedy, host, mode, "second thread")
    assert (done.stderr, done.returncode) == ("", 0)


def test_the_limit_that_a_guest_has_passed_is_told(tmp_path: Path, greedy: Path) -> None:
    """Whatever result it has left."""
    engine = engine_with(tmp_path / "code", FINISH)
    (record := tmp_path / "record").mkdir()
    (record / "result.json").write_text('{"status": "Finished Ok", "virtual_s": 1, "failed": []}')
    engine.kernel = replace(engine.kernel, executable=greedy)  # its last argument is /init.py
    outcome = engine.run({"seed": 1}, record, 0, lambda event: None)
    assert outcome.status == "Guest Lost"
    assert (outcome.error or "").startswith(
        "the guest passed a limit of the jail; its console's last lines:\n"
    )
    assert "jail: the guest had more than 64 MiB of memory beside the guest's and was ended" in (
        outcome.error or ""
    )


ATTEMPTS = """
    import ctypes, json, os, socket, traceback
    libc = ctypes.CDLL(None, use_errno=True)
    through, point = [], "/tmp/point"
    os.makedirs(point, exist_ok=True)

    def mount(data, flags=0, target=point, kind=b"hostfs"):
        if libc.mount(b"none", target.encode(), kind, flags, data.encode() if data is not None else None):
            raise OSError(ctypes.get_errno(), data)

    def new_mount(source):
        fs = libc.syscall(430, b"hostfs", 0)
        if fs < 0 or libc.syscall(431, fs, 1, b"hostfs", source.encode(), 0) or libc.syscall(431, fs, 6, None, None, 0):
            raise OSError(ctypes.get_errno(), "fsopen")

    def write(path):
        with open(path, "a") as file:
            file.write("x")

    def remount(target):
        mount(None, 32, target)
        write(f"{target}/through")

    def writable(place):
        mount(place)
        write(f"{point}/through")

    def connect(address):
        with socket.socket() as one:
            one.settimeout(1)
            one.connect(address)

    def attempt(function, *arguments):
        try:
            function(*arguments)
        except OSError:
            return
        through.append(f"{function.__name__}{arguments}")

    for path in ("/", "/etc", "/proc", "/tmp", "/root", "/..", "/run/..", "/guest/..", "//", "", "/proc/self/root"):
        attempt(mount, path)
        attempt(new_mount, path)
    for target in ("/", "/opt/openbach-run"):
        attempt(remount, target)
    for place in ("/guest", "/code"):
        attempt(writable, place)
    attempt(write, "/usr/bin/through")
    attempt(write, "/opt/openbach-run/through")
    os.symlink("/etc/hostname", "/run/openbach/host")
    os.symlink("/proc/self/mem", "/run/openbach/mem")
    attempt(os.mknod, "/run/openbach/null", 0o20666, os.makedev(1, 3))
    attempt(os.mknod, "/run/openbach/disk", 0o60666, os.makedev(8, 0))
    attempt(os.mknod, "/run/openbach/nothing", 0o20666, os.makedev(0, 0))
    write("/run/openbach/kept")
    attempt(os.chmod, "/run/openbach/kept", 0o4755)
    attempt(os.chmod, "/run/openbach/kept", 0o2755)
    os.close(os.open("/run/openbach/set-id", os.O_CREAT | os.O_WRONLY, 0o4755))
    os.mknod("/run/openbach/set-id-node", 0o104755)
    attempt(os.link, "/usr/bin/python3.13", "/run/openbach/python")
    attempt(os.open, "/dev/mem", os.O_RDONLY)
    attempt(os.open, "/proc/kcore", os.O_RDONLY)
    attempt(connect, ("127.0.0.1", 22))
    attempt(connect, ("192.0.2.1", 80))
    with open("/run/openbach/through", "w") as file:
        json.dump(through, file)
"""


@pytest.mark.parametrize("mode", MODES)
def test_a_job_that_is_root_gets_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Also from places whose names have blanks, quotes and line ends in them."""
    monkeypatch.setenv(VARIABLE, mode)
    engine = engine_with(tmp_path / AWKWARD / "code", ATTEMPTS, FINISH)
    record = tmp_path / AWKWARD / "record"
    record.mkdir()
    outcome = engine.run({"seed": 1}, record, 0, lambda event: None)
    assert outcome.error is None
    assert json.loads((record / "through").read_text()) == []
    modes = {one.name: one.lstat().st_mode for one in (record, *record.iterdir())}
    harmful = stat.S_ISUID | stat.S_ISGID | stat.S_IFCHR
    assert [name for name, mode in modes.items() if not stat.S_ISLNK(mode) and mode & harmful] == []
    assert stat.S_IMODE(modes[record.name]) == 0o700


LOAD_A_MODULE = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
init_module = 175
def attempt():
    print(errno.errorcode[ctypes.get_errno()] if libc.syscall(init_module, b"no module", 9, b"") else "loaded")
attempt()
try:
    with open("/proc/sys/kernel/modules_disabled", "w") as file:
        file.write("0")
except OSError as error:
    print(errno.errorcode[error.errno])
attempt()
"""


def test_no_module_is_loaded_once_jobs_run(tmp_path: Path) -> None:
    """Not even looked at: a kernel that takes modules says of this one that it is none (ENOEXEC).

    And it stays so.
    """
    scenario = scenario_of(
        tmp_path, Job("pc", "snapshot", {"command": f"python3 -c {shlex.quote(LOAD_A_MODULE)}"})
    )
    results = tmp_path / "results"
    run = ran(scenario, results, "--quiet")
    (told,) = run.statistics("snapshot")
    assert told["printed"].split() == ["EPERM", "EINVAL", "EPERM"]


WITHOUT = """
import ctypes, errno, os, struct, sys
libc = ctypes.CDLL(None)
refused = {"namespaces": [272], "landlock": [444]}  # unshare, landlock_create_ruleset
calls = [number for means, numbers in refused.items() if means in sys.argv[1] for number in numbers]
load, equal, answer, allowed, error = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000  # linux/filter.h, linux/seccomp.h
program = [(load, 0, 0, 0)]
program += [(equal, len(calls) - at, 0, number) for at, number in enumerate(calls)]
program += [(answer, 0, 0, allowed), (answer, 0, 0, error | errno.EPERM)]
if sys.argv[1] == "Linux 4.18":
    at_least, any_of = 0x35, 0x45
    last, memfd_create, second_argument, newer_flags = 334, 319, 24, 0x18  # MFD_NOEXEC_SEAL, MFD_EXEC
    program = [
        (load, 0, 0, 0), (at_least, 4, 0, last + 1), (equal, 0, 2, memfd_create), (load, 0, 0, second_argument),
        (any_of, 2, 0, newer_flags), (answer, 0, 0, allowed),
        (answer, 0, 0, error | errno.ENOSYS), (answer, 0, 0, error | errno.EINVAL),
    ]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
fprog = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
assert not libc.prctl(38, 1, 0, 0, 0) and not libc.prctl(22, 2, ctypes.byref(fprog), 0, 0)  # no new privileges, seccomp
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""A command where these means are refused, as a container's filter of system calls does; or where
nothing is that is newer."""


def without(means: str) -> list[str]:
    """Starts the command behind it."""
    return [sys.executable, "-c", WITHOUT, means]


def run_without(
    means: str, tmp_path: Path, *cell: str, jail: str = ""
) -> subprocess.CompletedProcess[str]:
    words = ("geo", *(cell or CELL), "--results", str(tmp_path / "results"), "--quiet")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), VARIABLE: jail}
    command = [*without(means), sys.executable, "-m", "openbach_run", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)


def test_a_host_without_any_means_is_told_how_to_allow_one(tmp_path: Path) -> None:
    done = run_without("namespaces,landlock", tmp_path)
    assert done.returncode == 1
    assert (
        "this host has no means to keep a guest from your files:\n  namespaces: jail: making"
        " namespaces: " in done.stderr
    )
    assert "\n  landlock: jail: " in done.stderr
    assert done.stderr.endswith(f"{HOW_TO_ALLOW}\n")
    assert list((tmp_path / "results").glob("runs/*")) == []


def test_a_host_without_any_means_runs_if_it_is_told_to(tmp_path: Path) -> None:
    done = run_without("namespaces,landlock", tmp_path, jail="none")
    assert (done.returncode, done.stderr.count(UNJAILED)) == (0, 1), done.stderr


@pytest.mark.parametrize(
    ("means", "jail", "reason"),
    [
        ("namespaces", "", "this host lets nobody make namespaces: "),
        ("", "landlock", "OPENBACH_RUN_JAIL=landlock: "),
    ],
    ids=["no namespaces", "asked for"],
)
def test_landlock_alone_is_told_with_its_reason(
    tmp_path: Path, means: str, jail: str, reason: str
) -> None:
    done = run_without(means, tmp_path, jail=jail)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "Landlock" in line] == [
        f"openbach-run: {reason}{PARTIAL}"
    ]


@pytest.mark.parametrize("vpn", ["none", "openvpn_udp"])
def test_an_old_host_gives_the_same_packets(tmp_path: Path, vpn: str) -> None:
    """Also in the jail, without a word about it."""
    cell = (f"vpn={vpn}", "cc=cubic", "size=300k")
    done = [run_without(means, tmp_path / means, *cell) for means in (OLD, "nothing")]
    assert [(one.returncode, one.stderr) for one in done] == [(0, "")] * 2
    old, new = (
        [run.row["capture_hash"] for run in records(tmp_path / means / "results")]
        for means in (OLD, "nothing")
    )
    assert old == new


@pytest.mark.parametrize("shm", ["size=64m", None], ids=["64 MB", "none"])
def test_memory_is_not_taken_from_dev_shm(tmp_path: Path, shm: str | None) -> None:
    """A container's /dev/shm has 64 MB, the guest 512.

    Another host has none, and a /tmp of the same size.
    """
    hidden = (
        f"mount -t tmpfs -o {shm} none /dev/shm"
        if shm
        else "mount -t tmpfs -o size=0,nr_inodes=1,mode=0 none /dev/shm"
    )
    code = tmp_path / "run.py"
    code.write_text(
        "import sys; from pathlib import Path; sys.path[:0] = sys.argv[1:3]\nfrom helpers.guest_code"
        " import FINISH, engine_with\nwork = Path(sys.argv[3]); (work / 'record').mkdir()\nfilled ="
        " 'filled = bytearray(128 << 20)'\noutcome = engine_with(work / 'code', filled,"
        " FINISH).run({'seed': 1}, work / 'record', 0, lambda event: None)\nprint(outcome.error)\n"
    )
    paths = [str(REPOSITORY / "src"), str(REPOSITORY / "tests"), str(tmp_path)]
    python = subprocess.list2cmdline([sys.executable, str(code), *paths])
    unshare = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    done = subprocess.run(
        [*unshare, "sh", "-c", f"{hidden} && exec {python}"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": "/dev/shm" if not shm else "/tmp"},
    )
    assert (done.stdout, done.returncode) == ("None\n", 0), done.stderr
