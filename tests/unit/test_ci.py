# SPDX-License-Identifier: GPL-3.0-or-later
"""CI (`.ci/run`): no part hides another, the nightly parts have all that a push leaves out."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import parts
import pytest
import yaml

from openbach_run.paths import REPOSITORY

MAKEFILE = (REPOSITORY / "Makefile").read_text()
TARGETS = {*re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE)}
MOVED = dict(
    line.split(": ", 1) for line in (REPOSITORY / "tools/moved.txt").read_text().splitlines()
)
MAKE = """#!/bin/sh
# As make for a part: `unit` fails, `guest` writes what pytest does.
for word; do case "$word" in
PYTEST=--junitxml=*) report=${word#*=--junitxml=} ;;
unit) exit 3 ;;
guest) echo '<s><testcase classname="tests.guest.test_a" name="test_b" time="2.5"/></s>' > "$report" ;;
esac; done
"""
Run = tuple[subprocess.CompletedProcess[str], list[str]]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `make` that does nothing, and nothing to install."""
    (tmp_path / "make").write_text(MAKE)
    (tmp_path / "make").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(parts, "ensure_tools", lambda tools: None)
    monkeypatch.setattr(parts, "STAMP", tmp_path / "nightly.stamp")


def table(printed: str) -> list[list[str]]:
    """Return the words of the table's rows but for the seconds."""
    _, _, rows = printed.rpartition(parts.HEAD)
    return [[*row.split()[:2], *row.split()[3:]] for row in rows.strip().splitlines()]


@pytest.mark.usefixtures("make")
def test_no_part_hides_another(capfd: pytest.CaptureFixture[str]) -> None:
    assert parts.main([]) == 1
    rows = table(capfd.readouterr().out)
    assert rows[4:6] == [["unit", "failed"], ["guest", "passed", "1", "2.5", "test_a::test_b"]]
    assert [row[0] for row in rows] == [
        "packages",
        "lint",
        "pep",
        "peers",
        "unit",
        "guest",
        "pages",
    ]


@pytest.mark.usefixtures("make")
def test_named_parts_run_alone_and_nothing_in_turn(capfd: pytest.CaptureFixture[str]) -> None:
    assert parts.main(["lint", "guest-2"]) == 0
    assert [row[0] for row in table(capfd.readouterr().out)] == ["packages", "lint", "guest-2"]


@pytest.mark.usefixtures("make")
def test_a_stale_nightly_part_runs_where_time_is_left(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "STAGES", (("lint",), ("guest",)))
    monkeypatch.setattr(parts, "commit_count", lambda: 1000)
    parts.stamp([part for part in parts.IN_TURN if part != "wheels"], 801)
    assert parts.main([]) == 0
    printed = capfd.readouterr().out
    assert "== time is left: nightly part wheels, in turn\n" in printed
    assert table(printed)[-1][:2] == ["nightly-wheels", "passed"]
    monkeypatch.setattr(parts, "TIME_IS_LEFT_S", -1)
    assert parts.main([]) == 0
    assert "in turn" not in capfd.readouterr().out


@pytest.mark.usefixtures("make")
def test_a_nightly_part_that_passes_is_not_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parts.in_turn(0) == parts.IN_TURN[0]
    assert parts.in_turn(1) == parts.IN_TURN[1], "each in its turn"
    monkeypatch.setattr(parts, "commit_count", lambda: 1)
    assert parts.main(["--nightly", "wheels", "builds"]) == 0
    assert parts.stamps() == {"wheels": 1, "builds": 1}
    parts.stamp(parts.NIGHTS, 7)
    assert parts.in_turn(206) is None
    assert parts.in_turn(207)


