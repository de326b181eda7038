# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run calibrate`: measures what packets of VPNs cost this machine's CPU.

Measures what packets of VPNs cost this machine's CPU, and writes that as a profile:
DIR/cpus/NAME.json, for `cpu=NAME --with DIR`. Each VPN carries UDP packets of two
lengths on the native engine, as fast as it can. A third length, which the profile does
not come from, shows how far it is off. docs/method/cpu.md has the method.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from openbach_run.campaign.options import Options
from openbach_run.campaign.request import Plan, plan_of
from openbach_run.campaign.run import run_with_progress
from openbach_run.catalog import Catalog, description
from openbach_run.commands.arguments import add_with, command_parser
from openbach_run.errors import InputError
from openbach_run.results.cpu_times import Seen, seen_in, vpns_of
from openbach_run.results.record import Record
from openbach_run.results.store import Store

KIND = "vpn-configs"
EPILOG = """\
examples:
  openbach-run calibrate my_laptop -o mine
  openbach-run calibrate my_laptop -o mine --vpn openvpn_udp,wireguard_go --repetitions 9
  openbach-run lan_udp vpn=openvpn_udp cpu=my_laptop --with mine
Only VPNs whose packets a program carries can be measured. Let nothing else run meanwhile.
"""
# More than any program in user space carries, so that the CPU is what limits.
UDP_RATE = "1G"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser("calibrate", __doc__, EPILOG)
    add = cli.add_argument
    add("name", metavar="NAME", help="of the profile")
    vpns = "openvpn_udp,openvpn_tcp,wireguard_go,nebula,tinc_switch"
    add("--vpn", metavar="VPN,…", default=vpns, help="default %(default)s")
    add("--payload-bytes", metavar="N,N", default="200,1300", help="lengths (default %(default)s)")
    text = "length for the check (default 700)"
    add("--check-bytes", metavar="N", type=int, default=700, help=text)
    add("--duration-s", metavar="S", type=int, default=5, help="of each measurement (default 5)")
    add("--repetitions", metavar="N", type=int, default=5, help="of each measurement (default 5)")
    add_with(cli, "your own additions")
    text = "where runs go"
    add("--results", metavar="DIR", type=Path, default=Path("results/calibrate"), help=text)
    add("-o", "--output", metavar="DIR", type=Path, default=Path(), help="default: this directory")
    add("--quiet", action="store_true", help="no progress")
    return cli


def main(argv: list[str]) -> int:
    """Measure, and write the profile; return the exit code. Raises InputError, SetupError."""
    arguments = parser().parse_args(argv)
    file = arguments.output / f"cpus/{arguments.name}.json"
    if Path(arguments.name).name != arguments.name or arguments.name in ("", ".", ".."):
        raise InputError(f"{arguments.name!r} is no name of a file")
    if file.exists():
        raise InputError(f"{file} is there already; remove it, or give another name")
    # All of it is checked first: a measurement takes minutes.
    payloads_bytes = lengths(arguments.payload_bytes, arguments.check_bytes)
    vpns = arguments.vpn.split(",")
    check_vpns(
        vpns, [*payloads_bytes, arguments.check_bytes], Catalog.beside_ours(arguments.with_dirs)
    )
    if arguments.repetitions < 1:
        raise InputError(f"--repetitions {arguments.repetitions}: at least 1")
    options = Options(
        engine="native", results=arguments.results, additions=tuple(arguments.with_dirs)
    )
    done = run_with_progress(
        plan_of_measurements(arguments, vpns, payloads_bytes, options),
        options,
        quiet=arguments.quiet,
    )
    if not done.is_good:
        return 1
    seen = seen_in_all(done.records, Store(arguments.results))
    profile = profile_of(arguments, done.records, seen, argv)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(profile, indent=2) + "\n")
    print(as_text(profile["vpns"], arguments.check_bytes))
    print(
        f"\nwrote {file}; ./openbach-run lan_tcp vpn={vpns[0]} cpu={arguments.name} --with"
        f" {arguments.output}"
    )
    return 0


def seen_in_all(records: Sequence[Record], store: Store) -> list[Seen]:
    """Return the measurements of the runs that contain enough; name the others on stderr.

    On a machine that is too busy, a job may be ended before it has reported its counters. Raises
    InputError if no run is left of a VPN at one of the lengths.
    """
    seen = []
    for record in records:
        try:
            seen += seen_in(record, store.runs / record.run_id)
        except InputError as error:
            print(f"openbach-run: left out: {error}", file=sys.stderr)
    # A profile needs every VPN at every length.
    pairs = {(sample.vpn, sample.payload_bytes) for sample in seen}
    for record in records:
        vpn, length = record.arguments["vpn"], int(record.arguments["payload_bytes"])
        if (vpn, length) not in pairs:
            raise InputError(
                f"no run of {vpn} with {length} bytes of payload says what its packets cost"
            )
    return seen


