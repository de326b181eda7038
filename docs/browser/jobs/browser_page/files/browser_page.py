# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job browser_page: the page of a server of web_page, loaded in Chromium again and again.

Each time it is a new process with cold connections and an empty profile.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import collect_agent
import devtools

from openbach_jobs import limits
from openbach_jobs.command import run, wait_for
from openbach_jobs.ports import READY_LIMIT_S

CONFIGURATION = "/opt/openbach/agent/jobs/browser_page/browser_page_rstats_filter.conf"
PORT = 8443
"""Of web_page's server."""
PROTOCOLS = {"1.1": "http/1.1", "2": "h2", "3": "h3"}
"""Names of the versions in Resource Timing (W3C), nextHopProtocol."""
LIMITS = {"loads": (1, 10_000), "deadline_s": (1, 86400)}
KEY = (
    "openssl s_client -connect $0 </dev/null 2>/dev/null | openssl x509 -pubkey -noout"
    " | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64"
)
"""Prints the hash by which Chromium trusts a certificate with QUIC, for which
--ignore-certificate-errors does not hold."""
TIMES = """(() => {
  const page = performance.getEntriesByType('navigation')[0];
  const files = [page, ...performance.getEntriesByType('resource')];
  return {
    began_ms: page.connectStart, first_ms: page.responseStart, load_ms: page.loadEventStart,
    last_ms: Math.max(...files.map(file => file.responseEnd)),
    protocols: [...new Set(files.map(file => file.nextHopProtocol))].join(' '),
    bytes: files.reduce((sum, file) => sum + file.encodedBodySize, 0), objects: files.length};
})()"""
"""What the browser measured (W3C Navigation Timing and Resource Timing)."""


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("server_ip")
    parser.add_argument("--http", choices=PROTOCOLS, default="2")
    parser.add_argument("--loads", type=int, default=1)
    parser.add_argument("--deadline-s", type=int, default=600, help="of one load")
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    return arguments


def flags(server: str, http: str) -> list[str]:
    """Return the flags with which Chromium speaks a version of HTTP to `server` (address:port)."""
    if http == "1.1":
        return ["--disable-http2"]
    if http == "2":
        return ["--disable-quic"]
    trusted = run("sh", "-c", KEY, server).strip()
    return [
        f"--origin-to-force-quic-on={server}",
        f"--ignore-certificate-errors-spki-list={trusted}",
    ]


def load(server: str, http: str, deadline_s: int) -> dict[str, float]:
    """Load the page once, and return what the browser measured. Ends the job if a part fails."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        signal.alarm(deadline_s)
        try:
            with devtools.tab(directory, flags(server, http)) as tab:
                tab.command("Page.enable")
                went = tab.command("Page.navigate", url=f"https://{server}/index.html")
                if "errorText" in went:
                    sys.exit(f"https://{server}/index.html: {went['errorText']}")
                tab.wait("Page.loadEventFired")
                evaluated = tab.command("Runtime.evaluate", expression=TIMES, returnByValue=True)
        except devtools.DevToolsError as error:
            last = (directory / "chromium.log").read_text(errors="replace")[-2000:]
            sys.exit(f"{error}\n{last}")
        signal.alarm(0)
    return figures(evaluated["result"]["value"], http)


def figures(measured: dict[str, Any], http: str) -> dict[str, float]:
    """Return the statistics of a load. Ends the job if another version of HTTP was spoken."""
    if measured["protocols"] != PROTOCOLS[http]:
        sys.exit(f"the page came over {measured['protocols']}, not {PROTOCOLS[http]}")
    began_ms = measured["began_ms"]
    return {
        "page_load_time_s": round((measured["last_ms"] - began_ms) / 1000, 6),
        "ttfb_s": round((measured["first_ms"] - began_ms) / 1000, 6),
        "load_event_s": round((measured["load_ms"] - began_ms) / 1000, 6),
        "objects": measured["objects"],
        "bytes": measured["bytes"],
    }


def answers(server: str) -> bool:
    """Return whether the server answers over TLS."""
    return bool(run("sh", "-c", f"{KEY} || true", server).strip())


def measure(arguments: argparse.Namespace) -> None:
    """Wait for the server, load the page as often as asked, and send what each load took."""
    server = f"{arguments.server_ip}:{PORT}"
    missing = f"the server of web_page on {arguments.server_ip} does not answer"
    wait_for(missing, lambda: answers(server), READY_LIMIT_S)
    for _ in range(arguments.loads):
        measured = load(server, arguments.http, arguments.deadline_s)
        collect_agent.send_stat(collect_agent.now(), **measured)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        measure(parse())
