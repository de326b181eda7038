# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages without touching the machine's own package lists: a private apt under the cache directory.

Nothing is installed: packages are resolved as if on an empty machine, downloaded (apt checks their signatures
against Debian's archive keyring) and unpacked. No root is needed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from openbach_run.errors import SetupError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR_VARIABLE = "OPENBACH_RUN_DEBIAN_MIRROR"
EXAMPLE = f"{MIRROR_VARIABLE}=http://deb.debian.org/debian"
DEBIAN_MAIN = re.compile(
    r"'((?!cdrom:)[^']+)/dists/(?:bookworm|trixie|forky|sid|oldstable|stable|testing|unstable)/main/binary-[^']*'",
    re.MULTILINE,
)
"""What `apt-get update` would fetch from a Debian mirror; the mirror's URI."""


def run(command: Sequence[str], what: str, **environment: str) -> str:
    """Runs a command of the set-up; SetupError carries the command and all it printed."""
    done = subprocess.run(
        command,
        check=False,
        env={**os.environ, "LC_ALL": "C", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SetupError(f"{what} failed ({' '.join(command)}):\n{done.stdout.strip()}")
    return done.stdout


BUILD_TOOLS = {
    "gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "xz": "xz-utils", "patch": "patch",
    "tar": "tar", "dpkg-deb": "dpkg", "apt-get": "apt",
    "/usr/include/stdlib.h": "libc6-dev",
}  # fmt: skip
"""Commands and files that building the kernel, the jail, the guest tree and programs need, and the Debian packages they
are in."""

OTHER_SYSTEMS = {
    "dnf": ("dnf install", {"xz-utils": "xz", "libc6-dev": "glibc-devel", "debian-archive-keyring": "debian-keyring"}),
    "pacman": ("pacman -S --needed", {"xz-utils": "xz", "libc6-dev": "glibc"}),
    "zypper": ("zypper install", {"xz-utils": "xz", "libc6-dev": "glibc-devel"}),
}
"""Of systems that are not Debian's: package manager → how it installs, and what it calls differently. From their
documentation; tried on none of them (docs/bundle.md)."""

_INSTALLING = threading.Lock()


def ensure_tools(tools: Mapping[str, str] = BUILD_TOOLS) -> None:
    """Installs the packages whose commands (or files) are missing when root; otherwise SetupError says which they are."""
    with _INSTALLING:
        _ensure_tools(tools)


def _ensure_tools(tools: Mapping[str, str]) -> None:
    missing = sorted({package for tool, package in tools.items() if not (shutil.which(tool) or Path(tool).exists())})
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise SetupError(_without_apt(missing))
    if os.geteuid() != 0:
        raise SetupError(f"missing packages; install them with: sudo apt-get install {' '.join(missing)}")
    print(f"installing {' '.join(missing)}", flush=True)
    run(["apt-get", "update", "-qq"], "apt-get update")
    run(["apt-get", "install", "-y", "-qq", *missing], "installing packages", DEBIAN_FRONTEND="noninteractive")


def _without_apt(missing: Sequence[str]) -> str:
    """What a system without Debian's tools can do, in the words of its own package manager."""
    found = [words for manager, words in OTHER_SYSTEMS.items() if shutil.which(manager)]
    bundle = "A bundle, made on Debian or Ubuntu, runs here as it is: docs/bundle.md"
    if not found:
        return f"this system has no apt-get, from whose packages the kernel and the guest tree are made. {bundle}"
    ((install, names), *_) = found
    packages = " ".join(names.get(package, package) for package in (*missing, KEYRING.stem))
    return (
        f"the kernel and the guest tree are made from Debian's packages, by Debian's tools. {bundle}. Or install the tools:"
        f" sudo {install} {packages}, and name a mirror: {EXAMPLE} (not tried by us)"
    )


def mirror() -> str:
    """The Debian mirror that this machine's apt uses, or the one in OPENBACH_RUN_DEBIAN_MIRROR. Raises SetupError."""
    if given := os.environ.get(MIRROR_VARIABLE):
        return given
    # Unlike `indextargets` this needs no package lists, which a fresh container has not; it fetches nothing.
    command = ["apt-get", "update", "--print-uris", "-o", "Debug::NoLocking=true"]
    if found := DEBIAN_MAIN.search(run(command, "reading apt's sources")):
        return found[1]
    raise SetupError(
        "the sources of apt on this machine (/etc/apt/sources.list, /etc/apt/sources.list.d) name no Debian mirror; "
        f"give one, e.g. {EXAMPLE}"
    )


@dataclass(frozen=True)
class Package:
    """One package of a resolved set: `name_version_architecture`, as in its file name."""

    file_name: str

    @property
    def identity(self) -> str:
        return self.file_name.removesuffix(".deb").replace("%3a", ":")

    def origin(self, archives: Path) -> dict[str, str]:
        """Name and version of the source package it was built from, and the SHA-256 of its file."""
        archive = archives / self.file_name
        form = "${source:Package} ${source:Version}"
        source = run(["dpkg-deb", "--show", f"--showformat={form}", str(archive)], f"reading {archive.name}")
        return {"source": source, "sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}


def unpack(packages: Iterable[Package], archives: Path, root: Path) -> Iterator[Package]:
    """Unpacks the .deb files of a resolved set into the tree `root`; yields each package before it is unpacked.

    The first is base-files: its links (/bin → usr/bin) must be there before other packages' directories of that name."""
    untar = (
        'dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --keep-directory-symlink --no-same-owner --no-same-permissions'
    )
    for package in sorted(packages, key=lambda package: not package.file_name.startswith("base-files_")):
        yield package
        archive = str(archives / package.file_name)
        run(["bash", "-o", "pipefail", "-c", untar, "unpack", archive, str(root)], f"unpacking {package.file_name}")


def needs_among(archives: Iterable[Path]) -> dict[str, list[str]]:
    """Name of each package → those of the others that its Depends and Pre-Depends name, all alternatives of them."""
    depends: dict[str, list[str]] = {}
    provided: dict[str, set[str]] = {}
    for archive in archives:
        form = "${Package}\n${Provides}\n${Pre-Depends}, ${Depends}\n"
        shown = run(["dpkg-deb", "--show", f"--showformat={form}", str(archive)], f"reading {archive.name}")
        name, provides, needed = shown.split("\n")[:3]
        depends[name] = _names(needed)
        for one in (name, *_names(provides)):
            provided.setdefault(one, set()).add(name)
    return {
        name: sorted({found for one in names for found in provided.get(one, ())} - {name})
        for name, names in depends.items()
    }


def _names(relations: str) -> list[str]:
    """`a (>= 1), b:any | c` → a, b, c"""
    return [word.split("(")[0].strip().split(":")[0] for word in re.split("[,|]", relations) if word.strip()]


BINARY, SOURCE = ("deb", "Packages"), ("deb-src", "Sources")
"""Kinds of package lists: what apt's sources call them, and the lists."""
HASHED = re.compile(r"^ ([0-9a-f]{64}) \d+ (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Apt:
    """An apt of our own in `directory`, over the suites given; `pins` take packages from a suite that is not the first."""

    directory: Path
    suites: tuple[str, ...]
    pins: dict[str, tuple[str, ...]]
    kind: tuple[str, str] = BINARY

    def prepare(self) -> None:
        """Writes the configuration and fetches the package lists. Raises SetupError."""
        if not KEYRING.exists():
            raise SetupError(f"{KEYRING} is missing: install the package debian-archive-keyring")
        for name in ("lists/partial", "archives/partial", "empty/partial"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        uri, (kind, lists) = mirror(), self.kind
        self._write(
            "sources",
            "".join(f"{kind} [signed-by={KEYRING} target={lists}] {uri} {suite} main\n" for suite in self.suites),
        )
        self._write("preferences", self._preferences())
        self._write("status", "")
        self._write("apt.conf", self._configuration())
        self._apt("fetching Debian's package lists", "update", "--error-on=any")

    def resolve(self, names: Sequence[str]) -> list[Package]:
        """The packages and all they depend on, sorted by file name."""
        nothing_there = (
            f"Dir::Cache::archives={self.directory}/empty"  # apt does not name what it has downloaded before
        )
        options = ("-o", nothing_there, "--print-uris", "-qq", "-y")
        printed = self._apt("resolving Debian packages", "install", *options, *names)
        return sorted(
            (Package(line.split(" ")[1]) for line in printed.splitlines() if line.startswith("'")),
            key=lambda package: package.file_name,
        )

    def download(self, names: Sequence[str]) -> Path:
        """Downloads what `resolve` names; returns the directory of the .deb files."""
        self._apt("downloading Debian packages", "install", "--download-only", "-qq", "-y", *names)
        return self.directory / "archives"

    def candidate(self, name: str) -> str | None:
        """The version apt would install, or None when no suite has the package."""
        found = re.search(r"Candidate: (\S+)", self._apt(f"looking for {name}", "policy", name, program="apt-cache"))
        return None if found is None or found[1] == "(none)" else found[1]

    def source_files(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Of an apt of the kind SOURCE: `name version` of every source package with one of these names → its files' paths on
        the mirror, with their SHA-256."""
        shown = self._apt("reading Debian's source packages", "showsrc", "--only-source", *names, program="apt-cache")
        found = {}
        for stanza in shown.split("\n\n"):
            fields = dict(re.findall(r"^([\w-]+):[ \n](.*(?:\n .*)*)", stanza, re.MULTILINE))
            if "Package" in fields:
                listed = HASHED.findall(fields["Checksums-Sha256"])
                hashes = {f"{fields['Directory']}/{name}": sha256 for sha256, name in listed}
                found[f"{fields['Package']} {fields['Version']}"] = hashes
        return found

    def fetch(self, name: str) -> Path:
        """Downloads one package without what it depends on; returns its .deb file."""
        archives = self.directory / "archives"
        file_name = self._apt(f"looking for {name}", "download", "--print-uris", "-qq", name).split(" ")[1]
        configuration = str(self.directory / "apt.conf")
        run(
            ["env", "-C", str(archives), "apt-get", "download", "-qq", name],
            f"downloading {name}",
            APT_CONFIG=configuration,
        )
        return archives / file_name

    def _apt(self, what: str, *arguments: str, program: str = "apt-get") -> str:
        return run([program, *arguments], what, APT_CONFIG=str(self.directory / "apt.conf"))

    def _write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def _preferences(self) -> str:
        first = f"Package: *\nPin: release n={self.suites[0]}\nPin-Priority: 500\n\n"
        others = "".join(f"Package: *\nPin: release n={suite}\nPin-Priority: 100\n\n" for suite in self.suites[1:])
        pinned = "".join(
            f"Package: {' '.join(names)}\nPin: release n={suite}\nPin-Priority: 900\n\n"
            for suite, names in self.pins.items()
        )
        return first + others + pinned

    def _configuration(self) -> str:
        at = self.directory
        return (
            f'Dir::Etc::sourcelist "{at}/sources";\nDir::Etc::sourceparts "/dev/null";\n'
            f'Dir::Etc::preferences "{at}/preferences";\nDir::Etc::preferencesparts "/dev/null";\n'
            f'Dir::State::status "{at}/status";\nDir::State::lists "{at}/lists";\n'
            f'Dir::Cache "{at}";\nDir::Cache::archives "{at}/archives";\n'
            'Acquire::Languages "none";\nAPT::Install-Recommends "false";\nAPT::Sandbox::User "";\nDebug::NoLocking "true";\n'
        )
