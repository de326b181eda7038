# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for the assumptions under which claims hold, on a made-up platform.

It finds those that the claims were made with.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from helpers.records import record as finished

from openbach_run.campaign.plan import campaign_of
from openbach_run.campaign.reading import read_with_subs
from openbach_run.catalog import Catalog
from openbach_run.commands import explain, main
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import load_packages
from openbach_run.paths import REPOSITORY
from openbach_run.report.assumptions import (
    Alternative,
    Assumption,
    Choice,
    as_claimed,
    needed,
    read_assumptions,
    relevant,
    scenarios_under,
)
from openbach_run.report.cells import Campaigns, Cell, Run
from openbach_run.report.claims import HOLDS, Claim, judge, read_claims
from openbach_run.report.explained import assumptions_of, map_of
from openbach_run.report.search import (
    Search,
    Stop,
    Tried,
    drivers,
    effects,
    in_turn,
    regions,
    search,
)
from openbach_run.results.record import Record, Store
from openbach_run.yaml_files import read_yaml

ASSUMPTIONS = REPOSITORY / "reports/assumptions.yml"
MADE_UP = {
    "buffer": Assumption(
        "", "1", {"2": Alternative({"buffer": "2"}), "4": Alternative({"buffer": "4"})}
    ),
    "direction": Assumption("", "both", {"one": Alternative({"direction": "one"})}),
    "colour": Assumption("", "red", {"blue": Alternative({"colour": "blue"})}),
    "names": Assumption(
        "", "as told", {"swapped": Alternative(read={"pep": {"A": "B", "B": "A"}})}
    ),
}
OURS = {"buffer": "1", "direction": "both", "colour": "red"}
HIDDEN = {"buffer": "4", "direction": "one", "names": "swapped"}
SEEDS = range(1, 6)
JUDGING = (1, 2, 3, 4, 5)


def time_s(vpn: str, pep: str, under: Mapping[str, str], seed: int) -> float:
    """Return the time of a made-up platform, on which nothing depends on the colour.

    The buffer acts on tunnels, the direction on proxies, and both together on tunnels with proxy A.
    """
    buffer = float(under["buffer"])
    taken = (
        20.0
        + (vpn != "none") * 3 * buffer
        + (pep == "B") * (4 if under["direction"] == "one" else -4)
    )
    both = vpn != "none" and pep == "A" and under["direction"] == "one"
    return (taken + both * 5 * buffer) * (1 + seed / 1000)


def campaigns(choice: Choice) -> Campaigns:
    """What the made-up platform gives under a choice, named as the claims name it."""
    (entry,) = scenarios_under(
        [{"scenario": "geo", "values": {"vpn": ["none", "tunnel"], "pep": ["none", "A", "B"]}}],
        choice,
        MADE_UP,
    )
    names = {**{name: [value] for name, value in OURS.items()}, **entry["values"]}
    cells = []
    for values in product(*names.values()):
        arguments = dict(zip(names, values, strict=True))
        cell = Cell({"scenario": "geo", "orbit": "geo", **arguments})
        for seed in SEEDS:
            measures = {
                "transfer_time_s": time_s(arguments["vpn"], arguments["pep"], arguments, seed)
            }
            record = Record(
                "",
                "geo",
                arguments,
                seed,
                "Finished Ok",
                None,
                1.0,
                1.0,
                "",
                dict(measures),
                "",
                {},
                (),
            )
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


def test_what_lets_most_hold_is_tried_before_what_is_nearest() -> None:
    """One alternative brings the farthest claim much nearer, and breaks another by a little.

    By nearness alone a search of an hour found nothing under which more held than under its best
    single alternative.
    """
    changed = {"near": {"x": -9.7, "y": 0.4}, "one": {"z": -0.6}, "other": {"w": -0.7}}
    ours = {"x": 20.0, "y": 9.9, "z": 10.5, "w": 10.6}
    assumptions = {name: Assumption("", "no", {"yes": Alternative()}) for name in changed}
    parts = {vpn: {"says": vpn, "cell": {"vpn": [vpn]}, "most": 10, "margin": 0} for vpn in ours}
    claims = {vpn: {"statement": "", "parts": [part]} for vpn, part in parts.items()}

    def judged(choice: Choice) -> list[Claim]:
        cells = []
        for vpn, without in ours.items():
            taken = without + sum(changed[name].get(vpn, 0) for name in choice)
            record = Record(
                "",
                "geo",
                {},
                1,
                "Finished Ok",
                None,
                1.0,
                1.0,
                "",
                {"transfer_time_s": taken},
                "",
                {},
                (),
            )
            cells.append(
                Cell({"scenario": "geo", "orbit": "geo", "vpn": vpn}, [Run(1, Path(), record)])
            )
        return [judge(name, one, Campaigns([], cells)) for name, one in claims.items()]

    time_left = [True, True, True, True]
    found = search(assumptions, judged, lambda choice: bool(time_left and time_left.pop()))
    assert [one.held for one in found.tried] == [1, 0, 2, 2, 3]
    assert found.best.choice == {"one": "yes", "other": "yes"}
    assert search(assumptions, judged).best.choice == found.best.choice


