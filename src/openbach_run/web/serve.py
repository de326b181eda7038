# SPDX-License-Identifier: GPL-3.0-or-later
"""The local OpenBACH controller with a page of its own: `openbach-run serve`.

It executes in virtual time.
"""

from __future__ import annotations

import ctypes
import fcntl
import ipaddress
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from openbach_run.campaign.engines import prepared_engine
from openbach_run.campaign.executor import cpus_for
from openbach_run.catalog import Catalog, Uses
from openbach_run.engine.contract import Engine
from openbach_run.engine.platform.rest import CONTROLLER_FILE, write_access
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import Package, faults, load_packages, well_formed
from openbach_run.openbach.project import in_order, read_scenarios
from openbach_run.openbach.scenario import Scenario
from openbach_run.paths import CONTROLLER_PORT, LIBRARY
from openbach_run.progress import Reporter
from openbach_run.topology.inventory import agent_addresses, load_inventory
from openbach_run.web.app import make_app
from openbach_run.web.connections import CONNECTIONS, config, connections_for, log_few_lines
from openbach_run.web.platform import Platform
from openbach_run.web.sessions import LOGIN, Sessions

LEAST_PASSWORD, MOST_PASSWORD = 12, 1000
BACKLOG = 512
LOCK = "serve.lock"
M_ARENA_MAX = -8  # of malloc.h


def _warn(fault: str) -> None:
    """Print a warning of what is left out."""
    print(f"openbach-run: warning: {fault}: it is left out", file=sys.stderr)


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The address of the page, what it may run, and where its results go."""

    listen: str
    """The address on which it is served."""
    port: int
    """The port; 0 is a free one."""
    results: Path
    """The directory of all results directories."""
    password_file: Path | None
    """The file whose first line is a password, beside the token of each start."""
    web_ui: Path | None
    """The folder of OpenBACH's own web UI."""
    workers: int | None
    """Runs at the same time; None means one for each CPU."""
    additions: tuple[Path, ...]
    """The user's directories of VPNs, jobs and so on."""
    jobs: tuple[Path, ...]
    """More jobs: folders of packages, or JSON files of argument trees."""
    inventory: Path
    """The file of hosts and networks."""


def serve(options: ServeOptions) -> None:
    """Serve the page and the API until Ctrl-C. Raises InputError."""
    catalog = Catalog.beside_ours(options.additions)
    packages = load_packages([*options.jobs, *catalog.jobs], catalog)
    for fault in faults(packages):
        _warn(fault)
    packages = well_formed(packages)
    if options.web_ui is not None and not (options.web_ui / "index.html").is_file():
        raise InputError(
            f"--web-ui {options.web_ui}: has no index.html; name the folder of the built web UI"
        )
    file = options.password_file
    sessions = Sessions(None if file is None else read_password(file))
    cpus = cpus_for(options.workers)
    connections = connections_for(len(cpus))
    log_few_lines()
    keep_memory_together()
    # Before the engine is prepared, which may take minutes: a port that is taken is told at once.
    with closing(listen(options.listen, options.port)) as listening:
        place = address_of(listening)
        with alone(options.results, f"http://{place}/"):
            app = application(options, packages, catalog, cpus, sessions)
            if connections < CONNECTIONS:
                low = f"at most {connections} connections at a time: `ulimit -n` is low"
                print(low, file=sys.stderr)
            with access_file(place, sessions, tell=not is_loopback(options.listen)):
                print(f"http://{place}/?token={sessions.token}   (Ctrl-C ends it)", flush=True)
                with suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
                    uvicorn.Server(config(app, connections)).run(sockets=[listening])


def keep_memory_together() -> None:
    """Make glibc serve all threads from two heaps; other C libraries have no such setting.

    With a heap for each thread what is free is in pieces: 50 clients took 123 to 383 MB in an hour.
    """
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)


