# SPDX-License-Identifier: GPL-3.0-or-later
"""The vpn job's exchange of keys and its watch over a daemon; the folders of vpn-configs."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import re
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Network
from pathlib import Path

import pytest
import vpn_lists

ROOT = Path(__file__).resolve().parents[2]
vpn = importlib.import_module("vpn")
folders = importlib.import_module("vpn_folders")
keys = importlib.import_module("vpn_keys")
programs = importlib.import_module("vpn_programs")
proof = importlib.import_module("vpn_proof")
routes = importlib.import_module("vpn_routes")
KEYS = {
    "description", "version", "licence", "runs_in", "carrier", "ciphers", "keys", "multipath",
    "post_quantum", "tested", "packages", "programs", "commands", "daemon", "device", "inner_mtu",
    "overhead_bytes", "values", "handshake_line", "coordinator", "framing", "rtt_max_s",
    "rtt_max_because", "ipv6", "own_mtu", "ends_tcp", "takes", "fixed", "behind_nat",
    "device_type", "cipher_line", "usual_warnings", "post_quantum_line",
}  # fmt: skip


def arguments(role: str, remote_network: str = "192.168.20.0/24") -> argparse.Namespace:
    parsed: argparse.Namespace = vpn.parse(
        ["wireguard", "127.0.0.1", "127.0.0.1", remote_network, role]
    )
    return parsed


def test_the_ends_of_the_tunnel_see_each_other() -> None:
    client, server = arguments("client"), arguments("server")
    assert client.tunnel_ip == server.remote_tunnel_ip
    assert client.remote_tunnel_ip == server.tunnel_ip


def test_each_end_gets_the_others_public_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vpn, "EXCHANGE_PORT", 45999)
    monkeypatch.setattr(keys, "LIMIT_S", 10.0)
    with ThreadPoolExecutor() as ends:  # the client may be first: it tries until the server listens
        client = ends.submit(keys.exchange, arguments("client"), "of the client\n")
        server = ends.submit(keys.exchange, arguments("server"), "of the server\n")
    (theirs, path), (ours, _) = client.result(), server.result()
    assert (theirs, ours) == ("of the server\n", "of the client\n")
    assert 0 < path.rtt_s < 1
    assert 1500 < path.mtu <= 65536, "that of lo"


def swapped(monkeypatch: pytest.MonkeyPatch, ours: str, theirs: str | bytes) -> object:
    """What `swap` makes of an other end that sends `theirs`.

    A public text, or bytes as they are.
    """
    monkeypatch.setattr(keys, "LIMIT_S", 1.0)
    here, there = socket.socketpair()

    def other_end() -> None:
        if isinstance(theirs, str):
            keys.swap(there, theirs)
        else:
            with there:
                there.sendall(theirs)
                there.shutdown(socket.SHUT_WR)
                while there.recv(1 << 16):
                    pass

    with ThreadPoolExecutor() as ends:
        other = ends.submit(other_end)
        try:
            return keys.swap(here, ours)
        finally:
            other.result()


def test_keys_that_fit_no_buffer_are_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rosenpass has keys of 700 kB.

    At commit 4bfc390 both ends wrote, neither read, and the exchange never ended.
    """
    ours, theirs = "a" * 3_000_000, "b" * 5_000_000
    assert swapped(monkeypatch, ours, theirs) == theirs


@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        (b"", "closed the exchange"),
        (b"\xff\xfe\n", "can't decode byte"),
        (b"hello\n", "sent no public keys, or more than 16 MiB: 'hello"),
        (b"[1]\n", "sent no public keys"),
        (b'"cut off', "sent no public keys"),
    ],
)
def test_an_other_end_that_sends_no_key_is_told(
    monkeypatch: pytest.MonkeyPatch, theirs: bytes, why: str
) -> None:
    with pytest.raises(SystemExit, match=re.escape(why)):
        swapped(monkeypatch, "key", theirs)


def test_an_other_end_that_says_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "EXCHANGE_LIMIT_S", 0.2)
    here, there = socket.socketpair()
    with (
        there,
        pytest.raises(
            SystemExit, match="exchange of public keys with the other end failed: timed out"
        ),
    ):
        keys.swap(here, "key")


def test_a_server_that_never_comes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vpn, "EXCHANGE_PORT", 45998)
    monkeypatch.setattr(keys, "LIMIT_S", 0.3)
    with pytest.raises(
        SystemExit, match=r"127\.0\.0\.1 does not answer on port 45998 after 0\.3 s"
    ):
        keys.exchange(arguments("client"), "key")


