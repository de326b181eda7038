# SPDX-License-Identifier: GPL-3.0-or-later
"""A tunnel from the exchange of its keys to its end, and the coordinator of a VPN that has one."""

from __future__ import annotations

import argparse
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import collect_agent
from vpn_folders import describe, last_lines, scripts
from vpn_keys import (
    RETRY_S,
    exchange_keys,
    exchange_with_ends,
    family_of,
    make_keys,
    public_file,
)
from vpn_programs import (
    FALL,
    RISE,
    SIGNALS,
    bring_up,
    changes_of_interfaces,
    check_host,
    ended,
    environment_of,
    stopped_by,
)
from vpn_proof import behind_nat, check_round_trip, inner_mtu, proven_carrier, sent_packets
from vpn_routes import lead_into_tunnel, own_mtu, own_networks
from vpn_statistics import (
    first_answer_s,
    has_interface,
    packets_of_all,
    report,
    report_start,
)

from openbach_jobs.command import LIMIT_S, record, started, wait_for

HANDSHAKE_ROUND_TRIPS = 30
"""Round trips that a VPN may take for its handshake and a first packet, losses included, where they
are more than LIMIT_S."""
SERVER_LATER_S = 10
"""Seconds that the server waits longer: the client tells first why a handshake fails."""
FIRST_PINGS, PING_S = 3, 3
"""Number of first pings through a tunnel that are waited for so many seconds each; after these, and
on paths that take longer than half of it, ping goes on sending and takes any answer."""
FREQUENT_S = 0.02
"""Seconds from ping to ping where the set-up is timed."""
UNANSWERED = 1
"""Exit code of a ping that has sent something; one that could not has another."""
AGAIN = " > /dev/null; do sleep 1; done"
"""End of a recorded command that is repeated until it succeeds."""
PID_FILE = "/var/run/openbach-{}.pid"
"""Process id of the job that has the tunnel of that interface, for orders of the job outage."""
JOB = Path(__file__).with_name("vpn.py")


def coordinate(arguments: argparse.Namespace, vpn: Mapping[str, Any], directory: Path) -> None:
    """Run the coordinator, which brings the ends together, until the order to stop.

    It gets the public material of both ends, one after the other.
    """
    environment = environment_of(arguments, vpn, directory, own_networks(arguments))
    check_host(arguments, vpn, environment["PATH"])
    public = make_keys(arguments, scripts(arguments.kind), environment)
    ends = exchange_with_ends(arguments, public)
    file = environment["VPN_REMOTE_PUBLIC"]
    Path(file).write_text("".join(public_of_end for _, public_of_end in ends))
    files = [public_file(address, arguments.tunnel) for address, _ in ends]
    record("cat", *files, after=f" > {file}")
    with ExitStack() as at_end:
        daemon, log = bring_up(arguments, vpn, environment, at_end)
        if not stopped_by(lambda: daemon.poll() is None, daemon, 0, lambda: None):
            sys.exit(ended(arguments.kind, daemon, log))


def started_coordinator(
    arguments: argparse.Namespace, vpn: Mapping[str, Any], at_end: ExitStack
) -> subprocess.Popen[Any] | None:
    """Start the coordinator of a VPN that has one, unless another host plays it.

    The server's end starts it, as a job of that role would be.
    """
    if not vpn["coordinator"] or arguments.role != "server" or arguments.coordinator_ip:
        return None
    job = [sys.executable, str(JOB), "--tunnel", str(arguments.tunnel)]
    if arguments.values:
        values = ";".join(f"{name}={value}" for name, value in arguments.values.items())
        job += ["--values", values]
    job += [arguments.kind, arguments.local_ip, arguments.remote_ip, arguments.remote_network]
    return at_end.enter_context(started(*job, "coordinator"))


def cpu_of(arguments: argparse.Namespace, vpn: Mapping[str, Any]) -> Any:
    """Return the cpu_model.Tunnel with what packets cost this host; None if nothing."""
    if arguments.cpu is None:
        return None
    import cpu_model  # not above: other runs need not read it

    if not vpn["device"]:
        sys.exit(
            f"{arguments.kind} has no interface of its own, whose packets could cost CPU time: give"
            " cpu=free"
        )
    try:
        costs = cpu_model.find(arguments.cpu, arguments.kind, arguments.cpu_scale)
    except ValueError as error:
        sys.exit(str(error))
    rate_bps, length = arguments.user_rate_kbps * 1000, arguments.user_packet_bytes
    others = cpu_model.Others(arguments.users - 1, rate_bps, length, arguments.user_rtt_ms)
    name = f"{arguments.cpu} x{arguments.cpu_scale:g}"
    return cpu_model.Tunnel(arguments.device, costs, name, others)


