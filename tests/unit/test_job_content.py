# SPDX-License-Identifier: GPL-3.0-or-later
"""A job where it runs: its own files, and what it gets beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openbach_run.catalog import Catalog
from openbach_run.errors import InputError
from openbach_run.openbach import job_content
from openbach_run.openbach.job_folders import load_packages, parts_of

ROOT = Path(__file__).resolve().parents[2]
CATALOG = Catalog()
PACKAGES = load_packages(CATALOG.jobs, CATALOG)
LIBRARY = ROOT / "src/openbach_run/guest/agent_library"


def job(place: Path, program: str, listed: str | None = None) -> Path:
    files = place / "jobs/mine/files"
    files.mkdir(parents=True)
    (files / "mine.py").write_text(program)
    if listed is not None:
        (files.parent / "programs.txt").write_text(listed)
    return files


def names(files: Path) -> set[str]:
    return {file.stem for file in job_content.shared_modules(files, ROOT)}


@pytest.mark.parametrize(
    ("program", "modules"),
    [
        ("import os\n", set()),
        ("# openbach_jobs is a package\n", set()),
        ("from openbach_jobs import netem\n", {"__init__", "netem"}),
        ("import openbach_jobs.netem as n\n", {"__init__", "netem"}),
        ("from openbach_jobs.ports import taken\n", {"__init__", "ports", "command"}),
        ("def late():\n    from openbach_jobs import bursts\n", {"__init__", "bursts", "netem"}),
        ("from openbach_jobs import (\n    netem,\n)\n", {"__init__", "netem"}),
        ("from openbach_jobs import \\\n    netem\n", {"__init__", "netem"}),
        ("import os, \\\n    openbach_jobs.netem\n", {"__init__", "netem"}),
        ("if 1: import openbach_jobs.netem\n", {"__init__", "netem"}),
        ("import os; import openbach_jobs.netem # a, b\n", {"__init__", "netem"}),
        ("this is not Python, it says openbach_jobs\n", set()),
    ],
)
def test_a_job_gets_the_modules_that_it_imports_and_those_that_they_import(
    tmp_path: Path, program: str, modules: set[str]
) -> None:
    assert names(job(tmp_path, program)) == modules


def test_a_package_of_this_name_in_the_job_itself_counts(tmp_path: Path) -> None:
    files = job(tmp_path, "from openbach_jobs import netem\n")
    (files / "openbach_jobs").mkdir()
    assert names(files) == set()


def test_a_module_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    files = job(tmp_path, "from openbach_jobs import netmn\n")
    with pytest.raises(
        InputError, match=r"mine.py: openbach_jobs has no module netmn; it has .*netem"
    ):
        names(files)


def test_an_edit_is_seen_within_one_command(tmp_path: Path) -> None:
    files = job(tmp_path, "from openbach_jobs import netem\n")
    assert names(files) == {"__init__", "netem"}
    (files / "mine.py").write_text("import json\n")
    os.utime(files / "mine.py", ns=(1, 1))
    assert names(files) == set()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tool pep", "should be PROGRAM FOLDER Makefile"),
        ("tool pep src", "should be PROGRAM FOLDER Makefile"),
        ("tool pep Makefile sources", "the checkout has no pep/sources"),
        ("tool .. Makefile", "the checkout has no ../Makefile"),
        ("tool pep Makefile ../jobs", "the checkout has no pep/../jobs"),
        ("tool /etc Makefile passwd", "the checkout has no /etc/Makefile"),
    ],
)
def test_a_wrong_line_of_programs_is_named(tmp_path: Path, line: str, said: str) -> None:
    files = job(tmp_path, "", f"# A comment\n\n{line}\n")
    with pytest.raises(InputError) as refused:
        job_content.beside(files, ROOT)
    assert f"{files.parent}/programs.txt, line 3: {said}" in str(refused.value)


def test_a_run_gets_the_proxys_source_without_its_tests() -> None:
    parts = parts_of({"jobs": ["satpep"]}, PACKAGES, CATALOG)
    assert parts["jobs/satpep/satpep/src"] == ROOT / "pep/src"
    assert not [place for place in parts if "tests" in place or "README" in place]


def test_data_of_two_directories_is_joined_and_the_first_counts(tmp_path: Path) -> None:
    mine = tmp_path / "impairments"
    mine.mkdir()
    for name in ("mine", "dsl"):
        (mine / f"{name}.json").write_text("{}")
    files = job_content.data(["impairments"], Catalog.beside_ours([tmp_path]))
    ours = job_content.data(["impairments"], CATALOG)
    assert files == {**ours, **{f"impairments/{file.name}": file for file in mine.iterdir()}}


NO_DATA = {"quic-stacks", "peps", job_content.OF_SCENARIOS}
"""Kinds that no module has as a constant: of some only names are choices, satpep reads one of peps."""


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_each_job_runs_alone(tmp_path: Path, name: str) -> None:
    """As on an agent: its package is in a directory of its own, without this checkout.

    It can say how it is called, and finds its data beside itself.
    """
    package = PACKAGES[name]
    assert package.files is not None
    for place, file in job_content.whole(package.files, package.entries, CATALOG).items():
        copy = tmp_path / place
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    # These need Debian's python3-pycurl, which packages.txt names and this machine may lack.
    needing = {"page_load", "quic_receive", "dash_player"}
    modules = sorted(file.stem for file in tmp_path.glob("*.py") if file.stem not in needing)
    shown = (
        "import sys, importlib\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "folders = [getattr(module, name) for module in list(sys.modules.values())\n"
        "    for name in ('FOLDER', 'FOLDERS', 'CONFIGS', 'CPUS') if hasattr(module, name)]\n"
        "print(*folders, sep='\\n')\n"
    )
    found = {Path(line) for line in alone(tmp_path, "-c", shown).split()}
    assert found == {tmp_path / kind for kind in package.entries if kind not in NO_DATA}
    assert "usage" in alone(tmp_path, f"{name}.py", "--help")


def alone(folder: Path, *words: str) -> str:
    """Return what Python prints in a folder, with an agent's library beside its own."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={"PYTHONPATH": str(LIBRARY), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