@pytest.mark.parametrize(
    "hidden", [{}, {"buffer": "2"}, {"direction": "one"}, {"names": "swapped", "buffer": "2"}]
)
def test_of_fewer_hidden_ones_no_more_are_found(hidden: dict[str, str]) -> None:
    assert search(MADE_UP, judged_by(claims_of(hidden))).best.choice == hidden


def test_what_drives_a_claim_and_where_it_holds_is_said() -> None:
    found = search(MADE_UP, judged_by(claims_of({"buffer": "2"})))
    key = next(key for key in regions(found) if key[1] == "tunnel none")
    assert regions(found)[key] == "buffer: 2"
    changed = {(one.assumption, one.alternative): one for one in effects(found.tried)[key]}
    of_buffer = changed["buffer", "2"]
    assert (
        of_buffer.change.median == pytest.approx(26 / 23)
        and of_buffer.is_factor
        and of_buffer.more == 1
    )
    assert of_buffer.change.seeds == 5 and of_buffer.change.low is not None
    assert (
        changed["colour", "blue"].change.median == 1 and {"colour": "blue"} in found.without_effect
    )
    assert drivers(found)[0]["buffer", "2"] >= {(key[0], "geo")}
    ours = regions(search(MADE_UP, judged_by(claims_of({}))))
    assert (
        next(ours[key] for key in ours if key[1] == "tunnel none")
        == "ours, but not buffer: 2; or buffer: 4"
    )
    assert next(ours[key] for key in ours if key[1] == "none A") == "ours, but not names: swapped"
    together = regions(search(MADE_UP, judged_by(claims_of({"buffer": "2", "direction": "one"}))))
    assert (
        next(together[key] for key in together if key[1] == "tunnel A")
        == "buffer: 2 and direction: one"
    )


def test_where_a_claim_holds_is_what_several_seeds_say() -> None:
    """One seed had said that claims hold as ours, and under what; five did not."""
    claims = {
        "C1": {"statement": "", "parts": [{"says": "time", "cell": {"vpn": ["none"]}, "most": 10}]}
    }

    def tried(choice: Choice, *times_s: float) -> Tried:
        runs = [
            Run(
                seed,
                Path(),
                Record(
                    "",
                    "geo",
                    {},
                    seed,
                    "Finished Ok",
                    None,
                    1.0,
                    1.0,
                    "",
                    {"transfer_time_s": one},
                    "",
                    {},
                    (),
                ),
            )
            for seed, one in enumerate(times_s)
        ]
        cell = Cell({"scenario": "geo", "orbit": "geo", "vpn": "none"}, runs)
        return Tried(
            dict(choice), [judge(name, one, Campaigns([], [cell])) for name, one in claims.items()]
        )

    by_one = [tried({}, 9.0), tried({"buffer": "2"}, 12.0), tried({"queue": "codel"}, 9.0)]
    (key,) = by_one[0].findings
    assert regions(Search(by_one, True))[key] == "ours, but not buffer: 2"
    ours = tried({}, 11.0, 11.0, 11.0, 11.0, 9.0)
    assert regions(Search(by_one, True, again=[ours]))[key] == "none of what was tried", (
        "codel changed nothing"
    )
    holding = tried({}, 9.0, 9.0, 9.0, 9.0, 12.0)
    assert (
        regions(Search(by_one, True, again=[holding]))[key] == "ours, but not buffer: 2 (one seed)"
    )
    several = [ours, tried({"buffer": "2"}, 9.0, 9.0, 9.0, 9.0, 12.0)]
    assert regions(Search(by_one, True, again=several))[key] == "buffer: 2"


