# SPDX-License-Identifier: GPL-3.0-or-later
"""debian.lock, and how its packages come.

From a mirror, from the archive, or not, against a local server of both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.locked import CONTENT, locked
from helpers.package_server import PackageServer, package_server
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.campaign.options import Options
from openbach_run.engine.local import guest_code
from openbach_run.engine.virtual import debian, lock
from openbach_run.engine.virtual.debian import Package
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.engine.virtual.lock import KERNEL, ROOT, Entry, Locked, PackageSet
from openbach_run.errors import InputError, SetupError
from openbach_run.paths import DEBIAN_LOCK, REPOSITORY
from openbach_run.results.python_packages import python_packages


def ignore(text: str, part: float) -> None:
    pass


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageServer]:
    with package_server() as server:
        monkeypatch.setenv(debian.MIRROR_VARIABLE, f"{server.uri}/debian")
        yield server


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageServer]:
    with package_server() as server:
        monkeypatch.setenv(debian.ARCHIVE_VARIABLE, server.uri)
        yield server


def on_mirror(one: Locked) -> str:
    return f"/debian/{one.package.path.replace('+', '%2B')}"


def in_archive(one: Locked) -> str:
    return f"/file/{one.sha1}"


def obtained(tmp_path: Path, *lines: Locked) -> list[str]:
    return lock.obtain(lines, tmp_path, ignore, "downloading")


def test_the_mirror_has_it(mirror: PackageServer, archive: PackageServer, tmp_path: Path) -> None:
    tinc, nebula = locked("tinc"), locked("nebula", CONTENT[:1000])
    mirror.files = {on_mirror(tinc): CONTENT, on_mirror(nebula): CONTENT[:1000]}
    assert obtained(tmp_path, tinc, nebula) == []
    assert (tmp_path / tinc.package.file_name).read_bytes() == CONTENT
    assert archive.asked == []


def test_what_is_there_is_not_asked_for_again(
    mirror: PackageServer, archive: PackageServer, tmp_path: Path
) -> None:
    tinc = locked("tinc")
    (tmp_path / tinc.package.file_name).write_bytes(CONTENT)
    assert obtained(tmp_path, tinc) == []
    assert mirror.asked == archive.asked == []


def test_what_a_mirror_no_longer_has_comes_from_the_archive(
    mirror: PackageServer, archive: PackageServer, tmp_path: Path
) -> None:
    tinc = locked("tinc")
    archive.files = {"/elsewhere": CONTENT}
    archive.moved = {in_archive(tinc): "/elsewhere"}
    assert obtained(tmp_path, tinc) == []
    assert (tmp_path / tinc.package.file_name).read_bytes() == CONTENT
    assert mirror.asked == [on_mirror(tinc)] and archive.asked == [in_archive(tinc), "/elsewhere"]


def test_another_content_is_not_taken(
    mirror: PackageServer, archive: PackageServer, tmp_path: Path
) -> None:
    tinc = locked("tinc")
    mirror.files = {on_mirror(tinc): CONTENT[::-1]}
    archive.files = {in_archive(tinc): CONTENT}
    assert obtained(tmp_path, tinc) == []
    assert (tmp_path / tinc.package.file_name).read_bytes() == CONTENT


def test_a_download_that_breaks_off_goes_on(
    mirror: PackageServer, archive: PackageServer, tmp_path: Path
) -> None:
    tinc = locked("tinc")
    mirror.files, mirror.breaking = {on_mirror(tinc): CONTENT}, {on_mirror(tinc)}
    assert obtained(tmp_path, tinc) == []
    assert (tmp_path / tinc.package.file_name).read_bytes() == CONTENT
    assert mirror.asked == [on_mirror(tinc), f"{on_mirror(tinc)} bytes={len(CONTENT) // 2}-"]


def test_what_neither_has_is_named_with_what_both_said(
    mirror: PackageServer, archive: PackageServer, tmp_path: Path
) -> None:
    tinc, nebula = locked("tinc"), locked("nebula")
    mirror.files = {on_mirror(tinc): CONTENT[::-1], on_mirror(nebula): CONTENT}
    (missing,) = obtained(tmp_path, tinc, nebula)
    assert missing.startswith(
        f"{tinc.package.identity} (the mirror: Hash Sum mismatch, the archive: 404  Not Found"
    )


def test_a_machine_without_a_mirror_has_the_archive(
    archive: PackageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_mirror() -> str:
        raise SetupError("no mirror here")

    monkeypatch.setattr(debian, "mirror", no_mirror)
    tinc, nebula = locked("tinc"), locked("nebula", CONTENT[::-1])
    archive.files = {in_archive(tinc): CONTENT}
    (missing,) = obtained(tmp_path, tinc, nebula)
    assert missing.startswith(f"{nebula.package.identity} (no mirror here, the archive: 404")


def test_a_reason_is_told_behind_a_redirection_too(
    mirror: PackageServer, archive: PackageServer, tmp_path: Path
) -> None:
    tinc = locked("tinc")
    mirror.moved = {on_mirror(tinc): f"{mirror.uri}/elsewhere{on_mirror(tinc)}"}
    (missing,) = obtained(tmp_path, tinc)
    assert "the mirror: 404  Not Found" in missing


def test_nothing_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(debian.MIRROR_VARIABLE, "http://127.0.0.1:1/debian")
    monkeypatch.setenv(debian.ARCHIVE_VARIABLE, "http://127.0.0.1:1")
    (said,) = obtained(tmp_path, locked("tinc"))
    assert said.count("onnect to 127.0.0.1") == 2  # apt 2: "Could not", apt 3: "Unable to"


words = st.text("abcdefghijklmnopqrstuvwxyz0123456789.+~-:", min_size=1)
hexadecimal = st.text("0123456789abcdef", min_size=64, max_size=64)
line = st.builds(
    lambda place, name, version, path, sha256, size: Locked(
        place, Package(name, version, "all", path, sha256, size), sha256[:40]
    ),
    st.sampled_from([ROOT, KERNEL, "/opt/one"]),
    words,
    words,
    words,
    hexadecimal,
    st.integers(0, 10**12 - 1),
)


@given(st.lists(line))
def test_a_lock_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Locked]
) -> None:
    file = tmp_path_factory.mktemp("lock") / "debian.lock"
    lock.write_lock(file, lines)
    assert sorted(map(repr, lock.read_lock(file))) == sorted(map(repr, lines))


@given(st.text())
def test_a_lock_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.mktemp("lock") / "debian.lock"
    file.write_text(text, encoding="utf-8")
    try:
        lock.read_lock(file)
    except InputError as error:
        assert str(error).startswith(f"{file}, line ")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            " all ",
            " ",
            "line 3: 7 columns; there should be place name version architecture size sha256",
        ),
        (
            hashlib.sha1(CONTENT).hexdigest(),
            "0" * 39,
            f"sha1 should be 40 hexadecimal digits; it is {'0' * 39}",
        ),
        (str(len(CONTENT)), "1e5", "size should be a number of bytes; it is 1e5"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    file = tmp_path / "debian.lock"
    lock.write_lock(file, [locked("tinc")])
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(InputError) as refused:
        lock.read_lock(file)
    assert words in str(refused.value)


def test_what_differs_is_said_in_words() -> None:
    lines = [locked("libc6"), locked("tinc"), locked("nebula"), locked("dash")]
    now = [
        locked("libc6", version="1:3.0"),
        locked("tinc", CONTENT[::-1]),
        locked("nebula"),
        locked("new"),
    ]
    assert lock.differing(lines, {ROOT: [one.package for one in now]}) == {
        "libc6": "libc6 1:3.0 (locked: 1:2.0-1+b1)",
        "tinc": "tinc 1:2.0-1+b1 (another file than the locked one)",
        "new": "new 1:2.0-1+b1 (not in debian.lock)",
    }


class Fetching:
    """Packages that are the locked ones or not, and how often they were asked for."""

    def __init__(self, archives: Path, *differing: str) -> None:
        self.archives = archives
        self.differing = {text.split()[0]: text for text in differing}
        self.times = 0

    def __call__(self, progress: object) -> PackageSet:
        self.times += 1
        return PackageSet({}, self.archives, self.differing, ["libc6_1_all (the mirror: 404)"])


def made(directory: Path, packages: PackageSet) -> None:
    (directory / "of").write_text(", ".join(packages.differing.values()))


def test_an_entry_of_other_packages_stays_apart(tmp_path: Path) -> None:
    fetching = Fetching(tmp_path, "libc6 2 (locked: 1)")

    def entry(*, only_locked: bool = False) -> Entry:
        return Entry(tmp_path / "locked", tmp_path / "other", fetching, only_locked=only_locked)

    assert entry().ensure(made, ignore) == tmp_path / "other"
    assert entry().ensure(made, ignore) == tmp_path / "other" and fetching.times == 1, (
        "used as it is"
    )
    fetching.differing = {}
    assert entry(only_locked=True).ensure(made, ignore) == tmp_path / "locked"
    assert entry().ensure(made, ignore) == tmp_path / "locked" and fetching.times == 2


def test_the_lock_has_every_package_that_this_checkout_names() -> None:
    tree = VirtualEngine(REPOSITORY, guest_code(REPOSITORY, {})).tree()
    assert tree.additions == [], "tools/bump_debian.py --add"
    places = {one.place for one in lock.read_lock(DEBIAN_LOCK)}
    assert places == {ROOT, KERNEL, "/opt/openvpn-2.7"}


def test_python_packages_that_are_not_locked_are_named_and_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records named no lock of Python, and --locked took any package."""
    assert python_packages().keys() == {"python_lock"}
    (tmp_path / "NumPy-0.1.dist-info").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    python_packages.cache_clear()
    assert python_packages()["python_not_locked"] == "numpy 0.1"
    with pytest.raises(InputError, match=r"^--locked: .*numpy 0\.1"):
        Options(locked=True)
    python_packages.cache_clear()
