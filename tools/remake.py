# SPDX-License-Identifier: GPL-3.0-or-later
"""Make every campaign of reports/ anew, with one code: `make reports`, or ONLY="etosat full".

First all runs, in results/reports/NAME; then all reports, in results/reports/new; at last these
take their places in reports/, and README and docs/ get their tables and figure. So all runs are
of one commit, and what is in reports/ stays as it is until the new is whole. Interrupted, the
same command goes on: finished runs are kept. A run that several campaigns have is made once. A
campaign whose random cells have fewer than five seeds gets five. One that fails is named, and the
others go on. A failed run is a row of its report; it is named here, too.

Exit codes: 0 all is made, 1 a campaign has no report, or failed runs in it; 2 bad input, 130
interrupted.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from openbach_run.campaign.executor import cpus_for
from openbach_run.campaign.forecast import duration, mean_wall_s
from openbach_run.campaign.options import Options
from openbach_run.campaign.request import plan_of
from openbach_run.campaign.run import CODE, to_do_of
from openbach_run.errors import InputError
from openbach_run.paths import REPOSITORY
from openbach_run.report import runs_file
from openbach_run.results import campaign_file
from openbach_run.results.record import Record
from openbach_run.results.seeds import MIN_SEEDS
from openbach_run.results.store import Store, share_runs

CAMPAIGNS = (
    *("full", "matrix", "return_link", "leo", "etosat", "encrypted_pep"),
    *("vpncloud", "post_quantum", "multipath", "stability", "vpns", "ten_vpns"),
)
PLACE = Path("results/reports")
REPORTS = REPOSITORY / "reports"
RUN_FAILED, INTERRUPTED = 1, 130
WRITTEN = ("results.parquet",)
"""Files of a report that belong into the repository. README's figure is written by readme.py."""
PAGES = ("full",)
"""Reports whose pages belong there, too; they are made of results.parquet, without curves."""
Call = Callable[[Sequence[str]], int]


@dataclass(frozen=True)
class Made:
    """What became of one campaign; `problem` is None where all is well."""

    name: str
    has_report: bool
    problem: str | None = None


def call(words: Sequence[str]) -> int:
    """Run `openbach-run WORDS` with its progress on the terminal; return the exit code."""
    command = [sys.executable, "-m", "openbach_run", *words]
    # The table of a result is not for here, and long.
    return subprocess.run(
        command, check=False, cwd=REPOSITORY, stdout=subprocess.DEVNULL
    ).returncode


def name_of(campaign: str) -> str:
    """Return the name of a campaign, which may be a file."""
    return Path(campaign).stem


def seeds_of(campaign: str) -> list[str]:
    """Return the words that give random cells enough seeds, if the campaign's own are too few."""
    plan = plan_of(_path(campaign), [], None, Options())
    few = [one for one in plan.campaigns if one.is_random and len(one.every_seed) < MIN_SEEDS]
    return ["--seeds", str(MIN_SEEDS)] if few else []


def known() -> list[Record]:
    """Return the runs of the reports that are there: they say how long a run takes."""
    found = []
    for file in sorted(REPORTS.glob("*/results.parquet")):
        found += runs_file.read(file)[1]
    return found


def estimate(campaigns: Sequence[str], place: Path) -> str:
    """Return a table of what is to be done: runs, seconds of one, and their time on all CPUs."""
    before, workers = known(), len(cpus_for(None))
    lines = [f"{'':16} {'runs to do':>10} {'s a run':>8} {'time':>8}"]
    total_s = 0.0
    for one in campaigns:
        name = name_of(one)
        seeds = seeds_of(one)[1:]
        options = Options(results=place)  # its runs are those of every campaign
        to_do = to_do_of(plan_of(_path(one), [], seeds[0] if seeds else None, options), options)
        wall_s = mean_wall_s(to_do, [*before, *Store(place).all()]) if to_do else 0.0
        time_s = len(to_do) * wall_s / workers
        lines.append(f"{name:16} {len(to_do):>10} {wall_s:>8.1f} {duration(time_s):>8}")
        total_s += time_s
    lines.append(
        f"about {duration(total_s)} on {workers} CPUs, from the runs of reports/ that are most"
        " similar; programs that are not built yet come on top"
    )
    return "\n".join(lines)


