# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller over HTTP that answers in OpenBACH's shapes, and fails where a test tells it to."""

from __future__ import annotations

import io
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

CSV = """\
@agent_name,@job_instance_id,@job_name,@owner_scenario_instance_id,@scenario_instance_id,@stored_file,@suffix,bytes,\
goodput_bps,time,transfer_time_s
pc,12,file_transfer,7,7,,,1000000,8000000.0,2026-11-21 04:40:51.123000+00:00,1.5
"""

Answer = tuple[int, Any]
Fault = Callable[[], Answer | None]
"""What happens instead: an answer, or None for a connection that is dropped."""
HARM = ("none", "reset before", "reset after", "half", "502 before", "502 after", "slow")
"""What a network does to a request: nothing; before or after the controller has done what it was
asked for."""


@dataclass
class FakeController:
    """Its state, which a test may change, and what it was asked."""

    scenarios: dict[str, Any] = field(default_factory=dict)
    entities: dict[str, str | None] = field(default_factory=dict)
    installed: list[str] = field(default_factory=list)
    """On every agent, as its database has it."""
    absent: list[str] = field(default_factory=list)
    """Of these, what no agent has."""
    unreachable: str = ""
    """Address of an agent that does not answer."""
    jobs: list[str] = field(default_factory=list)
    polls_until_end: int = 2
    final_status: str = "Finished Ok"
    functions: list[dict[str, Any]] = field(default_factory=list)
    faults: dict[tuple[str, str], list[Fault]] = field(default_factory=dict)
    """By method and end of the path: what goes wrong, one after the other."""
    started: list[dict[str, str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Of the scenarios that were started."""
    stopped: bool = False
    left: list[dict[str, Any]] = field(default_factory=list)
    """Job instances that run although no scenario does."""
    stubborn: bool = False
    """They do not end when they are told to."""
    logs: list[list[Any]] = field(default_factory=list)
    collector: tuple[str, int] = ("127.0.0.1", 9)
    version: str = "2.7.0"
    csv: str = CSV
    harm: Callable[[], str] = lambda: "none"
    slow_s: float = 0.0
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    url: str = ""
    polls: int = 0

    def fail(self, method: str, end: str, *faults: Fault) -> None:
        self.faults[method, end] = list(faults)

    def answer(self, method: str, path: str, body: Any) -> Answer | str | None:
        self.asked.append((method, path, body))
        route, _, query = path.partition("?")
        for (verb, end), faults in self.faults.items():
            if verb == method and route.endswith(end) and faults:
                return faults.pop(0)()
        match method, route.strip("/").split("/"):
            case "POST", ["login"]:
                right = body["login"] == "admin" and body["password"] == "secret"
                return (
                    (200, {"username": "admin"}) if right else (401, {"msg": "Wrong Credentials"})
                )
            case "GET", ["version"]:
                return 200, {"openbach_version": self.version}
            case "GET", ["project", "satvpn", "entity"]:
                return 200, [
                    {"name": name, "agent": address and {"address": address}}
                    for name, address in self.entities.items()
                ]
            case "GET", ["project", name, "entity"]:
                return 404, {
                    "error": "The requested Project is not in the database",
                    "project_name": name,
                }
            case "GET", ["job"] if query:
                return 200, self.jobs_on(parse_qs(query, keep_blank_values=True))
            case "GET", ["job"]:
                return 200, [self.job(name) for name in self.jobs]
            case "GET", ["project", _, "scenario", name] if name not in self.scenarios:
                return 404, {"error": "The requested Scenario is not in the database"}
            case "GET", ["project", _, "scenario", name]:
                return 200, self.scenarios[name]
            case "POST", ["project", _, "scenario"]:
                self.scenarios[body["name"]] = body
                return 200, body
            case "PUT", ["project", _, "scenario", name]:
                self.scenarios[name] = body
                return 200, body
            case "GET", ["project", _, "scenario", _, "scenario_instance"]:
                return 200, self.listed()
            case "GET", ["project", _, "scenario_instance"]:
                return 200, self.listed()
            case "POST", ["project", _, "scenario", name, "scenario_instance"]:
                self.start(body["arguments"], name)
                return 200, {"scenario_instance_id": 6 + len(self.started)}
            case "POST", ["scenario_instance", _]:
                self.stopped = True
                return 204, None
            case "GET", ["job_instance"]:
                return 202, {
                    "instances": [
                        {
                            "address": "10.0.0.0",
                            "installed_jobs": [
                                {"job_name": one["name"], "instances": [one]} for one in self.left
                            ],
                        }
                    ]
                }
            case "POST", ["job_instance"]:
                self.left = self.left if self.stubborn else []
                return 202, {}
            case "GET", ["collector"]:
                return 200, [{"address": self.collector[0], "logs_query_port": self.collector[1]}]
            case "GET", ["logs"]:
                return 200, self.logs
            case "GET", ["scenario_instance", number]:
                return 200, self.instance(int(number))
            case "GET", ["scenario_instance", _, "csv"]:
                return self.csv
        return 404, {"error": f"no route {method} {path}"}

    def jobs_on(self, query: dict[str, list[str]]) -> dict[str, Any]:
        """Return the jobs on an agent, as 2.7.0 answers.

        Only with `update` the agent is asked, and what it has not is deleted from the database.
        """
        (address,) = query["address"]
        errors: list[dict[str, Any]] = []
        if "update" in query and address == self.unreachable:
            reason = (
                f"Cannot connect socket to its destination ('{address}', 1112): [Errno 111]"
                " Connection refused"
            )
            errors.append({"response": {"error": reason}, "returncode": 422})
        elif "update" in query:
            self.installed = [name for name in self.installed if name not in self.absent]
            errors.append(
                {
                    "message": "A Job on the Agent is not found in the database",
                    "job_name": "of_another",
                }
            )
        jobs = [{"name": name} for name in self.installed]
        return {"agent": address, "installed_jobs": jobs, **({"errors": errors} if errors else {})}

    def job(self, name: str) -> dict[str, Any]:
        return {
            "general": {"name": name, "job_version": "1.0"},
            "platform_configuration": [{"ansible_distribution_release": "noble"}],
            "statistics": [{"name": "bytes"}],
        }

    def start(self, arguments: dict[str, str], name: str = "geo") -> None:
        self.started.append(arguments)
        self.names.append(name)
        self.polls = 0

    def listed(self) -> list[dict[str, Any]]:
        """Newest first, in the quiet form. The newest runs until it was looked at often enough."""
        return [
            {
                "scenario_instance_id": 7 + index,
                "scenario_name": name,
                "status": (
                    "Running"
                    if index == len(self.names) - 1 and not self.has_ended
                    else "Finished Ok"
                ),
            }
            for index, name in reversed(list(enumerate(self.names)))
        ]

    @property
    def has_ended(self) -> bool:
        return self.stopped or self.polls >= self.polls_until_end

    def instance(self, number: int) -> dict[str, Any]:
        self.polls += 1
        ended = self.has_ended or number < 6 + len(self.started)
        status = "Stopped" if self.stopped else self.final_status if ended else "Running"
        return {
            "scenario_name": self.names[number - 7],
            "arguments": [
                {"name": name, "value": value}
                for name, value in {"constant": "1", **self.started[number - 7]}.items()
            ],
            "scenario_instance_id": number,
            "status": status,
            "start_date": "2026-11-21T04:40:00Z",
            "stop_date": "2026-11-21T04:41:30.500Z" if ended else None,
            "openbach_functions": self.functions,
        }


def _sent(kind: str, content: bytes) -> Any:
    """Return a JSON body, or the parts of a form with a file."""
    if not kind.startswith("multipart/"):
        return json.loads(content or b"null")
    form = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + content)
    parts = {
        part.get_param("name", header="content-disposition"): part.get_payload(decode=True)
        for part in form.walk()
        if not part.is_multipart()
    }
    return {**parts, "name": parts["name"].decode()}  # type: ignore[union-attr]


@contextmanager
def serving(controller: FakeController) -> Iterator[FakeController]:
    """Over HTTP, as OpenBACH's uWSGI.

    A connection looks as if it were kept, and whoever uses it again meets a reset.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        used = False

        def handle_one_request(self) -> None:
            if not self.used:
                self.used = True
                super().handle_one_request()
                self.close_connection = False
            elif self.rfile.read(1):
                self.reset()
            else:
                self.close_connection = True

        def reset(self) -> None:
            self.close_connection = True
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.rfile, self.wfile = io.BytesIO(), io.BytesIO()

        def respond(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = _sent(self.headers["Content-Type"] or "", self.rfile.read(length))
            harm = controller.harm()
            if harm == "reset before":
                self.reset()
                return
            answer = (
                (502, None)
                if harm == "502 before"
                else controller.answer(self.command, self.path, body)
            )
            if answer is None or harm == "reset after":
                self.reset()
                return
            if harm == "slow":
                threading.Event().wait(controller.slow_s)
            status, content = (200, answer) if isinstance(answer, str) else answer
            if harm == "502 after":
                status, content = 502, None
            text = (
                content
                if isinstance(content, str)
                else ""
                if content is None
                else json.dumps(content)
            )
            with suppress(BrokenPipeError, ConnectionResetError):  # who asked did not wait
                self.send_response(status)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                whole = text.encode()
                self.wfile.write(whole[: len(whole) // 2] if harm == "half" else whole)
                if harm == "half":
                    self.reset()

        do_GET = do_POST = do_PUT = respond

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    controller.url = f"http://127.0.0.1:{server.server_address[1]}/"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield controller
    finally:
        server.shutdown()
        server.server_close()
