# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages that a guest tree is made from, by the real apt.

The mirror has four packages, and has moved since the lock.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.package_server import PackageServer, package_server

from openbach_run.engine.virtual import debian
from openbach_run.engine.virtual.debian import Package
from openbach_run.engine.virtual.image import Tree
from openbach_run.engine.virtual.lock import ROOT, Locked, PackageSet, write_lock
from openbach_run.errors import InputError

NEEDS = {"base-files": "", "libc6": "", "program": "libc6 (>= 1)", "demanding": "libc6 (>= 2)"}
MakeTree = Callable[..., Tree]


def ignore(text: str, part: float) -> None:
    pass


def package(place: Path, name: str, version: str) -> tuple[Locked, bytes]:
    """A package without files, and the content of its .deb."""
    folder = place / f"{name}_{version}"
    (folder / "DEBIAN").mkdir(parents=True)
    needs = f"Depends: {NEEDS[name]}\n" if NEEDS[name] else ""
    control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n{needs}"
    (folder / "DEBIAN/control").write_text(f"{control}Maintainer: a\nDescription: b\n")
    file = place / f"{name}_{version}_amd64.deb"
    subprocess.run(["dpkg-deb", "--build", str(folder), str(file)], check=True, capture_output=True)
    content = file.read_bytes()
    sha256, sha1 = hashlib.sha256(content).hexdigest(), hashlib.sha1(content).hexdigest()
    described = Package(name, version, "amd64", f"pool/{file.name}", sha256, len(content))
    return Locked(ROOT, described, sha1), content


def stanza(one: Package) -> str:
    """What a mirror's list says of a package."""
    needs = f"Depends: {NEEDS[one.name]}\n" if NEEDS[one.name] else ""
    return (
        f"Package: {one.name}\nVersion: {one.version}\nArchitecture: {one.architecture}\n{needs}"
        f"Filename: {one.path}\nSize: {one.size_bytes}\nSHA256: {one.sha256}\n\n"
    )


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageServer]:
    """The snapshot archive; it has nothing yet."""
    with package_server() as server:
        monkeypatch.setenv(debian.ARCHIVE_VARIABLE, server.uri)
        yield server


@pytest.fixture
def make_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeTree]:
    """A tree of base-files and libc6; the lock has version 1 of libc6, the mirror version 2."""
    there = [
        package(tmp_path, name, version)
        for name, version in (
            ("base-files", "1"),
            ("libc6", "2"),
            ("program", "1"),
            ("demanding", "1"),
        )
    ]
    lists = "".join(stanza(line.package) for line, _ in there).encode()
    sums = f" {hashlib.sha256(lists).hexdigest()} {len(lists)} main/binary-amd64/Packages\n"
    release = (
        "Origin: test\nSuite: trixie\nCodename: trixie\nComponents: main\nArchitectures:"
        f" amd64\nSHA256:\n{sums}"
    )
    write_lock(tmp_path / "debian.lock", [there[0][0], package(tmp_path, "libc6", "1")[0]])
    wanted = {
        "suites": ["trixie"],
        "packages": ["base-files", "libc6"],
        "prompt": [],
        "pins": {},
        "beside": {},
    }
    (tmp_path / "packages.json").write_text(json.dumps(wanted))
    (tmp_path / "init.py").touch()
    with package_server() as mirror:
        monkeypatch.setenv(debian.MIRROR_VARIABLE, f"{mirror.uri}/debian")
        monkeypatch.setattr(debian, "TRUST", "trusted=yes")
        mirror.files = {
            "/debian/dists/trixie/Release": release.encode(),
            "/debian/dists/trixie/main/binary-amd64/Packages": lists,
            **{f"/debian/{line.package.path}": content for line, content in there},
        }

        def make(*packages: str, only_locked: bool = False) -> Tree:
            lock = tmp_path / "debian.lock"
            return Tree(tmp_path / "cache", tmp_path, lock, packages, only_locked=only_locked)

        yield make


def has_libc(archive: PackageServer, tmp_path: Path) -> None:
    """The archive has the locked version of libc6."""
    content = (tmp_path / "libc6_1_amd64.deb").read_bytes()
    archive.files = {f"/file/{hashlib.sha1(content).hexdigest()}": content}


def identities(packages: PackageSet) -> list[str]:
    return sorted(one.identity for one in packages.places[ROOT])


def test_the_locked_version_comes_from_the_archive(
    make_tree: MakeTree, archive: PackageServer, tmp_path: Path
) -> None:
    has_libc(archive, tmp_path)
    packages = make_tree(only_locked=True).entry.packages(ignore)
    assert (
        identities(packages) == ["base-files_1_amd64", "libc6_1_amd64"] and not packages.differing
    )


def test_without_it_the_tree_has_what_the_mirror_has_and_says_so(
    make_tree: MakeTree, archive: PackageServer
) -> None:
    packages = make_tree().entry.packages(ignore)
    assert identities(packages) == ["base-files_1_amd64", "libc6_2_amd64"]
    assert packages.differing == {"libc6": "libc6 2 (locked: 1)"}
    (reason,) = packages.reasons
    assert (
        reason.startswith("libc6_1_amd64 (the mirror: 404  Not Found")
        and "the archive: 404" in reason
    )
    with pytest.raises(
        InputError, match=r"^--locked: locked packages cannot be had: libc6_1_amd64 \(the mi"
    ):
        make_tree(only_locked=True).entry.packages(ignore)


def test_an_addition_leaves_the_locked_versions_as_they_are(
    make_tree: MakeTree, archive: PackageServer, tmp_path: Path
) -> None:
    has_libc(archive, tmp_path)
    packages = make_tree("program").entry.packages(ignore)
    assert identities(packages) == ["base-files_1_amd64", "libc6_1_amd64", "program_1_amd64"]
    assert packages.differing == {"program": "program 1 (not in debian.lock)"}
    with pytest.raises(InputError, match=r"^--locked: debian\.lock does not have program; "):
        make_tree("program", only_locked=True).entry.packages(ignore)


def test_an_addition_that_needs_another_version_of_a_locked_one_is_said(
    make_tree: MakeTree, archive: PackageServer, tmp_path: Path
) -> None:
    has_libc(archive, tmp_path)
    packages = make_tree("demanding").entry.packages(ignore)
    assert identities(packages) == ["base-files_1_amd64", "demanding_1_amd64", "libc6_2_amd64"]
    assert sorted(packages.differing.values()) == [
        "demanding 1 (not in debian.lock)",
        "libc6 2 (locked: 1)",
    ]


def test_the_mirror_is_not_asked_for_lists_where_the_lock_has_all(
    make_tree: MakeTree, archive: PackageServer, tmp_path: Path
) -> None:
    has_libc(archive, tmp_path)
    make_tree().entry.packages(ignore)
    assert not (tmp_path / "cache/apt-image").exists()
