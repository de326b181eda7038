# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/look-around.md and docs/ci.md: their commands, and the files for CI, do what they say."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import own_files
from helpers.guest_runs import REPOSITORY, command
from helpers.terminals import terminal

from openbach_run.yaml_files import read_yaml

DOCS = REPOSITORY / "docs"
CI = {
    "bundle": "openbach",
    "server": "./serve payload",
    "client": "./fetch server got",
    "options": "--payload 30k --received got --once",
    "seeds": "2",
}


def test_commands_of_look_around(tmp_path: Path) -> None:
    own_files.write("look-around.md", tmp_path)
    lines = [line for line in own_files.commands("look-around.md") if " exec " in line]
    assert len(lines) == 5
    for line in lines:
        done = command(*shlex.split(line)[1:], cwd=tmp_path)
        assert done.returncode == 0, f"{line}: {done.stderr}"
    assert (tmp_path / "out/st.pcap").stat().st_size > 500


def test_its_prompts(tmp_path: Path) -> None:
    page = (DOCS / "look-around.md").read_text()
    (transcript,) = re.findall(r"^```text\n(pc\$ .*?)^```$", page, re.M | re.S)
    typed = [line.partition("$ ") for line in transcript.splitlines()]
    assert "./openbach-run shell geo vpn=wireguard" in page
    with terminal("geo", "vpn=wireguard", cwd=tmp_path) as one:
        for host, _, line in typed:
            one.until(f"{host}$ ")
            one.type("{}\n".format(line.replace("tcpdump -i", "timeout 5 tcpdump -i")))
        assert one.code() == 0


def test_its_python(tmp_path: Path) -> None:
    page = (DOCS / "look-around.md").read_text()
    (text,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    done = subprocess.run(
        [sys.executable, "-c", text],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
    )
    assert done.returncode == 0, done.stderr
    assert "3 packets transmitted" in done.stdout


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with the programs of ci.md, and a file that is like a bundle."""
    for file in own_files.write("ci.md", tmp_path):
        file.chmod(0o755)
    bundle = tmp_path / "openbach"
    line = f"PYTHONPATH={REPOSITORY / 'src'} exec {sys.executable} -m openbach_run"
    bundle.write_text(f'#!/bin/sh\n{line} "$@"\n')
    return tmp_path


def test_commands_of_ci(here: Path) -> None:
    first, second = own_files.commands("ci.md")
    for line in (first, second):
        done = command(*shlex.split(line)[1:], cwd=here)
        assert done.returncode == 0, f"{line}: {done.stderr} {done.stdout}"
        assert done.stdout.count("| 300000 |") == 5
    assert "**no worse**: time +0.0%" in (here / "try.md").read_text()


def step(text: str, here: Path, given: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A step of CI, run as the service does."""
    environment = {**os.environ, "RUNNER_TEMP": str(here), "TMPDIR": str(here), **given}
    return shell_of_ci(text, here, {**environment, "GITHUB_STEP_SUMMARY": str(here / "page.md")})


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_a_step_of_ci_finds_what_became_slower(service: str, here: Path) -> None:
    sha256 = hashlib.sha256((here / "openbach").read_bytes()).hexdigest()
    text, given = github(sha256) if service == "github" else gitlab(sha256)
    base = step(text, here, {**given, "OUTPUT": "base"})
    assert base.returncode == 0, base.stderr + base.stdout
    slower = (here / "serve").read_text().replace(SENDS, SLOWLY)
    (here / "serve").write_text(slower)
    worse = step(text, here, {**given, "OUTPUT": "now", "AGAINST": "base"})
    assert worse.returncode == 3, worse.stderr + worse.stdout
    assert "**worse**" in (here / "now/summary.md").read_text()
    assert (here / "now/junit.xml").exists()
    if service == "github":
        assert "**worse**" in (here / "page.md").read_text()
    (here / f"openbach-{sha256}").unlink()
    changed = {key: value.replace(sha256, "0" * 64) for key, value in given.items()}
    assert step(text, here, changed).returncode == 1, "a bundle that is another one"


@pytest.mark.nightly
@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_a_step_of_ci_with_a_real_bundle_where_no_checkout_is(
    service: str, bundle: Path, tmp_path: Path
) -> None:
    """The bundle is downloaded and unpacked, by a user without a home, a Python or a cache."""
    runner = tmp_path / "runner"
    for name in ("home", "temp", "work"):
        (runner / name).mkdir(parents=True)
    here = runner / "work"
    for file in own_files.write("ci.md", here):
        file.chmod(0o755)
    sha256 = hashlib.sha256(bundle.read_bytes()).hexdigest()
    text, given = github(sha256) if service == "github" else gitlab(sha256)
    at = "BUNDLE" if service == "github" else "OPENBACH_BUNDLE"
    machine = {
        "HOME": str(runner / "home"),
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "RUNNER_TEMP": str(runner / "temp"),
        "TMPDIR": str(runner / "temp"),
        "GITHUB_STEP_SUMMARY": str(runner / "page.md"),
    }

    def done(**more: str) -> subprocess.CompletedProcess[str]:
        environment = {**machine, **given, at: bundle.as_uri(), **more}
        return shell_of_ci(text, here, environment)

    base = done(OUTPUT="base")
    assert base.returncode == 0, base.stderr + base.stdout
    assert "unpacking this bundle" in base.stderr
    assert (runner / f"temp/openbach-{sha256}").exists()
    same = done(OUTPUT="same", AGAINST="base")
    assert same.returncode == 0, same.stderr + same.stdout
    assert "unpacking" not in same.stderr
    assert "**no worse**: time +0.0%" in (here / "same/summary.md").read_text()
    (here / "serve").write_text((here / "serve").read_text().replace(SENDS, SLOWLY))
    worse = done(OUTPUT="now", AGAINST="base")
    assert worse.returncode == 3, worse.stderr + worse.stdout
    assert "<failure" in (here / "now/junit.xml").read_text()
    wrong = {key: value.replace(sha256, "0" * 64) for key, value in given.items()}
    refused = shell_of_ci(text, here, {**machine, **wrong, at: bundle.as_uri()})
    assert refused.returncode == 1 and "did NOT match" in refused.stderr


def shell_of_ci(
    text: str, here: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """A step of CI, run as the service does, with no variable but these."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text],
        check=False,
        capture_output=True,
        text=True,
        cwd=here,
        env=environment,
    )


SENDS = "connection.sendfile(file)"
SLOWLY = """
        import time
        while part := file.read(10_000):
            connection.sendall(part)
            time.sleep(1)
"""


def github(sha256: str) -> tuple[str, dict[str, str]]:
    """The step of the action, with its inputs in place."""
    action: Any = read_yaml(DOCS / "ci/action.yml")
    (one,) = action["runs"]["steps"]
    inputs = {name: str(about.get("default", "")) for name, about in action["inputs"].items()}
    inputs |= {**CI, "sha256": sha256}
    given = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: inputs[found[1]], value)
        for name, value in one["env"].items()
    }
    return one["run"], given


def gitlab(sha256: str) -> tuple[str, dict[str, str]]:
    """The script of the job, with its variables in place."""
    (job,) = read_yaml(DOCS / "ci/gitlab.yml").values()
    own = {
        "OPENBACH_BUNDLE": CI["bundle"],
        "OPENBACH_SHA256": sha256,
        "SERVER": CI["server"],
        "CLIENT": CI["client"],
        "OPTIONS": CI["options"],
        "SEEDS": CI["seeds"],
    }
    (text,) = job["script"]
    return text, {**{name: str(value) for name, value in job["variables"].items()}, **own}
