# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what both ends of a split connection see of each other.

It is, as nearly as a split allows, what they would have seen without it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import satpep
from lab import (
    CLIENT,
    LIMIT_S,
    ROOT,
    SERVER,
    Lab,
    StartSatpep,
    fill,
    receive_all,
    reset,
    silence,
    until,
)
from soak import soak

MEGABYTE = 1_000_000
CAP_NET_BIND_SERVICE, CAP_NET_ADMIN = 10, 12  # linux/capability.h


def send_all(end: socket.socket, data: bytes, seed: int) -> None:
    """Send the data in pieces of many sizes, then a FIN."""
    random_sizes = random.Random(seed)
    while data:
        size = random_sizes.choice((1, 100, 1448, 5000, 100_000))
        end.sendall(data[:size])
        data = data[size:]
    end.shutdown(socket.SHUT_WR)


def ss(lab: Lab, peer: str) -> str:
    """Return what `ss -tim` shows on the host pep of the leg to a peer (address:port)."""
    with lab.inside("pep"):
        lines = lab.run("ss", "-tinmHOa").splitlines()
    (line,) = [line for line in lines if line.split()[4] == peer]
    return line


@pytest.mark.parametrize("family", [4, 6])
def test_both_ends_keep_their_addresses(lab: Lab, satpep: StartSatpep, family: int) -> None:
    satpep()
    client, server = lab.pair(lab.listen(family), family)
    assert client.getpeername()[:2] == (SERVER[family], 80)
    assert server.getpeername()[:2] == client.getsockname()[:2]
    assert client.getsockname()[0] == CLIENT[family]


@pytest.mark.parametrize("family", [4, 6])
def test_bytes_arrive_as_they_were_sent_in_both_directions_at_once(
    lab: Lab, satpep: StartSatpep, family: int
) -> None:
    running = satpep()
    client, server = lab.pair(lab.listen(family), family)
    up, down = os.urandom(3 * MEGABYTE), os.urandom(4 * MEGABYTE)
    with ThreadPoolExecutor(4) as threads:
        threads.submit(send_all, client, up, 1)
        threads.submit(send_all, server, down, 2)
        at_client, at_server = (
            threads.submit(receive_all, client),
            threads.submit(receive_all, server),
        )
    assert hashlib.sha256(at_client.result()).digest() == hashlib.sha256(down).digest()
    assert hashlib.sha256(at_server.result()).digest() == hashlib.sha256(up).digest()
    (ended,) = running.ended()
    assert (ended["outcome"], ended["bytes_to_server"], ended["bytes_to_client"]) == (
        "closed",
        len(up),
        len(down),
    )


def test_nothing_is_lost_when_the_server_closes_while_all_buffers_are_full(
    lab: Lab, satpep: StartSatpep
) -> None:
    """The receiver begins to read only when the server has sent everything and closed."""
    satpep("--client", "sndbuf=32k", "--server", "rcvbuf=32k", "--pipe", "16k")
    client, server = lab.pair(lab.listen(SO_SNDBUF=1 << 22))
    data = os.urandom(2 * MEGABYTE)
    server.sendall(data)
    server.close()
    until(lambda: len(select.select([client], [], [], 0)[0]), "first byte")
    assert hashlib.sha256(receive_all(client)).digest() == hashlib.sha256(data).digest()


@pytest.mark.parametrize("first", ["client", "server"])
def test_a_half_closed_connection_goes_on_in_the_other_direction(
    lab: Lab, satpep: StartSatpep, first: str
) -> None:
    running = satpep()
    client, server = lab.pair(lab.listen())
    one, other = (client, server) if first == "client" else (server, client)
    one.sendall(b"last words")
    one.shutdown(socket.SHUT_WR)
    assert receive_all(other) == b"last words"
    other.sendall(b"x" * MEGABYTE)
    other.close()
    assert len(receive_all(one)) == MEGABYTE
    assert running.ended()[0]["outcome"] == "closed"


def test_a_server_may_speak_first(lab: Lab, satpep: StartSatpep) -> None:
    satpep("-f")
    client, server = lab.pair(lab.listen())
    server.sendall(b"220 ready")
    assert client.recv(100) == b"220 ready"


