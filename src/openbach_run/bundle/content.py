# SPDX-License-Identifier: GPL-3.0-or-later
"""The content of a bundle.

openbach-run/     a cache: the kernel, the guest tree, the jail, programs, modules
guest             → the guest tree, whose Python runs the command too
bin/python3       that Python
lib/              its library, and the Python packages
repository/       the files of this checkout that the command uses
licenses/         of the Debian packages; the Python packages have theirs beside them
sbom.spdx.json    a list of all packages in it (sbom.py)
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from openbach_run.bundle.file import Content, Member, build_start
from openbach_run.bundle.python_packages import INSTALLED, LISTED, ensure_python_packages
from openbach_run.bundle.sbom import sbom
from openbach_run.bundle.sources import source_files
from openbach_run.campaign.engines import prepared_engine
from openbach_run.catalog import DESCRIBED, Catalog, description
from openbach_run.engine.virtual.cache import KEEPS_ALL
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.engine.virtual.image import COPYRIGHT, GUEST_PYTHON, compile_python
from openbach_run.engine.virtual.kernel import KERNEL_FILE
from openbach_run.openbach.job_content import SHARED
from openbach_run.openbach.job_folders import load_packages, well_formed
from openbach_run.paths import CONTENT, REPOSITORY, cache_directory
from openbach_run.progress import Progress
from openbach_run.version import NAME, version

CACHE = "openbach-run"
DIST_PACKAGES = "lib/python3/dist-packages"


@dataclass(frozen=True)
class Bundle:
    """The parts of a bundle before they are written as one file."""

    start: Path
    """The program at the beginning of the file."""
    content: Content
    sources: dict[str, str]
    """The source files of its Debian packages: path on a mirror → SHA-256."""
    kernel: Path
    """The kernel's entry in the cache."""


@contextmanager
def content(progress: Progress, *, built: bool, additions: Sequence[Path] = ()) -> Iterator[Bundle]:
    """Yield what a bundle is written from. It is made if it is not in the cache.

    With `built` it also has the programs of VPNs that are built from registries. `additions` are a
    user's directories: what is built of them is in it, they themselves are not. Raises InputError,
    SetupError.
    """
    engine = _prepared(progress, Catalog.beside_ours(additions), built=built)
    packages = ensure_python_packages(cache_directory(), engine.image, progress)
    with tempfile.TemporaryDirectory(prefix="openbach-run-") as name:
        start = build_start(Path(name) / "start")
        code = _compiled_code(Path(name) / "src", engine.image.root)
        image = engine.image.root.parent
        parts = {
            # Links, as the bundle's Python, its libraries and the guest tree are the same files.
            "guest": Member(link=f"{CACHE}/{image.name}/root"),
            f"lib/{GUEST_PYTHON}": Member(link=f"../guest/usr/lib/{GUEST_PYTHON}"),
            "bin/python3": Member(start, mode=0o755),
            f"{DIST_PACKAGES}/openbach_run": Member(link="../../../repository/src/openbach_run"),
            f"{DIST_PACKAGES}/{SHARED}": Member(link=f"../../../repository/src/{SHARED}"),
            f"{DIST_PACKAGES}/openbach_run-{version()}.dist-info/METADATA": Member(
                content=_metadata()
            ),
            # Where the bundle is unpacked nothing can make an entry again: none is deleted.
            f"{CACHE}/{KEEPS_ALL}": Member(),
            **_tree(packages / INSTALLED, DIST_PACKAGES),
            **_repository(),
            **_tree(code, "repository/src"),
            **_tree(image / COPYRIGHT, "licenses/debian"),
            "licenses/openbach-run": Member(REPOSITORY / "LICENSE"),
        }
        for entry in engine.entries:
            parts |= _tree(entry, f"{CACHE}/{entry.name}")
            parts[f"{CACHE}/{entry.name}.manifest"] = _manifest(entry)
        sources: dict[str, str] = {}

        def files_of(wanted: Sequence[str]) -> dict[str, dict[str, str]]:
            files = source_files(cache_directory(), progress, wanted)
            for hashes in files.values():
                sources.update(hashes)
            return files

        # It calls files_of, which also fills `sources`.
        described = sbom(engine.entries, json.loads((packages / LISTED).read_text()), files_of)
        parts["sbom.spdx.json"] = Member(content=(json.dumps(described, indent=1) + "\n").encode())
        kernel = next(entry for entry in engine.entries if (entry / KERNEL_FILE).exists())
        yield Bundle(start, parts, sources, kernel)


def _prepared(progress: Progress, catalog: Catalog, *, built: bool) -> VirtualEngine:
    """Return an engine, prepared for all that is in this checkout and beside it."""
    packages = well_formed(load_packages(catalog.jobs, catalog))
    uses: dict[str, list[str]] = {}
    for kind in DESCRIBED:
        folders = catalog.all(kind)
        uses[kind] = sorted(
            name for name, folder in folders.items() if _is_built(folder, built=built)
        )
    uses |= {"cpus": sorted(catalog.all("cpus")), "jobs": sorted(packages)}
    return prepared_engine(uses, packages, catalog, progress)


def _metadata() -> bytes:
    """Return the metadata in which Python looks up the version where there is no checkout."""
    return f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version()}\n".encode()


def _is_built(folder: Path, *, built: bool) -> bool:
    """Return whether the bundle has a folder's programs.

    Programs of this machine are not in it; those of registries are if they are wanted.
    """
    return all(
        built and "host" not in recipe
        for recipe in description(folder).get("programs", {}).values()
    )


def _compiled_code(place: Path, root: Path) -> Path:
    """Copy the code of the command to `place` and compile it."""
    shutil.copytree(
        REPOSITORY / "src",
        place,
        symlinks=True,
        ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
    )
    compile_python(root, place, "/")
    return place


def _repository() -> Content:
    """Return the parts of the checkout, without the command's code, which is compiled."""
    parts: dict[str, Member] = {}
    for part in CONTENT:
        if part != "src":
            parts |= _tree(REPOSITORY / part, f"repository/{part}", without="__pycache__")
    return parts


def _tree(path: Path, name: str, without: str = "") -> dict[str, Member]:
    """Return a file, or a directory with all below it, as `name` in the bundle.

    Empty directories are kept.
    """
    if path.is_symlink() or not path.is_dir():
        return {name: Member.of(path)}
    parts: dict[str, Member] = {f"{name}/": Member()}
    for entry in sorted(path.iterdir()):
        if entry.name != without:
            parts |= _tree(entry, f"{name}/{entry.name}", without)
    return parts


def _manifest(entry: Path) -> Member:
    """Return the manifest of a cache entry without its first line, which is this machine's.

    That line says what stat(2) said of the files. Where the bundle is unpacked, the entry's content
    is checked again.
    """
    text = entry.with_name(f"{entry.name}.manifest").read_text(encoding="utf-8").partition("\n")[2]
    return Member(content=f"\n{text}".encode())
