# SPDX-License-Identifier: GPL-3.0-or-later
"""From a scenario file and what the user types to cells and runs, and how bad input is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.campaign.executor import cpus_for
from openbach_run.campaign.file import plan_file
from openbach_run.campaign.model import Campaign, Sweep
from openbach_run.campaign.notes import notes_of
from openbach_run.campaign.reading import expanded, plan
from openbach_run.campaign.spec import RunSpec, runs_of
from openbach_run.catalog import Catalog
from openbach_run.errors import InputError
from openbach_run.guest.main import LINK_FILES
from openbach_run.openbach.expand import expand
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.reading import parse_scenario
from openbach_run.results.seeds import parse_seeds
from openbach_run.topology.inventory import load_inventory

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = load_packages([REPOSITORY / "jobs"])
GEO_LOSS = REPOSITORY / "scenarios/geo_loss.json"


def planned(*settings: str, seeds: str = "1", path: Path = GEO_LOSS) -> Campaign:
    return plan(path, settings, parse_seeds(seeds), PACKAGES)


def runs(campaign: Campaign, **identity: str) -> list[RunSpec]:
    return runs_of(campaign, load_inventory(REPOSITORY / "inventory.yml"), lambda uses: identity)


def test_a_cell_of_arguments_only_uses_what_the_constants_name() -> None:
    """As `serve` has it, of a launch over REST.

    Geo's satellite is a constant, and has to come along into the guest.
    """
    campaign = planned("vpn=none", "cc=cubic", "loss=0")
    values = {
        name: given
        for name, given in campaign.values.items()
        if name in campaign.scenario.arguments
    }
    scenario, subs = campaign.scenario, campaign.sub_scenarios
    only = expanded(Sweep(campaign.path, scenario, subs, values, (1,), PACKAGES))
    assert "orbit" not in only.cells[0]
    assert only.uses[0]["satellites"] == ["geo"]
    assert only.uses == campaign.uses


def test_the_whole_table_is_the_default() -> None:
    campaign = planned()
    assert len(campaign.cells) == 4 * 3 * 3
    assert campaign.swept == ["vpn", "cc", "loss"]
    assert campaign.cells[0] == {
        "vpn": "none",
        "noise": "host",
        "platform": "ours",
        "cc": "cubic",
        "loss": "0",
        "pep": "none",
        "cc_pep": "same",
        "cc_tunnel": "same",
        "size": "30M",
        "initcwnd": "10",
        "initcwnd_pep": "same",
        "pep_profile": "plain",
        "pep_program": "satpep",
        "streams": "1",
        "series_s": "0",
        "rate": "10M",
        "return_rate": "same",
        "buffer_bdp": "1",
        "queue": "fifo",
        "jitter_ms": "0",
        "link_file": "none",
        "link_start": "auto",
        "burst_packets": "1",
        "loss_at": "satellite",
        "orbit": "geo",
        "delay_ms": "250",
        "return_loss": "same",
        "buffer": "none",
        "terrestrial_ms": "0",
        "direction": "download",
        "http": "none",
        "quic": "nginx",
        "quic_receiver": "openssl",
        "warm_up": "none",
        "cpu": "free",
        "cpu_scale": "1",
        "cpu_pop": "same",
        "cpu_scale_pop": "same",
        "burst_ms": "none",
        "access": "assigned",
        "dama_values": "none",
        "forward": "rate",
        "forward_values": "none",
        "es_n0_file": "none",
        "duration_s": "0",
        "nat": "none",
        "nat_timeout_s": "0",
        "access_mtu": "inventory",
        "uplink_mtu": "inventory",
        "feeder_mtu": "inventory",
        "backhaul_mtu": "inventory",
        "icmp_too_big": "pass",
        "fragments": "pass",
        "mss_clamp": "terminal",
        "vpn_values": "none",
        "tcp_buffer": "default",
        "ecn": "default",
        "sack": "default",
        "window_scaling": "default",
    }


LINK = ("rate", "return_rate", "delay_ms", "loss", "return_loss", "buffer", "buffer_bdp")


def of_satellite(tmp_path: Path, name: str, text: str, *settings: str) -> list[list[str]]:
    """The values of LINK in the cells of geo over a satellite of one's own."""
    (tmp_path / "satellites").mkdir()
    (tmp_path / "satellites" / name).write_text(text)
    packages = load_packages([REPOSITORY / "jobs"], Catalog((tmp_path, REPOSITORY)))
    orbit = f"orbit={Path(name).stem}"
    campaign = plan(
        REPOSITORY / "scenarios/geo.yml", [orbit, "vpn=none", "cc=bbr", *settings], (1,), packages
    )
    return [[cell[value] for value in LINK] for cell in campaign.cells]


