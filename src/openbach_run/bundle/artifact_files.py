# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an artifact: made of results, and verified by repeating runs.

README.md         claims and results with command, value and tolerance; how to begin; times
openbach          the bundle
results/<name>/   the records of the runs
files/            link files, and other files that values name
additions/        the authors' own VPNs, jobs, scenarios and so on (--with)
results.json      results and claims, for programs
claims.yml        the claims, as they are judged
report/           the technical report of all
LICENSE           of the program
SHA256SUMS        the hash of every file above

A plain one has neither these nor claims nor LICENSE, and its results are as they were.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from typing import Any

from openbach_run.bundle.artifact import (
    ADDITIONS,
    FILES,
    PARTS,
    Chosen,
    Facts,
    Repeatable,
    differences,
    facts_of,
    some_of,
    spread,
)
from openbach_run.bundle.artifact_readme import QUICK_MIN, plain_readme, readme
from openbach_run.bundle.content import content
from openbach_run.bundle.file import write
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.options import Options
from openbach_run.campaign.request import ours, plan_of
from openbach_run.campaign.run import run_with_progress
from openbach_run.campaign.sub_runs import parquet_of
from openbach_run.catalog import KINDS
from openbach_run.engine.virtual.debian import sha256_of
from openbach_run.errors import InputError, SetupError
from openbach_run.paths import REPOSITORY
from openbach_run.progress import Reporter
from openbach_run.report.cells import printable, read_campaigns
from openbach_run.results import campaign_file, run_files
from openbach_run.results.record import Record
from openbach_run.results.store import Store
from openbach_run.version import version

SUMS, BUNDLE, RESULTS = "SHA256SUMS", "openbach", "results"
FIGURES, CLAIMS_FILE = "results.json", "claims.yml"
STARTED_FROM = "OPENBACH_RUN_BUNDLE"
"""Variable that a bundle sets for the process that it starts: the path of its own file."""
SLOWER = 3
"""Factor by which a stranger's machine may be slower than the one that made the results."""
SELF_TEST_MIN = 2
WriteReport = Callable[[Sequence[Path], Path], object]
"""Writes the technical report of results directories to a directory."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The parts of an artifact."""

    results: Sequence[Path]
    facts: Facts | None
    """Figures and claims of the results; None for a plain artifact."""
    repeatable: Repeatable
    """Files that figures need beside a bundle."""
    claims: Path
    title: str | None
    licence: str | None
    bundle: Path | None
    """A bundle that is there."""
    without_bundle: bool
    runs: int
    """Number of runs of each results directory that are repeated for a plain artifact."""
    options: Options
    """Options that these have beside the values of their records."""
    quiet: bool


def make(wanted: Wanted, output: Path, write_report: WriteReport) -> None:
    """Make an artifact, and repeat some of its runs: its own bundle does if it has figures.

    Raises InputError, SetupError.
    """
    facts = wanted.facts
    new = output.with_name(f"{output.name}.unfinished")
    if facts is None:
        chosen = spread(wanted.results, wanted.runs)
        if not _are_same(new, chosen, wanted.options, wanted.quiet, plain=True):
            raise SetupError("this checkout is not the one that made these results (see above)")
    # Under another name until it is whole: an interruption leaves no half artifact.
    shutil.rmtree(new, ignore_errors=True)
    (new / RESULTS).mkdir(parents=True)
    for directory in wanted.results:
        _copy(directory, facts, new / RESULTS / directory.resolve().name)
    write_report(wanted.results, new / "report")
    if not wanted.without_bundle:
        _put_bundle(new / BUNDLE, wanted)
    commands = read_campaigns(wanted.results).commands
    with tempfile.TemporaryDirectory(prefix="openbach-run-") as name:
        home = Path(name)
        if facts is None:
            text = plain_readme(commands)
        else:
            put_own(new, wanted.repeatable)
            shutil.copyfile(wanted.claims, new / CLAIMS_FILE)
            shutil.copyfile(REPOSITORY / "LICENSE", new / "LICENSE")
            (new / FIGURES).write_text(facts.as_json(), encoding="utf-8")
            quick = some_of(facts.results, QUICK_MIN * 60 / SLOWER)
            text = readme(facts, quick, {"commands": commands, **_about(wanted, new, home)})
        (new / "README.md").write_text(text, encoding="utf-8")
        put_sums(new)
        if facts is not None:
            _try_it(new, home, wanted.quiet)
    new.rename(output)


