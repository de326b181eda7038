# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job vpn: one end of a tunnel, whichever VPN it is.

What differs from VPN to VPN is in vpn-configs/<kind>/ (its README.md is the contract). The private key is made here, in
a directory that only root can read, and never leaves this host; public keys are exchanged over TCP with
the other end before the tunnel is up. The remote network is unreachable until then: nothing goes in clear.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import syslog
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import collect_agent

CONFIGURATION = "/opt/openbach/agent/jobs/vpn/vpn_rstats_filter.conf"
CONFIGS = Path(__file__).parent / "vpn-configs"
HOST_CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
EXCHANGE_PORT = 5999
"""Of tunnel 0; each further one has the port below."""
LIMIT_S = 60.0
RETRY_S = 0.2
FLOW_TABLE = 200
"""Routing table of tunnel 0 if it is for one flow only; each further one has the next."""
FLOW_PRIORITY = 1000
STOP_GRACE_S = 5.0
UNSUPPORTED = 127
LAST_LINES = 10
LIMITS = {"tunnel": (0, 63), "flow_port": (0, 65535)}
SIGNALS = {signal.SIGTERM, signal.SIGINT}
TUNNEL_IPS = {"server": ("10.200.{}.1", "10.200.{}.2"), "client": ("10.200.{}.2", "10.200.{}.1"), "wait": ("", "")}


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["none", *sorted(folder.parent.name for folder in CONFIGS.glob("*/vpn.json"))])
    parser.add_argument("local_ip")
    parser.add_argument("remote_ip")
    parser.add_argument("remote_network")
    parser.add_argument("--tunnel-ip")
    parser.add_argument("--remote-tunnel-ip")
    parser.add_argument("--tunnel", type=int, default=0, help="number among several")
    parser.add_argument(
        "--flow-port", type=int, default=0, help="the tunnel is for the TCP flow with this server port only"
    )
    parser.add_argument("--series-s", type=float, default=0.0, help="seconds between looks at the counters (0: none)")
    parser.add_argument("role", choices=sorted(TUNNEL_IPS))
    arguments = parser.parse_args(argv)
    for name, (least, most) in LIMITS.items():
        if not least <= getattr(arguments, name) <= most:
            parser.error(f"{name} is {getattr(arguments, name)}: from {least} to {most}")
    if arguments.series_s and not 0.01 <= arguments.series_s <= 3600:
        parser.error(f"series_s is {arguments.series_s:g}: 0, or from 0.01 to 3600 s")
    own, other = (address.format(arguments.tunnel) for address in TUNNEL_IPS[arguments.role])
    arguments.device = f"vpn{arguments.tunnel}"
    arguments.exchange_port = EXCHANGE_PORT - arguments.tunnel
    arguments.tunnel_ip = arguments.tunnel_ip or own
    arguments.remote_tunnel_ip = arguments.remote_tunnel_ip or other
    return arguments


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def retried(attempt: Callable[[], bool], what: str, evidence: Callable[[], str] = str) -> None:
    end = time.monotonic() + LIMIT_S
    while not attempt():
        if time.monotonic() > end:
            sys.exit(f"{what} after {LIMIT_S:g} s{evidence()}")
        time.sleep(RETRY_S)


def last_lines(log: Path) -> str:
    """The end of what `up` and its daemon said, to be put behind a message."""
    lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
    return "; its last lines:\n" + "\n".join(lines) if lines else "; it said nothing"


def exchange(arguments: argparse.Namespace, public: str) -> str:
    """Gives the other end our public key and returns its own. The server listens, the client connects."""
    if arguments.role == "server":
        with socket.create_server((arguments.local_ip, arguments.exchange_port)) as listener:
            listener.settimeout(LIMIT_S)
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                sys.exit(f"no VPN client has connected to port {arguments.exchange_port} after {LIMIT_S:g} s")
        return swap(connection, public)
    connections: list[socket.socket] = []

    def connect() -> bool:
        try:
            connections.append(
                socket.create_connection((arguments.remote_ip, arguments.exchange_port), timeout=LIMIT_S)
            )
        except OSError:
            return False
        return True

    retried(connect, f"the VPN server {arguments.remote_ip} does not answer on port {arguments.exchange_port}")
    return swap(connections[0], public)


