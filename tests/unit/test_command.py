# SPDX-License-Identifier: GPL-3.0-or-later
"""openbach_jobs: how jobs run commands, wait for states and record what they changed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from helpers.job_code import ROOT
from hypothesis import given
from hypothesis import strategies as st

from openbach_jobs import command, ports


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {
        "COMMANDS": str(tmp_path / "commands.sh"),
        "HOST": "box",
        "BEGAN_NS": "0",
    }.items():
        monkeypatch.setenv(f"OPENBACH_RUN_{name}", value)
    return tmp_path / "commands.sh"


def typed(commands: Path) -> list[str]:
    """The lines of the record, without their times."""
    return [line.partition("  # ")[0] for line in commands.read_text().splitlines()]


def test_a_command_that_fails_ends_the_job_with_its_words_and_its_input() -> None:
    with pytest.raises(
        SystemExit, match=r"sh -c echo no such thing >&2; exit 3: exit code 3: no such thing$"
    ):
        command.run("sh", "-c", "echo no such thing >&2; exit 3")
    with pytest.raises(SystemExit, match=r"exit code 1: .*; its input was:\nlink add x"):
        command.run("false", lines=["link add x"])
    with pytest.raises(SystemExit, match="no-such-program is not installed on this host"):
        command.run("no-such-program")
    with pytest.raises(SystemExit, match=r"sleep 9 did not end in 0.05 s"):
        command.run("sleep", "9", limit_s=0.05)


def test_only_changes_that_were_done_are_recorded(commands: Path) -> None:
    command.run("true")
    command.undo("false")
    with pytest.raises(SystemExit):
        command.change("false", "a change")
    assert not commands.exists()
    command.change("echo", "two words", "$HOME")
    assert typed(commands) == ["ip netns exec box echo 'two words' '$HOME'"]


def test_a_batch_and_a_script_are_recorded_as_what_the_command_read(commands: Path) -> None:
    command.record("tc", lines=["qdisc add dev x root netem", "qdisc show"])
    command.change("cat", text="\ntable inet x { }\n")
    batch = [
        "ip netns exec box tc -batch - << 'EOF'",
        "qdisc add dev x root netem",
        "qdisc show",
        "EOF",
    ]
    assert typed(commands) == [*batch, "ip netns exec box cat << 'EOF'", "table inet x { }", "EOF"]


def test_a_setting_is_recorded_as_sysctl_and_one_that_the_kernel_refuses_ends_the_job(
    commands: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "SYSCTLS", f"{tmp_path}/")
    command.write(tmp_path / "ttl", "64")
    assert typed(commands) == ["ip netns exec box sysctl -qw ttl=64"]
    with pytest.raises(SystemExit, match="/dev/null is '' after writing '64'"):
        command.write(Path("/dev/null"), "64")


@given(
    st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1)
)
def test_what_is_recorded_is_read_back_by_a_shell_as_it_was(words: list[str]) -> None:
    shown = command.pasted(["printf", "%s\\0", *words], None, None, "  # 0.00 s")
    done = subprocess.run(["sh", "-c", shown], check=True, capture_output=True)
    assert done.stdout.decode().split("\0")[:-1] == words


def test_what_was_started_and_made_is_undone_in_reverse_order(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(SystemExit), ExitStack() as at_end:
        at_end.callback(command.undo, "sh", "-c", f"echo first >> {log}")
        at_end.callback(command.undo, "sh", "-c", f"echo second >> {log}")
        program = at_end.enter_context(command.started("sleep", "100"))
        command.run("false")
    assert log.read_text().split() == ["second", "first"] and program.returncode is not None


def test_a_state_is_returned_as_soon_as_it_is_there() -> None:
    answers = iter([None, "", "there"])
    assert command.wait_for("it", lambda: next(answers), 10, retry_s=0.001) == "there"


def test_a_state_that_does_not_come_is_named_with_the_evidence() -> None:
    with pytest.raises(SystemExit, match=r"the tunnel is not up after 0.05 s; it said: nothing"):
        command.wait_for(
            "the tunnel is not up",
            lambda: False,
            0.05,
            retry_s=0.01,
            evidence=lambda: "; it said: nothing",
        )


NETLINK = """
import time, subprocess
from openbach_jobs import command
subprocess.Popen(["sh", "-c", "sleep 0.2; ip link set lo alias up"])
asked = []
def state():
    asked.append(1)
    return "up" in command.run("ip", "link", "show", "lo")
command.wait_for("lo is not up", state, 600, told_by=command.LINKS, retry_s=1000)
print(len(asked))
"""


@pytest.mark.skipif(
    subprocess.run(["unshare", "-rn", "true"], check=False, capture_output=True).returncode != 0,
    reason="no namespaces of our own on this machine",
)
def test_the_kernel_tells_of_a_link_and_nobody_polls() -> None:
    words = ["unshare", "-rn", sys.executable, "-c", NETLINK]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    assert int(done.stdout) < 10


def test_a_server_that_ends_at_once_is_named_with_who_has_its_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ports, "is_listening", lambda port: False)
    with socket.create_server(("", 0)) as holder, subprocess.Popen(["false"]) as server:
        server.wait()
        port = holder.getsockname()[1]
        with pytest.raises(
            SystemExit,
            match=rf"nginx ended at once with exit code 1; port {port} is taken by .*{os.getpid()}",
        ):
            ports.wait_listening(server, "nginx", port)


def test_jobs_have_no_runner_and_no_wait_of_their_own() -> None:
    """One place that waits: nobody else reads a clock and sleeps until a state has come."""
    own = [
        file.relative_to(ROOT)
        for file in sorted(ROOT.glob("jobs/*/files/*.py"))
        if not file.is_symlink()
        and ("def retried" in file.read_text() or "def wait_until" in file.read_text())
    ]
    assert not own
