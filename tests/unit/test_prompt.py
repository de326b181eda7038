# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands for hosts as a person gives them, and the scenario whose place they take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.campaign.options import Options
from openbach_run.commands.exec import Printer, main
from openbach_run.errors import InputError
from openbach_run.guest.typed import JOB, named
from openbach_run.openbach.expand import expand
from openbach_run.openbach.lines import Command, Entry, Wait, check_jobs, of_script, of_words
from openbach_run.paths import INVENTORY, REPOSITORY
from openbach_run.prompt.session import (
    FILES,
    LEFT,
    OUTPUT,
    OutputReader,
    bring,
    input_files,
    left_files,
    limits,
    run_directory,
    wrong,
)
from openbach_run.prompt.testbed import checked_testbed, measuring, with_commands
from openbach_run.results.run_files import DamagedRecord
from openbach_run.topology.inventory import load_inventory

HOSTS = {"pc": "pc", "server": "server", "satvpn_pc": "pc"}
ENTRY = {"host": "pc", "command": "true", "apart": False}


def stored(name: str) -> dict[str, Any]:
    """A scenario of ours in stored form."""
    return expand(REPOSITORY / f"scenarios/{name}.yml")


# Lines


def test_words_are_pairs_of_host_and_command() -> None:
    words = ["server", "iperf3 -s &", "satvpn_pc", " ping -c 1 server ", "wait", "pc", "true"]
    assert of_words(words, HOSTS) == [
        Command("server", "iperf3 -s", apart=True),
        Command("pc", "ping -c 1 server"),
        Wait(),
        Command("pc", "true"),
    ]


def test_a_script_says_the_same_in_lines() -> None:
    script = "# first the server\nserver iperf3 -s &\n\n  pc ping \\\n-c 1 server\nwait\npc true\n"
    assert of_script(script, "lines", HOSTS) == [
        Command("server", "iperf3 -s", apart=True),
        Command("pc", "ping -c 1 server"),
        Wait(),
        Command("pc", "true"),
    ]