def test_what_there_was_no_time_to_run_again_is_not_the_answer() -> None:
    claims = claims_of(HIDDEN)
    found = search(MADE_UP, judged_by(claims))
    (other,) = (one for one in found.tried if one.choice == {"buffer": "4"})
    assert found.joint is found.best
    assert Search(found.tried, True, again=[found.tried[0]]).joint is found.best, (
        "only ours: nothing to say of others"
    )
    assert Search(found.tried, True, again=[found.tried[0], other]).joint is other
    assert Search(found.tried, True, again=[found.tried[0], other, found.best]).joint is found.best
    less = Tried(found.best.choice, found.tried[0].claims)
    judged = Search(found.tried, True, again=[found.tried[0], other, less])
    assert judged.joint is other, "the seeds that searched promised more than the others have"
    assert map_of(judged, "", "", "", "seed 101", "seeds 1 to 5").promising == "", "it was run"
    told = map_of(
        Search(found.tried, True, again=[found.tried[0], other]),
        "",
        "",
        "",
        "seed 101",
        "seeds 1 to 5",
    )
    assert told.joint == "buffer: 4" and "names: swapped" in told.promising and told.confirmed


def test_one_alternative_of_each_assumption_comes_first() -> None:
    assert in_turn(MADE_UP) == [
        ("buffer", "2"),
        ("direction", "one"),
        ("colour", "blue"),
        ("names", "swapped"),
        ("buffer", "4"),
    ]


def test_what_takes_too_long_is_left_out_and_said() -> None:
    """The rest is searched all the same."""
    found = search(MADE_UP, judged_by(claims_of(HIDDEN)), lambda choice: "direction" not in choice)
    assert not found.whole and found.untried == [{"direction": "one"}]
    assert found.best.choice.items() <= HIDDEN.items() and found.best.choice
    assert search(MADE_UP, judged_by(claims_of(HIDDEN)), lambda choice: False).tried[0].choice == {}


def test_a_choice_that_a_search_before_has_found_is_not_forgotten() -> None:
    """With another alternative a search goes another way.

    It did not come by the best that it had found.
    """
    forgotten = search(MADE_UP, judged_by(claims_of(HIDDEN)), lambda choice: len(choice) < 2)
    assert forgotten.best.choice != HIDDEN
    found = search(
        MADE_UP,
        judged_by(claims_of(HIDDEN)),
        lambda choice: len(choice) < 2 or choice == HIDDEN,
        [HIDDEN],
    )
    assert found.best.choice == HIDDEN


def test_who_judges_can_stop_the_search() -> None:
    def judged(choice: Choice) -> list[Claim]:
        if "colour" in choice:
            raise Stop
        return judged_by(claims_of(HIDDEN))(choice)  # type: ignore[no-any-return]

    found = search(MADE_UP, judged)
    assert not found.whole
    assert [one.choice for one in found.tried] == [{}, {"buffer": "2"}, {"direction": "one"}]


def test_the_effect_on_a_difference_is_a_difference() -> None:
    part = {
        "says": "d",
        "cell": {"vpn": ["tunnel"]},
        "against": {"vpn": ["none"]},
        "as": "difference",
        "most": 5,
    }
    claims = {"C1": {"statement": "", "parts": [part]}}
    (key,) = Tried({}, judged_by(claims)({})).findings
    tried = [Tried(dict(choice), judged_by(claims)(choice)) for choice in ({}, {"buffer": "4"})]
    (changed,) = effects(tried)[key]
    assert not changed.is_factor
    assert changed.change.median == pytest.approx(9 * 1.003)  # 3 s for each BDP, of each seed


def test_an_effect_is_that_of_the_comparisons_that_change_sides() -> None:
    """The median over all was said.

    Of many of which one came to hold, a factor of 1.00 that drove a claim.
    """
    part = {"says": "all", "cell": {"pep": ["none", "A", "B"]}, "most": 22.5}
    claims = {"C1": {"statement": "", "parts": [part]}}
    choices: tuple[Choice, ...] = ({}, {"direction": "one"})
    tried = [Tried(dict(choice), judged_by(claims)(choice)) for choice in choices]
    (key,) = tried[0].findings
    (changed,) = effects(tried)[key]
    assert changed.more == -2
    assert changed.change.median == pytest.approx((24 / 16 + 27 / 19) / 2), (
        "of PEP B; of all six it is 1.11"
    )


def test_a_time_may_include_another_measure() -> None:
    later = {"time": Assumption("", "", {"SYN": Alternative(add={"transfer_time_s": ["ttfb_s"]})})}
    record = Record(
        "",
        "geo",
        {},
        1,
        "Finished Ok",
        None,
        1.0,
        1.0,
        "",
        {"transfer_time_s": 28.0, "ttfb_s": 1.5},
        "",
        {},
        (),
    )
    ran = Campaigns([], [Cell({"scenario": "geo"}, [Run(1, Path(), record)])])
    (cell,) = as_claimed(ran, {"time": "SYN"}, later).cells
    assert cell.measured("transfer_time_s") == {1: 29.5}
    assert ran.cells[0].measured("transfer_time_s") == {1: 28.0}


