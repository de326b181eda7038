# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest's files: a Debian tree, and a snapshot of the repository's code that runs in it.

The tree is unpacked from the Debian packages of debian.lock and no maintainer script runs: it needs
no root, is made in seconds, and its content follows from the packages alone. What the scripts would
have configured, and jobs need, is read of them (configured.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from openbach_run import semantic_hash
from openbach_run.catalog import KINDS
from openbach_run.engine.virtual import configured
from openbach_run.engine.virtual.cache import cached_text, content_hash, made_once
from openbach_run.engine.virtual.debian import (
    Apt,
    Package,
    ensure_tools,
    needs_among,
    postinst,
    run,
    unpack,
)
from openbach_run.engine.virtual.lock import (
    ARCHIVES,
    KERNEL,
    NOT_LOCKED,
    ROOT,
    Entry,
    PackageSet,
    by_place,
    differing,
    fetch_current,
    obtain,
    read_lock,
    refuse,
)
from openbach_run.errors import InputError
from openbach_run.paths import REPOSITORY
from openbach_run.playbook import REMEDY
from openbach_run.progress import Progress
from openbach_run.semantic_hash import FOR_PEOPLE, acting

DIRECTORIES = (
    *("opt/openbach/agent", "opt/openbach/virtualenv/bin", "opt/openbach-run"),
    *(
        "var/openbach_stats",
        "var/www",
        "home",
        "mnt",
        "srv",
        "usr/local/lib",
        "usr/local/sbin",
        "usr/local/share",
    ),
)
PROGRAMS = "/opt/openbach-run/src/openbach_run/guest/programs"
LINKS = {
    "opt/openbach/virtualenv/bin/python3": "/usr/bin/python3",
    "usr/sbin/modprobe": f"{PROGRAMS}/modprobe.py",
    "usr/sbin/rmmod": f"{PROGRAMS}/modprobe.py",
    "usr/bin/systemctl": f"{PROGRAMS}/systemctl.py",
    "usr/bin/awk": "mawk",
    "var/run": "/run/host",
}
FILES = {
    "etc/passwd": (
        "root:x:0:0:root:/root:/bin/sh\n"
        "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
        "satpep:x:998:998:satpep:/nonexistent:/usr/sbin/nologin\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    ),
    "etc/group": "root:x:0:\nadm:x:4:\nwww-data:x:33:\nsatpep:x:998:\nnogroup:x:65534:\n",
    "etc/hostname": "guest\n",
    "etc/hosts": "127.0.0.1 localhost\n",
}
CONFIGURED = hashlib.sha256(Path(configured.__file__).read_bytes()).hexdigest()
UNUSED = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/lib/python3.13/idlelib",
)
GUEST_PYTHON = "python3.13"
BESIDE_THE_ROOT = (IMAGE_FILE := "image.json", COPYRIGHT := "copyright")
"""Files of a tree's directory besides `root`, which the guest sees: the packages and licences."""
WRITES_NOTHING = "-B"
"""An option of Python. Without it, Python compiles what it imports by the times of the sources; a
copy of the tree (a bundle) has other times, and Python would write there."""


@dataclass(frozen=True)
class Image:
    """The guest's root directory."""

    root: Path
    packages: tuple[str, ...]
    """Name, version and architecture of each."""
    own: str
    """Hash of what is added to them."""
    needs: Mapping[str, Sequence[str]]
    """Packages that each package depends on, of those there; those of every run at ""."""
    hashes: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each package's file, by its identity."""
    differing: Mapping[str, str] = field(default_factory=dict)
    """Differences from debian.lock, in words, by the names of packages."""

    def used_with(self, names: Iterable[str]) -> set[str]:
        """Return the packages of a run that uses those named.

        They are these, those of every run, and all that these need.
        """
        waiting, used = {*self.needs[""], *names}, set[str]()
        while waiting:
            used.add(name := waiting.pop())
            waiting |= {*self.needs.get(name, ())} - used
        return used

    def identity_with(self, names: Iterable[str]) -> str:
        """Hash of what is in it for a run that uses the packages named."""
        used = self.used_with(names)
        present = {name for name in self.packages if name.partition("_")[0] in used}
        # Absent names count, too: a package that comes later changes what runs.
        absent = used - {name.partition("_")[0] for name in present}
        lines = sorted([*(f"{name} {self.hashes.get(name, '')}" for name in present), *absent])
        return hashlib.sha256("\n".join([self.own, *lines]).encode()).hexdigest()[:16]


DOWNLOADING = "guest: downloading packages"


class Tree:
    """The guest tree with guest/packages.json and the packages of jobs and folders."""

    def __init__(
        self,
        cache: Path,
        guest_dir: Path,
        lock: Path,
        packages: Iterable[str],
        *,
        only_locked: bool,
        reasons: Mapping[str, str] | None = None,
    ) -> None:
        """Keep what the tree is to have; nothing is made yet.

        `packages` are wanted beside guest/packages.json; `reasons` have what wants one, in words.
        """
        self._cache = cache
        self._reasons = reasons or {}
        self._only_locked = only_locked
        self._init = guest_dir / "init.py"
        self._wanted = json.loads((guest_dir / "packages.json").read_text())
        self._beside: dict[str, str] = self._wanted["beside"]
        self._lines = [line for line in read_lock(lock) if line.place != KERNEL]
        locked = {line.package.name for line in self._lines}
        own = (*self._wanted["packages"], *self._wanted["prompt"])
        self._names = sorted({*own, *packages})
        self.additions = [name for name in self._names if name not in locked]
        added = (DIRECTORIES, LINKS, FILES, UNUSED, CONFIGURED)
        self._own = json.dumps(
            [*(self._wanted[key] for key in ("suites", "pins", "beside")), *added]
        )
        made_of = (
            *(self._own, *self.additions, *BESIDE_THE_ROOT, WRITES_NOTHING, *COMPILES),
            *(line.line for line in self._lines),
        )

        def place(*more: str) -> Path:
            made_from = content_hash([self._init], guest_dir, *made_of, *more)
            return cache / f"image-{made_from}"

        self.entry = Entry(place(), place(NOT_LOCKED), self._fetch, only_locked=only_locked)

    def ensure(self, progress: Progress) -> Image:
        """The tree, made in the cache if it is not there."""
        place = self.entry.ensure(
            lambda place, packages: self._make(place, packages, progress), progress
        )
        described = json.loads((place / IMAGE_FILE).read_text())
        # To find out what acts of init.py takes longer than to read the hash from the cache.
        digest = cached_text(
            self._cache,
            "acting",
            (semantic_hash.way(), place.name),
            lambda: hashlib.sha256(self._own.encode() + acting(self._init)).hexdigest(),
        )
        return Image(
            place / "root",
            tuple(described["packages"]),
            digest,
            {**described["needs"], "": self._wanted["packages"]},
            {identity: origin["sha256"] for identity, origin in described["origins"].items()},
            described["differing"],
        )

    def _fetch(self, progress: Progress) -> PackageSet:
        """Download the locked packages; those of the mirror, where some of these cannot be had."""
        archives = self._cache / ARCHIVES
        if self._only_locked:
            refuse((), self.additions)
        missing = obtain(self._lines, archives, progress, DOWNLOADING)
        if self._only_locked:
            refuse(missing)
        # The usual case: exactly what debian.lock says.
        if not missing and not self.additions:
            return PackageSet(by_place(self._lines), archives)
        return self.current(progress, missing) if missing else self._with_additions(progress)

    def current(self, progress: Progress, reasons: Sequence[str] = ()) -> PackageSet:
        """Return the packages as the mirror has them now, downloaded.

        `reasons` say why not the locked ones.
        """
        progress("guest: fetching Debian's package lists", 0)
        apt = self._apt()
        apt.prepare()
        beside = {f"/{place}": [apt.package(name)] for place, name in self._beside.items()}
        return self._downloaded({ROOT: apt.resolve(self._names), **beside}, progress, reasons)

    def _with_additions(self, progress: Progress) -> PackageSet:
        """The locked packages, with those that the lock does not have and what these need."""
        progress("guest: fetching Debian's package lists", 0)
        locked, archives = by_place(self._lines), self._cache / ARCHIVES
        apt = self._apt()
        # Told that the locked packages are installed, apt adds to them and replaces as few as it
        # can.
        apt.prepare("".join(package.as_installed(archives) for package in locked[ROOT]))
        if lacking := [name for name in self.additions if not apt.has(name)]:
            faults = [
                f"{self._reasons.get(name, name)}: Debian has no package {name}" for name in lacking
            ]
            raise InputError("\n".join(f"{text}. {REMEDY}" for text in faults))
        added = apt.resolve(self.additions)
        replaced = {package.name for package in added}
        kept_ones = [package for package in locked[ROOT] if package.name not in replaced]
        return self._downloaded({**locked, ROOT: [*kept_ones, *added]}, progress, ())

    def _downloaded(
        self, packages: Mapping[str, Sequence[Package]], progress: Progress, reasons: Sequence[str]
    ) -> PackageSet:
        archives = self._cache / ARCHIVES
        every = [package for several in packages.values() for package in several]
        fetch_current(every, archives, progress, DOWNLOADING)
        return PackageSet(packages, archives, differing(self._lines, packages), reasons)

    def _apt(self) -> Apt:
        pins = {suite: tuple(names) for suite, names in self._wanted["pins"].items()}
        return Apt(self._cache / "apt-image", tuple(self._wanted["suites"]), pins)

    def _make(self, place: Path, packages: PackageSet, progress: Progress) -> None:
        ensure_tools()
        root = place / "root"
        root.mkdir()
        debs = sorted(packages.places[ROOT], key=lambda deb: deb.file_name)
        for number, package in enumerate(unpack(debs, packages.archives, root)):
            progress(f"guest: unpacking {package.identity}", 0.3 + 0.5 * number / len(debs))
        for directory in self._beside:
            (root / directory).mkdir(parents=True)
            list(unpack(packages.places[f"/{directory}"], packages.archives, root / directory))
        # Before the documentation is removed: who passes a bundle on must pass on the licences.
        _keep_copyright(root / "usr/share/doc", place / COPYRIGHT)
        # Read, never run (configured.py).
        scripts = {deb.name: postinst(packages.archives / deb.file_name) for deb in debs}
        _add_own(root, self._init)
        configured.configure(root, scripts, FILES)
        progress("guest: compiling Python's library", 0.8)
        compile_python(root, root / "usr/lib" / GUEST_PYTHON, f"/usr/lib/{GUEST_PYTHON}")
        every = [deb for several in packages.places.values() for deb in several]
        described = {
            "packages": [deb.identity for deb in every],
            "needs": needs_among([packages.archives / deb.file_name for deb in every]),
            "origins": {
                deb.identity: {"source": deb.source(packages.archives), "sha256": deb.sha256}
                for deb in every
            },
            "differing": packages.differing,
        }
        (place / IMAGE_FILE).write_text(json.dumps(described, indent=1) + "\n")
        for deb in every:
            # Their content is in the tree now; the archives would double what the cache takes.
            (packages.archives / deb.file_name).unlink()


def _keep_copyright(documentation: Path, place: Path) -> None:
    place.mkdir()
    for file in documentation.glob("*/copyright"):
        shutil.copyfile(file, place / file.parent.name)


def _add_own(root: Path, init: Path) -> None:
    for name in UNUSED:
        shutil.rmtree(root / name, ignore_errors=True)
    for name in DIRECTORIES:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, target in LINKS.items():
        shutil.rmtree(
            root / name, ignore_errors=True
        )  # directories of packages in /var/run: it is empty at a start
        (root / name).unlink(missing_ok=True)  # a program of a package, in whose place ours is
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)
    for name, text in FILES.items():
        (root / name).write_text(text)
    shutil.copy(init, root / "init.py")