@pytest.mark.parametrize("resetter", ["client", "server"])
def test_a_reset_arrives_after_the_bytes_before_it(
    lab: Lab, satpep: StartSatpep, resetter: str
) -> None:
    running = satpep()
    client, server = lab.pair(lab.listen())
    one, other = (client, server) if resetter == "client" else (server, client)
    one.sendall(b"y" * 100_000)
    until(
        lambda: running.totals()[f"bytes_to_{'server' if one is client else 'client'}"] == 100_000,
        "100 000 bytes",
    )
    reset(one)
    received = 0
    with pytest.raises(ConnectionResetError):
        while data := other.recv(1 << 16):
            received += len(data)
    assert received == 100_000
    assert running.ended()[0]["outcome"] == f"{resetter} reset"


@pytest.mark.parametrize("resetter", ["client", "server"])
def test_a_reset_is_passed_on_while_the_other_direction_is_stalled(
    lab: Lab, satpep: StartSatpep, resetter: str
) -> None:
    satpep()
    client, server = lab.pair(lab.listen())
    one, other = (client, server) if resetter == "client" else (server, client)
    other.setblocking(False)
    sent = fill(other)
    assert sent > 0
    reset(one)
    until(
        lambda: (
            other.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 104 or not is_established(other)
        ),
        "reset",
    )


def is_established(end: socket.socket) -> bool:
    """Return whether a connection is established, by TCP_INFO."""
    return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == 1


def test_a_refusing_server_is_a_reset(lab: Lab, satpep: StartSatpep) -> None:
    running = satpep()
    with pytest.raises(ConnectionResetError):
        lab.connect().recv(1)
    assert running.ended()[0]["outcome"] == "refused"


@pytest.mark.parametrize("kind", ["unreachable", "prohibit", "blackhole"])
def test_an_unreachable_server_is_a_reset(lab: Lab, satpep: StartSatpep, kind: str) -> None:
    running = satpep()
    with lab.inside("pep"):
        lab.run("ip", "route", "add", kind, f"{SERVER[4]}/32")
    with pytest.raises(ConnectionResetError):
        lab.connect().recv(1)
    assert running.ended()[0]["outcome"] == "unreachable"


def test_a_silent_server_is_a_reset_after_the_time_out(lab: Lab, satpep: StartSatpep) -> None:
    running = satpep("--connect-timeout", "1")
    silence(lab)
    with pytest.raises(ConnectionResetError):
        lab.connect().recv(1)
    ended = running.ended()[0]
    assert ended["outcome"] == "timed out"
    assert 1 <= ended["duration_s"] < 30, "not by the time-out of other runs"


def test_a_client_that_gives_up_while_the_server_is_silent_leaves_nothing(
    lab: Lab, satpep: StartSatpep
) -> None:
    running = satpep()
    silence(lab)
    reset(lab.connect())
    assert running.ended()[0]["outcome"] == "client reset"


def test_a_silent_connection_is_reset_after_its_lifetime(lab: Lab, satpep: StartSatpep) -> None:
    running = satpep("-t", "1")
    client, server = lab.pair(lab.listen())
    for end in (client, server):
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    assert running.ended()[0]["outcome"] == "idle"


def test_backpressure_bounds_what_a_stalled_connection_holds(lab: Lab, satpep: StartSatpep) -> None:
    """Stop the sender of a receiver that does not read.

    The proxy holds no more than its buffers and its pipe.
    """
    running = satpep(
        "--client", "sndbuf=64k,rcvbuf=64k", "--server", "sndbuf=64k,rcvbuf=64k", "--pipe", "64k"
    )
    client, server = lab.pair(lab.listen())
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
    client.setblocking(False)
    sent = fill(client)
    in_ends = sum(
        end.getsockopt(socket.SOL_SOCKET, which) for end in (client, server) for which in (7, 8)
    )
    assert running.totals()["bytes_to_server"] <= sent <= in_ends + 3 * (64 << 10)


