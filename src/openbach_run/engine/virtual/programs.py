# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that no Debian package has, linked statically.

The guest's C library is not this machine's, where they are built.

Those that jobs bring as source: `files/<program>/Makefile` in a job's folder builds <program>, as
on a real agent. Those of VPNs: `programs` of a vpn.json names them, and the vpn job's own BUILDERS
build them from their crates and Go modules, or from a Go module in the folder; that takes minutes,
so it is done for the runs that need them. What no registry has either is a user's own program:
one of this machine, a binary, or built from a source tree beside the recipe. It is part of the
folder in the guest, `<folder>/bin/<program>`, and a run is identified by its bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

from openbach_run.catalog import description
from openbach_run.engine.virtual.builds import Build, sources_of
from openbach_run.engine.virtual.cache import content_hash, made_once
from openbach_run.engine.virtual.debian import ensure_tools
from openbach_run.engine.virtual.jail import Jail
from openbach_run.errors import InputError, SetupError
from openbach_run.openbach.job_content import walk
from openbach_run.paths import REPOSITORY
from openbach_run.progress import Progress
from openbach_run.results import run_files
from openbach_run.semantic_hash import acting

DIRECTORY = "bin"
"""Directory of the programs in the guest's code; it is on the PATH of jobs."""
BUILDERS = {
    "build": REPOSITORY / "jobs/vpn/files/vpn_make_program.py",
    "crate": REPOSITORY / "jobs/vpn/files/vpn_program.py",
    "go": REPOSITORY / "jobs/vpn/files/vpn_go_program.py",
    "source": REPOSITORY / "jobs/vpn/files/vpn_go_program.py",
}
"""Key of a recipe that names how it is built, or its source → builder: the first counts."""
SHARED = REPOSITORY / "src/openbach_jobs"
"""Package that the builders import, as other programs of jobs do."""
GO_ROOT = ("VERSION", "go.env", "lib", "pkg", "src")
"""Files and directories of Go, beside that of its programs."""
NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")
FLAGS = ("CFLAGS=-O2", "LDFLAGS=-static")
HOST_VARIABLE = "OPENBACH_RUN_PROGRAMS"
"""Names directories with programs of this machine, parted by colons; they count before its PATH."""


def ensure_programs(
    cache: Path, code: Mapping[str, Path], jail: Callable[[], Jail], progress: Progress
) -> dict[str, Path]:
    """Return the programs of all folders of the guest's `code`, by their place in it.

    Those that are not there yet are built in the `jail`. Raises InputError, SetupError.
    """
    built: dict[str, Path] = {}
    # A job's program is built on a real agent by the same Makefile.
    for name, (folder, parts) in _of_jobs(code).items():
        built[f"{DIRECTORY}/{name}"] = _built(cache, name, folder, parts, jail, progress)
    for guest_folder, folder in code.items():
        for program, recipe in _recipes(folder).items():
            builder = next((BUILDERS[kind] for kind in BUILDERS if kind in recipe), None)
            if builder and not _is_of_this_machine(folder, recipe):
                place = _by_recipe(cache, folder, program, recipe, builder, jail, progress)
                is_own = not _is_of_registry(recipe) and not _is_ours(folder)
                where = f"{guest_folder}/{DIRECTORY}" if is_own else DIRECTORY
                built |= {f"{where}/{name}": place / name for name in _made_by(program, recipe)}
    return built


def _is_of_this_machine(folder: Path, recipe: Mapping[str, Any]) -> bool:
    """Return whether a recipe names who has the program, and nothing beside it that is there."""
    named = [folder / recipe[key] for key in ("source", "binary") if key in recipe]
    return "host" in recipe and not any(place.exists() for place in named)


def _made_by(program: str, recipe: Mapping[str, Any]) -> tuple[str, ...]:
    return (program, *recipe.get("also", ()))


def _is_of_registry(recipe: Mapping[str, Any]) -> bool:
    """Return whether a build downloads what it needs; its recipe, or what that names, pins it."""
    return "build" not in recipe or "wheel" in recipe


def _is_ours(folder: Path) -> bool:
    return folder.resolve().is_relative_to(REPOSITORY.resolve())


def _of_jobs(code: Mapping[str, Path]) -> dict[str, tuple[Path, list[Path]]]:
    """Return the programs that jobs bring: name → folder of the Makefile, what it is built from.

    It is a folder of the job's own files, or in pieces from elsewhere (programs.txt), one of which
    is the Makefile.
    """
    programs: dict[str, tuple[Path, list[Path]]] = {}
    for place, path in code.items():
        for makefile in sorted(path.glob("*/Makefile")):
            programs[makefile.parent.name] = makefile.parent, [makefile.parent]
        if path.is_file() and path.name == "Makefile":
            beside = f"{PurePath(place).parent}/"
            parts = [part for name, part in code.items() if name.startswith(beside)]
            programs[PurePath(place).parent.name] = path.parent, parts
    return programs