def _copy(directory: Path, facts: Facts | None, copy: Path) -> None:
    """Copy a results directory: with figures only the parts that belong to its campaign."""
    if facts is None:
        shutil.copytree(directory, copy, symlinks=True, ignore=_no_files)
        return
    copy.mkdir()
    for name in PARTS:
        place = directory / name
        if place.is_dir():
            shutil.copytree(place, copy / name)
        elif place.exists():
            shutil.copyfile(place, copy / name)
    for cell in facts.results:
        if cell.results == copy.name:
            for run_id in cell.runs:
                run_files.copy(directory / "runs" / run_id, copy / "runs" / run_id)
    parquet_of(copy)
    # Records are closed to other users; an artifact is for everybody.
    for place in (copy, *copy.rglob("*")):
        place.chmod(0o755 if place.is_dir() else 0o644)


def put_own(new: Path, repeatable: Repeatable) -> None:
    """Copy what is the authors' own. Of two directories with an entry the first one's counts."""
    for name, text in repeatable.files.items():
        (new / FILES).mkdir(exist_ok=True)
        (new / FILES / name).write_text(text, encoding="utf-8")
    for root in reversed(repeatable.additions):
        for kind in filter(lambda kind: (root / kind).is_dir(), KINDS):
            place, no_cache = new / ADDITIONS / kind, shutil.ignore_patterns("__pycache__")
            shutil.copytree(root / kind, place, ignore=no_cache, dirs_exist_ok=True)


def _no_files(folder: str, names: Sequence[str]) -> list[str]:
    """Return the names of links to files, FIFOs and the like: guests have left them."""
    places = (Path(folder, name) for name in names)
    return [path.name for path in places if not (path.is_dir() or S_ISREG(path.lstat().st_mode))]


def _put_bundle(place: Path, wanted: Wanted) -> None:
    """Copy the bundle that is given or runs this command, or write one of this checkout."""
    bundle = wanted.bundle or os.environ.get(STARTED_FROM)
    if bundle is not None:
        shutil.copy(bundle, place)
        return
    with (
        Reporter(wanted.quiet) as reporter,
        content(reporter.show, built=False, additions=wanted.repeatable.additions) as parts,
    ):
        write(place.absolute(), parts.start, parts.content, 12, reporter.show)


def _in_empty_home(home: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command where nothing of this user is."""
    (home / "here").mkdir(exist_ok=True)
    return subprocess.run(
        words,
        check=False,
        cwd=home / "here",
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def _about(wanted: Wanted, new: Path, home: Path) -> dict[str, Any]:
    """Return what README.md says besides the results. Raises InputError for a strange bundle."""
    bundle = (new / BUNDLE).absolute()
    began_s = time.monotonic()
    try:
        done = _in_empty_home(home, bundle, "--version")
    except OSError as error:
        raise InputError(f"{BUNDLE}: is no program: {error.strerror}") from error
    unpacked_s = time.monotonic() - began_s
    if done.returncode or done.stdout != f"openbach-run {version()}\n":
        text = (done.stdout + done.stderr).strip()
        raise InputError(f"the bundle is none of this version, {version()}: it prints {text!r}")
    sizes = [place.lstat().st_size for place in home.rglob("*") if not place.is_dir()]
    directories = sorted((new / RESULTS).iterdir())
    record = read_campaigns(directories).records[0]
    return {
        "title": wanted.title or f"Results of {', '.join(path.name for path in directories)}",
        "version": version(),
        "kernel": record.identity.get("kernel", ""),
        "packages": len(record.packages),
        "memory": record.identity.get("memory", ""),
        "unpacked_mb": round(sum(sizes) / 1e6),
        "unpacked_s": unpacked_s,
        "bundle_mb": round(bundle.stat().st_size / 1e6),
        "licence": wanted.licence or "",
        "own": [folder for folder in (FILES, ADDITIONS) if (new / folder).is_dir()],
        "directories": [f"{RESULTS}/{place.name}" for place in directories],
    }


def _try_it(new: Path, home: Path, quiet: bool) -> None:
    """Let the artifact's own bundle repeat some of its runs. Raises SetupError if they differ."""
    words = ("artifact", "--verify", str(new.absolute()), "--minutes", str(SELF_TEST_MIN))
    done = _in_empty_home(home, (new / BUNDLE).absolute(), *words, "--quiet")
    if done.returncode:
        raise SetupError(
            "the bundle does not repeat these results, so there is no artifact: they are from"
            f" another version, or need what only this machine has\n{done.stdout}{done.stderr}"
        )
    if not quiet:
        print(done.stdout, end="", file=sys.stderr)


def put_sums(directory: Path) -> None:
    """Write the hash of every file in a directory, as `sha256sum --check` reads it."""
    files = [file for file in _files(directory) if file != directory / SUMS]
    lines = [f"{sha256_of(file)}  {file.relative_to(directory)}\n" for file in files]
    (directory / SUMS).write_text("".join(lines), encoding="utf-8")


def wrong_files(artifact: Path) -> Iterator[str]:
    """Yield a text for each file that is missing, strange to the artifact, or has changed."""
    try:
        lines = (artifact / SUMS).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{artifact / SUMS}: not UTF-8 text (byte {error.start}); sha256sum writes it"
        ) from error
    sums = {}
    for line in lines:
        digest, _, name = line.partition("  ")
        sums[name] = digest
    # Files that were added count, too: they could stand for results that nobody has measured.
    present = {str(file.relative_to(artifact)): file for file in _files(artifact)}
    del present[SUMS]
    yield from (f"{name} is missing" for name in sorted(sums.keys() - present.keys()))
    yield from (f"{name} is not of it" for name in sorted(present.keys() - sums.keys()))
    yield from (
        f"{name} has changed"
        for name in sorted(sums.keys() & present.keys())
        if sha256_of(present[name]) != sums[name]
    )