def tunnel(arguments: argparse.Namespace, directory: Path) -> None:
    """Run one end of a tunnel until the job is stopped."""
    start_s = time.monotonic()
    vpn, networks = describe(arguments.kind, arguments.values), own_networks(arguments)
    environment = environment_of(arguments, vpn, directory, networks)
    check_host(arguments, vpn, environment["PATH"])
    cpu = cpu_of(arguments, vpn)
    with ExitStack() as at_end:
        coordinator = started_coordinator(arguments, vpn, at_end)
        path = exchange_keys(arguments, scripts(arguments.kind), environment)
        if path.seen_ip:
            vpn = behind_nat(arguments, vpn)
            if arguments.role == "server":
                arguments.remote_ip = environment["VPN_REMOTE_SEEN_IP"] = path.seen_ip
        check_round_trip(arguments, vpn, path.rtt_s)
        environment["VPN_RTT_S"] = str(max(math.ceil(path.rtt_s), 1))
        environment["VPN_MTU"] = str(
            inner_mtu(arguments, vpn, min(path.mtu, own_mtu(arguments, networks)))
        )
        setup_s: float | None = time.monotonic() - start_s
        end = End(arguments, vpn, environment, path.rtt_s, coordinator, cpu)
        while end.live(setup_s) == FALL:
            if signal.sigwait({*SIGNALS, RISE}) != RISE:
                break
            setup_s = None


