# SPDX-License-Identifier: GPL-3.0-or-later
"""Run OpenBACH's own jobs: `tools/dev tools/upstream_jobs.py OPENBACH EXTRA [NAME…]`.

Each of OpenBACH's own jobs in a guest, with a check of what it does.

    client/to_router ── router ── server/to_router

OPENBACH is a checkout of OpenBACH 2.7, EXTRA one of openbach-extra; nothing of them is kept here.
What comes of each job is written to tests/data/openbach_jobs.json, and from there to the table of
docs/openbach.md. Words after the two paths are the names of jobs: these only, and what is known of
the others stays.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from openbach_run.json_files import read_json
from openbach_run.openbach.job_folders import load_packages
from openbach_run.paths import REPOSITORY
from openbach_run.results import run_files
from openbach_run.yaml_files import read_yaml

FOLDERS = ("src/jobs", "externals_jobs/stable_jobs")
"""Of jobs in the two checkouts."""
TEST_JOBS = REPOSITORY / "tests/guest/jobs"
FILE = REPOSITORY / "tests/data/openbach_jobs.json"
DOCUMENT = REPOSITORY / "docs/openbach.md"
MARKERS = ("<!-- begin: tools/upstream_jobs.py -->", "<!-- end: tools/upstream_jobs.py -->")
LIMIT_S = 900


class Step(NamedTuple):
    """A job on a host. It starts `wait_s` after the one before was launched, or has finished."""

    host: str
    job: str
    arguments: Mapping[str, Any] = {}
    after: str = "launched"
    wait_s: int = 2


class Case(NamedTuple):
    """A job, the steps that show what it does, and how that is seen."""

    steps: Sequence[Step]
    sends: str = ""
    """A statistic that the job sends."""
    prints: str = ""
    """A pattern in what the shell commands of the steps print."""
    does: str = ""
    """What is checked, in words."""


FPING = Step("client", "fping", {"destination_ip": "10.2.0.2", "count": 5})


def case_of(name: str, steps: Sequence[Any] = (), outside: str = "", **told: Any) -> Case:
    """A case as upstream_jobs.yml describes it."""
    if figure := told.get("figure"):
        made = [FPING, Step("client", name, figure, "finished")]
        return Case(made, "figure", does="stores a figure of fping's times")
    return Case([_step(*one) for one in steps], **told)


def _step(host: str, job: str, arguments: Any = None, *when: Any) -> Step:
    """A step, or the shell command whose output `prints` looks at."""
    if job == "shell":
        return Step(host, "snapshot", {"command": arguments.replace("$", "$$")}, *when)
    return Step(host, job, arguments or {}, *when)


DESCRIBED = read_yaml(Path(__file__).with_suffix(".yml"))
CASES = {name: case_of(name, **told) for name, told in DESCRIBED["cases"].items()}
OUTSIDE = {name: told["outside"] for name, told in DESCRIBED["cases"].items() if "outside" in told}
"""Jobs that do not run, and why."""


def scenario_of(case: Case) -> dict[str, Any]:
    """The steps one after the other; when the last has finished, the others are stopped."""
    functions: list[dict[str, Any]] = []
    for number, step in enumerate(case.steps):
        before = [number - 1] if number else []
        wait = {"time": step.wait_s if number else 0, "launched_ids": [], "finished_ids": []}
        functions.append(
            {
                "id": number,
                "label": step.job,
                "wait": {**wait, f"{step.after}_ids": before},
                "start_job_instance": {"entity_name": step.host, step.job: dict(step.arguments)},
            }
        )
    last = len(functions) - 1
    stop = {"openbach_function_ids": list(range(last))}
    waits = {"time": 1, "launched_ids": [], "finished_ids": [last]}
    if last:
        functions.append(
            {"id": last + 1, "label": "end", "wait": waits, "stop_job_instances": stop}
        )
    return {
        "name": "job",
        "description": "",
        "arguments": {},
        "constants": {},
        "openbach_functions": functions,
    }


def tried(name: str, case: Case, checkouts: Sequence[Path]) -> str:
    """Runs a case; what is wrong, "" if nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "inventory.yml").write_text(json.dumps(DESCRIBED["inventory"]))
        (place / "job.json").write_text(json.dumps(scenario_of(case), indent=1))
        command = [sys.executable, "-m", "openbach_run", str(place / "job.json"), "--quiet"]
        command += ["--inventory", str(place / "inventory.yml"), "--seeds", "1"]
        command += ["--results", str(place / "results")]
        for path in (*_folders(checkouts), TEST_JOBS):
            command += ["--jobs", str(path)]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
        try:
            done = subprocess.run(
                command,
                check=False,
                capture_output=True,
                text=True,
                env=environment,
                cwd=REPOSITORY,
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return f"not finished after {LIMIT_S} s of real time"
        runs = [*(place / "results/runs").glob("*")]
        if kept := os.environ.get("KEEP"):
            shutil.copytree(place, Path(kept) / name, dirs_exist_ok=True)
        if done.returncode:
            return _error(runs) or _last_words(done.stderr) or "failed"
        return _unseen(name, case, runs[0]) if runs else "no run"


def _error(runs: Sequence[Path]) -> str:
    """What a run's record says went wrong, its last words."""
    records = [read_json(run / "record.json") for run in runs if (run / "record.json").exists()]
    return " ".join(" ".join(str(one.get("error") or "") for one in records).split())[-400:]


def _last_words(text: str) -> str:
    lines = [
        line
        for line in text.splitlines()
        if line.strip() and "warning:" not in line and "note:" not in line
    ]
    return re.sub(r"/tmp/tmp\w+/", "", lines[-1].strip()) if lines else ""


def _unseen(name: str, case: Case, run: Path) -> str:
    """What the run should show and does not."""
    lines = (
        [json.loads(line) for line in run_files.content(run, "statistics.jsonl").splitlines()]
        if _sent(run)
        else []
    )
    if case.sends:
        wanted = case.sends.split("|")
        own = [line for line in lines if line["_metadata"]["job_name"] == name]
        if not any(one in line for line in own for one in wanted):
            sent = sorted({key for line in own for key in line if key != "_metadata"})
            return f"sent {', '.join(sent) or 'nothing'}; expected {case.sends}"
    printed = "".join(str(line.get("printed", "")) for line in lines)
    if case.prints and not re.search(case.prints, printed):
        return f"the hosts show {printed.strip()[-200:]!r}; expected {case.prints}"
    return ""


def _sent(run: Path) -> bool:
    return any(run.glob("statistics.jsonl*"))


def _folders(checkouts: Sequence[Path]) -> list[Path]:
    return [
        path for checkout in checkouts for folder in FOLDERS if (path := checkout / folder).is_dir()
    ]


def table(known: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the documentation's text: the jobs that run, and a table of the others."""
    running = ", ".join(f"`{name}`" for name, job in sorted(known.items()) if job["runs"])
    count = sum(bool(job["runs"]) for job in known.values())
    lines = [
        *textwrap.wrap(f"{count} of {len(known)} run: {running}.", 118, break_on_hyphens=False),
        *("", "| does not run | why |", "|---|---|"),
    ]
    for name, job in sorted(known.items()):
        if not job["runs"]:
            lines.append(f"| `{name}` | {job['why'].replace('|', chr(92) + '|')} |")
    return "\n".join(lines)


def write_table(known: Mapping[str, Mapping[str, Any]]) -> None:
    """Puts it between the markers of the document."""
    text = DOCUMENT.read_text()
    begin, end = MARKERS
    before, after = text.partition(begin)[0], text.partition(end)[2]
    DOCUMENT.write_text(f"{before}{begin}\n{table(known)}\n{end}{after}")


def outcomes(
    checkouts: Sequence[Path], names: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What comes of each job."""
    there = load_packages(_folders(checkouts))
    for name in sorted(names or there):
        case = CASES.get(name)
        wrong = (
            "has no case in tools/upstream_jobs.py"
            if case is None
            else tried(name, case, checkouts)
        )
        if wrong and name in OUTSIDE:
            print(f"{name}: {wrong}", flush=True)
        why = OUTSIDE.get(name, wrong) if wrong else ""
        yield name, {"runs": not wrong, "does": case.does if case and not wrong else "", "why": why}


def main() -> int:
    """Return the exit code: 1 if a job does not run for another reason than those of OUTSIDE."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("openbach", type=Path, help="a checkout of OpenBACH 2.7")
    parser.add_argument("extra", type=Path, help="one of openbach-extra")
    parser.add_argument("job", nargs="*", help="these only")
    asked = parser.parse_args()
    checkouts, names = [asked.openbach.resolve(), asked.extra.resolve()], asked.job
    unexpected = 0
    for name, one in outcomes(checkouts, names):
        known = {**(read_json(FILE) if FILE.exists() else {}), name: one}
        unexpected += not one["runs"] and name not in OUTSIDE
        print(f"{name}: {'runs' if one['runs'] else one['why']}", flush=True)
        jobs = [f" {json.dumps(name)}: {json.dumps(known[name])}" for name in sorted(known)]
        FILE.write_text("{\n" + ",\n".join(jobs) + "\n}\n")
        write_table(known)
    return int(unexpected > 0)


if __name__ == "__main__":
    sys.exit(main())