MINE = "delay_ms: 120\nrate: 20M\nloss: 0.1\nreturn_loss: 0\nbuffer: 200kB\n"


@pytest.mark.parametrize(
    ("settings", "rows"),
    [
        ((), ["20M same 120 0.1 0 200kB none"]),
        (("rate=5M", "delay_ms=30", "buffer=2BDP"), ["5M same 30 0.1 0 2BDP none"]),
        (
            ("return_rate=1M", "loss=1", "return_loss=same", "buffer_bdp=2,4"),
            ["20M 1M 120 1 same none 2", "20M 1M 120 1 same none 4"],
        ),
    ],
)
def test_a_row_has_the_values_in_force_of_its_satellite(
    tmp_path: Path, settings: tuple[str, ...], rows: list[str]
) -> None:
    assert of_satellite(tmp_path, "mine.yml", MINE, *settings) == [row.split() for row in rows]


def test_a_satellite_that_is_a_link_file_has_no_rate_and_no_delay(tmp_path: Path) -> None:
    text = "time_s,rate_bps,delay_ms\n0,1e6,30\n"
    assert of_satellite(tmp_path, "mine.csv", text) == [
        ["none", "none", "none", "0", "same", "none", "1"]
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("mine.yml", "delay: 5", r"mine\.yml, line 1: unknown: delay"),
        ("mine.csv", "time_s\n", r"mine\.csv, line 1: no column"),
    ],
)
def test_a_satellite_that_is_wrong_starts_nothing(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        of_satellite(tmp_path, name, text)


def test_two_buffers_are_refused() -> None:
    with pytest.raises(InputError, match="buffer and buffer_bdp: give one of them"):
        planned("buffer=100p", "buffer_bdp=1")


def test_given_values_are_swept_in_place_of_the_files() -> None:
    campaign = planned("vpn=none,wireguard", "cc=bbr", "size=1M,2M", seeds="2")
    assert campaign.values["vpn"] == ("none", "wireguard")
    assert len(runs(campaign)) == 2 * 3 * 2 * 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["vpm=none"], "did you mean vpn"),
        (["seeds=3"], r"did you mean --seeds 3\?"),
        (["vpn=ipsec"], "vpn is one of none, boringtun, connect_ip, easytier"),
        (["vpn"], "NAME=VALUE"),
        (["cc=bbr,"], "empty value"),
        (["cc=bbr,bbr"], "given twice"),
        (["cc=bbr", "cc=cubic"], "given twice; to sweep it: cc=bbr,cubic"),
        (["vpn=wiregard"], "did you mean wireguard"),
        (["loss=much"], "loss is preset, or from 0 to 100 %"),
        (["cc_pep=$nothing"], "comes an argument of the scenario"),
        (["cc=$cc_pep"], "cc is one of cubic"),
        (["queue=red"], "queue is one of preset, fifo, codel"),
        (["initcwmd=3"], "did you mean initcwnd"),
        (["initcwnd=ten"], "initcwnd is from 1 to 1000 segments, a whole number"),
        (["duration_s=0.5"], "^duration_s=0.5: duration_s is from 0 to 86400 s, a whole number"),
    ],
)
def test_bad_settings_are_refused_with_what_would_be_right(settings: list[str], words: str) -> None:
    with pytest.raises(InputError, match="(?s)" + words):
        planned(*settings)


