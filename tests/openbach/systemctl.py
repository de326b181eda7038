#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemctl of a host without systemd.

Starts and stops the three services of an agent, and tells Ansible what it asks.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PYTHON = "/opt/openbach/virtualenv/bin/python3"
SERVICES = {
    "rsyslog": ["/usr/sbin/rsyslogd", "-n", "-iNONE"],
    "rstats": [PYTHON, "/opt/openbach/agent/rstats/rstats.py"],
    "openbach_agent": [PYTHON, "/opt/openbach/agent/openbach_agent.py"],
}
KEPT = Path("/run/services")
ENVIRONMENT = Path("/etc/environment")
STOP_LIMIT_S = 15.0


def process_of(service: str) -> int | None:
    """Its pid, if it runs."""
    try:
        pid = int((KEPT / service).read_text())
        os.kill(pid, 0)
    except (OSError, ValueError):
        return None
    return pid


def stop(service: str) -> None:
    pid = process_of(service)
    if pid is None:
        return
    os.kill(pid, signal.SIGTERM)
    end_s = time.monotonic() + STOP_LIMIT_S
    while process_of(service) is not None:
        if time.monotonic() > end_s:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def start(service: str) -> None:
    if process_of(service) is not None:
        return
    KEPT.mkdir(exist_ok=True)
    with open(f"/var/log/{service}.out", "ab") as said:
        started = subprocess.Popen(
            SERVICES[service],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
            cwd="/",
            env={
                **dict(line.split("=", 1) for line in ENVIRONMENT.read_text().split()),
                "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "JOB_NAME": service,
            },
        )
    (KEPT / service).write_text(str(started.pid))


def main() -> int:
    """Does what it is told about the services that it knows.

    Of others, says that they are not there.
    """
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    verb, names = (words[0] if words else ""), [word.removesuffix(".service") for word in words[1:]]
    for name in names:
        known = name in SERVICES
        if verb == "show":
            state = (
                ("loaded", "active" if process_of(name) else "inactive")
                if known
                else ("not-found", "inactive")
            )
            print(
                f"Id={name}.service\nLoadState={state[0]}\nActiveState={state[1]}\nUnitFileState=enabled"
            )
        elif not known:
            return 5
        elif verb == "is-active":
            return 0 if process_of(name) else 3
        elif verb in ("stop", "restart", "reload", "try-restart"):
            stop(name)
        if verb in ("start", "restart", "reload"):
            start(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
