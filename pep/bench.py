# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare satpep with no proxy, haproxy and pepsal on the same path (`tools/dev pep/bench.py`).

haproxy and pepsal are compared where they are installed. Three hosts in network namespaces of this
machine, joined by veth pairs (pep/tests/lab.py), in real time. All paths are measured in turn, so
that they meet the same noise; each figure is the median of all rounds, each ratio the median of the
rounds' ratios. CPU time is that of the proxy's process, with what the kernel does for it there.
`bench.py FLOWS…` measures throughput only, with these numbers of flows.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median, quantiles

import satpep
from lab import ROOT, SERVER, Lab, until

from openbach_run.engine.virtual.debian import ensure_tools

ROUNDS = 5
SECONDS = 3
IDLE_CONNECTIONS = 10_000
SET_UPS = 2000
BULK_FLOWS = 32
PROXY_PORT = 5000
DIRECT = "no proxy"
OURS = "satpep"
PEER = "haproxy"
HAPROXY = """
global
    nbthread 1
    maxconn {connections}
    maxpipes {pipes}
defaults
    mode tcp
    timeout connect 30s
    timeout client 5h
    timeout server 5h
    option splice-request
    option splice-response
frontend all
    bind 0.0.0.0:5000 transparent
    default_backend servers
backend servers
    source 0.0.0.0 usesrc client
    server as_asked *:0
"""
"""What satpep does: TPROXY in, the client's address and port out, splice in both directions
whatever the load."""


@dataclass(frozen=True)
class Running:
    """A proxy at work: `log` is where satpep's statistics are."""

    pid: int
    log: Path | None = None


@dataclass
class Measured:
    """Columns by name, a value each round."""

    columns: dict[str, list[float]] = field(default_factory=dict)

    def add(self, values: dict[str, float]) -> None:
        """Add the values of a round to their columns."""
        for name, value in values.items():
            self.columns.setdefault(name, []).append(value)


@contextmanager
def path(lab: Lab, command: list[str]) -> Iterator[Running | None]:
    """The path through a proxy; without a command the path through none."""
    if not command:
        yield None
        return
    arguments = satpep.parse(["A", "run"])
    with lab.inside("pep"):
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until(lambda: satpep.listens(program, PROXY_PORT), f"{command[0]} on port {PROXY_PORT}")
        satpep.put_rules(arguments, [])
    try:
        yield Running(
            program.pid, Path(command[command.index("-l") + 1]) if "-l" in command else None
        )
    finally:
        program.send_signal(signal.SIGINT)
        program.wait()
        with lab.inside("pep"):
            satpep.remove_rules(arguments)


def cpu_s(running: Running | None) -> float:
    """Time on a CPU so far, user and system, to the nanosecond."""
    return (
        int(Path(f"/proc/{running.pid}/schedstat").read_text().split()[0]) / 1e9 if running else 0.0
    )


def totals(log: Path) -> list[dict[str, float]]:
    """Return satpep's events `totals` in a log."""
    whole = log.read_text().rpartition("\n")[0]  # it may be writing a line just now
    return [event for event in map(json.loads, whole.splitlines()) if event["event"] == "totals"]


def spliced_share(running: Running | None) -> dict[str, float]:
    """Part of the bytes so far that went through a pipe, from satpep's own count of both ways."""
    if running is None or running.log is None:
        return {}
    log, before = running.log, len(totals(running.log))
    os.kill(running.pid, signal.SIGUSR1)
    now = until(lambda: totals(log)[before:], "satpep's totals")[-1]
    return {"spliced": now["bytes_spliced"] / max(now["bytes_spliced"] + now["bytes_copied"], 1)}


