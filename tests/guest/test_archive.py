# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain artifacts are made by the checkout that made the results, and verified by another one.

What differs is told. `archive`, as the command was called, still makes and verifies them.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from helpers.guest_runs import command, copy_of_the_checkout

from openbach_run.bundle.artifact_files import SUMS, put_sums

PLAIN = ("artifact", "--plain")
RENAMED = "openbach-run: archive is now artifact --plain\n"
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
    assert (done.returncode, done.stderr) == (0, RENAMED)
    assert re.search(r"^[0-9a-f]{16} of small, 1 of 1 seeds: the same packets$", done.stdout, re.M)
    assert done.stdout.endswith(f"1 runs repeated: all the same\n{place}: 2 runs of 1 campaigns\n")
    return place


@pytest.mark.nightly
def test_what_is_in_it(archive: Path) -> None:
    assert {file.name for file in archive.iterdir()} == {
        "README.md",
        "SHA256SUMS",
        "report",
        "results",
    }
    readme = (archive / "README.md").read_text()
    assert "vpn=none,wireguard" in readme
    assert "./openbach artifact --plain --verify . --runs 3\n" in readme
    assert (archive / "report/report.pdf").exists() and (
        archive / "results/small/results.csv"
    ).exists()


@pytest.mark.nightly
def test_another_checkout_verifies_it(archive: Path, tmp_path: Path) -> None:
    other = copy_of_the_checkout(tmp_path / "other")
    for words, said in (PLAIN, ""), (("archive",), RENAMED):
        verify = (*words, "--verify", str(archive), "--runs", "all", "--quiet")
        done = command(*verify, cwd=tmp_path, checkout=other)
        assert (done.returncode, done.stderr) == (0, said)
        assert done.stdout.endswith("2 runs repeated: all the same\n")


@pytest.mark.nightly
def test_one_that_makes_other_packets_says_what_differs(archive: Path, tmp_path: Path) -> None:
    other = copy_of_the_checkout(tmp_path / "other")
    transfer = other / "jobs/satcom_link/files/satcom_link.py"
    transfer.write_text(transfer.read_text() + "\nCHANGED = 1\n")
    record = _altered(archive, tmp_path / "altered")
    put_sums(tmp_path / "altered")
    verify = (*PLAIN, "--verify", str(tmp_path / "altered"), "--quiet")
    done = command(*verify, cwd=tmp_path, checkout=other)
    assert done.returncode == 1
    name = record.parent.name
    assert re.search(rf"^{name} .*: other packets \(.*code: \w+ then, \w+ now", done.stdout, re.M)
    assert done.stdout.endswith("2 runs repeated: not all the same\n")
    make = (*PLAIN, str(tmp_path / "altered/results/small"), "-o", str(tmp_path / "no"))
    refused = command(*make, cwd=tmp_path)
    assert refused.returncode == 1 and "is not the one that made these results" in refused.stderr
    assert not (tmp_path / "no").exists()


def _altered(archive: Path, place: Path) -> Path:
    """A copy whose first record tells of other packets."""
    shutil.copytree(archive, place)
    record = min(place.rglob("record.json"))
    told = json.loads(record.read_text())
    record.write_text(json.dumps({**told, "capture_hash": told["capture_hash"][:-8] + 8 * "0"}))
    return record


@pytest.mark.parametrize("sums", ["", "0" * 64 + "  README.md\n"])
def test_nothing_of_an_archive_with_wrong_sums_is_repeated(
    archive: Path, tmp_path: Path, sums: str
) -> None:
    place = Path(shutil.copytree(archive, tmp_path / "altered"))
    (place / SUMS).write_text(sums)
    done = command(*PLAIN, "--verify", str(place), "--quiet", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("is not as it was made: nothing is repeated\n")
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
    put_sums(place)
    done = command(*PLAIN, "--verify", str(place), "--runs", "1", "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "out").exists()


def test_results_are_kept_that_no_artifact_with_figures_takes(
    results: Path, tmp_path: Path
) -> None:
    """One of two runs is missing, and the other failed: neither is repeated."""
    copy = Path(shutil.copytree(results, tmp_path / "small"))
    first, second = sorted(copy.glob("runs/*"))
    shutil.rmtree(first)
    told = json.loads((second / "record.json").read_text())
    (second / "record.json").write_text(json.dumps({**told, "status": "Finished Ko"}))
    words = ("-o", str(tmp_path / "a"), "--without-bundle", "--quiet")
    done = command(*PLAIN, str(copy), *words, cwd=tmp_path)
    assert done.returncode == 2 and "no run in virtual time has finished" in done.stderr
    assert command(*PLAIN, str(copy), *words, "--runs", "0", cwd=tmp_path).returncode == 0
    assert (tmp_path / "a/results/small/runs" / second.name / "record.json").exists()


@pytest.mark.parametrize(
    "words",
    [(), ("--verify", "nowhere"), ("nowhere", "-o", "x"), ("--verify", "x", "y")],
)
def test_what_is_no_archive_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    assert command("archive", *words, cwd=tmp_path).returncode == 2
