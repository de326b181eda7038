# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenarios written as YAML.

What they inherit, what follows from them, and what is said of those that are wrong.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from helpers import own_files
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.commands import main
from openbach_run.errors import InputError
from openbach_run.json_files import folded
from openbach_run.openbach.expand import expand
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.lint import lint
from openbach_run.openbach.reading import parse_scenario, read_scenario
from openbach_run.openbach.source import KEYS as SCENARIO_KEYS
from openbach_run.openbach.source import is_source

ROOT = Path(__file__).resolve().parents[2]
JOBS = {name: package.job for name, package in load_packages([ROOT / "jobs"]).items()}
PING: dict[str, Any] = {
    "arguments": {"cc": "congestion control"},
    "constants": {
        "rate": {"value": "10M", "text": "rate"},
        "cc_pep": {"value": "$cc", "text": "of the proxy"},
        "unused": {"value": "1", "text": "no function has it"},
    },
    "addresses": {"server_ip": "satvpn_server.enterprise_lan.address"},
    "values": {"cc": "cubic"},
    "groups": {"hosts": ["TCP of pc", "TCP of st"]},
    "functions": {
        "TCP of pc": {"on": "pc", "transport_profile": {"cc": "$cc"}},
        "TCP of st": {"on": "st", "transport_profile": {"cc": "$cc_pep"}},
        "path": {
            "on": "pc",
            "launched": "hosts",
            "after_s": "2.5",
            "path_ready": {"destination_ip": "$server_ip"},
        },
    },
    "end": {"finished": "path", "stop": ["hosts"]},
}


def changed(key: str, value: Any) -> dict[str, Any]:
    """PING with another value at `functions.path.on`, say; None: without it."""
    made = json.loads(json.dumps(PING))
    *parents, last = key.split(".")
    inside = made
    for one in parents:
        inside = inside.setdefault(one, {})
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    return dict(made)


def written(folder: Path, content: Any, name: str = "ping.yml") -> Path:
    file = folder / name
    file.write_text(
        content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
    )
    return file


def test_labels_become_numbers_and_names_values(tmp_path: Path) -> None:
    made = expand(written(tmp_path, PING))
    read = parse_scenario(made, JOBS)
    assert [one["label"] for one in read.functions] == [
        "TCP of pc",
        "TCP of st",
        "path",
        "tear down",
    ]
    assert made["openbach_functions"][2]["wait"] == {
        "time": 2.5,
        "launched_ids": [0, 1],
        "finished_ids": [],
    }
    assert made["openbach_functions"][3]["stop_job_instances"] == {"openbach_function_ids": [0, 1]}
    assert read.arguments.keys() == {"cc"} and read.constants == {"server_ip": "192.168.20.2"}
    assert made["x-inventory"] == {"constants": PING["addresses"]}
    assert made["x-sweep"] == {"defaults": {"cc": "cubic"}, "values": {}}


def test_a_constant_with_another_ones_value_follows_it_until_it_has_its_own(tmp_path: Path) -> None:
    made = expand(written(tmp_path, PING))
    place = "1.start_job_instance.transport_profile.cc"
    assert made["x-same"] == {"cc_pep": [place]} and "cc_pep" not in made["constants"]
    assert made["openbach_functions"][1]["start_job_instance"]["transport_profile"] == {"cc": "$cc"}
    own = expand(written(tmp_path, changed("values.cc_pep", "bbr2")))
    assert own["x-same"] == {} and own["constants"]["cc_pep"] == "bbr2"


def test_what_a_file_inherits_is_replaced_name_by_name(tmp_path: Path) -> None:
    written(tmp_path, PING, "parent.yml")
    child = {
        "inherits": "parent.yml",
        "constants": {"cc": {"value": "bbr", "text": "a constant here"}},
        "functions": {
            "TCP of st": {"on": "gw", "transport_profile": {"cc": "$cc_pep"}},
            "TCP of sat": {"on": "sat", "transport_profile": {"cc": "$cc"}},
        },
        "groups": {"hosts": ["TCP of sat"]},
    }
    made = expand(written(tmp_path, child, "child.yml"))
    hosts = [one["start_job_instance"]["entity_name"] for one in made["openbach_functions"][:-1]]
    assert (made["name"], hosts) == ("child", ["satvpn_pc", "satvpn_gw", "satvpn_pc", "satvpn_sat"])
    assert made["openbach_functions"][2]["wait"]["launched_ids"] == [3]
    assert made["arguments"] == {} and made["constants"]["cc"] == "bbr"


