# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is logged in. There is one user; without a password (on this machine only) everybody is."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict

LOGIN = "openbach"
COOKIE = "sessionid"
KEPT = 1000
"""Sessions; the one that was used longest ago is forgotten first."""


class Sessions:
    """Sessions by their cookie's value, in memory: a restart ends them."""

    def __init__(self, password: str | None) -> None:
        self._password = None if password is None else hashlib.sha256(password.encode()).digest()
        self._secret = secrets.token_bytes(32)
        self._users: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def open(self) -> bool:
        """Whether no password is asked for."""
        return self._password is None

    def log_in(self, login: str, password: str) -> str | None:
        """The new session's cookie; None for wrong credentials."""
        if self._password is not None:
            right = hmac.compare_digest(hashlib.sha256(password.encode()).digest(), self._password)
            if not right or login != LOGIN:
                return None
        return self._begin(login)

    def user(self, cookie: str | None) -> str | None:
        with self._lock:
            if cookie is None or cookie not in self._users:
                return None
            self._users.move_to_end(cookie)
            return self._users[cookie]

    def log_out(self, cookie: str | None) -> None:
        with self._lock:
            self._users.pop(cookie or "", None)

    def _begin(self, login: str) -> str:
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            self._users[cookie] = login
            while len(self._users) > KEPT:
                self._users.popitem(last=False)
        return cookie

    def token(self, cookie: str) -> str:
        """What forms of our page carry, so that no other site's page can send them (CSRF)."""
        return hmac.new(self._secret, cookie.encode(), hashlib.sha256).hexdigest()

    def knows_token(self, cookie: str | None, token: str) -> bool:
        return cookie is not None and hmac.compare_digest(self.token(cookie).encode(), token.encode())
