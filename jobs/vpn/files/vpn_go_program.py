# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds programs of a VPN that are in no Debian package, from their Go module.

`vpn_go_program.py KIND PROGRAM DIRECTORY`; KIND may be the path of a VPN's folder.

What is a crate it hands to vpn_program.py.

The VPN's vpn.json names the module, its version and the SHA-256 of its zip, or as `source` a
folder beside it that is the module; the go.sum in the module pins what it depends on. Patches in
that folder (`a/PACKAGE/FILE`) change what it depends on. Beside PROGRAM those are built that the
recipe names as `also`. They
are linked statically. What is done is printed as lines `<part done> <what>`; the programs are then
in DIRECTORY.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import vpn_program
from vpn_folders import describe, scripts

LAST_LINES = 30
ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
BUILD = ("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-v")
"""`-v` names each package that is compiled."""
COLLECTOR = "src/internal/runtime/gc/scan/scan_amd64.go"
"""The file of Go's own source that says whether its garbage collector uses AVX-512."""


def main(kind: str, program: str, directory: Path) -> None:
    """Build a program of a VPN, and those of the same module, into a directory."""
    recipe = describe(kind)["programs"][program]
    of_ours = scripts(kind) / recipe.get("source", "")
    if not recipe.keys() & {"go", "source"} or (of_ours / "Cargo.toml").exists():
        vpn_program.main(kind, program, directory)
        return
    what = f"{program} {recipe['version']}"
    if not shutil.which("go"):
        sys.exit(f"{what} is built from the Go module proxy, and go is missing on this machine")
    work = directory / "work"
    if "source" in recipe:
        source = work / program
        shutil.rmtree(work, ignore_errors=True)  # of a build that failed
        shutil.copytree(of_ours, source)
        packages, modules = ["."], "vendor"
    else:
        source = unpack(recipe, work)
        packages = [f"./cmd/{name}" for name in (program, *recipe.get("also", []))]
        modules = "readonly"
    check_go(what, source)
    if modules == "vendor":
        patch_dependencies(source)
    build(source, packages, modules, directory.resolve())
    shutil.rmtree(work)


def unpack(recipe: Mapping[str, Any], work: Path) -> Path:
    """Return the module's source, once its hash is what the recipe says."""
    module = f"{recipe['go']}@v{recipe['version']}"
    print(f"0 downloading {recipe['go']} {recipe['version']}", flush=True)
    shutil.rmtree(work, ignore_errors=True)  # of a build that failed
    work.mkdir(parents=True)
    archive = Path(json.loads(output_of(["go", "mod", "download", "-json", module], work))["Zip"])
    if (sha256 := hashlib.sha256(archive.read_bytes()).hexdigest()) != recipe["sha256"]:
        sys.exit(f"{archive}: its SHA-256 is {sha256}, it should be {recipe['sha256']}")
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(work)
    return work / module


def check_go(what: str, source: Path) -> None:
    """Go before 1.21 does not know how to say that a module is too new for it."""
    (needed,) = re.findall(r"(?m)^go ([\d.]+)", (source / "go.mod").read_text())
    installed = output_of(["go", "env", "GOVERSION"], source).strip().removeprefix("go")
    if numbers(installed) < numbers(needed):
        sys.exit(
            f"{what} needs Go {needed}, and this machine has {installed}"
            " (https://go.dev/dl has newer ones; Debian 13's golang-go is 1.24)"
        )


def numbers(version: str) -> list[int]:
    """Return the numbers of a version, to compare it with another."""
    return [int(number) for number in re.findall(r"\d+", version)]


def patch_dependencies(source: Path) -> None:
    """Bring what a module depends on into its folder `vendor`, and change that by its patches."""
    print("0 downloading what it depends on", flush=True)
    output_of(["go", "mod", "vendor"], source)
    for patch in sorted(source.glob("*.patch")):
        apply = ["patch", "-d", "vendor", "-p1", "--forward", "--fuzz=0", "-i", f"../{patch.name}"]
        output_of(apply, source)


def build(source: Path, packages: list[str], modules: str, directory: Path) -> None:
    """Build packages of a source tree, and print the progress."""
    print("0 downloading what it needs", flush=True)
    number = len(output_of(["go", "list", "-deps", *packages], source).split())
    options = [f"-mod={modules}", *same_on_every_cpu(source), "-o", f"{directory}/"]
    command = [*BUILD, *options, *packages]
    printed: list[str] = []
    with subprocess.Popen(
        command,
        cwd=source,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as go:
        assert go.stderr is not None
        for line in go.stderr:
            printed.append(line)
            print(f"{min(len(printed) / number, 1):.2f} compiling {line.strip()}", flush=True)
    if go.returncode:
        sys.exit(
            f"{' '.join(command)}: exit code {go.returncode}:\n{''.join(printed[-LAST_LINES:])}"
        )


def same_on_every_cpu(source: Path) -> list[str]:
    """Return the options with which a program collects garbage in the same steps on every CPU.

    With AVX-512 the collector of Go 1.26 looks at whole blocks at once and counts its work
    otherwise (runtime/mgcmark_greenteagc.go). It then reads the clock at other times, and in
    virtual time that moves packets. Older versions have no such file.
    """
    collector = Path(output_of(["go", "env", "GOROOT"], source).strip()) / COLLECTOR
    if not collector.exists():
        return []
    function = r"(func HasFastScanSpanPacked\(\) bool \{\s*return )\w+"
    text, changes = re.subn(function, r"\1false", collector.read_text())
    if changes != 1:
        version = output_of(["go", "env", "GOVERSION"], source).strip()
        sys.exit(
            f"{collector}: not as in Go 1.26: it is not known how {version} asks for AVX-512, which"
            " would move packets from one CPU to another. Go 1.26 builds this program"
        )
    ours = source.resolve().parent / "scan_amd64.go"
    ours.write_text(text)
    overlay = source.resolve().parent / "overlay.json"
    overlay.write_text(json.dumps({"Replace": {str(collector): str(ours)}}))
    return [f"-overlay={overlay}"]


def output_of(command: list[str], cwd: Path) -> str:
    """Return what a command prints.

    If it fails this program ends with the command's words.
    """
    done = subprocess.run(
        command,
        check=False,
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        why = done.stderr.strip() or done.stdout.strip()
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}: {why}")
    return done.stdout


def environment() -> dict[str, str]:
    """Return the environment of Go: this one's, and where Go may look."""
    return {**os.environ, **ENVIRONMENT}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
