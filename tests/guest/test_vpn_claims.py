# SPDX-License-Identifier: GPL-3.0-or-later
"""A VPN that came up is what its row says, or the run fails; what it warns of is below the table."""

from __future__ import annotations

import json
from pathlib import Path

from helpers.guest_runs import command, records
from helpers.vpns_tested import error_of

CELL = ("cc=cubic", "pep=none", "loss=0", "size=100k", "--seeds", "1,")
FALSE = {
    "in_user_space": {"base": "openvpn_udp", "runs_in": "kernel"},
    "in_the_kernel": {"base": "wireguard", "runs_in": "user space"},
    "without_a_key": {"base": "wireguard", "post_quantum": True},
    "one_path": {"base": "openvpn_tcp", "multipath": True, "carrier": "MPTCP"},
}
REASONS = {
    "in_user_space": "carried by the kernel, but vpn0 is of the type tun",
    "in_the_kernel": "carried by the user space, but vpn0 is of the type wireguard",
    "without_a_key": "its post-quantum key is not in force: vpn0 has no pre-shared key",
    "one_path": "one_path is a multipath VPN and does not use Multipath TCP",
}


def test_a_false_claim_of_a_folder_fails_the_run(tmp_path: Path) -> None:
    for name, described in FALSE.items():
        (tmp_path / "vpn-configs" / name).mkdir(parents=True)
        (tmp_path / "vpn-configs" / name / "vpn.json").write_text(json.dumps(described))
    where = ("--with", str(tmp_path), "--results", str(tmp_path / "r"))
    ended = command("geo", f"vpn={','.join(FALSE)}", *CELL, *where)
    assert ended.returncode == 1, ended.stderr
    errors = {run.row["vpn"]: error_of(run) for run in records(tmp_path / "r")}
    for name, reason in REASONS.items():
        assert reason in errors[name]
        assert f"failed: {name}" in ended.stderr and reason in ended.stderr


def test_dco_in_user_space_fails_and_names_the_option(tmp_path: Path) -> None:
    options = "vpn.options=--comp-lzo no,--data-ciphers AES-256-CBC,--fast-io"
    ended = command("geo", "vpn=openvpn_dco", options, *CELL, "--results", str(tmp_path / "r"))
    assert ended.returncode == 1
    assert ended.stderr.count("failed: openvpn_dco: its packets should be carried by the kern") == 2
    assert "Note: '--allow-compression' is not set to 'no', disabling data channel" in ended.stderr
    assert "openvpn_dco warns: DEPRECATED OPTION: --fast-io option ignored." in ended.stdout


def test_columns_tell_the_cipher_and_who_carries_the_packets(tmp_path: Path) -> None:
    vpns = "vpn=wireguard,strongswan,strongswan_policies,openvpn_dco,openvpn_udp"
    ended = command("geo", vpns, *CELL, "--results", str(tmp_path / "r"))
    assert ended.returncode == 0 and "warns" not in ended.stdout
    told = {
        run.row["vpn"]: (run.row["vpn_carried_by"], run.row["vpn_cipher"])
        for run in records(tmp_path / "r")
    }
    assert told == {
        "wireguard": ("kernel (wireguard)", "ChaCha20-Poly1305"),
        "strongswan": ("kernel (xfrm)", "AES_GCM_16_256/NO_EXT_SEQ"),
        "strongswan_policies": ("kernel (xfrm)", "AES_GCM_16_256/NO_EXT_SEQ"),
        "openvpn_dco": ("kernel (ovpn)", "AES-256-GCM"),
        "openvpn_udp": ("user space (tun)", "AES-256-GCM"),
    }


def test_options_without_effect_are_refused_before_the_run() -> None:
    for vpn, option in (("openvpn_udp", "--cipher AES-256-CBC"), ("openvpn_dco", "--mssfix 0")):
        refused = command("geo", f"vpn={vpn}", f"vpn.options={option}", *CELL)
        assert refused.returncode == 2 and "give vpn.c" in refused.stderr, refused.stderr


def test_a_vpn_that_does_not_come_up_tells_the_cause(tmp_path: Path) -> None:
    options = "vpn.options=--remote-cert-tls server"
    ended = command("geo", "vpn=openvpn_udp", options, *CELL, "--results", str(tmp_path / "r"))
    assert ended.returncode == 1
    assert (
        "failed: no packet has gone through openvpn_udp after 60 s; its errors:"
        " Certificate does not have key usage extension\n"
    ) in ended.stderr


def test_quic_that_stands_still_tells_why_and_another_receiver_goes_on(tmp_path: Path) -> None:
    path = ("delay_ms=5", "rate=10M", "return_rate=100k", "cc=cubic", "pep=none", "loss=0")
    cells = ("http=3", "size=10M", "quic_receiver=openssl,ngtcp2", "--seeds", "1,")
    ended = command("geo", "vpn=none", *path, *cells, "--results", str(tmp_path / "r"))
    assert ended.returncode == 1
    assert "failed: the download over HTTP/3 stands still: no data came for 55 s" in ended.stderr
    assert "in another try, with a log of QUIC: " in ended.stderr
    first, second = records(tmp_path / "r")
    assert (first.row["quic_receiver"], first.row["status"]) == ("openssl", "Finished Ko")
    assert (second.row["quic_receiver"], second.row["status"]) == ("ngtcp2", "Finished Ok")
    assert float(first.row["virtual_s"]) < 200


def test_a_connection_that_linux_gave_up_has_a_reason(tmp_path: Path) -> None:
    path = ("vpn=none", "pep=none", "cc=cubic", "loss=30", "size=300k")
    ended = command("geo", *path, "--seeds", "3", "--results", str(tmp_path / "r"))
    assert ended.returncode == 1
    assert "failed: a TCP connection of the test broke: after 15 retransmissions" in ended.stderr
    assert "(2 failed)" in ended.stdout and "WARNING: a cell with (N failed)" in ended.stdout


def test_a_program_that_the_testbed_lacks_is_named() -> None:
    ended = command("exec", "geo", "vpn=none", "--", "box", "resolvconf -a vpn0")
    assert ended.returncode == 1
    assert "the testbed has no program resolvconf, which a line DNS = of wg-quick" in ended.stderr


def test_a_cpu_that_says_nothing_of_the_vpn_is_refused_before_the_run() -> None:
    refused = command("geo", "vpn=openvpn_dco", "cpu=vm_xeon_2500", *CELL)
    assert refused.returncode == 2
    assert "cpu=vm_xeon_2500 vpn=openvpn_dco: " in refused.stderr