def swap(connection: socket.socket, public: str) -> str:
    with connection, connection.makefile("rw") as lines:
        lines.write(json.dumps(public) + "\n")
        lines.flush()
        received = lines.readline()
    if not received:
        sys.exit("the other end closed the exchange of public keys")
    return str(json.loads(received))


def clear_path(arguments: argparse.Namespace) -> list[str]:
    """The route that holds packets back while there is no tunnel; each tunnel has its own."""
    metric = str(1000 + arguments.tunnel)
    table = ["table", flow_table(arguments)] if arguments.flow_port else []
    return ["unreachable", arguments.remote_network, "metric", metric, *table]


def flow_table(arguments: argparse.Namespace) -> str:
    return str(FLOW_TABLE + arguments.tunnel)


def flow_rule(arguments: argparse.Namespace) -> list[str]:
    """Sends the flow to the tunnel's own routing table: its port is the destination's on the client's side."""
    side = "dport" if arguments.role == "client" else "sport"
    chosen = ["ipproto", "tcp", side, str(arguments.flow_port), "to", arguments.remote_network]
    return ["priority", str(FLOW_PRIORITY + arguments.tunnel), *chosen, "lookup", flow_table(arguments)]


def close_clear_path(arguments: argparse.Namespace) -> None:
    run("ip", "route", "replace", *clear_path(arguments))
    if arguments.flow_port:
        run("ip", "rule", "add", *flow_rule(arguments))


def open_clear_path(arguments: argparse.Namespace) -> None:
    if arguments.flow_port:
        subprocess.run(["ip", "rule", "del", *flow_rule(arguments)], check=False, capture_output=True)
    subprocess.run(["ip", "route", "del", *clear_path(arguments)], check=False, capture_output=True)


def unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*SIGNALS, signal.SIGCHLD})


def goes_through(arguments: argparse.Namespace, daemon: subprocess.Popen[bytes], log: Path) -> bool:
    if daemon.poll():
        sys.exit(ended(arguments.kind, daemon, log))
    command = ["ping", "-n", "-c", "1", "-W", "3", "-I", arguments.device, arguments.remote_tunnel_ip]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def carrier_congestion_control(arguments: argparse.Namespace) -> str | None:
    """That of the tunnel's own connection, None if it is not TCP. Ends the job if it is not that of this host."""
    shown = run("ss", "-tinHO", "state", "established", "src", arguments.local_ip, "dst", arguments.remote_ip)
    if not shown:
        return None
    wanted = HOST_CONGESTION_CONTROL.read_text().strip()
    if wanted not in shown.split():
        sys.exit(f"the tunnel's connection has not the congestion control of this host, {wanted}: {shown.strip()}")
    return wanted


def report(device: str) -> None:
    """The tunnel interface's counters."""
    (link,) = json.loads(run("ip", "-s", "-j", "link", "show", device))
    received, sent = link["stats64"]["rx"], link["stats64"]["tx"]
    collect_agent.send_stat(
        collect_agent.now(), rx_bytes=received["bytes"], tx_bytes=sent["bytes"], tx_dropped=sent["dropped"]
    )


