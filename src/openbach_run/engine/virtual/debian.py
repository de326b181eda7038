# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages by a private apt below the cache: the machine's own package lists stay.

Nothing is installed: packages are resolved as if on an empty machine, downloaded and unpacked. apt
checks the signature of Debian's lists, and the hash of every file. No root is needed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from openbach_run.catalog import check_package
from openbach_run.errors import SetupError
from openbach_run.paths import cache_directory
from openbach_run.progress import Progress

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
TRUST = f"signed-by={KEYRING}"
"""Option of a source of apt: whose signature its lists must have."""
MIRROR_VARIABLE = "OPENBACH_RUN_DEBIAN_MIRROR"
ARCHIVE_VARIABLE = "OPENBACH_RUN_DEBIAN_ARCHIVE"
ARCHIVE = "http://snapshot.debian.org"
"""Debian's snapshot archive: every version of every package, for ever. Not over TLS: hashes prove
what comes, and a machine without certificates gets it too."""
HELPERS = (Path("/usr/lib/apt/apt-helper"), Path("/usr/libexec/apt/apt-helper"))
DOWNLOAD_OPTIONS = ("APT::Sandbox::User=", "Acquire::Retries=3", "Acquire::http::Timeout=30")
LOOK_S = 0.2
"""Time from one look at a download's progress to the next."""
EXAMPLE = f"{MIRROR_VARIABLE}=http://deb.debian.org/debian"
DEBIAN_MAIN = re.compile(
    r"'((?!cdrom:)[^']+)/dists/(?:bookworm|trixie|forky|sid|oldstable|stable|testing|unstable)/main/binary-[^']*'",
    re.MULTILINE,
)
"""Line of what `apt-get update` would fetch from a Debian mirror; the mirror's URI."""


def run(command: Sequence[str], what: str, **environment: str) -> str:
    """Run a command of the set-up; SetupError carries the command and all it printed."""
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
    "gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "xz": "xz-utils",
    "patch": "patch", "tar": "tar", "dpkg-deb": "dpkg", "apt-get": "apt",
    "/usr/include/stdlib.h": "libc6-dev",
}  # fmt: skip
"""Commands and files that building the kernel, the jail, the guest tree and programs need, and the
Debian packages they are in."""

OTHER_SYSTEMS = {
    "dnf": (
        "dnf install",
        {"xz-utils": "xz", "libc6-dev": "glibc-devel", "debian-archive-keyring": "debian-keyring"},
    ),
    "pacman": ("pacman -S --needed", {"xz-utils": "xz", "libc6-dev": "glibc"}),
    "zypper": ("zypper install", {"xz-utils": "xz", "libc6-dev": "glibc-devel"}),
}
"""Package managers of systems that are not Debian's → how it installs, and what it calls
differently. From their documentation; tried on none of them (docs/bundle.md)."""

_INSTALLING = threading.Lock()
INSTALL_LOCK = "apt.lock"
"""The file of the cache that whoever installs packages holds, the launcher too."""
APT_LISTS_LOCK = Path("/var/lib/apt/lists/lock")
DPKG_WAITS = ("-o", "DPkg::Lock::Timeout=600")
"""Options of apt-get: another program that installs is waited for."""


def ensure_tools(tools: Mapping[str, str] = BUILD_TOOLS, *, install: bool = True) -> None:
    """Install the packages whose commands (or files) are missing when root.

    Otherwise, or if not to `install`, SetupError says which they are. InputError for a name that is
    none of a package.
    """
    for name in tools.values():
        check_package("tools", name)
    # Threads and commands set up at the same time, and dpkg lets only one program install.
    with _INSTALLING:
        _ensure_tools(tools, install)


def _ensure_tools(tools: Mapping[str, str], install: bool) -> None:
    missing = _missing(tools)
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise SetupError(_without_apt(missing))
    # An ordinary user is told the command, rather than asked for a password.
    if os.geteuid() != 0 or not install:
        raise SetupError(
            f"missing packages; install them with: sudo apt-get install {' '.join(missing)}"
        )
    with _only_installer():
        missing = _missing(tools)  # another command may have installed them meanwhile
        if not missing:
            return
        print(f"installing {' '.join(missing)}", flush=True)
        run(["apt-get", *DPKG_WAITS, "update", "-qq"], "apt-get update")
        run(
            ["apt-get", *DPKG_WAITS, "install", "-y", "-qq", *missing],
            "installing packages",
            DEBIAN_FRONTEND="noninteractive",
        )


def _missing(tools: Mapping[str, str]) -> list[str]:
    """Return the packages of the commands and files that are not there."""
    present = {tool for tool in tools if shutil.which(tool) or Path(tool).exists()}
    return sorted({package for tool, package in tools.items() if tool not in present})