def exit_code_of_watch(program: str) -> int:
    """Exit code of a process that watches over `sh -c program` as the job does.

    0 if it is told to stop, 2 if to fall.
    """
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, programs.BLOCKED)
        daemon = subprocess.Popen(["sh", "-c", program], preexec_fn=programs.unblock_signals)
        stopped = programs.stopped_by(lambda: daemon.poll() is None, daemon, 0.0, lambda: None)
        daemon.kill()
        os._exit({0: 1, programs.FALL: 2}.get(stopped, 0))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_daemon_that_fails_is_noticed() -> None:
    assert exit_code_of_watch("exit 3") == 1


def test_a_daemon_that_leaves_without_an_order_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "STOP_GRACE_S", 0.1)
    assert exit_code_of_watch("exit 0") == 1


def test_an_agent_ends_the_daemon_first_and_then_the_job() -> None:
    assert exit_code_of_watch("(sleep 0.2; kill -TERM $PPID) & exit 0") == 0


def test_the_order_to_stop_ends_the_wait() -> None:
    assert exit_code_of_watch("kill -TERM $PPID; exec sleep 60") == 0


def test_the_order_to_fall_ends_it_too() -> None:
    assert exit_code_of_watch("kill -USR1 $PPID; exec sleep 60") == 2


def test_messages_hold_the_daemons_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(50)) + "Cannot resolve host\n")
    daemon = subprocess.Popen(["sh", "-c", "exit 4"])
    daemon.wait()
    said = programs.ended("openvpn_udp", daemon, log)
    assert "openvpn_udp ended by itself with exit code 4" in said
    assert said.endswith("Cannot resolve host")
    assert "line 5\n" not in said


REFUSED_CERTIFICATE = """2026-01-01 00:00:05 Certificate does not have key usage extension
2026-01-01 00:00:05 TLS Error: TLS handshake failed
2026-01-01 00:00:05 SIGUSR1[soft,tls-error] received, process restarting
2026-01-01 00:00:06 TUN/TAP device vpn0 opened
2026-01-01 00:00:06 Could not determine IPv4/IPv6 protocol. Using AF_INET
2026-01-01 00:01:05 TLS Error: TLS handshake failed
2026-01-01 00:01:07 UDPv4 link remote: [AF_UNSPEC]
"""


def test_messages_hold_the_cause_and_not_what_comes_after_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(REFUSED_CERTIFICATE)
    assert folders.last_lines(log).splitlines() == [
        "; its errors:",
        "Certificate does not have key usage extension",
        "TLS Error: TLS handshake failed",
    ]


def test_what_a_daemon_tells_of_itself(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "2026-01-01 00:00:04 Interface vpn0 exists and is non-DCO. Disabling data channel offload\n"
        "2026-01-01 00:00:04 DEPRECATED OPTION: --fast-io option ignored.\n"
        "2026-01-01 00:00:09 DEPRECATED OPTION: --fast-io option ignored.\n"
        "2026-01-01 00:00:07 Data Channel: cipher 'AES-256-CBC', peer-id: 0\n"
    )
    openvpn = folders.describe("openvpn_udp")
    assert folders.warnings_of(openvpn, log) == ["DEPRECATED OPTION: --fast-io option ignored."]
    assert folders.cipher_of(openvpn, log) == "AES-256-CBC"
    log.write_text("")
    assert folders.cipher_of(folders.describe("wireguard"), log) == "ChaCha20-Poly1305"


CLAIMS = [
    ({"runs_in": "kernel", "device_type": "ovpn"}, "tun", "type tun, not ovpn"),
    ({"runs_in": "kernel", "device_type": None}, "tun", "carried by the kernel, but vpn0"),
    ({"runs_in": "user space"}, "wireguard", "carried by the user space, but vpn0"),
    ({"runs_in": "kernel", "device_type": None}, "ipip", "kernel (ipip)"),
    ({"runs_in": "user space"}, "ip6tnl", "user space (ip6tnl)"),
    ({}, "wireguard", "kernel (wireguard)"),
]


@pytest.mark.parametrize(("claim", "found", "said"), CLAIMS)
def test_who_carries_the_packets_is_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: dict[str, str], found: str, said: str
) -> None:
    (tmp_path / "log").write_text("Note: --fragment disables data channel offload.\n")
    monkeypatch.setattr(proof, "type_of", lambda device: found)
    claimed = {**folders.DEFAULTS, **claim}
    if "(" in said:
        assert proof.carried_by(arguments("client"), claimed, tmp_path / "log") == said
        return
    with pytest.raises(SystemExit, match=re.escape(said)) as ended:
        proof.carried_by(arguments("client"), claimed, tmp_path / "log")
    assert str(ended.value).splitlines()[1:] == ["Note: --fragment disables data channel offload."]


