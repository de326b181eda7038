# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run serve`: a local OpenBACH controller with a page of its own, executing in virtual time."""

from __future__ import annotations

import argparse
import ipaddress
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from openbach_run.addresses import OURS
from openbach_run.engine.virtual import VirtualEngine, guest_code
from openbach_run.errors import InputError
from openbach_run.executor import Engine, cpus_for
from openbach_run.inventory import agent_addresses, load_inventory
from openbach_run.job_packages import Package, load_packages
from openbach_run.package import load_scenarios
from openbach_run.progress import Reporter
from openbach_run.web.platform import Platform
from openbach_run.web.sessions import LOGIN

REPOSITORY = Path(__file__).resolve().parents[3]
PORT = 8000
LEAST_PASSWORD = 12
LONGEST_SHUTDOWN_S = 5
BACKLOG = 512

DESCRIPTION = """\
Serves a page on which scenarios are chosen, launched and compared, and the REST API of an
OpenBACH controller, for its web UI and its auditorium scripts. What is launched runs in
virtual time on this machine. Without --listen only this machine is served, and nobody is
asked for a password; with it, everybody is.
"""
EPILOG = """\
examples:
  openbach-run serve
      then open http://127.0.0.1:8000/
  echo 127.0.0.1 > controller && python3 list_projects.py
      a script of OpenBACH's auditorium, with any login and password
  openbach-run serve --listen 172.20.34.5 --password-file ~/.openbach-run-password
      for a whole laboratory, as user openbach; put a TLS proxy before it on a network that you do not trust
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "openbach-run serve",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--listen", default="127.0.0.1", metavar="ADDRESS", help="address to serve on (default 127.0.0.1)"
    )
    made.add_argument("--port", type=int, default=PORT, help=f"port; 0 takes a free one (default {PORT})")
    made.add_argument(
        "--results", type=Path, default=Path("results"), metavar="DIR",
        help="where records and the list of instances are kept (default results, as for other commands)",
    )  # fmt: skip
    made.add_argument(
        "--password-file", type=Path, metavar="FILE",
        help=f"its first line is the password of user {LOGIN} (default with --listen: a new one, printed here)",
    )  # fmt: skip
    made.add_argument(
        "--web-ui", type=Path, metavar="DIR",
        help="also serve OpenBACH's own web UI, at /app: the folder ansible/roles/install_auditorium/files/frontend of a"
        " checkout of OpenBACH",
    )  # fmt: skip
    made.add_argument(
        "--workers", type=int, metavar="N", help="runs at the same time (default: the CPUs this process may use)"
    )
    made.add_argument(
        "--jobs", type=Path, action="append", default=[], metavar="PATH",
        help="more jobs: a folder of packages, or a JSON file of argument trees",
    )  # fmt: skip
    made.add_argument(
        "--inventory", type=Path, default=OURS, metavar="FILE", help="the hosts and networks (default inventory.yml)"
    )
    return made


def main(argv: list[str]) -> int:
    arguments = parser().parse_args(argv)
    packages = load_packages([*arguments.jobs, REPOSITORY / "jobs"])
    if arguments.web_ui is not None and not (arguments.web_ui / "index.html").is_file():
        raise InputError(f"--web-ui {arguments.web_ui}: has no index.html; name the folder of the built web UI")
    password = read_password(arguments.listen, arguments.password_file)
    listening = listen(arguments.listen, arguments.port)
    inventory = load_inventory(arguments.inventory)
    given = agent_addresses(arguments.inventory)
    addresses = {host.entity: given.get(host.entity, host.interfaces[0].address) for host in inventory.hosts}
    scenarios = load_scenarios(REPOSITORY / "scenarios", packages)
    with Reporter(quiet=False) as reporter:
        engine_for(packages, list(packages), reporter)
    import uvicorn

    from openbach_run.web.app import make_app

    def make_engine(jobs: Sequence[str]) -> Engine:
        return engine_for(packages, jobs, None)

    app = make_app(
        Platform(inventory, addresses, packages), scenarios, arguments.results, make_engine, cpus_for(arguments.workers),
        password, arguments.web_ui,
    )  # fmt: skip
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=LONGEST_SHUTDOWN_S,
    )  # fmt: skip
    host, port = listening.getsockname()[:2]
    print(f"http://{f'[{host}]' if ':' in host else host}:{port}/   (Ctrl-C ends it)", flush=True)
    with suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
        uvicorn.Server(config).run(sockets=[listening])
    return 0


def engine_for(packages: Mapping[str, Package], jobs: Sequence[str], reporter: Reporter | None) -> VirtualEngine:
    """A prepared virtual engine whose guests have these jobs."""
    folders = {name: files for name in jobs if (files := packages[name].files)}
    engine = VirtualEngine(REPOSITORY, guest_code(REPOSITORY, folders))
    engine.prepare(reporter.show if reporter else lambda text, part: None)
    return engine


def read_password(address: str, file: Path | None) -> str | None:
    """None on this machine only. Raises InputError."""
    if file is not None:
        try:
            password = file.read_text(encoding="utf-8").partition("\n")[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--password-file {file}: {error}") from error
        if len(password) < LEAST_PASSWORD:
            raise InputError(f"--password-file {file}: a password has {LEAST_PASSWORD} characters or more")
        return password
    if is_loopback(address):
        return None
    password = secrets.token_urlsafe(15)
    print(f"login {LOGIN}, password {password}   (--password-file keeps one of your own)", file=sys.stderr)
    return password


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def listen(address: str, port: int) -> socket.socket:
    """A socket that listens there. Raises InputError."""
    if not 0 <= port < 1 << 16:
        raise InputError(f"--port {port}: a port is a number from 0 to 65535")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)  # asyncio switches Nagle off only where the protocol is said
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(place)
            made.listen(BACKLOG)
        except OSError:
            made.close()
            raise
        return made
    except OSError as error:
        raise InputError(f"{address} port {port}: {error.strerror}; --port and --listen name another place") from error
