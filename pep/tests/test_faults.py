# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of faults that once were: lost data, failures that looked like ends, ends unnoticed."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
from pathlib import Path

import pytest
import satpep
from lab import (
    CLIENT,
    LIMIT_S,
    SERVER,
    Lab,
    StartSatpep,
    fill,
    receive_all,
    reset,
    silence,
    until,
)

MEGABYTE = 1_000_000
TCP_SAVE_SYN, TCP_SAVED_SYN = 27, 28  # linux/tcp.h
F_SETPIPE_SZ = 1031
EXPEDITED, ASSURED = 0xB8, 0x88  # DSCP EF and AF41, as types of service
BEHIND = {4: "10.3.0.2", 6: "fd03::2"}
NOWHERE = "10.4.0.1"
PR_SET_PDEATHSIG = 1


def urgent(end: socket.socket) -> None:
    """Send a byte as urgent data, between others."""
    # Data on both sides, since TCP marks only a place in the stream as urgent (RFC 6093).
    end.sendall(b"before")
    end.send(b"!", socket.MSG_OOB)
    end.sendall(b"after" * 1000)
    end.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("descriptors", [None, 36])
@pytest.mark.parametrize("sender", ["client", "server"])
def test_an_urgent_byte_holds_nothing_back(
    lab: Lab, satpep: StartSatpep, sender: str, descriptors: int | None
) -> None:
    """With a pipe and, for want of descriptors, without."""
    running = satpep(descriptors=descriptors)
    client, server = lab.pair(lab.listen())
    one, other = (client, server) if sender == "client" else (server, client)
    other.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    urgent(one)
    assert receive_all(other) == b"before!" + b"after" * 1000
    other.close()
    assert running.ended()[0]["outcome"] == "closed"


def test_an_urgent_byte_arrives_as_one(lab: Lab, satpep: StartSatpep) -> None:
    satpep()
    client, server = lab.pair(lab.listen())
    urgent(client)
    until(lambda: select.select([], [], [server], 0)[2], "the urgent byte")
    assert server.recv(1, socket.MSG_OOB) == b"!"
    assert receive_all(server) == b"before" + b"after" * 1000


@pytest.mark.parametrize("receiver", ["client", "server"])
def test_a_killed_proxy_is_a_reset_not_an_end(lab: Lab, satpep: StartSatpep, receiver: str) -> None:
    running = satpep()
    client, server = lab.pair(lab.listen())
    one, other = (client, server) if receiver == "server" else (server, client)
    one.setblocking(False)
    fill(one)
    running.process.kill()
    running.stop()
    with pytest.raises(ConnectionResetError):
        receive_all(other)


def add_a_host_behind_the_server(lab: Lab) -> None:
    """Over a link of 1300 bytes; and a network that the server has no way to."""
    namespace = lab.more("behind")
    with lab.inside("server"):
        lab.run(
            "ip",
            "link",
            "add",
            "inner",
            "mtu",
            "1300",
            "type",
            "veth",
            "peer",
            "name",
            "outer",
            "netns",
            namespace,
        )
        lab.run(
            "ip",
            "-batch",
            "-",
            text="""
            address add 10.3.0.1/24 dev inner
            address add fd03::1/64 dev inner nodad
            link set inner up
            route add unreachable 10.4.0.0/24
        """,
        )
        for family in ("ipv4", "ipv6"):
            Path(f"/proc/sys/net/{family}/conf/all/forwarding").write_text("1")
    with lab.inside("behind"):
        lab.run(
            "ip",
            "-batch",
            "-",
            text="""
            link set lo up
            address add 10.3.0.2/24 dev outer
            address add fd03::2/64 dev outer nodad
            link set outer up
            route add default via 10.3.0.1
            route add default via fd03::1
        """,
        )
    with lab.inside("pep"):
        lab.run("ip", "route", "add", "10.3.0.0/16", "via", "10.2.0.2")
        lab.run("ip", "route", "add", "10.4.0.0/16", "via", "10.2.0.2")
        lab.run("ip", "route", "add", "fd03::/64", "via", "fd02::2")


@pytest.mark.parametrize("family", [4, 6])
def test_a_smaller_mtu_on_the_way_is_found(lab: Lab, satpep: StartSatpep, family: int) -> None:
    """The receiver announces a large segment: only ICMP tells of the link in between."""
    satpep()
    add_a_host_behind_the_server(lab)
    with lab.inside("behind"):
        listener = socket.create_server(
            (BEHIND[family], 80), family=socket.AF_INET if family == 4 else socket.AF_INET6
        )
        lab.run("ip", "link", "set", "outer", "mtu", "1500")
    listener.settimeout(LIMIT_S)
    client = lab.new_socket("client", family)
    client.connect((BEHIND[family], 80))
    server, _ = listener.accept()
    server.settimeout(LIMIT_S)
    client.sendall(b"m" * 300_000)
    client.shutdown(socket.SHUT_WR)
    assert len(receive_all(server)) == 300_000


