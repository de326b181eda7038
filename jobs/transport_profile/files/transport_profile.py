# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job transport_profile: the TCP of this host, until the job is stopped."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import collect_agent

from openbach_jobs import profiles
from openbach_jobs.command import change, run, undo, write

RUNS_AS_THREAD = True
"""Sign for the guest, which needs no process for this job (openbach_run/guest/threads.py)."""
CONFIGURATION = "/opt/openbach/agent/jobs/transport_profile/transport_profile_rstats_filter.conf"
IPV4 = Path("/proc/sys/net/ipv4")
SYSCTLS = Path("/proc/sys")
MODULES = Path("/sys/module")
INTERFACES = Path("/sys/class/net")
ETHERNET = 1
"""ARPHRD_ETHER of linux/if_arp.h."""
WINDOWS = ("initcwnd", "initrwnd")
HOSTS_OWN = "own"
DEFAULT = "default"
BUFFER_BYTES = 16 << 20
LEAST_BUFFER_BYTES = 4096
SUFFIXES = {"k": 10**3, "M": 10**6, "G": 10**9}
OPTIONS = {"ecn": "tcp_ecn", "sack": "tcp_sack", "window_scaling": "tcp_window_scaling"}
"""Argument → the kernel's setting, which is 1 for `on` and 0 for `off`."""
SHOWN_ONLY = {"linkdown", "dead"}  # states, which `ip route change` refuses
SIGNALS = {signal.SIGTERM, signal.SIGINT}


def settings(
    cc: str, buffer_bytes: int | None, algorithm: str, options: Mapping[str, str] | None = None
) -> dict[Path, str]:
    """Return file of the kernel → value, in the order to write them.

    Parameters belong to the profile's `algorithm`: they hold for the whole kernel, and one that has
    a congestion control of the profile's own name needs none.
    """
    profile = profiles.described(cc)
    parameters = profile["parameters"] if algorithm == profile["algorithm"] else {}
    values = {
        **{
            MODULES / name.replace("/", "/parameters/"): value for name, value in parameters.items()
        },
        IPV4 / "tcp_congestion_control": algorithm,
        IPV4 / "tcp_rmem": f"4096 131072 {BUFFER_BYTES}",
        IPV4 / "tcp_wmem": f"4096 16384 {BUFFER_BYTES}",
        IPV4 / "tcp_no_metrics_save": "1",
        **{SYSCTLS / name.replace(".", "/"): value for name, value in profile["sysctls"].items()},
        **{
            IPV4 / OPTIONS[name]: str(int(value == "on")) for name, value in (options or {}).items()
        },
    }
    if buffer_bytes is not None:
        for file in (IPV4 / "tcp_rmem", IPV4 / "tcp_wmem"):
            values[file] = with_largest(values[file], buffer_bytes)
    return values


def with_largest(sizes: str, most: int) -> str:
    """Return the least, first and largest buffer of a connection, with `most` as the largest."""
    least, first, _ = map(int, sizes.split())
    return f"{least} {min(first, most)} {most}"


def routes(shown: str) -> list[list[str]]:
    """Return the words of each route of `ip route show`, as `ip route change` takes them."""
    words = []
    for line in shown.splitlines():
        words.append([word for word in line.split() if word not in SHOWN_ONLY])
    return words