def _files(directory: Path) -> list[Path]:
    """Return all files below a directory, sorted."""
    return sorted(file for file in directory.rglob("*") if file.is_file())


def verify(
    place: Path, only: str | None, minutes: float | None, options: Options, quiet: bool
) -> bool:
    """Check an artifact and repeat runs of it; return whether all is the same.

    They are those of the cells and claims that `only` names, and as many as fit into `minutes`.
    Raises InputError, SetupError.
    """
    if minutes is not None and not 0 < minutes < 1e6:
        raise InputError(f"--minutes {minutes:g}: more than 0")
    if not _is_as_made(place, (SUMS, FIGURES, CLAIMS_FILE)):
        return False
    repeatable = Repeatable.of(place)
    facts = facts_of(_results(place), place / CLAIMS_FILE, repeatable)
    options = replace(options, additions=repeatable.additions)
    if text := _first_difference(facts.as_json().encode(), (place / FIGURES).read_bytes()):
        print(f"openbach-run: {place}: {text}", file=sys.stderr)
        return False
    print(f"{len(facts.results)} results and {len(facts.claims)} claims follow from the records")
    cells = facts.results if only is None else facts.named(only.split(","))
    if minutes is None:
        chosen = [Chosen(cell, cell.seeds) for cell in cells]
    else:
        chosen = some_of(cells, minutes * 60 / SLOWER)
    return _are_same(place, chosen, options, quiet)


def verify_plain(place: Path, runs: int, options: Options, quiet: bool) -> bool:
    """Check a plain artifact and repeat runs of it; return whether all have the same packets.

    Raises InputError, SetupError.
    """
    if not _is_as_made(place, (SUMS,)):
        return False
    return _are_same(place, spread(_results(place), runs), options, quiet, plain=True)


def _is_as_made(place: Path, needed: Sequence[str]) -> bool:
    """Return whether all files are as they were made; if not, say on stderr which are not.

    Raises InputError for what is no artifact.
    """
    if missing := [name for name in needed if not (place / name).is_file()]:
        hint = "; --plain verifies a plain one" if FIGURES in missing else ""
        raise InputError(f"{place}: is no artifact: it lacks {', '.join(missing)}{hint}")
    wrong = list(wrong_files(place))
    for line in [*wrong, "is not as it was made: nothing is repeated"] if wrong else []:
        print(f"openbach-run: {place}: {line}", file=sys.stderr)
    return not wrong


def _results(place: Path) -> list[Path]:
    """Return the results directories of an artifact. Raises InputError if it has none."""
    if directories := sorted(place.glob(f"{RESULTS}/*/")):
        return directories
    raise InputError(f"{place}: is no artifact: it has no {RESULTS}/NAME")