@given(
    st.lists(
        st.one_of(
            st.just(Wait()),
            st.builds(
                Command,
                st.sampled_from(["pc", "server"]),
                st.text("abc '\"$|;-/", min_size=1).map(str.strip).filter(bool),
                st.booleans(),
            ),
        )
    )
)
def test_what_is_kept_as_a_script_reads_as_the_same(entries: list[Entry]) -> None:
    whole = [*entries, Command("pc", "true")]
    assert of_script("".join(f"{one.line}\n" for one in whole), "lines", HOSTS) == whole


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no command: HOST 'COMMAND'"),
        (["wait"], "no command"),
        (["pc"], "command 1: pc has no command"),
        (["pc", " "], "command 1: an empty command for pc"),
        (["pc", "&"], "command 1: an empty command for pc"),
        (["pcc", "true"], "command 1: no host 'pcc'; did you mean pc"),
        (["pc", "ping", "-c", "5"], "command 2: no host '-c'; .*put it in quotes"),
        (["pc", "sleep 1 &"], "the last command has &"),
        (["pc", "echo \0"], "command 1: a NUL character"),
        (["pc", "job"], "command 1: job NAME"),
        (["pc", "job 'x"], "command 1: job 'x: No closing quotation"),
    ],
)
def test_wrong_words_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        of_words(words, HOSTS)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("\n\nnowhere true\n", "f, line 3: no host 'nowhere'"),
        ("pc\n", "f, line 1: an empty command for pc"),
        ("pc true\npc a \\", "f, line 2: ends with a backslash"),
        ("# nothing\n", "no command"),
    ],
)
def test_wrong_lines_are_refused(script: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        of_script(script, "f", HOSTS)


def test_and_and_an_escaped_ampersand_start_nothing_apart() -> None:
    assert of_words(["pc", "echo a\\&"], HOSTS) == [Command("pc", "echo a\\&")]
    assert of_words(["pc", "true &&"], HOSTS) == [Command("pc", "true &&")]


def test_a_job_is_one_that_the_hosts_have() -> None:
    (entry,) = of_words(["pc", "job path_ready 'a b'"], HOSTS)
    assert entry.as_entry()["job"] == ["path_ready", "a b"]
    check_jobs([entry], ["path_ready"])
    with pytest.raises(InputError, match="no job path_ready; there are voip"):
        check_jobs([entry], ["voip"])


# The scenario


def test_commands_take_the_place_of_the_measurement() -> None:
    scenario = stored("geo")
    functions = scenario["openbach_functions"]
    names = {one["id"]: one["label"] for one in functions}
    (download,) = [one for one in functions if one["label"] == "download"]
    left_out = measuring(functions, "geo")
    assert {names[one] for one in left_out} == {"download", "tear down"}
    run = with_commands({"scenario": scenario}, [ENTRY])
    changed = {one["id"]: one for one in run["scenario"]["openbach_functions"]}
    assert list(changed) == [one["id"] for one in functions]
    typed = changed[download["id"]]
    assert typed["start_job_instance"] == {"entity_name": "satvpn_pc", JOB: {}}
    assert typed["wait"]["launched_ids"] == download["wait"]["launched_ids"]
    assert typed["wait"]["finished_ids"] == download["wait"]["finished_ids"]
    (stop,) = [one for one in changed.values() if one["label"] == "tear down"]
    assert stop["wait"]["finished_ids"] == [download["id"]]
    assert run["typed"] == [ENTRY]
    assert scenario == stored("geo"), "the scenario itself stays"


@pytest.mark.parametrize("name", ["geo", "geo_loss", "leo", "web", "voip", "multi_flow"])
def test_every_wait_of_the_changed_scenario_is_for_what_is_there(name: str) -> None:
    run = with_commands({"scenario": stored(name)}, [ENTRY])
    functions = run["scenario"]["openbach_functions"]
    there = {one["id"] for one in functions}
    for one in functions:
        for kind, ids in one["wait"].items():
            assert kind == "time" or set(ids) <= there, one
        stop = one.get("stop_job_instances", {"openbach_function_ids": []})
        assert set(stop["openbach_function_ids"]) <= there, one
    assert sum(JOB in one.get("start_job_instance", {}) for one in functions) == 1


def test_a_scenario_that_measures_nothing_is_added_to() -> None:
    scenario = stored("geo")
    left_out = measuring(scenario["openbach_functions"], "geo")
    kept = [one for one in scenario["openbach_functions"] if one["id"] not in left_out]
    run = with_commands({"scenario": {**scenario, "openbach_functions": kept}}, [ENTRY])
    *before, typed = run["scenario"]["openbach_functions"]
    (ready,) = [one["id"] for one in before if one["label"] == "path ready"]
    assert before == kept
    assert typed["wait"]["finished_ids"] == [ready]


def test_a_scenario_whose_path_nobody_waits_for_is_refused() -> None:
    with pytest.raises(InputError, match="mine: no function starts the job path_ready"):
        measuring([{"id": 0, "wait": {}, "start_job_instance": {"entity_name": "pc"}}], "mine")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["size=3M"], "size: has no effect: only the measurement of geo uses it"),
        (["vpn=none,wireguard"], "vpn=none,wireguard: exec has one path: give one value"),
        (["vpn=none", "los=1"], "los"),
    ],
)
def test_values_are_those_of_one_path(settings: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        checked_testbed("geo", settings, "1,", Options(), "exec")


def test_the_first_value_is_taken_where_none_is_given() -> None:
    testbed = checked_testbed("geo", ["vpn=wireguard", "access_mtu=1400"], "1,", Options(), "exec")
    assert testbed.chosen == {"cc": "cubic"}
    assert testbed.campaign.cells[0]["vpn"] == "wireguard"
    assert testbed.hosts["satvpn_pc"] == testbed.hosts["pc"] == "pc"


def test_a_campaign_is_no_path() -> None:
    with pytest.raises(InputError, match="exec takes one"):
        checked_testbed("matrix", [], "1,", Options(), "exec")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["geo", "--file", "nowhere", "--", "pc", "true"], "--file nowhere: no such file"),
        (["geo", "--pcap", "--", "pc", "true"], "--pcap: the capture goes to"),
        (["geo", "--seed", "-1", "--", "pc", "true"], "--seed -1: from 0"),
        (["geo", "--limit", "0", "--", "pc", "true"], "--limit 0: from 1"),
        (["geo", "--script", "nowhere"], "nowhere"),
        (["geo", "--", "pc", "job voip"], "the hosts have no job voip"),
    ],
)
def test_exec_refuses_before_a_guest_starts(words: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        main(words)


def test_a_script_and_words_are_too_much(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("pc true\n")
    with pytest.raises(InputError, match="not both"):
        main(["geo", "--script", str(tmp_path / "lines"), "--", "pc", "true"])


def test_hosts_are_called_by_names() -> None:
    inventory = load_inventory(INVENTORY)
    pc = inventory.host("satvpn_pc")
    assert pc is not None
    known = {}
    for line in named(pc, inventory):
        address, _, names = line.partition(" ")
        known[names] = address
    assert known["pc satvpn_pc"] == "127.0.0.1"
    assert known["box satvpn_box"] == "192.168.10.1", "the address in the network of both"
    assert known["server satvpn_server"] == "192.168.20.2"
    assert known["box.access"] == "10.10.1.1"


# Files


def test_files_are_given_under_their_names(tmp_path: Path) -> None:
    program, folder = tmp_path / "server", tmp_path / "site"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o4755)
    (folder / "a").mkdir(parents=True)
    (folder / "a/b").write_text("b")
    with run_directory(input_files([f"{program}:mine", str(folder)])) as run_dir:
        copy = run_dir / FILES / "mine"
        assert copy.stat().st_mode & 0o7777 == 0o755, "no rights of its owner"
        assert copy.stat().st_mtime == (run_dir / FILES / "site/a/b").stat().st_mtime
        assert limits(run_dir)[1] == 20_000 + 4
    assert not run_dir.exists()


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["README.md", "LICENSE:README.md"], "two files would be called README.md"),
        (["README.md:a/b"], "'a/b' is no name of a file"),
        (["README.md:.."], "'..' is no name"),
        (["/dev/null"], "neither a file nor a directory"),
    ],
)
def test_wrong_files_are_refused(texts: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        input_files(texts)


def test_only_regular_files_are_brought_back(tmp_path: Path) -> None:
    left = tmp_path / "run" / LEFT
    (left / "a").mkdir(parents=True)
    (left / "a/b").write_text("found")
    (left / "passwd").symlink_to("/etc/passwd")
    names = left_files(tmp_path / "run")
    assert names == ["a/b", "passwd"]
    (refused,) = bring(tmp_path / "run", names, tmp_path / "out")
    assert "passwd: a symbolic link" in refused
    assert [one.name for one in (tmp_path / "out").rglob("*")] == ["a", "b"]
    assert (tmp_path / "out/a/b").read_text() == "found"


# Output


LINES: list[Mapping[str, Any]] = [
    {"begun": 0, "t_s": 6.6},
    {"begun": 1, "t_s": 6.6},
    {"of": 1, "stream": 1, "text": "64 by"},
    {"of": 0, "stream": 1, "text": "Accep"},
    {"of": 0, "stream": 1, "text": "ted\nand"},
    {"of": 1, "stream": 1, "text": "tes\n"},
    {"of": 1, "stream": 2, "text": "caf\xc3\xa9"},
    {"ended": 1, "t_s": 7.1, "code": -9},
    {"lasting": [0]},
    {"ended": 0, "t_s": 7.1, "code": -15},
]


def test_output_is_read_as_it_comes(tmp_path: Path) -> None:
    told: list[Mapping[str, Any]] = []
    reader = OutputReader(tmp_path, told.append)
    reader.read()
    with (tmp_path / OUTPUT).open("w", buffering=1) as file:
        file.write(json.dumps(LINES[0]) + "\n" + json.dumps(LINES[1])[:5])
        file.flush()
        reader.read()
        assert told == LINES[:1]
        file.write(json.dumps(LINES[1])[5:] + "\n")
        file.writelines(json.dumps(one) + "\n" for one in LINES[2:])
    reader.read()
    assert told == LINES
    assert {one.number: one.code for one in reader.ended.values()} == {0: -15, 1: -9}
    assert reader.ended[1].ended_s - reader.ended[1].begun_s == pytest.approx(0.5)
    assert reader.lasting == {0}


def test_output_is_printed_with_the_host_of_what_runs_apart(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    entries = [Command("server", "iperf3 -s", apart=True), Command("pc", "ping server")]
    printer = Printer(entries, quiet=False)
    for one in LINES[:-1]:
        printer.on_event(one)
    assert printer.running == {0}
    printer.on_event(LINES[-1])
    out, err = capfdbinary.readouterr()
    assert out == b"64 byserver: Accepted\ntes\nserver: and\n"
    assert err.decode() == (
        "    6.60 s  server iperf3 -s &\n"
        "    6.60 s  pc ping server\n"
        "café\n    7.10 s  pc ping: ended by SIGKILL\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        [],
        {"begun": 1},
        {"begun": "1", "t_s": 1.0},
        {"of": 1, "stream": 1, "text": "€"},
        {"ended": 1, "t_s": 1.0, "code": None},
    ],
)
def test_a_line_that_no_guest_of_ours_writes_is_damage(line: Any, tmp_path: Path) -> None:
    assert wrong(line)
    (tmp_path / OUTPUT).write_text(json.dumps(line) + "\n")
    with pytest.raises(DamagedRecord, match=r"output\.jsonl, line 1"):
        OutputReader(tmp_path, lambda one: None).read()
