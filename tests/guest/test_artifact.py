# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run artifact`: made of results, and verified by strangers with nothing but its bundle."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import own_files
from helpers.empty_system import an_empty_home, in_an_empty_system
from helpers.guest_runs import command, copy_of_the_checkout

from openbach_run.bundle.artifact import CLAIMS, Repeatable, facts_of
from openbach_run.bundle.artifact_files import put_own, put_sums
from openbach_run.errors import InputError
from openbach_run.results.measures import measures, measures_of
from openbach_run.results.record import statistics
from openbach_run.results.store import Store

SIZE = ("size=100k", "noise=off")
CELLS = ("geo", "vpn=none,wireguard", "cc=cubic", "loss=0", *SIZE, "--seeds", "5")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made") / "small"
    done = command(*CELLS, "--results", str(place), "--quiet")
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture(scope="module")
def artifact(results: Path, bundle: Path) -> Iterator[Path]:
    with an_empty_home() as place:
        (claims,) = own_files.write("bundle.md", place)
        words = ["--bundle", str(bundle), "--claims", str(claims), "--quiet"]
        words += ["--title", "A | paper", "--licence", "The results are under CC BY 4.0."]
        done = command("artifact", str(results), "-o", str(place / "artifact"), *words)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("artifact: 2 results, 1 claims, 10 runs\n")
        yield place / "artifact"


def table(readme: str, first: str) -> list[list[str]]:
    """The rows of the table whose first column has this name."""
    (found,) = re.findall(rf"^\| {first} \|.*\n\|[-|]+\n((?:\|.*\n)+)", readme, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found.splitlines()]


@pytest.mark.nightly
def test_its_readme_says_what_a_stranger_asks(artifact: Path) -> None:
    readme = (artifact / "README.md").read_text()
    assert readme.startswith("# A | paper\n")
    figures = table(readme, "result")
    assert [row[0] for row in figures] == ["R1", "R2"]
    assert (
        figures[0][1] == "`./openbach geo vpn=none cc=cubic size=100k noise=off --seeds 1,2,3,4,5`"
    )
    assert figures[0][2] == "transfer time 1.05 s", "no chance, no interval"
    ((claim, line, found, bounds, tolerance),) = table(readme, "claim")
    assert claim.startswith("**MINE GEO** WireGuard costs one round trip.")
    assert line == "`./openbach artifact --verify . --only 'MINE'`"
    assert re.fullmatch(r"reproduced: difference 0\.4\d+", found)
    assert (bounds, tolerance) == ("0.3 to 0.6 s", "none: equal in all digits")
    for heading in ("## Kick the tyres, in 10 minutes", "## The full run", "## Environment"):
        assert heading in readme
    assert "The results are under CC BY 4.0." in readme
    assert (artifact / "LICENSE").read_text().lstrip().startswith("GNU GENERAL PUBLIC LICENSE")
    (full,) = re.findall(r"repeats all (\d+) runs\.", readme)
    assert full == "10"


