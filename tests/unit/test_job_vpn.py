# SPDX-License-Identifier: GPL-3.0-or-later
"""The vpn job's exchange of keys and its watch over a daemon; the folders of vpn-configs."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openbach_run.guest import collect_agent
from openbach_run.job_packages import load_packages

ROOT = Path(__file__).resolve().parents[2]
sys.modules.setdefault("collect_agent", collect_agent)
sys.path.insert(0, str(ROOT / "jobs/vpn/files"))
vpn = importlib.import_module("vpn")
FOLDERS = sorted(file.parent for file in (ROOT / "vpn-configs").glob("*/vpn.json"))


def arguments(role: str, remote_network: str = "192.168.20.0/24") -> object:
    return vpn.parse(["wireguard", "127.0.0.1", "127.0.0.1", remote_network, role])


def test_the_ends_of_the_tunnel_see_each_other() -> None:
    client, server = arguments("client"), arguments("server")
    assert (client.tunnel_ip, client.remote_tunnel_ip) == (server.remote_tunnel_ip, server.tunnel_ip)  # type: ignore[attr-defined]


def test_each_end_gets_the_others_public_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vpn, "EXCHANGE_PORT", 45999)
    monkeypatch.setattr(vpn, "LIMIT_S", 10.0)
    with ThreadPoolExecutor() as ends:  # the client may be first: it tries until the server listens
        client = ends.submit(vpn.exchange, arguments("client"), "of the client\n")
        server = ends.submit(vpn.exchange, arguments("server"), "of the server\n")
    assert (client.result(), server.result()) == ("of the server\n", "of the client\n")


def test_a_server_that_never_comes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vpn, "EXCHANGE_PORT", 45998)
    monkeypatch.setattr(vpn, "LIMIT_S", 0.3)
    with pytest.raises(SystemExit, match=r"127\.0\.0\.1 does not answer on port 45998 after 0\.3 s"):
        vpn.exchange(arguments("client"), "key")


def exit_code_of_watch(program: str) -> int:
    """Exit code of a process that watches over `sh -c program` as the job does: 0 if it is told to stop."""
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, {*vpn.SIGNALS, signal.SIGCHLD})
        daemon = subprocess.Popen(["sh", "-c", program], preexec_fn=vpn.unblock_signals)
        stopped = vpn.is_stopped(daemon, True, arguments("server"))
        daemon.kill()
        os._exit(0 if stopped else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_daemon_that_fails_is_noticed() -> None:
    assert exit_code_of_watch("exit 3") == 1


def test_a_daemon_that_leaves_without_an_order_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vpn, "STOP_GRACE_S", 0.1)
    assert exit_code_of_watch("exit 0") == 1


def test_an_agent_ends_the_daemon_first_and_then_the_job() -> None:
    assert exit_code_of_watch("(sleep 0.2; kill -TERM $PPID) & exit 0") == 0


def test_the_order_to_stop_ends_the_wait() -> None:
    assert exit_code_of_watch("kill -TERM $PPID; exec sleep 60") == 0


def test_messages_hold_the_daemons_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(50)) + "Cannot resolve host\n")
    daemon = subprocess.Popen(["sh", "-c", "exit 4"])
    daemon.wait()
    said = vpn.ended("openvpn_udp", daemon, log)
    assert "openvpn_udp ended by itself with exit code 4" in said
    assert said.endswith("Cannot resolve host")
    assert "line 5\n" not in said


def test_a_vpn_that_this_host_cannot_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    daemon = subprocess.Popen(["sh", "-c", "exit 127"])
    daemon.wait()
    assert vpn.ended("wireguard", daemon, tmp_path / "log") == "this host cannot run wireguard; it said nothing"


def test_the_jobs_choices_are_the_folders() -> None:
    description = load_packages([ROOT / "jobs/vpn"])["vpn"].job
    (kind,) = [argument for argument in description.arguments.required if argument.name == "kind"]
    assert sorted(kind.choices) == sorted(["none", *(folder.name for folder in FOLDERS)])


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_keeps_the_contract(folder: Path) -> None:
    described = json.loads((folder / "vpn.json").read_text())
    assert set(described) == {"description", "packages", "daemon", "inner_mtu", "overhead_bytes"}
    overhead_bytes = described["overhead_bytes"]
    assert overhead_bytes is None or described["inner_mtu"] + overhead_bytes <= 1500
    assert all(os.access(folder / script, os.X_OK) for script in ("keygen", "up", "down"))
