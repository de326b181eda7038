# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict says what was compared with what, and nothing poses as a reproduction.

P1 and P3 were "reproduced" by WireGuard beside WireGuard, and a MASQUE VPN was judged by OpenVPN.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.made_up import write_results

from openbach_run.report import published
from openbach_run.report.cells import Campaigns, read_campaigns
from openbach_run.report.claims import HOLDS, OTHER, Claim, judge, read_claims
from openbach_run.report.csv_files import claims_csv
from openbach_run.report.verdicts import claims_table, lines_table, undecided, verdict_of
from openbach_run.report.write import CLAIMS, PUBLISHED
from openbach_run.results.by_engine import NATIVE

PROXIES = ["P1", "P2", "P3", "P4", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "E1", "E2", "E3", "E4"]
"""Claims about what is something else here."""
REASON = "published: a MASQUE VPN; ours: OpenVPN over MPTCP"
CLAIM = {
    "statement": "It takes as long.",
    "parts": [
        {
            "says": "WireGuard against no VPN",
            "cell": {"scenario": ["geo_loss"], "vpn": ["wireguard"]},
            "against": {"vpn": ["none"]},
            "most": 1.1,
        }
    ],
}


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Campaigns:
    folder = tmp_path_factory.mktemp("comparable")
    return read_campaigns([write_results(folder, vpn=("none", "wireguard"), pep=("none",))])


def test_values_that_a_platform_gives_a_vpn_do_not_part_it_from_others(
    campaigns: Campaigns,
) -> None:
    """Only its OpenVPN has a cipher of its own, say: the claim compares it with no VPN all the same."""
    own = {"none": "none", "wireguard": "mtu=1400"}

    def of(platform: str) -> Campaigns:
        cells = [
            replace(
                cell,
                values={**cell.values, "platform": platform, "vpn_values": own[cell.values["vpn"]]},
            )
            for cell in campaigns.cells
        ]
        return replace(campaigns, cells=cells)

    assert judge("M1", CLAIM, of("openbach_2021")).verdicts == {"geo": HOLDS}
    assert judge("M1", CLAIM, of("ours")).verdicts != {"geo": HOLDS}


def judged(campaigns: Campaigns) -> Claim:
    return judge("M1", {**CLAIM, "not_comparable": REASON}, campaigns)


def test_claims_about_something_else_are_not_comparable() -> None:
    claims = read_claims(CLAIMS)
    assert [name for name, one in claims.items() if one.get("not_comparable")] == PROXIES
    for name in PROXIES:
        said = claims[name]["not_comparable"]
        assert said.startswith("published: ") and "; ours: " in said, name


def test_a_claim_that_is_not_comparable_is_shown_and_decides_nothing(campaigns: Campaigns) -> None:
    assert judge("M1", CLAIM, campaigns).verdicts == {"geo": HOLDS}
    claim = judged(campaigns)
    assert claim.verdicts == {"geo": OTHER}
    assert claim.is_told and undecided([claim]) == {}
    assert verdict_of(claim) == f"GEO: {OTHER}: {REASON}"
    ((word, _, found),) = lines_table([claim]).rows
    assert word == f"– {OTHER}" and REASON in found and "claimed" not in found
    assert {row[-1] for row in claims_table([claim]).rows} == {OTHER}
    rows = claims_csv([claim]).splitlines()[1:]
    assert rows and all(row.endswith(f"not decided,{REASON}") for row in rows)


def test_each_published_document_says_what_stands_for_what() -> None:
    ours = published.ours(PUBLISHED)
    judged_by = {one.get("document", "satcom") for one in read_claims(CLAIMS).values()}
    titles = published.titles(PUBLISHED)
    assert [one for one in judged_by if not ours[titles[one]]] == []


@pytest.mark.parametrize("name", ["post_quantum", "multipath"])
def test_a_mark_that_is_not_of_virtual_time_stands_beside_results_of_any_engine(
    name: str, tmp_path: Path
) -> None:
    """On a machine's own kernel nothing said that the published VPN is another one."""
    described = published.read(PUBLISHED)[name]["tables"][0]
    values = {key: str(some[0]) for key, some in described["cell"].items()}
    runs = []
    for vpn in described["figures"]:
        given = {**values, "vpn": vpn}
        given.pop("scenario")
        runs.append({"run_id": vpn, "scenario": values["scenario"], "arguments": given, "seed": 1})
    asked = {"command": "./openbach-run x", "runs": runs, "apart": {"engine": NATIVE}}
    (tmp_path / "campaign.json").write_text(json.dumps(asked))
    (tmp_path / "runs").mkdir()
    found = published.tables(read_campaigns([tmp_path]), PUBLISHED)
    assert found
    for one in found.values():
        assert "NOT COMPARABLE as they are: the published VPN" in one.note
