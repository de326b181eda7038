# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest's files: a Debian tree of its own, and a snapshot of the repository's code that runs in it.

The tree is unpacked from Debian packages and no maintainer script runs: it needs no root, is made in seconds, and its
content follows from the names and versions of the packages alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from openbach_run.engine.virtual.cache import content_hash, made_once
from openbach_run.engine.virtual.debian import Apt, Package, ensure_tools, run, unpack
from openbach_run.progress import Progress

DIRECTORIES = (
    *("opt/openbach/agent", "opt/openbach/virtualenv/bin", "opt/openbach-run", "usr/local/sbin"),
    *("var/openbach_stats", "var/www"),
)
LINKS = {
    "opt/openbach/virtualenv/bin/python3": "/usr/bin/python3",
    "opt/openbach/vpn-configs": "/opt/openbach-run/vpn-configs",
    "usr/local/sbin/satpep": "/opt/openbach-run/bin/satpep",
    "usr/bin/awk": "mawk",
    "var/run": "/run/host",
}
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"
    "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
    "satpep:x:998:998:satpep:/nonexistent:/usr/sbin/nologin\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nadm:x:4:\nwww-data:x:33:\nsatpep:x:998:\nnogroup:x:65534:\n",
    "etc/hostname": "guest\n",
    "etc/hosts": "127.0.0.1 localhost\n",
}
UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/lib/python3.13/idlelib")
GUEST_PYTHON = "python3.13"


@dataclass(frozen=True)
class Image:
    """The guest's root directory; `identity` is the hash of its packages and of what is added to them."""

    root: Path
    identity: str
    packages: tuple[str, ...]


def ensure_image(cache: Path, guest_dir: Path, vpn_packages: Iterable[str], progress: Progress) -> Image:
    """The guest tree for guest/packages.json and the packages of the VPNs, made in `cache` if it is not there."""
    wanted = json.loads((guest_dir / "packages.json").read_text())
    names = sorted({*wanted["packages"], *vpn_packages})
    own = json.dumps([names, wanted["suites"], wanted["pins"], wanted["beside"], DIRECTORIES, LINKS, FILES, UNUSED])
    init = guest_dir / "init.py"
    place = cache / f"image-{content_hash([init], guest_dir, own)}"
    apt = Apt(
        cache / "apt-image", tuple(wanted["suites"]), {suite: tuple(pin) for suite, pin in wanted["pins"].items()}
    )
    made_once(place, lambda directory: _make(directory, apt, names, wanted["beside"], init, own, progress))
    made = json.loads((place / "image.json").read_text())
    return Image(place / "root", made["identity"], tuple(made["packages"]))


def _make(
    place: Path, apt: Apt, names: list[str], beside: Mapping[str, str], init: Path, own: str, progress: Progress
) -> None:
    ensure_tools()
    progress("guest: fetching Debian's package lists", 0)
    apt.prepare()
    packages = apt.resolve(names)
    progress(f"guest: downloading {len(packages)} packages", 0.1)
    archives = apt.download(names)
    root = place / "root"
    root.mkdir()
    for number, package in enumerate(unpack(packages, archives, root)):
        progress(f"guest: unpacking {package.identity}", 0.3 + 0.5 * number / len(packages))
    for directory, name in beside.items():
        package = Package(apt.fetch(name).name)
        packages.append(package)
        (root / directory).mkdir(parents=True)
        list(unpack([package], archives, root / directory))
    _add_own(root, init)
    progress("guest: compiling Python's library", 0.8)
    compile_python(root, root / "usr/lib" / GUEST_PYTHON, f"/usr/lib/{GUEST_PYTHON}")
    shutil.rmtree(archives)
    _describe(place, packages, init, own)


def _add_own(root: Path, init: Path) -> None:
    for name in UNUSED:
        shutil.rmtree(root / name, ignore_errors=True)
    for name in DIRECTORIES:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, target in LINKS.items():
        shutil.rmtree(root / name, ignore_errors=True)  # directories of packages in /var/run: it is empty at a start
        (root / name).symlink_to(target)
    for name, text in FILES.items():
        (root / name).write_text(text)
    shutil.copy(init, root / "init.py")


def _describe(place: Path, packages: list[Package], init: Path, own: str) -> None:
    versions = [package.identity for package in packages]
    content = "\n".join([*versions, own, hashlib.sha256(init.read_bytes()).hexdigest()])
    identity = hashlib.sha256(content.encode()).hexdigest()[:16]
    (place / "image.json").write_text(json.dumps({"identity": identity, "packages": versions}, indent=1) + "\n")


def compile_python(root: Path, directory: Path, seen_as: str) -> None:
    """Compiles `directory` with the guest's own Python (its files are hostfs, read-only to a run).

    Without this every run would compile anew, or the first one would differ from the next: a program that finds
    its compiled form makes other system calls than one that does not.
    """
    python = [
        str(root / "usr/lib64/ld-linux-x86-64.so.2"),
        *("--library-path", str(root / "usr/lib/x86_64-linux-gnu")),
        str(root / "usr/bin" / GUEST_PYTHON),
    ]
    compileall = [
        "-m",
        "compileall",
        "-q",
        "--invalidation-mode",
        "unchecked-hash",
        "-s",
        str(directory),
        "-p",
        seen_as,
    ]
    run(
        [*python, "-S", *compileall, str(directory)],
        f"compiling {directory}",
        PYTHONHOME=str(root / "usr"),
        PYTHONHASHSEED="0",
    )


def ensure_code(cache: Path, image: Image, folders: Mapping[str, Path]) -> Path:
    """A snapshot of the code that runs in the guest: `folders` maps names in it to directories or files of the host.

    A run sees this copy, so that an edit in the middle of a campaign changes no run that has started.
    """
    files = [(name, folder, file) for name, folder in folders.items() for file in _files(folder)]
    digest = hashlib.sha256(image.identity.encode())
    for name, folder, file in files:
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{name}/{file.relative_to(folder)} {os.access(file, os.X_OK)} {content}\n".encode())

    def make(place: Path) -> None:
        (place / "jobs").mkdir()  # of a scenario that starts none, too
        for name, folder, file in files:
            copy = place / name / file.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
        compile_python(image.root, place, "/opt/openbach-run")

    return made_once(cache / f"code-{digest.hexdigest()[:16]}", make)


def _files(folder: Path) -> list[Path]:
    """The folder's files (or the file), of links to directories those behind them, in an order of our own."""
    if folder.is_file():
        return [folder]
    found: list[Path] = []
    for directory, subdirectories, names in os.walk(folder, followlinks=True):
        subdirectories[:] = sorted(name for name in subdirectories if name != "__pycache__")
        found += [Path(directory) / name for name in sorted(names)]
    return found
