# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run capture RUN --at HOST[/INTERFACE] -o FILE`: writes a capture of one host.

Takes from a run's capture, which has all packets of all hosts as they leave an interface,
those of one host or interface, in both directions, as tcpdump there would have them.
Addresses of hosts have their names.

  openbach-run geo vpn=wireguard cc=cubic --pcap --keys
  openbach-run capture results/geo/runs/RUN --at st -o st.pcapng
  openbach-run capture results/geo/runs/RUN --at server/to_pop -o server.pcap

FILE.pcapng is for Wireshark and tshark; FILE.pcap for older tools, as tcptrace. Of a run
with --keys FILE.pcapng has the keys of WireGuard's tunnels: Wireshark shows what is in them.
The qlog of QUIC is in the run's files.tar.gz.
Without --at and -o the interfaces are listed, with the packets that leave each. --check
computes the run's capture_hash from the packets, and compares (10 s for each GB).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from openbach_run.commands.arguments import command_parser
from openbach_run.errors import InputError
from openbach_run.openbach.refusals import near
from openbach_run.results import run_files, run_json
from openbach_run.results.captures import (
    CAPTURE,
    INBOUND,
    KEYS,
    OUTBOUND,
    UNKNOWN,
    Packet,
    PcapngWriter,
    PcapWriter,
    check_capture,
    differing_packets,
    hash_of_packets,
    packets,
)
from openbach_run.topology.hosts import Inventory


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser("capture", __doc__)
    cli.add_argument(
        "run", metavar="RUN", type=Path, help="a run's directory, results/NAME/runs/RUN_ID"
    )
    cli.add_argument("--at", metavar="HOST[/INTERFACE]", help="of which host or interface")
    cli.add_argument(
        "--check", action="store_true", help="compute the run's capture_hash from the packets"
    )
    cli.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="what to write: FILE.pcapng or FILE.pcap"
    )
    return cli


def main(argv: list[str]) -> int:
    """Write a capture, or list the interfaces; return the exit code. Raises InputError."""
    arguments = parser().parse_args(argv)
    run_dir: Path = arguments.run
    if not (run_dir / CAPTURE).is_file():
        raise InputError(f"{run_dir}: has no {CAPTURE}; run it with --pcap")
    if (arguments.at is None) != (arguments.output is None):
        raise InputError("--at HOST[/INTERFACE] and -o FILE go together")
    with suppress(FileNotFoundError):  # a run that was ended from outside has no record
        check_capture(run_dir, run_files.document(run_dir, "record.json"), hashed=True)
    if arguments.check:
        return _check(run_dir)
    if arguments.at is None:
        for name, count in _counted(run_dir / CAPTURE).items():
            print(f"{count:9} {name}")
        return 0
    output: Path = arguments.output
    if output.suffix not in (".pcapng", ".pcap"):
        raise InputError(f"-o {output}: should end in .pcapng or .pcap")
    inventory = run_json.inventory(run_dir)
    # The format of .pcap has no place for keys.
    keys = b"" if output.suffix == ".pcap" else _keys(run_dir)
    count = _write(run_dir / CAPTURE, inventory, keys, arguments.at, output)
    print(f"{output}: {count} packets{', with the keys of WireGuard' if keys else ''}")
    return 0


def _check(run_dir: Path) -> int:
    """Compare the hash that the packets have with the record's; return the exit code."""
    recorded = run_files.document(run_dir, "record.json")["capture_hash"]
    computed = hash_of_packets(run_dir / CAPTURE)
    differs = differing_packets(recorded, computed)
    print(f"{computed}{f': {differs} ({recorded})' if differs else ', as in the record'}")
    return 1 if differs else 0


def _keys(run_dir: Path) -> bytes:
    """Return the keys that the run has kept; empty if it kept none."""
    try:
        return run_files.content(run_dir, KEYS)
    except FileNotFoundError:
        return b""


def _counted(capture: Path) -> dict[str, int]:
    """Return the number of packets that leave each interface, by its name."""
    counted: dict[str, int] = {}
    for packet in packets(capture):
        counted[packet.interface] = counted.get(packet.interface, 0) + 1
    return dict(sorted(counted.items()))


def _write(capture: Path, inventory: Inventory, keys: bytes, at: str, output: Path) -> int:
    """Write the packets at a host or interface; return their number.

    A file with keys is readable for this user alone.
    """
    stream = _at(capture, inventory, at)
    # The first packet is taken here, as a file without packets would be a mistake in --at.
    first = next(stream, None)
    if first is None:
        ports = list(_counted(capture))
        hosts = [name.partition("/")[0] for name in ports]
        raise InputError(
            f"--at {at}: no packet there; {near(at, [*ports, *hosts])}there are {', '.join(ports)}"
        )
    # Under another name until it is whole: an interruption leaves no half file.
    new, count = output.with_name(f".{output.name}.new"), 0
    new.unlink(missing_ok=True)
    try:
        with open(new, "wb", opener=partial(os.open, mode=0o600 if keys else 0o666)) as file:
            writer = (
                PcapWriter(file)
                if output.suffix == ".pcap"
                else PcapngWriter(file, names(inventory), keys)
            )
            for packet, interface, direction in (first, *stream):
                writer.write(packet, interface, direction)
                count += 1
        new.replace(output)
    finally:
        new.unlink(missing_ok=True)
    return count


def _at(capture: Path, inventory: Inventory, at: str) -> Iterator[tuple[Packet, str, int]]:
    """Yield the packets at a host or interface, each with the interface and its direction there.

    A tunnel's interface has no other end: the capture has both directions of its packets, and does
    not tell which is which.
    """
    opposite = far_ends(inventory)
    for packet in packets(capture):
        other = opposite.get(packet.interface)
        places = (
            [(packet.interface, UNKNOWN)]
            if other is None
            else [(packet.interface, OUTBOUND), (other, INBOUND)]
        )
        for name, direction in places:
            if name == at or name.startswith(f"{at}/"):
                yield packet, name, direction


def far_ends(inventory: Inventory) -> dict[str, str]:
    """Return the interface where packets arrive, by the interface that they leave.

    It is the other end of its veth pair (guest/network.py).
    """
    far: dict[str, str] = {}
    for network, ends in inventory.attached():
        # Two hosts have a veth pair; more have a pair each with the bridge that is the network.
        ports = [f"{host.name}/{port.name}" for host, port in ends]
        pairs = list(zip(ports, (f"{network}/{host.name}" for host, _ in ends), strict=True))
        for end, other in [(ports[0], ports[1])] if len(ports) == 2 else pairs:
            far |= {end: other, other: end}
    return far


def names(inventory: Inventory) -> dict[str, str]:
    """Return address → name of the host."""
    hosts: dict[str, str] = {}
    for host in inventory.hosts:
        for port in host.interfaces:
            hosts |= {address: host.name for address in (port.address, port.ipv6) if address}
    return hosts