def test_ipsec_without_an_interface_is_proved_by_its_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = folders.describe("strongswan_policies")
    for states, said in (("src 127.0.0.1 dst 127.0.0.1\n", "kernel (xfrm)"), ("", None)):
        monkeypatch.setattr(proof, "run", lambda *words, states=states: states)
        if said:
            assert proof.carried_by(arguments("client"), policies, tmp_path) == said
    (tmp_path / "log").write_text("")
    with pytest.raises(SystemExit, match="no state of IPsec"):
        proof.carried_by(arguments("client"), policies, tmp_path / "log")


def test_the_type_of_an_interface_that_ethtool_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proof, "run", lambda *words: '[{"linkinfo": {"info_kind": "wireguard"}}]')
    assert proof.type_of("no-such-device") == "wireguard"


SUBFLOWS = """0 0 10.1.1.1:5 10.9.9.9:1194 cubic tcp-ulp-mptcp flags:Mmec token:1
0 0 10.2.1.1:6 10.9.9.9:1194 cubic tcp-ulp-mptcp flags:Jjec token:1
0 0 10.2.1.1:7 10.9.9.9:5999 cubic
"""


def test_multipath_is_proved_by_its_subflows_or_by_its_paths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = arguments("client")
    for lines, proved in ((2, True), (1, None)):
        shown = "".join(SUBFLOWS.splitlines(keepends=True)[:lines])
        monkeypatch.setattr(proof, "run", lambda *words, shown=shown: shown)
        assert proof.uses_paths("MPTCP", asked, {"to_geo": 0, "to_leo": 0}) is proved
    monkeypatch.setattr(proof, "run", lambda *words: SUBFLOWS.splitlines()[2])
    assert proof.uses_paths("MPTCP", asked, {}) is None
    monkeypatch.setattr(proof, "sent_packets", lambda paths: {"to_geo": 9, "to_leo": 4})
    assert proof.uses_paths("QUIC", asked, {"to_geo": 4, "to_leo": 3}) is True
    assert proof.uses_paths("QUIC", asked, {"to_geo": 4, "to_leo": 4}) is None


KEYS_IN_FORCE = [
    (None, "peer\t(none)\n", "", "vpn0 has no pre-shared key"),
    (None, "peer\tsecret=\n", "", None),
    ("ML_KEM", "", "proposal: AES/CURVE_25519", "post-quantum key is not in force"),
    ("ML_KEM", "", "proposal: AES/CURVE_25519/KE1_ML_KEM_768", None),
]


@pytest.mark.parametrize(("line", "shown", "log", "wrong"), KEYS_IN_FORCE)
def test_a_post_quantum_key_is_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str | None, shown: str, log: str,
    wrong: str | None,
) -> None:  # fmt: skip
    (tmp_path / "log").write_text(log)
    monkeypatch.setattr(proof, "run", lambda *words: shown)
    claimed = {"post_quantum_line": line}
    if wrong is None:
        proof.check_key(arguments("client"), claimed, tmp_path / "log")
        return
    with pytest.raises(SystemExit, match=wrong):
        proof.check_key(arguments("client"), claimed, tmp_path / "log")


def ended_with(tmp_path: Path, program: str) -> object:
    with (tmp_path / "log").open("w") as log:
        daemon = subprocess.Popen(["sh", "-c", program], stderr=log)
    daemon.wait()
    return programs.ended("wireguard", daemon, tmp_path / "log")


def test_a_vpn_that_this_host_cannot_run_is_told(tmp_path: Path) -> None:
    assert ended_with(tmp_path, "exit 69") == "this host cannot run wireguard; it said nothing"


def test_a_command_that_up_lacks_is_named(tmp_path: Path) -> None:
    said = str(ended_with(tmp_path, "no-such-command"))
    assert "cannot run" not in said
    assert "wireguard ended by itself with exit code 127" in said
    assert "no-such-command" in said.splitlines()[-1]


def test_a_missing_program_that_nothing_installs_is_asked_for() -> None:
    recipe = {"mine": {"host": "https://example.org/mine"}}
    said = (
        r"there is no command mine; no package has it: put it into /usr/local/sbin"
        r" \(https://example\.org/mine\)"
    )
    with pytest.raises(SystemExit, match=said):
        programs.check_host(
            arguments("client"), described(commands=["mine"], programs=recipe), os.environ["PATH"]
        )


def described(**changes: object) -> dict[str, object]:
    return {**folders.describe("wireguard"), "commands": [], **changes}


