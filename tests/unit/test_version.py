# SPDX-License-Identifier: GPL-3.0-or-later
"""A tag vX.Y.Z gives the version."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from openbach_run import version
from openbach_run.commands import main

PEP_440 = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "nobody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "nobody@localhost")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(checkout: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", checkout, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(checkout: Path) -> str:
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "one")
    return git(checkout, "rev-parse", "--short", "HEAD")


def test_before_the_first_tag_the_commit_is_the_version(checkout: Path) -> None:
    assert version.version_of(checkout) == f"0+g{git(checkout, 'rev-parse', '--short', 'HEAD')}"


@pytest.mark.parametrize("annotated", [True, False])
def test_a_tag_gives_it(checkout: Path, annotated: bool) -> None:
    git(checkout, "tag", *(["--annotate", "--message", "first"] if annotated else []), "v1.2.3")
    git(checkout, "tag", "measured-here")
    assert version.version_of(checkout) == "1.2.3"
    (checkout / "file").write_text("1")
    git(checkout, "add", "file")
    dirty = version.version_of(checkout)
    assert re.fullmatch(r"1\.2\.3\.post0\+g[0-9a-f]+\.dirty", dirty)
    git(checkout, "commit", "--quiet", "--message", "two")
    assert (
        version.version_of(checkout)
        == f"1.2.3.post1+g{git(checkout, 'rev-parse', '--short', 'HEAD')}"
    )
    for one in (dirty, version.version_of(checkout)):
        assert PEP_440.fullmatch(one)


def test_without_git_it_is_what_the_metadata_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert version.version_of(tmp_path / "nowhere") == version.UNKNOWN
    monkeypatch.setattr(version, "REPOSITORY", tmp_path)
    told = tmp_path / "openbach_run-1.2.3.dist-info/METADATA"
    told.parent.mkdir()
    told.write_text(f"Metadata-Version: 2.1\nName: {version.NAME}\nVersion: 1.2.3\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert version.version() == "1.2.3"


def test_the_command_prints_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(version, "version", lambda: "1.2.3")
    with pytest.raises(SystemExit) as ended:
        main.main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, "openbach-run 1.2.3\n")
