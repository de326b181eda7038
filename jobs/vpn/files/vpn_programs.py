# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of a VPN: what they get to know, its `up` and `down`, and how they end."""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vpn_folders import last_lines, scripts
from vpn_keys import coordinator_ip, own_words
from vpn_routes import Networks, local_networks

from openbach_jobs.command import LIMIT_S, LINKS, change, record, started, undo

PROGRAMS = "/usr/local/sbin:/opt/openbach-run/bin"
"""Folders of programs that are in no Debian package: the host's own, and those that we have built.
The folder `bin` of the VPN's own folder comes behind them: the virtual engine puts the programs of
its user there."""
PASSED = ("QLOGDIR",)
"""Variables of this job's own environment that a VPN's scripts get: where programs on QUIC keep
qlog."""
UNSUPPORTED = os.EX_UNAVAILABLE
"""Exit code of an `up` that finds that this host cannot run its VPN, and has said why."""
STOP_GRACE_S = 5.0
"""Limit of the wait for the order to stop, after a daemon has ended well."""
SIGNALS = {signal.SIGTERM, signal.SIGINT}
WATCHED = {signal.SIGCHLD, signal.SIGIO}
"""Signals that the daemon has ended, or that an interface has changed."""
FALL, RISE = signal.SIGUSR1, signal.SIGUSR2
"""Orders of the job outage: the VPN ends, with all that it has made; it starts again, with the same
keys."""
BLOCKED = {*SIGNALS, *WATCHED, FALL, RISE}
RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR = 0x10, 0x100
"""Groups of netlink messages about addresses (linux/rtnetlink.h)."""


def environment_of(
    arguments: argparse.Namespace, vpn: Mapping[str, Any], directory: Path, networks: Networks
) -> dict[str, str]:
    """Return the environment of the VPN's scripts."""
    environment = {
        "PATH": (
            f"{os.environ.get('PATH', os.defpath)}:{PROGRAMS}:{scripts(arguments.kind) / 'bin'}"
        ),
        "VPN_DIR": str(directory),
        "VPN_ROLE": arguments.role,
        "VPN_DEVICE": arguments.device,
        "VPN_TUNNEL": str(arguments.tunnel),
        "VPN_LOCAL_IP": arguments.local_ip,
        "VPN_REMOTE_IP": arguments.remote_ip,
        "VPN_LOCAL_NETWORK": local_networks(arguments, networks),
        "VPN_REMOTE_NETWORK": arguments.remote_network,
        "VPN_TUNNEL_IP": arguments.tunnel_ip,
        "VPN_REMOTE_TUNNEL_IP": arguments.remote_tunnel_ip,
        "VPN_REMOTE_PUBLIC": str(directory / "remote_public"),
        "VPN_MTU": str(vpn["inner_mtu"]),
        "VPN_PATHS": arguments.paths.replace(",", " "),
        "VPN_RTT_S": "1",
        **{name: os.environ[name] for name in PASSED if name in os.environ},
    }
    if vpn["coordinator"]:
        environment |= {
            "VPN_COORDINATOR_IP": coordinator_ip(arguments),
            "VPN_COORDINATOR_TUNNEL_IP": arguments.coordinator_tunnel_ip,
            "VPN_COORDINATOR_PUBLIC": str(directory / "coordinator_public"),
        }
    return environment | {f"VPN_{name.upper()}": str(text) for name, text in vpn["values"].items()}


def check_host(arguments: argparse.Namespace, vpn: Mapping[str, Any], path: str) -> None:
    """End the job when a command that the VPN needs is missing."""
    missing = [command for command in vpn["commands"] if not shutil.which(command, path=path)]
    if missing:
        recipe = vpn["programs"].get(missing[0], {})
        how = "the job's playbook (install_vpn.yml) installs it, if the distribution has it"
        if recipe.keys() & {"crate", "go", "source"}:
            how = (
                "the job's playbook (install_vpn.yml) builds it if satvpn_built_vpns names"
                f" {arguments.kind}"
            )
        elif "host" in recipe:
            how = f"no package has it: put it into {PROGRAMS.partition(':')[0]} ({recipe['host']})"
        sys.exit(f"this host cannot run {arguments.kind}: there is no command {missing[0]}; {how}")


