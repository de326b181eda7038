#!/usr/bin/python3 -SB
# SPDX-License-Identifier: GPL-3.0-or-later
"""`systemctl` of the guest, where no systemd runs: starts and stops services by their unit files.

    systemctl start|stop|restart|reload|try-restart NAME…
    systemctl is-active|status NAME
    systemctl show [-p X] NAME

A service is of the host that asks. Its processes have a keeper, as systemd is on a real host: the
service is active as long as the keeper lives, and that is until the last of them has ended.
`procps` and `systemd-sysctl` set what is in /etc/sysctl.d. What only says when services start
(enable, daemon-reload, …) does nothing; anything else is refused.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

UNITS = (Path("/etc/systemd/system"), Path("/usr/lib/systemd/system"))
KEEPERS = Path("/run/systemctl")
SYSCTL = ("procps", "systemd-sysctl")
WITHOUT_EFFECT = {"enable", "disable", "mask", "unmask", "reset-failed", "preset"}
WITHOUT_EFFECT |= {"daemon-reload", "daemon-reexec"}
ACTIONS = ("start", "stop", "restart", "try-restart", "reload", "reload-or-restart", "force-reload")
DIRECTORIES = {
    "RuntimeDirectory": "/run",
    "StateDirectory": "/var/lib",
    "LogsDirectory": "/var/log",
    "CacheDirectory": "/var/cache",
}
PR_SET_CHILD_SUBREAPER = 36
STOP_LIMIT_S, LOOK_S = 20.0, 0.1
NOT_ACTIVE, NO_UNIT = 3, 5
"""Exit codes of systemctl: a service is not active; there is no such unit."""

Unit = dict[str, list[str]]
"""Section [Service] of a unit file: key → its values, in order."""


class Refused(Exception):
    """A refusal that says why, with systemctl's exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


def main(words: list[str]) -> int:
    """Return the exit code."""
    options, names = _parsed(words)
    action = names.pop(0) if names else ""
    names = [name.removesuffix(".service") for name in names]
    try:
        if action in WITHOUT_EFFECT:
            return 0
        if action in ("is-active", "status", "show") and names:
            return max(_tell(action, name, options) for name in names)
        if action not in ACTIONS or not names:
            raise Refused(
                f"{' '.join(words)}: the guest has"
                f" {', '.join((*ACTIONS, 'is-active', 'status', 'show'))}"
            )
        for name in names:
            _act(action, name)
    except Refused as refused:
        print(f"systemctl: {refused}", file=sys.stderr)
        return refused.code
    return 0