def test_a_proxy_of_its_own_is_the_claims_proxy() -> None:
    """Cells with other transports of the end hosts are compared.

    That of the proxy is fixed.
    """
    fixed = {"proxy": Assumption("", "", {"BBR": Alternative({"cc_pep": "bbr2"}, ("geo",))})}
    cells = [
        Cell({"scenario": name, "cc_pep": pep})
        for name, pep in (("geo", "bbr2"), ("mixed", "bbr2"))
    ]
    named = as_claimed(Campaigns([], cells), {"proxy": "BBR"}, fixed).cells
    assert [one.values["cc_pep"] for one in named] == ["same", "bbr2"]


def test_without_loss_nobody_asks_for_its_direction() -> None:
    assumptions = read_assumptions(ASSUMPTIONS)
    of_loss = {"loss rate", "loss direction", "loss in a row", "place of loss"}
    values = {"orbit": ["leo"], "vpn": ["openvpn_tcp"], "pep": ["A"], "cc": ["bbr2"]}
    lossless, lossy = (
        [{"scenario": "geo", "values": {**values, "loss": [loss]}}] for loss in (0, 1)
    )
    assert assumptions.keys() - relevant(assumptions, lossless).keys() == of_loss
    assert relevant(assumptions, lossy).keys() == assumptions.keys()


def test_our_assumptions_can_be_run() -> None:
    """Each alternative alone: its values are those that the scenarios take."""
    assumptions = read_assumptions(ASSUMPTIONS)
    content = read_yaml(REPOSITORY / "campaigns/claims.yml")["scenarios"]
    catalog = Catalog.beside_ours([explain.ALTERNATIVES])
    packages = load_packages(catalog.jobs, catalog)
    read = {
        name: read_with_subs(catalog.all("scenarios")[name], packages)
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
        (
            "a: {asks: b, ours: c, alternatives: {d: {sets: {}}}}",
            "a.alternatives.d: should have some of the keys",
        ),
        (
            "a: {asks: b, ours: c, alternatives: {d: {}}}",
            "a.alternatives.d: should have some of the keys",
        ),
    ],
)
def test_wrong_files_are_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(text)
    with pytest.raises(InputError, match=words):
        read_assumptions(tmp_path / "a.yml")


def test_alternatives_that_read_the_same_argument_act_together() -> None:
    """And only where a scenario of the campaign sweeps it.

    Mixed_cc has cc as a value of its own.
    """
    assumptions = read_assumptions(ASSUMPTIONS)
    choice = {
        "BBRv2": "version 3",
        "CUBIC": "without HyStart",
        "ends of the PEP": "both",
        "positions of the PEP": "A outside",
    }
    swept, fixed = (
        {"cc": ["cubic", "cubic_nohystart", "bbr2"], "pep": ["none", "A", "B"]},
        {"loss": [1]},
    )
    scenarios = [
        {"scenario": "geo_loss", "values": swept},
        {"scenario": "mixed_cc", "values": fixed},
    ]
    one, other = (entry["values"] for entry in scenarios_under(scenarios, choice, assumptions))
    assert one == {
        "cc": ["cubic_nohystart", "cubic", "bbr3"],
        "pep": ["none", "B_double", "A_double"],
    }
    assert other == {"loss": ["1"]}
    ran = [Cell({"cc": cc, "pep": pep}) for cc, pep in zip(one["cc"], one["pep"], strict=True)]
    named = [cell.values for cell in as_claimed(Campaigns([], ran), choice, assumptions).cells]
    assert named == [
        {"cc": cc, "pep": pep} for cc, pep in zip(swept["cc"], swept["pep"], strict=True)
    ]


def test_a_claim_needs_its_own_cells_only() -> None:
    claims = read_claims(REPOSITORY / "reports/claims.yml")
    content = read_yaml(REPOSITORY / "campaigns/claims.yml")["scenarios"]
    geo, leo = needed(content, [claims["C3"]])
    assert (geo["scenario"], leo["scenario"]) == ("geo_loss", "leo_loss")
    assert geo["values"] == {
        "vpn": ["wireguard", "openvpn_udp"],
        "pep": ["none", "B", "A"],
        "cc": ["cubic", "cubic_nohystart", "bbr2"],
        "loss": [0],
    }
    assert {one["scenario"] for one in needed(content, [claims["C9"], claims["C11"]])} == {
        "multi_flow"
    }