def bring_up(
    arguments: argparse.Namespace,
    vpn: Mapping[str, Any],
    environment: Mapping[str, str],
    at_end: ExitStack,
) -> tuple[subprocess.Popen[Any], Path]:
    """Start the VPN's `up`, and return the daemon and the file with what it says.

    `at_end` undoes what `up` makes.
    """
    folder, log = scripts(arguments.kind), Path(environment["VPN_DIR"]) / "log"
    if arguments.in_ipv6:
        import in_ipv6  # not above: to read a file takes virtual time

        in_ipv6.allow()
    if not vpn["device"]:
        change("ip", "link", "add", arguments.device, "type", "dummy")
        at_end.callback(undo, "ip", "link", "del", arguments.device)
        change("ip", "address", "add", f"{arguments.tunnel_ip}/32", "dev", arguments.device)
        change("ip", "link", "set", arguments.device, "up")
    at_end.callback(undo, str(folder / "down"), environment=environment)
    at_end.callback(lambda: print(log.read_text(errors="replace"), end=""))
    up = str(folder / "up")
    with log.open("w") as output:
        daemon = at_end.enter_context(
            started(
                up,
                environment=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=unblock_signals,
            )
        )
    if not vpn["daemon"]:
        end_s = time.monotonic() + LIMIT_S
        while daemon.poll() is None:
            if signal.sigtimedwait({signal.SIGCHLD}, max(end_s - time.monotonic(), 0)) is None:
                late = f"`up` has not ended after {LIMIT_S:g} s"
                sys.exit(f"{arguments.kind}: {late}{last_lines(log)}")
        if daemon.returncode != 0:
            sys.exit(ended(arguments.kind, daemon, log))
    record(up, environment=own_words(environment), after=" &" if vpn["daemon"] else "")
    return daemon, log


def unblock_signals() -> None:
    """Let a program that this job starts be ended by signals."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)


def changes_of_interfaces(over_ipv6: bool) -> socket.socket:
    """Open a socket that gives this process SIGIO when an interface or an address changes.

    It does so when one comes or goes, too.
    """
    changes = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    changes.bind((0, LINKS | (RTMGRP_IPV6_IFADDR if over_ipv6 else RTMGRP_IPV4_IFADDR)))
    fcntl.fcntl(changes, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(changes, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    return changes


def stopped_by(
    is_up: Callable[[], bool],
    daemon: subprocess.Popen[bytes],
    series_s: float,
    look: Callable[[], None],
) -> int:
    """Wait for the order to stop or to fall, and return it; 0 if the tunnel ends without one.

    The counters are looked at meanwhile. An agent that stops a job ends its children first, so a
    daemon that ends well may be right, and the order must follow.
    """
    orders = {*SIGNALS, FALL}
    while (number := next_signal(series_s)) not in orders:
        if number is None:
            look()
        elif not is_up():
            # None: the daemon's interface goes before it.
            ended_well = daemon.poll() in (None, 0, -signal.SIGTERM, -signal.SIGKILL)
            order = signal.sigtimedwait(orders, STOP_GRACE_S) if ended_well else None
            return order.si_signo if order else 0
    return number


def next_signal(limit_s: float) -> int | None:
    """Wait for the next signal and return it; None if none comes in time. 0 waits for ever."""
    watched = {*SIGNALS, *WATCHED, FALL}
    if not limit_s:
        return signal.sigwait(watched)
    arrived = signal.sigtimedwait(watched, limit_s)
    return arrived.si_signo if arrived else None


def ended(kind: str, daemon: subprocess.Popen[bytes], log: Path) -> str:
    """Return the words for a daemon that ended by itself."""
    if daemon.returncode == UNSUPPORTED:
        return f"this host cannot run {kind}{last_lines(log)}"
    return f"{kind} ended by itself with exit code {daemon.returncode}{last_lines(log)}"
