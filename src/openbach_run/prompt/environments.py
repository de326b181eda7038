# SPDX-License-Identifier: GPL-3.0-or-later
"""Python environments (venv) of this machine, with compiled packages, that the hosts run.

An environment has packages for one version of Python, compiled for this machine's libraries; the
hosts have another Python and other libraries. So its own Python comes with it: interpreter,
standard library, loader, and every shared library that any of its modules needs.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from openbach_run.errors import InputError
from openbach_run.prompt.programs import (
    MAGIC,
    SHARED,
    check_machine,
    copy_program,
    listed_libraries,
    loader_of,
)

CONFIGURATION = "pyvenv.cfg"
BASE = ".base"
"""Folder of a copied environment for the Python that it is made from."""
UNUSED = ("__pycache__", "site-packages", "dist-packages", "test", "idlelib", "tkinter",
          "turtledemo", "ensurepip", "config-*")  # fmt: skip
"""Parts of a standard library that no program on a host needs, or that are of this machine."""
ASK = (
    "import json, sys; print(json.dumps({'kind': sys.implementation.name,"
    " 'version': '%d.%d' % sys.version_info[:2], 'path': sys.path,"
    " 'executable': sys._base_executable}))"
)
SHEBANG = re.compile(rb"#!\s*(\S+)([^\n]*)\n")


@dataclass(frozen=True)
class Base:
    """The Python that an environment is made from."""

    version: str
    program: Path
    loader: Path
    library: Path
    """Its standard library."""
    compiled: Path | None
    """The compiled modules of that, where they are elsewhere."""


def is_environment(place: Path) -> bool:
    """Return whether a directory is a Python environment."""
    return (place / CONFIGURATION).is_file()


def environment_of(program: Path) -> Path | None:
    """Return the environment whose program it is, as ./venv/bin/python; None if it has none."""
    folder = program.parent
    if folder.name == "bin" and folder.parent.name and is_environment(folder.parent):
        return folder.parent
    return None


def base_of(place: Path) -> Base:
    """Return the Python of an environment. Raises InputError for one that cannot be copied."""
    text = (place / CONFIGURATION).read_text(errors="replace")
    if re.search(r"^include-system-site-packages\s*=\s*true", text, re.IGNORECASE | re.MULTILINE):
        raise InputError(
            f"{place}: uses this machine's own packages, too (--system-site-packages), which the"
            " hosts do not have: make it without"
        )
    python = place / "bin/python"
    if not python.exists():
        raise InputError(f"{place}: its Python, {python}, is not on this machine")
    words = [str(python.absolute()), "-I", "-S", "-c", ASK]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    try:
        answer = json.loads(done.stdout)
        program = Path(answer["executable"]).resolve()
        folders = [Path(path) for path in answer["path"] if Path(path).is_dir()]
        library = next(folder for folder in folders if (folder / "os.py").is_file())
    except (ValueError, KeyError, StopIteration):
        last = done.stderr.strip().splitlines()[-1:] or ["it prints nothing"]
        raise InputError(f"{place}: its Python does not run: {last[0]}") from None
    if answer["kind"] != "cpython":
        raise InputError(f"{place}: is of {answer['kind']}; the Python of python.org can be copied")
    check_machine(program)
    loader = loader_of(program.read_bytes())
    if loader is None or not Path(loader).exists():
        raise InputError(f"{program}: its loader is not on this machine")
    compiled = next((folder for folder in folders if folder.name == "lib-dynload"), None)
    if compiled is not None and compiled.is_relative_to(library):
        compiled = None
    return Base(answer["version"], program, Path(loader), library, compiled)


def copy_environment(place: Path, to: Path) -> None:
    """Copy an environment with its Python and all libraries that these need. Raises InputError."""
    base = base_of(place)
    _check_paths(place)
    leave_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(place, to, symlinks=True, ignore=leave_out)
    own = to / BASE
    library = own / "lib" / f"python{base.version}"
    shutil.copytree(base.library, library, ignore=shutil.ignore_patterns(*UNUSED))
    if base.compiled is not None:
        shutil.copytree(base.compiled, library / "lib-dynload")
    (own / "bin").mkdir()
    (own / "libraries").mkdir()
    shutil.copyfile(base.program, own / "bin/python")
    shutil.copyfile(base.loader, own / "loader")
    for name, file in _needed(place, base).items():
        shutil.copyfile(file, own / "libraries" / name)
    for name in ("bin/python", "loader"):
        (own / name).chmod(0o755)
    _write_programs(place, to)


def _check_paths(place: Path) -> None:
    """Raise InputError for packages that are not in the environment (pip install --editable)."""
    for file in [*place.glob("lib/python*/site-packages/*.pth")]:
        for line in file.read_text(errors="replace").splitlines():
            named = Path(line.strip())
            outside = line.strip().startswith("/") and not named.is_relative_to(place.absolute())
            if file.name.startswith("__editable__") or (outside and named.exists()):
                raise InputError(
                    f"{file}: a package that is elsewhere on this machine: install it into the"
                    " environment without --editable"
                )


def _modules(place: Path) -> Iterator[Path]:
    """Yield the compiled modules and libraries of a directory."""
    for file in sorted(place.rglob("*.so*")):
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as opened:
                if opened.read(4) == MAGIC:
                    yield file


def _needed(place: Path, base: Base) -> dict[str, Path]:
    """Return the libraries of this machine that interpreter and modules need, by their names.

    Raises InputError for one that is neither on this machine nor in the environment.
    """
    inside = {file.name for file in place.rglob("*.so*")}
    real = place.resolve()
    libraries: dict[str, Path] = {}
    folders = [place, base.library, *([base.compiled] if base.compiled else [])]
    modules = [base.program]
    for folder in folders:
        modules += [file for file in _modules(folder) if not _is_unused(file.relative_to(folder))]
    for module in modules:
        check_machine(module)
        named, missing = listed_libraries(module, str(base.loader))
        for name in missing:
            # Modules of a package load some of its libraries before others.
            if name not in inside and module.is_relative_to(place):
                raise InputError(f"{module}: its library {name} is not on this machine")
        for name, file in named.items():
            if not file.resolve().is_relative_to(real):
                libraries.setdefault(name, file)
    return libraries


def _is_unused(path: Path) -> bool:
    return bool({*path.parts} & {"test", "tkinter"}) or path.name.startswith(("_tkinter", "_test"))


def _write_programs(place: Path, to: Path) -> None:
    """Write what starts Python on a host, and what is started by it."""
    at = f"{SHARED}/{to.name}"
    configuration = to / CONFIGURATION
    lines = configuration.read_text(errors="replace").splitlines()
    kept = [line for line in lines if line.partition("=")[0].strip() not in ("home", "executable")]
    configuration.write_text("\n".join([f"home = {at}/{BASE}/bin", *kept, ""]))
    quoted = shlex.quote(at)
    start = (
        "#!/bin/sh\nexport PYTHONDONTWRITEBYTECODE=1\n"
        f"exec {quoted}/{BASE}/loader --library-path {quoted}/{BASE}/libraries"
        f' --argv0 {quoted}/bin/python {quoted}/{BASE}/bin/python "$@"\n'
    )
    for file in sorted((place / "bin").iterdir()):
        copy = to / "bin" / file.name
        if re.fullmatch(r"python[\d.]*", file.name):
            copy.unlink()
            copy.write_text(start)
            copy.chmod(0o755)
        elif file.is_file() and not file.is_symlink():
            match = SHEBANG.match(content := file.read_bytes())
            if match and Path(match[1].decode(errors="replace")).parent == place.absolute() / "bin":
                line = f"#!{at}/bin/python".encode() + match[2] + b"\n"
                copy.write_bytes(line + content[match.end() :])
            elif content[:4] == MAGIC:
                copy_program(file, copy, f"{at}/bin")
