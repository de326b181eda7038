# SPDX-License-Identifier: GPL-3.0-or-later
"""Three hosts on this machine, as network namespaces, and satpep on the middle one, in real time.

    client 10.1.0.2 ── 10.1.0.1 pep 10.2.0.1 ── 10.2.0.2 server (fd01::/64 and fd02::/64 likewise)

Rules and routes are those of the job (jobs/satpep/files/satpep.py). Nothing here touches the
machine's own network.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import satpep  # the job

ROOT = Path(__file__).resolve().parents[2]
CLONE_NEWNET = 0x40000000  # linux/sched.h
HOSTS = ("client", "pep", "server")
SERVER = {4: "10.2.0.2", 6: "fd02::2"}
CLIENT = {4: "10.1.0.2", 6: "fd01::2"}
ADDRESSES = {
    ("client", "to_pep"): ("10.1.0.2/24", "fd01::2/64"),
    ("pep", "to_client"): ("10.1.0.1/24", "fd01::1/64"),
    ("pep", "to_server"): ("10.2.0.1/24", "fd02::1/64"),
    ("server", "to_pep"): ("10.2.0.2/24", "fd02::2/64"),
}
LIMIT_S = 600.0
RST_ON_CLOSE = struct.pack("ii", 1, 0)

libc = ctypes.CDLL(None, use_errno=True)


def until(condition: Callable[[], Any], what: str, limit_s: float = LIMIT_S) -> Any:
    """The first true value of a condition; fails naming what did not come."""
    end = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < end, f"{what} did not come within {limit_s:g} s"
        time.sleep(0.01)
    return value


def setns(fd: int) -> None:
    """Enter the network namespace of a descriptor. Raises OSError."""
    if libc.setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Lab:
    """The hosts.

    `inside` holds for the calling thread: sockets and processes made there belong to that host.
    """

    def __init__(self) -> None:
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.namespaces = {host: self._make() for host in HOSTS}
        fds = {host: f"/proc/{os.getpid()}/fd/{fd}" for host, fd in self.namespaces.items()}
        with self.inside("pep"):
            self.run(
                "ip",
                "link",
                "add",
                "to_client",
                "type",
                "veth",
                "peer",
                "name",
                "to_pep",
                "netns",
                fds["client"],
            )
            self.run(
                "ip",
                "link",
                "add",
                "to_server",
                "type",
                "veth",
                "peer",
                "name",
                "to_pep",
                "netns",
                fds["server"],
            )
            for family in ("ipv4", "ipv6"):
                Path(f"/proc/sys/net/{family}/conf/all/forwarding").write_text("1")
        for host in HOSTS:
            with self.inside(host):
                self._configure(host)
        until(self._is_up, "the links")

    def _is_up(self) -> bool:
        """Return whether a link is up: its carrier is there, and so are its IPv6 routes.

        The kernel takes note of a link's carrier a little later, and gives it its IPv6 routes then.
        """
        with self.inside("pep"):
            local, routes = (
                self.run("ip", "-6", "route", "show", "table", "local"),
                self.run("ip", "route"),
            )
            return (
                local.count("local fe80::") == 2
                and local.count("local fd0") == 2
                and "linkdown" not in routes
            )

    def _make(self) -> int:
        assert libc.unshare(CLONE_NEWNET) == 0, "network namespaces need root, or unshare -rn"
        try:
            Path("/proc/sys/net/ipv6/conf/default/accept_dad").write_text(
                "0"
            )  # a link's own address is good at once
            return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            setns(self.home)

    def more(self, host: str) -> str:
        """One more host, with nothing in it yet. The path of its network namespace."""
        self.namespaces[host] = self._make()
        return f"/proc/{os.getpid()}/fd/{self.namespaces[host]}"

    def _configure(self, host: str) -> None:
        lines = ["link set lo up"]
        for (owner, device), addresses in ADDRESSES.items():
            if owner == host:
                lines += [
                    f"address add {address} dev {device} {'nodad' if ':' in address else ''}"
                    for address in addresses
                ]
                lines += [f"link set {device} up"]
        if host != "pep":
            side = 1 if host == "client" else 2
            lines += [f"route add 0.0.0.0/0 via 10.{side}.0.1", f"route add ::/0 via fd0{side}::1"]
        self.run("ip", "-batch", "-", text="\n".join(lines))

    def run(self, *command: str, text: str | None = None) -> str:
        """Return what a command prints in the present namespace; it has to succeed."""
        done = subprocess.run(command, check=False, capture_output=True, text=True, input=text)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    @contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """Be in the namespace of a host meanwhile."""
        # A namespace is a thread's, not a process's: /proc/self would be that of the main thread.
        outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        setns(self.namespaces[host])
        try:
            yield
        finally:
            setns(outside)
            os.close(outside)

    def new_socket(self, host: str, family: int = 4) -> socket.socket:
        """Return a new socket of a host, of IPv4 or IPv6."""
        with self.inside(host):
            # A socket belongs to the namespace in which it was made, wherever it is used later.
            made = socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6)
        made.settimeout(LIMIT_S)
        return made

    def listen(self, family: int = 4, port: int = 80, **options: int) -> socket.socket:
        """Return a listening socket of the server. `options` are SO_… by name, set before."""
        made = self.new_socket("server", family)
        # The port may be in TIME_WAIT from the test before.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for name, value in options.items():
            made.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        made.bind((SERVER[family], port))
        made.listen(512)
        return made

    def connect(self, family: int = 4, port: int = 80, **options: int) -> socket.socket:
        """Return a socket of the client, connected to the server."""
        made = self.new_socket("client", family)
        for name, value in options.items():
            made.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        made.connect((SERVER[family], port))
        return made

    def pair(self, listener: socket.socket, family: int = 4) -> tuple[socket.socket, socket.socket]:
        """A connection's two ends: the client's, the server's."""
        client = self.connect(family, listener.getsockname()[1])
        server, _ = listener.accept()
        server.settimeout(LIMIT_S)
        return client, server

    def close(self) -> None:
        """Close all descriptors, and with them the namespaces."""
        for fd in (*self.namespaces.values(), self.home):
            os.close(fd)