def test_many_connections_leave_no_descriptor_and_no_memory(lab: Lab, satpep: StartSatpep) -> None:
    running = satpep("-c", "4000")
    before = running.descriptors()
    listener = lab.listen()
    for _ in range(3):
        pairs = [lab.pair(listener) for _ in range(500)]
        for client, server in pairs:
            client.sendall(b"ping")
            assert server.recv(4) == b"ping"
        for client, server in pairs:
            client.close()
            server.close()
    running.ended(1500)
    totals = running.totals()
    assert (totals["connected"], totals["open"]) == (1500, 0)
    assert running.descriptors() - before <= 4  # pipes that were kept


def test_beyond_its_limit_connections_pass_by(lab: Lab, satpep: StartSatpep) -> None:
    """Pass connections beyond the limit by, unsplit.

    None that it has is hurt, and when there is room again it takes new ones; the ones that passed
    stay.
    """
    running = satpep("-c", "10")
    listener = lab.listen()
    pairs = [lab.pair(listener) for _ in range(15)]
    assert running.totals()["open"] == 10
    assert running.events("full")[0]["open"] == 10
    for client, server in pairs[:10]:
        client.close()
        server.close()
    running.ended(10)
    pairs[:10] = [lab.pair(listener)]
    for client, server in pairs:
        client.sendall(b"question")
        assert server.recv(8) == b"question"
        server.sendall(b"answer")
        assert client.recv(6) == b"answer"
    totals = running.totals()
    assert (totals["open"], totals["most_open"], totals["bytes_to_server"]) == (1, 10, 8)
    assert running.events("room")


@pytest.mark.parametrize("family", [4, 6])
def test_a_client_with_all_its_connections_leaves_the_others_theirs(
    lab: Lab, satpep: StartSatpep, family: int
) -> None:
    running = satpep("--per-client", "3")
    listener = lab.listen(family)
    pairs = [lab.pair(listener, family) for _ in range(5)]
    assert running.totals()["open"] == 3
    other = {4: "10.1.0.3", 6: "fd01::3"}[family]
    with lab.inside("client"):
        address = [f"{other}/24"] if family == 4 else [f"{other}/64", "nodad"]
        lab.run("ip", "address", "add", "dev", "to_pep", *address)
    client = lab.new_socket("client", family)
    client.bind((other, 0))
    client.connect((SERVER[family], 80))
    assert listener.accept()[1][0] == other
    assert running.totals()["open"] == 4
    for ends in pairs[0]:
        ends.close()
    running.ended()
    pairs.append(lab.pair(listener, family))
    assert running.totals()["open"] == 4


def test_with_few_descriptors_it_serves_fewer_and_copies(lab: Lab, satpep: StartSatpep) -> None:
    """Serve eight connections, a pipe and a late one with 32 descriptors and ten pairs."""
    running = satpep("-c", "500", descriptors=52)
    listener = lab.listen()
    data = os.urandom(MEGABYTE)
    pairs = [lab.pair(listener) for _ in range(8)]
    with ThreadPoolExecutor(20) as threads:
        for seed, (client, server) in enumerate(pairs):
            threads.submit(send_all, client, data, seed)
            threads.submit(server.shutdown, socket.SHUT_WR)
        received = [threads.submit(receive_all, server) for _, server in pairs]
    assert all(one.result() == data for one in received)
    running.ended(8)
    exit_code, said = running.stop()
    assert exit_code == 0
    assert "8 connections at a time instead of 500" in said


def test_a_syn_flood_takes_no_connection_from_others(lab: Lab, satpep: StartSatpep) -> None:
    """Send 20 000 SYNs from addresses that do not answer.

    The kernel answers with cookies, the proxy never hears of them.
    """
    running = satpep()
    listener = lab.listen()
    with lab.inside("client"):
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    addresses = random.Random(1)
    for _ in range(20_000):
        raw.sendto(
            syn(
                f"10.1.0.{addresses.randrange(10, 250)}",
                SERVER[4],
                addresses.randrange(1024, 65536),
            ),
            (SERVER[4], 0),
        )
    client, server = lab.pair(listener)
    client.sendall(b"still there?")
    assert server.recv(100) == b"still there?"
    assert running.totals()["accepted"] == 1


