# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the golden cells on an emulated computer with another CPU and another kernel of the host.

QEMU computes each instruction, so the CPU may be any of `qemu-system-x86_64 -cpu help`.
The computer starts Debian's kernel with this machine's files, which it cannot change, and has no
network. What the cells need is made here before. Needs the Debian packages qemu-system-x86,
busybox-static and dpkg:

    make other-cpu CPU=SandyBridge

That one has no AVX2. The machine should do nothing else meanwhile. The exit code is 1 if a cell has
other packets there.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
GOLDEN = REPOSITORY / "tests/data/golden.json"
TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "dpkg-deb": "dpkg"}
"""The Debian package of each program that is needed."""
MODULES = (
    *("virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci"),
    *("netfs", "fscache", "9pnet", "9pnet_virtio", "9p", "overlay"),
)
"""What Debian's kernel needs to see this machine's files, each behind those that it needs."""
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in {modules}; do [ ! -e /$module.ko ] || insmod /$module.ko; done
options=trans=virtio,version=9p2000.L,msize=262144
mount -t 9p -o $options,ro,cache=loose files /below
mount -t tmpfs -o size=3G memory /memory
mkdir /memory/above /memory/work
mount -t overlay -o lowerdir=/below,upperdir=/memory/above,workdir=/memory/work overlay /new
mount -t proc proc /new/proc
mount -t sysfs sys /new/sys
mount --bind /dev /new/dev
mkdir -p /new/dev/shm /new/dev/pts
mount -t tmpfs memory /new/dev/shm
mount -t devpts devpts /new/dev/pts
mount -t 9p -o $options out /new/mnt
ln -s /proc/self/fd /new/dev/fd
ip link set lo up
date -s @{now_s}
chroot /new /bin/sh /mnt/cells.sh
poweroff -f
"""
START_LIMIT_S = 600.0
"""How long the first sign of life, and each cell, may take."""
LOOK_S = 0.5


def run_here(command: str, results: Path) -> str:
    """Run a cell on this machine; return the capture's hash."""
    words = [*command.split(), "--quiet", "--results", str(results)]
    subprocess.run(words, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
    return next(hashes_in(results))


def hashes_in(results: Path) -> Iterator[str]:
    """Yield the capture's hash of each run of a results directory."""
    for file in results.glob("runs/*/record.json"):
        yield json.loads(file.read_text())["capture_hash"]


def kernel_and_modules(place: Path) -> tuple[Path, dict[str, bytes]]:
    """Return Debian's kernel for all PCs, downloaded to `place`, and the content of its MODULES."""
    said = subprocess.run(
        ["apt-cache", "depends", "linux-image-amd64"], check=True, capture_output=True, text=True
    ).stdout
    (package,) = set(re.findall(r"Depends: (linux-image-\S+)", said))
    print(f"downloading {package}", flush=True)
    options = ("-q", "-o", "APT::Sandbox::User=root") if os.geteuid() == 0 else ("-q",)
    subprocess.run(
        ["apt-get", *options, "download", package], cwd=place, check=True, stdout=subprocess.DEVNULL
    )
    (archive,) = place.glob("linux-image-*.deb")
    subprocess.run(["dpkg-deb", "-x", str(archive), str(place / "kernel")], check=True)
    found = {}
    for file in (place / "kernel").rglob("*.ko*"):
        name = file.name.partition(".")[0]
        if name in MODULES:
            packed = file.suffix == ".xz"
            found[name] = lzma.decompress(file.read_bytes()) if packed else file.read_bytes()
    (kernel,) = (place / "kernel/boot").glob("vmlinuz-*")
    return kernel, found


def archive_of(files: Mapping[str, bytes], directories: Sequence[str]) -> bytes:
    """Return an initramfs of these files, which can all be executed.

    It is a cpio archive of the form `newc` (the kernel's
    Documentation/driver-api/early-userspace/buffer-format.rst).
    """
    parts = []
    entries = [(name, 0o040755, b"") for name in directories]
    entries += [(name, 0o100755, content) for name, content in files.items()]
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        parts += [head, b"\0" * (-len(head) % 4), content, b"\0" * (-len(content) % 4)]
    return b"".join(parts)


def cells_script(commands: Sequence[str]) -> str:
    """Return what the emulated computer runs: each cell, whose results go to a folder of /mnt."""
    lines = [f"export {name}={shlex.quote(os.environ[name])}" for name in ("HOME", "PATH")]
    if "XDG_CACHE_HOME" in os.environ:
        lines.append(f"export XDG_CACHE_HOME={shlex.quote(os.environ['XDG_CACHE_HOME'])}")
    lines += ["uname -r > /mnt/kernel", f"cd {shlex.quote(str(REPOSITORY))}"]
    for number, command in enumerate(commands):
        lines.append(f"{command} --quiet --results /tmp/{number} > /mnt/{number}.log 2>&1")
        lines.append(f"cp -r /tmp/{number} /mnt/copying && mv /mnt/copying /mnt/{number}")
    return "\n".join([*lines, ""])


def started(cpu: str, place: Path, out: Path) -> subprocess.Popen[bytes]:
    """Start the emulated computer; its console is written to the file `console`."""
    kernel, modules = kernel_and_modules(place)
    busybox = shutil.which("busybox")
    assert busybox
    init = INIT.format(modules=" ".join(MODULES), now_s=int(time.time()))
    files = {"bin/busybox": Path(busybox).read_bytes(), "init": init.encode()}
    files |= {f"{name}.ko": content for name, content in modules.items()}
    directories = ("bin", "proc", "sys", "dev", "below", "memory", "new")
    (place / "initramfs").write_bytes(archive_of(files, directories))
    shared = "security_model=none,multidevs=remap"
    return subprocess.Popen(
        [
            *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", cpu),
            *("-m", "8G", "-smp", "2", "-nographic", "-no-reboot", "-nic", "none"),
            *("-kernel", str(kernel), "-initrd", str(place / "initramfs")),
            *("-append", "console=ttyS0 quiet panic=-1"),
            *("-virtfs", f"local,path=/,mount_tag=files,readonly=on,{shared}"),
            *("-virtfs", f"local,path={out},mount_tag=out,{shared}"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=(place / "console").open("wb"),
        stderr=subprocess.STDOUT,
    )


def waited_for(file: Path, computer: subprocess.Popen[bytes]) -> bool:
    """Return whether a file appears while the computer runs, within START_LIMIT_S."""
    limit_s = time.monotonic() + START_LIMIT_S
    while not file.exists() and time.monotonic() < limit_s:
        try:
            computer.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            continue
        break
    return file.exists()


def main() -> int:
    """Return 0 if all cells have the golden packets, here and there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cpu", default="SandyBridge", help="as QEMU calls it (default: %(default)s)"
    )
    parser.add_argument("--only", default="", help="cells with these words, as 'duration_s=60'")
    asked = parser.parse_args()
    if missing := [package for tool, package in TOOLS.items() if not shutil.which(tool)]:
        print(f"missing: apt-get install {' '.join(missing)}", file=sys.stderr)
        return 2
    cells = json.loads(GOLDEN.read_text())["cells"]
    cells = [cell for cell in cells if asked.only in cell["command"]]
    if not cells:
        print(f"--only {asked.only}: in the command of no cell of {GOLDEN}", file=sys.stderr)
        return 2
    commands = [cell["command"] for cell in cells]
    wrong = 0
    with tempfile.TemporaryDirectory() as directory:
        place, out = Path(directory), Path(directory) / "out"
        out.mkdir()
        for number, cell in enumerate(cells):
            print(f"here, {number + 1} of {len(cells)}: {cell['command']}", flush=True)
            if run_here(cell["command"], place / f"here-{number}") != cell["capture_hash"]:
                print("other packets than golden.json, here")
                return 1
        (out / "cells.sh").write_text(cells_script(commands))
        computer = started(asked.cpu, place, out)
        try:
            for number, cell in enumerate(cells):
                if not waited_for(out / str(number), computer):
                    print(f"no result within {START_LIMIT_S:.0f} s: {cell['command']}")
                    said = [place / "console", out / f"{number}.log"]
                    print(*(file.read_text(errors="replace") for file in said if file.exists()))
                    return 1
                same = list(hashes_in(out / str(number))) == [cell["capture_hash"]]
                wrong += not same
                print(f"{'the same' if same else 'OTHER PACKETS'}: {cell['command']}", flush=True)
            print(f"{len(cells) - wrong} of {len(cells)} the same", end="")
            print(f" on {asked.cpu} with Linux {(out / 'kernel').read_text().strip()}")
        finally:
            computer.terminate()
            computer.wait()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