LEFT_OPEN = """
buffer: {asks: How large?, ours: 1, alternatives: {two: {set: {buffer_bdp: 2}}, four: {set: {buffer_bdp: 4}}}}
queue: {asks: Which?, ours: a FIFO, alternatives: {codel: {set: {queue: codel}}}}
"""


class MadeUp:
    """In place of the engine: times by a formula, with each seed's own luck.

    WireGuard with PEP B takes 4 % more than the others, with a buffer of 2 as much less; the queue
    does nothing.
    """

    def __init__(self) -> None:
        self.ran: list[tuple[str, tuple[int, ...]]] = []
        self.cells = 0
        self.interrupts_at: int | None = None
        self.codel_over_leo = 1.0
        self.debian = "13.7"
        self.fails_with_buffer: str | None = None

    def __call__(
        self,
        folder: Path,
        scenarios: Sequence[Any],
        seeds: Sequence[int],
        workers: Any,
        quiet: bool,
    ) -> None:
        if len(self.ran) == self.interrupts_at:
            self.interrupts_at = None
            raise KeyboardInterrupt
        self.ran.append((folder.name, tuple(seeds)))
        folder.mkdir(parents=True, exist_ok=True)
        (folder.parent / "runs").mkdir(exist_ok=True)
        if not (folder / "runs").exists():
            (folder / "runs").symlink_to("../runs")
        store, asked = Store(folder), []
        for run_id, run in self.runs_of(scenarios, seeds, quiet).items():
            scenario, seed = run.pop("scenario"), int(run.pop("seed"))
            asked.append({"run_id": run_id, "scenario": scenario, "arguments": run, "seed": seed})
            if store.load(run_id) is None:
                self._run(store, run_id, scenario, run, seed)
        store.write("campaign.json", json.dumps({"command": "", "runs": asked}))

    def runs_of(
        self, scenarios: Sequence[Any], seeds: Sequence[int], quiet: bool
    ) -> dict[str, dict[str, str]]:
        runs = [dict(run) for run in explain.cells_of(scenarios, seeds)]
        return {
            f"{hash((self.debian, *sorted(run.items()))) & (1 << 64) - 1:016x}": run for run in runs
        }

    def _run(
        self, store: Store, run_id: str, scenario: str, arguments: dict[str, str], seed: int
    ) -> None:
        best = arguments["vpn"] == "wireguard" and arguments["pep"] == "B"
        factor = {"1": 1.04, "2": 0.96, "4": 1.10}[arguments["buffer_bdp"]] if best else 1.0
        if best and scenario == "leo_loss" and arguments["queue"] == "codel":
            factor *= self.codel_over_leo
        taken = 28 * (factor + (seed % 5) / 1000 * best)
        place = store.begin(run_id)
        link = {
            "id": 0,
            "start_job_instance": {
                "entity_name": "sat",
                "satcom_link": {"orbit": [[scenario[:3]]]},
            },
        }
        (place / "run.json").write_text(json.dumps({"scenario": {"openbach_functions": [link]}}))
        (place / "statistics.jsonl").write_text("")
        measures = {"transfer_time_s": taken}
        failed = arguments["buffer_bdp"] == self.fails_with_buffer
        identity = {"engine": "virtual"}
        major, minor = self.debian.split(".")
        packages = (f"base-files_13.8+deb{major}u{minor}_amd64",)
        record = Record(
            run_id,
            scenario,
            arguments,
            seed,
            "Finished Ko" if failed else "Finished Ok",
            "iperf3: control socket has closed unexpectedly" if failed else None,
            taken,
            2.0,
            "",
            {} if failed else measures,
            "",
            identity,
            packages,
        )
        store.keep(place, record)
        self.cells += 1


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    one = MadeUp()
    monkeypatch.setattr(explain, "run_choice", one)
    monkeypatch.setattr(explain, "runs_of", one.runs_of)
    return one


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    (tmp_path / "open.yml").write_text(LEFT_OPEN)
    named = {"--assumptions": "open.yml", "--results": "r", "-o": "o"}
    return [
        *(word for name, file in named.items() for word in (name, str(tmp_path / file))),
        "--quiet",
    ]


