# SPDX-License-Identifier: GPL-3.0-or-later
"""What a newcomer types in the first half hour, and what comes of it."""

from __future__ import annotations

import csv
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import own_files
from helpers.fake_engine import Transfers

from openbach_run.campaign import engines
from openbach_run.campaign.options import Options
from openbach_run.campaign.request import ours, path_of, plan_of
from openbach_run.catalog import KINDS as CATALOGED
from openbach_run.catalog import Catalog
from openbach_run.commands.listing import KINDS
from openbach_run.commands.main import main
from openbach_run.paths import LIBRARY, REPOSITORY
from openbach_run.units import plain


@pytest.mark.parametrize(
    ("text", "unit", "taken"),
    [
        ("30MB", "bytes", "30M"),
        ("30 MB", "bytes", "30M"),
        ("300KB", "bytes", "300k"),
        ("1MiB", "bytes", "1048576"),
        ("500B", "bytes", "500"),
        ("20Mbit/s", "bit/s", "20M"),
        ("20Mbps", "bit/s", "20M"),
        ("20Mbit", "bit/s", "20M"),
        ("2.5MB/s", "bit/s", "20000000"),
        ("3Mbit/s", "kbit/s", "3000"),
        ("250ms", "ms", "250"),
        ("0.25s", "ms", "250"),
        ("500us", "ms", "0.5"),
        ("500ms", "s", "0.5"),
        ("2min", "s", "120"),
        ("2%", "%", "2"),
        ("2", "%", "2"),
        ("30MB", "ms", "30MB"),
        ("20M", "bit/s", "20M"),
        ("1..2ms", "ms", "1..2ms"),
        ("none", "bytes", "none"),
    ],
)
def test_a_number_with_its_unit_is_what_the_argument_takes(
    text: str, unit: str, taken: str
) -> None:
    assert plain(text, unit) == taken


def test_units_as_people_write_them_are_the_same_runs() -> None:
    words = "vpn=none size=30MB rate=20Mbit/s delay_ms=0.25s loss=1%,2% buffer=300kB series_s=500ms"
    natural = plan_of("geo", words.split(), "1", Options()).campaigns[0]
    words = "vpn=none size=30M rate=20M delay_ms=250 loss=1,2 buffer=300kB series_s=0.5"
    assert natural.cells == plan_of("geo", words.split(), "1", Options()).campaigns[0].cells


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("geo size=30ms", "size=30ms: size is from 1 to 1000G bytes"),
        ("rcs2 pep=B_double pep_ask=abc", "pep_ask=abc: pep_ask is none, or from 0 to 10G bit/s"),
        ("rcs2 pep=B_double pep_ask=2M,-5", "pep_ask=-5: pep_ask is none, or from 0"),
        ("matrix / -o /absent", "no results.parquet in /; `openbach-run export DIR --parquet`"),
        ("geo size=30M,30MB", "an empty value or one given twice"),
        ("serv", "did you mean the command serve?"),
        ("repot results", "did you mean the command report?"),
        ("geo_los", "did you mean geo_loss?"),
        ("try --limit 10s", "'10s' should be a number alone, without a unit"),
        ("list vpn", "invalid choice: 'vpn'"),
    ],
)
def test_a_slip_is_answered_with_the_form_that_is_wanted(
    typed: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(shlex.split(typed))
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["lan", "star", "two_links", "long_thin", "coordinated"])
def test_the_scenario_of_a_topology_has_its_name(name: str) -> None:
    assert plan_of(name, [], "1", Options()).path.name == f"{name}.json"


def test_what_can_be_named_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*KINDS]
    assert {kind for kind, _ in KINDS.values()} == {*CATALOGED} - {"jobs", "quic-stacks"}
    for word, (kind, _) in KINDS.items():
        assert main(["list", word]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == sorted(Catalog().all(kind))
        assert all(len(line.split()) > 1 for line in lines), f"{word}: one without a description"


def test_a_path_of_before_the_library_names_the_same_file() -> None:
    """Records and scripts have `campaigns/full.yml`."""
    for name in ("campaigns/full.yml", "topologies/lan.json"):
        assert path_of(name, Catalog()) == Path(ours(name)) == LIBRARY / name


def test_a_broken_entry_is_listed_beside_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "satellites").mkdir()
    (tmp_path / "satellites/mine.yml").write_text("{")
    assert main(["list", "satellites", "--with", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "mine " in out and "cannot be read" in out and "geo " in out


def test_a_help_that_nobody_reads_to_its_end_ends_quietly() -> None:
    """`openbach-run --help | head` said "Broken pipe"."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "openbach_run", "geo", "--help"]
    done = subprocess.run(command, check=False, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


def test_a_campaign_may_be_called_as_a_directory_here_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/pep.yml").write_text("scenarios: []\n")
    (tmp_path / "pep").mkdir()
    monkeypatch.chdir(tmp_path)
    assert path_of("pep", Catalog.beside_ours([tmp_path])) == tmp_path / "campaigns/pep.yml"


def test_the_help_of_a_scenario_has_its_arguments_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["geo", "--help"]) == 0
    out = capsys.readouterr().out
    assert "  ip=4\n" in out and "has to be given" not in out
    assert out.index("  vpn=none,wireguard,openvpn_udp,openvpn_tcp\n") < out.index(
        "  rate=preset\n"
    )
    assert "from 0 to 100 %" in out and "bytes" in out and "takes none, A, B," in out
    assert main(["full", "-h"]) == 0
    assert "A campaign: " in capsys.readouterr().out
    assert main(["geoo", "--help"]) == 2


def test_the_first_steps_as_the_page_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/start.md, read literally: the report of step 4 has what steps 1 and 3 have made."""
    monkeypatch.setattr(engines, "VirtualEngine", Transfers().engine)
    (tmp_path / "scenarios").symlink_to(REPOSITORY / "scenarios")
    monkeypatch.chdir(tmp_path)
    cells = set()
    *steps, report = own_files.commands("start.md")
    for line in steps:
        words = [*shlex.split(line)[1:], "--seeds", "1"]
        plan = plan_of(words[0], words[1:-2], "1", Options())
        cells |= {tuple(sorted(cell.items())) for cell in plan.campaigns[0].cells}
        assert main([*words, "--quiet"]) == 0
    assert report == "./openbach-run report results/geo_loss -o reports/mine"
    assert main(shlex.split(report)[1:]) == 0
    with Path("results/geo_loss/results.csv").open() as file:
        assert len([*csv.DictReader(file)]) == len(cells) > 40
    with Path("reports/mine/cells.csv").open() as file:
        names = ("vpn", "cc", "cc_pep", "pep", "loss", "size")
        told = {tuple(row[name] for name in names) for row in csv.DictReader(file)}
    assert len(told) == len(cells)
    assert {Path(f"reports/mine/report.{ending}").exists() for ending in ("html", "pdf")} == {True}
