# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run artifact RESULTS… -o DIR`: makes what an artifact evaluation asks for.

README.md         claims and figures with command, value and tolerance; how to begin; times
openbach          the bundle
results/<name>/   the records of the runs
figures.json      figures and claims, for programs
claims.yml        the claims, as they are judged
report/           the technical report of all
LICENSE           of the program
SHA256SUMS        the hash of every file above
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from openbach_run.bundle.artifact import (
    CLAIMS,
    PARTS,
    Chosen,
    Figure,
    Said,
    differences,
    plan_of_all,
    read_figures,
    said_by,
    some_of,
)
from openbach_run.bundle.artifact_readme import QUICK_MIN, About, readme
from openbach_run.campaign.options import Options
from openbach_run.campaign.run import commit, run_with_progress
from openbach_run.commands.archive import BUNDLE, SUMS, put_bundle, put_sums, wrong_files
from openbach_run.commands.report import write_report
from openbach_run.errors import InputError, SetupError
from openbach_run.paths import REPOSITORY
from openbach_run.report.cells import read_campaigns
from openbach_run.results.record import Record, Store
from openbach_run.version import version

FIGURES, CLAIMS_FILE, RESULTS = "figures.json", "claims.yml", "results"
SLOWER = 3
"""By how much a stranger's machine may be slower than the one that made the results."""
SELF_TEST_MIN = 2
DESCRIPTION = """\
Makes a directory for an artifact evaluation: results, the program that repeats them, and a
README.md in which each claim and figure has its command, its value and its tolerance, with
the first steps of ten minutes, the full run and its time, environment and licence.

  openbach-run artifact results/geo_loss -o artifact --title 'VPNs over GEO'
  artifact/openbach artifact --verify artifact --minutes 10    without a checkout
  openbach-run artifact --verify artifact --only C1,F3         what the claim C1 and F3 need

Before it is there, its own bundle repeats some of its runs in an empty home directory. The
results have to be whole: every run of the campaign has ended, in virtual time, with nothing
that only your machine has (--with, link files, scenarios outside of the checkout).
"""
EPILOG = """\
--verify checks SHA256SUMS, that the figures and claims follow from the records, and repeats
runs: status, every measure and every packet have to be the same. exit codes: 0 all is the
same, 1 something is not, 2 bad input, 130 interrupted.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        "openbach-run artifact",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "results", metavar="RESULTS", nargs="*", type=Path, help="results directories of campaigns"
    )
    made.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="the artifact to make; it must not exist"
    )
    made.add_argument("--title", metavar="TEXT", help="of README.md, as the title of your paper")
    made.add_argument(
        "--claims",
        type=Path,
        metavar="FILE",
        help="your claims, in the form of reports/claims.yml (default: the claims of that file)",
    )
    made.add_argument(
        "--licence", metavar="TEXT", help="sentence on the licence of the results, for README.md"
    )
    made.add_argument(
        "--bundle",
        type=Path,
        metavar="FILE",
        help="a bundle that is there (default: one of this checkout is made)",
    )
    made.add_argument(
        "--verify", type=Path, metavar="DIR", help="repeat runs of this artifact instead"
    )
    made.add_argument(
        "--minutes",
        type=float,
        metavar="N",
        help=f"with --verify: as many runs as fit into N minutes on a machine {SLOWER} times"
        " slower than the one that made the results",
    )
    made.add_argument(
        "--only",
        metavar="NAME[,NAME…]",
        help="with --verify: the runs of these figures and claims (F1, C2)",
    )
    made.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        dest="kept",
        help="with --verify: keep the repeated runs there; the same command then goes on",
    )
    made.add_argument("--quiet", action="store_true", help="no progress")
    return made


def main(argv: list[str]) -> int:
    """Make or verify an artifact; return the exit code. Raises InputError, SetupError."""
    arguments = parser().parse_args(argv)
    making = ("results", "output", "title", "claims", "licence", "bundle")
    verifying = ("minutes", "only", "kept")
    if arguments.verify is not None:
        for name in making:
            if getattr(arguments, name):
                raise InputError("--verify DIR: takes no RESULTS and no option of making one")
        return _verify(arguments)
    for name in verifying:
        if getattr(arguments, name) is not None:
            option = "results" if name == "kept" else name
            raise InputError(f"--{option} goes with --verify DIR")
    if not arguments.results or arguments.output is None:
        raise InputError(
            "name results directories, and the artifact to make: artifact RESULTS… -o DIR"
        )
    return _make(arguments)


def _make(arguments: argparse.Namespace) -> int:
    """Make an artifact, and let its own bundle verify it. Raises InputError, SetupError."""
    results: list[Path] = arguments.results
    output: Path = arguments.output
    if output.exists():
        raise InputError(f"-o {output}: is there already")
    if not output.absolute().parent.is_dir():
        raise InputError(f"-o {output}: {output.parent} is no directory")
    given: Path | None = arguments.bundle
    if given is not None and not given.is_file():
        raise InputError(f"--bundle {given}: no such file")
    claims = arguments.claims or CLAIMS
    said = said_by(results, claims)
    # Under another name until it is whole: an interruption leaves no half artifact.
    new = output.with_name(f"{output.name}.unfinished")
    shutil.rmtree(new, ignore_errors=True)
    (new / RESULTS).mkdir(parents=True)
    copies = [_copied(directory, said, new / RESULTS) for directory in results]
    write_report(copies, new / "report", quiet=arguments.quiet)
    if given is not None:
        shutil.copy(given, new / BUNDLE)
    else:
        put_bundle(new / BUNDLE, arguments.quiet)
    shutil.copyfile(claims, new / CLAIMS_FILE)
    shutil.copyfile(REPOSITORY / "LICENSE", new / "LICENSE")
    (new / FIGURES).write_text(said.as_json(), encoding="utf-8")
    with _empty_home() as home:
        about = _about(arguments, said, new, home)
        (new / "README.md").write_text(readme(said, about), encoding="utf-8")
        put_sums(new)
        _try_it(new, home, arguments.quiet)
    new.rename(output)
    runs = sum(len(one.seeds) for one in said.figures)
    print(f"{output}: {len(said.figures)} figures, {len(said.claims)} claims, {runs} runs")
    if not about.licence:
        print("README.md names no licence of the results: --licence TEXT does")
    if (REPOSITORY / ".git").exists() and commit() is None:
        print(
            f"this checkout of {about.version} has changes that are in no commit: whoever looks for"
            " this code finds it in the bundle only. To name a commit: commit, and make it again",
            file=sys.stderr,
        )
    return 0


def _copied(directory: Path, said: Said, to: Path) -> Path:
    """Copy the parts of a results directory that belong to its campaign; return the copy."""
    copy = to / directory.resolve().name
    copy.mkdir()
    for name in PARTS:
        place = directory / name
        if place.is_dir():
            shutil.copytree(place, copy / name)
        elif place.exists():
            shutil.copyfile(place, copy / name)
    for one in said.figures:
        if one.results == copy.name:
            for run_id in one.runs:
                shutil.copytree(directory / "runs" / run_id, copy / "runs" / run_id)
    # Records are closed to other users; an artifact is for everybody.
    for place in (copy, *copy.rglob("*")):
        place.chmod(0o755 if place.is_dir() else 0o644)
    return copy


@contextmanager
def _empty_home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="openbach-run-") as name:
        yield Path(name)


def _in_empty_home(
    home: Path, *words: str | Path, quiet: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a command where nothing of this user is."""
    (home / "here").mkdir(exist_ok=True)
    return subprocess.run(
        words,
        check=False,
        cwd=home / "here",
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if quiet else None,
        text=True,
    )


