# SPDX-License-Identifier: GPL-3.0-or-later
"""One version: it stands in pyproject.toml, and all that names a version names this one."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from openbach_run import version
from openbach_run.commands import main

ROOT = Path(__file__).resolve().parents[2]
RELEASE = re.compile(r"\d+\.\d+\.\d+(\.dev0)?")
SECTION = re.compile(r"^## (\S+) \((not yet released|\d{4}-\d\d-\d\d)\)$", re.MULTILINE)


def test_it_is_a_release_or_on_the_way_to_one() -> None:
    """Python's packages, Debian's and people read `1.1.0`, or `1.1.0.dev0` before it."""
    assert RELEASE.fullmatch(version.version())


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"openbach-run {version.version()}\n")


def test_it_is_what_stands_in_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A wheel and a bundle have pyproject.toml, so theirs is the checkout's that made them."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "7.8.9"\n')
    monkeypatch.setattr(version, "REPOSITORY", tmp_path)
    assert version.version() == "7.8.9"


def test_what_an_index_of_packages_shows_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    shown = {"readme", "authors", "keywords", "classifiers", "urls", "license", "description"}
    assert shown <= project.keys()
    assert {"Typing :: Typed", "Operating System :: POSIX :: Linux"} <= {*project["classifiers"]}
    assert "+" not in version.version(), "a local version, which PyPI refuses"


def test_the_citation_has_it() -> None:
    (cited,) = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited == version.version()


def test_the_first_section_of_the_changes_is_about_it() -> None:
    """It has a date once it is released."""
    named, when = SECTION.findall((ROOT / "docs/CHANGELOG.md").read_text())[0]
    release = version.version().removesuffix(".dev0")
    assert (named, when == "not yet released") == (release, version.version() != release)


def wrong_tags(tags: str, expected: str) -> list[str]:
    """Return the tags of a version, one a line, that name another version than the expected one."""
    return [tag for tag in tags.split() if re.match(r"v\d", tag) and tag != f"v{expected}"]


def test_a_tag_of_this_commit_agrees_with_it() -> None:
    command = ["git", "-C", str(ROOT), "tag", "--points-at", "HEAD"]
    tags = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert not wrong_tags(tags, version.version())


def test_another_tag_is_seen() -> None:
    assert wrong_tags("v1.1.0\nmeasured-here\nvirtual\nv1.1.1\n", "1.1.0") == ["v1.1.1"]
