# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run exec`: commands on a path's hosts in virtual time, in the real guest."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.guest_runs import RunCells, command

GEO = ("exec", "geo", "vpn=wireguard", "cc=cubic", "loss=1")
JOB = (
    "job file_transfer --http none client 192.168.20.2 300k --direction download --duration-s 0"
    " --warm-up none --streams 1 --cc cubic"
)


def test_pings_cross_the_satellite() -> None:
    done = command(
        "exec", "geo", "vpn=wireguard", "cc=cubic", "loss=0", "--", "pc", "ping -c 5 server"
    )
    assert done.returncode == 0, done.stderr
    times = re.findall(r"icmp_seq=(\d) ttl=62 time=([\d.]+) ms", done.stdout)
    assert times == [(str(number), "500") for number in range(1, 6)]
    assert "pc ping -c 5 server" in done.stderr


def test_mtr_names_the_hops_of_the_tunnel() -> None:
    line = "mtr --report --report-cycles 4 --no-dns server"
    words = ("exec", "geo", "vpn=wireguard", "cc=cubic", "loss=0", "--", "pc", line)
    done = command(*words)
    assert done.returncode == 0, done.stderr
    hops = re.findall(r"\d\.\|-- (\S+) +0\.0% +4 +([\d.]+)", done.stdout)
    assert hops == [("192.168.10.1", "0.0"), ("10.200.0.1", "500.0"), ("192.168.20.2", "500.0")]
    assert command(*words).stdout == done.stdout


def test_the_same_words_print_the_same() -> None:
    first = command(*GEO, "--", "pc", "ping -c 30 server", "box", "wg show all transfer; date +%N")
    again = command(*GEO, "--", "pc", "ping -c 30 server", "box", "wg show all transfer; date +%N")
    other = command(*GEO, "--seed", "2", "--", "pc", "ping -c 30 server")
    assert first.returncode == 0, first.stderr
    assert (first.stdout, first.stderr) == (again.stdout, again.stderr)
    assert not first.stdout.startswith(other.stdout), "another seed loses other packets"


@pytest.mark.parametrize("vpn", ["none", "wireguard", "openvpn_udp"])
def test_the_scenarios_job_measures_the_same_to_the_digit(vpn: str, run_cells: RunCells) -> None:
    (own,) = run_cells("geo", f"vpn={vpn}", "cc=cubic", "loss=1", "size=300k", "--seeds", "1")
    done = command("exec", "geo", f"vpn={vpn}", "cc=cubic", "loss=1", "--", "pc", JOB)
    assert done.returncode == 0, done.stderr
    sent = json.loads(done.stdout)
    assert sent["transfer_time_s"] == own.statistic("file_transfer", "transfer_time_s")
    assert sent["retransmits"] == own.statistic("file_transfer", "retransmits")


def test_commands_at_once_files_and_exit_codes(tmp_path: Path) -> None:
    program = tmp_path / "say"
    program.write_text("#!/bin/sh\necho $1 from $(uname -n) >> said\nexit $2\n")
    program.chmod(0o755)
    script = tmp_path / "lines"
    script.write_text(
        "st tcpdump -i to_sat -c 2 -w st.pcap &\n"
        "server trap '' TERM; sleep 10000 &\n"
        "pc ping -c 1 server > /dev/null\n"
        "server ./say hello 7\n"
        "pc sleep 1; cat said; pwd; ls /root\n"
        "pc kill -9 $$\n"
        "pc rm say; ln -s /etc/passwd link\n"
    )
    out = tmp_path / "out"
    done = command(
        *("exec", "geo", "vpn=none", "cc=cubic", "--file", str(program)),
        *("--script", str(script), "-o", str(out)),
    )
    assert done.returncode == 1, done.stderr
    assert "hello from" in done.stdout
    assert "/home\n" in done.stdout
    assert re.search(r" s  server ./say: exit code 7\n", done.stderr)
    assert re.search(r" s  pc kill: ended by SIGKILL\n", done.stderr)
    assert "ended with the run: server trap '' TERM; sleep 10000 &\n" in done.stderr
    assert "st: 2 packets captured\n" in done.stderr
    assert sorted(one.name for one in out.iterdir()) == ["said", "st.pcap"]
    assert program.exists()


def test_a_command_that_waits_for_ever_is_named() -> None:
    done = command("exec", "geo", "vpn=none", "cc=cubic", "--limit", "60", "--", "pc", "sleep inf")
    assert done.returncode == 1
    assert "did not end: pc sleep inf" in done.stderr
    assert "not finished after 60 s" in done.stderr


def test_a_path_that_does_not_come_up_says_why() -> None:
    done = command(
        *("exec", "geo", "vpn=wireguard", "cc=cubic", "loss=100", "--", "pc", "echo never")
    )
    assert done.returncode == 1
    assert "never" not in done.stdout
    assert "Error, exit code 1" in done.stderr
