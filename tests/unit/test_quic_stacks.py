# SPDX-License-Identifier: GPL-3.0-or-later
"""Implementations of QUIC: what jobs, their declarations and the folders say of them is the same."""

from __future__ import annotations

import argparse
import json
import re

import pytest

from openbach_jobs import nginx, quic_stacks
from openbach_run.paths import REPOSITORY

DESCRIBED = {
    file.parent.name: json.loads(file.read_text())
    for file in REPOSITORY.glob("library/quic-stacks/*/stack.json")
}
OTHERS = sorted({*DESCRIBED} - {nginx.NGINX})


def parsed(*words: str) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser()
    nginx.add_quic_arguments(parser, parser)
    return parser, parser.parse_args(words)


def test_the_jobs_know_the_folders() -> None:
    assert {*nginx.STACKS} == {*DESCRIBED}
    for stack in OTHERS:
        assert list(nginx.STACKS[stack]) == DESCRIBED[stack]["congestion_controls"]
        assert [quic_stacks.PROGRAM[stack]] == list(DESCRIBED[stack]["programs"])


@pytest.mark.parametrize("job", ["file_transfer", "web_page"])
def test_the_declarations_refuse_what_a_stack_has_not(job: str) -> None:
    text = (REPOSITORY / f"jobs/{job}/files/{job}.yml").read_text()
    for stack in OTHERS:
        (rule,) = re.findall(rf"if: http == 3 and quic == '{stack}'(.*)", text)
        assert re.findall(r"quic_cc != '(\w+)'", rule) == list(nginx.STACKS[stack])


@pytest.mark.parametrize("stack", OTHERS)
def test_a_control_that_a_stack_has_not_is_refused_by_name(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser, arguments = parsed("--quic", stack, "--quic-cc", "hybla")
    with pytest.raises(SystemExit):
        nginx.stack_of(parser, arguments, "3")
    had = ", ".join(nginx.STACKS[stack])
    assert f"quic_cc is hybla: {stack} has {had}" in capsys.readouterr().err
    assert nginx.stack_of(parser, arguments, "2") == nginx.NGINX
    parser, arguments = parsed("--quic", stack, "--quic-cc", nginx.STACKS[stack][0])
    assert nginx.stack_of(parser, arguments, "3") == stack


def test_a_host_without_the_program_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quic_stacks, "PROGRAMS", "/nowhere")
    with pytest.raises(SystemExit, match="quic=quinn: this host has no /nowhere/quinn-files"):
        quic_stacks.program_of("quinn")
