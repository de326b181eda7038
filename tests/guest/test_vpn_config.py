# SPDX-License-Identifier: GPL-3.0-or-later
"""A person's own VPN file in the guest: what it comes to at both ends, and what it reaches."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from helpers.guest_runs import REPOSITORY, command, records

FILES = REPOSITORY / "tests/data/vpn_files"
GEO = ("cc=cubic", "size=60k", "pep=none", "loss=0")
WG = """[Interface]
PrivateKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=
MTU = 1380
[Peer]
PublicKey = xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=
Endpoint = 198.51.100.17:51820
PersistentKeepalive = 25
"""
OF_THE_FILE = ("yAnz5TF", "xTIBA5r", "198.51.100.17")


@pytest.mark.parametrize(
    ("vpn", "names"),
    [
        ("wireguard", ("provider.conf", "server.conf", "phone.conf")),
        ("openvpn_udp", ("provider.ovpn", "company.ovpn", "all_taken.ovpn")),
        ("openvpn_tcp", ("old_tcp.ovpn", "company.ovpn")),
    ],
)
def test_files_as_providers_make_them_come_up(
    vpn: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    files = [str(FILES / name) for name in names]
    done = command(
        "geo", f"vpn={vpn}", f"vpn.config={','.join(files)}", *GEO, "--results", str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    kept = records(tmp_path)
    assert {run.row["vpn_values"] for run in kept} == {f"config={file}" for file in files}
    for run in kept:
        (config,) = json.loads((run.record / "record.json").read_text())["host"][
            "vpn_configs"
        ].values()
        assert config["replaced"]
        if "mtu" in config["values"]:
            assert run.row["vpn_mtu"] == config["values"]["mtu"]


def test_a_line_acts_at_the_ends_own_and_new_keys_are_used(tmp_path: Path) -> None:
    file = tmp_path / "wg0.conf"
    file.write_text(WG)
    words = ("vpn=wireguard", "cc=cubic", f"vpn.config={file}", "--")
    look = "wg show vpn0; cat /sys/class/net/vpn0/mtu; nft list ruleset"
    done = command("exec", "geo", *words, "box", look, "pop", look)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n1380\n") == 2
    assert done.stdout.count("persistent keepalive: every 25 seconds") == 1
    assert "maxseg" not in done.stdout
    assert not any(text in done.stdout for text in OF_THE_FILE)


def whole(file: Path) -> bytes:
    """Return what a file of results has, packed or not."""
    content = file.read_bytes()
    return gzip.decompress(content) if file.suffix == ".gz" else content


HOSTILE = {
    "host file": "echo reached > {there}",
    "host program": "{there}.sh",
    "all files": "rm -rf --no-preserve-root /",
    "endless output": "yes",
}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("asked", ["off", "on"])
def test_commands_of_a_file_reach_nothing_of_this_machine(
    what: str, asked: str, tmp_path: Path
) -> None:
    """Without being asked for they are not run at all."""
    there, program = tmp_path / "reached", tmp_path / "reached.sh"
    program.write_text(f"#!/bin/sh\necho reached > {there}\n")
    program.chmod(0o755)
    file, results = tmp_path / "mine.conf", tmp_path / "results"
    line = HOSTILE[what].format(there=there)
    file.write_text(WG.replace("MTU", f"PostUp = {line}\nPreUp = {line}\nMTU"))
    before = sorted(tmp_path.iterdir())
    words = ("vpn=wireguard", f"vpn.config={file}", f"vpn.commands={asked}", *GEO)
    done = command("geo", *words, "--results", str(results))
    assert (done.returncode == 0) == (asked == "off"), done.stderr
    assert ("a command of the file failed" in done.stderr) == (asked == "on")
    assert len(done.stderr) < 100_000
    assert sorted(tmp_path.iterdir()) == sorted([*before, results])
    kept = b"".join(map(whole, filter(Path.is_file, results.rglob("*"))))
    assert len(kept) < 4 << 20
    assert not any(text.encode() in kept for text in OF_THE_FILE)


def test_no_process_of_this_machine_or_the_guest_has_a_key_in_its_words(tmp_path: Path) -> None:
    file = tmp_path / "mine.ovpn"
    text = (FILES / "company.ovpn").read_bytes()
    file.write_bytes(text)
    keys = re.findall(r"[A-Za-z0-9+/]{60,}", text.decode("utf-8-sig"))
    assert keys
    look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
    words = ("vpn=openvpn_udp", "cc=cubic", f"vpn.config={file}", "--", "box", look, "pop", look)
    done = command("exec", "geo", *words)
    assert done.stdout.count("--mssfix 1450") >= 2
    assert not any(key in done.stdout + done.stderr for key in keys)