def test_an_inventory_is_a_path_from_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "topologies").mkdir()
    (tmp_path / "scenarios").mkdir()
    text = (ROOT / "inventory.yml").read_text().replace("192.168.20.", "172.30.0.")
    written(tmp_path, text, "topologies/own.yml")
    written(tmp_path, {**PING, "inventory": "topologies/own.yml"}, "parent.yml")
    made = expand(written(tmp_path, {"inherits": "../parent.yml"}, "scenarios/child.yml"))
    assert made["x-inventory"]["file"] == "../topologies/own.yml"
    assert made["constants"]["server_ip"] == "172.30.0.2"


def test_what_the_checkout_has_can_be_inherited_from_anywhere(tmp_path: Path) -> None:
    made = expand(
        written(
            tmp_path, "inherits: geo_loss.yml\nsweep: {vpn: [none], cc: [bbr], loss: [0.10, 1]}\n"
        )
    )
    assert made["x-sweep"]["values"]["loss"] == ["0.10", "1"], "as it was typed"
    ours = json.loads((ROOT / "scenarios/geo_loss.json").read_text())
    assert made["openbach_functions"] == ours["openbach_functions"]


def drawing(value: str, **more: Any) -> dict[str, Any]:
    """PING with a function on the host that a constant names."""
    made = changed("constants.drawn_on", {"value": "none", "text": "Where, or none"})
    made["values"] = {**made["values"], "drawn_on": value}
    job = {"time_series": {"jobs": [[["path"]]], "statistics": [["rtt_ms"]]}}
    made["functions"]["RTT"] = {"on": "$drawn_on", "finished": "path", **job, **more}
    return made


def test_a_function_is_on_the_host_that_a_constant_names_or_nowhere(tmp_path: Path) -> None:
    """The backend takes no placeholder for a host, and starts every function that is there."""
    without = expand(written(tmp_path, drawing("none")))
    assert without == expand(written(tmp_path, PING))
    made = expand(written(tmp_path, drawing("pc")))
    drawn = made["openbach_functions"][3]
    assert drawn["start_job_instance"] == {
        "entity_name": "satvpn_pc",
        "time_series": {"jobs": [[[2]]], "statistics": [["rtt_ms"]]},
    }
    # It fails without failing the instance.
    assert drawn["on_fail"] == {"policy": "Ignore"} and drawn["wait"]["finished_ids"] == [2]
    assert "drawn_on" not in made["constants"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (drawing("moon"), "functions.RTT.on: the inventory has no host moon; it has pc"),
        (drawing("pc", on="$cc"), r"functions.RTT.on: \$cc is no constant"),
        (
            drawing("pc", time_series={"jobs": [[["paht"]]]}),
            "functions.RTT: 'paht' is no function and no group; did you mean path",
        ),
    ],
    ids=["no host", "no constant", "no function"],
)
def test_what_is_wrong_with_such_a_function_is_said(
    content: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words):
        expand(written(tmp_path, content))


@pytest.mark.parametrize("name", ["geo", "leo_loss", "mixed_cc", "multi_flow", "voip", "web"])
def test_openbachs_own_jobs_draw_where_post_processing_names_a_host(
    name: str, tmp_path: Path
) -> None:
    """Their arguments are those of OpenBACH 2.7's jobs."""
    theirs = load_packages([ROOT / "tests/data/job_schemas.json"])
    jobs = JOBS | {job: theirs[job].job for job in ("time_series", "histogram")}
    content = {"inherits": f"{name}.yml", "values": {"post_processing": "server"}}
    scenario = read_scenario(written(tmp_path, content), jobs)
    drawn = [one for one in scenario.functions if "on_fail" in one]
    started = [one["start_job_instance"] for one in drawn]
    assert [one.keys() - {"entity_name"} for one in started] == [{"time_series"}, {"histogram"}]
    assert {one["entity_name"] for one in started} == {"satvpn_server"}
    assert not lint(scenario, jobs)
    own = read_scenario(ROOT / f"scenarios/{name}.yml", JOBS)
    assert len(own.functions) == len(scenario.functions) - 2