@pytest.mark.parametrize(
    ("text", "seeds"), [("1", (1,)), ("3", (1, 2, 3)), ("3,7", (3, 7)), ("7,", (7,)), ("0,", (0,))]
)
def test_seeds(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


@given(st.text(max_size=12))
def test_seeds_are_numbers_or_refused(text: str) -> None:
    try:
        seeds = parse_seeds(text)
    except InputError:
        return
    assert seeds and len(set(seeds)) == len(seeds)


def scenario_file(folder: Path, change: dict[str, Any]) -> Path:
    file = folder / "changed.json"
    file.write_text(json.dumps({**json.loads(GEO_LOSS.read_text()), **change}))
    return file


def test_an_argument_without_a_value_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a value: vpn=…"):
        planned(path=scenario_file(tmp_path, {"x-sweep": {}}))


def test_a_value_may_be_that_of_another_argument() -> None:
    """`$cc` is how `same` was written before."""
    cells = planned("cc=cubic,bbr", "vpn=none", "loss=0", "cc_pep=$cc").cells
    assert [(cell["cc"], cell["cc_pep"]) for cell in cells] == [("cubic", "cubic"), ("bbr", "bbr")]
    cells = planned("cc=cubic,bbr", "vpn=none", "loss=0", "cc_pep=bbr").cells
    assert [(cell["cc"], cell["cc_pep"]) for cell in cells] == [("cubic", "bbr"), ("bbr", "bbr")]


def test_constants_are_set_and_swept_like_arguments() -> None:
    campaign = planned("vpn=none", "cc=bbr", "loss=0", "buffer_bdp=1,4", "cc_tunnel=hybla")
    assert campaign.swept == ["buffer_bdp"]
    one, other = runs(campaign)
    assert one.arguments.keys() == {"vpn", "pep", "cc", "loss", "size"}
    assert (one.scenario["constants"]["buffer_bdp"], other.scenario["constants"]["buffer_bdp"]) == (
        "1",
        "4",
    )
    assert other.values["buffer_bdp"] == "4"
    assert other.values["cc_tunnel"] == other.scenario["constants"]["cc_tunnel"] == "hybla"
    functions = {
        function["label"]: function["start_job_instance"]
        for function in other.scenario["openbach_functions"][:8]
    }
    assert functions["TCP of box"]["transport_profile"]["cc"] == [["$cc_tunnel"]]
    assert functions["TCP of pc"]["transport_profile"]["cc"] == [["$cc"]]
    assert parse_scenario(other.scenario, {name: one.job for name, one in PACKAGES.items()}), (
        "a platform takes it"
    )
    assert one.run_id != other.run_id
    (plain,) = runs(planned("vpn=none", "cc=bbr", "loss=0"))
    (given,) = runs(
        planned("vpn=none", "cc=bbr", "loss=0", "buffer_bdp=1", "rate=10M", "cc_tunnel=same")
    )
    assert plain.run_id == given.run_id


def test_constants_of_a_sub_scenario_are_set_through_its_parent() -> None:
    campaign = planned("rate=20M", "size=1M", path=REPOSITORY / "scenarios/geo_loss_table.yml")
    (run,) = runs(campaign)
    assert run.arguments == {"pep": "none", "size": "1M"}
    assert run.sub_scenarios["geo_loss"]["constants"]["rate"] == "20M"
    assert run.values["rate"] == "20M"


def test_a_link_file_may_be_a_constant(tmp_path: Path) -> None:
    """Also a sub-scenario's. The guest reads its copy, a platform the path that was given."""
    file = tmp_path / "link.csv"
    file.write_text("time_s,rate_bps,delay_ms\n0,1000000,250\n")
    (run,) = runs(planned(f"link_file={file}", path=REPOSITORY / "scenarios/geo_loss_table.yml"))
    assert run.cell.link_files == {"link_file": file.read_text()}
    given = run.for_guest()
    assert given["sub_scenarios"]["geo_loss"]["constants"]["link_file"] == f"{LINK_FILES}/link_file"
    assert given["values"]["link_file"] == str(file)


@pytest.mark.parametrize(
    "file", sorted((REPOSITORY / "scenarios").glob("*.yml")), ids=lambda file: file.stem
)
def test_a_person_is_asked_for_six_values_at_most(file: Path) -> None:
    """Each is mandatory and without a default in OpenBACH's web UI.

    A value with `$` is understood nowhere but here.
    """
    scenario = expand(file)
    assert len(scenario["arguments"]) <= 6
    described = {**scenario["constants"], **scenario.get("x-same", {})}
    addresses = scenario.get("x-inventory", {}).get("constants", {})
    assert described.keys() == scenario.get("x-constants", {}).keys() | addresses.keys()
    texts = [
        *scenario["arguments"].values(),
        *scenario["constants"].values(),
        *scenario["x-sweep"]["defaults"].values(),
    ]
    assert not [text for text in texts if "$" in text]


def test_x_sweep_must_have_its_shape(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lists"):
        planned(path=scenario_file(tmp_path, {"x-sweep": {"values": {"vpn": "none"}}}))
    with pytest.raises(InputError, match="no such argument"):
        planned(path=scenario_file(tmp_path, {"x-sweep": {"defaults": {"vqn": "none"}}}))
    with pytest.raises(InputError, match="texts"):
        planned(path=scenario_file(tmp_path, {"x-sweep": {"defaults": {"pep": None}}}))
    with pytest.raises(InputError, match=r"x-sweep: \[\] should be an object"):
        planned(path=scenario_file(tmp_path, {"x-sweep": []}))


def test_a_malformed_sub_scenario_is_named(tmp_path: Path) -> None:
    start = {"id": 0, "start_scenario_instance": {"scenario_name": "sub", "arguments": {}}}
    (tmp_path / "main.json").write_text(json.dumps({"name": "main", "openbach_functions": [start]}))
    (tmp_path / "sub.json").write_text('{"name": "sub"}')
    with pytest.raises(InputError, match=r"sub\.json: openbach_functions"):
        planned(path=tmp_path / "main.json")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "line 1, column 2: broken JSON"),
        ('{"name": "x",\n}', "line 2" if sys.version_info < (3, 13) else "line 1, column 13"),
        ("[]", "a name"),
        ("\xff", "not UTF-8"),
    ],
)
def test_broken_files(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "broken.json"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=words):
        planned(path=file)


