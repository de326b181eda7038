# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests between the two ends of a job, one JSON line each way."""

from __future__ import annotations

import json
import socket
import sys
import syslog
from collections.abc import Callable
from typing import Any, NoReturn

import collect_agent

from openbach_jobs.command import segment_bytes
from openbach_jobs.ports import READY_LIMIT_S, any_address, taken

MAPPED = "::ffff:"
"""Prefix of an IPv4 address that a socket of both versions shows (RFC 4291, 2.5.5.2)."""


def serve(port: int, answer: Callable[[dict[str, Any], str], dict[str, Any]]) -> NoReturn:
    """Answer one request after the other; `answer` gets it and the address that asks.

    Ends the job if it cannot listen.
    """
    try:
        listening = socket.create_server(("", port), **any_address())
    except OSError as error:
        sys.exit(f"the control port {port}: {error.strerror}{taken(port)}")
    with listening as control:
        while True:
            connection, (shown, *_) = control.accept()
            peer_ip = shown.removeprefix(MAPPED)
            connection.settimeout(READY_LIMIT_S)
            try:
                with connection, connection.makefile("rw") as lines:
                    lines.write(json.dumps(answer(json.loads(lines.readline()), peer_ip)) + "\n")
            except (OSError, ValueError) as error:  # not our client, or it has gone
                collect_agent.send_log(syslog.LOG_WARNING, f"request of {peer_ip}: {error}")


def ask(
    server_ip: str, port: int, limit_s: float = READY_LIMIT_S, **request: Any
) -> dict[str, Any]:
    """Return the server's answer to a request; OSError if there is none."""
    return ask_and_look(server_ip, port, limit_s, **request)[0]


def ask_and_look(
    server_ip: str, port: int, limit_s: float = READY_LIMIT_S, **request: Any
) -> tuple[dict[str, Any], int]:
    """Return the server's answer, and the segment size of its connection in bytes."""
    with (
        socket.create_connection((server_ip, port), timeout=limit_s) as control,
        control.makefile("rw") as lines,
    ):
        lines.write(json.dumps(request) + "\n")
        lines.flush()
        line, mss_bytes = lines.readline(), segment_bytes(control)
    if not line:
        raise ConnectionError("the connection was closed without an answer")
    return json.loads(line), mss_bytes