def lengths(text: str, check_bytes: int) -> list[int]:
    """Return the payload lengths in bytes, in ascending order. Raises InputError."""
    try:
        sizes = sorted({int(word) for word in text.split(",")})
    except ValueError:
        raise InputError(
            f"--payload-bytes {text}: should be numbers of bytes, like 200,1300"
        ) from None
    if len(sizes) < 2 or sizes[0] < 16:
        raise InputError(f"--payload-bytes {text}: at least two lengths, each of at least 16 bytes")
    if check_bytes in sizes:
        raise InputError(f"--check-bytes {check_bytes}: a length that is not among --payload-bytes")
    return sizes


def check_vpns(vpns: Sequence[str], payloads_bytes: Sequence[int], catalog: Catalog) -> None:
    """Check that the VPNs can be measured.

    Raises InputError for one that the kernel carries, or whose packets are too small for the
    longest payload.
    """
    for vpn in vpns:
        folder = catalog.find(KIND, vpn)
        if folder is None:
            raise InputError(
                f"--vpn {vpn}: there is no such VPN; there are"
                f" {', '.join(sorted(catalog.all(KIND)))}"
            )
        own = description(folder)
        # A variant has what its base has, unless it says otherwise.
        base = catalog.find(KIND, str(own["base"])) if "base" in own else None
        described = {**(description(base) if base else {}), **own}
        if described["runs_in"] != "user space":
            raise InputError(
                f"--vpn {vpn}: the kernel carries its packets, and says of none what it cost"
            )
        # 28 bytes: the headers of IPv4 and UDP.
        if max(payloads_bytes) + 28 > described["inner_mtu"]:
            most = described["inner_mtu"] - 28
            raise InputError(
                f"--vpn {vpn}: packets have at most {most} bytes of payload; give --payload-bytes"
            )


def plan_of_measurements(
    arguments: argparse.Namespace,
    vpns: Sequence[str],
    payloads_bytes: Sequence[int],
    options: Options,
) -> Plan:
    """Return the plan of the runs that measure."""
    payloads = ",".join(map(str, [*payloads_bytes, arguments.check_bytes]))
    settings = [f"vpn={','.join(vpns)}", f"payload_bytes={payloads}", "cc=reno", "rate=unlimited"]
    # No link stands in the way: neither a rate nor a delay.
    settings += ["delay_ms=0", f"udp_rate={UDP_RATE}", f"duration_s={arguments.duration_s}"]
    return plan_of("lan_udp", settings, str(arguments.repetitions), options)


def profile_of(
    arguments: argparse.Namespace,
    records: Sequence[Record],
    seen: Sequence[Seen],
    argv: Sequence[str],
) -> dict[str, Any]:
    """Return the content of the profile: the machine, the measurement, each VPN's costs."""
    identity = records[0].identity
    return {
        "description": f"Measured on {identity['cpu']}",
        "machine": {"name": platform.node(), "cpu": identity["cpu"], "kernel": identity["kernel"]},
        "measured": {
            "date": time.strftime("%Y-%m-%d"),
            "command": shlex.join(["openbach-run", "calibrate", *argv]),
            "repetitions": arguments.repetitions,
            "cpus_busy_with_others": busy_with_others(records),
        },
        "vpns": vpns_of(seen, arguments.check_bytes),
    }


def busy_with_others(records: Sequence[Record]) -> float:
    """Return how many of the machine's CPUs other programs kept busy meanwhile.

    It shows how far the errors can be trusted.
    """
    shares: list[float] = [
        record.measures["cpu_others_s"] / record.measures["cpu_window_s"] for record in records
    ]
    return round(median(shares), 2)


def as_text(vpns: dict[str, Any], check_bytes: int) -> str:
    """Return the costs of each VPN and direction as a table."""
    lines = [
        f"{'vpn':<16}{'':<10}{'ns/packet':>20}{'ns/byte':>20}{f'off at {check_bytes} bytes':>20}"
    ]
    for vpn, directions in vpns.items():
        for direction, times in directions.items():
            columns = [
                f"{times[name]:.{digits}f}"
                + (f" ± {times[error]:.{digits}f}" if error in times else "")
                for name, error, digits in (
                    ("ns_per_packet", "ns_per_packet_error", 0),
                    ("ns_per_byte", "ns_per_byte_error", 2),
                )
            ]
            off = f"{times[f'off_pct_at_{check_bytes}_bytes']:+.1f} %"
            lines.append(f"{vpn:<16}{direction:<10}{columns[0]:>20}{columns[1]:>20}{off:>20}")
    return "\n".join(lines)
