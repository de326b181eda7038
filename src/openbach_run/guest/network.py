# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory's hosts as network namespaces of the guest, joined by veth pairs.

    two hosts in a network:  box/to_st ─── st/to_box
    more, a LAN:             pc_1/to_lan ─── lan/pc_1 ┐
                             pc_2/to_lan ─── lan/pc_2 ┼ lan/bridge
                             box/to_lan ──── lan/box  ┘

A namespace is called by its host's name and lies in /run/netns, so that `ip netns exec box ping
10.10.1.2` works. A LAN's switch is a bridge in a namespace of its own, called by the network; a
port of it is called by the host at its other end. A host also has a mount namespace of its own,
with its own /sys (programs find the host's interfaces in /sys/class/net) and whatever else it can
write in: as on machines of their own, no host sees a file of another. Nothing on a network depends
on chance or needs warming up: MACs follow from addresses, neighbours are permanent, and a switch
knows where each host is.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from openbach_jobs.command import ended, pasted
from openbach_run.topology.hosts import Host, Interface, Inventory, Route

IP, BRIDGE = "ip", "bridge"
DIRECTORY = "/run/netns"
VAR_RUN = "/run/host"  # what /var/run is a link to
OWN = ("/tmp", "/root", "/dev/shm", "/var/lib", "/var/log")
"""Directories that each host has for itself, empty at first, as it has /run."""
OVERLAID = ("/etc", "/var", "/opt/openbach/agent")
"""Directories with the same files on all hosts at first, which each host changes for itself."""
OF_THE_RUN = ("/run/openbach", "/run/link_files")
"""Directories of /run that all hosts share: what the run leaves behind, and what it was given."""
CHANGES = "/run/changes"
"""Directory of a host's changes to OVERLAID."""
ASIDE = "/mnt"
"""Directory for a short time of those that a mount needs."""

# linux/sched.h, linux/mount.h, linux/sockios.h, linux/ethtool.h
CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
MS_BIND = 4096
MS_RECURSIVE = 16384
MNT_DETACH = 2
MS_PRIVATE_RECURSIVE = 1 << 18 | MS_RECURSIVE
SIOCETHTOOL, ETHTOOL_GSTRINGS, ETHTOOL_SFEATURES = 0x8946, 0x1B, 0x3B
ETH_SS_FEATURES, ETH_GSTRING_LEN, FEATURES_MAX = 4, 32, 128
OFF = ("tso", "gso", "gro", "tx-udp-segmentation")
"""Features that interfaces have off, as ethtool calls them: netem would take 64 KiB as a packet."""
FEATURES_OFF = (
    "tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation", "tx-generic-segmentation", "rx-gro", "tx-udp-segmentation",
)  # fmt: skip
"""Features that are off, as the kernel calls them."""

SWITCH = "bridge"  # what a LAN's bridge is called in its namespace
FORWARDING = "3"
"""State of a bridge's port that forwards: BR_STATE_FORWARDING of linux/if_bridge.h."""
UP_LIMIT_S, UP_LOOK_S = 10, 0.001
HOST_MAC, SWITCH_MAC = 0x02, 0x06  # first byte of the MACs of hosts and of switches: local, unicast
RULE_PRIORITY = 20_000  # of a host's first rule: after those that jobs add, before the main table's
SYSCTLS = {
    **{f"net/ipv6/conf/{of}/disable_ipv6": "1" for of in ("all", "default")},
    **{f"net/ipv4/conf/{of}/rp_filter": "0" for of in ("all", "default")},
}
"""Settings of the kernel in every namespace, before it has interfaces."""

COMMANDS = """\
#!/bin/sh
# The commands that built the platform of this run, those of jobs with the time in virtual seconds.
# Each host is a network namespace: `ip netns exec box ping 10.10.1.2`. `ip -all netns delete`
# removes them all. To be run as root. Scripts of VPNs lie in /opt/openbach-run: link it to a
# checkout.
PATH=$PATH:/usr/local/sbin:/opt/openbach-run/bin
set -eu
"""

libc = ctypes.CDLL(None, use_errno=True)


class Namespace(NamedTuple):
    """A host's place in the guest: open file descriptors of its network and its mount namespace."""

    name: str
    net_fd: int
    mount_fd: int


class NetworkError(Exception):
    """Failure to make the hosts; the text has the command and what it said."""


def make_places(inventory: Inventory) -> dict[str, int]:
    """Return mount namespaces with directories of their own, as open file descriptors.

    They are by the names of hosts and of networks with a switch. It takes virtual time: do it
    before the run begins. Raises NetworkError.
    """
    for place in (CHANGES, *OF_THE_RUN):
        os.makedirs(place, exist_ok=True)
    switches = [network for network, ends in inventory.attached() if len(ends) > 2]
    hosts = [host.name for host in inventory.hosts]
    return {name: _make_place() for name in (*hosts, *switches)}


def _make_place() -> int:
    with _home():
        _unshare(CLONE_NEWNS)
        # Private: else mounts of one host would appear on all others (mount_namespaces(7)).
        mount("none", "/", "none", MS_PRIVATE_RECURSIVE)
        _own_directories()
        return os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def in_place(mount_fd: int) -> Iterator[None]:
    """Run the block with the files of that host (see `make_places`), and no network."""
    with _home():
        _setns(mount_fd, CLONE_NEWNS)
        yield


def make_writable(directory: str) -> None:
    """Give the present host changes of its own at `directory`, over what all hosts see.

    If the directory is a link, the changes are behind it.
    """
    # Before the link goes: it names the files that all hosts see.
    lower = os.path.realpath(directory)
    if os.path.islink(directory):
        os.unlink(directory)
        os.mkdir(directory)
    # What an overlay writes to needs extended attributes, which the guest's root (hostfs) has not.
    mount("tmpfs", ASIDE, "tmpfs", 0)
    upper, work = f"{ASIDE}/upper", f"{ASIDE}/work"
    os.mkdir(upper)
    os.mkdir(work)
    options = f"lowerdir={lower},upperdir={upper},workdir={work},userxattr"
    mount("overlay", directory, "overlay", 0, options)
    # The overlay keeps the tmpfs alive; nothing else should find it.
    _must(libc.umount2(ASIDE.encode(), MNT_DETACH), f"unmounting {ASIDE}")


def build(
    inventory: Inventory, places: dict[str, int], commands: str, own_kernel: bool
) -> dict[str, Namespace]:
    """Make all hosts and links.

    Returns the namespaces by entity. What was done is written to the file `commands`, as commands
    that an engineer can paste. With a kernel of our own also its settings for all namespaces.
    Raises NetworkError.
    """
    typed = [COMMANDS]
    try:
        return _build(inventory, places, typed, own_kernel)
    finally:
        # `open` would make calls that fail, and those cost time.
        file = os.open(commands, os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(file, "".join(typed).encode())
        os.close(file)


def _build(
    inventory: Inventory, places: dict[str, int], typed: list[str], own_kernel: bool
) -> dict[str, Namespace]:
    os.makedirs(DIRECTORY, exist_ok=True)
    if own_kernel:
        _allow_congestion_controls(typed)
        # No tunl0 and ip6tnl0 that nobody has asked for.
        _set({"net/core/fb_tunnels_only_for_init_net": "1"}, None, typed)
    namespaces = {
        host.entity: _make_namespace(host.name, places[host.name], host.forwarding, typed)
        for host in inventory.hosts
    }
    lans = {network: ends for network, ends in inventory.attached() if len(ends) > 2}
    switches = {
        network: _make_namespace(network, places[network], False, typed) for network in lans
    }
    # All pairs in one call of `ip`, which spares a process for each.
    links = [
        line for network, ends in inventory.attached() for line in _links(inventory, network, ends)
    ]
    _batch([IP], links, None, typed)
    for network, ends in lans.items():
        with inside(switches[network]):
            # A port has the name of the host at its other end.
            ports = [host.name for host, _ in ends]
            # With static entries the switch never floods: the first packet goes the same way as the
            # last.
            fdb = "fdb add {} dev {} master static"
            known = [fdb.format(mac(port.address), host.name) for host, port in ends]
            _batch([IP], _switch(inventory, network, ports), network, typed)
            _batch([BRIDGE], known, network, typed)
            _switch_offloads_off(network, ports, typed)
    for host in inventory.hosts:
        with inside(namespaces[host.entity]):
            # Before the addresses: while IPv6 is off the kernel takes none.
            _switch_ipv6_on(host, typed)
            _batch([IP], _configuration(inventory, host), host.name, typed)
            for family in ("-4", "-6"):
                _batch([IP, family], _rules(host, family), host.name, typed)
            _switch_offloads_off(host.name, [port.name for port in host.interfaces], typed)
    for network, ends in lans.items():
        with inside(switches[network]):
            _wait([f"{host.name}/brport/state" for host, _ in ends], FORWARDING)
    for host in inventory.hosts:
        if any(port.ipv6 for port in host.interfaces):
            with inside(namespaces[host.entity]):
                _wait([f"{port.name}/operstate" for port in host.interfaces], "up")
    return namespaces


def _wait(files: Iterable[str], state: str) -> None:
    """Wait until interfaces are in a state: the kernel's worker sees late that a link is up.

    Before, a switch forwards nothing, and nothing goes by IPv6. Raises NetworkError.
    """
    end_s = time.monotonic() + UP_LIMIT_S
    for file in files:
        while _shown(file) != state:
            if time.monotonic() > end_s:
                raise NetworkError(f"{file} is not {state} after {UP_LIMIT_S} s")
            time.sleep(UP_LOOK_S)


def _shown(file: str) -> str:
    with open(f"/sys/class/net/{file}") as shows:
        return shows.read().strip()


def _allow_congestion_controls(typed: list[str]) -> None:
    """Allow hosts to use every congestion control.

    Outside the first network namespace the kernel counts even root as a user that needs leave.
    """
    available = "/proc/sys/net/ipv4/tcp_available_congestion_control"
    with open(available) as names, open(available.replace("available", "allowed"), "w") as file:
        file.write(names.read())
    # Another kernel has others, and refuses all if it does not know one.
    typed.append(f'sysctl -qw net/ipv4/tcp_allowed_congestion_control="$(cat {available})"\n')


def spawned(words: list[str], environment: Mapping[str, str], out: int, errors: int) -> int:
    """Start a program that reads nothing, in a session of its own, and return its process's id.

    It writes to two open files. Raises OSError.
    """
    to = ((os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, errors, 2))
    reads = (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)
    ignored = [signal.SIGPIPE, signal.SIGXFSZ]  # by Python
    return os.posix_spawnp(
        words[0], words, environment, setsid=True, setsigdef=ignored, file_actions=[reads, *to]
    )


@contextmanager
def inside(namespace: Namespace) -> Iterator[None]:
    """Run the block on that host: what is done and started in it is done and started there."""
    with _home():
        _setns(namespace.net_fd, CLONE_NEWNET)
        _setns(namespace.mount_fd, CLONE_NEWNS)
        yield


def mac(address: str, first: int = HOST_MAC) -> str:
    """Return the MAC address of an interface: locally administered, then its IPv4 address."""
    return ":".join(f"{byte:02x}" for byte in (first, 0, *socket.inet_aton(address)))


@contextmanager
def _home() -> Iterator[None]:
    """Come back to the present namespaces and directory at the end."""
    kinds = {"net": CLONE_NEWNET, "mnt": CLONE_NEWNS}
    here = {kind: os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds}
    directory = os.getcwd()
    try:
        yield
    finally:
        for kind, fd in here.items():
            _setns(fd, kinds[kind])
            os.close(fd)
        # setns(2) of a mount namespace sets the directory to its root.
        os.chdir(directory)


def _make_namespace(name: str, mount_fd: int, forwarding: bool, typed: list[str]) -> Namespace:
    typed.append(pasted(["ip", "netns", "add", name], None, None))
    path = f"{DIRECTORY}/{name}"
    # As ip-netns(8) does: the namespace lives as long as it is mounted on a file.
    os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o444))
    with _home():
        _unshare(CLONE_NEWNET)
        mount("/proc/self/ns/net", path, "none", MS_BIND)
        _setns(mount_fd, CLONE_NEWNS)
        # A sysfs shows the network namespace in which it was mounted.
        mount("sysfs", "/sys", "sysfs", MS_NOSUID_NODEV_NOEXEC)
        _set({**SYSCTLS, "net/ipv4/ip_forward": str(int(forwarding))}, name, typed)
        return Namespace(name, os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC), mount_fd)


def _own_directories() -> None:
    """Mount a host's own directories in the present mount namespace."""
    mount("tmpfs", CHANGES, "tmpfs", MS_NOSUID_NODEV_NOEXEC)
    # An overlay shows the guest's own files, and keeps this host's changes to them in its tmpfs.
    for place in OVERLAID:
        upper = f"{CHANGES}/{place.replace('/', '_')}"
        work = f"{upper}.work"
        os.mkdir(upper)
        os.mkdir(work)
        options = f"lowerdir={place},upperdir={upper},workdir={work},userxattr"
        mount("overlay", place, "overlay", 0, options)
    for place in OWN:
        mount("tmpfs", place, "tmpfs", 0)
    for place in ("/run", VAR_RUN, *OF_THE_RUN):
        os.mkdir(CHANGES + place)
    for place in OF_THE_RUN:
        mount(place, CHANGES + place, "none", MS_BIND)
    # Last, since it hides /run/changes and all else that was in /run.
    mount(f"{CHANGES}/run", "/run", "none", MS_BIND | MS_RECURSIVE)


def mount(source: str, target: str, kind: str, flags: int, options: str | None = None) -> None:
    """Mount a file system. Raises NetworkError."""
    arguments = source.encode(), target.encode(), kind.encode(), flags, options and options.encode()
    _must(libc.mount(*arguments), f"mounting {kind} {source} on {target}")


def _setns(fd: int, kind: int) -> None:
    _must(libc.setns(fd, kind), "entering a namespace")


def _unshare(kind: int) -> None:
    _must(libc.unshare(kind), "making a namespace")


def _must(failed: int, what: str) -> None:
    if failed:
        raise NetworkError(f"{what}: {os.strerror(ctypes.get_errno())}")


def _set(sysctls: dict[str, str], host: str | None, typed: list[str]) -> None:
    """Set a kernel setting (sysctl) of `host`, where this process is; None is outside of all."""
    for name, value in sysctls.items():
        with open(f"/proc/sys/{name}", "w") as file:
            file.write(value)
    settings = (f"{name}={value}" for name, value in sysctls.items())
    typed.append(pasted(["sysctl", "-qw", *settings], None, host))


def _switch_ipv6_on(host: Host, typed: list[str]) -> None:
    """Switch IPv6 on for the interfaces that have an IPv6 address.

    The address is theirs at once: nobody is asked whether it has another owner (RFC 4862, 5.4).
    """
    ports = [port.name for port in host.interfaces if port.ipv6]
    if not ports:
        return
    for name in ("lo", *ports):
        off = ("accept_dad", "accept_ra", "disable_ipv6")
        _set({f"net/ipv6/conf/{name}/{setting}": "0" for setting in off}, host.name, typed)
    _set({"net/ipv6/conf/all/forwarding": str(int(host.forwarding))}, host.name, typed)


def _links(inventory: Inventory, network: str, ends: list[tuple[Host, Interface]]) -> list[str]:
    """Return the lines for `ip` of a veth pair; for more hosts, of one from each to a switch."""
    mtu = inventory.networks[network].mtu

    def end(name: str, address: str, namespace: str) -> str:
        return f"name {name} mtu {mtu} address {address} netns {namespace}"

    def host_end(host: Host, port: Interface) -> str:
        return end(port.name, mac(port.address), host.name)

    if len(ends) == 2:
        first, second = ends
        # Both ends are made in their namespaces at once: no interface is ever in another one.
        return [f"link add {host_end(*first)} type veth peer {host_end(*second)}"]
    return [
        f"link add {host_end(host, port)} type veth peer"
        f" {end(host.name, mac(port.address, SWITCH_MAC), network)}"
        for host, port in ends
    ]


def _switch(inventory: Inventory, network: str, ports: list[str]) -> list[str]:
    """Return the lines for `ip -batch` inside a switch's namespace."""
    # A bridge without an address takes that of a port, and may change it when ports come and go.
    address = mac(inventory.networks[network].address.partition("/")[0], SWITCH_MAC)
    return [
        *_named(network),
        f"link add {SWITCH} address {address} type bridge mcast_snooping 0",
        *(f"link set {port} master {SWITCH} up" for port in ports),
        f"link set {SWITCH} up",
    ]


def _named(name: str) -> list[str]:
    """Return the lines for lo; its alias names the namespace in the kernel's captures."""
    return ["link set dev lo up", f"link set dev lo alias {name}"]


def _configuration(inventory: Inventory, host: Host) -> list[str]:
    """Return the lines for `ip -batch` inside a host's namespace."""
    lines = _named(host.name)
    for port, neighbours in inventory.neighbours(host):
        network = inventory.networks[port.network]
        own = f"{port.address}/{_prefix_length(network.address)}"
        lines.append(f"address add {own} broadcast + dev {port.name}")
        lines.append(f"link set dev {port.name} up")
        if port.ipv6 and network.ipv6:
            own = f"{port.ipv6}/{_prefix_length(network.ipv6)}"
            lines.append(f"address add {own} dev {port.name} nodad")
        lines += [
            f"neighbour add {address} lladdr {mac(neighbour.address)} nud permanent dev {port.name}"
            for neighbour in neighbours
            for address in (neighbour.address, neighbour.ipv6)
            if address
        ]
    return lines + [_route(route) for route in host.routes]


def _prefix_length(network: str) -> str:
    return network.rpartition("/")[2]


def _route(route: Route) -> str:
    words = {"via": route.via, "metric": route.metric, "table": route.table}
    return f"route add {route.to}" + "".join(
        f" {name} {value}" for name, value in words.items() if value is not None
    )


def _rules(host: Host, family: str) -> list[str]:
    """Return the rules of one family, -4 or -6, as options of `ip`.

    A rule for all addresses is of both.
    """
    lines = []
    for number, rule in enumerate(host.rules):
        words = {"from": rule.source or "all", "to": rule.destination, "lookup": rule.table}
        words |= {
            "priority": str(RULE_PRIORITY + number),
            "suppress_prefixlength": "0" if rule.except_default else None,
        }
        if _is_of(rule.source or rule.destination, family):
            options = "".join(f" {name} {value}" for name, value in words.items() if value)
            lines.append(f"rule add{options}")
    return lines


def _is_of(address: str | None, family: str) -> bool:
    return address is None or (":" in address) == (family == "-6")


def _batch(command: list[str], lines: list[str], host: str | None, typed: list[str]) -> None:
    """Have `ip` or `bridge` do all lines, in the present namespace, that of `host`.

    Raises NetworkError with what it said.
    """
    if not lines:
        return
    words, text = [*command, "-batch", "-"], "\n".join(lines)
    done = ended(words, text)
    if done.returncode:
        raise NetworkError(f"{' '.join(words)}: {done.stderr.strip()}; the lines were:\n{text}")
    typed.append(pasted(words, text, host))


def _switch_offloads_off(name: str, interfaces: list[str], typed: list[str]) -> None:
    # By ioctl(2), which spares a process of ethtool for each interface.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        switched = _features_off(control, interfaces[0]) if interfaces else b""
        for interface in interfaces:
            _ethtool(control, interface, switched)
            off = (word for feature in OFF for word in (feature, "off"))
            typed.append(pasted(["ethtool", "-K", interface, *off], None, name))


def _features_off(control: socket.socket, interface: str) -> bytes:
    """Return a struct ethtool_sfeatures (linux/ethtool.h) that switches FEATURES_OFF off.

    Their bits are valid and not requested.
    """
    strings = bytes(FEATURES_MAX * ETH_GSTRING_LEN)
    head = struct.pack("=III", ETHTOOL_GSTRINGS, ETH_SS_FEATURES, 0)
    # Bits of features have no fixed numbers: the kernel names them in their order.
    answer = _ethtool(control, interface, head + strings)
    count = struct.unpack_from("=8xI", answer)[0]
    names = [
        answer[at : at + ETH_GSTRING_LEN].rstrip(b"\0").decode()
        for at in range(12, len(answer), ETH_GSTRING_LEN)
    ]
    valid = sum(1 << names.index(feature) for feature in FEATURES_OFF)
    # Features are set in blocks of 32 bits.
    blocks = (count + 31) // 32
    parts = [struct.pack("=II", valid >> 32 * block & 0xFFFFFFFF, 0) for block in range(blocks)]
    return struct.pack("=II", ETHTOOL_SFEATURES, blocks) + b"".join(parts)


def _ethtool(control: socket.socket, interface: str, request: bytes) -> bytes:
    """Do a SIOCETHTOOL command; return the kernel's answer. Raises NetworkError."""
    value = ctypes.create_string_buffer(request, len(request))
    pointed = struct.pack("16sP16x", interface.encode(), ctypes.addressof(value))
    try:
        fcntl.ioctl(control, SIOCETHTOOL, pointed)
    except OSError as error:
        raise NetworkError(f"switching offloads of {interface} off: {error}") from error
    return value.raw