def syn(source: str, destination: str, port: int) -> bytes:
    """Return a TCP SYN segment with its checksum."""
    # The checksum covers a pseudo-header: addresses, protocol 6 and length (RFC 9293, 3.1).
    pseudo = socket.inet_aton(source) + socket.inet_aton(destination) + struct.pack("!HH", 6, 20)
    header = struct.pack("!HHIIBBHHH", port, 80, port * 7919, 0, 5 << 4, 2, 65535, 0, 0)
    total = sum(struct.unpack("!16H", pseudo + header))
    checksum = (
        ~((total & 0xFFFF) + (total >> 16) + ((total & 0xFFFF) + (total >> 16) >> 16)) & 0xFFFF
    )
    tcp = header[:16] + struct.pack("!H", checksum) + header[18:]
    return struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0) + pseudo[:8] + tcp


def test_each_leg_has_its_own_settings_and_a_download_uses_them(
    lab: Lab, satpep: StartSatpep
) -> None:
    """Set each leg by itself: on a download the leg towards the client sends.

    Its congestion control is the one that pepsal's -C does not reach.
    """
    satpep(
        "--client",
        "cc=bbr,mss=1200,sndbuf=2M",
        "--server",
        "cc=reno,mss=1000,rcvbuf=1M,nodelay=1,quickack=1",
    )
    client, server = lab.pair(lab.listen())
    server.sendall(b"z" * MEGABYTE)
    server.shutdown(socket.SHUT_WR)
    assert len(receive_all(client)) == MEGABYTE
    to_client = ss(lab, "{}:{}".format(*client.getsockname()))
    to_server = ss(lab, f"{SERVER[4]}:80")
    assert " bbr " in to_client
    assert " reno " in to_server
    assert leg_number(to_client, "mss") == 1200 - 12  # less the time stamps
    assert leg_number(to_client, "bytes_sent") == MEGABYTE
    assert leg_number(to_server, "bytes_received") == MEGABYTE + 1  # and the FIN
    assert re.search(r"skmem:\(.*tb2097152,", to_client)
    assert re.search(r"skmem:\(.*rb1048576,", to_server)
    assert leg_number(to_server, "mss") == 1000 - 12


def test_each_leg_has_its_own_initial_window(lab: Lab, satpep: StartSatpep) -> None:
    satpep("--client", "initcwnd=40", "--server", "initcwnd=7")
    client, _server = lab.pair(lab.listen())
    assert leg_number(ss(lab, "{}:{}".format(*client.getsockname())), "cwnd") == 40
    assert leg_number(ss(lab, f"{SERVER[4]}:80"), "cwnd") == 7


def leg_number(line: str, key: str) -> int:
    """Return the number that `ss` shows under a key."""
    found = re.search(rf"\b{key}:(\d+)", line)
    assert found, f"{key} is not in: {line}"
    return int(found[1])


def test_fast_open_carries_the_request_in_the_first_packet(lab: Lab, satpep: StartSatpep) -> None:
    for host in ("client", "pep", "server"):
        with lab.inside(host):
            Path("/proc/sys/net/ipv4/tcp_fastopen").write_text("3")
    satpep("-f")
    listener = lab.listen()
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 16)
    for _ in range(3):  # the first one gets the cookies
        client = lab.new_socket("client")
        client.setblocking(True)
        client.sendto(b"request", socket.MSG_FASTOPEN, (SERVER[4], 80))
        server, _ = listener.accept()
        assert server.recv(100) == b"request"
        server.close()
        assert receive_all(client) == b""
        client.close()
    with lab.inside("server"):
        counters = lab.run("nstat", "-asz", "TcpExtTCPFastOpenPassive")
    assert int(re.search(r"FastOpenPassive\s+(\d+)", counters)[1]) >= 1  # type: ignore[index]


def test_it_keeps_two_capabilities_and_no_root(lab: Lab, satpep: StartSatpep) -> None:
    running = satpep("-u", "nobody")
    assert running.status("Uid").split() == ["65534"] * 4
    assert int(running.status("CapEff"), 16) == 1 << CAP_NET_ADMIN | 1 << CAP_NET_BIND_SERVICE
    assert int(running.status("CapPrm"), 16) == int(running.status("CapEff"), 16)
    assert running.status("NoNewPrivs") == "1"
    client, server = lab.pair(lab.listen())
    client.sendall(b"works")
    assert server.recv(5) == b"works"


