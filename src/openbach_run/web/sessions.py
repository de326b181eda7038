# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions of the one user, `openbach`.

The user is whoever has the token that each start makes, or the owner's password.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

LOGIN = "openbach"
COOKIE = "sessionid"
KEPT = 1000
"""The most sessions, and the most addresses of clients, that are remembered. The one that was used
longest ago is forgotten first."""
TRY_EVERY_S = 1.0
FREE_TRIES = 5
LONGEST_WAIT_S = 5.0


def cookie_of(headers: Mapping[str, str]) -> str:
    """Return the cookie's name for a request: a browser sends cookies to all ports of a host."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdecimal() else COOKIE


class TooMany(Exception):
    """An address has tried more passwords than it may."""


class Sessions:
    """The sessions by their cookie's value, in memory: a restart ends them, with a new token."""

    def __init__(self, password: str | None = None) -> None:
        self.token = secrets.token_urlsafe(32)
        """Opens the page as /?token=…, and REST as a password. It cannot be guessed, so trying it
        is not slowed down."""
        self._password = None if password is None else _digest(password)
        self._secret = secrets.token_bytes(32)
        self._users: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def is_token(self, text: str) -> bool:
        """Return whether a text is the token of this start."""
        return hmac.compare_digest(_digest(text), _digest(self.token))

    def is_password(self, text: str) -> bool:
        """Return whether a text is the owner's password."""
        return self._password is not None and hmac.compare_digest(_digest(text), self._password)

    def begin(self) -> str:
        """Begin a session and return its cookie."""
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            self._users[cookie] = LOGIN
            # Whoever logs in again and again must not fill the memory.
            while len(self._users) > KEPT:
                self._users.popitem(last=False)
        return cookie

    def user(self, cookie: str | None) -> str | None:
        """Return the user of a session, or None."""
        with self._lock:
            if cookie is None or cookie not in self._users:
                return None
            self._users.move_to_end(cookie)
            return self._users[cookie]

    def log_out(self, cookie: str | None) -> None:
        """End a session."""
        with self._lock:
            self._users.pop(cookie or "", None)

    def form_token(self, cookie: str) -> str:
        """Return the token that our forms carry, so that no other site can send them (CSRF)."""
        return hmac.new(self._secret, cookie.encode(), hashlib.sha256).hexdigest()

    def knows_form_token(self, cookie: str | None, token: str) -> bool:
        """Return whether a form was sent by a page of this session."""
        return cookie is not None and hmac.compare_digest(
            self.form_token(cookie).encode(), token.encode()
        )


class Tries:
    """A limit on how fast passwords are tried.

    An address has `FREE_TRIES` at once, then one every `TRY_EVERY_S`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_s: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """Return the time in s that the next try of this address has to wait, and count that try.

        Raises TooMany for a try that would wait longer than `LONGEST_WAIT_S`; it is not looked at.
        """
        network, now_s = network_of(address), self._clock()
        # Each try takes TRY_EVERY_S; time without a try is saved, for FREE_TRIES at most.
        due_s = max(self._next_s.get(network, 0.0), now_s - FREE_TRIES * TRY_EVERY_S) + TRY_EVERY_S
        if due_s - now_s > LONGEST_WAIT_S:
            raise TooMany
        self._next_s[network] = due_s
        self._next_s.move_to_end(network)
        while len(self._next_s) > KEPT:
            self._next_s.popitem(last=False)
        return max(0.0, due_s - now_s)


def network_of(address: str) -> str:
    """Return the address of an IPv4 client, or the /64 network of an IPv6 client.

    An IPv6 client can use as many addresses in its /64 as it likes.
    """
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    return (
        str(known) if known.version == 4 else str(ipaddress.ip_network((known, 64), strict=False))
    )


def _digest(text: str) -> bytes:
    """Return the hash of a text: comparing hashes takes the same time for every text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