COMPILES = ("-S", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
"""Words that make Python compile; without -e also a link into this machine: sitecustomize.py."""


def compile_python(root: Path, directory: Path, seen_as: str) -> None:
    """Compile `directory` with the guest's own Python (its files are hostfs, read-only to a run).

    Without this every run would compile anew, or the first one would differ from the next: a
    program that finds its compiled form makes other system calls than one that does not.
    """
    paths = ["-e", str(directory), "-s", str(directory), "-p", seen_as, str(directory)]
    run_python(root, [*COMPILES, *paths], f"compiling {directory}")


def run_python(root: Path, arguments: Sequence[str], what: str, **environment: str) -> str:
    """Run the guest's own Python on this machine.

    It gets the loader and the libraries of the guest tree. Raises SetupError.
    """
    # The tree's own loader: the machine's C library may be older than the guest's Python needs.
    loader = [str(root / "usr/lib64/ld-linux-x86-64.so.2"), "--inhibit-cache"]
    libraries = ["--library-path", str(root / "usr/lib/x86_64-linux-gnu")]
    # -P: no modules of the directory it is typed in.
    python = [*loader, *libraries, str(root / "usr/bin" / GUEST_PYTHON), WRITES_NOTHING, "-P"]
    return run(
        [*python, *arguments], what, PYTHONHOME=str(root / "usr"), PYTHONHASHSEED="0", **environment
    )


def code_identity(
    cache: Path, folders: Mapping[str, Path], hashes: dict[str, str] | None = None
) -> str:
    """Return a hash of what acts of the code that a run uses (see semantic_hash.py).

    What OpenBACH reads of a job counts elsewhere. The hash is kept in the cache under that of the
    files as they are: to read Python for what acts takes a command 0.3 s. `hashes` has those of
    folders that were read before, and gets the others: the runs of a campaign have most folders in
    common.
    """
    read = {} if hashes is None else hashes
    places = sorted(folders)
    for place in places:
        if place not in read:
            read[place] = _hash_of(_acting_files(place, folders[place]), Path.read_bytes)

    def of_what_acts() -> str:
        every = (_acting_files(place, folders[place]) for place in places)
        return _hash_of(chain.from_iterable(every), acting)[:16]

    as_they_are = (f"{place} {read[place]}" for place in places)
    return cached_text(cache, "acting", (semantic_hash.way(), *as_they_are), of_what_acts)


def _acting_files(place: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a folder that may act in a run, and whether each is a program.

    Each has its name in the folder.
    """
    for file in _files(folder):
        is_read_elsewhere = place == f"jobs/{file.stem}" and file.suffix == ".yml"
        if file.suffix not in FOR_PEOPLE and not is_read_elsewhere:
            yield f"{place}/{file.relative_to(folder)} {os.access(file, os.X_OK)}", file


def _hash_of(files: Iterable[tuple[str, Path]], content: Callable[[Path], bytes]) -> str:
    digest = hashlib.sha256()
    for name, file in files:
        digest.update(f"{name} {hashlib.sha256(content(file)).hexdigest()}\n".encode())
    return digest.hexdigest()


def ensure_code(cache: Path, image: Image, folders: Mapping[str, Path]) -> Path:
    """Return a snapshot of the code that runs in the guest; make it if it is not there.

    `folders` maps names in it to directories or files of the host. A run sees this copy, so that an
    edit in the middle of a campaign changes no run that has started.
    """
    files = [(name, folder, file) for name, folder in folders.items() for file in _files(folder)]
    # The image counts, since its Python compiles the snapshot.
    digest = hashlib.sha256(image.root.parent.name.encode())
    for name, folder, file in files:
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(
            f"{name}/{file.relative_to(folder)} {os.access(file, os.X_OK)} {content}\n".encode()
        )

    def make(place: Path) -> None:
        for kind in KINDS:
            (place / kind).mkdir()
        for name, folder, file in files:
            copy = place / name / file.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
        compile_python(image.root, place, "/opt/openbach-run")

    return made_once(cache / f"code-{digest.hexdigest()[:16]}", make)


def _files(folder: Path) -> list[Path]:
    """Return the folder's files (or the file), in an order of our own.

    Of links to directories they are those behind them. Raises InputError for a link that leads out
    of where the folder is from.
    """
    if folder.is_file():
        if folder.is_symlink() and {above.name for above in folder.parents} & {
            *KINDS
        }:  # no program of this machine
            _check_within(folder, folder)
        return [folder]
    files: list[Path] = []
    for directory, subdirectories, names in os.walk(folder, followlinks=True):
        for place in (
            directory,
            *(f"{directory}/{name}" for name in names if os.path.islink(f"{directory}/{name}")),
        ):
            _check_within(Path(place), folder)
        subdirectories[:] = sorted(name for name in subdirectories if name != "__pycache__")
        files += [Path(directory) / name for name in sorted(names)]
    return files


def _check_within(place: Path, folder: Path) -> None:
    """Raise InputError for what is neither in this checkout nor where the folder is from.

    Another's job could have a link to anything that its user may read, which a run would then see.
    """
    kinds = (above.parent for above in folder.parents if above.name in KINDS)
    own = next(kinds, folder.parent)
    real = os.path.realpath(place)
    if not any(Path(real).is_relative_to(os.path.realpath(root)) for root in (own, REPOSITORY)):
        raise InputError(f"{place}: a link to {real}, which is not in {own}; put a copy there")
