# SPDX-License-Identifier: GPL-3.0-or-later
"""The opening of a job with two ends, a server and a client that measures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NamedTuple


class CommandLine(NamedTuple):
    """The parsers of a job with two ends, and of each end.

    The client's first argument is the server's address.
    """

    parser: argparse.ArgumentParser
    server: argparse.ArgumentParser
    client: argparse.ArgumentParser


def command_line(description: str | None) -> CommandLine:
    """Return a parser with the modes server and client, and the parsers of both."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    modes = parser.add_subparsers(dest="mode", required=True)
    server, client = modes.add_parser("server"), modes.add_parser("client")
    client.add_argument("server_ip")
    return CommandLine(parser, server, client)


def run(
    job: str,
    arguments: argparse.Namespace,
    serve: Callable[[argparse.Namespace], Any],
    measure: Callable[[argparse.Namespace], Any],
) -> None:
    """Return the end that is asked for. Ends the job if the connection to the server fails."""
    if arguments.mode == "server":
        serve(arguments)
        return
    try:
        measure(arguments)
    except OSError as error:
        sys.exit(f"the server of {job} on {arguments.server_ip}: {error}")