WRONG: list[tuple[str, Any, str]] = [
    (
        "functions.path.on",
        "cp",
        "ping.yml: functions.path.on: the inventory has no host cp; it has pc, server",
    ),
    (
        "functions.path.on",
        None,
        "functions.path: should have `on`, a host, and a job with its arguments, or `stop`",
    ),
    ("functions.path.ping", {}, "functions.path: should have `on`, a host, and a job"),
    ("functions.path.path_ready", "x", "functions.path: should have `on`, a host, and a job"),
    (
        "functions.path.launched",
        "TCP of cp",
        "functions.path.launched: 'TCP of cp' is no function and no group; did",
    ),
    (
        "functions.path.launched",
        {},
        "functions.path.launched: should be a function or a group, or a list of them",
    ),
    (
        "functions.path.after_s",
        "soon",
        "functions.path.after_s: 'soon' should be a number of seconds",
    ),
    (
        "functions.path.after_s",
        "nan",
        "functions.path.after_s: 'nan' should be a number of seconds",
    ),
    (
        "functions.path.path_ready.destination_ip",
        "$server_pi",
        r"functions.path: \$server_pi is no argument, constant",
    ),
    (
        "functions.path.path_ready.destination_ip",
        "a$",
        "functions.path: 'a\\$': .*; a literal dollar is written \\$\\$",
    ),
    (
        "functions.path.path_ready.destination_ip",
        "a$cc_pep",
        r"functions.path: .* \$cc_pep can only be a whole value",
    ),
    ("functions.path", [], "functions: should be functions by label"),
    (
        "functions.tear down",
        {},
        "functions.tear down: is the name of a group, or of the function of `end`",
    ),
    ("functions", None, "functions: is missing"),
    ("end", None, r"end: is missing, here and in what the file inherits; \{finished"),
    ("end.stop", None, "end: should be {finished: …, stop: "),
    ("end.finished", "pings", "end.finished: 'pings' is no function and no group"),
    ("groups.hosts", ["hosts"], "groups.hosts: 'hosts' is no function and no group; holds itself"),
    ("groups.hosts", {}, "groups: should be lists of functions by name"),
    ("constants.rate", "10M", r"constants: should be by name, \{value: …, text: …\}"),
    (
        "constants.cc_pep.value",
        "$cd",
        r"constants.cc_pep: \$cd: after \$ comes an argument, or a constant with a value",
    ),
    (
        "values.cc_pep",
        "$cc_pep",
        r"values.cc_pep: \$cc_pep: after \$ comes an argument, or a constant with a value",
    ),
    ("values.ccc", "bbr", "values.ccc: no argument or constant has this name; did you mean cc"),
    ("sweep.size", ["1M"], "sweep.size: no argument or constant has this name"),
    ("sweep.unused", ["1"], r"sweep.unused: no function of the scenario uses \$unused"),
    ("sweep.cc", "bbr", "sweep: should be lists of texts by name"),
    (
        "addresses.server_ip",
        "satvpn_server.lan.address",
        "addresses.server_ip: .* the inventory has no network 'lan'",
    ),
    ("plot.figure", "pie", "plot: should be {measure: …, figure: matrix or measures}"),
    ("inventory", "none.yml", "none.yml: no such file"),
    ("swep", {}, "swep: no such key; did you mean sweep"),
    (
        "inherits",
        "parts/paht.yml",
        "inherits: parts/paht.yml: no such file, from here or from .*scenarios",
    ),
    ("inherits", "ping.yml", "inherits: the file inherits itself"),
    ("table_of", "geo.yml", "table_of: a table has no other key"),
]


@pytest.mark.parametrize(
    ("key", "value", "words"), WRONG, ids=[f"{key}={value}" for key, value, _ in WRONG]
)
def test_what_is_wrong_is_said_with_its_place(
    key: str, value: Any, words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=f"^{tmp_path}/.*{words}"):
        expand(written(tmp_path, changed(key, value)))