def _about(arguments: argparse.Namespace, said: Said, new: Path, home: Path) -> About:
    """Return what README.md says besides the results. Raises SetupError."""
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
    quick = some_of(said.figures, QUICK_MIN * 60 / SLOWER)
    return About(
        arguments.title or f"Results of {', '.join(one.name for one in directories)}",
        version(),
        read_campaigns(arguments.results).commands,
        record.identity.get("kernel", ""),
        len(record.packages),
        record.identity.get("memory", ""),
        round(sum(sizes) / 1e6),
        unpacked_s,
        round(bundle.stat().st_size / 1e6),
        arguments.licence or "",
        quick,
    )


def _try_it(new: Path, home: Path, quiet: bool) -> None:
    """Let the artifact's own bundle repeat some of its runs. Raises SetupError if they differ."""
    words = ("artifact", "--verify", str(new.absolute()), "--minutes", str(SELF_TEST_MIN))
    done = _in_empty_home(home, (new / BUNDLE).absolute(), *words, "--quiet", quiet=True)
    if done.returncode:
        raise SetupError(
            "the bundle does not repeat these results, so there is no artifact: they are from"
            f" another version, or need what only this machine has\n{done.stdout}{done.stderr}"
        )
    if not quiet:
        print(done.stdout, end="", file=sys.stderr)


