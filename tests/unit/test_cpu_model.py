# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles of CPUs, and what the job vpn tells the kernel of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.job_code import load

cpu_model, vpn, tunnel = load("vpn", "cpu_model"), load("vpn"), load("vpn", "vpn_tunnel")
TIMES = {
    "encrypt": {"ns_per_packet": 1000, "ns_per_byte": 2.5},
    "decrypt": {"ns_per_packet": 2000, "ns_per_byte": 0},
}
PROFILE = {"queue_packets": 10, "vpns": {"wireguard": TIMES}}


def changed(at: str, value: Any) -> Any:
    """The profile with another value at a path."""
    copy = json.loads(json.dumps(PROFILE))
    *path, last = at.split(".")
    place = copy
    for key in path:
        place = place[key]
    place[last] = value
    return copy


def found(folder: Path, profile: Any, kind: str = "wireguard", scale: float = 1) -> Any:
    (folder / "mine.json").write_text(json.dumps(profile))
    return cpu_model.find("mine", kind, scale, folder)


def test_a_packet_costs_what_the_profile_says_as_often_as_the_scale(tmp_path: Path) -> None:
    costs = found(tmp_path, PROFILE, scale=3)
    assert costs.encrypt.of_ns(100) == 3 * (1000 + 250)
    assert costs.decrypt.of_ns(100) == 3 * 2000
    assert costs.queue_packets == 10


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ([], "should be a JSON object with vpns"),
        ({"vpns": []}, "should be a JSON object with vpns"),
        (changed("queue_packets", 0), "queue_packets is 0: a whole number from 1 to 10000"),
        (changed("queue_packets", 1.5), "queue_packets is 1.5"),
        (changed("vpns", {"nebula": TIMES}), "says nothing of wireguard; it has nebula"),
        (
            changed("vpns.wireguard.decrypt", 5),
            r"vpns\.wireguard\.decrypt: should be an object with ns_per_packet",
        ),
        (
            changed("vpns.wireguard.encrypt.ns_per_byte", -1),
            "encrypt.ns_per_byte is -1: a number from 0 to 100000",
        ),
        (
            changed("vpns.wireguard.encrypt.ns_per_packet", "1"),
            "encrypt.ns_per_packet is '1': a number from 0 to 1e",
        ),
        (changed("vpns.wireguard.encrypt.ns_per_packet", None), "encrypt.ns_per_packet is None"),
    ],
)
def test_what_is_no_profile(tmp_path: Path, profile: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        found(tmp_path, profile)


def test_a_scale_that_no_packet_survives(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1000 times that is more than 4 s a packet"):
        found(tmp_path, changed("vpns.wireguard.encrypt.ns_per_packet", 1e7), scale=1000)


def test_a_profile_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("{}")
    with pytest.raises(ValueError, match="there is no profile yours of a CPU; there are mine"):
        cpu_model.find("yours", "wireguard", 1, tmp_path)


def test_packets_of_other_users() -> None:
    others = cpu_model.Others(100, 1e6, 1250, 600)
    assert others.mean_ns() == pytest.approx(1e9 / (100 * 1e6 / 8 / 1250))


def test_what_the_kernel_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "cpu_model"
    state.write_text(
        "busy_ns 700\nbusiest_ns 600\nvpn0 encrypt 1 100 2 30 5 6\nvpn0 decrypt 3 200 4 50 2 0\n"
        "vpn1 encrypt 9 900 9 99 9 9\nvpn1 decrypt 9 900 9 99 9 9\n"
    )
    monkeypatch.setattr(cpu_model, "STATE", state)
    assert cpu_model.shown("vpn0") == {
        "busy_ns": 700,
        "busiest_ns": 600,
        "others": 7,
        "others_dropped": 6,
        "packets": 4,
        "bytes": 300,
        "dropped": 6,
        "longest_ns": 50,
    }


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--cpu-scale=0", "cpu_scale is 0"),
        ("--users=0", "users is 0"),
        ("--user-packet-bytes=10", "user_packet_bytes is 10"),
        ("--user-rate-kbps=0", "user_rate_kbps is 0"),
    ],
)
def test_the_job_takes_no_value_beyond_its_limits(
    option: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        vpn.parse([option, "wireguard", "10.0.0.1", "10.0.0.2", "10.1.0.0/24", "client"])
    assert said in capsys.readouterr().err


def test_a_vpn_without_an_interface_has_no_costs() -> None:
    arguments = vpn.parse(
        [
            "--cpu=vm_xeon_2500",
            "strongswan_policies",
            "10.0.0.1",
            "10.0.0.2",
            "10.1.0.0/24",
            "client",
        ]
    )
    with pytest.raises(SystemExit, match="no interface of its own"):
        tunnel.cpu_of(arguments, {"device": False})
    arguments.cpu = None
    assert tunnel.cpu_of(arguments, {"device": False}) is None
