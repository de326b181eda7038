# SPDX-License-Identifier: GPL-3.0-or-later
"""The capture of one host or interface.

Both directions, names, and every recipe of docs/captures.md.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from pathlib import Path

import pytest
from helpers import own_files
from helpers.guest_runs import REPOSITORY, Run, RunCells, command, records

from openbach_run.engine.virtual.debian import ensure_tools
from openbach_run.results.captures import KEYS, hash_of_packets, packets


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands of the page have been typed."""
    place = tmp_path_factory.mktemp("captures")
    for line in own_files.commands("captures.md", but="quic_split"):  # needs Go
        run_id = records(place / "results/captured")[0].row["run_id"] if "RUN" in line else ""
        done = command(*line.replace("RUN", run_id).split()[1:], cwd=place)
        assert done.returncode == 0, done.stderr
    return place


@pytest.fixture(scope="module")
def run(place: Path) -> Run:
    return records(place / "results/captured")[0]


def tshark(file: Path, *words: str) -> list[str]:
    ensure_tools({"tshark": "tshark"})
    done = subprocess.run(
        ["tshark", "-r", file, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()


def test_an_interface_has_both_directions(run: Run, place: Path) -> None:
    left = Counter(packet.interface for packet in packets(run.capture))
    sources = Counter(tshark(place / "server.pcap", "-T", "fields", "-e", "ip.src"))
    assert sources["192.168.20.2"] == left["server/to_pop"] > 100
    assert sum(sources.values()) == left["server/to_pop"] + left["pop/to_server"]


def test_a_host_has_its_interfaces_directions_and_names(run: Run, place: Path) -> None:
    left = Counter(packet.interface for packet in packets(run.capture))
    fields = ["-T", "fields", "-e", "frame.interface_name", "-e", "frame.packet_flags_direction"]
    seen = Counter(tuple(line.split("\t")) for line in tshark(place / "st.pcapng", *fields))
    directions = {(name, int(direction, 0)): count for (name, direction), count in seen.items()}
    assert directions[("st/to_sat", 2)] == left["st/to_sat"]
    assert directions[("st/to_sat", 1)] == left["sat/to_st"]
    assert {name.partition("/")[0] for name, _ in directions} == {"st"}
    assert {"gw", "st"} <= set(" ".join(tshark(place / "st.pcapng", "-N", "n", "-c", "20")).split())


@pytest.mark.parametrize(
    "line",
    re.findall(r"^(?:tshark|tcptrace) .*$", (REPOSITORY / "docs/captures.md").read_text(), re.M),
)
def test_the_recipes_of_the_page(line: str, run: Run, place: Path) -> None:
    ensure_tools({"tshark": "tshark", "tcptrace": "tcptrace"})
    (place / "graphs").mkdir(exist_ok=True)
    shutil.copy(run.record / KEYS, place)
    done = subprocess.run(line.split(), cwd=place, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if line.startswith("tcptrace"):
        assert list((place / "graphs").glob("*_tsg.xpl"))
    elif "retransmission" not in line:  # without loss there is none
        assert len(done.stdout.splitlines()) > 5


def test_tshark_decrypts_wireguard_with_the_keys_and_not_without(run: Run, place: Path) -> None:
    """Away from the tunnel's ends the transfer is to be seen in WireGuard's packets alone."""
    keys = run.record / KEYS
    wanted = ["-Y", "wg && tcp", "-T", "fields", "-e", "tcp.len"]
    found = [
        tshark(place / "st.pcapng", *wanted),
        tshark(place / "st.pcap", "-o", f"wg.keylog_file:{keys}", *wanted),
    ]
    for lengths in found:
        assert sum(map(int, lengths)) >= 1_000_000
    assert len(found[0]) > len(found[1])  # of both interfaces, and of one
    assert tshark(place / "st.pcap", *wanted) == []
    assert len(tshark(place / "st.pcap", "-Y", "wg")) > len(found[1])
    for file in (keys, place / "st.pcapng"):
        assert file.stat().st_mode & 0o777 == 0o600


def test_the_keys_are_in_no_other_file_and_change_no_packet(
    run: Run, place: Path, run_cells: RunCells
) -> None:
    (without,) = run_cells("geo", "vpn=wireguard", "cc=cubic", "size=1M", "loss=0")
    assert run.row["capture_hash"] == without.row["capture_hash"] == hash_of_packets(run.capture)
    assert not (without.record / KEYS).exists()
    secret = [
        line.split(" = ")[1]
        for line in (run.record / KEYS).read_text().splitlines()
        if "PRIVATE" in line
    ]
    assert len(set(secret)) == 4  # of both ends: static and ephemeral
    for file in (place / "results").rglob("*"):
        if file.is_file() and file.name != KEYS:
            content = file.read_bytes()
            assert not any(
                one.encode() in content or b64decode(one) in content for one in secret
            ), file


def test_what_is_not_there_is_named(run: Run, place: Path, tmp_path: Path) -> None:
    record = str(next((place / "results/captured/runs").iterdir()))
    for words, said in (
        (("--at", "serverr", "-o", "x.pcapng"), "did you mean server?"),
        (("--at", "server", "-o", "x.txt"), "should end in .pcapng or .pcap"),
        (("--at", "server"), "go together"),
        (("--at", "box", "-o", "x.pcap"), "write a .pcapng file"),
    ):
        done = command("capture", record, *words, cwd=tmp_path)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())
    done = command("capture", str(tmp_path))
    assert done.returncode == 2 and "run it with --pcap" in done.stderr


def test_a_full_disk_ends_the_guest_and_is_named(tmp_path: Path) -> None:
    """Nobody reads the guest's packets any more then: it would wait for ever."""
    run = subprocess.list2cmdline(
        [
            sys.executable,
            "-m",
            "openbach_run",
            "geo",
            "vpn=none",
            "cc=cubic",
            "size=3M",
            "--pcap",
            "--quiet",
        ]
    )
    unshare = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    small = f"mount -t tmpfs -o size=3m none {tmp_path} && exec {run} --results {tmp_path}/results"
    done = subprocess.run(
        [*unshare, "sh", "-c", small],
        check=False,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
    )
    assert done.returncode == 1, done.stderr
    assert "No space left on device: " in done.stderr
    assert "capture.pcapng'. What finished is kept" in done.stderr
    assert "Traceback" not in done.stderr
