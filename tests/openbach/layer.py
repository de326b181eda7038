# SPDX-License-Identifier: GPL-3.0-or-later
"""What the platform's guest is made of, in the cache.

Its kernel (kernel/platform.config beside kernel/config), a Debian tree with what the hosts of the
platform have installed, and OpenBACH: the checkout with the Python packages that its installer
would fetch. Nothing is installed on this machine, and nothing of it is needed that a run does not
need, but a C++ compiler for OpenBACH's collect_agent.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

from openbach_run.catalog import Catalog
from openbach_run.engine.virtual import lock
from openbach_run.engine.virtual.cache import content_hash, made_once
from openbach_run.engine.virtual.debian import ensure_tools, run
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.engine.virtual.image import Tree
from openbach_run.engine.virtual.kernel import KernelBuild
from openbach_run.paths import REPOSITORY, cache_directory
from openbach_run.progress import Progress

HERE = Path(__file__).resolve().parent
PYTHON = (
    "packaging", "ansible==12.*", "psycopg2-binary", "fuzzywuzzy", "python-Levenshtein",
    "django<6", "apscheduler==3.7.0", "psutil<6", "PyYAML", "requests", "pandas", "matplotlib",
    "setuptools<81", "wheel", "playwright>=1.45",
)  # fmt: skip
"""As the roles install_controller and install_agent_Debian of the checkout name them (of Ansible the
last version for this Python, with the collection that packs files for an export; psutil as the
first version with a wheel for every Python); apscheduler 3.7 needs setuptools. With them what
drives a browser."""
WHEELS = ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64", "any")
PARTS = ("src", "ansible", "version")
"""What of OpenBACH's checkout is used."""
AGENT = "src/agent/collect-agent"
NAMED = re.compile(r"name: \[([^]]*)\]")
VARIABLE = re.compile(r'"[^"]*{{[^"]*"')


def packages_of(playbooks: Iterable[str]) -> list[str]:
    """Return the Debian packages that the texts of these playbooks install.

    Those that they can do without are left out.
    """
    found: set[str] = set()
    for text in playbooks:
        for listed in NAMED.findall(VARIABLE.sub("", text)):
            found.update(
                name for word in listed.split(",") if (name := word.strip()) and name != "dkms"
            )
    return sorted(found)


class PlatformEngine(VirtualEngine):
    """The engine with the platform's kernel and tree in place of a run's own."""

    def __init__(self, packages: Iterable[str], temporary: Path) -> None:
        """Prepare no files yet; `packages` are those that the jobs' playbooks install."""
        ours = Catalog((REPOSITORY,))
        code = {
            f"{kind}/{folder.name}": folder
            for kind in ("congestion-controls", "cpus", "satellites")
            for folder in ours.all(kind).values()
        }
        super().__init__(REPOSITORY, code)
        self._wanted = packages
        self._temporary = temporary

    def kernel_build(self) -> KernelBuild:
        """Return the maker of the platform's kernel."""
        sources = self._temporary / "kernel"
        if not sources.exists():
            shutil.copytree(REPOSITORY / "kernel", sources)
            with (sources / "config").open("a") as config:
                config.write((sources / "platform.config").read_text())
        return KernelBuild(self._cache, sources, REPOSITORY / lock.PATH, only_locked=False)

    def tree(self) -> Tree:
        """Return the maker of the platform's Debian tree."""
        return Tree(
            self._cache, HERE / "guest", REPOSITORY / lock.PATH, self._wanted, only_locked=False
        )


def openbach(checkout: Path, extra: Path, root: Path, progress: Progress) -> Path:
    """The directory of OpenBACH, made if it is not there. Raises SetupError.

    It has `checkout`, `extra/apis` and, for the Python of the tree `root`, `python`.
    """
    folders = [checkout / part for part in PARTS] + [checkout / "pip_mirror/python3"]
    files = [
        file for folder in folders for file in (folder.rglob("*") if folder.is_dir() else [folder])
    ]
    apis = [file for file in (extra / "apis").rglob("*") if file.is_file()]
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = [*PYTHON, *project["dependencies"]]
    named = content_hash(
        [file for file in files if file.is_file()], checkout, content_hash(apis, extra), *wanted,
        inspect.getsource(openbach),
    )  # fmt: skip

    def make(place: Path) -> None:
        ensure_tools({"g++": "g++"})
        for part in PARTS:
            copy = shutil.copytree if (checkout / part).is_dir() else shutil.copy
            (place / "checkout").mkdir(exist_ok=True)
            copy(checkout / part, place / "checkout" / part)
        shutil.copytree(extra / "apis", place / "extra/apis")
        progress("OpenBACH: fetching its Python packages", 0)
        python = place / "python"
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        pip += ["--no-compile", "--target", str(python), "--python-version", "3.13"]
        pip += ["--only-binary", ":all:", *(word for one in WHEELS for word in ("--platform", one))]
        run([*pip, *wanted], "fetching Python packages")
        wheels = map(str, (checkout / "pip_mirror/python3").glob("*.whl"))
        run([*pip, "--no-deps", "--no-index", *wheels], "installing OpenBACH's wheels")
        progress("OpenBACH: building collect_agent", 0.8)
        agent = checkout / AGENT
        shutil.copytree(agent / "bindings/collect_agent", python / "collect_agent")
        sources = (agent / "src/collectagent.cpp", agent / "bindings/collectagentmodule.cpp")
        versions = (f"-D{name}_VERSION=2" for name in ("MAJOR", "MINOR", "DEBUG"))
        own = (agent / "src", agent / "dependencies/asio-1.12.2/include")
        # After the system's own headers: the tree's are another libc's.
        places = [f"-I{one}" for one in (root / "usr/include/python3.13", *own)]
        places += ["-idirafter", str(root / "usr/include")]
        build = ["g++", "-std=c++11", "-O1", "-fPIC", "-shared", "-pthread", "-static-libstdc++"]
        # Hidden: beside matplotlib's libstdc++ no number gets into a stream, or into a file's name.
        build += ["-fvisibility=hidden", "-fno-gnu-unique", "-Wl,--exclude-libs,ALL"]
        build += ["-Wl,-z,muldefs"]  # both sources have all of a header's functions
        build += ["-DASIO_STANDALONE", "-DGENERATE_LIB", *versions, *places]
        target = python / "collect_agent/_collect_agent.so"
        run([*build, *map(str, sources), "-o", str(target)], "building collect_agent")

    return made_once(cache_directory() / f"openbach-{named}", make)