def with_initial_window(route: list[str], segments: int) -> list[str]:
    """Return the route with this initial congestion and receive window instead of its own."""
    kept = []
    words = iter(route)
    for word in words:
        if word in WINDOWS:
            next(words, None)  # the window's own number
        else:
            kept.append(word)
    return kept + [part for name in WINDOWS for part in (name, str(segments))]


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cc", choices=profiles.names())
    parser.add_argument("--initcwnd", type=int, default=10, help="segments (default 10, as Linux)")
    parser.add_argument(
        "--buffer-bytes", type=size, default=DEFAULT, help="largest buffer of a connection"
    )
    # those of a group: argparse asks for no terminal, and a call that fails would take virtual time
    tcp = parser.add_argument_group("options of TCP")
    for name in OPTIONS:
        tcp.add_argument(
            f"--{name.replace('_', '-')}", choices=[DEFAULT, "on", "off"], default=DEFAULT
        )
    parser.add_argument(
        "--queue", choices=[HOSTS_OWN, "fq"], default=HOSTS_OWN, help="of this host's interfaces"
    )
    arguments = parser.parse_args(argv)
    if not 1 <= arguments.initcwnd <= 1000:
        parser.error(f"initcwnd is {arguments.initcwnd}: from 1 to 1000 segments")
    least, most = LEAST_BUFFER_BYTES, 2**31 - 1
    if arguments.buffer_bytes is not None and not least <= arguments.buffer_bytes <= most:
        parser.error(f"buffer_bytes is {arguments.buffer_bytes}: from {least} to {most}")
    values = {name: getattr(arguments, name) for name in OPTIONS}
    arguments.options = {name: value for name, value in values.items() if value != DEFAULT}
    return arguments


def size(text: str) -> int | None:
    """Return the bytes of a number with k, M or G; None of the default. Raises ValueError."""
    if text == DEFAULT:
        return None
    factor = SUFFIXES.get(text[-1:], 1)
    exact = float(text[:-1] if factor > 1 else text) * factor
    if not exact.is_integer():
        raise ValueError(f"{text} is no whole number of bytes")
    return int(exact)


def read_back(arguments: argparse.Namespace) -> dict[str, int]:
    """Return what the kernel has, for the settings that are not left at their defaults."""
    values = {name: int((IPV4 / OPTIONS[name]).read_text()) for name in arguments.options}
    if arguments.buffer_bytes is not None:
        most = [int((IPV4 / name).read_text().split()[2]) for name in ("tcp_rmem", "tcp_wmem")]
        values["buffer_bytes"] = min(most)
    return values


def interfaces() -> list[str]:
    """Return all interfaces with an Ethernet address: neither the loopback nor tunnels."""
    types = {folder.name: int((folder / "type").read_text()) for folder in INTERFACES.iterdir()}
    return sorted(name for name, number in types.items() if number == ETHERNET)


def is_set(file: Path, value: str) -> bool:
    """Return whether a setting is as it should be.

    Such a parameter of the whole kernel is left alone: in a namespace nobody may write it.
    """
    return file.exists() and file.read_text().strip() == value


def main() -> None:
    """Run the job."""
    arguments = parse()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    algorithm = profiles.algorithm(arguments.cc)
    values = settings(arguments.cc, arguments.buffer_bytes, algorithm, arguments.options)
    wanted = {
        file: value
        for file, value in values.items()
        if MODULES not in file.parents or not is_set(file, value)
    }
    before = {file: file.read_text() for file in wanted if file.exists()}
    own_routes = routes(run("ip", "route", "show")) if arguments.initcwnd != 10 else []
    queues = interfaces() if arguments.queue != HOSTS_OWN else []
    try:
        for file, value in wanted.items():
            write(file, value)
        for name in queues:
            change("tc", "qdisc", "replace", "dev", name, "root", arguments.queue)
        for route in own_routes:
            change("ip", "route", "change", *with_initial_window(route, arguments.initcwnd))
        statistics: dict[str, Any] = {
            "congestion_control": (IPV4 / "tcp_congestion_control").read_text().strip(),
            "initcwnd": arguments.initcwnd,
            **read_back(arguments),
        }
        collect_agent.send_stat(collect_agent.now(), **statistics)
        signal.sigwait(SIGNALS)
    finally:
        for file, value in before.items():
            file.write_text(value)
        for name in queues:
            undo("tc", "qdisc", "del", "dev", name, "root")
        for route in own_routes:
            undo("ip", "route", "change", *route)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