def test_a_missing_program_is_named_before_anything_is_done() -> None:
    with pytest.raises(
        SystemExit, match="this host cannot run wireguard: there is no command no-such-command"
    ):
        programs.check_host(
            arguments("client"), described(commands=["sh", "no-such-command"]), os.environ["PATH"]
        )


def test_a_path_that_takes_too_long_for_a_handshake_is_told() -> None:
    said = (
        r"wireguard does not come up on a path whose round trip is 6\.00 s: above 5 s WireGuard"
        r" begins its handshake anew"
    )
    with pytest.raises(SystemExit, match=said):
        proof.check_round_trip(arguments("client"), described(), 6.0)
    proof.check_round_trip(arguments("client"), described(), 4.9)


def test_the_networks_between_the_ends_count(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [
        "wireguard",
        "127.0.0.1",
        "127.0.0.1",
        "192.168.20.0/24",
        "--path-mtus",
        "inventory,1492,9000",
        "client",
    ]
    networks = [("lo", IPv4Network("127.0.0.0/8"))]
    assert routes.own_mtu(arguments("client"), networks) == 65536
    assert routes.own_mtu(vpn.parse(words), networks) == 1492
    with pytest.raises(SystemExit):
        vpn.parse([*words[:5], "inventory,big", "client"])


def test_a_script_knows_the_networks_of_both_sides(tmp_path: Path) -> None:
    networks = [
        ("to_st", IPv4Network("127.0.0.0/24")),
        ("to_pc", IPv4Network("192.168.10.0/24")),
        ("to_tv", IPv4Network("192.168.11.0/24")),
    ]
    environment = programs.environment_of(
        arguments("client"), described(values={"cipher": "x"}), tmp_path, networks
    )
    assert environment["VPN_LOCAL_NETWORK"] == "192.168.10.0/24 192.168.11.0/24"
    assert environment["VPN_REMOTE_NETWORK"] == "192.168.20.0/24"
    assert (environment["VPN_MTU"], environment["VPN_CIPHER"]) == ("1420", "x")


@pytest.mark.parametrize(
    ("ways", "asked"),
    [
        ([("*", "192.168.20.0/24"), ("to_st", "0.0.0.0/0"), ("to_st", "10.10.1.0/24")], False),
        ([("*", "192.168.20.0/24"), ("vpn0", "192.168.20.0/24")], True),
    ],
)
def test_ip_is_started_only_when_there_is_a_way(
    monkeypatch: pytest.MonkeyPatch, ways: list[tuple[str, str]], asked: bool
) -> None:
    started = []

    def shown(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        started.append(command[0])
        return subprocess.CompletedProcess(
            command, 0, '[{"dst": "192.168.20.0/24", "dev": "vpn0"}]', ""
        )

    monkeypatch.setattr(
        routes, "main_table", lambda: [(name, IPv4Network(to), "0.0.0.0") for name, to in ways]
    )
    monkeypatch.setattr(subprocess, "run", shown)
    assert routes.leads_into_tunnel(arguments("wait")) == asked
    assert started == ["ip"] * asked


def test_the_lists_follow_from_the_folders() -> None:
    for file, text in vpn_lists.texts().items():
        assert file.read_text() == text, f"{file}: run tools/vpn_lists.py"


@pytest.mark.parametrize("kind", folders.kinds())
def test_a_folder_keeps_the_contract(kind: str) -> None:
    vpn_json = folders.describe(kind)
    assert set(vpn_json) - {"base", "config", "needs", "reads", "title"} == KEYS
    overhead_bytes = vpn_json["overhead_bytes"]
    assert overhead_bytes is None or vpn_json["inner_mtu"] + overhead_bytes <= 1500
    assert all(
        os.access(folders.scripts(kind) / script, os.X_OK) for script in ("keygen", "up", "down")
    )
    assert vpn_json["tested"] in ("CI", "make vpns", "not tested here")
    sources = {
        key
        for recipe in vpn_json["programs"].values()
        for key in ("crate", "go", "source", "host")
        if key in recipe
    }
    allowed = {
        "CI": set[str](),
        "make vpns": {"crate", "go", "source"},
        "not tested here": {"host"},
    }[vpn_json["tested"]]
    assert sources <= allowed and bool(sources) == bool(allowed)


def test_a_folder_takes_from_its_base_what_it_does_not_say() -> None:
    base, derived = folders.describe("nebula"), folders.describe("nebula_chacha")
    assert derived["packages"] == base["packages"]
    assert (base["values"], derived["values"]) == ({"cipher": "aes"}, {"cipher": "chachapoly"})
    assert folders.scripts("nebula_chacha").name == "nebula"