def test_run_ids_follow_from_everything_a_run_depends_on() -> None:
    (one,) = runs(planned("vpn=none", "cc=bbr", "loss=1"))
    assert one.run_id == runs(planned("vpn=none", "cc=bbr", "loss=1"))[0].run_id
    others = [
        *runs(planned("vpn=none", "cc=bbr", "loss=1", seeds="2,")),
        *runs(planned("vpn=none", "cc=bbr", "loss=1", "size=1M")),
        *runs(planned("vpn=none", "cc=bbr", "loss=1"), kernel="another"),
    ]
    assert len({one.run_id, *(other.run_id for other in others)}) == 4


def campaign_file(folder: Path, text: str) -> Path:
    file = folder / "campaign.yml"
    file.write_text(text)
    return file


TWO_SCENARIOS = """
seeds: [3, 7]
scenarios:
  - scenario: geo
    values: {vpn: [none, wireguard], cc: [bbr]}
  - scenario: leo_loss
    values: {vpn: [none], cc: [bbr], loss: [0, 0.5]}
"""


def planned_file(
    file: Path, *settings: str, seeds: tuple[int, ...] | None = None
) -> list[Campaign]:
    return plan_file(file, settings, seeds, PACKAGES, Catalog())


def test_a_campaign_file_names_several_scenarios(tmp_path: Path) -> None:
    geo, leo = planned_file(campaign_file(tmp_path, TWO_SCENARIOS))
    assert (geo.scenario.name, len(geo.cells), geo.seeds) == ("geo", 2, (3, 7))
    assert leo.values["loss"] == ("0", "0.5")