@pytest.mark.nightly
def test_its_hashes_are_those_of_sha256sum(artifact: Path) -> None:
    check = ["sha256sum", "--quiet", "--check", "SHA256SUMS"]
    done = subprocess.run(check, check=False, cwd=artifact, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    listed = (artifact / "SHA256SUMS").read_text().splitlines()
    there = [one for one in artifact.rglob("*") if one.is_file()]
    assert len(listed) == len(there) - 1


@pytest.mark.nightly
def test_a_stranger_follows_its_readme_in_an_empty_system(artifact: Path) -> None:
    """As another user, without network and without any file but the artifact's."""
    readme = (artifact / "README.md").read_text()
    first, *_ = table(readme, "result")
    bundle = artifact / "openbach"
    with an_empty_home() as home:
        quick = in_an_empty_system(
            bundle,
            home,
            *["artifact", "--verify", "/artifact", "--minutes", "10", "--quiet"],
            artifact=artifact,
        )
        assert quick.returncode == 0, quick.stderr + quick.stdout
        assert "2 results and 1 claims follow from the records\n" in quick.stdout
        assert quick.stdout.endswith("10 runs of 2 results repeated: all the same\n")
        words = first[1].strip("`").split()[1:]
        one = in_an_empty_system(bundle, home, *words, artifact=artifact)
        assert one.returncode == 0, one.stderr
        (value,) = re.findall(r"^transfer time ([\d.]+) s$", first[2])
        assert f" {value}\n" in one.stdout


@pytest.mark.nightly
def test_a_second_checkout_verifies_it_with_its_bundle_only(artifact: Path, tmp_path: Path) -> None:
    other = copy_of_the_checkout(tmp_path / "other")
    moved = Path(shutil.copytree(artifact, tmp_path / "moved"))
    done = subprocess.run(
        [moved / "openbach", "artifact", "--verify", str(moved), "--only", "mine", "--quiet"],
        check=False, cwd=other, capture_output=True, text=True,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.endswith("10 runs of 2 results repeated: all the same\n")
    kept = ("--only", "R2", "--results", str(tmp_path / "again"), "--quiet")
    ours = command("artifact", "--verify", str(moved), *kept, cwd=tmp_path, checkout=other)
    assert ours.returncode == 0, ours.stderr
    assert re.search(r"^R2 transfer time = 1\.5\d+ s, 5 of 5 seeds: the same", ours.stdout, re.M)
    assert len([*(tmp_path / "again/runs").iterdir()]) == 5


def verify_altered(
    artifact: Path, place: Path, name: str, change: Callable[[Any], Any]
) -> subprocess.CompletedProcess[str]:
    """Verify a copy in which a JSON file says something else, with hashes that fit."""
    copy = Path(shutil.copytree(artifact, place, symlinks=True))
    file = next(iter(sorted(copy.glob(name))))
    file.write_text(json.dumps(change(json.loads(file.read_text())), indent=1) + "\n")
    put_sums(copy)
    return command("artifact", "--verify", str(copy), "--quiet")


def faster(record: Any) -> Any:
    return {**record, "measures": {**record["measures"], "transfer_time_s": 0.5}}


def forge(run_dir: Path) -> None:
    """Make a run faster by its statistics, and so by its record: nothing of it is damaged."""
    file, store = run_dir / "statistics.jsonl.gz", Store(run_dir.parents[1])
    text = gzip.decompress(file.read_bytes()).decode()
    told = re.sub(r'("transfer_time_s": )[\d.]+', r"\g<1>0.5", text)
    file.write_bytes(gzip.compress(told.encode()))
    record = store.load(run_dir.name)
    assert record is not None and record.measures["transfer_time_s"] > 1
    found = measures(run_dir, statistics(run_dir), measures_of(record), record.arguments)
    store.rewrite(replace(record, measures=found))


def better(said: Any) -> Any:
    first, *others = said["results"]
    return {**said, "results": [{**first, "median": 0.5}, *others]}


@pytest.mark.nightly
def test_figures_that_the_records_do_not_have_are_found(artifact: Path, tmp_path: Path) -> None:
    done = verify_altered(artifact, tmp_path / "a", "results.json", better)
    assert (done.returncode, done.stdout) == (1, "")
    assert 'results.json has "median": 0.5 where the records have "median": 1.' in done.stderr
    assert done.stderr.endswith('("name": "R1")\n')


@pytest.mark.nightly
def test_records_that_no_run_gives_are_found(artifact: Path, tmp_path: Path) -> None:
    """All say the same: statistics, records, figures and hashes. Only to repeat the run finds it."""
    place = Path(shutil.copytree(artifact, tmp_path / "altered"))
    forge(min(place.glob("results/small/runs/*")))
    said = facts_of([place / "results/small"], place / "claims.yml")
    (place / "results.json").write_text(said.as_json())
    put_sums(place)
    done = command("artifact", "--verify", str(place), "--quiet")
    assert done.returncode == 1, done.stderr
    assert re.search(r"^R\d .*seed \d: transfer_time_s: 0\.5 then, 1\.\d+ now$", done.stdout, re.M)
    assert done.stdout.endswith("10 runs of 2 results repeated: not all the same\n")


@pytest.mark.nightly
def test_a_record_that_its_statistics_do_not_give_is_found(artifact: Path, tmp_path: Path) -> None:
    done = verify_altered(artifact, tmp_path / "a", "results/small/runs/*/record.json", faster)
    assert (done.returncode, done.stdout) == (2, "")
    assert "transfer_time_s is 0.5, by its statistics it is 1." in done.stderr


@pytest.mark.nightly
def test_a_changed_file_is_named_and_nothing_is_repeated(artifact: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(artifact, tmp_path / "altered"))
    (place / "README.md").write_text("better\n")
    (place / "added").write_text("")
    done = command("artifact", "--verify", str(place), "--quiet")
    assert (done.returncode, done.stdout) == (1, "")
    assert "README.md has changed" in done.stderr and "added is not of it" in done.stderr


def no_bundle(results: Path, place: Path) -> str:
    (place / "other").write_text("#!/bin/sh\necho openbach-run 0.0\n")
    (place / "other").chmod(0o755)
    return str(place / "other")


def test_a_bundle_of_another_version_is_refused(results: Path, tmp_path: Path) -> None:
    words = ("artifact", str(results), "-o", str(tmp_path / "a"), "--quiet", "--bundle")
    done = command(*words, no_bundle(results, tmp_path))
    assert done.returncode == 2
    assert "the bundle is none of this version" in done.stderr
    assert not (tmp_path / "a").exists()


@pytest.mark.nightly
def test_results_of_another_version_make_no_artifact(
    results: Path, bundle: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(results, tmp_path / "small"))
    for run_dir in copy.glob("runs/*"):
        forge(run_dir)
    words = ("artifact", str(copy), "-o", str(tmp_path / "a"), "--bundle", str(bundle), "--quiet")
    done = command(*words)
    assert done.returncode == 1
    assert "the bundle does not repeat these results" in done.stderr
    assert "transfer_time_s: 0.5 then, 1." in done.stderr
    assert not (tmp_path / "a").exists()


Change = Callable[[Path], object]


def record_with(**values: Any) -> Change:
    def change(copy: Path) -> None:
        file = min(copy.glob("runs/*/record.json"))
        file.write_text(json.dumps({**json.loads(file.read_text()), **values}))

    return change


def command_with(words: str) -> Change:
    def change(copy: Path) -> None:
        file = min(copy.glob("runs/*/record.json"))
        told = json.loads(file.read_text())
        file.write_text(json.dumps({**told, "command": f"{told['command']} {words}"}))

    return change


def asked(**values: Any) -> Change:
    def change(copy: Path) -> None:
        file = copy / "campaign.json"
        told = json.loads(file.read_text())
        first, *others = told["runs"]
        file.write_text(json.dumps({**told, "runs": [{**first, **values}, *others]}))

    return change


def no_runs(copy: Path) -> None:
    file = copy / "campaign.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "runs": []}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda copy: shutil.rmtree(min(copy.glob("runs/*"))), "has not been run"),
        (lambda copy: min(copy.glob("runs/*/record.json")).write_text("{"), "cannot be read"),
        (lambda copy: (copy / "runs/x").symlink_to("/etc"), "neither a file nor a directory"),
        (lambda copy: os.mkfifo(copy / "pipe"), "neither a file nor a directory"),
        (lambda copy: (copy / "a\nb").write_text(""), "cannot be in a list of hashes"),
        (lambda copy: (copy / "campaign.json").unlink(), "no results of a campaign"),
        (no_runs, "has no runs"),
        (asked(run_id="../../small"), "is no run_id"),
        (asked(seed=77), "its record is of another run"),
        (record_with(status="Guest Lost"), "Guest Lost: repeat it first"),
        (record_with(run_id="0" * 16), "has not been run, or its record cannot be read"),
        (record_with(command="./openbach-run --moon"), "is no scenario and no value"),
        (record_with(command="./openbach-run moon vpn=none"), "no such scenario"),
        (command_with("--with /tmp/mine"), "was made with --with"),
        (command_with("--inventory mine.yml"), "was made with --inventory"),
    ],
)
def test_results_that_nobody_else_could_repeat_are_refused(
    results: Path, tmp_path: Path, change: Change, said: str
) -> None:
    copy = Path(shutil.copytree(results, tmp_path / "small"))
    change(copy)
    with pytest.raises(InputError, match=re.escape(said)):
        facts_of([copy], CLAIMS)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A place with a satellite and a trace of its authors, and results with both."""
    place = tmp_path / "there"
    (place / "mine/satellites").mkdir(parents=True)
    (place / "mine/satellites/narrow.yml").write_text("rate: 2M\ndelay_ms: 40\nbuffer: 1BDP\n")
    rows = "".join(f"{second},{2 + second % 3}000000,20\n" for second in range(120))
    (place / "trace.csv").write_text(f"time_s,rate_bps,delay_ms\n{rows}")
    words = ["orbit=narrow", "link_file=none,trace.csv", "vpn=none", "cc=cubic", "loss=0", *SIZE]
    made = ("--with", "mine", "--seeds", "2", "--results", "small", "--quiet")
    done = command("geo", *words, *made, cwd=place)
    assert done.returncode == 0, done.stderr
    return place


def test_link_files_and_directories_travel_along(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the records say follows from the artifact alone, where the authors' files are no more."""
    monkeypatch.chdir(own)
    with pytest.raises(InputError, match="was made with --with: give it again"):
        facts_of([Path("small")], CLAIMS)
    repeatable = Repeatable((Path("mine"),))
    said = facts_of([Path("small")], CLAIMS, repeatable)
    assert {figure.command for figure in said.results} == {
        f"geo vpn=none cc=cubic size=100k {link} orbit=narrow noise=off --seeds 1,2 --with additions"
        for link in ("link_file=files/trace.csv", "rate=2M delay_ms=40")
    }
    place = tmp_path / "artifact"
    shutil.copytree("small", place / "results/small")
    put_own(place, repeatable)
    monkeypatch.chdir(tmp_path)
    shutil.rmtree(own)
    assert facts_of([place / "results/small"], CLAIMS, Repeatable.of(place)) == said
    starts = [
        record.measures.get("link_start_s") for record in Store(place / "results/small").all()
    ]
    assert len({*starts}) == 3 and None in starts, "of the trace by seed"


def test_two_link_files_of_one_name_are_refused(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own)
    repeatable = Repeatable((Path("mine"),), files={"trace.csv": "another"})
    with pytest.raises(InputError, match=r"trace\.csv: another file is called trace\.csv, too"):
        facts_of([Path("small")], CLAIMS, repeatable)


@pytest.mark.nightly
def test_the_artifact_runs_from_them_alone(own: Path, bundle: Path) -> None:
    with an_empty_home() as made, an_empty_home() as home:
        place = made / "artifact"  # where a user without rights may read it
        words = ["small", "--with", "mine", "-o", str(place), "--bundle", str(bundle)]
        done = command("artifact", *words, "--quiet", cwd=own)
        assert done.returncode == 0, done.stderr
        shutil.rmtree(own)
        quick = ["artifact", "--verify", "/artifact", "--quiet"]
        done = in_an_empty_system(place / "openbach", home, *quick, artifact=place)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.endswith("4 runs of 2 results repeated: all the same\n")


def test_what_a_record_says_is_no_markdown_and_no_shell(results: Path, tmp_path: Path) -> None:
    """A hostile record has a value that is a command: it would be pasted from README.md."""
    copy = Path(shutil.copytree(results, tmp_path / "small"))
    for file in [copy / "campaign.json", *copy.glob("runs/*/record.json")]:
        file.write_text(file.read_text().replace('"100k"', '"$(id)"').replace("100k", "$(id)"))
    with pytest.raises(InputError, match="cannot be repeated"):
        facts_of([copy], CLAIMS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name results directories"),
        (("nowhere", "-o", "x"), "no results directory"),
        (("README.md", "-o", "x"), "no results directory"),
        (("--verify", "src"), "is no artifact"),
        (("--verify", "src", "-o", "x"), "takes no RESULTS"),
        (("src", "-o", "docs"), "is there already"),
        (("src", "-o", "no/where"), "is no directory"),
        (("src", "-o", "x", "--only", "R1"), "--only goes with --verify"),
        (("src", "-o", "x", "--results", "y"), "--results goes with --verify"),
        (("src", "-o", "x", "--bundle", "nothere"), "no such file"),
        (("src", "-o", "x", "--runs", "3"), "--runs goes with --plain"),
        (("--verify", "src", "--with", "y"), "--with goes with --plain"),
        (("--plain", "src", "-o", "x", "--title", "y"), "--title goes without --plain"),
        (("--plain", "--verify", "src", "--minutes", "9"), "--minutes goes without --plain"),
    ],
)
def test_wrong_words_are_refused(words: tuple[str, ...], said: str) -> None:
    done = command("artifact", *words)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("words", "said"),
    [(("--only", "R9"), "R1 to R2, MINE"), (("--minutes", "0"), "more than 0")],
)
def test_wrong_choices_are_refused(artifact: Path, words: tuple[str, ...], said: str) -> None:
    done = command("artifact", "--verify", str(artifact), *words)
    assert done.returncode == 2
    assert said in done.stderr
