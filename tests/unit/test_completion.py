# SPDX-License-Identifier: GPL-3.0-or-later
"""What shells complete with the scripts that the command prints, and that no typed word is lost."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openbach_run.commands.completion import SCRIPTS, completed
from openbach_run.paths import REPOSITORY


@pytest.mark.parametrize(
    ("typed", "all_of_it"),
    [
        ("repo", {"report"}),
        ("lan", {"lan", *(f"lan_{name}" for name in ("cache", "ping", "reconnect", "stability"))}),
        ("geo_l", {"geo_loss", "geo_loss_table"}),
        ("geo --see", {"--seeds"}),
        ("geo --engine v", {"virtual"}),
        ("geo vp", {"vpn=", "vpn_values="}),
        ("geo vpn=wi", {"vpn=wireguard", "vpn=wireguard_go"}),
        ("geo vpn=none,wireguard_", {"vpn=none,wireguard_go"}),
        ("geo orbit=st", {"orbit=starlink", "orbit=starlink_isl"}),
        ("geo size=", {"size=30M"}),
        ("geo link_file=/etc/ho", set()),
        ("geo vpn.ciph", {"vpn.cipher="}),
        ("exec geo vpn=wi", {"vpn=wireguard", "vpn=wireguard_go"}),
        ("artifact --ver", {"--verify"}),
        ("link ma", {"mahimahi"}),
        ("link leo --alt", {"--altitude-km"}),
        ("list vp", {"vpns"}),
        ("completion f", {"fish"}),
        ("full vp", set()),
    ],
)
def test_a_word_is_completed(typed: str, all_of_it: set[str]) -> None:
    found = set(completed(typed.split()))
    assert found >= all_of_it and bool(found) == bool(all_of_it)
    assert all(text.startswith(typed.split()[-1]) for text in found)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The PATH with an openbach-run of this checkout."""
    program = tmp_path / "openbach-run"
    source = f"PYTHONPATH='{REPOSITORY / 'src'}' exec '{sys.executable}' -m openbach_run"
    program.write_text(f'#!/bin/sh\n{source} "$@"\n')
    program.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("openbach-run geo vpn=wi", "openbach-run geo vpn=wireguard"),
        ("openbach-run geo vpn=none,nebu", "openbach-run geo vpn=none,nebula"),
        ("openbach-run geo orb", "openbach-run geo orbit="),
        ("openbach-run geo link_file=here/own.c", "openbach-run geo link_file=here/own.csv"),
    ],
)
def test_bash_as_a_person_types(typed: str, shown: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here/own.csv").touch()
    (tmp_path / "script").write_text(SCRIPTS["bash"])
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        environment = {"PATH": path, "PS1": "READY$ ", "TERM": "dumb", "HOME": str(tmp_path)}
        os.execvpe("bash", ["bash", "--norc", "-i"], environment)

    def until(text: str) -> None:
        told = ""
        while text not in told:
            assert select.select([terminal], [], [], 30)[0], told
            told += os.read(terminal, 1 << 16).decode().replace("\a", "")

    try:
        until("READY$ ")
        os.write(terminal, b"source ./script; stty cols 200; PS1='NO''W$ '\n")
        until("NOW$ ")
        os.write(terminal, f"{typed}\t".encode())
        until(shown)
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_are_understood(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    (tmp_path / "script").write_text(SCRIPTS[shell])
    subprocess.run([shell, "-n", tmp_path / "script"], check=True)
