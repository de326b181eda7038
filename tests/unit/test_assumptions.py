# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for the assumptions under which claims hold, on a made-up platform: it finds those that the claims were made
with."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from made_up import write_results

from openbach_run.additions import Additions
from openbach_run.campaign.plan import campaign_of, read_with_subs
from openbach_run.commands import explain, main
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import load_packages
from openbach_run.paths import REPOSITORY
from openbach_run.report.assumptions import (
    Alternative,
    Assumption,
    Choice,
    as_claimed,
    effects,
    needed,
    read_assumptions,
    regions,
    relevant,
    scenarios_under,
    search,
)
from openbach_run.report.cells import Campaigns, Cell, Run
from openbach_run.report.claims import HOLDS, Claim, judge, read_claims
from openbach_run.report.explained import assumptions_of
from openbach_run.results.record import Record
from openbach_run.yaml_files import read_yaml

ASSUMPTIONS = REPOSITORY / "reports/assumptions.yml"
MADE_UP = {
    "buffer": Assumption("", "1", {"2": Alternative({"buffer": "2"}), "4": Alternative({"buffer": "4"})}),
    "direction": Assumption("", "both", {"one": Alternative({"direction": "one"})}),
    "colour": Assumption("", "red", {"blue": Alternative({"colour": "blue"})}),
    "names": Assumption("", "as told", {"swapped": Alternative(read={"pep": {"A": "B", "B": "A"}})}),
}
OURS = {"buffer": "1", "direction": "both", "colour": "red"}
HIDDEN = {"buffer": "4", "direction": "one", "names": "swapped"}
SEEDS = range(1, 6)


def time_s(vpn: str, pep: str, under: Mapping[str, str], seed: int) -> float:
    """A made-up platform: the buffer acts on tunnels, the direction on proxies, and both together on tunnels with proxy A.
    Nothing depends on the colour."""
    buffer = float(under["buffer"])
    taken = 20.0 + (vpn != "none") * 3 * buffer + (pep == "B") * (4 if under["direction"] == "one" else -4)
    both = vpn != "none" and pep == "A" and under["direction"] == "one"
    return (taken + both * 5 * buffer) * (1 + seed / 1000)


def campaigns(choice: Choice) -> Campaigns:
    """What the made-up platform gives under a choice, named as the claims name it."""
    (entry,) = scenarios_under(
        [{"scenario": "geo", "values": {"vpn": ["none", "tunnel"], "pep": ["none", "A", "B"]}}], choice, MADE_UP
    )
    names = {**{name: [value] for name, value in OURS.items()}, **entry["values"]}
    cells = []
    for values in product(*names.values()):
        arguments = dict(zip(names, values, strict=True))
        cell = Cell({"scenario": "geo", "orbit": "geo", **arguments})
        for seed in SEEDS:
            measures = {"transfer_time_s": time_s(arguments["vpn"], arguments["pep"], arguments, seed)}
            record = Record("", "geo", arguments, seed, "Finished Ok", None, 1.0, 1.0, "", dict(measures), "", {}, ())
            cell.runs.append(Run(seed, Path(), record))
        cells.append(cell)
    return as_claimed(Campaigns([], cells), choice, MADE_UP)


def claims_of(hidden: Choice) -> dict[str, dict[str, Any]]:
    """Claims that are true under a choice: each ratio within 2 %."""
    true = {(cell.values["vpn"], cell.values["pep"]): cell for cell in campaigns(hidden).cells}
    bare = true["none", "none"].estimate("transfer_time_s")
    claims = {}
    for number, ((vpn, pep), cell) in enumerate(true.items()):
        found = cell.estimate("transfer_time_s")
        if (vpn, pep) != ("none", "none") and found and bare:
            ratio = found.median / bare.median
            part = {
                "says": f"{vpn} {pep}",
                "cell": {"vpn": [vpn], "pep": [pep]},
                "against": {"vpn": ["none"], "pep": ["none"]},
                "least": 0.98 * ratio,
                "most": 1.02 * ratio,
            }
            claims[f"C{number}"] = {"statement": "", "parts": [part]}
    return claims


def judged_by(claims: Mapping[str, Any]) -> Any:
    def judged(choice: Choice) -> list[Claim]:
        here = campaigns(choice)
        return [judge(name, one, here) for name, one in claims.items()]

    return judged


def test_the_assumptions_that_claims_were_made_with_are_found() -> None:
    found = search(MADE_UP, judged_by(claims_of(HIDDEN)))
    assert found.whole
    assert found.best.choice == HIDDEN
    assert all(one.verdict == HOLDS for claim in found.best.claims for one in claim.findings)
    assert len(found.tried) < 24, "fewer than all combinations"
    assert len({frozenset(one.choice.items()) for one in found.tried}) == len(found.tried)


