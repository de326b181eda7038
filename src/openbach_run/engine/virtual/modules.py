# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules that Linux does not have, built for the virtual kernel.

Each is a folder with a Kbuild and C files: those of congestion controls
(docs/congestion-controls.md), the CPU model (docs/method/cpu.md), the return link that has to be
asked for (docs/method/return-link.md), and the forward link in frames
(docs/method/forward-link.md).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

from openbach_run.catalog import description
from openbach_run.engine.virtual.builds import Build, sources_of
from openbach_run.engine.virtual.cache import content_hash, made_once
from openbach_run.engine.virtual.debian import ensure_tools, run
from openbach_run.engine.virtual.jail import Jail
from openbach_run.engine.virtual.kernel import FIXED_BUILD, Kernel
from openbach_run.errors import SetupError
from openbach_run.link_checks import kernel_modules
from openbach_run.progress import Progress
from openbach_run.results import run_files

DIRECTORY = "modules"
"""Directory of the modules in the guest's code: the guest loads those that its run uses."""
CPU_MODEL = "cpu_model"
"""Folder of kernel/modules, and the module; of runs that use a profile of a CPU."""


def ensure_modules(
    cache: Path,
    kernel: Kernel,
    kernel_dir: Path,
    code: Mapping[str, Path],
    jail: Jail,
    progress: Progress,
) -> dict[str, Path]:
    """Return the modules of a run by their place in the code; build those that are missing.

    They are those of the congestion controls in the guest's `code` (place → folder), and that of
    `kernel_dir` (kernel/ of the repository) if there is a profile of a CPU or a satellite that
    needs one. Raises SetupError for a source, InputError for a satellite's file.
    """
    folders = [folder for folder in code.values() if (folder / "profile.json").is_file()]
    named = {folder: description(folder).get("algorithm", folder.name) for folder in folders}
    modules = {
        folder: f"tcp_{algorithm}"
        for folder, algorithm in named.items()
        if (folder / "Kbuild").is_file()
    }
    if any(place.startswith("cpus/") for place in code):
        modules[module_source(kernel_dir, CPU_MODEL)] = CPU_MODEL
    satellites = [file for place, file in code.items() if place.startswith("satellites/")]
    for module in chain(*map(kernel_modules, satellites)):
        modules[module_source(kernel_dir, module)] = module
    return {
        f"{DIRECTORY}/{folder.name}.ko": _ensure_module(
            cache, kernel, folder, module, jail, progress
        )
        for folder, module in modules.items()
    }


def module_source(kernel_dir: Path, module: str) -> Path:
    """The folder with the source of one of our modules."""
    return kernel_dir / "modules" / module


def _ensure_module(
    cache: Path, kernel: Kernel, folder: Path, module: str, jail: Jail, progress: Progress
) -> Path:
    """The file <module>.ko, built in `cache` if it is not there.

    SetupError has the compiler's words.
    """
    sources = sorted(
        file for file in folder.iterdir() if file.is_file() and file.suffix not in (".md", ".json")
    )

    def make(place: Path) -> None:
        import tempfile

        ensure_tools()
        progress(f"building the kernel module {module}", 0)
        sources_of(folder)
        with tempfile.TemporaryDirectory(
            prefix="openbach-run-", ignore_cleanup_errors=True
        ) as name:
            headers, work = Path(name) / "kernel", Path(name) / folder.name
            headers.mkdir()
            work.mkdir()
            run(
                ["tar", "-C", str(headers), "-xf", str(kernel.headers)],
                f"unpacking {kernel.headers}",
            )
            for source in sources:
                shutil.copy(source, work)
            no_path = (  # in the module: the same source makes the same module
                f"KCFLAGS=-fmacro-prefix-map={headers}/="
            )
            command = ["make", "-C", str(headers), "ARCH=um", f"M={work}", no_path, "modules"]
            build = Build(jail, Path(name), [])
            build.run(command, f"building the module {folder}", progress, **FIXED_BUILD)
            if not (work / f"{module}.ko").exists():
                built = ", ".join(sorted(file.name for file in work.glob("*.ko"))) or "nothing"
                raise SetupError(
                    f"{folder / 'Kbuild'} should make {module}.ko: obj-m += {module}.o; it makes"
                    f" {built}"
                )
            build.take(f"{folder.name}/{module}.ko", place)
            run_files.remove(Path(name))

    return (
        made_once(cache / f"{module}-{content_hash(sources, folder, kernel.identity)}", make)
        / f"{module}.ko"
    )
