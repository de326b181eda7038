# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory's hosts as network namespaces of the guest, joined by veth pairs.

A namespace is called by its host's role and lies in /run/netns, so that `ip netns exec box ping 10.10.1.2` works.
A host also has a mount namespace of its own, with its own /sys (programs find the host's interfaces in /sys/class/net)
and its own /var/run (they find each other by names in it).
Nothing on a link depends on chance or needs warming up: MACs follow from addresses, neighbours are permanent.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..inventory import Host, Interface, Inventory

IP = "/usr/sbin/ip"
DIRECTORY = "/run/netns"
VAR_RUN = "/run/host"  # what /var/run is a link to

# linux/sched.h, linux/mount.h, linux/sockios.h, linux/ethtool.h
CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
MS_BIND = 4096
MS_PRIVATE_RECURSIVE = 1 << 18 | 16384
SIOCETHTOOL = 0x8946
OFFLOADS_OFF = {"TSO": 0x1F, "GSO": 0x24, "GRO": 0x2C}  # with them netem would delay and lose 64 KiB at a time
FEATURES_OFF = ("tx-udp-segmentation",)  # the same for UDP_SEGMENT; it has no command of its own, only a name
ETHTOOL_GSTRINGS = 0x1B
ETHTOOL_SFEATURES = 0x3B
ETH_SS_FEATURES = 4
ETH_GSTRING_LEN = 32
FEATURES_MAX = 128

SYSCTLS = {  # in every namespace, before it has interfaces
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
}

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Namespace:
    """A host's place in the guest: open file descriptors of its network and its mount namespace."""

    role: str
    net_fd: int
    mount_fd: int


class NetworkError(Exception):
    """The hosts could not be made; the text has the command and what it said."""


def build(inventory: Inventory) -> dict[str, Namespace]:
    """Make all hosts and links. Returns the namespaces by entity. Raises NetworkError."""
    os.makedirs(DIRECTORY, exist_ok=True)
    os.makedirs(VAR_RUN, exist_ok=True)
    _allow_congestion_controls()
    _make_no_fallback_tunnels()
    namespaces = {host.entity: _make_namespace(host) for host in inventory.hosts}
    _ip([_link(first, second) for first, second in inventory.links()])
    for host in inventory.hosts:
        with inside(namespaces[host.entity]):
            _ip(_configuration(inventory, host))
            _switch_offloads_off(host)
    return namespaces


def _allow_congestion_controls() -> None:
    """Hosts may use every one: outside the first namespace the kernel counts even root as a user that needs leave."""
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as available:
        names = available.read()
    with open("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "w") as allowed:
        allowed.write(names)


def _make_no_fallback_tunnels() -> None:
    """A host has the interfaces of the inventory: no tunl0 and ip6tnl0 that nobody has asked for."""
    with open("/proc/sys/net/core/fb_tunnels_only_for_init_net", "w") as file:
        file.write("1")


@contextmanager
def inside(namespace: Namespace) -> Iterator[None]:
    """What is done and started in here is done and started on that host."""
    with _home():
        _setns(namespace.net_fd, CLONE_NEWNET)
        _setns(namespace.mount_fd, CLONE_NEWNS)
        yield


def mac(address: str) -> str:
    """The MAC address of an interface: locally administered, then its IPv4 address."""
    return ":".join(f"{byte:02x}" for byte in (2, 0, *socket.inet_aton(address)))


@contextmanager
def _home() -> Iterator[None]:
    """Comes back to the present namespaces and directory at the end."""
    kinds = {"net": CLONE_NEWNET, "mnt": CLONE_NEWNS}
    here = {kind: os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds}
    directory = os.getcwd()
    try:
        yield
    finally:
        for kind, fd in here.items():
            _setns(fd, kinds[kind])
            os.close(fd)
        os.chdir(directory)


def _make_namespace(host: Host) -> Namespace:
    path = f"{DIRECTORY}/{host.role}"
    os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o444))
    with _home():
        _unshare(CLONE_NEWNET)
        _mount("/proc/self/ns/net", path, "none", MS_BIND)
        _unshare(CLONE_NEWNS)
        _mount("none", "/", "none", MS_PRIVATE_RECURSIVE)
        _mount("sysfs", "/sys", "sysfs", MS_NOSUID_NODEV_NOEXEC)
        _mount("tmpfs", VAR_RUN, "tmpfs", MS_NOSUID_NODEV_NOEXEC)
        for name, value in {**SYSCTLS, "net/ipv4/ip_forward": str(int(host.forwarding))}.items():
            with open(f"/proc/sys/{name}", "w") as file:
                file.write(value)
        flags = os.O_RDONLY | os.O_CLOEXEC
        return Namespace(host.role, os.open("/proc/self/ns/net", flags), os.open("/proc/self/ns/mnt", flags))