def test_it_starts_without_root_with_the_capabilities_that_systemd_gives(
    lab: Lab, program: Path, tmp_path: Path
) -> None:
    """As pep/system/satpep.service has it; another user than satpep, who may not exist here."""
    unit = (ROOT / "pep/system/satpep.service").read_text()
    names = re.search("^AmbientCapabilities=(.*)$", unit, re.MULTILINE)
    assert names
    capabilities = ",".join(f"+{name.lower().removeprefix('cap_')}" for name in names[1].split())
    as_daemon = ["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups", "--no-new-privs"]
    given = [
        f"--inh-caps={capabilities}",
        f"--ambient-caps={capabilities}",
        f"--bounding-set=-all,{capabilities}",
    ]
    reachable = Path(tempfile.mkdtemp(dir="/tmp")) / "satpep"  # pytest's own directory is root's
    shutil.copy(program, reachable)
    reachable.parent.chmod(0o755)
    with lab.inside("pep"):
        command = [*as_daemon, *given, str(reachable), "-u", "daemon", "-l", "-"]
        running = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert running.stdout
        assert '"ready"' in running.stdout.readline()
        satpep.put_rules(satpep.parse(["A", "run"]), [])
    status = Path(f"/proc/{running.pid}/status").read_text()
    client, server = lab.pair(lab.listen())
    client.sendall(b"works")
    assert server.recv(5) == b"works"
    running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=LIMIT_S)[1] == ""
    shutil.rmtree(reachable.parent)
    permitted = int(re.search(r"CapPrm:\s+(\w+)", status)[1], 16)  # type: ignore[index]
    assert permitted == 1 << CAP_NET_ADMIN | 1 << CAP_NET_BIND_SERVICE


def test_stopping_resets_what_is_open_and_gives_the_totals(lab: Lab, satpep: StartSatpep) -> None:
    running = satpep()
    client, server = lab.pair(lab.listen())
    client.sendall(b"12345")
    assert server.recv(5) == b"12345"
    assert running.stop()[0] == 0
    for end in (client, server):
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    assert running.events("ended")[0]["outcome"] == "stopped"
    totals = running.events("totals")[-1]
    assert (totals["connected"], totals["open"], totals["bytes_to_server"]) == (1, 0, 5)


def test_what_no_rule_has_sent_is_reset_and_makes_no_circle(lab: Lab, satpep: StartSatpep) -> None:
    running = satpep()
    client = lab.new_socket("client")
    with pytest.raises(
        ConnectionResetError
    ):  # of connect(), if the reset comes before it looks at its socket again
        client.connect(("10.1.0.1", 5000))
        client.recv(1)
    assert running.totals()["accepted"] == 0


def test_the_same_port_of_a_client_serves_two_servers_at_once(
    lab: Lab, satpep: StartSatpep
) -> None:
    satpep()
    listeners = [lab.listen(port=80), lab.listen(port=81)]
    clients = []
    for listener in listeners:
        client = lab.new_socket("client")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind((CLIENT[4], 4321))
        client.connect(listener.getsockname())
        clients.append(client)
    servers = [listener.accept()[0] for listener in listeners]
    for number, (client, server) in enumerate(zip(clients, servers, strict=True)):
        client.sendall(bytes([number]))
        assert (server.recv(1), server.getpeername()) == (bytes([number]), (CLIENT[4], 4321))


def test_a_port_in_time_wait_here_is_no_reason_to_refuse(lab: Lab, satpep: StartSatpep) -> None:
    """The client forgets its closed connections at once and uses the same port again."""
    running = satpep()
    with lab.inside("client"):
        Path("/proc/sys/net/ipv4/tcp_max_tw_buckets").write_text("0")
    listener = lab.listen()
    for number in range(1, 4):
        client = lab.new_socket("client")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind((CLIENT[4], 4321))
        client.connect(listener.getsockname())
        server, peer = listener.accept()
        assert peer[0] == CLIENT[4]
        client.close()
        assert receive_all(server) == b""
        server.close()
        running.ended(number)


