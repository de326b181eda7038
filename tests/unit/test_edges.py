# SPDX-License-Identifier: GPL-3.0-or-later
"""What other people's files bring.

Byte order marks, keys given twice, sub-scenarios, conditions; each is taken or told.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.fake_engine import Transfers

from openbach_jobs import link_file
from openbach_run.campaign import engines
from openbach_run.commands import main
from openbach_run.openbach import refusals
from openbach_run.openbach.expand import expand

ROOT = Path(__file__).resolve().parents[2]
MARK = b"\xef\xbb\xbf"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(engines, "VirtualEngine", Transfers().engine)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def marked(source: Path, place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(MARK + source.read_bytes())
    return place


CAMPAIGN = "scenarios:\n  - {scenario: geo, values: {vpn: [none], cc: [cubic]}}\n"


@pytest.mark.parametrize("name", ["scenarios/geo_loss.json", "scenarios/geo.yml"])
def test_a_scenario_with_a_byte_order_mark_is_read(name: str, here: Path) -> None:
    file = marked(ROOT / name, here / Path(name).name)
    assert main.main([str(file), "vpn=none", "cc=cubic", "--dry-run", "--quiet"]) == 0


def test_so_are_campaigns_inventories_jobs_and_satellites(here: Path) -> None:
    (here / "c.yml").write_bytes(MARK + CAMPAIGN.encode())
    inventory = marked(ROOT / "inventory.yml", here / "inventory.yml")
    for file in (ROOT / "jobs/voip").glob("**/*.*"):
        if file.suffix in (".yml", ".txt"):
            marked(file, here / "mine/jobs/voip" / file.relative_to(ROOT / "jobs/voip"))
    marked(ROOT / "library/satellites/geo.yml", here / "mine/satellites/geo.yml")
    marked(
        ROOT / "library/congestion-controls/bbr/profile.json",
        here / "mine/congestion-controls/bbr/profile.json",
    )
    more = ["--inventory", str(inventory), "--with", "mine", "cc=bbr", "--dry-run", "--quiet"]
    assert main.main(["c.yml", *more]) == 0


def test_a_key_that_is_there_twice_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "t.json").write_text(
        '{"name": "t", "constants": {"a": "1", "a": "2"}, "openbach_functions": []}'
    )
    assert main.main(["t.json"]) == 2
    assert "t.json: the key 'a' is there twice" in capsys.readouterr().err
    (here / "c.yml").write_text(CAMPAIGN + "seeds: 2\nseeds: 3\n")
    assert main.main(["c.yml", "--dry-run"]) == 2
    assert "'seeds' is there twice" in capsys.readouterr().err


FAULTS: list[tuple[str, Any, str]] = [
    ("campaign", {"seed": 2}, "seed: no such key; did you mean seeds?"),
    (
        "campaign",
        {"scenarios": [{"scenario": "geo", "valus": {}}]},
        "scenarios.0.valus: no such key; did you mean values?",
    ),
    ("inventory", ("all", {"hots": {}}), "all.hots: no such key; did you mean hosts?"),
    (
        "inventory",
        ("all", "hosts", "satvpn_pc", {"satvpn_route": []}),
        "did you mean satvpn_routes?",
    ),
    (
        "inventory",
        ("all", "hosts", "satvpn_pc", {"satpvn_routes": []}),
        "did you mean satvpn_routes?",
    ),
    (
        "inventory",
        ("all", "vars", "satvpn_networks", "access", {"adress": "10.10.1.0/24"}),
        "did you mean address?",
    ),
    (
        "scenario",
        {"x-sweep": {"value": {"vpn": ["none"]}}},
        "x-sweep.value: no such key; did you mean values?",
    ),
    ("scenario", {"x-swep": {}}, "x-swep: no such key; did you mean x-sweep?"),
    ("scenario", {"x-idle": {"cc": [{"if": "("}]}}, "x-idle.cc.0: because is missing"),
    (
        "scenario",
        {"x-idle": {"cc": [{"if": "(", "because": "x"}]}},
        "x-idle.cc.0.if: '(' is no condition",
    ),
]


def nested(whole: Any, place: tuple[Any, ...]) -> Any:
    """With the keys that are last in `place` added below the others."""
    *path, last = place
    inner = whole
    for key in path:
        if not isinstance(inner.get(key), dict):
            inner[key] = {}
        inner = inner[key]
    inner.update(last)
    return whole


@pytest.mark.parametrize(("kind", "more", "words"), FAULTS)
def test_unknown_keys_are_told_before_a_guest_starts(
    kind: str, more: Any, words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["geo", "vpn=none", "cc=cubic"]
    match kind:
        case "campaign":
            (here / "c.yml").write_text(yaml.safe_dump({**yaml.safe_load(CAMPAIGN), **more}))
            asked = ["c.yml"]
        case "inventory":
            whole = yaml.safe_load((ROOT / "inventory.yml").read_text())
            (here / "i.yml").write_text(yaml.safe_dump(nested(whole, more)))
            asked += ["--inventory", "i.yml"]
        case _:
            (here / "t.json").write_text(json.dumps(expand(ROOT / "scenarios/geo.yml") | more))
            asked = ["t.json", *asked[1:]]
    assert main.main([*asked, "--dry-run", "--quiet"]) == 2
    assert words in capsys.readouterr().err


def starts(name: str, **arguments: str) -> str:
    start = {"id": 0, "start_scenario_instance": {"scenario_name": name, "arguments": arguments}}
    return json.dumps({"name": "parent", "openbach_functions": [start]})


TRANSFER = {"client": {"server_ip": "10.0.0.1", "size": "$size"}}


def test_check_finds_what_the_run_refuses_in_sub_scenarios(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "parent.json").write_text(starts("sub", size="10X"))
    start = {"id": 0, "start_job_instance": {"entity_name": "satvpn_pc", "file_transfr": TRANSFER}}
    sub = {"name": "sub", "arguments": {"size": ""}, "openbach_functions": [start]}
    (here / "sub.json").write_text(json.dumps(sub))
    assert main.main(["--check", "parent.json"]) == 2
    assert "No such job in the controller database: file_transfr" in capsys.readouterr().err
    start["start_job_instance"] = {"entity_name": "satvpn_pc", "file_transfer": TRANSFER}
    (here / "sub.json").write_text(json.dumps(sub))
    assert main.main(["--check", "parent.json"]) == 0  # the backend takes both
    assert "'10X': size is from 1" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "body"), [("if", ("true", "false")), ("while", ("while", "end"))])
@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (
            {
                "type": "=",
                "left_operand": {"type": "value", "value": 1},
                "right_operand": {"type": "value", "value": 2},
            },
            (
                "a condition cannot compare with a value (OpenBACH's code for it fails: 'property'"
                " object is not callable)"
            ),
        ),
        ({"type": "=", "left_operand": {}}, "Missing entry"),
        ({"type": "equal"}, "Missing entry"),
    ],
)
def test_of_a_condition_people_are_told_in_words(
    kind: str,
    body: tuple[str, str],
    condition: Any,
    words: str,
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lists: dict[str, list[int]] = {f"openbach_functions_{name}_ids": [] for name in body}
    function = {"id": 0, kind: {"condition": condition, **lists}}
    (here / "t.json").write_text(json.dumps({"name": "t", "openbach_functions": [function]}))
    assert main.main(["t.json"]) == 2
    said = capsys.readouterr().err
    assert words in said and "no engine and no controller runs if and while" in said


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            {"start_job_instance": {"entity_name": "a", "configure_link": {}}},
            "No such job in the controller database: configure_link; since 2019 it is"
            " tc_configure_link",
        ),
        ({"start_job_instance": {"entity_name": "a", "tcpdump": {}}}, "it is tcpdump_pcap"),
        (
            {"status_agents": {"addresses": []}},
            "are retrieve_status_agents and retrieve_status_jobs since 2017",
        ),
        ({"retrieve_status_agents": {"addresses": []}}, "no functions of scenarios any more"),
        ({"status_jobs": {"addresses": []}}, "retrieve_status_jobs since 2017"),
    ],
)
def test_what_openbach_has_renamed_is_told_by_its_new_name(
    here: Path, function: dict[str, object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """F14: `status_agents` got "did you mean install_agent?"."""
    scenario = {"name": "old", "openbach_functions": [{"id": 0, **function}]}
    (here / "old.json").write_text(json.dumps(scenario))
    assert main.main(["--check", "old.json"]) == 2
    error = capsys.readouterr().err
    assert said in error and "did you mean" not in error


@pytest.mark.parametrize("near", [refusals.near, link_file.near])
@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("throughputbps", "throughput_mbps", "did you mean throughput_mbps (in "),
        ("delay_s", "delay_ms", "did you mean delay_ms (in ms)? "),
        ("rate_mbps", "rate", "did you mean rate (with its own unit)? "),
        ("dealy_ms", "delay_ms", "did you mean delay_ms? "),
        ("srteams", "streams", "did you mean streams? "),
        ("x", "streams", ""),
    ],
)
def test_a_hint_says_the_unit_where_it_is_another_one(
    near: Callable[[str, list[str]], str], name: str, known: str, said: str
) -> None:
    """F12: a hint that is wrong by a million, as letters alone were compared."""
    assert near(name, [known]).startswith(said) and bool(near(name, [known])) is bool(said)


@pytest.mark.parametrize(
    ("heading", "said"),
    [("rateMbps", "multiply by 1000000"), ("linkrate_mbps", r"did you mean rate_bps (in bps)?")],
)
def test_a_link_files_heading_in_another_unit_is_told_so(
    heading: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "x.csv"
    file.write_text(f"time_s,{heading},delay_ms\n0,10,250\n")
    with pytest.raises(ValueError) as error:
        link_file.check(file)
    assert said in str(error.value)
