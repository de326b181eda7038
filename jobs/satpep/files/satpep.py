# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job satpep: a proxy on this host that splits the TCP connections that pass.

It runs until the job is stopped.

Rules of nftables hand the connections to satpep (pep/ of the repository) or another program (a
folder of peps), a routing table makes their packets local:

    arrives ──► prerouting: tproxy, mark ──► ip rule: mark ──► table: local
            ──► proxy ──► leaves with the client's address

`position` says where the scenario wants a proxy, `--at` at which positions this host has one: one
scenario has the job on every host that may need it. The job is ready when a connection has gone
through; `wait` ends then.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import syslog
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import collect_agent
import proof

from openbach_jobs import limits, profiles, resumes
from openbach_jobs.command import change, need_process, run, started, undo, wait_for
from openbach_jobs.data import data_folder

RUNS_AS_THREAD = True
"""Sign for the guest, which needs no process for this job (openbach_run/guest/threads.py)."""
CONFIGURATION = "/opt/openbach/agent/jobs/satpep/satpep_rstats_filter.conf"
LIMITS = {
    "initcwnd": (1, 1000), "max_connections": (1, 10**6), "port": (1, 65535),
    "mark": (1, 2**31 - 1), "table": (1, 2**31 - 1),
}  # fmt: skip
OURS = "satpep"
POSITIONS = ("none", "A", "B", "A_double", "B_double")
PROFILES = {"plain": "", "satcom": "cc=hybla"}
"""Names of settings of a leg. Over a satellite, operators have a congestion control for long round
trips, with a large initial window: PEPsal has Hybla (Caini, Firrincieli, Lacamera, VTC 2006)."""
ASK = re.compile(r"(none|[0-9.+][0-9.eE+-]*[kMG]?)@[0-9.]{7,15}")
ASK_PORT = 5997
"""UDP port of the job satcom_link on the satellite's host."""
TABLE = "satpep"
RULE_PRIORITY = "100"
"""Priority of the proxy's rules, before those that give a flow a tunnel of its own (jobs/vpn):
answers to the proxy are the proxy's."""
STOPS = (signal.SIGTERM, signal.SIGINT)
READY = "\0openbach-pep-ready"
"""Name of a socket that a proxy's host has while it works (abstract: it belongs to the host's
network namespace)."""


def positions(text: str) -> list[str]:
    """Return the positions that a text names, parted by commas."""
    named = text.split(",")
    if wrong := [name for name in named if name not in POSITIONS[1:]]:
        raise argparse.ArgumentTypeError(
            f"{wrong[0]!r} is not a position; they are {', '.join(POSITIONS[1:])}"
        )
    return named