def test_daemon_returns_when_it_listens_and_may_be_ended(
    lab: Lab, program: Path, tmp_path: Path
) -> None:
    """On one CPU with who ends it, and when nobody else runs: before it does anything more."""
    cpus = os.sched_getaffinity(0)
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: the daemon is ours to wait for
    os.sched_setaffinity(0, {min(cpus)})
    command = ["chrt", "-i", "0", str(program), "-d", "-u", "", "-l", str(tmp_path / "log")]
    ours = Path("/proc/self/task", str(threading.get_native_id()), "children")
    for number in range(20):
        with lab.inside("pep"):
            subprocess.run(command, check=True)  # with a time-out it would look now and then
        daemon = int(ours.read_text().split()[-1])
        if number == 19:
            with lab.inside("pep"):
                assert f"pid={daemon}" in lab.run("ss", "-Hltnp", "sport = :5000")
        os.kill(daemon, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(daemon, 0)[1]) == 0
        assert (tmp_path / "log").read_text().count('"totals"') == number + 1
    os.sched_setaffinity(0, cpus)
    ctypes.CDLL(None).prctl(36, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-p", "0"], "-p 0: should be a whole number from 1 to 65535"),
        (["-p", "5000x"], "should be a whole number"),
        (["-c", "-1"], "should be a whole number"),
        (["-m", "40"], "-m mss 40: should be a whole number from 88 to 32767"),
        (["--client", "mss"], "should be KEY=VALUE"),
        (["--client", "speed=9"], "there is no such key; the keys are cc, mss, initcwnd"),
        (["--server", "sndbuf=999999999999M"], "should be a whole number"),
        (["-C", "cubic;rm"], "should be a name of letters"),
        (["-C"], "-C needs a value"),
        (["--nonsense"], "is not an option"),
        (["extra"], "takes options only"),
    ],
)
def test_wrong_options_are_explained(program: Path, options: list[str], said: str) -> None:
    done = subprocess.run([program, *options], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-C", "nosuch"], "congestion control: No such file"),
        (["--server", "cc=nosuch"], "congestion control: No such file"),
        (["-l", "/nonexistent/log"], "-l /nonexistent/log: No such file"),
        (["-u", "no-such-user"], "there is no such user"),
    ],
)
def test_what_the_host_does_not_have_is_named_before_the_start(
    lab: Lab, program: Path, options: list[str], said: str
) -> None:
    with lab.inside("pep"):
        done = subprocess.run(
            [program, *options], check=False, capture_output=True, text=True, timeout=LIMIT_S
        )
    assert done.returncode == 1
    assert said in done.stderr


def test_help_and_version(program: Path) -> None:
    shown = subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout
    assert "usage: satpep" in shown
    assert subprocess.run(
        [program, "-V"], check=True, capture_output=True, text=True
    ).stdout.startswith("satpep ")


def test_threads_of_resets_and_closes_at_the_same_time(lab: Lab, satpep: StartSatpep) -> None:
    """Both ends end the connection at once, in every combination, many times."""
    running = satpep()
    listener = lab.listen()
    ways = (reset, socket.socket.close)
    for _ in range(25):
        for at_client in ways:
            for at_server in ways:
                client, server = lab.pair(listener)
                client.sendall(b"a" * 5000)
                other = threading.Thread(target=at_server, args=(server,))
                other.start()
                at_client(client)
                other.join()
    running.ended(100)
    assert running.totals()["open"] == 0


def test_the_soak_in_short(lab: Lab, satpep: StartSatpep) -> None:
    """pep/tests/soak.py; an hour of it is for people."""
    assert "transfer" in soak(lab, satpep(), 10, seed=1)


def test_no_command_line_breaks_the_parser(tmp_path: Path) -> None:
    """pep/tests/fuzz_options.c in short."""
    done = subprocess.run(
        ["make", "-s", "-C", ROOT / "pep", f"OUT={tmp_path}", "SECONDS=5", "fuzz"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "none broke anything" in done.stderr