def tunnel(arguments: argparse.Namespace, directory: Path) -> None:
    start_s = time.monotonic()
    folder = CONFIGS / arguments.kind
    environment = {
        "VPN_DIR": str(directory),
        "VPN_ROLE": arguments.role,
        "VPN_DEVICE": arguments.device,
        "VPN_TUNNEL": str(arguments.tunnel),
        "VPN_LOCAL_IP": arguments.local_ip,
        "VPN_REMOTE_IP": arguments.remote_ip,
        "VPN_TUNNEL_IP": arguments.tunnel_ip,
        "VPN_REMOTE_TUNNEL_IP": arguments.remote_tunnel_ip,
        "VPN_REMOTE_PUBLIC": str(directory / "remote_public"),
    }
    public = run(str(folder / "keygen"), **environment)
    (directory / "remote_public").write_text(exchange(arguments, public))
    has_daemon = json.loads((folder / "vpn.json").read_text())["daemon"]
    log = directory / "log"
    with log.open("w") as said:
        daemon = subprocess.Popen(
            [str(folder / "up")],
            env={**os.environ, **environment},
            stdout=said,
            stderr=subprocess.STDOUT,
            preexec_fn=unblock_signals,
        )
    try:
        if not has_daemon and daemon.wait() != 0:
            sys.exit(ended(arguments.kind, daemon, log))
        nothing = f"no packet has gone through {arguments.kind}"
        retried(lambda: goes_through(arguments, daemon, log), nothing, lambda: last_lines(log))
        way = ["via", arguments.remote_tunnel_ip, "dev", arguments.device]
        table = ["table", flow_table(arguments)] if arguments.flow_port else []
        run("ip", "route", "replace", arguments.remote_network, *way, *table)
        setup_time_s = time.monotonic() - start_s
        collect_agent.send_log(syslog.LOG_INFO, f"{arguments.kind} is ready after {setup_time_s:.3f} s")
        cc = carrier_congestion_control(arguments)
        collect_agent.send_stat(collect_agent.now(), setup_time_s=setup_time_s, congestion_control=cc)
        if not is_stopped(daemon, has_daemon, arguments):
            sys.exit(ended(arguments.kind, daemon, log))
        report(arguments.device)
    finally:
        daemon.terminate()
        daemon.wait()
        print(log.read_text(errors="replace"), end="")
        subprocess.run([str(folder / "down")], check=False, env={**os.environ, **environment}, capture_output=True)


def is_stopped(daemon: subprocess.Popen[bytes], has_daemon: bool, arguments: argparse.Namespace) -> bool:
    """Waits for the order to stop, and looks at the counters meanwhile; False if the daemon ends without an order. An agent
    that stops a job ends its children first, so a daemon that ends well may be right, and the order must follow."""
    while (number := next_signal(arguments.series_s)) not in SIGNALS:
        if number is None:
            report(arguments.device)
        elif has_daemon and daemon.poll() is not None:
            return daemon.returncode == 0 and signal.sigtimedwait(SIGNALS, STOP_GRACE_S) is not None
    return True


def next_signal(limit_s: float) -> int | None:
    """None if none has come in that time; 0 waits for ever."""
    watched = {*SIGNALS, signal.SIGCHLD}
    if not limit_s:
        return signal.sigwait(watched)
    came = signal.sigtimedwait(watched, limit_s)
    return came.si_signo if came else None


def ended(kind: str, daemon: subprocess.Popen[bytes], log: Path) -> str:
    if daemon.returncode == UNSUPPORTED:
        return f"this host cannot run {kind}{last_lines(log)}"
    return f"{kind} ended by itself with exit code {daemon.returncode}{last_lines(log)}"


def leads_into_tunnel(arguments: argparse.Namespace) -> bool:
    table = flow_table(arguments) if arguments.flow_port else "main"
    command = ["ip", "-j", "route", "show", arguments.remote_network, "table", table]
    shown = subprocess.run(
        command, check=False, capture_output=True, text=True
    ).stdout  # no table yet: an error, no route
    return any(route.get("dev") == arguments.device for route in json.loads(shown or "[]"))


def main() -> None:
    arguments = parse()
    if arguments.role == "wait":
        if arguments.kind != "none":
            missing = f"{arguments.remote_network} is not reached through {arguments.kind} ({arguments.device})"
            retried(lambda: leads_into_tunnel(arguments), missing)
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {*SIGNALS, signal.SIGCHLD})
    if arguments.kind == "none":
        signal.sigwait(SIGNALS)
        return
    os.umask(0o077)
    close_clear_path(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="vpn-") as name:
            tunnel(arguments, Path(name))
    finally:
        open_clear_path(arguments)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
