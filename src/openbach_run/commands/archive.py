# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run archive RESULTS… -o DIR`: makes an archive for a repository of papers.

It holds results, their report and the bundle that repeats them:

    results/<name>/   the results directories, as they are
    report/           the technical report of all
    openbach          the bundle
    README.md         how to repeat and verify them
    SHA256SUMS        the hash of every file above
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from openbach_run.bundle.content import content
from openbach_run.bundle.file import write
from openbach_run.campaign.options import Options
from openbach_run.campaign.request import ours, plan_of
from openbach_run.campaign.run import run_with_progress
from openbach_run.clock import VIRTUAL
from openbach_run.commands.arguments import add_jobs, add_with
from openbach_run.commands.report import write_report
from openbach_run.engine.virtual.debian import sha256_of
from openbach_run.errors import InputError, SetupError
from openbach_run.progress import Reporter
from openbach_run.report.cells import read_campaigns
from openbach_run.results.record import Record, Store

SUMS, BUNDLE = "SHA256SUMS", "openbach"
STARTED_FROM = "OPENBACH_RUN_BUNDLE"
"""Set by a bundle for the process that it starts: the path of its own file."""
DESCRIPTION = """\
Makes a directory with results, their technical report and a bundle, for a repository of
papers. Before, some of the runs are repeated: only a command that gets the same packets
belongs to the results.

  openbach-run archive results/geo_loss -o geo_loss-archive
  openbach-run archive --verify geo_loss-archive --runs 10     in any checkout
  geo_loss-archive/openbach archive --verify geo_loss-archive  without one
"""
README = """\
# Results of openbach-run, with the program that repeats them

`results/` has the results of

{commands}

`report/report.html` is the technical report of them all.

`openbach` is the whole testbed in one file. It runs on Linux (x86-64) without installation or
network. Repeat some runs, spread over all, and compare every packet:

    ./openbach archive --verify . --runs 3

Repeat a campaign by its command above, with `./openbach` in place of `./openbach-run`. What the
testbed is made of is in `sbom.spdx.json` of the directory into which it unpacks itself
(~/.cache/openbach-run/bundle-…).
`sha256sum -c {sums}` checks all files.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        "openbach-run archive",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "results", metavar="RESULTS", nargs="*", type=Path, help="results directories of campaigns"
    )
    made.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="the archive to make; it must not exist"
    )
    made.add_argument(
        "--verify", type=Path, metavar="ARCHIVE", help="repeat runs of this archive instead"
    )
    made.add_argument(
        "--runs",
        type=_count,
        default=3,
        metavar="N|all",
        help="how many runs are repeated, evenly spread over all (default 3)",
    )
    add_with(made, "for runs that were made with it: it is taken from no record")
    add_jobs(made, "the same")
    made.add_argument("--inventory", type=Path, metavar="FILE", help="the same")
    made.add_argument("--without-bundle", action="store_true", help="leave the bundle out (210 MB)")
    made.add_argument("--quiet", action="store_true", help="no progress")
    return made


def main(argv: list[str]) -> int:
    """Make or verify an archive; return the exit code. Raises InputError, SetupError."""
    arguments = parser().parse_args(argv)
    if arguments.verify is not None:
        if arguments.results or arguments.output:
            raise InputError("--verify ARCHIVE: takes no RESULTS and no -o")
        return _verify(arguments.verify, arguments.runs, _options(arguments), arguments.quiet)
    if not arguments.results or arguments.output is None:
        raise InputError(
            "name results directories, and the archive to make: archive RESULTS… -o DIR"
        )
    return _archive(arguments, _options(arguments))


def _options(arguments: argparse.Namespace) -> Options:
    """Return the options that each repetition has beside the values of its record."""
    return Options(
        additions=tuple(arguments.with_dirs),
        jobs=tuple(arguments.jobs),
        inventory=arguments.inventory,
    )


def _count(text: str) -> int:
    """Return the number in the option --runs; sys.maxsize for `all`."""
    if not re.fullmatch(r"all|\d+", text):
        raise argparse.ArgumentTypeError(f"should be a number or all, not {text!r}")
    return sys.maxsize if text == "all" else int(text)


def _archive(arguments: argparse.Namespace, options: Options) -> int:
    """Repeat some runs, and make the archive if their packets are the same.

    Raises InputError, SetupError.
    """
    results: list[Path] = arguments.results
    output: Path = arguments.output
    campaigns = read_campaigns(results)
    if output.exists():
        raise InputError(f"-o {output}: is there already")
    # In the archive they lie side by side, by their names.
    if len({one.resolve().name for one in results}) < len(results):
        raise InputError("two of the results directories have the same name")
    for directory in results:
        if not _same(directory, arguments.runs, options, arguments.quiet):
            raise SetupError(
                f"{directory}: this checkout is not the one that made these results (see above)"
            )
    # Under another name until it is whole: an interruption leaves no half archive.
    new = output.with_name(f"{output.name}.unfinished")
    shutil.rmtree(new, ignore_errors=True)
    for directory in results:
        shutil.copytree(directory, new / "results" / directory.resolve().name, symlinks=True)
    write_report(results, new / "report", quiet=arguments.quiet)
    if not arguments.without_bundle:
        put_bundle(new / BUNDLE, arguments.quiet)
    commands = "\n".join(f"    {command}" for command in campaigns.commands)
    (new / "README.md").write_text(README.format(commands=commands, sums=SUMS), encoding="utf-8")
    put_sums(new)
    new.rename(output)
    print(f"{output}: {len(campaigns.runs)} runs of {len(results)} campaigns")
    return 0


def put_sums(directory: Path) -> None:
    """Write the hash of every file in a directory, as `sha256sum --check` reads it."""
    files = [file for file in _files(directory) if file != directory / SUMS]
    lines = [f"{sha256_of(file)}  {file.relative_to(directory)}\n" for file in files]
    (directory / SUMS).write_text("".join(lines), encoding="utf-8")


def put_bundle(place: Path, quiet: bool) -> None:
    """Copy the bundle that this command runs from, or write one of this checkout."""
    if STARTED_FROM in os.environ:
        shutil.copy(os.environ[STARTED_FROM], place)
        return
    with Reporter(quiet) as reporter, content(reporter.show, built=False) as made:
        write(place.absolute(), made.start, made.content, 12, reporter.show)


def _verify(archive: Path, runs: int, options: Options, quiet: bool) -> int:
    """Check an archive's files and repeat some runs; return 0 if all is the same, else 1.

    Raises InputError.
    """
    if not (archive / SUMS).is_file():
        raise InputError(f"{archive}: is no archive: it has no {SUMS}")
    wrong = list(wrong_files(archive))
    for line in wrong:
        print(f"openbach-run: {archive}: {line}", file=sys.stderr)
    if wrong:
        print(
            f"openbach-run: {archive}: it is not what was archived: nothing of it is repeated",
            file=sys.stderr,
        )
        return 1
    # All directories are tried, also after one that differs: a reader wants to know which.
    directories = sorted((archive / "results").iterdir())
    same = [_same(directory, runs, options, quiet) for directory in directories]
    return int(not all(same))


def wrong_files(archive: Path) -> Iterator[str]:
    """Yield a text for each file that is missing, strange to the archive, or has changed."""
    try:
        lines = (archive / SUMS).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{archive / SUMS}: not UTF-8 text (byte {error.start}); sha256sum writes it"
        ) from error
    sums = {}
    for line in lines:
        digest, _, name = line.partition("  ")
        sums[name] = digest
    # Files that were added count, too: they could stand for results that nobody has measured.
    there = {str(file.relative_to(archive)): file for file in _files(archive) if file.name != SUMS}
    yield from (f"{name} is missing" for name in sorted(sums.keys() - there.keys()))
    yield from (f"{name} is not of it" for name in sorted(there.keys() - sums.keys()))
    yield from (
        f"{name} has changed"
        for name in sorted(sums.keys() & there.keys())
        if sha256_of(there[name]) != sums[name]
    )


def _files(directory: Path) -> list[Path]:
    """Return all files below a directory, sorted."""
    return sorted(file for file in directory.rglob("*") if file.is_file())


def _same(results: Path, count: int, options: Options, quiet: bool) -> bool:
    """Repeat some finished runs of a results directory; return whether all have the same packets.

    A text on stdout says how many have. Raises InputError if no run in virtual time has finished.
    """
    finished = [
        record for record in Store(results).all() if record.finished and record.clock == VIRTUAL
    ]
    if not finished and count:
        raise InputError(
            f"{results}: no run in virtual time has finished: of others no packet is the same again"
        )
    # Evenly spread: every n-th run, n rounded up.
    chosen = finished[:: max(1, -(-len(finished) // count))] if count else []
    same = [_is_same(record, options, quiet) for record in chosen]
    if chosen:
        print(
            f"{results}: {sum(same)} of {len(same)} runs repeated have the same packets"
            f" ({len(finished)} finished)"
        )
    return all(same)


def _is_same(record: Record, options: Options, quiet: bool) -> bool:
    """Repeat a run; return whether its packets are the same. If not, a text on stderr says why."""
    with tempfile.TemporaryDirectory(prefix="openbach-run-") as name:
        again = _repeated(record, replace(options, results=Path(name)), quiet)
    # Paths of additions are not taken from a record: they may be another machine's.
    lacking = [one for one in record.options if one not in options.path_words]
    hint = (
        f" (without {', '.join(lacking)}, which is not taken from a record: give it to this"
        " command)"
        if lacking
        else ""
    )
    if again is None or not again.finished:
        print(f"{record.run_id}: did not finish{hint}: {record.command}", file=sys.stderr)
        return False
    if again.capture_hash == record.capture_hash:
        return True
    differing = [key for key, value in record.identity.items() if again.identity.get(key) != value]
    reasons = [
        f"  {key}: {record.identity[key]} then, {again.identity.get(key)} now" for key in differing
    ]
    print(
        "\n".join([f"{record.run_id}: other packets than then{hint}: {record.command}", *reasons]),
        file=sys.stderr,
    )
    return False


def _repeated(record: Record, options: Options, quiet: bool) -> Record | None:
    """Repeat a run; return its new record, None if it left none. Raises SetupError."""
    # The last word is the seed, which plan_of() takes by itself.
    scenario, *settings, _ = record.repetition
    try:
        plan = plan_of(ours(scenario), settings, f"{record.seed},", options)
        run_with_progress(plan, options, quiet=quiet)
    except InputError as error:
        raise SetupError(f"{record.run_id} cannot be repeated here: {error}") from error
    assert options.results is not None
    return next((one for one in Store(options.results).all() if one.seed == record.seed), None)
