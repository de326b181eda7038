# SPDX-License-Identifier: GPL-3.0-or-later
"""What every part of the run uses.

The platform's REST API, the auditorium's scripts, our command, and what hosts show.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from record import Record
from stack import CONTROLLER, CONTROLLER_URL, LOGIN, PASSWORD, Stack

from openbach_run.engine.platform.leftovers import ask_again
from openbach_run.engine.platform.rest import Access, Controller

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = "satvpn"
COMMAND = re.compile(r"^python3 (\w+\.py) (.*?)(?:\s+#.*)?$", re.MULTILINE)
VALUE = re.compile(r"`(\w+)=([^`]*)`")
OF_THE_PLATFORM = re.compile(
    r"sshd|rsyslogd|rstats\.py|openbach_agent\.py|signal\.SIGCHLD|^/bin/sh -c (cd /proc|ip"
    r" -o)|sftp-server|^tr |^ansible"
)
END_LIMIT_S = 240.0
RUN_LIMIT_S, INSTANCE_LIMIT_S = 1800.0, 1200.0
"""Guest's time, for a command of ours and for an instance."""
LOOK_S = 1.0


@dataclass
class Run:
    """What the parts share."""

    stack: Stack
    record: Record
    extra: Path
    """A checkout of openbach-extra."""
    checkout: Path
    package: Path
    """What `openbach-run package` has made; with a file `controller`, so that commands are given
    there."""
    temporary: Path
    size: str = ""
    """Of each transfer of a table; the README's if there is none."""
    kept: list[dict[str, Any]] = field(default_factory=list)
    """What instances were launched, and how."""
    controller: Controller = field(
        default_factory=lambda: Controller(Access(CONTROLLER_URL, LOGIN, PASSWORD)), init=False
    )

    def __post_init__(self) -> None:
        access = {"controller": CONTROLLER, "login": LOGIN, "password": PASSWORD}
        (self.package / "controller").write_text(json.dumps(access))

    @property
    def readme(self) -> str:
        return (self.package / "README.md").read_text()

    def commands_of(self, script: str) -> list[list[str]]:
        """The package's README: the arguments of each command with this auditorium script."""
        return [words.split() for name, words in COMMAND.findall(self.readme) if name == script]

    def values(self, scenario: str) -> dict[str, str]:
        """The package's README: a value for each argument of a scenario."""
        rows = [line for line in self.readme.splitlines() if line.startswith(f"| `{scenario}` |")]
        return dict(VALUE.findall(rows[0] if rows else ""))

    def arguments_of(self, scenario: str) -> list[str]:
        return list(
            json.loads((self.package / f"scenarios/{scenario}.json").read_text())["arguments"]
        )

    def auditorium(
        self, script: str, *words: str, directory: Path | None = None
    ) -> tuple[int, str]:
        """Exit code and text of one of OpenBACH's own scripts."""
        file = self.extra / "apis/auditorium_scripts" / script
        done = subprocess.run(
            [sys.executable, str(file), *words],
            check=False,
            cwd=directory or self.package,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "PYTHONPATH": f"{self.extra / 'apis'}:{os.environ['PYTHONPATH']}",
                "COLUMNS": "200",
            },
        )
        self.record.count("auditorium commands")
        return done.returncode, done.stdout

    def command(self, *words: str) -> subprocess.Popen[str]:
        """Our own command, started where the file `controller` is."""
        self.record.say(f"`openbach-run {' '.join(words)}`")
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "openbach_run", *words],
            cwd=self.package,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def start(self, scenario: str, values: Mapping[str, str]) -> int:
        """The number of a scenario instance that was started over REST."""
        place = ("project/", PROJECT, "scenario/", scenario, "scenario_instance/")
        number = int(
            self.controller.post(*place, body={"arguments": dict(values)})["scenario_instance_id"]
        )
        self.record.count("launched over REST")
        return number

    def instance(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = self.controller.get("scenario_instance/", number)
        if ask_again(self.controller, found):
            self.record.count("times that OpenBACH had lost a job's end")
        return found

    def ended(self, number: int, limit_s: float = END_LIMIT_S) -> dict[str, Any]:
        """The instance when it has a stop date; when the time is over, it is stopped."""
        if not until(lambda: bool(self.instance(number)["stop_date"]), limit_s):
            labels = [
                f"{one['label']} ({one['status']})"
                for one in self.instance(number)["openbach_functions"]
                if one["status"] != "Finished"
            ]
            self.record.say(f"instance {number} has not ended, and is stopped: {labels}")
            self.controller.post("scenario_instance/", number, body={})
            until(lambda: bool(self.instance(number)["stop_date"]), END_LIMIT_S)
        return self.instance(number)

    def keep(
        self, instance: dict[str, Any], how: str, table: tuple[str, int] | None = None
    ) -> None:
        """Note an instance, for `collect` and compare.py, and how it was launched."""
        name, number = instance["scenario_name"], instance["scenario_instance_id"]
        values = {one["name"]: one["value"] for one in instance["arguments"]}  # constants, too
        self.kept.append(
            {
                "instance": number,
                "scenario": name,
                "values": {one: values[one] for one in self.arguments_of(name)},
                "how": how,
                "status": instance["status"],
                "collect": table or (name, number),
            }
        )

    def newest(self) -> int:
        """The number of the project's newest scenario instance; 0 if there is none."""
        listed = self.controller.get(
            "project/", PROJECT, "scenario_instance/", quiet="", offset="0", limit="1"
        )
        return int(listed[0]["scenario_instance_id"]) if listed else 0

    # What hosts show

    def jobs_running(self) -> dict[str, list[str]]:
        """By host: command lines of what runs there beside the platform's own programs."""
        found = {}
        for host in self.stack.agents.values():
            lines = [text for text in host.processes().values() if not OF_THE_PLATFORM.search(text)]
            if lines:
                found[host.name] = lines
        return found

    def networks(self) -> dict[str, str]:
        return {host.name: host.network() for host in self.stack.agents.values()}

    def nothing_left(self, what: str, before: Mapping[str, str], limit_s: float = 40.0) -> None:
        """Checks that the hosts are again as they were, within a time."""
        until(lambda: not self.jobs_running() and self.networks() == before, limit_s)
        left = self.jobs_running()
        told = [f"{host}: {line[:120]}" for host, lines in left.items() for line in lines]
        told += [
            f"{host}: {line}"
            for host, text in self.networks().items()
            for line in _changed(before[host], text)
        ]
        self.record.check(
            f"{what}: no process, interface, route, qdisc or rule of ours is left on a host",
            not told,
            "; ".join(told)[:600],
        )


def _changed(before: str, after: str) -> Iterator[str]:
    yield from (f"+ {line}" for line in after.splitlines() if line not in before.splitlines())
    yield from (f"- {line}" for line in before.splitlines() if line not in after.splitlines())


def until(is_so: Callable[[], bool], limit_s: float, look_s: float = LOOK_S) -> bool:
    """Whether it became so within a time."""
    end_s = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > end_s:
            return False
        time.sleep(look_s)
    return True


def ran(run: Run, *words: str, limit_s: float = RUN_LIMIT_S) -> tuple[int, str]:
    """Exit code and text of our command, which is ended when it takes too long."""
    running = run.command(*words)
    timer = threading.Timer(limit_s, running.kill)
    timer.start()
    lines = []
    with running:
        for line in running.stdout or ():
            print(f"      {line}", end="", flush=True)
            lines.append(line)
    timer.cancel()
    return running.returncode, "".join(lines)


def session(url: str, password: str) -> requests.Session:
    made = requests.Session()
    made.headers["Connection"] = "close"
    made.post(
        f"{url}login/", json={"login": LOGIN, "password": password}, timeout=60
    ).raise_for_status()
    return made
