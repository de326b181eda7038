# SPDX-License-Identifier: GPL-3.0-or-later
"""Each command of each page is run, with a guest or an engine that is made up, or has a reason why not."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from helpers import own_files
from helpers.fake_engine import Transfers

from openbach_run.campaign import engines
from openbach_run.commands.main import main
from openbach_run.paths import REPOSITORY

PAGES = [
    *(REPOSITORY / name for name in ("README.md", "docs/CONTRIBUTING.md")),
    *sorted((REPOSITORY / "docs").rglob("[!C]*.md")),
]
PROGRAM = r"(?:\$ )?((?:\./|artifact/)?openbach(?:-run)? |make |tools/|sudo |git |python3 |chmod )"
WITH_A_GUEST = {
    "captures.md": "guest/test_captures.py",
    "ci.md": "guest/test_prompt_docs.py",
    "congestion-controls.md": "guest/test_add_control.py",
    "guide.md": "guest/test_guide.py",
    "jobs.md": "guest/test_add_job.py",
    "look-around.md": "guest/test_prompt_docs.py",
    "satellites.md": "guest/test_add_satellite.py",
    "scenarios.md": "guest/test_add_scenario.py",
}
"""Page → the test that runs its lines `./openbach-run …`, some of them with a smaller sweep."""
NOT_RUN = {
    r"\./openbach-run (.*--controller|package --install|collect|.*--engine controller)": (
        "a real platform: `make openbach` installs, runs and collects on one"
    ),
    r"\./openbach-run (.*--engine native|.*--clock)": "the nightly part native runs both",
    r"\./openbach-run .*--scheduler": "tests/guest/test_cluster.py runs a scheduler of its own",
    r"\./openbach-run (serve|shell)": "goes on until it is ended: tests/pages, test_shell.py",
    r"\./openbach-run exec .*jitter_ms": "tests/guest/test_exec.py runs exec",
    r"(\./openbach-run|artifact/openbach) artifact": "tests/guest/test_artifact.py, nightly",
    r"\./openbach-run bundle|\./openbach geo_loss": "make try-install, and the part bundles",
    r"\./openbach-run (.*pep_program=|calibrate)": "programs or hours of this machine",
    r"\./openbach-run .*(link_file=|vpn\.config=|mine/scenarios/small)": (
        "files of the reader: test_values.py, test_vpn_config.py, test_add_topology.py"
    ),
    r"openbach-run (link|rcs2 orbit=mine|leo orbit=mine)": (
        "measurements of the reader: tests/satlink runs each with data of its own"
    ),
    r"openbach-run (leo|leo_reconnect|library/campaigns|library/topologies)": "the settings of a published table",
    r"(git|sudo|chmod) ": "not our program",
    r"make openbach|tools/try-empty|make try-install|tools/deb": "minutes, as root",
    r"python3 tools/bench/": "tools/bench/ is tried by hand, on an idle machine",
    r"\./openbach-run export results/matrix": "tests/unit/test_cli.py exports results of its own",
    r"\./openbach-run .*--locked": "tests/unit/test_lock.py refuses and accepts",
    r"\./openbach-run small": "tests/guest/test_add_topology.py",
}
"""Beginning of a line → why no test runs it as it stands there."""


def lines_of(page: Path) -> list[str]:
    """Return the commands in the blocks of code of a page."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.M | re.S)
    lines = "\n".join(text for kind, text in blocks if kind in ("sh", "text", "")).splitlines()
    return [
        line.removeprefix("$ ").split("  #")[0].strip() for line in lines if re.match(PROGRAM, line)
    ]


def is_run_with_a_guest(page: Path, line: str) -> bool:
    return page.name in WITH_A_GUEST and line.startswith("./openbach-run ")


def reason_for(line: str) -> str | None:
    return next((why for start, why in NOT_RUN.items() if re.match(start, line)), None)


LINES = sorted({(page, line) for page in PAGES for line in lines_of(page)})
HERE = [
    (page, line)
    for page, line in LINES
    if not is_run_with_a_guest(page, line) and reason_for(line) is None
]


def test_a_line_that_is_not_run_has_a_reason() -> None:
    assert len(LINES) > 100
    strange = [line for _, line in HERE if not line.startswith("./openbach-run ")]
    assert not strange, "run it, or say in NOT_RUN why not"
    idle = [start for start in NOT_RUN if not any(re.match(start, line) for _, line in LINES)]
    assert not idle, "no page has such a line any more"


def test_the_tests_named_here_read_the_pages() -> None:
    for page, test in WITH_A_GUEST.items():
        assert page in (REPOSITORY / "tests" / test).read_text(), page


def run_here(page: Path, line: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a line with one seed where the files of its page are; return the exit code."""
    monkeypatch.setattr(engines, "VirtualEngine", Transfers().engine)
    own_files.write(page, place)
    for entry in REPOSITORY.iterdir():
        if entry.name not in ("results", "reports"):
            (place / entry.name).symlink_to(entry)
    monkeypatch.chdir(place)
    words = shlex.split(line)[1:]
    if words[0] == "report":
        names = [word for word in words if word.startswith("results/")]
        for name in names:
            campaign = Path(f"library/campaigns/{Path(name).name}.yml")
            scenario = str(campaign) if campaign.exists() else Path(name).name
            assert main([scenario, "--seeds", "1", "--quiet", "--results", name]) in (0, 1)
    elif words[0] not in ("link", "--check", "package"):
        words += [] if "--seeds" in words else ["--seeds", "1"]
        words += ["--quiet"]
    return main(words)


@pytest.mark.nightly
@pytest.mark.parametrize(("page", "line"), HERE, ids=[line for _, line in HERE])
def test_a_line_does_what_it_says_without_an_error(
    page: Path, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is made up: 1 is the code of runs without what only a guest measures."""
    assert run_here(page, line, tmp_path, monkeypatch) in (0, 1)