def application(
    options: ServeOptions,
    packages: Mapping[str, Package],
    catalog: Catalog,
    cpus: Sequence[int],
    sessions: Sessions,
) -> FastAPI:
    """Return the web application; it prepares an engine with all jobs first."""
    inventory = load_inventory(options.inventory)
    known_hosts = agent_addresses(options.inventory)
    addresses = {
        host.entity: known_hosts.get(host.entity, host.interfaces[0].address)
        for host in inventory.hosts
    }
    scenarios = scenarios_of(catalog, packages)
    with Reporter(quiet=False) as reporter:
        every_job = {"jobs": [name for name, package in packages.items() if package.files]}
        prepared_engine(every_job, packages, catalog, reporter.show)

    def make_engine(uses: Uses) -> Engine:
        """Return a prepared engine for runs that use these additions."""
        return prepared_engine(uses, packages, catalog, lambda text, part: None)

    return make_app(
        Platform(inventory, addresses, packages, catalog),
        scenarios,
        options.results,
        make_engine,
        cpus,
        sessions,
        local=is_loopback(options.listen) and options.password_file is None,
        web_ui=options.web_ui,
    )


def scenarios_of(catalog: Catalog, packages: Mapping[str, Package]) -> list[Scenario]:
    """Return every scenario of scenarios/ and topologies/, in the order to store them.

    A malformed one is left out, with a warning.
    """
    topologies = sorted((LIBRARY / "topologies").glob("*.json"))
    files = [*catalog.all("scenarios").values(), *topologies]
    return in_order(scenario for _, scenario in read_scenarios(files, packages, _warn))


@contextmanager
def alone(results: Path, url: str) -> Iterator[None]:
    """Lock the results directory, so that no other process serves it meanwhile.

    Raises InputError.
    """
    try:
        results.mkdir(parents=True, exist_ok=True)
        lock = (results / LOCK).open("a+")
    except OSError as error:
        raise InputError(
            f"{results}: cannot be written: {error}; --results DIR names another place"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            who = lock.read().strip() or "another openbach-run serve"
            hint = "use that one, or give another --results DIR"
            raise InputError(f"{results}: is served already, by {who}; {hint}") from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()} at {url}\n")
        lock.flush()
        yield
        lock.truncate(0)


@contextmanager
def access_file(place: str, sessions: Sessions, *, tell: bool) -> Iterator[None]:
    """Keep the file `controller` in the current directory while this is served.

    Login and password are printed if that file is another controller's, or with `tell`.
    """
    file, wildcard = Path(CONTROLLER_FILE), {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
    host, _, port = place.rpartition(":")
    # A server that listens everywhere is reached at the loopback address.
    host = wildcard.get(host, host)
    reached = host if int(port) == CONTROLLER_PORT else f"{host}:{port}"
    try:
        write_access(file, reached, LOGIN, sessions.token)
        written = file.read_bytes()
    except InputError as error:
        written, tell = None, True
        print(f"{error}: it is left as it is", file=sys.stderr)
    if tell:
        print(f"login {LOGIN}, password {sessions.token}", file=sys.stderr)
    try:
        yield
    finally:
        with suppress(OSError):
            # Another controller may have written its own file meanwhile.
            if file.read_bytes() == written:
                file.unlink()


def read_password(file: Path) -> str:
    """Return the password in a file. Raises InputError."""
    try:
        with file.open(encoding="utf-8-sig") as opened:  # it may have no end
            password = opened.readline(MOST_PASSWORD + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--password-file {file}: {error}") from error
    if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
        several = f"{LEAST_PASSWORD} to {MOST_PASSWORD} characters"
        raise InputError(f"--password-file {file}: a password has {several}")
    return password


def address_of(listening: socket.socket) -> str:
    """Return the address of a listening socket: `127.0.0.1:8000`, `[::1]:8000`."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(address: str) -> bool:
    """Return whether an address is this machine's own."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens at the address. Raises InputError."""
    if not 0 <= port < 1 << 16:
        raise InputError(f"--port {port}: a port is a number from 0 to 65535")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # asyncio switches Nagle off only where the protocol is said.
        listening = socket.socket(family, kind, protocol)
        try:
            # The port of a server that has just ended can be taken again.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            listening.listen(BACKLOG)
        except OSError:
            listening.close()
            raise
        return listening
    except OSError as error:
        raise InputError(
            f"{address} port {port}: {error.strerror}; --port and --listen name another place"
        ) from error