def test_the_command_finds_a_joint_set_and_confirms_it_with_other_seeds(
    made_up: MadeUp, options: list[str], tmp_path: Path, capsys: Any
) -> None:
    assert main.main(["explain", "C3", *options]) == 0
    assert (
        "0 of 4 findings are reproduced with seeds 1 to 5; under buffer: two, 4."
        in capsys.readouterr().out
    )
    searched = [
        (f"{name}-seed_101", (101,))
        for name in ("ours", "buffer_two", "queue_codel", "buffer_four")
    ]
    assert made_up.ran[:4] == searched
    judged = [name for name, seeds in made_up.ran if seeds == JUDGING]
    assert judged[:2] == [
        "ours-seeds_1_to_5",
        "buffer_two-seeds_1_to_5",
    ], "ours and the joint set, with seeds of their own"
    found = assumptions_of(tmp_path / "o")
    assert found is not None and found.whole and found.joint == "buffer: two"
    assert (found.searched, found.confirmed) == ("seed 101", "seeds 1 to 5")
    first = found.of("C3")[0]
    assert (first.ours, first.joint, first.holds_under) == ("not", "reproduced", "buffer: two")
    assert first.drivers[0].words.startswith("buffer: two (× 0.92 [0.92–0.92])")
    text = (tmp_path / "o/assumptions.md").read_text()
    assert "| all findings | 0 | 4 | 4 |" in text and "| whole claims | 0 | 1 | 1 |" in text
    assert "Change nothing by more than 1 % alone: queue: codel" in text
    assert (
        (tmp_path / "o/best.yml")
        .read_text()
        .startswith("# buffer: two; found by\n# ./openbach-run explain C3 ")
    )
    best = read_yaml(tmp_path / "o/best.yml")["scenarios"]
    assert best and all(entry["values"]["buffer_bdp"] == ["2"] for entry in best)
    assert "× 1.06 [" not in text and "buffer: four | × 1.06 |" in text, "one seed has no interval"


def test_what_drives_a_claim_is_run_again_in_the_cells_of_what_it_drives(
    made_up: MadeUp, options: list[str], tmp_path: Path
) -> None:
    """All cells of a campaign were run with five seeds for each.

    Hours, so that no driver had an interval.
    """
    made_up.codel_over_leo = 0.93
    assert main.main(["explain", "C3", "C1", *options]) == 0
    ran = json.loads((tmp_path / "r/queue_codel-seeds_1_to_5/campaign.json").read_text())["runs"]
    assert {one["scenario"] for one in ran} == {"leo_loss"}
    assert {one["arguments"]["vpn"] for one in ran} == {
        "wireguard",
        "openvpn_udp",
    }, "cells of C3, not of C1"
    found = assumptions_of(tmp_path / "o")
    assert found is not None
    seeds = {
        (one.claim, one.orbit): change.seeds
        for one in found.findings
        for change in one.changes
        if change.alternative == "codel"
    }
    assert seeds == {("C3", "leo"): 5, ("C3", "geo"): 1, ("C1", "leo"): 1, ("C1", "geo"): 1}
    under = {one.orbit: one.holds_under for one in found.of("C3")}
    assert under == {"geo": "buffer: two", "leo": "buffer: two; or queue: codel"}


def test_a_search_that_its_budget_has_cut_says_what_it_has_not_tried_and_goes_on(
    made_up: MadeUp, options: list[str], tmp_path: Path, capsys: Any
) -> None:
    assert main.main(["explain", "C3", *options, "--budget", "0s"]) == 1
    assert "The budget ended the search" in capsys.readouterr().out
    found = assumptions_of(tmp_path / "o")
    assert found is not None and not found.whole and found.confirmed == ""
    assert found.untried == ["buffer: two", "queue: codel", "buffer: four"]
    assert (
        "Not tried, for want of time: buffer: two; queue: codel; buffer: four"
        in (tmp_path / "o/assumptions.md").read_text()
    )
    before = made_up.cells
    assert main.main(["explain", "C3", *options]) == 0
    once = made_up.cells
    assert once > before
    assert main.main(["explain", "C3", *options, "--budget", "0s"]) == 0, "all is there"
    assert made_up.cells == once


def test_a_search_goes_on_from_its_answer_where_its_runs_are_not(
    made_up: MadeUp, options: list[str], tmp_path: Path, capsys: Any
) -> None:
    """Its runs were on one machine only: an answer could be read, and not extended."""
    assert main.main(["explain", "C3", *options]) == 0
    once, first = made_up.cells, (tmp_path / "o/runs.tar.xz").read_bytes()
    (tmp_path / "elsewhere").mkdir()
    with tarfile.open(tmp_path / "o/runs.tar.xz") as tar:
        tar.extractall(tmp_path / "elsewhere", filter="data")
    there = ["--results", str(tmp_path / "elsewhere/r")]
    assert main.main(["explain", "C3", *options, *there, "--dry-run"]) == 0
    assert "0 runs     0 s  alone, seed 101" in capsys.readouterr().out
    assert main.main(["explain", "C3", *options, *there]) == 0
    assert made_up.cells == once
    assert (tmp_path / "o/runs.tar.xz").read_bytes() == first, "the same runs are the same bytes"