def _verify(arguments: argparse.Namespace) -> int:
    """Check an artifact and repeat runs of it; return 0 if all is the same, else 1.

    Raises InputError.
    """
    place: Path = arguments.verify
    if not all((place / name).is_file() for name in (SUMS, FIGURES, CLAIMS_FILE)):
        raise InputError(f"{place}: is no artifact: it lacks {SUMS}, {FIGURES} or {CLAIMS_FILE}")
    if arguments.minutes is not None and not 0 < arguments.minutes < 1e6:
        raise InputError(f"--minutes {arguments.minutes:g}: more than 0")
    wrong = list(wrong_files(place))
    for line in wrong:
        print(f"openbach-run: {place}: {line}", file=sys.stderr)
    if wrong:
        print(f"openbach-run: {place}: is not as it was made: nothing is repeated", file=sys.stderr)
        return 1
    directories = sorted(one for one in (place / RESULTS).glob("*") if one.is_dir())
    if not directories:
        raise InputError(f"{place}: is no artifact: it has no {RESULTS}/NAME")
    said = said_by(directories, place / CLAIMS_FILE)
    if said.as_json().encode() != (place / FIGURES).read_bytes():
        print(f"openbach-run: {place}: {_first_difference(said, place)}", file=sys.stderr)
        return 1
    print(f"{len(said.figures)} figures and {len(said.claims)} claims follow from the records")
    figures = said.figures if arguments.only is None else said.named(arguments.only.split(","))
    chosen = [Chosen(one, one.seeds) for one in figures]
    if arguments.minutes is not None:
        chosen = some_of(figures, arguments.minutes * 60 / SLOWER)
    if arguments.kept is not None:
        return _repeat(place, chosen, arguments.kept, arguments.quiet)
    with tempfile.TemporaryDirectory(prefix="openbach-run-") as name:
        return _repeat(place, chosen, Path(name), arguments.quiet)


def _first_difference(said: Said, place: Path) -> str:
    """Return where figures.json says something else than the records."""
    written = read_figures(place / FIGURES)
    for figure in said.figures:
        for one in written["figures"]:
            then = one["median"]
            if one["name"] == figure.name and then != figure.median:
                return f"{FIGURES} has {then} for {figure.name}, the records {figure.median}"
    return f"{FIGURES} is not what this version, {version()}, reads in the records"


def _repeat(place: Path, chosen: Sequence[Chosen], kept: Path, quiet: bool) -> int:
    """Repeat runs, and print a line for each figure; return 0 if all are the same, else 1."""
    try:
        plan = plan_of_all(chosen)
        run_with_progress(plan, Options(results=kept), quiet=quiet)
    except InputError as error:
        raise SetupError(f"cannot be repeated here: {error}") from error
    again = {_key(one): one for one in Store(kept).all()}
    good = True
    for one in chosen:
        store = Store(place / RESULTS / one.figure.results)
        texts = []
        for seed, run_id in zip(one.figure.seeds, one.figure.runs, strict=True):
            before = store.load(run_id)
            assert before is not None  # said_by has read it
            if seed in one.seeds:
                found = differences(before, again.get(_key(before)))
                texts += [f"seed {seed}: {found}"] if found else []
        good = good and not texts
        print(f"{_line(one)}: {'; '.join(texts) if texts else 'the same measures and packets'}")
    runs = sum(len(one.seeds) for one in chosen)
    end = "all the same" if good else "not all the same"
    print(f"{runs} runs of {len(chosen)} figures repeated: {end}")
    return 0 if good else 1


def _line(one: Chosen) -> str:
    figure: Figure = one.figure
    value = "" if figure.median is None else f" = {figure.median:.7g} {figure.unit}".rstrip()
    return f"{figure.name} {figure.title}{value}, {len(one.seeds)} of {len(figure.seeds)} seeds"


def _key(record: Record) -> tuple[str, tuple[tuple[str, str], ...], int]:
    return record.scenario, tuple(sorted(record.arguments.items())), record.seed
