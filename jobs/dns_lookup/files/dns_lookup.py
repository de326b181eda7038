# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job dns_lookup: a resolver, and lookups of a name there over UDP, TLS or HTTPS.

The resolver knows one name (openbach_jobs/names.py) and asks nobody: what a lookup takes is the
path's, not that of other servers.
"""

from __future__ import annotations

import argparse
import signal

import collect_agent

from openbach_jobs import ends, limits, names
from openbach_jobs.command import wait_for
from openbach_jobs.ports import READY_LIMIT_S

CONFIGURATION = "/opt/openbach/agent/jobs/dns_lookup/dns_lookup_rstats_filter.conf"
STOPS = {signal.SIGTERM, signal.SIGINT}
LIMITS = {"lookups": (1, 10_000)}


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    modes = parser.add_subparsers(dest="mode", required=True)
    server, client = modes.add_parser("server"), modes.add_parser("client")
    server.add_argument("protocol", choices=["none", *names.PORTS])
    client.add_argument("protocol", choices=names.PORTS)
    server.add_argument("address", help="of the name")
    client.add_argument("server_ip")
    client.add_argument("--beside-ip", default="", help="of another resolver, beside the tunnel")
    client.add_argument("--at", choices=["server", "beside"], default="server")
    client.add_argument("--lookups", type=int, default=1, help="connections, of two lookups each")
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    if arguments.mode == "client" and arguments.at == "beside":
        arguments.server_ip = arguments.beside_ip
    return arguments


def serve(arguments: argparse.Namespace) -> None:
    """Answer questions, if any are sent, until the job is stopped."""
    if arguments.protocol == "none":
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        signal.sigwait(STOPS)
        return
    import resolver  # not above: the client has no use for it

    resolver.serve(arguments.protocol, arguments.address)


def measure(arguments: argparse.Namespace) -> None:
    """Wait for the resolver, look up as often as asked, and send what it took."""
    why = ""

    def answers() -> bool:
        nonlocal why
        try:
            return bool(names.lookups(arguments.protocol, arguments.server_ip, 2))
        except OSError as error:
            why = f": {error}"
            return False

    missing = f"the resolver on {arguments.server_ip} does not answer over {arguments.protocol}"
    wait_for(missing, answers, READY_LIMIT_S, evidence=lambda: why)
    for _ in range(arguments.lookups):
        _, (first_s, next_s) = names.lookups(arguments.protocol, arguments.server_ip, 2)
        collect_agent.send_stat(
            collect_agent.now(), lookup_time_s=first_s, next_lookup_time_s=next_s
        )


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        ends.run("dns_lookup", parse(), serve, measure)
