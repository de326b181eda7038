# SPDX-License-Identifier: GPL-3.0-or-later
"""What bash completes with the script that the command prints."""

from __future__ import annotations

import subprocess

import pytest

from openbach_run.commands.completion import script


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("repo", {"report"}),
        ("geo_l", {"geo_loss"}),
        ("geo --see", {"--seeds"}),
        ("geo vp", {"vpn="}),
        ("artifact --ver", {"--verify"}),
    ],
)
def test_bash_completes(typed: str, completed: set[str]) -> None:
    words = ["openbach-run", *typed.split()]
    quoted = " ".join(f"'{word}'" for word in words)
    ask = (
        f"compopt() {{ :; }}\n{script()}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1};"
        " _openbach_run\n"
    )
    done = subprocess.run(
        ["bash", "-c", ask + 'printf "%s\\n" "${COMPREPLY[@]}"'],
        check=True,
        capture_output=True,
        text=True,
        cwd="/var",
    )
    assert set(done.stdout.split()) >= completed
    assert done.stderr == ""
