# SPDX-License-Identifier: GPL-3.0-or-later
"""`quic_receive.py URL DEADLINE_S` downloads by libcurl, whose QUIC is ngtcp2.

It prints what curl -w %{json} does. A program of its own, run by Debian's Python, whose pycurl it
needs.
"""

from __future__ import annotations

import json
import sys

import pycurl

HTTP_3_ONLY, HTTP_3 = 31, 30
"""Numbers of curl/curl.h, which older versions of pycurl do not name."""
TIMES = {
    f"time_{name}": f"{name.upper()}_TIME" for name in ("total", "starttransfer", "appconnect")
}
"""Names of curl -w, and of pycurl."""


def main(url: str, deadline_s: str) -> None:
    """Download, and print times, bytes and the version of HTTP."""
    if "ngtcp2" not in pycurl.version:
        sys.exit(f"libcurl has no ngtcp2 here; Debian's has from trixie on: {pycurl.version}")
    handle = pycurl.Curl()
    options = {"URL": url, "HTTP_VERSION": HTTP_3_ONLY, "TIMEOUT": int(deadline_s)}
    options |= {"SSL_VERIFYPEER": 0, "SSL_VERIFYHOST": 0, "FAILONERROR": 1, "WRITEFUNCTION": len}
    for option, value in options.items():
        handle.setopt(getattr(pycurl, option), value)
    try:
        handle.perform()
    except pycurl.error as error:
        sys.exit(f"libcurl: ({error.args[0]}) {error.args[1]}")
    report = {name: handle.getinfo(getattr(pycurl, of)) for name, of in TIMES.items()}
    report["size_download"] = round(handle.getinfo(pycurl.SIZE_DOWNLOAD))
    is_http_3 = handle.getinfo(pycurl.INFO_HTTP_VERSION) == HTTP_3
    report["http_version"] = "3" if is_http_3 else "older"
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
