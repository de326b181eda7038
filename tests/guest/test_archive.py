# SPDX-License-Identifier: GPL-3.0-or-later
"""Results are archived by the checkout that made them, and verified by another one.

What differs is told.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from helpers.guest_runs import command, copy_of_the_checkout

from openbach_run.commands.archive import SUMS
from openbach_run.engine.virtual.debian import sha256_of

CELLS = ("geo", "vpn=none,wireguard", "cc=cubic", "loss=0", "size=100k")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made") / "small"
    assert command(*CELLS, "--results", str(place)).returncode == 0
    return place


@pytest.fixture(scope="module")
def archive(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("archives") / "archive"
    done = command(
        "archive", str(results), "-o", str(place), "--runs", "1", "--without-bundle", "--quiet"
    )
    assert done.returncode == 0, done.stderr
    assert "1 of 1 runs repeated have the same packets (2 finished)" in done.stdout
    return place


@pytest.mark.nightly
def test_what_is_in_it(archive: Path) -> None:
    assert {file.name for file in archive.iterdir()} == {
        "README.md",
        "SHA256SUMS",
        "report",
        "results",
    }
    assert "vpn=none,wireguard" in (archive / "README.md").read_text()
    assert (archive / "report/report.pdf").exists() and (
        archive / "results/small/results.csv"
    ).exists()


@pytest.mark.nightly
def test_another_checkout_verifies_it(archive: Path, tmp_path: Path) -> None:
    other = copy_of_the_checkout(tmp_path / "other")
    done = command(
        "archive",
        "--verify",
        str(archive),
        "--runs",
        "all",
        "--quiet",
        cwd=tmp_path,
        checkout=other,
    )
    assert done.returncode == 0, done.stderr
    assert "2 of 2 runs repeated have the same packets" in done.stdout


@pytest.mark.nightly
def test_one_that_makes_other_packets_says_what_differs(archive: Path, tmp_path: Path) -> None:
    other = copy_of_the_checkout(tmp_path / "other")
    transfer = other / "jobs/satcom_link/files/satcom_link.py"
    transfer.write_text(transfer.read_text() + "\nCHANGED = 1\n")
    record = _altered(archive, tmp_path / "altered")
    summed(tmp_path / "altered")
    done = command(
        "archive", "--verify", str(tmp_path / "altered"), "--quiet", cwd=tmp_path, checkout=other
    )
    assert done.returncode == 1
    assert (
        f"{record.parent.name}: other packets than then" in done.stderr and "code: " in done.stderr
    )
    refused = command(
        "archive", str(tmp_path / "altered/results/small"), "-o", str(tmp_path / "no"), cwd=tmp_path
    )
    assert refused.returncode == 1 and "is not the one that made these results" in refused.stderr
    assert not (tmp_path / "no").exists()


def _altered(archive: Path, place: Path) -> Path:
    """A copy whose first record tells of other packets."""
    shutil.copytree(archive, place)
    record = min(place.rglob("record.json"))
    told = json.loads(record.read_text())
    record.write_text(json.dumps({**told, "capture_hash": "0" * 64}))
    return record


def summed(archive: Path) -> None:
    """With the sums of what is there now."""
    files = sorted(file for file in archive.rglob("*") if file.is_file() and file.name != SUMS)
    lines = [f"{sha256_of(file)}  {file.relative_to(archive)}\n" for file in files]
    (archive / SUMS).write_text("".join(lines))


@pytest.mark.parametrize("sums", ["", "0" * 64 + "  README.md\n"])
def test_nothing_of_an_archive_with_wrong_sums_is_repeated(
    archive: Path, tmp_path: Path, sums: str
) -> None:
    place = Path(shutil.copytree(archive, tmp_path / "altered"))
    (place / SUMS).write_text(sums)
    done = command("archive", "--verify", str(place), "--quiet", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("it is not what was archived: nothing of it is repeated\n")
    assert done.stdout == ""


def test_an_archive_runs_no_code_of_its_own(archive: Path, tmp_path: Path) -> None:
    """Its record says --with itself: this ran a Makefile, a job's and so on this machine."""
    place = Path(shutil.copytree(archive, tmp_path / "foreign"))
    files = place / "evil/jobs/evil/files"
    (files / "evil").mkdir(parents=True)
    (files / "evil/Makefile").write_text(
        f"evil:\n\tid > {tmp_path}/out; cp /bin/true $(OUT)/evil\n"
    )
    record = min(place.rglob("record.json"))
    told = json.loads(record.read_text())
    record.write_text(
        json.dumps(
            {**told, "command": f"{told['command']} --with {place}/evil --results {tmp_path}/out"}
        )
    )
    summed(place)
    done = command("archive", "--verify", str(place), "--runs", "1", "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [(), ("--verify", "nowhere"), ("nowhere", "-o", "x"), ("--verify", "x", "y")],
)
def test_what_is_no_archive_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    assert command("archive", *words, cwd=tmp_path).returncode == 2