def test_a_router_that_knows_no_way_is_heard(lab: Lab, satpep: StartSatpep) -> None:
    running = satpep("--connect-timeout", "20")
    add_a_host_behind_the_server(lab)
    client = lab.new_socket("client")
    with pytest.raises(ConnectionResetError):  # which may come before connect() returns
        client.connect((NOWHERE, 80))
        client.recv(1)
    ended = running.ended()[0]
    assert ended["outcome"] == "unreachable"
    assert ended["duration_s"] < 20, "not by the time-out"


@pytest.mark.parametrize("family", [4, 6])
def test_a_port_that_a_program_of_this_host_has_is_no_reason_to_refuse(
    lab: Lab, satpep: StartSatpep, family: int
) -> None:
    satpep()
    taken = lab.new_socket("pep", family)
    taken.bind(("", 4321))
    taken.listen()
    listener = lab.listen(family)
    client = lab.new_socket("client", family)
    client.bind((CLIENT[family], 4321))
    client.connect((SERVER[family], 80))
    server, peer = listener.accept()
    assert peer[0] == CLIENT[family]
    client.sendall(b"through")
    assert server.recv(7) == b"through"


def test_who_does_not_read_the_statistics_stops_nobody(lab: Lab, program: Path) -> None:
    """1300 connections have more to say than the reader's pipe and satpep's own store hold."""
    with lab.inside("pep"):
        running = subprocess.Popen([program, "-u", "", "-l", "-"], stdout=subprocess.PIPE)
        until(lambda: satpep.listens(running, 5000), "satpep")
        satpep.put_rules(satpep.parse(["A", "run"]), [])
    assert running.stdout
    try:
        listener = lab.listen()
        for _ in range(1300):
            client, server = lab.pair(listener)
            client.sendall(b"on")
            assert server.recv(2) == b"on"
            client.close()
            server.close()
        running.send_signal(signal.SIGINT)
        *_, last = running.stdout
        totals = json.loads(last)
        assert totals["event"] == "totals"
        assert totals["dropped_lines"] > 0
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize("family", [4, 6])
def test_dscp_is_copied_in_both_directions(lab: Lab, satpep: StartSatpep, family: int) -> None:
    """The server's own one is on what the client gets, the client's on what the server gets."""
    satpep()
    listener = lab.listen(family)
    set_tos(listener, family, ASSURED)
    listener.setsockopt(socket.IPPROTO_TCP, TCP_SAVE_SYN, 1)
    with lab.inside("client"):
        dscp = "ip dscp" if family == 4 else "ip6 dscp"
        chain = (
            f"chain input {{\ntype filter hook input priority 0;\ntcp sport 80 {dscp} af41"
            " counter\n}\n"
        )
        lab.run("nft", "-f", "-", text=f"table inet seen {{\n{chain}}}\n")
    client = lab.new_socket("client", family)
    set_tos(client, family, EXPEDITED)
    client.connect((SERVER[family], 80))
    server, _ = listener.accept()
    syn = server.getsockopt(socket.IPPROTO_TCP, TCP_SAVED_SYN, 256)
    assert (syn[1] if family == 4 else (syn[0] << 4 | syn[1] >> 4) & 0xFF) == EXPEDITED
    server.sendall(b"down")
    assert client.recv(4) == b"down"
    with lab.inside("client"):
        assert "counter packets 0 " not in lab.run("nft", "list", "table", "inet", "seen")


def set_tos(end: socket.socket, family: int, tos: int) -> None:
    """Set the type of service (IPv4) or the traffic class (IPv6) of a socket."""
    if family == 4:
        end.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    else:
        end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, tos)


@pytest.mark.parametrize("gone", ["client", "server"])
def test_a_host_that_is_gone_is_noticed(lab: Lab, satpep: StartSatpep, gone: str) -> None:
    running = satpep("--client", "keepalive=1", "--server", "keepalive=1")
    client, server = lab.pair(lab.listen())
    address = {"client": CLIENT, "server": SERVER}[gone][4]
    with lab.inside("pep"):
        lab.run(
            "ip", "neigh", "replace", address, "lladdr", "02:00:00:00:00:99", "dev", f"to_{gone}"
        )
    with pytest.raises(ConnectionResetError):
        (server if gone == "client" else client).recv(1)
    assert running.ended()[0]["outcome"] == f"{gone} lost"


