# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheel works without a checkout.

Installed into an environment of its own, run in another directory, it makes the same runs with the
same packets, and its tests, benches and reports are not in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from helpers.guest_runs import REPOSITORY, command, records

SIZE = ("size=300k", "noise=host", "--seeds", "1")
CELL = ("geo", "vpn=none", "cc=cubic", "loss=0", *SIZE, "--results", "results")


def pip(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        ["git", "clone", "--quiet", REPOSITORY, place / "clone"], check=True
    )  # builds leave files behind
    subprocess.run(
        f"git -C {REPOSITORY} diff HEAD --binary | git -C {place}/clone apply --allow-empty",
        shell=True,
        check=True,
    )
    # As `make wheel` does. Without it a wheel has no manual pages.
    words = [sys.executable, "docs/man/manual.py"]
    environment = {**os.environ, "PYTHONPATH": str(place / "clone/src")}
    subprocess.run(words, check=True, cwd=place / "clone", env=environment)
    pip("wheel", "--quiet", "--no-deps", "--wheel-dir", str(place / "dist"), str(place / "clone"))
    (file,) = (place / "dist").glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment that has the wheel, and what the wheel requires.

    What it requires comes from the environment of the tests.
    """
    place = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    pip("--python", str(place / "bin/python"), "install", "--quiet", "--no-deps", str(wheel))
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "required.pth").write_text(sysconfig.get_path("purelib"))
    return place / "bin/openbach-run"


@pytest.mark.nightly
def test_it_runs_in_another_directory_and_gets_the_same_packets(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "wheel").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [installed, *CELL],
        cwd=tmp_path / "wheel",
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    here = command(*CELL[:-1], str(tmp_path / "here"))
    assert done.stdout == here.stdout
    (theirs,), (ours,) = records(tmp_path / "wheel/results"), records(tmp_path / "here")
    assert [theirs.row[name] for name in ("run_id", "capture_hash")] == [
        ours.row[name] for name in ("run_id", "capture_hash")
    ]


def test_what_an_index_shows_of_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith("/METADATA"))
        head, _, text = archive.read(name).decode().partition("\n\n")
    assert "Description-Content-Type: text/markdown" in head and "Project-URL: " in head
    assert text.startswith("# openbach-run: ")


def test_what_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert "openbach_run/bundle/start.c" in names
        assert {Path(name).name for name in names if "/share/man/man1/" in name} >= {
            "openbach-run.1",
            "openbach-run-report.1",
        }
        modes = {one.filename: one.external_attr >> 16 for one in archive.infolist()}
    inside = "openbach_run/checkout/"
    parts = {name.removeprefix(inside) for name in names if name.startswith(inside)}
    assert modes[f"{inside}vpn-configs/wireguard/keygen"] & 0o777 == 0o755
    assert {"jobs/vpn/README.md", "library/congestion-controls/bbr3/bbr.h", "pep/Makefile"} <= parts
    packages = {"openbach_jobs/netem.py", "openbach_jobs/__init__.py", "satlink/formats/table.py"}
    assert packages <= {*names}
    assert not [
        name
        for name in parts
        if name.startswith(("tests", "tools/bench", "reports/full")) or "__pycache__" in name
    ]