def _recipes(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Return the recipes of programs in a folder's description.

    Raises InputError for a name that is a path: files are called so.
    """
    recipes: dict[str, Mapping[str, Any]] = description(folder).get("programs", {})
    for program, recipe in recipes.items():
        for name in _made_by(program, recipe):
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise InputError(
                    f"{folder}: programs: {name!r} is no name of a program, like boringtun-cli"
                )
    return recipes


def own_among(programs: Mapping[str, Path], root: Path) -> dict[str, Path]:
    """Return those of `ensure_programs` that were built from a user's own source tree.

    Raises SetupError for one that needs libraries which the guest tree `root` has not.
    """
    own = {at: file for at, file in programs.items() if not at.startswith(f"{DIRECTORY}/")}
    return {at: _of_this_machine(PurePath(at).parents[1], file, root) for at, file in own.items()}


def host_programs(code: Mapping[str, Path], root: Path) -> dict[str, Path]:
    """Return the programs of this machine that folders of the guest's `code` name, by their place.

    They run there with the libraries of the guest tree `root`. Raises SetupError for those that are
    missing, or need what is not in the tree; InputError for a binary from elsewhere.
    """
    # The named directories first: who names one means its programs.
    directories = os.pathsep.join(
        filter(None, (os.environ.get(HOST_VARIABLE), os.environ.get("PATH")))
    )
    named: dict[str, tuple[PurePath, Path]] = {}
    missing = []
    for place, folder in code.items():
        for program, recipe in _recipes(folder).items():
            at = f"{place}/{DIRECTORY}/{program}"
            if not _is_of_this_machine(folder, recipe):
                if "binary" in recipe:
                    named[at] = folder, beside(folder, recipe["binary"])
            elif file := shutil.which(program, path=directories):
                named[at] = folder, Path(file)
            else:
                missing.append(f"{folder.name} needs {program} (get it from {recipe['host']})")
    if missing:
        raise SetupError(
            f"{'; '.join(missing)}: no Debian package or registry has it, and on this machine it is"
            f" neither in a directory that {HOST_VARIABLE} names nor on the PATH. With"
            f" {HOST_VARIABLE}=DIRECTORY it is found"
        )
    return {place: _of_this_machine(*pair, root) for place, pair in named.items()}


def beside(folder: Path, named: str) -> Path:
    """Return the file or folder that a recipe names, which has to be of what was added with it.

    Raises InputError for one that is elsewhere (it would be another of the user's files) or not
    there.
    """
    place, added = (folder / named).resolve(), folder.resolve().parents[1]
    if not place.is_relative_to(added):
        raise InputError(f"{folder}: programs: {named} is not in {added}, which was added")
    if not place.exists():
        raise InputError(f"{folder}: programs: {place} is not there")
    return place


def _of_this_machine(folder: PurePath, named: Path, root: Path) -> Path:
    file = named.resolve()
    if lacking := _lacking(file, root):
        raise SetupError(
            f"{file} does not run in the guest: {'; '.join(lacking)}. Link it statically, or add"
            " the Debian packages (trixie) of what is missing to `packages` of"
            f" {folder}"
        )
    return file


def _lacking(file: Path, root: Path) -> list[str]:
    """Return what a program wants that the guest tree has not, as the tree's own loader says.

    The loader only loads: nothing of the program runs.
    """
    with file.open("rb") as opened:
        if opened.read(4) != b"\x7fELF":
            return []  # a script
    loader, libraries = root / "usr/lib64/ld-linux-x86-64.so.2", root / "usr/lib/x86_64-linux-gnu"
    # ldd(1) would take this machine's loader, and may run the program.
    command = [str(loader), "--library-path", str(libraries), "--list", str(file)]
    listed = subprocess.run(command, check=False, capture_output=True, text=True)
    lines = [line.strip() for line in (listed.stdout + listed.stderr).splitlines()]
    hits = [re.search(r"(?:=> )?(/\S+) \(0x", line) for line in lines]
    # A library outside the tree is not there in the guest.
    elsewhere = [hit[1] for hit in hits if hit and not Path(hit[1]).is_relative_to(root)]
    failed = [listed.stderr.strip()] if listed.returncode and listed.stderr.strip() else []
    return [*(line for line in lines if "not found" in line), *elsewhere] or failed


def _built(
    cache: Path,
    name: str,
    folder: Path,
    parts: Sequence[Path],
    jail: Callable[[], Jail],
    progress: Progress,
) -> Path:
    """Return the program of a folder's Makefile, built from these files and folders in it."""
    sources: list[Path] = []
    for part in parts:
        within = (part / place for place in walk(part))
        sources += [part] if part.is_file() else within

    def make(place: Path) -> None:
        ensure_tools()
        progress(f"building {name}", 0)
        with _out(place) as out:
            readable = chain.from_iterable(sources_of(part) for part in parts)
            build = Build(jail(), out, list(readable))
            build.run(
                ["make", "-C", str(folder), "-f", "Makefile", f"OUT={out}", *FLAGS, name],
                f"building {name}",
                progress,
            )
            build.take(name, place)

    return made_once(cache / f"{name}-{content_hash(sources, folder, *FLAGS)}", make) / name


@contextmanager
def _out(place: Path) -> Iterator[Path]:
    """A directory that a build writes to."""
    out = place / "out"
    out.mkdir()
    try:
        yield out
    finally:
        run_files.remove(out)


def _by_recipe(
    cache: Path,
    folder: Path,
    program: str,
    recipe: Mapping[str, Any],
    builder: Path,
    jail: Callable[[], Jail],
    progress: Progress,
) -> Path:
    """The directory of the program, and of those that are built with it."""
    # A change of the builder makes another program; one of its comments does not.
    how = hashlib.sha256(acting(builder)).hexdigest()
    if "build" in recipe:
        tree = beside(folder, recipe["source"])
        sources = [file for file in tree.rglob("*") if file.is_file() and ".git" not in file.parts]
    else:
        tree, sources = folder, [*folder.glob("*.patch"), *_own_source(folder, recipe)]
    place = cache / f"{program}-{content_hash(sources, tree, json.dumps(recipe), how)}"
    pip = find_spec("pip") if "wheel" in recipe else None

    def make(place: Path) -> None:
        ensure_tools(recipe.get("tools", {}), install=_is_ours(folder))
        with _out(place) as out:
            packages = [Path(pip.origin).parents[1]] if pip and pip.origin else []
            readable = [builder.parent, SHARED, *sources_of(folder), *_toolchains(), *packages]
            readable += sources_of(tree)
            build = Build(jail(), out, readable, registry=_is_of_registry(recipe))
            # Without site-packages and compiled files: the builder needs the standard library and
            # what jobs share. Builds get no variable of Python's but this one.
            python = [str(Path(sys.executable).resolve()), "-SB"]
            command = [*python, str(builder), str(folder), program, str(out)]
            # rustup writes to its home, and the jail lets the build write to `out` only.
            _link_rust(out / "rustup")
            homes = {
                "RUSTUP_HOME": f"{out}/rustup",
                "CARGO_HOME": f"{out}/cargo",
                "GOPATH": f"{out}/go",
                "PYTHONPATH": os.pathsep.join(map(str, (SHARED.parent, *packages))),
            }
            build.run(command, f"building {program} {recipe['version']}", progress, **homes)
            for name in _made_by(program, recipe):
                build.take(name, place)

    return made_once(place, make)


def _own_source(folder: Path, recipe: Mapping[str, Any]) -> list[Path]:
    """Return the files of a program whose source is in the folder. Raises InputError."""
    if "source" not in recipe:
        return []
    source = folder / recipe["source"]
    if not any((source / pins).is_file() for pins in ("go.sum", "Cargo.lock")):
        raise InputError(
            f"{folder}: programs: the source {recipe['source']} is no folder with a Go module or a"
            " crate, whose go.sum or Cargo.lock pins what it depends on"
        )
    return [file for file in sorted(source.rglob("*")) if file.is_file()]


def _toolchains() -> list[Path]:
    """Return the folders of Python, Cargo and Go, where a user has them of his own.

    His caches, settings and credentials are not among them.
    """
    places = [Path(sys.base_prefix), _rustup() / "toolchains"]
    if cargo := shutil.which("cargo"):
        places.append(Path(cargo).parent)
    if go := shutil.which("go"):
        places += [
            Path(go).parent,
            Path(go).resolve().parent,
            *(Path(go).resolve().parent.parent / part for part in GO_ROOT),
        ]
    return [place for place in places if place.exists()]


def _rustup() -> Path:
    return Path(os.environ.get("RUSTUP_HOME") or Path("~/.rustup").expanduser())


def _link_rust(place: Path) -> None:
    """A home for rustup, which writes to it, with the user's toolchains."""
    place.mkdir()
    (place / "toolchains").symlink_to(_rustup() / "toolchains")
    if (settings := _rustup() / "settings.toml").exists():
        shutil.copyfile(settings, place / "settings.toml")