def _mount(source: str, target: str, kind: str, flags: int) -> None:
    if libc.mount(source.encode(), target.encode(), kind.encode(), flags, None):
        raise NetworkError(f"mounting {kind} {source} on {target}: {os.strerror(ctypes.get_errno())}")


def _setns(fd: int, kind: int) -> None:
    if libc.setns(fd, kind):
        raise NetworkError(f"entering a namespace: {os.strerror(ctypes.get_errno())}")


def _unshare(kind: int) -> None:
    if libc.unshare(kind):
        raise NetworkError(f"making a namespace: {os.strerror(ctypes.get_errno())}")


def _link(first: tuple[Host, Interface], second: tuple[Host, Interface]) -> str:
    def end(host: Host, port: Interface) -> str:
        return f"name {port.name} address {mac(port.address)} netns {host.role}"

    return f"link add {end(*first)} type veth peer {end(*second)}"


def _configuration(inventory: Inventory, host: Host) -> list[str]:
    """The lines for `ip -batch` inside the namespace. The alias of lo names the host in the kernel's captures."""
    lines = ["link set dev lo up", f"link set dev lo alias {host.role}"]
    for port, neighbour in inventory.neighbours(host):
        lines += [
            f"address add {port.address}/{inventory.prefix_length(port)} broadcast + dev {port.name}",
            f"link set dev {port.name} up",
            f"neighbour add {neighbour.address} lladdr {mac(neighbour.address)} nud permanent dev {port.name}",
        ]
    return lines + [f"route add {route.to} via {route.via}" for route in host.routes]


def _ip(lines: list[str]) -> None:
    """Have one `ip` process do all lines, in the present namespace. Raises NetworkError with what it said."""
    batch = os.memfd_create("ip-batch", 0)
    said = os.memfd_create("ip-errors", 0)
    os.write(batch, "".join(f"{line}\n" for line in lines).encode())
    os.lseek(batch, 0, os.SEEK_SET)
    pid = os.posix_spawn(
        IP,
        [IP, "-batch", "-"],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, batch, 0), (os.POSIX_SPAWN_DUP2, said, 2)],
    )
    failed = os.waitpid(pid, 0)[1]
    message = os.pread(said, 10_000, 0).decode(errors="replace").strip()
    os.close(batch)
    os.close(said)
    if failed:
        raise NetworkError(f"ip -batch: {message}; the lines were:\n" + "\n".join(lines))


def _switch_offloads_off(host: Host) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        for port in host.interfaces:
            for offload, command in OFFLOADS_OFF.items():
                _ethtool(control, host, port, f"switching {offload} off", struct.pack("=II", command, 0))
            _ethtool(control, host, port, f"switching {', '.join(FEATURES_OFF)} off", _features_off(control, host, port))


def _features_off(control: socket.socket, host: Host, port: Interface) -> bytes:
    """linux/ethtool.h: struct ethtool_sfeatures, with the bits of FEATURES_OFF valid and not requested."""
    names = struct.pack("=III", ETHTOOL_GSTRINGS, ETH_SS_FEATURES, 0) + bytes(FEATURES_MAX * ETH_GSTRING_LEN)
    said = _ethtool(control, host, port, "reading the names of features", names)
    (count,) = struct.unpack_from("=8xI", said)
    strings = [said[12 + ETH_GSTRING_LEN * bit :][:ETH_GSTRING_LEN].rstrip(b"\0").decode() for bit in range(count)]
    words = (count + 31) // 32
    valid = [0] * words
    for name in FEATURES_OFF:
        bit = strings.index(name)
        valid[bit // 32] |= 1 << bit % 32
    return struct.pack("=II", ETHTOOL_SFEATURES, words) + b"".join(struct.pack("=II", word, 0) for word in valid)


def _ethtool(control: socket.socket, host: Host, port: Interface, what: str, request: bytes) -> bytes:
    """One SIOCETHTOOL command; the request as the kernel has left it. Raises NetworkError."""
    value = ctypes.create_string_buffer(request, len(request))
    try:
        fcntl.ioctl(control, SIOCETHTOOL, struct.pack("16sP16x", port.name.encode(), ctypes.addressof(value)))
    except OSError as error:
        raise NetworkError(f"{host.role}: {what} on {port.name}: {error}") from error
    return value.raw
