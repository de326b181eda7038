# SPDX-License-Identifier: GPL-2.0
"""Two kernels, the selftests and a Debian tree, in which the kernel's own tests run.

All of it is made from one Debian source package, and kept in the cache.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from openbach_run.engine.virtual import kernel as our_kernel
from openbach_run.engine.virtual.cache import content_hash, made_once
from openbach_run.engine.virtual.debian import BUILD_TOOLS, Apt, ensure_tools, run, unpack
from openbach_run.engine.virtual.lock import KERNEL, fetch_current, in_words, obtain, read_lock
from openbach_run.errors import SetupError
from openbach_run.paths import DEBIAN_LOCK
from openbach_run.progress import Progress

THIS = Path(__file__).resolve()
HERE = THIS.parent
KERNEL_DIR = HERE.parent
UNPATCHED, PATCHED = KERNELS = ("unpatched", "patched")
COLLECTIONS = ("futex", "timers", "signal", "mm", "seccomp", "net", "net/netfilter", "net/mptcp")
"""Folders of tools/testing/selftests whose lists of tests are run as they are; `wireguard` has
none, and `tc-testing` is run file by file."""
WIREGUARD, TC, KUNIT = "wireguard", "tc-testing", "kunit"
TOOLS = {
    **BUILD_TOOLS,
    "rsync": "rsync",
    "clang": "clang",
    "pkg-config": "pkg-config",
    "/usr/include/sys/capability.h": "libcap-dev",
    "/usr/include/libmnl/libmnl.h": "libmnl-dev",
    "/usr/include/numa.h": "libnuma-dev",
    "/usr/include/libelf.h": "libelf-dev",
    "/usr/include/zlib.h": "zlib1g-dev",
    "/usr/include/openssl/evp.h": "libssl-dev",
}
PACKAGES = (
    *("base-files", "bash", "bc", "coreutils", "dash", "debianutils", "diffutils", "findutils"),
    *("gawk", "grep", "hostname", "kmod", "libc-bin", "mount", "perl", "procps", "psmisc", "sed"),
    *("util-linux", "python3", "python3-jsonschema", "python3-scapy", "python3-yaml"),
    *("arptables", "conntrack", "ebtables", "ethtool", "iperf", "iperf3", "iproute2", "ipset"),
    *("iptables", "iputils-arping", "iputils-ping", "iputils-tracepath", "ipvsadm", "jq", "ncat"),
    *("netcat-openbsd", "nftables", "socat", "tcpdump", "traceroute", "wireguard-tools"),
    *("keyutils", "libcap2-bin", "libelf1t64", "libmnl0", "libnuma1", "libssl3t64"),
)
PINS: dict[str, tuple[str, ...]] = {
    "bookworm": ("iperf3", "libiperf0"),
    "forky": ("wireguard-tools",),
}
"""iperf3 as the guest's: later versions spin for ever in virtual time. The wg(8) of trixie does not
know all that wireguard/netns.sh asks it for."""
SUITES = ("trixie", *PINS)
LINKS = {
    "usr/bin/awk": "gawk",
    "usr/bin/nc": "nc.openbsd",
    "usr/bin/traceroute": "traceroute.db",
    "usr/bin/which": "which.debianutils",
} | {
    f"usr/sbin/{name}{what}": "xtables-nft-multi"
    for name in ("iptables", "ip6tables", "ebtables", "arptables")
    for what in ("", "-save", "-restore")
}
"""What the maintainer scripts of these packages, which nobody runs, would make."""
FILES = {
    "etc/passwd": (
        "root:x:0:0:root:/root:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        "tcpdump:x:100:100::/nonexistent:/usr/sbin/nologin\n"
    ),
    "etc/group": "root:x:0:\nnogroup:x:65534:\ntcpdump:x:100:\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "init": (
        "#!/bin/sh\n# The rest is init.sh of the checkout.\n"
        'mount -t proc none /proc && mount -t hostfs -o "hostfs=$INIT" none /opt && '
        "exec /bin/sh /opt/init.sh\n"
    ),
}


@dataclass(frozen=True)
class Made:
    """The kernels and the tree that all tests need."""

    version: str
    kernels: Mapping[str, Path]
    selftests: Path
    root: Path


def make(cache: Path, progress: Progress) -> Made:
    """Return both kernels, the selftests and the tree that they run in, made in `cache`."""
    ensure_tools(TOOLS)
    locked = [one for one in read_lock(DEBIAN_LOCK) if one.place == KERNEL]
    (package,) = [one.package for one in locked]
    source = f"{package.name} {package.version}"
    wanted = [KERNEL_DIR / "config", HERE / "config", THIS]
    patches = [
        file for file in KERNEL_DIR.rglob("*") if file.is_file() and HERE not in file.parents
    ]

    def entry(kind: str, files: Iterable[Path]) -> Path:
        return cache / f"kernel-tests-{kind}-{content_hash(files, KERNEL_DIR, source)}"

    def unpacked(place: Path) -> Path:
        progress(f"unpacking {source}", 0)
        archives = place / "archives"
        if missing := obtain(locked, archives, progress, f"downloading {source}"):
            raise SetupError(f"the kernel's source cannot be had: {in_words(missing)}")
        tree = _whole_source(archives / package.file_name, package.name, place / "build")
        shutil.rmtree(archives)
        return tree

    def make_kernel(place: Path, kernel: str) -> None:
        tree = unpacked(place)
        # Everything else is the same, so what differs in the verdicts is the patches' doing.
        if kernel == PATCHED:
            our_kernel._patch(tree, KERNEL_DIR)
        out = place / "build/out"
        _configure(tree, out)
        for step in our_kernel._make(tree, out, KERNEL_DIR / "build"):
            progress(f"building the {kernel} kernel", min(step / 2200, 1))
        shutil.copy2(out / "linux", place / "linux")
        shutil.copy2(out / ".config", place / "config")
        shutil.rmtree(place / "build")

    def make_selftests(place: Path) -> None:
        tree = unpacked(place)
        progress("building the selftests", 0)
        _install_selftests(tree, place / "selftests")
        shutil.rmtree(place / "build")

    made = {
        UNPATCHED: made_once(entry(UNPATCHED, wanted), lambda place: make_kernel(place, UNPATCHED)),
        PATCHED: made_once(
            entry(PATCHED, {*wanted, *patches}), lambda place: make_kernel(place, PATCHED)
        ),
    }
    return Made(
        source,
        {kernel: place / "linux" for kernel, place in made.items()},
        made_once(entry("selftests", [THIS]), make_selftests) / "selftests",
        made_once(entry("root", [THIS]), lambda place: _make_root(place, cache, progress)) / "root",
    )


def _whole_source(package: Path, name: str, work: Path) -> Path:
    """The source with all that kernel.py leaves out on unpacking: the tests are in it."""
    run(["dpkg-deb", "-x", str(package), str(work)], f"unpacking {package.name}")
    archive = str(work / "usr/src" / f"{name}.tar.xz")
    untar = ["tar", "-C", str(work), "--use-compress-program=xz -T0", "-xf", archive]
    run(untar, f"unpacking {name}.tar.xz")
    return work / name


def _configure(source: Path, out: Path) -> None:
    """Configure a kernel source with the fragments for its own tests.

    The fragments are, in order, what the source's own tests ask for, kernel/config, and ours.
    Raises SetupError if the last two do not come out as they say.
    """
    out.mkdir()
    testing = source / "tools/testing"
    asked = [testing / "kunit/configs/all_tests.config"]
    asked += [testing / "selftests" / name / "config" for name in (*COLLECTIONS, TC)]
    theirs = _settings(file.read_text() for file in asked if file.exists())
    # Last, so that ours win where the tests ask for something else.
    ours = _settings(file.read_text() for file in (KERNEL_DIR / "config", HERE / "config"))
    fragment = out / "fragment"
    lines = [f"{name}={value}\n" for name, value in {**theirs, **ours}.items()]
    fragment.write_text("".join(lines))
    configure = [f"KCONFIG_ALLCONFIG={fragment}", "allnoconfig"]
    run(
        [*our_kernel._make_command(source, out), *configure],
        "configuring the kernel",
        **our_kernel.FIXED_BUILD,
    )
    wanted = [f"{name}={value}" for name, value in ours.items() if value != "n"]
    if lost := our_kernel.not_taken(wanted, (out / ".config").read_text()):
        raise SetupError(f"this kernel source does not take {', '.join(lost)}")


def _settings(fragments: Iterable[str]) -> dict[str, str]:
    """Symbol → value, the last one counting; what may be a module is built in."""
    text = "\n".join(fragments)
    found = re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.MULTILINE)
    # The guest has no modules on its disk.
    return {name: "y" if value == "m" else value for name, value in found}


def _install_selftests(source: Path, place: Path) -> None:
    """Build and install the selftests with the source's own make.

    place/kselftest-list.txt names them.
    """
    # The selftests are programs for x86: UML runs them as this machine would.
    run(["make", "-C", str(source), "-s", "ARCH=x86", "headers"], "making the kernel's headers")
    # -k: some need libraries that are not here; tests_of refuses a collection of which nothing was
    # built.
    make = ["make", "-k", f"-j{os.cpu_count() or 1}", "-C", str(source / "tools/testing/selftests")]
    targets = f"TARGETS={' '.join((*COLLECTIONS, TC))}"
    run([*make, "ARCH=x86", targets, f"INSTALL_PATH={place}", "install"], "building the selftests")
    script = source / "tools/testing/selftests" / WIREGUARD / "netns.sh"
    (place / WIREGUARD).mkdir()
    shutil.copy(script, place / WIREGUARD)


def _make_root(place: Path, cache: Path, progress: Progress) -> None:
    """The guest's tree: Debian packages, and the few files that their scripts would make."""
    progress("the tests' tree: downloading packages", 0)
    apt = Apt(cache / "apt-kernel-tests", SUITES, PINS)
    apt.prepare()
    packages = apt.resolve(PACKAGES)
    archives = place / "archives"
    fetch_current(packages, archives, progress, "the tests' tree: downloading packages")
    root = place / "root"
    root.mkdir()
    for number, package in enumerate(unpack(packages, archives, root)):
        progress(f"the tests' tree: unpacking {package.identity}", number / len(packages))
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    for name, text in FILES.items():
        (root / name).write_text(text)
    (root / "init").chmod(0o755)
    for name in ("opt", "mnt"):
        (root / name).mkdir(exist_ok=True)
    shutil.rmtree(archives)
