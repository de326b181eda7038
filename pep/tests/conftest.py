# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures: a laboratory for every test, and satpep built under ASan and UBSan.

What a sanitizer finds fails the test.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import helpers.job_paths  # noqa: F401
import pytest
from lab import ROOT, Lab, Satpep, StartSatpep

from openbach_run.engine.virtual.debian import ensure_tools


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return satpep, built with the sanitizers."""
    ensure_tools(
        {"nft": "nftables", "ip": "iproute2", "ss": "iproute2", "make": "make", "gcc": "gcc"}
    )
    out = tmp_path_factory.mktemp("pep")
    subprocess.run(["make", "-s", "-C", ROOT / "pep", f"OUT={out}", "satpep-asan"], check=True)
    return out / "satpep-asan"


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Yield a laboratory of three hosts, and close it."""
    made = Lab()
    yield made
    made.close()


@pytest.fixture
def satpep(lab: Lab, program: Path, tmp_path: Path) -> Iterator[StartSatpep]:
    """Yield a function that starts satpep in the laboratory; end what it has started."""
    started: list[Satpep] = []

    def start(*options: str, descriptors: int | None = None) -> Satpep:
        log = tmp_path / f"satpep-{len(started)}.jsonl"
        started.append(Satpep(lab, program, log, *options, descriptors=descriptors))
        return started[-1]

    yield start
    for one in started:
        if one.process.returncode is None:
            exit_code, said = one.stop()
            assert exit_code == 0, said