@contextmanager
def _only_installer() -> Iterator[None]:
    """Wait until no other command of ours installs, and nobody else updates apt's lists.

    For the lists apt itself does not wait.
    """
    with (cache_directory() / INSTALL_LOCK).open("w") as ours:
        fcntl.flock(ours, fcntl.LOCK_EX)
        if APT_LISTS_LOCK.exists():
            with APT_LISTS_LOCK.open("a") as lists:
                fcntl.lockf(lists, fcntl.LOCK_EX)
        yield


def _without_apt(missing: Sequence[str]) -> str:
    """Return what a system without Debian's tools can do, by its own package manager."""
    commands = [words for manager, words in OTHER_SYSTEMS.items() if shutil.which(manager)]
    bundle = "A bundle, made on Debian or Ubuntu, runs here as it is: docs/bundle.md"
    if not commands:
        return (
            "this system has no apt-get, from whose packages the kernel and the guest tree are"
            f" made. {bundle}"
        )
    (install, names), *_ = commands
    packages = " ".join(names.get(package, package) for package in (*missing, KEYRING.stem))
    return (
        "the kernel and the guest tree are made from Debian's packages, by Debian's tools."
        f" {bundle}. Or install the tools: sudo {install} {packages}, and name a mirror: {EXAMPLE}"
        " (not tried by us)"
    )


def mirror() -> str:
    """The Debian mirror that this machine's apt uses, or the one in OPENBACH_RUN_DEBIAN_MIRROR.

    Raises SetupError.
    """
    if named := os.environ.get(MIRROR_VARIABLE):
        return named
    # Unlike `indextargets` this needs no package lists, which a fresh container has not; it fetches
    # nothing.
    command = ["apt-get", "update", "--print-uris", "-o", "Debug::NoLocking=true"]
    if match := DEBIAN_MAIN.search(run(command, "reading apt's sources")):
        return match[1]
    raise SetupError(
        "the sources of apt on this machine (/etc/apt/sources.list, /etc/apt/sources.list.d) name"
        f" no Debian mirror; give one, e.g. {EXAMPLE}"
    )


def archive() -> str:
    """Debian's snapshot archive, or the one in OPENBACH_RUN_DEBIAN_ARCHIVE: it has /file/SHA1."""
    return os.environ.get(ARCHIVE_VARIABLE) or ARCHIVE


@dataclass(frozen=True)
class Download:
    """A file to download: where it is, where it goes, and the SHA-256 that it must have."""

    uri: str
    target: Path
    sha256: str
    size_bytes: int


def download(files: Sequence[Download], progress: Progress, what: str) -> dict[Path, str]:
    """Download files by apt, and return for each target that did not come why.

    apt knows this machine's proxies and passwords, follows redirects, resumes what broke off, and
    checks the hash. A part of a file that broke off stays there, and is resumed by the next call.
    """
    # apt-helper is no command of the PATH; its place differs between versions of apt.
    helper = next((helper for helper in HELPERS if helper.exists()), None)
    if helper is None:
        raise SetupError(f"apt-helper is missing ({' or '.join(map(str, HELPERS))}): install apt")
    words = [arg for file in files for arg in (file.uri, str(file.target), f"SHA256:{file.sha256}")]
    options = [word for option in DOWNLOAD_OPTIONS for word in ("-o", option)]
    # At least 1, as it divides.
    total_bytes = max(sum(file.size_bytes for file in files), 1)
    # A file rather than a pipe, which would fill up while nobody reads it.
    with tempfile.TemporaryFile("w+") as log:
        command = [str(helper), *options, "download-file", *words]
        # FAILED reads apt's messages in English.
        environment = {**os.environ, "LC_ALL": "C"}
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True
        ) as running:
            try:
                while not _has_ended(running):
                    came_bytes = sum(_size_bytes(file.target) for file in files)
                    progress(
                        f"{what}: {came_bytes / 1e6:.0f} of {total_bytes / 1e6:.0f} MB",
                        came_bytes / total_bytes,
                    )
            except BaseException:
                running.terminate()
                raise
        log.seek(0)
        reasons = _by_name(FAILED.findall(log.read()))
    # A file that apt has found wrong is renamed, so what is there under its name is right or a
    # part.
    return {
        file.target: reasons.get(_name_of(file.uri), "it did not come").strip()
        for file in files
        if _size_bytes(file.target) != file.size_bytes or sha256_of(file.target) != file.sha256
    }


FAILED = re.compile(r"^E: Failed to fetch (\S+)  (.*)$", re.MULTILINE)


