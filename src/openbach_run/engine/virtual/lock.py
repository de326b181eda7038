# SPDX-License-Identifier: GPL-3.0-or-later
"""debian.lock: the Debian packages that the guest and its kernel are made of, and how they come.

The file has a line for each package, with these columns:

    place name version architecture size sha256 sha1 path

`place` is where the package is unpacked in the guest: `/`, or a directory of its own; `kernel`
marks the kernel's source. `path` is that of the file on a mirror. The mirror of this machine has a
version until the next one; Debian's snapshot archive has it for ever, by its SHA-1. What comes from
either is right if it has the SHA-256. `tools/bump_debian.py` writes the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from openbach_run.engine.virtual import debian
from openbach_run.engine.virtual.cache import made_once
from openbach_run.engine.virtual.debian import Download, Package
from openbach_run.errors import InputError, SetupError
from openbach_run.progress import Progress

FILE = "debian.lock"
PATH = f"tools/locks/{FILE}"
"""Path of the lock in a checkout."""
ROOT, KERNEL = "/", "kernel"
"""Places of a lock: the guest's root, and the source that the kernel is built from."""
COLUMNS = ("place", "name", "version", "architecture", "size", "sha256", "sha1", "path")
HEADER = (
    "# Debian packages of the guest and source of its kernel; tools/bump_debian.py\n#"
    f" {' '.join(COLUMNS)}\n"
)
ARCHIVES = "debian-archives"
"""Folder of the cache for packages until they are unpacked, so that an interrupted set-up goes
on."""
NOT_LOCKED = "not the locked packages"
MOST_DIGITS = 12
"""The most digits of the size of a package in bytes."""
NAMED = 8
"""The most packages that a message names; it counts the others."""


@dataclass(frozen=True)
class Locked:
    """A line of debian.lock."""

    place: str
    package: Package
    sha1: str

    @property
    def line(self) -> str:
        """Return the package's line of debian.lock."""
        deb = self.package
        columns = (self.place, deb.name, deb.version, deb.architecture, str(deb.size_bytes))
        return " ".join((*columns, deb.sha256, self.sha1, deb.path))


@dataclass(frozen=True)
class PackageSet:
    """Packages whose files are there, to make a guest tree or a kernel from."""

    places: Mapping[str, Sequence[Package]]
    """Packages by the place where they are unpacked."""
    archives: Path
    """The directory of their files."""
    differing: Mapping[str, str] = field(default_factory=dict)
    """The differences from the lock, in words, by the names of packages that are not locked."""
    reasons: Sequence[str] = ()
    """Why locked packages could not be had."""


def read_lock(file: Path) -> list[Locked]:
    """The lines of a lock file. Raises InputError for one that is not as `write_lock` writes it."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: {error}; tools/bump_debian.py writes it anew") from error
    return [
        _read_line(line, f"{file}, line {number}")
        for number, line in enumerate(text.splitlines(), 1)
        if line and not line.startswith("#")
    ]


def _read_line(line: str, at: str) -> Locked:
    columns = line.split(" ")
    if len(columns) != len(COLUMNS):
        raise InputError(f"{at}: {len(columns)} columns; there should be {' '.join(COLUMNS)}")
    place, name, version, architecture, size, sha256, sha1, path = columns
    for column, value, digits in (("sha256", sha256, 64), ("sha1", sha1, 40)):
        if len(value) != digits or set(value) - set("0123456789abcdef"):
            raise InputError(f"{at}: {column} should be {digits} hexadecimal digits; it is {value}")
    # isdecimal alone takes numbers so long that int() refuses them.
    if not size.isdecimal() or len(size) > MOST_DIGITS:
        raise InputError(f"{at}: size should be a number of bytes; it is {size}")
    return Locked(place, Package(name, version, architecture, path, sha256, int(size)), sha1)


def write_lock(file: Path, lines: Iterable[Locked]) -> None:
    """Write a lock file, sorted by place and name."""
    ordered = sorted(lines, key=lambda line: (line.place, line.package.name, line.package.version))
    file.write_text(HEADER + "".join(f"{line.line}\n" for line in ordered), encoding="utf-8")


def lock_of(packages: PackageSet) -> list[Locked]:
    """The lines for packages whose files are there."""
    return [
        Locked(place, package, _sha1_of(packages.archives / package.file_name))
        for place, several in packages.places.items()
        for package in several
    ]


def _sha1_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha1").hexdigest()


def by_place(lines: Iterable[Locked]) -> dict[str, list[Package]]:
    """The packages of a lock by the place where they are unpacked."""
    packages: dict[str, list[Package]] = {}
    for line in lines:
        packages.setdefault(line.place, []).append(line.package)
    return packages


def obtain(lines: Sequence[Locked], archives: Path, progress: Progress, what: str) -> list[str]:
    """Download the files of locked packages that are not in `archives` yet.

    They come from this machine's mirror, and what it does not have from the archive. Returns a line
    for each package that neither has, with what both said.
    """
    archives.mkdir(parents=True, exist_ok=True)
    wanted = [line for line in lines if not is_there(line.package, archives)]
    refusals: dict[str, list[str]] = {line.package.identity: [] for line in wanted}
    # The mirror has today's versions, the archive has all that ever were.
    for source, base in _sources(refusals):
        files = {archives / line.package.file_name: line for line in wanted}
        if not files:
            break
        downloads = [
            Download(base(line), file, line.package.sha256, line.package.size_bytes)
            for file, line in files.items()
        ]
        failed = debian.download(downloads, progress, what)
        for file, reason in failed.items():
            # Both refusals are told: they differ where a proxy or a firewall is in between.
            refusals[files[file].package.identity].append(f"{source}: {reason}")
        wanted = [files[file] for file in failed]
    identities = [line.package.identity for line in wanted]
    return [f"{identity} ({', '.join(refusals[identity])})" for identity in identities]


def refuse(missing: Collection[str], additions: Collection[str] = ()) -> None:
    """Raise InputError if --locked cannot be kept.

    It cannot for locked packages that are missing, and for names that the lock does not have.
    """
    if missing:
        raise InputError(
            f"--locked: locked packages cannot be had: {in_words(missing)};"
            " tools/bump_debian.py locks today's"
        )
    if additions:
        raise InputError(
            f"--locked: {FILE} does not have {in_words(additions)}; without --locked the run"
            " says so"
        )


def _sources(refusals: Mapping[str, list[str]]) -> Iterator[tuple[str, Callable[[Locked], str]]]:
    """The places to download from, in order: in words, and where a package is there.

    A machine without a mirror, like Ubuntu's, has the archive alone; `refusals` get the reason.
    """
    try:
        mirror = debian.mirror().rstrip("/")
    except SetupError as error:
        for reasons in refusals.values():
            reasons.append(str(error))
    else:
        yield "the mirror", lambda line: f"{mirror}/{quote(line.package.path)}"
    archive = debian.archive().rstrip("/")
    # snapshot.debian.org names files by their SHA-1; the SHA-256 is checked afterwards.
    yield "the archive", lambda line: f"{archive}/file/{line.sha1}"


def is_there(package: Package, archives: Path) -> bool:
    """Return whether a package's file has come whole."""
    file = archives / package.file_name
    return file.exists() and debian.sha256_of(file) == package.sha256