def test_settings_and_seeds_take_the_place_of_the_files(tmp_path: Path) -> None:
    file = campaign_file(tmp_path, TWO_SCENARIOS)
    geo, leo = planned_file(file, "loss=2", "size=1M", seeds=(1,))
    assert (geo.values["loss"], leo.values["loss"], leo.values["size"], leo.seeds) == (
        ("2",),
        ("2",),
        ("1M",),
        (1,),
    )


def test_cells_with_chance_have_seeds_of_their_own(tmp_path: Path) -> None:
    file = campaign_file(tmp_path, f"seeds_if_random: 20{TWO_SCENARIOS}")
    for geo, leo in (planned_file(file), planned_file(file, "size=1M")):
        assert (geo.every_seed, geo.runs_planned) == ((3, 7), 4)
        assert [len(leo.seeds_of(cell)) for cell in leo.cells] == [2, 20]
        assert sorted(run.seed for run in runs(leo)) == [
            *range(1, 4),
            3,
            *range(4, 8),
            7,
            *range(8, 21),
        ]
        assert [run.seed for run in runs(leo) if run.values["loss"] == "0"] == [3, 7]
        assert leo.runs_planned == 22
    _, leo = planned_file(file, "loss=0")
    assert leo.runs_planned == 2
    _, leo = planned_file(file, seeds=(1,))
    assert leo.runs_planned == 2, "--seeds is for all cells"


@pytest.mark.parametrize("name", ["full", "leo", "etosat"])
def test_headline_campaigns_show_the_tail(name: str) -> None:
    for one in planned_file(REPOSITORY / "library/campaigns" / f"{name}.yml"):
        for cell in one.cells:
            assert len(one.seeds_of(cell)) == (20 if one.has_chance(cell) else 5)


@pytest.mark.parametrize(
    "file", sorted((REPOSITORY / "library/campaigns").glob("*.yml")), ids=lambda it: str(it.stem)
)
def test_the_campaigns_of_the_repository(file: Path) -> None:
    assert all(campaign.cells for campaign in planned_file(file))


@pytest.mark.parametrize(
    ("text", "words"),
    {
        "": "a list `scenarios`",
        "scenarios: [": "campaign.yml: while parsing",
        "scenarios: [geo]": "scenarios.0: should have the keys",
        "scenarios: [{scenario: goe}]": r"there is no scenario goe; did you mean geo\?",
        "scenarios: [{scenario: geo, values: []}]": "scenarios.0.values: should be an object of lists",
        "scenarios: [{scenario: geo, values: {vpn: none}}]": 'scenarios.0.values.vpn: "none" should be a list',
        "scenarios: [{scenario: geo, values: {vpn: [ipsec]}}]": "vpn is one of none",
        "scenarios: [{scenario: geo, values: {vpm: [none]}}]": "did you mean vpn",
        "scenarios: [{scenario: geo, values: {vpn: [none, none]}}]": "given twice",
        "scenarios: [{scenario: geo}]\nseeds: many": "seeds: give how many",
        "scenarios: [{scenario: geo}]\nseeds_if_random: many": "seeds_if_random: give how many",
        "scenarios: [{scenario: geo}]\nseed: 5": "seed: no such key; did you mean seeds",
    }.items(),
)
def test_bad_campaign_files_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match="(?s)" + words):
        planned_file(campaign_file(tmp_path, text))


def test_a_setting_that_no_scenario_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of the scenarios of .* has this argument"):
        planned_file(campaign_file(tmp_path, TWO_SCENARIOS), "vpm=none")