@pytest.mark.parametrize("hidden", [{}, {"buffer": "2"}, {"direction": "one"}, {"names": "swapped", "buffer": "2"}])
def test_of_fewer_hidden_ones_no_more_are_found(hidden: dict[str, str]) -> None:
    assert search(MADE_UP, judged_by(claims_of(hidden))).best.choice == hidden


def test_what_drives_a_claim_and_where_it_holds_is_said() -> None:
    found = search(MADE_UP, judged_by(claims_of({"buffer": "2"})))
    key = next(key for key in regions(found) if key[1] == "tunnel none")
    assert regions(found)[key] == "buffer: 2"
    assert {(one.assumption, one.alternative) for one in effects(found)[key]} == {("buffer", "2")}
    assert effects(found)[key][0].shift == pytest.approx(26 / 23)
    assert not any(one.assumption == "colour" for some in effects(found).values() for one in some)


def test_a_search_ends_when_its_time_is_over() -> None:
    left = iter([True, True, False])
    found = search(MADE_UP, judged_by(claims_of(HIDDEN)), lambda: next(left))
    assert not found.whole
    assert [one.choice for one in found.tried] == [{}, {"buffer": "2"}, {"buffer": "4"}]


def test_what_changes_nothing_when_screened_is_not_tried() -> None:
    """With one seed; of the rest everything is found all the same."""
    screened: list[Choice] = []

    def cheap(choice: Choice) -> list[Claim]:
        screened.append(choice)
        return judged_by(claims_of(HIDDEN))(choice)  # type: ignore[no-any-return]

    found = search(MADE_UP, judged_by(claims_of(HIDDEN)), screened=cheap)
    assert found.best.choice == HIDDEN
    assert found.without_effect == [{"colour": "blue"}]
    assert {"colour": "blue"} in screened and {"colour": "blue"} not in [one.choice for one in found.tried]


def test_a_time_may_include_another_measure() -> None:
    later = {"time": Assumption("", "", {"SYN": Alternative(add={"transfer_time_s": ["ttfb_s"]})})}
    record = Record(
        "", "geo", {}, 1, "Finished Ok", None, 1.0, 1.0, "", {"transfer_time_s": 28.0, "ttfb_s": 1.5}, "", {}, ()
    )
    ran = Campaigns([], [Cell({"scenario": "geo"}, [Run(1, Path(), record)])])
    (cell,) = as_claimed(ran, {"time": "SYN"}, later).cells
    assert cell.measured("transfer_time_s") == {1: 29.5}
    assert ran.cells[0].measured("transfer_time_s") == {1: 28.0}


def test_a_proxy_of_its_own_is_the_claims_proxy() -> None:
    """Cells that differ in the transport of the end hosts are compared although that of the proxy is fixed."""
    fixed = {"proxy": Assumption("", "", {"BBR": Alternative({"cc_pep": "bbr2"}, ("geo",))})}
    cells = [Cell({"scenario": name, "cc_pep": pep}) for name, pep in (("geo", "bbr2"), ("mixed", "bbr2"))]
    named = as_claimed(Campaigns([], cells), {"proxy": "BBR"}, fixed).cells
    assert [one.values["cc_pep"] for one in named] == ["same", "bbr2"]


def test_without_loss_nobody_asks_for_its_direction() -> None:
    assumptions = read_assumptions(ASSUMPTIONS)
    of_loss = {"loss rate", "loss direction", "loss in a row", "place of loss"}
    lossless, lossy = ([{"scenario": "geo", "values": {"loss": [loss]}}] for loss in (0, 1))
    assert assumptions.keys() - relevant(assumptions, lossless).keys() == of_loss
    assert relevant(assumptions, lossy).keys() == assumptions.keys()


def test_our_assumptions_can_be_run() -> None:
    """Each alternative alone: its values are those that the scenarios take."""
    assumptions = read_assumptions(ASSUMPTIONS)
    content = read_yaml(REPOSITORY / "campaigns/claims.yml")["scenarios"]
    additions = Additions.beside_ours([explain.ALTERNATIVES])
    packages = load_packages(additions.jobs, additions)
    read = {
        name: read_with_subs(additions.all("scenarios")[name], packages)
        for name in {one["scenario"] for one in content}
    }
    for name, one in assumptions.items():
        for value in one.alternatives:
            for entry in scenarios_under(content, {name: value}, assumptions):
                values = {key: tuple(some) for key, some in entry["values"].items()}
                campaign_of(Path(name), *read[entry["scenario"]], values, (1,), packages)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "should have assumptions by name"),
        ("a: {asks: b}", "a: should have the keys asks, ours, alternatives"),
        ("a: {asks: b, ours: c, alternatives: {d: {sets: {}}}}", "a.alternatives.d: should have some of the keys"),
        ("a: {asks: b, ours: c, alternatives: {d: {}}}", "a.alternatives.d: should have some of the keys"),
    ],
)
def test_wrong_files_are_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(text)
    with pytest.raises(InputError, match=words):
        read_assumptions(tmp_path / "a.yml")