def fetch_current(
    packages: Sequence[Package], archives: Path, progress: Progress, what: str
) -> None:
    """Download what the mirror has now. Raises SetupError."""
    archives.mkdir(parents=True, exist_ok=True)
    base = debian.mirror().rstrip("/")
    wanted = [deb for deb in packages if not is_there(deb, archives)]
    downloads = [
        Download(f"{base}/{quote(deb.path)}", archives / deb.file_name, deb.sha256, deb.size_bytes)
        for deb in wanted
    ]
    if failed := debian.download(downloads, progress, what) if downloads else {}:
        reasons = "\n".join(f"  {file.name}: {reason}" for file, reason in failed.items())
        raise SetupError(f"{what} from {base} failed:\n{reasons}")


def differing(lines: Iterable[Locked], packages: Mapping[str, Sequence[Package]]) -> dict[str, str]:
    """Return the differences from the lock, in words, by the package's name.

    They are other versions, other files, and packages that the lock does not have.
    """
    # By place, too: a tree beside the root may have the same package in another version.
    locked = {(line.place, line.package.name): line.package for line in lines}
    texts = {}
    for place, several in packages.items():
        for deb in several:
            before = locked.get((place, deb.name))
            if before is None:
                texts[deb.name] = f"{deb.name} {deb.version} (not in {FILE})"
            elif before.version != deb.version:
                texts[deb.name] = f"{deb.name} {deb.version} (locked: {before.version})"
            elif before.sha256 != deb.sha256:
                texts[deb.name] = f"{deb.name} {deb.version} (another file than the locked one)"
    return texts


def in_words(texts: Collection[str]) -> str:
    """The first of several texts, and how many more there are."""
    named = sorted(texts)[:NAMED]
    return ", ".join(named) + (f" and {len(texts) - NAMED} more" if len(texts) > NAMED else "")


class Entry:
    """An entry of the cache that is made from packages: the locked ones if they can be had.

    Where they cannot, it is made from others, and used until --locked asks for the locked ones.
    """

    def __init__(
        self,
        locked: Path,
        other: Path,
        fetch: Callable[[Progress], PackageSet],
        *,
        only_locked: bool,
    ) -> None:
        self.locked = locked
        self._other = other
        self._fetch = fetch
        self._only_locked = only_locked
        self._packages: PackageSet | None = None

    @property
    def place(self) -> Path | None:
        """The place of the entry; None if it has not been made."""
        if self.locked.exists():
            return self.locked
        return self._other if self._other.exists() and not self._only_locked else None

    def packages(self, progress: Progress) -> PackageSet:
        """The packages to make it from, downloaded by the first call.

        Raises InputError, if only the locked ones will do and they cannot be had.
        """
        if self._packages is None:
            self._packages = self._fetch(progress)
        return self._packages

    def ensure(self, make: Callable[[Path, PackageSet], None], progress: Progress) -> Path:
        """Return the entry's directory; `make(directory, packages)` makes it if it is not whole."""
        place = self.place
        if place is None:
            # Another place for other packages: the entry of the locked ones is never made of
            # others.
            place = self._other if self.packages(progress).differing else self.locked

        def make_here(directory: Path) -> None:
            packages = self.packages(progress)
            if packages.differing and place == self.locked:
                raise SetupError(f"{place} cannot be made again: {in_words(packages.reasons)}")
            make(directory, packages)
            self._packages = None  # their files are unpacked and gone

        return made_once(place, make_here)
