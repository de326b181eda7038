# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs' own code, as far as it needs no network.

Formulas, parsers, the packet filter, collect_agent.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import socket
import struct
from pathlib import Path
from typing import Any

import collect_agent
import pytest
from helpers.job_code import ROOT, load
from hypothesis import example, given
from hypothesis import strategies as st

from openbach_run.openbach.job import argv
from openbach_run.openbach.job_folders import load_packages

file_transfer, first_byte = load("file_transfer"), load("file_transfer", "first_byte")


@pytest.mark.parametrize(
    ("text", "size"),
    [("30M", 30_000_000), ("1k", 1000), ("2G", 2 * 10**9), ("1.5M", 1_500_000), ("7", 7)],
)
def test_sizes_are_decimal(text: str, size: int) -> None:
    assert file_transfer.size_bytes(text) == size


@given(st.text(max_size=6))
@example("1e999")
@example("inf")
def test_sizes_are_whole_bytes_or_refused(text: str) -> None:
    try:
        size = file_transfer.size_bytes(text)
    except (argparse.ArgumentTypeError, ValueError):
        return
    assert size >= 1


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_port_that_is_taken_is_named_with_its_program(
    family: socket.AddressFamily, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of an iperf3 server that an earlier run has left: the new one says only that it ended."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    (tmp_path / "iperf3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "iperf3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("openbach_jobs.ports.is_listening", lambda port: False)
    with socket.create_server(("", 0), family=family) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(
            SystemExit, match=rf"exit code 1; port {port} is taken by .* \(process {os.getpid()}\)"
        ):
            file_transfer.serve(file_transfer.parse(["--port", str(port), "server"]))


def test_a_control_port_that_is_taken() -> None:
    control = importlib.import_module("openbach_jobs.control")
    with socket.create_server(("", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(
            SystemExit, match=rf"control port {port}: .*; port {port} is taken by .*{os.getpid()}"
        ):
            control.serve(port, lambda request, peer_ip: {})


def passes(packet: bytes) -> bool:
    """Runs the classic BPF program of file_transfer on a packet."""
    of_version = "first_byte_filter_ipv6" if packet[0] >> 4 == 6 else "first_byte_filter"
    code = [*struct.iter_unpack("HBBI", getattr(first_byte, of_version)(5201))]
    accumulator = index = at = 0
    while True:
        operation, true, false, k = code[at]
        at += 1
        match operation:
            case 0x30:
                accumulator = packet[k]
            case 0x28:
                accumulator = struct.unpack_from("!H", packet, k)[0]
            case 0x48:
                accumulator = struct.unpack_from("!H", packet, index + k)[0]
            case 0x50:
                accumulator = packet[index + k]
            case 0xB1:
                index = 4 * (packet[k] & 0xF)
            case 0x54:
                accumulator &= k
            case 0x15:
                at += true if accumulator == k else false
            case 0x25:
                at += true if accumulator > k else false
            case 0x45:
                at += true if accumulator & k else false
            case 0x06:
                return bool(k)
            case _:
                raise AssertionError(hex(operation))


def tcp(
    source: int, destination: int, flags: int, length: int, options: int = 0, fragment: int = 0
) -> bytes:
    header = struct.pack(
        "!BBHHHBBH8x", 0x45 + options // 4, 0, length, 1, fragment, 64, 6, 0
    ) + bytes(options)
    return header + struct.pack("!HHIIBB6x", source, destination, 0, 0, 0x50, flags)


def tcp_ipv6(source: int, destination: int, flags: int, length: int) -> bytes:
    header = struct.pack("!IHBB32x", 0x6 << 28 | 0xFFFFF, length, 6, 64)
    return header + struct.pack("!HHIIBB6x", source, destination, 0, 0, 0x50, flags)


@pytest.mark.parametrize(
    ("packet", "taken"),
    [
        (tcp(40000, 5201, 0x02, 60), True),
        (tcp_ipv6(40000, 5201, 0x02, 40), True),
        (tcp_ipv6(40000, 5201, 0x12, 40), False),
        (tcp_ipv6(40000, 5201, 0x10, 1440), False),
        (tcp_ipv6(5201, 40000, 0x10, 1440), True),
        (tcp_ipv6(5201, 40000, 0x18, 33), False),
        (tcp_ipv6(80, 40000, 0x10, 1440), False),
        (tcp(40000, 5201, 0x12, 60), False),
        (tcp(40000, 5201, 0x10, 1500), False),
        (tcp(5201, 40000, 0x10, 1500), True),
        (tcp(5201, 40000, 0x10, 1500, options=8), True),
        (tcp(5201, 40000, 0x18, 53), False),
        (tcp(5201, 40000, 0x10, 1500, fragment=100), False),
        (tcp(80, 40000, 0x10, 1500), False),
    ],
)
def test_first_byte_filter(packet: bytes, taken: bool) -> None:
    assert passes(packet) is taken


@pytest.mark.parametrize("name", sorted(folder.parent.name for folder in ROOT.glob("jobs/*/files")))
def test_each_job_is_a_whole_package(name: str) -> None:
    files = ["README.md", "packages.txt"]
    files += [f"files/{name}{suffix}" for suffix in (".yml", ".help", ".py", "_rstats_filter.conf")]
    assert not [file for file in files if not (ROOT / "jobs" / name / file).exists()]


def test_argv_order_required_optionals_switches_subcommand() -> None:
    jobs = {
        name: package.job
        for name, package in load_packages([ROOT / "tests/data/job_schemas.json"]).items()
    }
    values = {
        "port": [[5201]],
        "reverse": True,
        "client": {"server_ip": [["10.0.0.2"]], "tcp": {"mss": [[1400]]}},
    }
    words = argv(jobs["iperf3"].arguments, values)
    assert words == ["-p", "5201", "-R", "client", "10.0.0.2", "tcp", "-M", "1400"]


@pytest.fixture
def statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "statistics.jsonl"
    for name, value in {
        "OPENBACH_STATISTICS": str(file),
        "JOB_NAME": "toy",
        "JOB_INSTANCE_ID": "3",
        "SCENARIO_INSTANCE_ID": "2",
        "OWNER_SCENARIO_INSTANCE_ID": "1",
        "OPENBACH_AGENT_NAME": "satvpn_pc",
    }.items():
        monkeypatch.setenv(name, value)
    return file


def test_statistics_have_the_collectors_form(statistics: Path) -> None:
    assert collect_agent.send_stat(1795216367675, suffix="Flow1", rate=1.5) == "OK"
    assert json.loads(statistics.read_text()) == {
        "rate": 1.5,
        "_metadata": {
            "time": 1795216367675,
            "is_file": False,
            "job_name": "toy",
            "agent_name": "satvpn_pc",
            "job_instance_id": 3,
            "scenario_instance_id": 2,
            "owner_scenario_instance_id": 1,
            "suffix": "Flow1",
            "flag": 3,
        },
    }


def test_statistics_that_cannot_be_sent(statistics: Path) -> None:
    assert collect_agent.send_stat(1, rate=1).startswith("KO")
    with pytest.raises(ValueError, match="rate"):
        collect_agent.send_stat(1795216367675, rate=object())


@pytest.mark.parametrize(
    ("raised", "seen"), [(ValueError("broken"), ValueError), (SystemExit("sorry"), SystemExit)]
)
def test_failures_are_logged_and_go_on(
    raised: Any, seen: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(seen), collect_agent.use_configuration("x.conf"):
        raise raised
    assert str(raised) in capsys.readouterr().err
