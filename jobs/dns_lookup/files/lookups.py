# SPDX-License-Identifier: GPL-3.0-or-later
"""`lookups.py PROTOCOL RESOLVER_IP` looks a name up twice over one connection.

It prints the times in s as JSON. A program of its own, run by Debian's Python: Debian's pycurl is
for that one, and a new process has no connection or TLS session of an earlier one.
"""

from __future__ import annotations

import json
import sys
import time

from openbach_jobs import names


def main(protocol: str, resolver_ip: str) -> None:
    """Look up twice, and print how long each took."""
    is_ipv6 = ":" in resolver_ip
    times_s = []
    try:
        with names.asking(protocol, resolver_ip) as ask:
            for _ in range(2):
                begin_s = time.monotonic()
                names.lookup(ask, protocol, is_ipv6)
                times_s.append(round(time.monotonic() - begin_s, 6))
    except (names.LookupFailed, OSError) as error:
        sys.exit(f"{protocol} at {resolver_ip}: {error}")
    print(json.dumps(times_s))


if __name__ == "__main__":
    main(*sys.argv[1:])