def test_the_file_that_is_wrong_is_named_and_not_its_heir(tmp_path: Path) -> None:
    parent = written(tmp_path, changed("groups.hosts", ["TCP of cp"]), "parent.yml")
    with pytest.raises(InputError, match=f"^{parent}: groups.hosts: 'TCP of cp'"):
        expand(written(tmp_path, {"inherits": "parent.yml"}))


def test_a_label_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    text = "functions:\n  a: {on: pc, path_ready: {}}\n  a: {on: st, path_ready: {}}\n"
    with pytest.raises(InputError, match=r"'a' is there twice\n.*line 3, column 3"):
        expand(written(tmp_path, text))


def test_a_table_of_a_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"table_of: a table .* is of a scenario that is no table"):
        expand(written(tmp_path, "table_of: geo_loss_table.yml\n"))


def test_a_refusal_of_the_backend_names_the_label(tmp_path: Path) -> None:
    file = written(tmp_path, changed("functions.path.path_ready", {"destination_pi": "$server_ip"}))
    with pytest.raises(
        InputError,
        match=(
            r"functions\.2\.start_job.* Missing required argument.*; openbach_functions\.2 is"
            r" 'path'"
        ),
    ):
        read_scenario(file, JOBS)


def test_the_command_tells_scenarios_from_campaigns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_source(written(tmp_path, PING)) and not is_source(ROOT / "library/campaigns/leo.yml")
    assert main.main(["--check", str(tmp_path / "ping.yml")]) == 0
    assert "accepted: 4 functions" in capsys.readouterr().out
    assert main.main([str(written(tmp_path, "a: 1\n", "other.yml"))]) == 2
    assert "a campaign file has a list `scenarios`" in capsys.readouterr().err


def test_the_json_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = own_files.write("scenarios.md", tmp_path)
    assert main.main(["expand", str(file)]) == 0
    printed = capsys.readouterr().out
    assert main.main(["expand", str(file), "-o", str(tmp_path / "json")]) == 0
    assert (tmp_path / "json/upload.json").read_text() == printed
    assert parse_scenario(json.loads(printed), JOBS).name == "upload"


def test_no_two_functions_have_one_label() -> None:
    """They are how a person tells functions apart, in OpenBACH's web UI as well."""
    for file in (ROOT / "scenarios").glob("*.yml"):
        labels = [one["label"] for one in expand(file)["openbach_functions"]]
        assert len(labels) == len(set(labels)), file.name


def test_no_argument_that_is_swept_has_a_default_too() -> None:
    """The package's README would list a default that the scenario never uses.

    It did for mixed_cc without a PEP.
    """
    for file in (ROOT / "scenarios").glob("*.yml"):
        sweep = expand(file)["x-sweep"]
        assert not sweep["defaults"].keys() & sweep["values"].keys(), file.name


TEXTS = st.text(st.sampled_from("acp $_{}.:-,0né"), max_size=6) | st.sampled_from(
    ["pc", "path", "$cc", "hosts"]
)
TREES = st.recursive(
    TEXTS,
    lambda one: st.lists(one, max_size=3) | st.dictionaries(TEXTS, one, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [*SCENARIO_KEYS, *(f"{key}.{name}" for key, value in PING.items() for name in value)]
)


@given(KEYS, TREES)
def test_a_file_gives_a_scenario_or_says_what_is_wrong(key: str, value: Any) -> None:
    with TemporaryDirectory() as folder:
        try:
            made = expand(written(Path(folder), changed(key, value)))
        except InputError as error:
            assert str(error).startswith(folder)
        else:
            assert json.loads(json.dumps(made)) == made
            numbers = range(len(made["openbach_functions"]))
            assert [one["id"] for one in made["openbach_functions"]] == list(numbers)


def test_json_is_folded_for_people_and_says_the_same() -> None:
    """What fits into a line of 120 characters is on one."""
    scenario = expand(ROOT / "scenarios/geo_loss.yml")
    text = folded(scenario)
    assert json.loads(text) == scenario
    lines = text.splitlines()
    assert any('"wait": {' in line and line.rstrip(",").endswith("}") for line in lines)
    assert folded({"a": [1, {"b": "é"}]}, width=14) == '{\n  "a": [\n    1,\n    {"b": "é"}\n  ]\n}'
