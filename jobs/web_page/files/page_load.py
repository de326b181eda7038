# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads the page once as a browser without a cache does, and prints the measured values as JSON.

    page_load.py load URL HTTP DEADLINE_S PAGE [PROTOCOL RESOLVER_IP]
    page_load.py wait URL HTTP                ends well if the server answers

A program of its own, run by Debian's Python: Debian's pycurl is for that one, and a new process has
no connection, TLS session or anything else of an earlier load, nor do its random numbers depend on
where the job's memory lies. The HTML comes first, then all objects at once: over HTTP/2 and HTTP/3
on the same connection, over HTTP/1.1 on at most 6. With a resolver the server's name is looked up
before.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import page
import pycurl

CONNECTIONS = {"1.1": 6, "2": 1, "3": 1}
"""Most connections to one server; for HTTP/1.1 what browsers open."""
HTTP_VERSIONS = {"1.1": pycurl.CURL_HTTP_VERSION_1_1, "2": pycurl.CURL_HTTP_VERSION_2TLS, "3": 31}
USED = {"1.1": pycurl.CURL_HTTP_VERSION_1_1, "2": pycurl.CURL_HTTP_VERSION_2_0, "3": 30}
"""3: CURL_HTTP_VERSION_3ONLY and CURL_HTTP_VERSION_3 of curl/curl.h, which older versions of pycurl
do not name."""
LOOK_S = 10.0
ANSWER_LIMIT_S = 240.0


def request(url: str, http: str, deadline_s: float) -> pycurl.Curl:
    """Return a request of curl for an address.

    The server's certificate is its own, so nothing vouches for it: the handshake is a browser's,
    the trust is not.
    """
    handle = pycurl.Curl()
    for option, value in {
        pycurl.URL: url,
        pycurl.HTTP_VERSION: HTTP_VERSIONS[http],
        pycurl.SSL_VERIFYPEER: 0,
        pycurl.SSL_VERIFYHOST: 0,
        pycurl.TIMEOUT_MS: round(deadline_s * 1000),
        pycurl.FAILONERROR: 1,
        pycurl.WRITEFUNCTION: len,
    }.items():
        handle.setopt(option, value)
    return handle


def answers(base: str, http: str) -> None:
    """End this program if the server does not answer."""
    if http == "3" and "nghttp3" not in pycurl.version:
        sys.exit(
            "http=3: this host's libcurl has no HTTP/3; Debian's has it from trixie on"
            f" ({pycurl.version})"
        )
    handle = request(f"{base}/{page.HTML}", http, ANSWER_LIMIT_S)
    handle.setopt(pycurl.NOBODY, 1)
    try:
        handle.perform()
    except pycurl.error as error:
        sys.exit(f"{base}: {error.args[1]}")


def fetch(multi: pycurl.CurlMulti, handles: Sequence[pycurl.Curl]) -> None:
    """Wait until all requests have ended; end this program if one failed."""
    for handle in handles:
        multi.add_handle(handle)
    left = len(handles)
    while left:
        multi.perform()
        _, done, failed = multi.info_read()
        for handle, _, reason in failed:
            sys.exit(f"{handle.getinfo(pycurl.EFFECTIVE_URL)}: {reason}")
        left -= len(done)
        timeout_ms = multi.timeout()
        if left and not done:
            multi.select(LOOK_S if timeout_ms < 0 else timeout_ms / 1000)


def check(handles: dict[str, pycurl.Curl], sizes: dict[str, int], http: str) -> None:
    """End this program if a file has not come whole, or by another version of HTTP."""
    for name, handle in handles.items():
        arrived, used = (
            round(handle.getinfo(pycurl.SIZE_DOWNLOAD)),
            handle.getinfo(pycurl.INFO_HTTP_VERSION),
        )
        if arrived != sizes[name]:
            sys.exit(f"{name}: {arrived} of {sizes[name]} bytes arrived")
        if used != USED[http]:
            sys.exit(f"{name}: came with another HTTP version than {http}")


def handshakes(handle: pycurl.Curl) -> dict[str, float]:
    """Return the times of TCP's and TLS's handshakes, which QUIC has in one."""
    tcp_s = handle.getinfo(pycurl.CONNECT_TIME)
    return {
        "connect_time_s": tcp_s,
        "tls_time_s": round(handle.getinfo(pycurl.APPCONNECT_TIME) - tcp_s, 6),
    }


def looked_up(base: str, protocol: str, resolver_ip: str) -> tuple[list[str], float]:
    """Return where the name in a URL is, as curl takes it, and what the lookup took in s."""
    from openbach_jobs import names  # not above: other loads need not read it

    try:
        address, (lookup_time_s,) = names.lookups(protocol, resolver_ip, 1)
    except OSError as error:
        sys.exit(f"{protocol} at {resolver_ip}: {error}")
    host = f"[{address}]" if ":" in address else address
    return [f"{base.removeprefix('https://')}:{host}"], lookup_time_s


def load(base: str, http: str, deadline_s: float, of: str, *resolver: str) -> dict[str, float]:
    """Load the page of a description once, as a browser does, and return what it took."""
    sizes = page.sizes(Path(of))
    place, lookup_time_s = looked_up(base, *resolver) if resolver else ([], 0.0)
    handles = {name: request(f"{base}/{name}", http, deadline_s) for name in sizes}
    for handle in handles.values() if place else ():
        handle.setopt(pycurl.RESOLVE, place)
    html, *objects = handles.values()
    multi = pycurl.CurlMulti()
    multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
    multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, CONNECTIONS[http])
    start_s = time.monotonic()
    fetch(multi, [html])
    fetch(multi, objects)
    page_load_time_s = round(time.monotonic() - start_s + lookup_time_s, 6)
    check(handles, sizes, http)
    return {
        "page_load_time_s": page_load_time_s,
        **({"lookup_time_s": lookup_time_s} if place else {}),
        "ttfb_s": html.getinfo(pycurl.STARTTRANSFER_TIME),
        "handshake_time_s": html.getinfo(pycurl.APPCONNECT_TIME),
        **(handshakes(html) if http != "3" else {}),
        "objects": len(handles),
        "bytes": sum(sizes.values()),
        "connections": sum(handle.getinfo(pycurl.NUM_CONNECTS) for handle in handles.values()),
    }


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["wait", base, http]:
            answers(base, http)
        case ["load", base, http, deadline_s, of, *resolver]:
            print(json.dumps(load(base, http, float(deadline_s), of, *resolver)))
        case _:
            sys.exit(__doc__)
