# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP server's connections: each has time limits, and their number is limited.

uvicorn closes idle kept connections. But it waits for ever for a client that has begun a request or
does not read its answer, and it refuses new clients when it has too many. Here a client has
`HEADER_S` for the head of a request, `BODY_S` for its body, and `STALL_S` to make room for more of
the answer. A new client takes the place of the one that has kept the server waiting longest. So
nobody who only holds connections keeps others out.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from openbach_run.errors import InputError

HEADER_S, BODY_S, STALL_S = 10.0, 60.0, 30.0
LONGEST_SHUTDOWN_S = 5
CONNECTIONS = 200
FEWEST_CONNECTIONS = 16
RESERVED_FILES, FILES_PER_WORKER = 128, 16
"""File descriptors that connections never get: they are for the database, for records that are
read, and for the guests of the workers."""
LINES_EVERY_S = 1.0


class Connection(H11Protocol):
    """One client, of at most `most`.

    uvicorn's own limit also counts requests of clients that have gone.
    """

    most = CONNECTIONS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin the clock of a new client; with too many, close the one that waits longest."""
        self._clock: asyncio.TimerHandle | None = None
        self._owed: Any = None
        self._stalled: asyncio.TimerHandle | None = None
        self.since_s = self.loop.time()
        super().connection_made(transport)
        if len(self.connections) > self.most:
            clients = [each for each in self.connections if isinstance(each, Connection)]
            # The new client waits itself, so there is always one.
            waiting = filter(lambda client: client.waits, clients)
            min(waiting, key=lambda client: client.since_s).give_up()
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks of a client that has gone."""
        for clock in (self._clock, self._stalled):
            if clock is not None:
                clock.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what a client has sent."""
        super().data_received(data)
        self._expect()

    def on_response_complete(self) -> None:
        """Wait for the client's next request."""
        super().on_response_complete()
        self._expect()

    def pause_writing(self) -> None:
        """Begin the clock of a client that does not read its answer."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALL_S, self.give_up)

    def resume_writing(self) -> None:
        """Stop that clock: the client reads again."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    @property
    def waits(self) -> bool:
        """Return whether it is the client's turn to send more of a request, or to read."""
        turn = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        return turn or self._stalled is not None or self.transport.is_closing()

    def give_up(self) -> None:
        """Close the connection at once, whatever it has still to send."""
        self.connections.discard(self)  # now, not when the loop comes to it: the next client counts
        self.transport.abort()

    def _expect(self) -> None:
        """Start the clock for what the client has to send next.

        One that runs for it already goes on.
        """
        owed = self.conn.their_state
        if owed is self._owed or self.transport.is_closing():
            return
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        self._owed, self.since_s = owed, self.loop.time()
        limit_s = {h11.IDLE: HEADER_S, h11.SEND_BODY: BODY_S}.get(owed)
        if limit_s is not None:
            self._clock = self.loop.call_later(limit_s, self.give_up)


def config(app: Any, connections: int = CONNECTIONS) -> uvicorn.Config:
    """Return the configuration of a server with at most that many connections."""
    return uvicorn.Config(
        app,
        # uvicorn makes the connections itself, so their limit is the class's.
        http=type("Limited", (Connection,), {"most": connections}),
        # The page follows runs by asking again.
        ws="none",
        log_level="warning",
        log_config=None,
        access_log=False,
        server_header=False,
        # By such headers a client could say that it is another one.
        proxy_headers=False,
        timeout_graceful_shutdown=LONGEST_SHUTDOWN_S,
    )


def connections_for(workers: int) -> int:
    """Return how many connections the limit of open files leaves beside that many guests.

    The limit is raised as far as that is allowed. Raises InputError if it leaves too few.
    """
    reserved = RESERVED_FILES + FILES_PER_WORKER * workers
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = reserved + CONNECTIONS
    files = wanted if soft == resource.RLIM_INFINITY else soft
    if files < wanted:
        files = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        # Up to the hard limit this needs no rights.
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    left = min(CONNECTIONS, files - reserved)
    if left < FEWEST_CONNECTIONS:
        raise InputError(
            f"this process may open {files} files; {workers} guests and the server need"
            f" {reserved + FEWEST_CONNECTIONS}: raise the limit (ulimit -n) or take fewer --workers"
        )
    return left


class FewLines(logging.Filter):
    """A filter that lets each line of the source log once a second: no client fills the log.

    The next line that is logged says how many were left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a message is logged."""
        key, now_s = (record.pathname, record.lineno), time.monotonic()
        last_s, silent = self._seen.get(key, (-LINES_EVERY_S, 0))
        if now_s - last_s < LINES_EVERY_S:
            self._seen[key] = last_s, silent + 1
            return False
        self._seen[key] = now_s, 0
        if silent:
            record.msg = f"{record.getMessage()} (and {silent} times more before)"
            record.args = None
        return True


def log_few_lines() -> None:
    """Send warnings to stderr, at most one a second from each place."""
    handler = logging.StreamHandler()
    handler.addFilter(FewLines())
    handler.setFormatter(logging.Formatter("openbach-run serve: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