def test_time_for_several_alternatives_together_is_kept(
    made_up: MadeUp, options: list[str], tmp_path: Path
) -> None:
    """A choice is 36 runs of 2 s here.

    Of 200 s 100 s are kept for the verdicts and 40 s for choices of several.
    """
    for budget, untried in (
        ("200s", ["buffer: two", "queue: codel", "buffer: four"]),
        ("300s", []),
    ):
        main.main(["explain", "C3", *options, "--workers", "1", "--budget", budget])
        found = assumptions_of(tmp_path / "o")
        assert found is not None and found.untried == untried


def test_choices_of_several_are_read_from_the_answer(tmp_path: Path) -> None:
    told = (
        "choice,claim\nall as ours,C1\nbuffer: two,C1\nbuffer: two; queue: codel,C1\nbuffer: two;"
        " queue: gone,C1\n"
    )
    (tmp_path / "tried.csv").write_text(told)
    (tmp_path / "open.yml").write_text(LEFT_OPEN)
    assumptions = read_assumptions(tmp_path / "open.yml")
    assert explain._several_of(tmp_path / "tried.csv", assumptions) == [
        {"buffer": "two", "queue": "codel"}
    ]
    assert explain._several_of(tmp_path / "none.csv", assumptions) == []
    (tmp_path / "tried.csv").write_text("")
    assert explain._several_of(tmp_path / "tried.csv", assumptions) == []
    (tmp_path / "tried.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="no column choice"):
        explain._several_of(tmp_path / "tried.csv", assumptions)


def test_an_interrupted_search_writes_what_it_has(
    made_up: MadeUp, options: list[str], tmp_path: Path, capsys: Any
) -> None:
    made_up.interrupts_at = 2
    assert main.main(["explain", "C3", *options]) == 130
    found = assumptions_of(tmp_path / "o")
    assert (
        found is not None and found.tried == 2 and found.untried == ["queue: codel", "buffer: four"]
    )
    made_up.ran, made_up.interrupts_at = [], 0
    assert main.main(["explain", "C3", *options]) == 130, "nothing was found yet"
    assert assumptions_of(tmp_path / "o") == found


def test_an_interrupted_search_begins_nothing_more_and_keeps_what_was_confirmed(
    made_up: MadeUp, options: list[str], tmp_path: Path
) -> None:
    made_up.interrupts_at = 3
    main.main(["explain", "C3", *options])
    assert [seeds for _, seeds in made_up.ran] == 3 * [(101,)], "no verdicts after Ctrl-C"
    main.main(["explain", "C3", *options, "--confirm"])
    made_up.interrupts_at, made_up.ran = 0, []
    assert main.main(["explain", "C3", *options]) == 130
    found = assumptions_of(tmp_path / "o")
    assert found is not None and found.confirmed == "seeds 1 to 5" and found.held("joint") == 4


def test_what_was_found_can_be_confirmed_without_more_search(
    made_up: MadeUp, options: list[str], tmp_path: Path, capsys: Any
) -> None:
    made_up.interrupts_at = 2
    main.main(["explain", "C3", *options])
    assert main.main(["explain", "C3", *options, "--confirm"]) == 1
    found = assumptions_of(tmp_path / "o")
    assert found is not None and found.confirmed == "seeds 1 to 5" and found.tried == 2
    assert found.held("joint") == 4


def _runs(forecast: str, what: str) -> int:
    """How many the line of --dry-run says that ends so."""
    (line,) = (one for one in forecast.splitlines() if one.endswith(f"  {what}"))
    return int(line.split()[0])


def test_a_search_on_another_debian_goes_on_and_has_verdicts_of_its_own(
    made_up: MadeUp, options: list[str], tmp_path: Path, capsys: Any
) -> None:
    """It was tried anew, with all that it had counted as there.

    100 minutes that --dry-run did not speak of.
    """
    made_up.codel_over_leo = 0.93
    assert main.main(["explain", "C3", *options]) == 0
    first = assumptions_of(tmp_path / "o")
    made_up.debian, made_up.ran = "13.8", []
    capsys.readouterr()
    assert main.main(["explain", "C3", *options, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert (_runs(told, "alone, seed 101"), _runs(told, "all as ours, seeds 1 to 5")) == (0, 180)
    assert main.main(["explain", "C3", *options]) == 0
    assert {seeds for _, seeds in made_up.ran} == {JUDGING}, "only the verdicts are of new runs"
    found = assumptions_of(tmp_path / "o")
    assert first and found and (found.joint, found.findings) == (first.joint, first.findings)
    assert [name for name, _ in made_up.ran] == [
        "ours-seeds_1_to_5",
        "buffer_two-seeds_1_to_5",
    ], "not codel"
    said = (
        "The runs of the search are of Debian 13.7, those with the other seeds of Debian 13.7 and"
        " 13.8."
    )
    assert said in (tmp_path / "o/assumptions.md").read_text() and not first.versions


def test_choices_whose_runs_failed_are_named(
    made_up: MadeUp, options: list[str], tmp_path: Path
) -> None:
    """A finding that does not hold because its runs failed read as one that was measured."""
    made_up.fails_with_buffer = "4"
    main.main(["explain", "C3", *options])
    found = assumptions_of(tmp_path / "o")
    assert found is not None and found.failed == ["buffer: four (36 of 36 runs)"]
    said = (
        "Runs failed, and a comparison that has none left does not hold: buffer: four (36 of 36"
        " runs)."
    )
    assert said in (tmp_path / "o/assumptions.md").read_text()


def test_the_runs_of_a_search_are_counted_before(
    made_up: MadeUp, options: list[str], capsys: Any
) -> None:
    """36 cells: 2 orbits, 2 VPNs, 3 PEP positions, 3 transports.

    What several choices have is counted once.
    """
    assert main.main(["explain", "C3", *options, "--dry-run", "--workers", "1"]) == 0
    told = capsys.readouterr().out
    assert "36 runs" in told and "144 runs  10 min  alone, seed 101" in told and "180 runs" in told
    assert "540 runs  36 min  what drives the claims, seeds 1 to 5, at most" in told
    assert "no run is known" in told and made_up.ran == []
    main.main(["explain", "C3", *options])
    capsys.readouterr()
    assert main.main(["explain", "C3", *options, "--dry-run", "--workers", "1"]) == 0
    assert "0 runs     0 s  alone, seed 101" in capsys.readouterr().out


def test_cells_that_an_alternative_cannot_change_are_run_once() -> None:
    """In the small campaign as in the whole one.

    Of the loss in a row those with loss, of the PEP's window those with a PEP.
    """
    assumptions = read_assumptions(ASSUMPTIONS)
    for file in ("claims", "claims_few"):
        scenarios = read_yaml(REPOSITORY / f"campaigns/{file}.yml")["scenarios"]
        platform = explain.Platform(Path("none"), scenarios, assumptions, {}, (101,), 1, True)
        ours = {explain._key(one): one for one in platform.cells({}, [1])}
        for choice, changed in (
            ({"loss in a row": "3 in a row"}, lambda run: float(run["loss"]) > 0),
            ({"initial window of the proxy": "32 segments"}, lambda run: run["pep"] != "none"),
            ({"control of the tunnel": "CUBIC always"}, lambda run: run["vpn"] == "openvpn_tcp"),
        ):
            under = {explain._key(one) for one in platform.cells(choice, [1])}
            assert len(under) == len(ours)
            left = [run for key, run in ours.items() if key not in under]
            expected = [one for one in ours.values() if changed(one)]
            if "control of the tunnel" in choice:
                expected = [one for one in expected if one["scenario"] != "mixed_cc"]
            assert left == expected


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["C99"], "no such claim"),
        (["--budget", "soon"], "--budget soon: give a time like 90s"),
        (["--screen", "0"], "--screen 0: at least 1"),
        (["--seeds", "101,"], "--seeds 101,: 101 is a seed of the search"),
        (["--campaign", "nowhere"], "--campaign nowhere: no such campaign"),
    ],
)
def test_bad_input_to_the_command(words: list[str], told: str, capsys: Any) -> None:
    assert main.main(["explain", *words]) == 2
    assert told in capsys.readouterr().err


def test_a_later_debian_is_worth_more_also_from_ten_on() -> None:
    """Compared as texts, 13.10 was older than 13.8."""
    older, newer = (
        replace(finished(), packages=[f"base-files_13.8+deb13u{minor}_amd64"]) for minor in (8, 10)
    )
    assert explain._worth(newer) > explain._worth(older)