@contextmanager
def bulk(lab: Lab, flows: int, seconds: int) -> Iterator[subprocess.Popen[str]]:
    """iperf3 from the client to the server; what it prints is JSON."""
    with lab.inside("server"):
        server = subprocess.Popen(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        until(lambda: lab.run("ss", "-Hltn", "sport", "=", ":5201").strip(), "iperf3's server")
    with lab.inside("client"):
        command = ["iperf3", "-c", SERVER[4], "-J", "-t", str(seconds), "-P", str(flows)]
        client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield client
    client.wait()
    server.wait()


def ends_cpu_s() -> float:
    """Time on a CPU of all processes that have ended: iperf3's."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def throughput(lab: Lab, flows: int, running: Running | None) -> dict[str, float]:
    """Gbit/s at the receiver; CPU seconds per gigabyte of the proxy, and of iperf3 at both ends."""
    before_s, ends_before_s = cpu_s(running), ends_cpu_s()
    with bulk(lab, flows, SECONDS) as client:
        received = json.loads(client.communicate()[0])["end"]["sum_received"]
    gigabytes = received["bytes"] / 1e9
    values = {
        "Gbit/s": received["bits_per_second"] / 1e9,
        "ends' CPU s/GB": (ends_cpu_s() - ends_before_s) / gigabytes,
    }
    if running:
        values["CPU s/GB"] = (cpu_s(running) - before_s) / gigabytes
    return values | spliced_share(running)


def answer(listener: socket.socket) -> None:
    """Send back what one connection sends, until it ends."""
    end, _ = listener.accept()
    while data := end.recv(100):
        end.sendall(data)


def echo(lab: Lab, running: Running | None) -> dict[str, float]:
    """Time of a question and its answer, 1 a millisecond, beside bulk flows."""
    times_ms = []
    with bulk(lab, BULK_FLOWS, SECONDS + 1) as client, lab.listen() as listener:
        answering = threading.Thread(target=answer, args=(listener,))
        answering.start()
        with lab.connect() as asking:
            # Nagle's algorithm (RFC 896) would hold back a question behind one without an ACK.
            asking.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end_s = time.monotonic() + SECONDS
            while time.monotonic() < end_s:
                start_s = time.monotonic()
                asking.sendall(b"x" * 100)
                asking.recv(100, socket.MSG_WAITALL)
                times_ms.append((time.monotonic() - start_s) * 1000)
                time.sleep(0.001)  # the next question's time, not a wait for something
        answering.join()
        client.communicate()
    return {"p50 ms": median(times_ms), "p99 ms": quantiles(times_ms, n=100)[98]}


def set_up(lab: Lab, running: Running | None) -> dict[str, float]:
    """Return connections per second, one after the other, and the proxy's CPU time for each.

    A connection is connect, a byte there and back, close.
    """
    before_s = cpu_s(running)
    with lab.listen() as listener:
        start_s = time.monotonic()
        for _ in range(SET_UPS):
            client, server = lab.pair(listener)
            client.sendall(b"?")
            server.sendall(server.recv(1))
            client.recv(1)
            client.close()
            server.close()
        values = {"per s": SET_UPS / (time.monotonic() - start_s)}
    if running:
        values["CPU us each"] = (cpu_s(running) - before_s) / SET_UPS * 1e6
    return values


def resident_mb(running: Running) -> float:
    """Return the resident memory of a process in MB."""
    lines = Path(f"/proc/{running.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def hold(listener: socket.socket) -> None:
    """Accept connections, read a byte of each, and keep all of them, until killed."""
    held = []
    listener.settimeout(None)
    while True:
        held.append(listener.accept()[0])
        held[-1].recv(1)
        held[-1].sendall(b"!")


def idle_memory(lab: Lab, command: list[str], count: int) -> float:
    """Return the resident MB of the proxy with `count` idle connections.

    Each has carried a byte there and back.
    """
    with path(lab, command) as running, lab.listen() as listener:
        assert running is not None
        # The server's ends are in a process of its own, as this one has the clients' already.
        holder = os.fork()
        if holder == 0:
            hold(listener)
        clients = []
        for _ in range(count):
            clients.append(lab.connect())
            clients[-1].sendall(b"?")
            # A whole exchange: the proxy has made both legs and its pipes.
            clients[-1].recv(1)
        memory_mb = resident_mb(running)
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        for client in clients:
            client.close()
    return memory_mb


def ratio(values: list[float], others: list[float]) -> float:
    """Return the median ratio of two columns, round by round."""
    return median(value / other for value, other in zip(values, others, strict=True))


def compare(
    lab: Lab, commands: dict[str, list[str]], measure: Callable[[Running | None], dict[str, float]]
) -> dict[str, Measured]:
    """Print each path's columns, and satpep's ratios to the others."""
    measured = {name: Measured() for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            with path(lab, command) as running:
                measured[name].add(measure(running))
    for name, one in measured.items():
        shown = [f"{median(values):9.3f} {column}" for column, values in one.columns.items()]
        print(f"  {name:9}" + "  ".join(shown))
    ours = measured[OURS].columns
    for name in commands:
        others = measured[name].columns
        shown = [
            f"{ratio(values, others[column]):5.2f} {column}"
            for column, values in ours.items()
            if column in others
        ]
        if name != OURS:
            print(f"    {OURS} / {name}: " + ", ".join(shown), flush=True)
    return measured


def allowed_share(measured: dict[str, Measured]) -> float:
    """Return the throughput of satpep's path as part of no proxy's if all cores are busy in both.

    A byte costs in both what was measured.
    """
    direct, ours = measured[DIRECT].columns, measured[OURS].columns
    needed = zip(direct["ends' CPU s/GB"], ours["ends' CPU s/GB"], ours["CPU s/GB"], strict=True)
    return median(alone / (ends + proxy) for alone, ends, proxy in needed)


def paths(out: Path, connections: int, pipes: int) -> dict[str, list[str]]:
    """Return the command of the proxy on each path, by the path's name."""
    commands = {
        DIRECT: [],
        OURS: [f"{out}/satpep", "-u", "", "-c", str(connections), "-l", f"{out}/log"],
    }
    if haproxy := shutil.which("haproxy"):
        (out / "haproxy.cfg").write_text(HAPROXY.format(connections=connections, pipes=pipes))
        commands[PEER] = [haproxy, "-db", "-q", "-f", f"{out}/haproxy.cfg"]
    else:
        print(
            "haproxy is not installed (Debian has it: `apt-get install haproxy`): nothing to"
            " compare with but no proxy"
        )
    if pepsal := shutil.which("pepsal"):
        commands["pepsal"] = [pepsal, "-c", "4096"]
    return commands


def main() -> None:
    """Measure all paths round by round, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("flows", type=int, nargs="*", help="measure throughput only, so many flows")
    only_flows = parser.parse_args().flows
    ensure_tools({"nft": "nftables", "iperf3": "iperf3", "make": "make", "gcc": "gcc"})
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    idle = min(
        IDLE_CONNECTIONS, int((most - 100) / 2 * 0.85)
    )  # a machine may let a process have no more
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        subprocess.run(["make", "-s", "-C", ROOT / "pep", f"OUT={out}", "satpep"], check=True)
        commands = paths(out, idle, pipes=(most - 2 * idle) // 4)
        lab = Lab()
        with lab.inside("client"):
            Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("1024 65535")
        with lab.inside(
            "pep"
        ):  # haproxy has no answer to a client's port that is in TIME-WAIT on its own host
            Path("/proc/sys/net/ipv4/tcp_max_tw_buckets").write_text("0")
        control = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
        print(
            f"{os.cpu_count()} cores for client, proxy and server together; {control}; median of"
            f" {ROUNDS} rounds",
            flush=True,
        )
        for flows in only_flows or (1, 64):
            print(f"throughput, {flows} flow(s), {SECONDS} s", flush=True)
            measured = compare(lab, commands, partial(throughput, lab, flows))
            print(
                f"    shared cores allow {OURS} {allowed_share(measured):.2f} of no proxy",
                flush=True,
            )
        if not only_flows:
            print(f"an echo beside {BULK_FLOWS} bulk flows", flush=True)
            compare(lab, commands, partial(echo, lab))
            print(f"connections set up one after the other, {SET_UPS} at a time", flush=True)
            compare(lab, commands, partial(set_up, lab))
            for proxy in (OURS, PEER):
                if proxy in commands:
                    print(
                        f"{idle} idle connections: {proxy} has"
                        f" {idle_memory(lab, commands[proxy], idle):.1f} MB resident"
                    )
        lab.close()


if __name__ == "__main__":
    main()
