# SPDX-License-Identifier: GPL-3.0-or-later
"""Platforms: defaults with a source for each line, which a user's own values win over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import platforms_table
import pytest
from helpers.fake_engine import Transfers
from helpers.made_up import write_results

from openbach_run.campaign import engines
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.notes import notes_of
from openbach_run.campaign.platforms import PLATFORM, read_platforms
from openbach_run.campaign.reading import plan
from openbach_run.campaign.request import campaigns_of
from openbach_run.catalog import Catalog
from openbach_run.commands import main
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import Package, load_packages
from openbach_run.paths import LIBRARY, REPOSITORY
from openbach_run.report.cells import read_campaigns
from openbach_run.results.record import Record

CATALOG = Catalog()
PACKAGES = load_packages([REPOSITORY / "jobs"], CATALOG)
REPORT = "assumed: as the report has it"
LINE = "{{name: {}, value: {}, source: '{}'}}"
OPENVPN = "cipher=AES-256-CBC;mssfix=1450;options=--auth SHA256 --txqueuelen 100"


def planned(scenario: str, *settings: str, packages: Mapping[str, Package] = PACKAGES) -> Campaign:
    return plan(REPOSITORY / f"scenarios/{scenario}.yml", settings, (1,), packages)


def platform(folder: Path, *lines: str) -> dict[str, Package]:
    """The jobs, with a platform `mine` of these lines."""
    (folder / "platforms").mkdir()
    text = "\n".join(["description: mine", "lines:", *(f"  - {line}" for line in lines)])
    (folder / "platforms/mine.yml").write_text(text + "\n")
    return load_packages([REPOSITORY / "jobs"], Catalog.beside_ours([folder]))


def test_ours_changes_nothing() -> None:
    usual, ours = planned("geo_loss"), planned("geo_loss", "platform=ours")
    assert usual.cells == ours.cells
    assert {cell["platform"] for cell in usual.cells} == {"ours"}


def test_a_platform_is_a_column_and_its_values_are_what_runs() -> None:
    both = "platform=ours,openbach_2021"
    campaign = planned("geo", both, "vpn=none,openvpn_udp,openvpn_tcp", "cc=cubic")
    found = {(cell["vpn"], cell["platform"]): cell for cell in campaign.cells}
    names = ("size", "queue", "buffer", "vpn_values")
    had = {key: tuple(cell[name] for name in names) for key, cell in found.items()}
    assert had["openvpn_tcp", "ours"] == ("30M", "fifo", "none", "none")
    assert had["none", "openbach_2021"] == ("31457280", "netem", "10000p", "none")
    assert had["openvpn_udp", "openbach_2021"][-1] == OPENVPN
    assert had["openvpn_tcp", "openbach_2021"][-1] == f"{OPENVPN};nagle=on"
    assert notes_of(campaign) == []


def test_what_a_user_gives_wins_and_is_said() -> None:
    words = ("platform=openbach_2021", "vpn=openvpn_udp", "cc=cubic")
    campaign = planned("geo", *words, "size=30M", "vpn.cipher=AES-128-CBC")
    (cell,) = campaign.cells
    assert cell["size"] == "30M"
    assert cell["vpn_values"] == OPENVPN.replace("256-CBC", "128-CBC")
    has = "platform=openbach_2021 has"
    assert notes_of(campaign) == [
        f"{has} size=31457280; here it is 30M",
        f"{has} vpn.cipher=AES-256-CBC; here it is AES-128-CBC",
    ]


def test_a_user_may_leave_the_vpn_as_it_is() -> None:
    words = ("platform=openbach_2021", "vpn=openvpn_udp", "cc=cubic", "vpn.cipher=default")
    campaign = planned("geo", *words)
    assert campaign.cells[0]["vpn_values"] == "none"
    assert len(notes_of(campaign)) == 3


def test_a_scenario_without_a_value_leaves_the_line_out() -> None:
    (cell,) = planned("lan_ping", "platform=openbach_2021", "vpn=none").cells
    assert (cell["platform"], "size" in cell) == ("openbach_2021", False)


def test_a_users_own_file_comes_by_with(tmp_path: Path) -> None:
    slow = LINE.format("rate", "5M", REPORT)
    packages = platform(tmp_path, slow.replace("}", ", if: vpn == 'none'}"))
    words = ("platform=mine", "vpn=none,wireguard", "cc=cubic")
    cells = planned("geo", *words, packages=packages).cells
    assert [cell["rate"] for cell in cells] == ["5M", "10M"]


WRONG = [
    (LINE.format("siez", "30M", REPORT), "lines.0: name: no scenario has siez; did you mean size?"),
    (LINE.format("size", "30M", "somewhere"), "lines.0.source"),
    (LINE.format("size", "30M", "CNES/openbach a.py 35c0e2a"), "lines.0.source"),
    (LINE.format("platform", "ours", REPORT), "no scenario has platform"),
    ("{name: size, value: 30M}", "lines.0"),
    ("{name: size, value: 1, if: 'vpn =', source: 'assumed: because of it'}", "is no condition"),
    (LINE.format("vpn.nagle", '"on"', REPORT), "nagle=on: boringtun does not read it"),
    (
        LINE.format("vpn.nagle", "maybe", REPORT).replace("}", ", if: vpn == 'openvpn_tcp'}"),
        "on or off",
    ),
]


@pytest.mark.parametrize(("line", "words"), WRONG)
def test_every_line_is_checked(tmp_path: Path, line: str, words: str) -> None:
    packages = platform(tmp_path, line)
    with pytest.raises(InputError, match=r"mine\.yml") as told:
        planned("geo", "platform=mine", "vpn=none", packages=packages)
    assert words in str(told.value)


def test_a_line_twice_is_refused(tmp_path: Path) -> None:
    packages = platform(tmp_path, *[LINE.format("size", "30M", REPORT)] * 2)
    with pytest.raises(InputError, match="size is there twice"):
        planned("geo", "platform=mine", packages=packages)


def test_a_wrong_value_is_refused_in_its_cell(tmp_path: Path) -> None:
    packages = platform(tmp_path, LINE.format("rate", "fast", REPORT))
    with pytest.raises(InputError, match="rate"):
        planned("geo", "platform=mine", packages=packages)


def test_a_platform_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="did you mean openbach_2021"):
        planned("geo", "platform=openbach_2020")


def test_every_line_of_ours_has_a_source() -> None:
    names = CATALOG.all("platforms")
    assert {*names} == {"ours", "openbach_2021", "openbach_2021_offloads"}
    found = read_platforms(names, (), names, CATALOG.all("vpn-configs"))
    first, second = found["openbach_2021"], found["openbach_2021_offloads"]
    # The one has the other's lines, but for that of the network cards.
    assert [(one, other) for one, other in zip(first, second, strict=True) if one != other] == [
        (queue := first[5], replace(queue, value="netem_gro"))
    ]


def test_the_command_runs_what_the_platform_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Transfers()
    monkeypatch.setattr(engines, "VirtualEngine", engine.engine)
    monkeypatch.chdir(tmp_path)
    words = ["geo", "vpn=none", "cc=cubic", "platform=openbach_2021", "--seeds", "1", "--quiet"]
    assert main.main(words) == 0
    csv = (tmp_path / "results/geo/results.csv").read_text()
    assert "openbach_2021" in csv and "31457280" in csv


def test_the_campaign_has_every_cell_under_every_platform() -> None:
    path = LIBRARY / "campaigns/platforms.yml"
    campaigns = campaigns_of(path, [], None, PACKAGES, CATALOG)
    cells = [cell for one in campaigns for cell in one.cells]
    by_platform = dict.fromkeys(("ours", "openbach_2021", "openbach_2021_offloads"), 0)
    for cell in cells:
        by_platform[cell["platform"]] += 1
    assert {*by_platform.values()} == {302}


def test_the_table_judges_each_platform_by_its_own_cells(tmp_path: Path) -> None:
    """The second platform has the same runs with 30 MiB, and half of the times with OpenVPN TCP."""
    campaigns = read_campaigns([write_results(tmp_path, cc=("cubic",), loss=("0",))])
    ours = [replace(one, values={**one.values, PLATFORM: "ours"}) for one in campaigns.cells]
    theirs = []
    for cell in campaigns.cells:
        values = {**cell.values, PLATFORM: "openbach_2021", "size": "31457280"}
        half = 0.5 if cell.values["vpn"] == "openvpn_tcp" else 1.0
        runs = [replace(one, record=slower(one.record, half)) for one in cell.runs]
        theirs.append(replace(cell, values=values, runs=runs))
    table = platforms_table.table_of(replace(campaigns, cells=[*ours, *theirs]))
    assert table.header[3:] == ["ours", "openbach_2021"]
    against_none = [row for row in table.rows if row[0] == "C2" and "no VPN" in row[1]]
    assert [row[2:] for row in against_none] == [
        [orbit, "reproduced 1/1 >", "not 0/1 <"] for orbit in ("GEO", "LEO")
    ]
    assert "openbach_2021: 0 of" not in table.note


def slower(record: Record | None, factor: float) -> Record | None:
    """A record whose transfer took so many times as long."""
    if record is None or not record.measures:
        return record
    time_s = factor * record.measures["transfer_time_s"]
    return replace(record, measures={**record.measures, "transfer_time_s": time_s})