@pytest.mark.parametrize("words", [("guests",), ("--nightly", "unit"), ("wheels",)])
def test_a_part_that_is_not_there_is_refused(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parts.main(words)
    assert "there are: " in capsys.readouterr().err


def test_every_part_is_a_target_of_the_makefile() -> None:
    targets = {part for stage in parts.STAGES for part in stage}
    assert targets | {words[0] for words in parts.LONG.values()} <= TARGETS


def test_the_two_halves_of_the_guests_tests_are_all_of_them() -> None:
    halves = [file for number in (1, 2) for file in parts.half_of(number)]
    files = [str(file) for file in Path("tests/guest").glob("test_*.py")]
    assert sorted(halves) == sorted(files)


def test_what_a_push_leaves_out_is_in_one_nightly_part() -> None:
    """A check runs all files without the mark's tests, a nightly part all of some files with it.

    Those of the unit tests are all in the part `examples`.
    """
    listed = ["git", "grep", "-l", r"pytest\.mark\.nightly\b", "--", "*.py"]
    printed = subprocess.run(listed, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    nightly = [f"tests/guest/{file}.py" for files in parts.NIGHTLY.values() for file in files]
    examples = [
        file
        for file in printed.stdout.split()
        if file.startswith(("tests/unit/", "tests/satlink/"))
    ]
    assert examples and parts.LONG["examples"] == ("unit", "MARK=nightly")
    assert sorted([*nightly, *examples]) == sorted(printed.stdout.split())
    runs = re.findall(
        r"^\t\$\(DEV\) python -m pytest .*(?:tests\S*|GUEST\)).*$", MAKEFILE, re.MULTILINE
    )
    everywhere = [line for line in runs if "PYTEST" in line]
    assert [line for line in everywhere if '-m "$(MARK)"' not in line] == [
        "\t$(DEV) python -m pytest $(PYTEST) pep/tests",
        "\t$(DEV) python -m pytest $(PYTEST) tests/peers",
    ]
    assert "\nMARK := not nightly\n" in MAKEFILE
    assert "MARK=nightly" in parts.words_of("nightly-wheels", Path("report"))


CALL = re.compile(r"ensure_tools\(\s*(\{[^}]*\})", re.DOTALL)


def test_what_tests_need_of_debian_is_installed_before_they_begin() -> None:
    known = {package for tools in parts.TOOLS.values() for package in tools.values()}
    known |= {*parts.USUAL.values(), "iperf3"}  # of pep/bench.py, which is no test
    for place in ("tests/guest", "tests/helpers", "tests/pages", "pep"):
        for file in (REPOSITORY / place).rglob("*.py"):
            for tools in CALL.findall(file.read_text()):
                packages = re.findall(r': "([\w+.-]+)"', tools)
                made_up = {"openssh-server", "-oDPkg::Pre-Invoke::"}
                assert {*packages} - made_up <= known, f"{file}: {packages}"


@pytest.mark.parametrize("word", MOVED)
def test_a_target_of_before_says_what_took_its_place(word: str) -> None:
    assert word not in TARGETS
    ended = subprocess.run(
        ["make", word], check=False, cwd=REPOSITORY, capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"make {word} is now: {MOVED[word]}\n")


PROGRAMS = {file for command in MOVED.values() for file in re.findall(r"\S+/\S+\.py", command)}
AGENT = "src/openbach_run/guest/agent_library"
PATH = [
    *(str(REPOSITORY / place) for place in ("src", AGENT, "tests", "pep/tests")),
    *map(str, REPOSITORY.glob("jobs/*/files")),
]
"""As tools/dev sets it."""


@pytest.mark.parametrize("program", sorted(file for file in PROGRAMS if "/test_" not in file))
def test_what_took_its_place_says_how_it_is_called(program: str) -> None:
    environment = {**os.environ, "PYTHONPATH": ":".join(PATH)}
    command = [sys.executable, str(REPOSITORY / program), "--help"]
    ended = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    assert ended.stdout.startswith("usage: ")


@pytest.mark.parametrize(
    "program", [f"tools/{name}" for name in ("try-empty", "try-install", "in-root", "deb", "lock")]
)
def test_a_script_says_what_it_does(program: str) -> None:
    command = [str(REPOSITORY / program), "--help"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert re.match(r"(Runs|Writes|Tries|Makes) ", said)


WORKFLOWS = {
    name: yaml.safe_load((REPOSITORY / f".github/workflows/{name}.yml").read_text())
    for name in ("check", "nightly")
}


def commands(name: str) -> list[list[str]]:
    """Return the commands of this repository that GitHub runs in a workflow."""
    (job,) = WORKFLOWS[name]["jobs"].values()
    told = [step["run"] for step in job["steps"] if "$" not in step.get("run", "$PWD")]
    told += [
        step["run"].replace("${{ matrix.parts }}", named)
        for step in job["steps"]
        for named in job["strategy"]["matrix"]["parts"]
        if "matrix.parts" in step.get("run", "")
    ]
    return [shlex.split(command) for command in told if command.startswith(".ci/")]


def test_github_runs_every_part_and_both_halves() -> None:
    known = {part for stage in parts.STAGES for part in stage} - {"guest"} | {*parts.HALVES}
    asked = [word for command in commands("check") for word in command[1:]]
    assert sorted(asked) == sorted(known)


def test_github_runs_every_nightly_part() -> None:
    told = commands("nightly")
    assert all(command[:2] == [".ci/run", "--nightly"] for command in told)
    assert sorted(word for command in told for word in command[2:]) == sorted(parts.NIGHTS)


def test_github_keeps_the_cache_by_what_it_is_made_of() -> None:
    for workflow in WORKFLOWS.values():
        (job,) = workflow["jobs"].values()
        (key,) = [step["with"]["key"] for step in job["steps"] if "cache" in step.get("uses", "")]
        assert {*re.findall(r"'([^']+)'", key)} == {*("kernel/**", "pep/**", "tools/locks/*")}
        assert job["strategy"]["fail-fast"] is False
