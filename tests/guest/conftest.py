# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the real command in the real guest, kept for the whole session.

A test reads what a run left behind.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.guest_runs import (
    NOBODY,
    REPOSITORY,
    Host,
    Run,
    RunCells,
    command,
    records,
)

from openbach_run.engine.virtual.jail import ensure_jail
from openbach_run.paths import cache_directory
from openbach_run.results import run_files

CPUS = sorted(os.sched_getaffinity(0))

# Of several test processes each has a CPU, and its guests are pinned there.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.sched_setaffinity(0, {CPUS[int(worker.removeprefix("gw")) % len(CPUS)]})


@pytest.fixture(scope="session")
def run_cells(tmp_path_factory: pytest.TempPathFactory) -> RunCells:
    """Return a function that runs cells: `run_cells("geo_loss", "vpn=none", seeds="1", pcap=True)`.

    The same call gives the same runs, but for another number `again`.
    """
    done: dict[tuple[object, ...], list[Run]] = {}

    def run(
        scenario: str, *arguments: str, seeds: str = "1", pcap: bool = False, again: int = 0
    ) -> list[Run]:
        key = (scenario, arguments, seeds, pcap, again)
        if key not in done:
            results = tmp_path_factory.mktemp("results")
            options = ["--seeds", seeds, "--results", str(results), *(["--pcap"] if pcap else [])]
            ended = command(f"scenarios/{scenario}.yml", *arguments, *options)
            assert ended.returncode == 0, ended.stderr
            done[key] = records(results)
        return done[key]

    return run


@pytest.fixture(scope="session")
def bundle() -> Iterator[Path]:
    """A bundle of this checkout, where an ordinary user can read it."""
    with tempfile.TemporaryDirectory(prefix="openbach-run-test-") as name:
        Path(name).chmod(0o755)
        made = Path(name) / "openbach"
        done = command("bundle", "-o", str(made), "--level", "1", "--quiet")
        assert done.returncode == 0, done.stderr
        yield made


@pytest.fixture(scope="session")
def launcher() -> Path:
    return ensure_jail(cache_directory(), REPOSITORY / "kernel", lambda text, part: None).launcher


@pytest.fixture
def listener() -> Iterator[str]:
    """The name of an abstract unix socket, of which a datagram would get out of most jails."""
    name = f"openbach-run-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(f"\0{name}")
        bound.setblocking(False)
        yield name
        with pytest.raises(BlockingIOError):
            bound.recv(1)


@pytest.fixture(params=["as this user", "unprivileged"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    if request.param == "unprivileged" and os.geteuid() != 0:
        pytest.skip("this user is unprivileged")
    place = (
        Path("/tmp") / f"openbach-run-jail-{os.getpid()}"
    )  # pytest's own directories are closed to others
    place.mkdir()
    user = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    made = Host(place, user if request.param == "unprivileged" else [])
    made.own(place)
    try:
        yield made
    finally:
        run_files.remove(place)