def test_commands_at_the_same_time_begin_with_different_cpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {2, 3, 5})
    monkeypatch.setattr("os.getpid", lambda: 300)
    assert (cpus_for(None), cpus_for(1), cpus_for(4)) == ([2, 3, 5], [2], [2, 3, 5, 2])
    monkeypatch.setattr("os.getpid", lambda: 301)
    assert (cpus_for(None), cpus_for(1)) == ([3, 5, 2], [3])


@pytest.mark.parametrize(
    "setting",
    [
        "loss=1,1.0", "loss=0,00", "rate=10M,10000k,1e7", "buffer=1BDP,1.0BDP", "buffer=9kB,9000B",
        "vpn.mtu=1400,1400.0", "streams=2,02",
    ],
)  # fmt: skip
def test_equal_values_in_two_spellings_are_one(setting: str) -> None:
    with pytest.raises(InputError, match="an empty value or one given twice"):
        planned("vpn=wireguard", setting)


def test_equal_values_of_a_scenario_or_of_its_satellite_are_one(tmp_path: Path) -> None:
    file = tmp_path / "twice.yml"
    file.write_text(f"inherits: {REPOSITORY / 'scenarios/geo.yml'}\nsweep: {{loss: [1, 1.0]}}\n")
    with pytest.raises(InputError, match=r"loss=1,1\.0: an empty value or one given twice"):
        plan(file, [], (1,), PACKAGES)
    assert len(planned("vpn=none", "cc=bbr", "loss=preset,0.0").cells) == 1


@pytest.mark.parametrize(
    "setting",
    [
        "size=1_00_000", "size=３００００", "size=100 k", "loss=١", "loss=-0", "initcwnd=1_0",
        "initcwnd=１０", "streams=1_0", "delay_ms=2_5.0", "vpn.mtu=１４００",
    ],
)  # fmt: skip
def test_a_number_is_in_plain_digits(setting: str) -> None:
    with pytest.raises(InputError, match="is written with the digits 0 to 9"):
        planned("vpn=wireguard", setting)


@pytest.mark.parametrize("text", ["１,", "1_0", "3,٧"])
def test_seeds_are_in_plain_digits(text: str) -> None:
    with pytest.raises(InputError, match="give how many"):
        parse_seeds(text)


@pytest.mark.parametrize(
    "buffer", ["0BDP", "1p", "0p", "0B", "0.5B", "1.5p", "2000BDP", "5000MB", "１BDP", "3kB"]
)
def test_a_buffer_that_the_link_refuses_starts_nothing(buffer: str) -> None:
    with pytest.raises(InputError, match="buffer"):
        planned(f"buffer={buffer}")


def test_two_values_that_may_be_one_with_a_decimal_comma_are_noted() -> None:
    note = "loss=0,5 is two values; one value is 0.5"
    assert note in notes_of(planned("loss=0,5"))
    for settings in (["loss=0,5,10"], ["loss=0.5"], ["streams=1,5"], ["rate=1M,5M"]):
        assert not [one for one in notes_of(planned(*settings)) if "two values" in one]


def test_a_list_of_a_file_is_no_decimal_comma(tmp_path: Path) -> None:
    text = "\nscenarios:\n  - {scenario: geo, values: {loss: [0, 1]}}\n"
    (listed,) = planned_file(campaign_file(tmp_path, text))
    assert not [one for one in notes_of(listed) if "two values" in one]


def test_a_pep_that_sends_as_the_hosts_beside_the_server_is_noted() -> None:
    def noted(*settings: str) -> bool:
        notes = notes_of(planned("pep=B", *settings, path=REPOSITORY / "scenarios/geo.yml"))
        return any(note.startswith("pep=B changes little here") for note in notes)

    assert noted("cc=cubic") and noted("cc=bbr", "cc_pep=bbr")
    for other in ("cc_pep=bbr3", "terrestrial_ms=20", "initcwnd_pep=40"):
        assert not noted("cc=cubic", other)
