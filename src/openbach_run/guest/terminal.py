# SPDX-License-Identifier: GPL-3.0-or-later
"""Terminals on the hosts of a run: shells, each on a pseudo-terminal, for a person at the engine's.

Bytes go through files of the run's directory. IN/ID.NUMBER.KIND comes from the engine: `open`
(JSON: host, rows, columns, term), `typed`, `size` (JSON), `hangup`; IN/end ends all. OUT/ID is what
the terminal shows, OUT/ID.code the exit code of its shell.

The run has virtual time up to here, and is made to keep pace with the engine's clock from now on:
it sends packets to itself, and the engine reads the packets of a time when that time has come.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import termios
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Protocol

from openbach_run.guest.network import Namespace, inside

IN, OUT = "/run/openbach/in", "/run/openbach/out"
TYPED, HOSTS = "/run/openbach/typed.txt", "/run/openbach/hosts"
RC = "/run/openbach/shell.rc"
SHARED = "/home"
TICK_S = 0.01
"""Time between two looks at what is typed, and by which the run may be ahead of the clock."""
MAGIC = b"openbach-run pace"
PACE_BYTES, PACE_PACKETS = 60_000, 5
"""Size of a tick: more than the kernel keeps of a capture before it sends it
(kernel/src/capture.c)."""
READ_BYTES = 1 << 16
SIOCGIFFLAGS, SIOCSIFFLAGS, UP = 0x8913, 0x8914, 1
START = """\
PS1='$OPENBACH_HOST$ '
HISTCONTROL=
unset HISTFILE
__keep() {
    local line number
    read -r number line <<< "$(HISTTIMEFORMAT= history 1)"
    if [ -n "$number" ] && [ "$number" != "${__kept-}" ]; then
        case $line in
        "on "*[\\;\\&\\|]*) echo "# $OPENBACH_HOST $line" >> /run/openbach/typed.txt ;;
        "on "*" "*) line=${line#on }; echo "${line%% *} ${line#* }" >> /run/openbach/typed.txt ;;
        on | "on "* | exit | exit\\ * | logout) ;;
        *) echo "$OPENBACH_HOST $line" >> /run/openbach/typed.txt ;;
        esac
    fi
    __kept=$number
}
PROMPT_COMMAND=__keep
on() {
    local host=${1-}
    if [ -z "$host" ] || [ ! -e "/run/openbach/hosts/$host" ]; then
        echo "on HOST [COMMAND]: there are $(ls /run/openbach/hosts | tr '\\n' ' ')" >&2
        return 1
    fi
    shift
    local at=(nsenter -t "$(< "/run/openbach/hosts/$host")" -n -m --wd=/home)
    at+=(env OPENBACH_HOST="$host")
    if [ $# = 0 ]; then
        "${at[@]}" bash --rcfile /run/openbach/shell.rc -i
    else
        "${at[@]}" bash -c "$*"
    fi
}
"""


class Agents(Protocol):
    """The part of the agents (agent.py) that terminals need."""

    namespaces: dict[str, Namespace]


class Terminals:
    """The process that serves terminals, as a state that the agents serve."""

    def __init__(self, agents: Agents) -> None:
        self.agents = agents
        self.pid = self.pidfd = -1
        self.over = False

    def begin(self) -> None:
        """Start the process."""
        self.pid = os.fork()
        if self.pid:
            self.pidfd = os.pidfd_open(self.pid)
            return
        code = 1
        try:
            os.setsid()
            _Server({host.name: host for host in self.agents.namespaces.values()}).serve()
            code = 0
        except BaseException:
            import traceback

            with open("/run/openbach/terminals.log", "w") as log:
                log.write(traceback.format_exc())
        finally:
            os._exit(code)

    @property
    def descriptors(self) -> list[int]:
        """Return what becomes readable when there is something to serve."""
        return [self.pidfd] if self.pidfd >= 0 and not self.over else []

    def serve(self, ready: Collection[int]) -> None:
        """Note the end of the process."""
        self.over = self.over or self.pidfd in ready

    def abort(self) -> None:
        """End all terminals: the run is over."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


class _Session:
    """A shell, its pseudo-terminal, and the file that gets what it shows."""

    def __init__(self, pid: int, terminal: int, out: int) -> None:
        self.pid, self.terminal, self.out = pid, terminal, out


class _Server:
    def __init__(self, namespaces: Mapping[str, Namespace]) -> None:
        self.namespaces = namespaces
        self.sessions: dict[str, _Session] = {}
        self.pace = _Pace()
        os.makedirs(OUT, exist_ok=True)
        os.makedirs(HOSTS, exist_ok=True)
        with open(RC, "w") as file:
            file.write(START)
        for name, namespace in namespaces.items():
            with open(f"{HOSTS}/{name}", "w") as file:
                file.write(str(_held(namespace)))
        open(f"{OUT}/ready", "w").close()

    def serve(self) -> None:
        """Serve all terminals until the engine ends them."""
        while True:
            self.pace.tick()
            shown = {session.terminal: key for key, session in self.sessions.items()}
            for terminal in select.select([*shown], [], [], TICK_S)[0]:
                self._show(shown[terminal])
            for name in sorted(os.listdir(IN)):
                if name == "end":
                    return
                if not name.startswith("."):
                    self._take(name)

    def _take(self, name: str) -> None:
        """Do what a file from the engine says, and remove it."""
        key, _, kind = name.split(".")
        with open(f"{IN}/{name}", "rb") as file:
            content = file.read()
        os.unlink(f"{IN}/{name}")
        if kind == "open":
            self._open(key, json.loads(content))
        elif session := self.sessions.get(key):
            if kind == "typed":
                os.write(session.terminal, content)
            elif kind == "size":
                _resize(session.terminal, json.loads(content))
            elif kind == "hangup":
                os.kill(session.pid, signal.SIGHUP)

    def _open(self, key: str, request: Mapping[str, Any]) -> None:
        """Start a shell on a host."""
        out = os.open(f"{OUT}/{key}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        environment = {
            "PATH": "/opt/openbach-run/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "TERM": request["term"],
            "TERMINFO": "/run/openbach/terminfo",
            "OPENBACH_HOST": request["host"],
        }
        with inside(self.namespaces[request["host"]]):
            pid, terminal = pty.fork()
            if pid == 0:
                os.chdir(SHARED)
                signal.signal(signal.SIGPIPE, signal.SIG_DFL)
                shell = ["bash", "--rcfile", RC, "-i"]
                os.execvpe("bash", shell, environment)
        _resize(terminal, request)
        self.sessions[key] = _Session(pid, terminal, out)

    def _show(self, key: str) -> None:
        """Pass on what a terminal shows; note the end of its shell."""
        session = self.sessions[key]
        try:
            shown = os.read(session.terminal, READ_BYTES)
        except OSError:  # EIO: nobody has its other end any more
            shown = b""
        if shown:
            os.write(session.out, shown)
            return
        del self.sessions[key]
        os.close(session.terminal)
        os.close(session.out)
        code = os.waitstatus_to_exitcode(os.waitpid(session.pid, 0)[1])
        with open(f"{OUT}/.{key}", "w") as file:
            file.write(str(code))
        os.rename(f"{OUT}/.{key}", f"{OUT}/{key}.code")


class _Pace:
    """Packets to this very process, which hold the run back: see the module."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # lo of the namespace that no host is in.
        name = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack_from("16xH", fcntl.ioctl(self.socket, SIOCGIFFLAGS, name))[0]
        fcntl.ioctl(self.socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | UP))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.connect(self.socket.getsockname())
        self.packet = MAGIC.ljust(PACE_BYTES, b"\0")

    def tick(self) -> None:
        """Send what the engine waits for."""
        for _ in range(PACE_PACKETS):
            with suppress(OSError):
                self.socket.send(self.packet)


def _held(namespace: Namespace) -> int:
    """Start a process that does nothing but be on a host, for `on HOST`; return its id."""
    with inside(namespace):
        pid = os.fork()
        if pid == 0:
            while True:
                signal.pause()
        return pid


def _resize(terminal: int, request: Mapping[str, Any]) -> None:
    size = struct.pack("HHHH", request["rows"], request["columns"], 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