def run(campaign: str, place: Path, call: Call) -> Made:
    """Execute the runs of a campaign that are missing; return what became of it."""
    name = name_of(campaign)
    results = _with_common_runs(place, name)
    code = call([_path(campaign), *seeds_of(campaign), "--results", str(results)])
    if code not in (0, RUN_FAILED):
        return Made(name, False, f"ended with exit code {code}")
    store = Store(results)
    records = [store.load(one["run_id"]) for one in campaign_file.read(results)["runs"]]
    missing = sum(one is None for one in records)
    failed = [one for one in records if one is not None and not one.finished]
    if missing:
        return Made(name, False, f"{missing} of {len(records)} runs were not made")
    if failed:
        first = failed[0].error or failed[0].status
        return Made(name, True, f"{len(failed)} of {len(records)} runs failed, the first: {first}")
    return Made(name, True, None if code == 0 else f"ended with exit code {code}")


def put(new: Path, reports: Path, names: Sequence[str]) -> None:
    """Let new reports take the places of the old ones."""
    for name in names:
        (reports / name).mkdir(parents=True, exist_ok=True)
        for file in WRITTEN:
            if (new / name / file).exists():
                shutil.copyfile(new / name / file, reports / name / file)


def changes() -> str:
    """Return what is not committed of the code, as git has it."""
    words = ["git", "status", "--porcelain", *CODE]
    return subprocess.run(
        words, check=True, cwd=REPOSITORY, capture_output=True, text=True
    ).stdout.rstrip()


def remake(campaigns: Sequence[str], place: Path, reports: Path, call: Call = call) -> list[Made]:
    """Make the reports of campaigns anew; return what became of each."""
    new, made = place / "new", dict[str, Made]()
    for number, one in enumerate(campaigns):
        left = ", ".join(map(name_of, campaigns[number + 1 :])) or "none"
        print(
            f"== runs of {name_of(one)} ({number + 1} of {len(campaigns)}; then: {left})",
            flush=True,
        )
        made[name_of(one)] = run(one, place, call)
        if problem := made[name_of(one)].problem:
            print(f"== {name_of(one)}: {problem}", flush=True)
    for name in [name_of(one) for one in campaigns]:
        if made[name].has_report:
            print(f"== report of {name}", flush=True)
            if code := call(["report", str(place / name), "-o", str(new / name), "--quiet"]):
                made[name] = Made(name, False, f"its report ended with exit code {code}")
    whole = [name for name, one in made.items() if one.has_report]
    put(new, reports, whole)
    for name in {*PAGES} & {*whole}:
        place = reports / name
        if code := call(["report", str(place / "results.parquet"), "-o", str(place), "--quiet"]):
            made[name] = Made(name, True, f"its pages ended with exit code {code}")
    return list(made.values())


def _with_common_runs(place: Path, name: str) -> Path:
    """Return the directory of a campaign's results, whose records are those of every campaign."""
    results = place / name
    results.mkdir(parents=True, exist_ok=True)
    (place / "runs").mkdir(exist_ok=True)
    share_runs(results)
    return results


def _path(campaign: str) -> str:
    """Return a campaign as the report's command shall have it."""
    # By its file: some scenarios have the name of a campaign.
    return campaign if Path(campaign).suffix else f"library/campaigns/{campaign}.yml"


def main(argv: Sequence[str] | None = None) -> int:
    """Say how long it takes, make the reports, and say what became of each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campaigns", nargs="*", help=f"a file, or of {', '.join(CAMPAIGNS)} (all)")
    parser.add_argument("--results", type=Path, default=PLACE, help="where the runs go")
    parser.add_argument("--reports", type=Path, default=REPORTS, help="where the reports go")
    parser.add_argument("--dry-run", action="store_true", help="say only how long it takes")
    arguments = parser.parse_args(argv)
    asked = list(dict.fromkeys(arguments.campaigns or CAMPAIGNS))
    for one in asked:
        if one not in CAMPAIGNS and not (Path(one).suffix and Path(one).is_file()):
            raise InputError(f"ONLY: no campaign {one}; there are {', '.join(CAMPAIGNS)}")
    print(estimate(asked, arguments.results), flush=True)
    if arguments.dry_run:
        return 0
    if changed := changes():
        raise InputError(f"commit first, a report names the commit of its runs:\n{changed}")
    made = remake(asked, arguments.results, arguments.reports)
    if arguments.reports == REPORTS and any(one.has_report for one in made):
        subprocess.run([sys.executable, "tests/readme.py"], check=True, cwd=REPOSITORY)
    for result in made:
        print(f"{result.name:16} {'made' if result.has_report else 'no new report'}", end="")
        print(f": {result.problem}" if result.problem else "")
    return int(any(one.problem for one in made))


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except InputError as wrong:
        print(wrong, file=sys.stderr)
        raise SystemExit(2) from wrong
    except KeyboardInterrupt:
        print("interrupted: the same command goes on", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