def _by_name(failed: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The reasons of failures by the file's name: apt tells the URI after redirections."""
    return {_name_of(uri): reason for uri, reason in failed}


def _name_of(uri: str) -> str:
    return unquote(uri.rpartition("/")[2])


def _has_ended(process: subprocess.Popen[str]) -> bool:
    try:
        process.wait(LOOK_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _size_bytes(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def sha256_of(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@dataclass(frozen=True)
class Package:
    """A package's file, as apt names it."""

    name: str
    version: str
    architecture: str
    path: str
    """Path below a mirror's URI: pool/main/…"""
    sha256: str
    size_bytes: int

    @property
    def identity(self) -> str:
        """Return `name_version_architecture`, which no other package has."""
        return f"{self.name}_{self.version}_{self.architecture}"

    @property
    def file_name(self) -> str:
        """Return the name under which apt stores the package."""
        return f"{self.identity.replace(':', '%3a')}.deb"

    def as_installed(self, archives: Path) -> str:
        """The stanza of a dpkg status file that says it is installed."""
        file = archives / self.file_name
        fields = run(["dpkg-deb", "--field", str(file)], f"reading {file.name}")
        return f"{fields.strip()}\nStatus: install ok installed\n\n"

    def source(self, archives: Path) -> str:
        """Name and version of the source package that it was built from."""
        form = "${source:Package} ${source:Version}"
        file = archives / self.file_name
        return run(
            ["dpkg-deb", "--show", f"--showformat={form}", str(file)], f"reading {file.name}"
        )


PRINTED = re.compile(r"^'(\S+)' ([^_\s]+)_([^_\s]+)_(\S+)\.deb (\d+) SHA256:(\S+)$", re.MULTILINE)
"""A line of --print-uris: URI, name, version, architecture, size, hash."""


def unpack(packages: Iterable[Package], archives: Path, root: Path) -> Iterator[Package]:
    """Unpack the .deb files of packages into the tree `root`; yields each before it is unpacked.

    The first is base-files: its links (/bin → usr/bin) must be there before other packages'
    directories of that name.
    """
    untar = (
        'dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --keep-directory-symlink --no-same-owner'
        " --no-same-permissions"
    )
    # False sorts before True.
    for package in sorted(packages, key=lambda package: package.name != "base-files"):
        yield package
        archive = str(archives / package.file_name)
        run(
            ["bash", "-o", "pipefail", "-c", untar, "unpack", archive, str(root)],
            f"unpacking {package.file_name}",
        )


def postinst(archive: Path) -> str:
    """The script that a package runs when it has been unpacked, "" if it has none."""
    with tempfile.TemporaryDirectory() as place:
        run(["dpkg-deb", "--control", str(archive), f"{place}/control"], f"reading {archive.name}")
        script = Path(place) / "control/postinst"
        return script.read_text(errors="replace") if script.exists() else ""


def needs_among(archives: Iterable[Path]) -> dict[str, list[str]]:
    """Return for each package those others that its Depends and Pre-Depends name.

    All alternatives of them count.
    """
    depends: dict[str, list[str]] = {}
    provided: dict[str, set[str]] = {}
    for archive in archives:
        form = "${Package}\n${Provides}\n${Pre-Depends}, ${Depends}\n"
        shown = run(
            ["dpkg-deb", "--show", f"--showformat={form}", str(archive)], f"reading {archive.name}"
        )
        name, provides, needed = shown.split("\n")[:3]
        depends.setdefault(name, []).extend(_names(needed))
        for alias in (name, *_names(provides)):
            provided.setdefault(alias, set()).add(name)
    needs: dict[str, list[str]] = {}
    for name, names in depends.items():
        # A virtual package, like mail-transport-agent, stands for all that provide it.
        providers: set[str] = set()
        for alias in names:
            providers |= provided.get(alias, set())
        needs[name] = sorted(providers - {name})
    return needs


def _names(relations: str) -> list[str]:
    """Return the names in a dependency: a, b and c for `a (>= 1), b:any | c`."""
    return [
        word.split("(")[0].strip().split(":")[0]
        for word in re.split("[,|]", relations)
        if word.strip()
    ]


BINARY, SOURCE = ("deb", "Packages"), ("deb-src", "Sources")
"""Kinds of package lists: what apt's sources call them, and the lists."""
HASHED = re.compile(r"^ ([0-9a-f]{64}) \d+ (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Apt:
    """An apt of our own in `directory`, over the suites given.

    `pins` take packages from a suite that is not the first.
    """

    directory: Path
    suites: tuple[str, ...]
    pins: dict[str, tuple[str, ...]]
    kind: tuple[str, str] = BINARY

    def prepare(self, installed: str = "") -> None:
        """Write the configuration and fetch the package lists.

        `installed` has the stanzas of packages that are there already (dpkg's status file). Raises
        SetupError.
        """
        # Without Debian's keys apt could not tell Debian's lists from anybody's.
        if not KEYRING.exists():
            raise SetupError(f"{KEYRING} is missing: install the package debian-archive-keyring")
        for name in ("lists/partial", "archives/partial"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        uri, (kind, lists) = mirror(), self.kind
        self._write(
            "sources",
            "".join(
                f"{kind} [{TRUST} target={lists}] {uri} {suite} main\n" for suite in self.suites
            ),
        )
        self._write("preferences", self._preferences())
        self._write("status", installed)
        self._write("apt.conf", self._configuration())
        # By default apt only warns about a list that it could not fetch, and goes on with an old
        # one.
        self._apt("fetching Debian's package lists", "update", "--error-on=any")

    def resolve(self, names: Sequence[str]) -> list[Package]:
        """The packages and all they depend on that is not installed, sorted by file name."""
        options = ("-o", "Acquire::ForceHash=SHA256", "--print-uris", "-qq", "-y")
        printed = self._apt("resolving Debian packages", "install", *options, *names)
        return sorted(self._packages(printed), key=lambda package: package.file_name)

    def package(self, name: str) -> Package:
        """One package, without what it depends on; `name/suite` is that of a suite."""
        options = ("-o", "Acquire::ForceHash=SHA256", "--print-uris", "-qq")
        (package,) = self._packages(self._apt(f"looking for {name}", "download", *options, name))
        return package

    def _packages(self, printed: str) -> list[Package]:
        base = f"{mirror().rstrip('/')}/"
        return [
            Package(
                name,
                version.replace("%3a", ":"),
                architecture,
                unquote(uri.removeprefix(base)),
                sha256,
                int(size),
            )
            for uri, name, version, architecture, size, sha256 in PRINTED.findall(printed)
        ]

    def candidate(self, name: str) -> str | None:
        """The version apt would install, or None when no suite has the package."""
        match = re.search(
            r"Candidate: (\S+)",
            self._apt(f"looking for {name}", "policy", name, program="apt-cache"),
        )
        # apt says (none) for a package that it knows by name only.
        return None if match is None or match[1] == "(none)" else match[1]

    def has(self, name: str) -> bool:
        """Return whether apt would install a package of that name, or one that provides it."""
        shown = self._apt(f"looking for {name}", "showpkg", name, program="apt-cache")
        return self.candidate(name) is not None or bool(
            shown.partition("Reverse Provides:")[2].strip()
        )

    def source_files(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the files of source packages with one of these names.

        They are by `name version` the paths on the mirror, with their SHA-256. For an apt of the
        kind SOURCE.
        """
        shown = self._apt(
            "reading Debian's source packages",
            "showsrc",
            "--only-source",
            *names,
            program="apt-cache",
        )
        files = {}
        for stanza in shown.split("\n\n"):
            fields = dict(re.findall(r"^([\w-]+):[ \n](.*(?:\n .*)*)", stanza, re.MULTILINE))
            if "Package" in fields:
                listed = HASHED.findall(fields["Checksums-Sha256"])
                hashes = {f"{fields['Directory']}/{name}": sha256 for sha256, name in listed}
                files[f"{fields['Package']} {fields['Version']}"] = hashes
        return files

    def _apt(self, what: str, *arguments: str, program: str = "apt-get") -> str:
        return run([program, *arguments], what, APT_CONFIG=str(self.directory / "apt.conf"))

    def _write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def _preferences(self) -> str:
        first = f"Package: *\nPin: release n={self.suites[0]}\nPin-Priority: 500\n\n"
        others = "".join(
            f"Package: *\nPin: release n={suite}\nPin-Priority: 100\n\n"
            for suite in self.suites[1:]
        )
        pinned = "".join(
            f"Package: {' '.join(names)}\nPin: release n={suite}\nPin-Priority: 900\n\n"
            for suite, names in self.pins.items()
        )
        return first + others + pinned

    def _configuration(self) -> str:
        at = self.directory
        return (
            f'Dir::Etc::sourcelist "{at}/sources";\nDir::Etc::sourceparts'
            f' "/dev/null";\nDir::Etc::preferences "{at}/preferences";\nDir::Etc::preferencesparts'
            f' "/dev/null";\nDir::State::status "{at}/status";\nDir::State::lists'
            f' "{at}/lists";\nDir::Cache "{at}";\nDir::Cache::archives'
            f' "{at}/archives";\nAcquire::Languages "none";\nAPT::Install-Recommends'
            ' "false";\nAPT::Sandbox::User "";\nDebug::NoLocking "true";\n'
        )