class End:
    """An end of a tunnel: a VPN that comes up, proves that it works, and ends.

    After the order to fall it may come up again.
    """

    daemon: subprocess.Popen[Any]
    log: Path

    def __init__(
        self,
        arguments: argparse.Namespace,
        vpn: Mapping[str, Any],
        environment: Mapping[str, str],
        rtt_s: float,
        coordinator: subprocess.Popen[Any] | None,
        cpu: Any,
    ) -> None:
        """Keep what outlives a fall; `rtt_s` is the path's round trip, `cpu` that of `cpu_of`."""
        self.arguments = arguments
        self.vpn = vpn
        self.environment = environment
        self.rtt_s = rtt_s
        self.coordinator = coordinator
        self.cpu = cpu
        later_s = SERVER_LATER_S if arguments.role == "server" else 0
        self.limit_s = max(LIMIT_S, HANDSHAKE_ROUND_TRIPS * rtt_s) + later_s
        self.source: str = arguments.device if vpn["device"] else arguments.tunnel_ip
        self.unanswered = 0
        self.has_lost_address = False

    def live(self, setup_s: float | None) -> int:
        """Run the VPN from its `up` to its `down`, and return the signal that ended it.

        The job ends if the VPN ends by itself. `setup_s` is what came before its first life, None
        after a fall.
        """
        arguments, vpn = self.arguments, self.vpn
        self.has_lost_address = False
        with ExitStack() as at_end:
            up_s, before = time.monotonic(), sent_packets(arguments.paths)
            packets = at_end.enter_context(packets_of_all()) if arguments.is_timed else None
            self.daemon, self.log = bring_up(arguments, vpn, self.environment, at_end)
            rtt_text = self.first_rtt_text(f"no packet has gone through {arguments.kind}")
            if packets and setup_s is not None:
                answer_s = first_answer_s(packets, arguments.remote_ip)
                packets.close()
                collect_agent.send_stat(collect_agent.now(), first_answer_s=answer_s)
            carrier = proven_carrier(arguments, vpn, self.log, before)
            self.record_wait()
            if self.cpu:
                at_end.callback(self.cpu.detach)
                self.cpu.attach()
            lead_into_tunnel(arguments, vpn["device"], at_end)
            up_time_s = time.monotonic() - up_s
            if setup_s is None:
                collect_agent.send_stat(collect_agent.now(), restart_time_s=up_time_s)
            else:
                times_s = setup_s + up_time_s, up_time_s
                report_start(arguments, vpn, self.log, *times_s, carrier, float(rtt_text))
            pid_file = Path(PID_FILE.format(arguments.device))
            pid_file.write_text(str(os.getpid()))
            at_end.callback(pid_file.unlink, missing_ok=True)
            with changes_of_interfaces(arguments.over_ipv6):
                order = stopped_by(self.is_up, self.daemon, arguments.series_s, self.look)
            if not order:
                sys.exit(self.why_ended())
            self.look()
            return order

    def record_wait(self) -> None:
        """Record the command that waits until packets go through."""
        patience_s = str(max(PING_S, 2 * math.ceil(self.rtt_s)))
        ping = ["ping", "-nqc", "1", "-W", patience_s, "-I", self.source]
        record(*ping, self.arguments.remote_tunnel_ip, before="until ", after=AGAIN)

    def first_rtt_text(self, missing: str, is_over: Callable[[], bool] = bool) -> str:
        """Return the round-trip time in ms of a packet that goes through, as soon as one does.

        Return "no" if nothing matters any more (`is_over`). If no packet comes the job ends, and
        says what is missing.
        """
        self.unanswered = 0
        return wait_for(
            missing,
            partial(self._rtt_text, is_over),
            self.limit_s,
            retry_s=FREQUENT_S if self.arguments.is_timed else RETRY_S,
            evidence=lambda: last_lines(self.log),
        )

    def _rtt_text(self, is_over: Callable[[], bool]) -> str | None:
        """Return the round-trip time of one more ping in ms, None without an answer."""
        if is_over():
            return "no"
        if self.daemon.poll():
            sys.exit(ended(self.arguments.kind, self.daemon, self.log))
        is_slow = self.unanswered >= FIRST_PINGS or self.rtt_s > PING_S / 2
        code, printed = self._ping(goes_on=is_slow or self.arguments.is_timed)
        self.unanswered += code == UNANSWERED
        answer = re.search(r"time=([\d.]+) ms", printed)
        return answer[1] if code == 0 and answer else None

    def _ping(self, goes_on: bool) -> tuple[int, str]:
        """Ping through the tunnel once; return ping's exit code and what it prints.

        Where it goes on, it sends until there is an answer, and ends sooner if the daemon does.
        """
        ping = ["ping", "-n", "-c", "1"]
        way = ["-I", self.source, self.arguments.remote_tunnel_ip]
        if not goes_on:
            command = [*ping, "-W", f"{PING_S}", *way]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            return done.returncode, done.stdout
        interval_s = FREQUENT_S if self.arguments.is_timed else PING_S + RETRY_S
        command = [*ping, "-i", f"{interval_s:g}", "-w", str(round(self.limit_s)), *way]
        with started(
            *command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as pinging:
            while pinging.poll() is None and not self.daemon.poll():
                signal.sigtimedwait({signal.SIGCHLD}, PING_S)
            pinging.terminate()
            printed = pinging.communicate()[0]
            return pinging.returncode, printed

    def look(self) -> None:
        """Send what has gone through the tunnel, and what its packets have cost the CPU."""
        report(self.arguments, self.vpn, self.log)
        if self.cpu:
            statistics = self.cpu.look()
            collect_agent.send_stat(collect_agent.now(), suffix=self.arguments.role, **statistics)

    def has_ended(self) -> bool:
        """Return whether the VPN's daemon has ended, if it has one."""
        return bool(self.vpn["daemon"]) and self.daemon.poll() is not None

    def is_up(self) -> bool:
        """Return whether daemon, interface and coordinator are there.

        Where this host has lost its address, wait until packets go through again.
        """
        arguments, coordinator = self.arguments, self.coordinator
        if self.has_ended() or not has_interface(arguments.device):
            return False
        if coordinator and coordinator.poll() is not None:
            return False
        if not self.has_lost_address and not is_local(arguments.local_ip):
            self.has_lost_address = True
            missing = (
                f"no packet has gone through {arguments.kind} since this host lost its address"
                f" {arguments.local_ip},"
            )
            self.first_rtt_text(missing, lambda: bool(signal.sigpending() & {*SIGNALS, FALL}))
        return True

    def why_ended(self) -> str:
        """Return why the VPN ended by itself, in words."""
        kind = self.arguments.kind
        if self.has_ended():
            return ended(kind, self.daemon, self.log)
        if self.coordinator and self.coordinator.poll() is not None:
            return f"{kind}: its coordinator ended by itself"
        return f"{kind} ended by itself: its interface is gone{last_lines(self.log)}"


def is_local(address: str) -> bool:
    """Return whether an address is one of this host's."""
    try:
        with socket.socket(family_of(address), socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