def leg(text: str) -> str:
    """Return the settings of a leg, KEY=VALUE,…, which may have a name."""
    if text not in PROFILES and not re.match("[a-z]+=", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not {', '.join(PROFILES)} or KEY=VALUE,…")
    return PROFILES.get(text, text)


def pep(text: str) -> str:
    """Return the name of a proxy, which has a folder if it is not ours."""
    if text != OURS and not description_of(text).exists():
        raise argparse.ArgumentTypeError(f"{text!r} is not {OURS} or the name of a folder of peps")
    return text


def description_of(program: str) -> Path:
    """Return where another program than ours is described."""
    return data_folder("peps") / program / "pep.json"


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("position", choices=POSITIONS, help="where the scenario has a proxy")
    parser.add_argument(
        "--at",
        type=positions,
        default=POSITIONS[1:],
        help="where this host is one, e.g. A,A_double",
    )
    modes = parser.add_subparsers(dest="mode", required=True)
    modes.add_parser("wait", help="ends as soon as the proxy on this host is ready")
    run = modes.add_parser("run", help="runs the proxy until stopped")
    run.add_argument("--program", type=pep, default=OURS, help="satpep, or a folder of peps")
    run.add_argument("--cc", help="congestion control of both legs (default: the host's)")
    run.add_argument(
        "--initcwnd",
        type=int,
        help="initial window of both legs in segments (default: the routes')",
    )
    run.add_argument("--client-leg", type=leg, default="plain", help="as satpep takes it")
    run.add_argument("--server-leg", type=leg, default="plain", help="as satpep takes it")
    run.add_argument("--interfaces", help="only connections that arrive there, e.g. to_st,to_gw")
    run.add_argument("--except-ports", help="not connections to these TCP ports, e.g. 5999,22")
    run.add_argument("--max-connections", type=int, default=2112)
    run.add_argument("--port", type=int, default=5000, help="where the proxy listens")
    run.add_argument("--mark", type=int, default=1, help="of the packets that are to be made local")
    run.add_argument("--table", type=int, default=100, help="routing table that makes them so")
    asking = run.add_argument_group("return capacity of a terminal beside it")
    asking.add_argument(
        "--ask",
        default="none",
        help="rate in bit/s to ask for while a connection is open, and whom: 2M@10.10.2.2",
    )
    arguments = parser.parse_args(argv)
    if arguments.mode == "run" and arguments.ask != "none" and not ASK.fullmatch(arguments.ask):
        parser.error(f"ask: {arguments.ask!r} is not like 2M@10.10.2.2, or none")
    limits.check(parser, arguments, LIMITS)
    if arguments.mode == "run" and arguments.program != OURS:
        # An initial window of 10 is the kernel's own.
        is_other = arguments.initcwnd not in (None, 10)
        if is_other or arguments.client_leg or arguments.server_leg or wish_of(arguments.ask):
            parser.error("--initcwnd, --client-leg, --server-leg or --ask needs satpep")
    return arguments


def ruleset(arguments: argparse.Namespace, interfaces: list[str]) -> str:
    """Return the nft script.

    A SYN goes to the proxy if that listens and has room (satpep's admission.h); otherwise `tproxy`
    does nothing and the connection passes unsplit, as do those that are older than the rules. Later
    packets follow the proxy's sockets; so do ICMP errors about them (path MTU, unreachable).
    `begun` is for the last packet of a handshake that was answered with a SYN cookie: no socket
    knows of it yet.
    """
    listed = ", ".join(f'"{name}"' for name in interfaces)
    only = f"iifname {{ {listed} }} " if interfaces else ""
    excepted = f"tcp dport {{ {arguments.except_ports} }} accept" if arguments.except_ports else ""
    to_proxy = f"tproxy {{}}to :{arguments.port} meta mark set {arguments.mark}"
    v4, v6 = (f"{ip} saddr . tcp sport . {ip} daddr . tcp dport" for ip in ("ip", "ip6"))
    options = "flags dynamic, timeout; timeout 10s; size 262144;"
    return f"""
table inet {TABLE} {{
    set begun4 {{ type ipv4_addr . inet_service . ipv4_addr . inet_service; {options} }}
    set begun6 {{ type ipv6_addr . inet_service . ipv6_addr . inet_service; {options} }}
    chain prerouting {{
        type filter hook prerouting priority mangle; policy accept;
        meta l4proto {{ icmp, icmpv6 }} socket transparent 1 meta mark set {arguments.mark} accept
        meta l4proto != tcp accept
        tcp flags & (syn | ack) == syn goto begin
        socket transparent 1 meta mark set {arguments.mark} accept
        {v4} @begun4 {to_proxy.format("ip ")} accept
        {v6} @begun6 {to_proxy.format("ip6 ")} accept
    }}
    chain begin {{
        fib daddr type local accept
        {excepted}
        {only}meta l4proto tcp {to_proxy.format("")} goto begun
        counter comment "unsplit"
    }}
    chain begun {{
        add @begun4 {{ {v4} }} accept
        add @begun6 {{ {v6} }} accept
    }}
}}
"""


def has_ipv6() -> bool:
    """Return whether this host has IPv6."""
    switch = Path("/proc/sys/net/ipv6/conf/lo/disable_ipv6")
    return switch.exists() and switch.read_text().strip() == "0"


def routing(arguments: argparse.Namespace, verb: str) -> list[list[str]]:
    """Return commands to `add` or `del` what makes marked packets local.

    They are for IPv4 and, if the host has it, IPv6.
    """
    mark, table = str(arguments.mark), str(arguments.table)
    everything = {"-4": "0.0.0.0/0", **({"-6": "::/0"} if has_ipv6() else {})}
    rule = ["priority", RULE_PRIORITY, "fwmark", mark, "lookup", table]
    commands = []
    for family, network in everything.items():
        commands += [
            ["ip", family, "rule", verb, *rule],
            ["ip", family, "route", verb, "local", network, "dev", "lo", "table", table],
        ]
    return commands


def put_rules(arguments: argparse.Namespace, interfaces: list[str]) -> None:
    """Set up rules and routes that lead connections into the proxy."""
    remove_rules(arguments)
    change("nft", "-f", "-", text=ruleset(arguments, interfaces))
    for words in routing(arguments, "add"):
        change(*words)


def remove_rules(arguments: argparse.Namespace) -> None:
    """Remove the rules and routes of the proxy, as far as they are there.

    They may be those that a killed job has left.
    """
    for words in (["nft", "delete", "table", "inet", TABLE], *routing(arguments, "del")):
        undo(*words)


def command_line(arguments: argparse.Namespace) -> list[str]:
    """Return the command that starts the proxy."""
    recipe = {"command": [OURS, "-p", "{port}", "-c", "{max_connections}"], "cc": ["-C", "{cc}"]}
    if arguments.program != OURS:
        file = description_of(arguments.program)
        recipe = {"cc": [], **json.loads(file.read_bytes())}
        os.environ["PATH"] += f":{file.parent / 'bin'}"
    cc = profiles.algorithm(arguments.cc) if arguments.cc else ""
    words = [*recipe["command"], *(recipe["cc"] if cc else [])]
    command = [word.format_map({**vars(arguments), "cc": cc}) for word in words]
    if arguments.program == OURS:
        both = f"initcwnd={arguments.initcwnd}," if arguments.initcwnd else ""
        legs = ["--client", both + arguments.client_leg, "--server", both + arguments.server_leg]
        command += ["-l", "-", "--drain", "0", *legs]
    return command


def listens(program: subprocess.Popen[Any], port: int) -> bool:
    """Return whether something listens on the proxy's port.

    The job ends if the proxy has ended.
    """
    if program.poll() is not None:
        sys.exit(f"{program.args!r} ended with exit code {program.returncode}")
    return bool(run("ss", "-Hltn", "sport", "=", f":{port}").strip())


def is_ready() -> bool:
    """Return whether the proxy of this host works."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(READY) == 0


def wish_of(ask: str) -> tuple[int, str] | None:
    """Return the rate in bit/s to ask for, and the address to ask; None if nothing is asked for."""
    rate, _, address = ask.partition("@")
    if rate == "none":
        return None
    from openbach_jobs import netem  # not above: other runs need not read it

    return round(netem.number(rate, 0, 1e10, "a rate")), address


class Wish:
    """A rate that the terminal beside this host is to ask for while a connection is open."""

    def __init__(self, ask: str) -> None:
        """Begin with no connection."""
        self._wish = wish_of(ask)
        self._open: set[int] = set()

    def take(self, event: Mapping[str, Any]) -> None:
        """Take what the proxy says of a connection, and say if the first began or the last ended.

        The proof's own connection is none.
        """
        kind = event["event"]
        is_proof = event.get("client", "").startswith(f"{proof.CLIENT}:")
        if self._wish is None or kind not in ("connected", "ended") or is_proof:
            return
        before = bool(self._open)
        (self._open.add if kind == "connected" else self._open.discard)(event["id"])
        if before != bool(self._open):
            rate_bps, address = self._wish
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
                out.sendto(str(rate_bps if self._open else 0).encode(), (address, ASK_PORT))


class Connections:
    """The connections of satpep's statistics (satpep(8)) as statistics of OpenBACH.

    There are two for each connection, and their sums. The proof's own connection is none.
    """

    def __init__(self) -> None:
        """Begin with no connection."""
        self.count = 0
        self.bytes: dict[str, Any] = {"bytes_to_server": 0, "bytes_to_client": 0}

    def take(self, line: str) -> None:
        """Take one line of satpep's statistics, and send what it says."""
        event: dict[str, Any] = json.loads(line)
        if event["event"] == "full":
            full = f"{event['open']} connections are open"
            text = f"{full}: new ones pass unsplit until some have ended"
            collect_agent.send_log(syslog.LOG_WARNING, text)
        if event["event"] not in ("connected", "ended") or event["client"].startswith(
            f"{proof.CLIENT}:"
        ):
            return
        passed = {name: event[name] for name in self.bytes}
        if event["event"] == "connected":
            self.count += 1
        else:
            self.bytes = {name: self.bytes[name] + passed[name] for name in passed}
        legs = {
            f"{side}_{key}": value
            for side in ("client", "server")
            for key, value in event.get(f"{side}_leg", {}).items()
        }
        ends = {
            key: event[key]
            for key in ("event", "client", "server", "outcome", "duration_s")
            if key in event
        }
        collect_agent.send_stat(
            collect_agent.now(), suffix=f"connection_{event['id']}", **ends, **passed, **legs
        )

    def send_sums(self) -> None:
        """Send the sums over all connections."""
        collect_agent.send_stat(
            collect_agent.now(), connections=self.count, resumes=resumes.count(), **self.bytes
        )


def give_up(*_: Any) -> None:
    """End the job: an agent kills it 2 s after its stop, and a proof may take longer."""
    sys.exit("stopped before the proxy was ready")


def answer_stops(handler: Any) -> None:
    """Answer signals that stop the job by this handler."""
    for number in STOPS:
        signal.signal(number, handler)


def split(arguments: argparse.Namespace) -> None:
    """Set rules, start the program, prove it; then send statistics until it is to end."""
    interfaces = [name for name in (arguments.interfaces or "").split(",") if name]
    with ExitStack() as at_end:
        at_end.callback(remove_rules, arguments)
        words = command_line(arguments)
        program = at_end.enter_context(
            started(*words, recorded=True, stdout=subprocess.PIPE, text=True)
        )
        # From the end on, nothing cuts short what takes the changes back.
        at_end.callback(answer_stops, signal.SIG_IGN)
        answer_stops(give_up)
        assert program.stdout
        if arguments.program == OURS:
            if '"ready"' not in program.stdout.readline():
                sys.exit(f"satpep ended before it was ready, with exit code {program.wait()}")
        else:
            wait_for(
                f"nothing listens on port {arguments.port}",
                lambda: listens(program, arguments.port),
            )
        put_rules(arguments, [*interfaces, proof.INTERFACE] if interfaces else [])
        address_kept = proof.goes_through()
        if not address_kept and arguments.program == OURS:
            sys.exit("the proxy shows the server its own address instead of the client's")
        ready = at_end.enter_context(socket.socket(socket.AF_UNIX))
        ready.bind(READY)
        ready.listen()
        what = "" if address_kept else ", with the proxy's address instead of the client's"
        answer_stops(lambda *_: program.terminate())
        collect_agent.send_log(
            syslog.LOG_INFO, f"{arguments.program} is ready: a connection has gone through{what}"
        )
        if arguments.program == OURS:
            seen = Connections()
            wish = Wish(arguments.ask)
            for line in program.stdout:
                wish.take(json.loads(line))
                seen.take(line)
            seen.send_sums()
        program.wait()
    if program.returncode not in (0, -signal.SIGTERM):
        sys.exit(f"{arguments.program} ended by itself with exit code {program.returncode}")


def main() -> None:
    """Run the job."""
    arguments = parse()
    wanted = arguments.position in arguments.at
    if arguments.mode == "wait":
        if wanted:
            wait_for("the proxy on this host is not ready", is_ready)
    elif not wanted:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        signal.sigwait(STOPS)
    elif arguments.program == OURS and shutil.which(OURS) is None:
        sys.exit(f"{OURS} is not installed on this host")
    else:
        need_process()
        split(arguments)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
