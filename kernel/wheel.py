# SPDX-License-Identifier: GPL-3.0-or-later
"""Build of the wheel openbach-run-kernel, which has the built kernel: `make wheel-kernel`.

It writes kernel/built.sha256, too, the hashes by which the command knows this kernel. Commit it,
and build the wheel of the command after it. The same kernel makes the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import zipfile
from pathlib import Path

from openbach_run.engine.virtual.kernel import BUILT, KERNEL_FILE, PACKAGE, ensure_kernel
from openbach_run.errors import SetupError
from openbach_run.paths import REPOSITORY, cache_directory
from openbach_run.version import version

METADATA = """Metadata-Version: 2.1
Name: openbach-run-kernel
Version: {version}
Summary: The virtual-time kernel of openbach-run, built
License: GPL-2.0-only
Requires-Python: >=3.11

The kernel that `openbach-run` {version} would build at its first start, for x86-64. Its source:

- {source} of Debian, SHA-256 {source_sha256}
  (https://snapshot.debian.org/archive/debian/, which has all versions)
- patches, sources and configuration: the folder kernel of openbach-run {version}
"""
WHEEL = """Wheel-Version: 1.0
Generator: openbach-run
Root-Is-Purelib: false
Tag: py3-none-manylinux_2_17_x86_64
"""


def build(entry: Path, number: str, dist: Path) -> tuple[Path, str]:
    """Write the wheel of a kernel's entry of the cache; return its path, and the lines of BUILT."""
    made = json.loads((entry / KERNEL_FILE).read_text())
    files = {f"{PACKAGE}/{entry.name}/{one.name}": one.read_bytes() for one in entry.iterdir()}
    hashes = {name: hashlib.sha256(content) for name, content in sorted(files.items())}
    info = f"{PACKAGE}-{number}.dist-info"
    files[f"{PACKAGE}/__init__.py"] = b""
    files[f"{info}/METADATA"] = METADATA.format(version=number, **made).encode()
    files[f"{info}/WHEEL"] = WHEEL.encode()
    record = ""
    for name, content in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    dist.mkdir(exist_ok=True)
    wheel = dist / f"{PACKAGE}-{number}-py3-none-manylinux_2_17_x86_64.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    start = len(PACKAGE) + 1
    return wheel, "".join(f"{one.hexdigest()}  {name[start:]}\n" for name, one in hashes.items())


def main() -> None:
    """Build the kernel if need be, the wheel, and kernel/built.sha256."""
    kernel = ensure_kernel(
        cache_directory(),
        REPOSITORY / "kernel",
        lambda text, part: print(f"{part:4.0%}  {text}", file=sys.stderr),
    )
    if kernel.differing:
        raise SetupError(f"the kernel is not that of debian.lock: {kernel.differing}")
    wheel, built = build(kernel.executable.parent, version(), REPOSITORY / "dist")
    (REPOSITORY / "kernel" / BUILT).write_text(built)
    print(wheel)


if __name__ == "__main__":
    main()
