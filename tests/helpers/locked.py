# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages of a lock that are made up."""

from __future__ import annotations

import hashlib

from openbach_run.engine.virtual.debian import Package
from openbach_run.engine.virtual.lock import ROOT, Locked

CONTENT = bytes(range(256)) * 400


def locked(
    name: str, content: bytes = CONTENT, version: str = "1:2.0-1+b1", place: str = ROOT
) -> Locked:
    """Return an entry of the lock, with the hashes of its content."""
    path = f"pool/main/{name[0]}/{name}/{name}_{version.partition(':')[2]}_all.deb"
    sha256, sha1 = hashlib.sha256(content).hexdigest(), hashlib.sha1(content).hexdigest()
    return Locked(place, Package(name, version, "all", path, sha256, len(content)), sha1)
