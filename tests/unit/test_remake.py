# SPDX-License-Identifier: GPL-3.0-or-later
"""`make reports`, and what the reports in the repository are of."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet
import pytest
import remake
from helpers.made_up import write_results

from openbach_run.campaign import run as campaign_run
from openbach_run.commands import main
from openbach_run.errors import InputError
from openbach_run.report.runs_file import read
from openbach_run.results.store import Store

ROOT = Path(__file__).resolve().parents[2]
REPORTS = ROOT / "reports"
GOLDEN = "tests/data/golden.json"


def commit_of(report: Path) -> str | None:
    """Return the commit that a report says its runs are of, as its command has it."""
    words = [one.split() for one in read(report / "results.parquet")[0]["commands"]]
    found = {command[2] for command in words if command[:2] == ["git", "checkout"]}
    assert len(found) <= 1, f"{report}: of several commits"
    return found.pop() if found else None


def git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], check=False, cwd=ROOT, capture_output=True, text=True)


def packets(text: str) -> dict[str, str]:
    """Return the capture's hash of each golden cell."""
    # The file of the first commits had one cell, and another form.
    return {one["command"]: one["capture_hash"] for one in json.loads(text).get("cells", ())}


def moved(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return the golden cells whose packets are others; all if none is in both."""
    both = before.keys() & now.keys()
    return [cell for cell in both or now if before.get(cell) != now[cell]]


def check_commit(commit: str, name: str) -> None:
    """Fail for a commit that is not of this history, or whose packets are not today's."""
    ended = git("merge-base", "--is-ancestor", commit, "HEAD")
    assert ended.returncode == 0, f"{name} is of {commit}, no ancestor of HEAD: make reports"
    before = packets(git("show", f"{commit}:{GOLDEN}").stdout)
    now = packets((ROOT / GOLDEN).read_text())
    others = moved(before, now)
    assert not others, f"{name}: other packets today ({', '.join(others)}): make reports"


REPORTED = sorted(file.parent.name for file in REPORTS.glob("*/results.parquet"))


def test_a_report_is_of_an_ancestor_with_the_packets_of_today() -> None:
    for name in REPORTED:
        commit = commit_of(REPORTS / name)
        assert commit, f"{name} says no commit: make reports, in a checkout without changes"
        check_commit(commit, name)


def test_reports_are_of_one_commit() -> None:
    assert len({commit_of(REPORTS / name) for name in REPORTED}) == 1


def test_commits_that_are_gone_and_other_packets_are_refused() -> None:
    with pytest.raises(AssertionError, match="no ancestor of HEAD"):
        check_commit("0123456789ab", "mine")
    # Packets have moved since golden cells were first kept.
    words = ("--reverse", "--format=%H", "--diff-filter=A", "--", GOLDEN)
    first = git("log", *words).stdout.split()[0]
    with pytest.raises(AssertionError, match="other packets today"):
        check_commit(first, "mine")
    now = packets((ROOT / GOLDEN).read_text())
    some = next(iter(now))
    assert moved({some: now[some], "a cell of before": "ab"}, now) == []
    assert moved({**now, some: "ab"}, now) == [some]


def test_the_commits_that_trust_md_names_are_of_this_history() -> None:
    text = (ROOT / "docs/trust.md").read_text()
    named = re.findall(r"\| \d{4}-\d\d-\d\d \| `([0-9a-f]{8})` \|$", text, re.MULTILINE)
    assert len(named) == 8
    for one in named:
        assert git("merge-base", "--is-ancestor", one, "HEAD").returncode == 0, one


def test_runs_are_of_a_commit_though_earlier_reports_are_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of `make reports ONLY=…` named no commit, since the first had written reports."""
    monkeypatch.setattr(campaign_run, "REPOSITORY", tmp_path)
    subprocess.run(["git", "init", tmp_path], check=True, capture_output=True)
    (tmp_path / "README.md").touch()
    assert campaign_run.commit()
    (tmp_path / "code").touch()
    assert campaign_run.commit() is None


def test_every_report_is_in_the_list_of_reports() -> None:
    text = (REPORTS / "README.md").read_text()
    for name in REPORTED:
        listed = re.search(rf"^\| \[?{name}\b.* \| `library/campaigns/{name}.yml` \|", text, re.M)
        assert listed, f"{name} is missing in the table of reports/README.md"


def test_a_report_is_made_beside_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As reports/README.md says it, in a clone; what git has of it stays the same."""
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "reports/post_quantum/results.parquet"
    results.parent.mkdir(parents=True)
    shutil.copyfile(REPORTS / "post_quantum/results.parquet", results)
    command = ["report", "reports/post_quantum/results.parquet", "--quiet"]
    for _ in ("new", "again"):
        assert main.main(command) == 0
        assert results.read_bytes() == (REPORTS / "post_quantum/results.parquet").read_bytes()
        assert {"report.html", "report.pdf"} <= {file.name for file in results.parent.iterdir()}
    (results.parent / "report.md").unlink()
    (results.parent / "campaign.json").write_text("{}")
    assert main.main(command) == 2
    assert (results.parent / "campaign.json").exists()


def test_every_campaign_of_a_report_is_made_by_make_reports() -> None:
    assert {*REPORTED} <= {*remake.CAMPAIGNS}
    assert all((ROOT / f"library/campaigns/{one}.yml").is_file() for one in remake.CAMPAIGNS)


def test_random_cells_get_five_seeds() -> None:
    for name in ("vpns", "matrix", "stability"):
        assert remake.seeds_of(name) == ["--seeds", "5"]
    # With seeds of their own.
    assert remake.seeds_of("full") == remake.seeds_of("etosat") == []


class Fake:
    """openbach-run whose runs and reports are made up; `ends` has exit codes by campaign."""

    def __init__(self, **ends: int) -> None:
        self.ends, self.calls = ends, list[str]()

    def __call__(self, words: Sequence[str]) -> int:
        results = Path(words[words.index("--results") + 1]) if "--results" in words else None
        if words[0] == "report":
            output = Path(words[words.index("-o") + 1])
            name = output.name
            output.mkdir(parents=True, exist_ok=True)
            for file in ("report.html", "results.parquet"):
                (output / file).write_text(name)
        else:
            name = Path(words[0]).stem
            assert results is not None
            if self.ends.get(name, 0) != 2:
                # The made-up campaign has runs that failed, and one cell that was not run.
                only = {"pep": ("none",)} if name in self.ends else {"pep": ("none", "B")}
                write_results(results, seeds=2, **only)
        self.calls.append(f"{'report' if words[0] == 'report' else 'runs'} {name}")
        is_second = self.calls.count(f"report {name}") > 1
        return self.ends.get("pages" if is_second else "" if words[0] == "report" else name, 0)


def test_a_campaign_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    fake = Fake(matrix=2)
    (tmp_path / "reports/matrix").mkdir(parents=True)
    (tmp_path / "reports/matrix/results.parquet").write_text("the old one")
    made = remake.remake(["matrix", "vpns"], tmp_path / "runs", tmp_path / "reports", fake)
    assert made == [
        remake.Made("matrix", False, "ended with exit code 2"),
        remake.Made("vpns", True, None),
    ]
    # All runs come before the first report, and what is no file of the repository stays away.
    assert fake.calls == ["runs matrix", "runs vpns", "report vpns"]
    assert (tmp_path / "reports/matrix/results.parquet").read_text() == "the old one"
    assert [one.name for one in (tmp_path / "reports/vpns").iterdir()] == ["results.parquet"]


def test_the_pages_of_full_are_made_of_the_results_that_git_has(tmp_path: Path) -> None:
    """They have no curves over time, and anybody can make them again from a clone."""
    fake = Fake(pages=1)
    (made,) = remake.remake(["full"], tmp_path / "runs", tmp_path / "reports", fake)
    assert made == remake.Made("full", True, "its pages ended with exit code 1")
    assert fake.calls == ["runs full", "report full", "report full"]
    of_git = {one.name for one in (tmp_path / "reports/full").iterdir()}
    assert of_git == {"report.html", "results.parquet"}


def test_a_run_of_two_campaigns_is_made_once(tmp_path: Path) -> None:
    """The runs of `matrix` are some of those of `full`: they lie in one place."""
    fake = Fake()
    remake.remake(["full", "matrix"], tmp_path / "runs", tmp_path / "reports", fake)
    of_full = {one.run_id for one in Store(tmp_path / "runs/full").all()}
    assert of_full and of_full == {one.run_id for one in Store(tmp_path / "runs/matrix").all()}
    assert len(list((tmp_path / "runs").glob("runs/*"))) == len(of_full)


def test_failed_and_missing_runs_are_said(tmp_path: Path) -> None:
    def call(words: Sequence[str]) -> int:
        results = Path(words[words.index("--results") + 1])
        write_results(results, seeds=2, vpn=("openvpn_tcp",), pep=("A",), loss=("1",))
        return 1

    (made,) = remake.remake(["matrix"], tmp_path / "runs", tmp_path / "reports", call)
    # The made-up leo_loss with CUBIC was not run.
    assert made == remake.Made("matrix", False, "2 of 12 runs were not made")


def test_unknown_names_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no campaign fulll; there are full, matrix"):
        remake.main(["fulll", "--results", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_it_says_how_long_it_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert remake.main(["post_quantum", "--dry-run", "--results", str(tmp_path)]) == 0
    head, line, total = capsys.readouterr().out.splitlines()
    runs, wall_s = line.split()[1:3]
    assert "runs to do" in head and runs == "45"
    table = pyarrow.parquet.read_table(REPORTS / "post_quantum/results.parquet")
    measured_s = table["wall_s"].to_pylist()
    assert min(measured_s) < float(wall_s) < max(measured_s)
    assert total.startswith("about ")
