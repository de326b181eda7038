# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds a program of a VPN that is in no Debian package, from its crate.

`vpn_program.py KIND PROGRAM DIRECTORY`; KIND may be the path of a VPN's folder.

The VPN's vpn.json names the crate, its version and its SHA-256, or as `source` a folder beside it
that is the crate; the Cargo.lock in the crate pins what it depends on. Patches of ours lie beside
vpn.json. The program is linked statically, so that it runs on hosts other than the one that built
it. What is done is printed as lines `<part done> <what>`; the program is then DIRECTORY/PROGRAM.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vpn_folders import describe, scripts

LAST_LINES = 30


def main(kind: str, program: str, directory: Path) -> None:
    """Build a program of a VPN into a directory."""
    recipe = describe(kind)["programs"][program]
    if not recipe.keys() & {"crate", "source"}:
        sys.exit(f"{program} is in no registry: get it from {recipe['host']}")
    tools = ("cargo", *recipe.get("tools", []))
    if missing := [tool for tool in tools if not shutil.which(tool) and not Path(tool).exists()]:
        sys.exit(
            f"{program} {recipe['version']} is built from crates.io, and {missing[0]} is missing on"
            " this machine"
        )
    work = directory / "work"
    if "source" in recipe:
        source = work / program
        shutil.rmtree(work, ignore_errors=True)  # of a build that failed
        shutil.copytree(scripts(kind) / recipe["source"], source)
    else:
        source = unpack(recipe, work)
    for patch in sorted(scripts(kind).glob("*.patch")):
        run(["patch", "-d", str(source), "-p1", "--forward", "-i", str(patch.resolve())])
    target = f"{platform.machine()}-unknown-linux-gnu"
    build(source, recipe.get("options", []), target, program)
    shutil.copy2(source / "target" / target / "release" / program, directory / program)
    shutil.rmtree(work)


def unpack(recipe: Mapping[str, Any], work: Path) -> Path:
    """Return the crate's source, once its hash is what the recipe says."""
    name, version = recipe["crate"], recipe["version"]
    print(f"0 downloading {name} {version}", flush=True)
    shutil.rmtree(work, ignore_errors=True)  # of a build that failed
    work.mkdir(parents=True)
    run(["cargo", "info", "--quiet", f"{name}@{version}"], cwd=work)
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    archives = sorted(home.glob(f"registry/cache/*/{name}-{version}.crate"))
    if not archives:
        sys.exit(f"cargo has not downloaded {name} {version} to {home}")
    for archive in archives:
        if (sha256 := hashlib.sha256(archive.read_bytes()).hexdigest()) != recipe["sha256"]:
            sys.exit(f"{archive}: its SHA-256 is {sha256}, it should be {recipe['sha256']}")
    with tarfile.open(archives[0]) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        tar.extractall(work)
    return work / f"{name}-{version}"


def build(source: Path, options: list[str], target: str, program: str) -> None:
    """Build a program of a source tree with Cargo, and print the progress."""
    packages = (source / "Cargo.lock").read_text().count("[[package]]")
    command = [
        "cargo",
        "build",
        "--release",
        "--locked",
        "--target",
        target,
        "--bin",
        program,
        *options,
    ]
    printed: list[str] = []
    environment = {
        **os.environ,
        "RUSTFLAGS": "-C target-feature=+crt-static",
        "CARGO_TERM_COLOR": "never",
    }
    environment |= {"CARGO_TARGET_DIR": str(source / "target")}
    with subprocess.Popen(
        command,
        cwd=source,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as cargo:
        assert cargo.stderr is not None
        for line in cargo.stderr:
            printed.append(line)
            if compiled := re.match(r" *Compiling (\S+)", line):
                done = sum("Compiling" in line for line in printed)
                print(f"{min(done / packages, 1):.2f} compiling {compiled[1]}", flush=True)
    if cargo.returncode:
        sys.exit(
            f"{' '.join(command)}: exit code {cargo.returncode}:\n{''.join(printed[-LAST_LINES:])}"
        )


def run(command: list[str], cwd: Path | None = None) -> None:
    """Run a command, and return what it prints.

    If it fails this program ends with the command's words.
    """
    done = subprocess.run(
        command, check=False, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(
            f"{' '.join(command)}: exit code {done.returncode}:"
            f" {done.stderr.strip() or done.stdout.strip()}"
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
