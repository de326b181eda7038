# SPDX-License-Identifier: GPL-3.0-or-later
"""Chromium without a screen, driven by its DevTools protocol over a pipe."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

CHROMIUM = "/usr/lib/chromium/chromium-headless-shell"
NO_RDRAND = {"OPENSSL_ia32cap": "~0x4000000000000000"}
"""To BoringSSL the CPU has no RDRAND, whose numbers no seed repeats: it takes them on Intel's."""
FLAGS = (
    # The guest has neither a screen nor a sandbox's user, and V8's compiler wants more addresses.
    *("--headless", "--no-sandbox", "--no-zygote", "--disable-gpu", "--js-flags=--jitless"),
    # Nothing but the page is asked for.
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-default-apps", "--no-proxy-server"),
    *("--ignore-certificate-errors", "--remote-debugging-pipe"),
)


class DevToolsError(Exception):
    """Chromium refuses a command, or has ended; the text says what it said."""


class Tab:
    """A tab of a Chromium, to which commands are sent."""

    def __init__(self, asks: BinaryIO, answers: BinaryIO) -> None:
        """Open a tab; `asks` and `answers` are the ends of Chromium's pipes."""
        self._asks, self._answers = asks, answers
        self._number = 0
        self._session: dict[str, str] = {}
        target = self.command("Target.createTarget", url="about:blank")
        opened = self.command("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = {"sessionId": opened["sessionId"]}

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer to a command. Raises DevToolsError."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        self._asks.write(json.dumps(message).encode() + b"\0")
        self._asks.flush()
        for answer in self._messages():
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise DevToolsError(f"{method}: {answer['error'].get('message')}")
                result: dict[str, Any] = answer["result"]
                return result
        raise DevToolsError(f"{method}: Chromium has ended")

    def wait(self, event: str) -> None:
        """Wait for an event. Raises DevToolsError if Chromium ends before."""
        if not any(message.get("method") == event for message in self._messages()):
            raise DevToolsError(f"{event}: Chromium has ended")

    def _messages(self) -> Iterator[dict[str, Any]]:
        """Yield what Chromium sends; a message ends with a zero byte."""
        message = bytearray()
        while byte := self._answers.read(1):
            if byte == b"\0":
                yield json.loads(message)
                message.clear()
            else:
                message += byte


@contextmanager
def tab(directory: Path, flags: Sequence[str]) -> Iterator[Tab]:
    """Start a Chromium whose profile is in an empty directory, and yield its tab until the end.

    `flags` are added to FLAGS.
    """
    # Chromium's pipes are its descriptors 3 and 4.
    redirected = 'exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>&2'
    words = ["sh", "-c", redirected, CHROMIUM, *FLAGS, f"--user-data-dir={directory}", *flags]
    environment = {**os.environ, "HOME": str(directory), "TMPDIR": str(directory), **NO_RDRAND}
    with (
        (directory / "chromium.log").open("wb") as log,
        subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment
        ) as chromium,
    ):
        assert chromium.stdin and chromium.stdout
        try:
            yield Tab(chromium.stdin, chromium.stdout)
        finally:
            chromium.kill()