def _first_difference(records: bytes, written: bytes) -> str:
    """Return where results.json says something else than the records; "" if it does not."""
    name = ""
    for right, line in zip(records.splitlines(), written.splitlines(), strict=False):
        texts = [printable(text.decode(errors="replace").strip(" ,")) for text in (right, line)]
        name = texts[0] if texts[0].startswith('"name"') else name
        if texts[0] != texts[1]:
            return f"{FIGURES} has {texts[1]} where the records have {texts[0]} ({name})"
    return "" if records == written else f"{FIGURES} is not what version {version()} reads"


def _are_same(
    place: Path, chosen: Sequence[Chosen], options: Options, quiet: bool, *, plain: bool = False
) -> bool:
    """Repeat runs, and print a line for each cell; return whether all are the same.

    Of a plain artifact only the packets have to be.
    """
    wanted = [_runs_of(choice, Store(place / RESULTS / choice.cell.results)) for choice in chosen]
    new = _repeated(wanted, options, quiet) if wanted else []
    good = True
    for choice, (_, records) in zip(chosen, wanted, strict=True):
        texts = []
        for before in records:
            if text := differences(before, _again(before, new), packets_only=plain):
                # Paths of additions are not taken from a record: they may be another machine's.
                lacking = [word for word in before.options if word not in options.path_words]
                hint = f" (its record has {', '.join(lacking)}: give it again)" if lacking else ""
                texts.append(f"seed {before.seed}: {text}{hint}")
        good = good and not texts
        same = "the same packets" if plain else "the same measures and packets"
        print(f"{_line(choice)}: {'; '.join(texts) or same}")
    runs = sum(len(choice.seeds) for choice in chosen)
    of_figures = "" if runs == len(chosen) else f" of {len(chosen)} results"
    print(f"{runs} runs{of_figures} repeated: {'all' if good else 'not all'} the same")
    return good


def _runs_of(choice: Chosen, store: Store) -> tuple[list[str], list[Record]]:
    """Return scenario and values of runs, and their records, which can be read."""
    words = shlex.split(choice.cell.command.split(" --seeds ")[0])
    if choice.records:
        return words, list(choice.records)
    own = f"={store.directory.parents[1].absolute() / FILES}/"
    words = [word.replace(f"={FILES}/", own, 1) for word in words]
    runs = dict(zip(choice.cell.seeds, choice.cell.runs, strict=True))
    loaded = (store.load(runs[seed]) for seed in choice.seeds)
    return words, [record for record in loaded if record is not None]


def _repeated(
    wanted: Sequence[tuple[list[str], list[Record]]], options: Options, quiet: bool
) -> list[Record]:
    """Repeat runs and return their new records. Raises SetupError."""
    with tempfile.TemporaryDirectory(prefix="openbach-run-") as name:
        results = options.results or Path(name)
        options = replace(options, results=results)
        campaigns: list[Campaign] = []
        try:
            for (scenario, *settings), records in wanted:
                seeds = ",".join(str(record.seed) for record in records) + ","
                plan = plan_of(ours(scenario), settings, seeds, options)
                campaigns += plan.campaigns
            run_with_progress(replace(plan, campaigns=tuple(campaigns)), options, quiet=quiet)
        except InputError as error:
            raise SetupError(f"cannot be repeated here: {error}") from error
        planned = {run["run_id"] for run in campaign_file.read(results)["runs"]}
        return [record for record in Store(results).all() if record.run_id in planned]


def _again(before: Record, new: Sequence[Record]) -> Record | None:
    """Return the new record of a run. It may have arguments that its scenario had not then."""
    for record in new:
        is_same = (record.scenario, record.seed) == (before.scenario, before.seed)
        if is_same and _named(before).items() <= _named(record).items():
            return record
    return None


def _named(record: Record) -> dict[str, str]:
    """Return the arguments; files have been moved, and are known by their names."""
    return {name: Path(value).name for name, value in record.arguments.items()}


def _line(choice: Chosen) -> str:
    cell = choice.cell
    value = "" if cell.median is None else f" = {cell.median:.7g} {cell.unit}".rstrip()
    return f"{cell.name} {cell.title}{value}, {len(choice.seeds)} of {len(cell.seeds)} seeds"