class Satpep:
    """The program on the host pep, with its rules. `events` are its statistics so far."""

    def __init__(
        self, lab: Lab, program: Path, log: Path, *options: str, descriptors: int | None = None
    ) -> None:
        self.lab, self.log = lab, log
        self.seen: list[dict[str, Any]] = []
        self.read_bytes = 0
        log.unlink(missing_ok=True)
        limit = (
            (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)))
            if descriptors
            else None
        )
        arguments = satpep.parse(["A", "run"])
        with lab.inside("pep"):
            self.process = subprocess.Popen(
                [str(program), "-l", str(log), "-u", "", *options],
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=limit,
            )
            # The job's own rules: what is tested is what a run has.
            satpep.put_rules(arguments, [])
        until(lambda: self.process.poll() is not None or self.events(), "satpep ready")
        assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        """Return the whole lines of satpep's log as events; of one `kind` if it is given."""
        if self.log.exists():
            with self.log.open("rb") as file:
                # Only what is new: the soak test writes hundreds of thousands of events.
                file.seek(self.read_bytes)
                written = file.read()
            whole = written[: written.rfind(b"\n") + 1]  # it may be writing a line just now
            self.read_bytes += len(whole)
            self.seen += map(json.loads, whole.splitlines())
        return [event for event in self.seen if kind in ("", event["event"])]

    def ended(self, count: int = 1) -> list[dict[str, Any]]:
        """Return the events `ended`, as soon as there are `count` of them."""
        found: list[dict[str, Any]] = until(
            lambda: self.events("ended") if len(self.events("ended")) >= count else None,
            f"{count} ended",
        )
        return found

    def status(self, key: str) -> str:
        """Return a field of the process's /proc/PID/status."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(line.split(None, 1)[1] for line in lines if line.startswith(key + ":"))

    def descriptors(self) -> int:
        """Return the number of the process's open descriptors."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def totals(self) -> dict[str, Any]:
        """Return the totals that satpep writes to its log on SIGUSR1."""
        before = len(self.events("totals"))
        self.process.send_signal(signal.SIGUSR1)
        return until(lambda: self.events("totals")[before:], "totals")[0]  # type: ignore[no-any-return]

    def stop(self) -> tuple[int, str]:
        """At once. Exit code and what it said on stderr: under ASan, leaks would be there."""
        self.process.send_signal(signal.SIGINT)
        self.process.send_signal(signal.SIGCONT)  # a test may have stopped it
        _, said = self.process.communicate(timeout=LIMIT_S)
        with self.lab.inside("pep"):
            satpep.remove_rules(satpep.parse(["A", "run"]))
        return self.process.returncode, said


StartSatpep = Callable[..., Satpep]


def reset(end: socket.socket) -> None:
    """Reset a connection from this end."""
    # A linger time of 0 makes close(2) send a RST instead of a FIN (socket(7)).
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST_ON_CLOSE)
    end.close()


def receive_all(end: socket.socket) -> bytes:
    """Until the FIN."""
    received = bytearray()
    while data := end.recv(1 << 16):
        received += data
    return bytes(received)


def fill(end: socket.socket) -> int:
    """Send until nothing has been taken for a while. The end does not block."""
    sent = 0
    while select.select([], [end], [], 0.5)[1]:
        sent += end.send(b"z" * (1 << 16))
    return sent


def silence(lab: Lab) -> None:
    """The server's host answers nothing any more."""
    with lab.inside("server"):
        chain = "chain input {\ntype filter hook input priority 0; policy drop;\n}\n"
        lab.run("nft", "-f", "-", text=f"table inet silent {{\n{chain}}}\n")