def test_alternatives_that_read_the_same_argument_act_together() -> None:
    """And only where a scenario of the campaign sweeps it: mixed_cc has cc as a value of its own."""
    assumptions = read_assumptions(ASSUMPTIONS)
    choice = {"BBRv2": "version 3", "CUBIC": "without", "ends of the PEP": "both", "positions of the PEP": "A outside"}
    swept, fixed = {"cc": ["cubic", "cubic_nohystart", "bbr2"], "pep": ["none", "A", "B"]}, {"loss": [1]}
    scenarios = [{"scenario": "geo_loss", "values": swept}, {"scenario": "mixed_cc", "values": fixed}]
    one, other = (entry["values"] for entry in scenarios_under(scenarios, choice, assumptions))
    assert one == {"cc": ["cubic_nohystart", "cubic", "bbr3"], "pep": ["none", "B_double", "A_double"]}
    assert other == {"loss": ["1"]}
    ran = [Cell({"cc": cc, "pep": pep}) for cc, pep in zip(one["cc"], one["pep"], strict=True)]
    named = [cell.values for cell in as_claimed(Campaigns([], ran), choice, assumptions).cells]
    assert named == [{"cc": cc, "pep": pep} for cc, pep in zip(swept["cc"], swept["pep"], strict=True)]


def test_a_claim_needs_its_own_cells_only() -> None:
    claims = read_claims(REPOSITORY / "reports/claims.yml")
    content = read_yaml(REPOSITORY / "campaigns/claims.yml")["scenarios"]
    (geo, leo) = needed(content, [claims["C3"]])
    assert (geo["scenario"], leo["scenario"]) == ("geo_loss", "leo_loss")
    assert geo["values"] == {
        "vpn": ["wireguard", "openvpn_udp"], "pep": ["none", "B", "A"], "cc": ["cubic", "cubic_nohystart", "bbr2"], "loss": [0],
    }  # fmt: skip
    assert {one["scenario"] for one in needed(content, [claims["C9"], claims["C11"]])} == {"multi_flow"}


def test_the_command_says_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The runs are made up: transfers without a proxy take 28 s, those with one in B 27 s."""
    ran: list[str] = []

    def made_up(folder: Path, scenarios: Any, seeds: str, quiet: bool) -> None:
        ran.append(folder.name)
        if folder.exists():
            return
        cells = {"vpn": ("wireguard", "openvpn_udp"), "pep": ("none", "B", "A"), "cc": ("cubic",), "loss": ("0",)}
        write_results(folder, int(seeds), **cells)

    monkeypatch.setattr(explain, "run_campaign", made_up)
    (tmp_path / "open.yml").write_text(
        "buffer: {asks: How large?, ours: 1, alternatives: {two: {set: {buffer_bdp: 2}}}}"
    )
    options = ["--assumptions", str(tmp_path / "open.yml"), "--results", str(tmp_path / "r"), "-o", str(tmp_path / "o")]
    assert main.main(["explain", "C3", *options, "--quiet"]) == 0
    assert ran == ["ours", "buffer_two"]
    assert "4 of 4 findings hold" in capsys.readouterr().out
    assert (
        "| C3 | WireGuard with PEP B against OpenVPN UDP | GEO | holds | holds | under all"
        in (tmp_path / "o/assumptions.md").read_text()
    )
    explained = assumptions_of(tmp_path / "o")
    assert explained is not None and explained.joint == "all as ours"
    assert next((one.part, one.orbit, one.ours) for one in explained.of("C3")) == (
        "WireGuard with PEP B against OpenVPN UDP", "geo", "holds",
    )  # fmt: skip
    assert main.main(["explain", "C3", *options, "--quiet", "--budget", "0s"]) == 1
    assert "larger one goes on" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"), [(["C99"], "no such claim"), (["--budget", "soon"], "--budget soon: give a time like 90s")]
)
def test_bad_input_to_the_command(words: list[str], told: str, capsys: Any) -> None:
    assert main.main(["explain", *words]) == 2
    assert told in capsys.readouterr().err