def test_a_daemon_that_cannot_start_says_so(lab: Lab, program: Path) -> None:
    with lab.inside("pep"):
        done = subprocess.run(
            [program, "-d", "-u", "no-such-user"],
            check=False,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    assert done.returncode == 1
    assert "there is no such user" in done.stderr


def take_all_pipes(user: int, ready: int) -> None:
    """Take all the room that fs.pipe-user-pages-soft gives a user's pipes, until killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setuid(user)
    try:
        while True:
            fcntl.fcntl(os.pipe()[1], F_SETPIPE_SZ, 1 << 20)
    except PermissionError:
        os.write(ready, b"!")
    signal.pause()


def test_a_user_without_room_for_pipes_is_told_and_bytes_are_copied(
    lab: Lab, satpep: StartSatpep
) -> None:
    told, ready = os.pipe()
    hog = os.fork()
    if hog == 0:
        take_all_pipes(1, ready)
    try:
        os.read(told, 1)
        running = satpep("-u", "daemon")
        client, server = lab.pair(lab.listen())
        client.sendall(b"c" * 100_000)
        client.shutdown(socket.SHUT_WR)
        assert len(receive_all(server)) == 100_000
        totals = running.totals()
        exit_code, said = running.stop()
    finally:
        os.kill(hog, signal.SIGKILL)
        os.waitpid(hog, 0)
        os.close(told)
        os.close(ready)
    assert exit_code == 0
    assert "no more than 0 pipes, the rest is copied" in said
    assert (totals["bytes_copied"], totals["bytes_spliced"]) == (100_000, 0)


def test_bytes_go_through_pipes_also_when_most_descriptors_are_for_connections(
    lab: Lab, satpep: StartSatpep
) -> None:
    """Serve as many connections as there are descriptors for, some of which are pipes."""
    running = satpep("-c", "498", descriptors=1024)
    client, server = lab.pair(lab.listen())
    client.sendall(b"s" * MEGABYTE)
    client.shutdown(socket.SHUT_WR)
    assert len(receive_all(server)) == MEGABYTE
    totals = running.totals()
    assert (totals["bytes_copied"], totals["bytes_spliced"]) == (0, MEGABYTE)


def test_what_a_server_says_before_it_resets_arrives(lab: Lab, satpep: StartSatpep) -> None:
    """Answer, bytes and reset are all there when the proxy looks: it is stopped meanwhile."""
    running = satpep()
    listener = lab.listen()
    silence(lab)
    client = lab.connect()
    until(lambda: running.totals()["open"] == 1, "the proxy's own SYN")
    running.process.send_signal(signal.SIGSTOP)
    with lab.inside("server"):
        lab.run("nft", "delete", "table", "inet", "silent")
    server, leg = listener.accept()  # the SYN comes again after a second
    server.sendall(b"go away")
    reset(server)

    def leg_is_gone() -> bool:
        with lab.inside("pep"):
            return not lab.run("ss", "-tnHa", "src", "{}:{}".format(*leg)).strip()

    until(leg_is_gone, "the reset")
    running.process.send_signal(signal.SIGCONT)
    assert client.recv(100) == b"go away"
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    assert running.ended()[0]["outcome"] == "server reset"


def test_a_connection_older_than_the_rules_goes_on(lab: Lab, satpep: StartSatpep) -> None:
    listener = lab.listen()
    client, server = lab.pair(listener)
    satpep()
    client.sendall(b"still")
    assert server.recv(5) == b"still"
    server.sendall(b"here")
    assert client.recv(4) == b"here"


def test_after_sigterm_connections_may_end_and_new_ones_pass_by(
    lab: Lab, satpep: StartSatpep
) -> None:
    running = satpep()
    listener = lab.listen()
    client, server = lab.pair(listener)
    running.process.terminate()
    until(lambda: running.events("full"), "the end of new connections")
    late_client, late_server = lab.pair(listener)
    for one, other in ((client, server), (late_client, late_server)):
        one.sendall(b"x" * 100_000)
        one.shutdown(socket.SHUT_WR)
        assert len(receive_all(other)) == 100_000
        other.close()
    assert running.process.wait(LIMIT_S) == 0
    assert [event["outcome"] for event in running.events("ended")] == ["closed"]
    assert running.events("totals")[-1]["accepted"] == 1


def test_what_does_not_end_in_its_time_after_sigterm_is_reset(
    lab: Lab, satpep: StartSatpep
) -> None:
    running = satpep("--drain", "1")
    client, _server = lab.pair(lab.listen())
    running.process.terminate()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    assert running.process.wait(LIMIT_S) == 0


def test_sighup_opens_the_log_again(lab: Lab, satpep: StartSatpep) -> None:
    running = satpep()
    old = running.log.with_suffix(".1")
    running.log.rename(old)
    running.process.send_signal(signal.SIGHUP)
    until(running.log.exists, "the new log")
    running.read_bytes = 0
    assert running.totals()["open"] == 0
    assert '"totals"' not in old.read_text()
