# SPDX-License-Identifier: GPL-3.0-or-later
"""`make bench-pep`: satpep (and pepsal, if it is installed) beside the same path without a proxy, in real time.

Three hosts in network namespaces of this machine, joined by veth pairs (pep/tests/lab.py). Prints throughput and CPU time per
gigabyte with 1 and 64 flows, the rate of connection set-ups, and the memory that idle connections take. Each figure is the
median of several measurements, taken in turn: with and without proxy meet the same noise.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent / "tests"))
from lab import ROOT, SERVER, Lab, until

import pep
from openbach_run.engine.debian import ensure_tools

ROUNDS = 5
SECONDS = "3"
IDLE_CONNECTIONS = 10_000
SET_UPS = 2000
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
DIRECT = "no proxy"


@contextmanager
def path(lab: Lab, command: list[str]) -> Iterator[int | None]:
    """The path through a proxy, whose process id it gives; without a command the path through none."""
    if not command:
        yield None
        return
    arguments = pep.parse(["A", "run"])
    with lab.inside("pep"):
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until(lambda: pep.listens(program, 5000), f"{command[0]} on port 5000")
        pep.put_rules(arguments, [])
    try:
        yield program.pid
    finally:
        program.terminate()
        program.wait()
        with lab.inside("pep"):
            pep.remove_rules(arguments)


def cpu_s(pid: int | None) -> float:
    """User and system time of a process so far."""
    if pid is None:
        return 0.0
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / TICKS_PER_S


def throughput(lab: Lab, flows: int, pid: int | None) -> tuple[float, float]:
    """Gbit/s at the receiver, and CPU seconds of the proxy per gigabyte."""
    with lab.inside("server"):
        server = subprocess.Popen(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        until(lambda: lab.run("ss", "-Hltn", "sport", "=", ":5201").strip(), "iperf3's server")
    before_s = cpu_s(pid)
    with lab.inside("client"):
        done = lab.run("iperf3", "-c", SERVER[4], "-J", "-t", SECONDS, "-P", str(flows))
    server.wait()
    received = json.loads(done)["end"]["sum_received"]
    return received["bits_per_second"] / 1e9, (cpu_s(pid) - before_s) / (received["bytes"] / 1e9)


def set_up_rate(lab: Lab) -> float:
    """Connections per second, one after the other: connect, a byte there and back, close."""
    with lab.listen() as listener:
        start_s = time.monotonic()
        for _ in range(SET_UPS):
            client, server = lab.pair(listener)
            client.sendall(b"?")
            server.sendall(server.recv(1))
            client.recv(1)
            client.close()
            server.close()
        return SET_UPS / (time.monotonic() - start_s)


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def hold(listener: socket.socket) -> None:
    """Accepts connections, reads a byte of each and keeps all of them, until killed."""
    held = []
    listener.settimeout(None)
    while True:
        held.append(listener.accept()[0])
        held[-1].recv(1)
        held[-1].sendall(b"!")


def idle_memory(lab: Lab, command: list[str], count: int) -> float:
    """Resident MB of the proxy with `count` connections that have each carried a byte there and back."""
    with path(lab, command) as pid, lab.listen() as listener:
        assert pid is not None
        holder = os.fork()
        if holder == 0:
            hold(listener)
        clients = []
        for _ in range(count):
            clients.append(lab.connect())
            clients[-1].sendall(b"?")
            clients[-1].recv(1)
        memory_mb = resident_mb(pid)
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        for client in clients:
            client.close()
    return memory_mb


def compare(lab: Lab, commands: dict[str, list[str]], measure: Callable[[int | None], tuple[float, float]]) -> None:
    """Prints value, ratio to no proxy and the second value, of each path."""
    values: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            with path(lab, command) as pid:
                values[name].append(measure(pid))
    direct = median(value for value, _ in values[DIRECT])
    for name, measured in values.items():
        value, cpu = (median(column) for column in zip(*measured, strict=True))
        print(f"  {name:9} {value:9.2f}  {value / direct:5.2f} of no proxy" + (f"  {cpu:.3f} CPU s/GB" if cpu else ""))


def main() -> None:
    ensure_tools({"nft": "nftables", "iperf3": "iperf3", "make": "make", "gcc": "gcc"})
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    idle = min(IDLE_CONNECTIONS, (most - 32) // 2)  # a machine may let a process have no more
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(["make", "-s", "-C", ROOT / "pep", f"OUT={out}", "satpep"], check=True)
        commands = {DIRECT: [], "satpep": [f"{out}/satpep", "-c", str(idle)]}
        if pepsal := shutil.which("pepsal"):
            commands["pepsal"] = [pepsal, "-c", "4096"]
        lab = Lab()
        with lab.inside("client"):
            Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("1024 65535")
        for flows in (1, 64):
            print(f"throughput in Gbit/s, {flows} flow(s), median of {ROUNDS} times {SECONDS} s", flush=True)
            compare(lab, commands, partial(throughput, lab, flows))
        print(f"connections set up per second, one after the other, {SET_UPS} at a time", flush=True)
        compare(lab, commands, lambda _: (set_up_rate(lab), 0.0))
        memory_mb = idle_memory(lab, commands["satpep"], idle)
        print(f"{idle} idle connections: satpep has {memory_mb:.1f} MB resident")
        lab.close()


if __name__ == "__main__":
    main()