def _parsed(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the properties that -p names, and the words that are no option."""
    properties, rest, waiting = [], [], list(words)
    while waiting:
        word = waiting.pop(0)
        if word in ("-p", "--property") and waiting:
            properties.append(waiting.pop(0))
        elif word.startswith(("-p", "--property=")):
            properties.append(word.removeprefix("--property=").removeprefix("-p"))
        elif not word.startswith("-"):
            rest.append(word)
    return properties, rest


def _act(action: str, name: str) -> None:
    # These are no daemons: they apply /etc/sysctl.d and end.
    if name in SYSCTL:
        if action != "stop" and subprocess.run(["sysctl", "--system"], check=False).returncode:
            raise Refused(f"{name}: sysctl --system failed")
        return
    unit = _unit(name)
    keeper = _keeper(name)
    reloads = action in ("reload", "reload-or-restart", "force-reload")
    if reloads and keeper and "ExecReload" in unit:
        _execute(unit, "ExecReload", name, {"MAINPID": _main_process(name)})
        return
    if keeper and action != "start":
        _stop(name, unit, keeper)
        keeper = None
    elif action == "try-restart":
        return
    if action != "stop" and not keeper:
        _start(name, unit)


def _unit(name: str) -> Unit:
    # name@instance has the unit file name@.service, with %i for the instance (systemd.unit(5)).
    base, at, instance = name.partition("@")
    for folder in UNITS:
        for file in (folder / f"{name}.service", folder / f"{base}{at}.service"):
            if file.exists():
                return _service_of(file.read_text().replace("%i", instance).replace("%I", instance))
    raise Refused(
        f"{name}.service: no Debian package in the guest has such a service; packages.txt beside"
        " the job's files adds one",
        NO_UNIT,
    )


def _service_of(text: str) -> Unit:
    unit: Unit = {}
    section = ""
    for line in map(str.strip, text.replace("\\\n", " ").splitlines()):
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line and not line.startswith(("#", ";")):
            key, _, value = line.partition("=")
            unit.setdefault(key.strip(), []).append(value.strip())
    return unit


def _start(name: str, unit: Unit) -> None:
    """Return when the service is there, as far as its type says when."""
    KEEPERS.mkdir(parents=True, exist_ok=True)
    reader, tell = os.pipe()
    # The keeper: it outlives this command, as systemd does.
    if not os.fork():
        os.close(reader)
        code = 1
        try:
            code = _keep(name, unit, tell)
        finally:
            os._exit(code)
    os.close(tell)
    with os.fdopen(reader) as file:
        # Read until the keeper closes the pipe: when the service is up, or with the reason why not.
        if why := file.read():
            raise Refused(f"{name}: {why}")


def _keep(name: str, unit: Unit, tell: int) -> int:
    """Be the keeper: start the service, tell what went wrong, wait for all of its processes."""
    # A session of its own, as a service of systemd has.
    os.setsid()
    # What the service's programs leave behind becomes the keeper's child (prctl(2)), so it knows
    # when all have ended.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    state = KEEPERS / name
    try:
        for key, above in DIRECTORIES.items():
            for directory in " ".join(unit.get(key, ())).split():
                Path(above, directory).mkdir(parents=True, exist_ok=True)
        _execute(unit, "ExecStartPre", name, {})
        has_starter = unit.get("Type", ["simple"])[-1] in ("forking", "oneshot")
        started = [_spawn(line, unit, name, {}) for line in unit.get("ExecStart", ())]
        state.write_text(f"{os.getpid()} {started[-1].pid if started else 0}\n")
        # The first program of these types ends when the service is there; of all others it is the
        # service.
        for run in started if has_starter else ():
            if run.wait():
                raise Refused(f"{shlex.join(map(str, run.args))}: exit code {run.returncode}")  # type: ignore[arg-type]
        _execute(unit, "ExecStartPost", name, {})
    except (Refused, OSError) as error:
        os.write(tell, str(error).encode())
        state.unlink(missing_ok=True)
        return 1
    os.close(tell)
    _leave_output()
    signal.signal(signal.SIGTERM, lambda number, frame: _end_all())
    while True:
        try:
            # Until there is no child left: then the service has ended.
            os.wait()
        except ChildProcessError:
            break
    state.unlink(missing_ok=True)
    return 0


def _leave_output() -> None:
    """Leave the output of the program that has asked: it may wait for the end of what it gave."""
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)


def _end_all() -> None:
    for pid in _children(os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _stop(name: str, unit: Unit, keeper: int) -> None:
    if "ExecStop" in unit:
        with suppress(Refused):
            _execute(unit, "ExecStop", name, {"MAINPID": _main_process(name)})
    else:
        os.kill(keeper, signal.SIGTERM)
    end_s = time.monotonic() + STOP_LIMIT_S
    while _keeper(name):
        if time.monotonic() > end_s:
            for pid in (*_children(keeper), keeper):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            (KEEPERS / name).unlink(missing_ok=True)
            return
        time.sleep(LOOK_S)


def _execute(unit: Unit, key: str, name: str, variables: dict[str, str]) -> None:
    """Run the commands of a key to their end.

    Raises Refused for one that fails, but for those that may.
    """
    for line in unit.get(key, ()):
        done = _spawn(line, unit, name, variables)
        if done.wait() and not line.startswith("-"):
            raise Refused(f"{key}={line}: exit code {done.returncode}")


def _spawn(line: str, unit: Unit, name: str, variables: dict[str, str]) -> subprocess.Popen[bytes]:
    known = {**_environment(unit), **variables}
    words: list[str] = []
    # Characters before the path are orders to systemd (systemd.service(5)): "-" lets a command
    # fail.
    for word in shlex.split(line.lstrip("-@:+!")):
        # $NAME as a word of its own becomes several words, ${NAME} within one stays in it.
        if word.startswith("$") and not word.startswith("${"):
            words += known.get(word[1:], "").split()
            continue
        words.append(re.sub(r"\$\{(\w+)\}", lambda match: known.get(match[1], ""), word))
    user = unit.get("User", [""])[-1]
    try:
        number = pwd.getpwnam(user).pw_uid if user else None
        return subprocess.Popen(
            words, env={**os.environ, **known}, stdin=subprocess.DEVNULL, user=number
        )
    except KeyError:
        raise Refused(f"{name} runs as the user {user}, which the guest has not") from None
    except FileNotFoundError:
        raise Refused(f"{words[0]} is not in the guest") from None


def _environment(unit: Unit) -> dict[str, str]:
    words = [word for line in unit.get("Environment", ()) for word in shlex.split(line)]
    for name in unit.get("EnvironmentFile", ()):
        with suppress(FileNotFoundError):
            lines = [line.strip() for line in Path(name.lstrip("-")).read_text().splitlines()]
            kept = (line for line in lines if line and line[0] != "#")
            words += [word for line in kept for word in shlex.split(line)]
    parts = [word.partition("=") for word in words]
    return {name: value for name, _, value in parts}


def _keeper(name: str) -> int | None:
    """Return the process of a service's keeper, if the service is active."""
    with suppress(OSError, ValueError):
        pid = int((KEEPERS / name).read_text().split()[0])
        # A signal 0 only asks whether the process exists.
        os.kill(pid, 0)
        return pid
    return None


def _main_process(name: str) -> str:
    return (KEEPERS / name).read_text().split()[1]


def _tell(action: str, name: str, properties: list[str]) -> int:
    is_active = name in SYSCTL or _keeper(name) is not None
    known = {
        "ActiveState": "active" if is_active else "inactive",
        "SubState": "running" if is_active else "dead",
        "MainPID": _main_process(name) if is_active and name not in SYSCTL else "0",
    }
    if action == "show":
        for key in properties or known:
            print(f"{key}={known.get(key, '')}")
        return 0
    print("" if action == "is-active" else f"{name}.service: ", known["ActiveState"], sep="")
    return 0 if is_active else NOT_ACTIVE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
