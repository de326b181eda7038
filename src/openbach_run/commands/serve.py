# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of `openbach-run serve`."""

from __future__ import annotations

import argparse
from pathlib import Path

from openbach_run.commands.arguments import add_jobs, add_with, command_parser
from openbach_run.paths import CONTROLLER_PORT, INVENTORY
from openbach_run.web.sessions import LOGIN

DESCRIPTION = """\
Serves a page on which scenarios are chosen, launched and compared, and the REST API of an
OpenBACH controller, for its web UI and its auditorium scripts. What is launched runs in
virtual time on this machine. Without --listen only this machine is served.

The address that is printed has a token in it, which logs your browser in. For scripts and
for --engine controller the file "controller" in this directory has login and password (it
is for your eyes only; one for another controller is left alone). Each start makes a new
token; a password that stays is that of --password-file.
"""
EPILOG = """\
examples:
  openbach-run serve
      then open the address that it prints, http://127.0.0.1:8000/?token=…
  python3 list_projects.py
      a script of OpenBACH's auditorium, in the same directory (the scripts know port 8000 only)
  openbach-run geo --engine controller --results results/by-controller
      a scenario through the REST API, in the same directory
  openbach-run serve --listen 172.20.34.5 --password-file ~/.openbach-run-password
      for a whole laboratory, as user openbach; put a TLS proxy before it on a network that
      you do not trust
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser("serve", DESCRIPTION, EPILOG)
    add = cli.add_argument
    text = "address to serve on (default 127.0.0.1)"
    add("--listen", default="127.0.0.1", metavar="ADDRESS", help=text)
    text = f"port; 0 takes a free one (default {CONTROLLER_PORT})"
    add("--port", type=int, default=CONTROLLER_PORT, help=text)
    text = (
        "where records and the list of instances are kept (default results, as for other commands)"
    )
    add("--results", type=Path, default=Path("results"), metavar="DIR", help=text)
    text = f"its first line is a password of user {LOGIN}, beside the token of each start"
    add("--password-file", type=Path, metavar="FILE", help=text)
    text = (
        "also serve OpenBACH's own web UI, at /app: the folder"
        " ansible/roles/install_auditorium/files/frontend of a checkout of OpenBACH"
    )
    add("--web-ui", type=Path, metavar="DIR", help=text)
    text = "runs at the same time (default: the CPUs this process may use)"
    add("--workers", type=int, metavar="N", help=text)
    add_with(
        cli,
        "VPNs, congestion controls, jobs, satellites of yours: a directory of this checkout's"
        " shape",
    )
    add_jobs(cli)
    text = "the hosts and networks (default inventory.yml)"
    add("--inventory", type=Path, default=INVENTORY, metavar="FILE", help=text)
    return cli


def main(argv: list[str]) -> int:
    """Serve until Ctrl-C; return the exit code. Raises InputError."""
    arguments = parser().parse_args(argv)
    # Late, as it takes a second: --help is there at once.
    from openbach_run.web.serve import ServeOptions, serve

    serve(
        ServeOptions(
            listen=arguments.listen,
            port=arguments.port,
            results=arguments.results,
            password_file=arguments.password_file,
            web_ui=arguments.web_ui,
            workers=arguments.workers,
            additions=tuple(arguments.with_dirs),
            jobs=tuple(arguments.jobs),
            inventory=arguments.inventory,
        )
    )
    return 0
