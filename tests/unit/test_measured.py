# SPDX-License-Identifier: GPL-3.0-or-later
"""Measured commands: what is looked for, and the scenario that its steps become."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.job_code import load
from hypothesis import given
from hypothesis import strategies as st

from openbach_jobs.command import WRONG_FIGURES
from openbach_jobs.measured import MOST_NUMBERS, Sought, numbers, sought
from openbach_run.campaign.options import Options
from openbach_run.campaign.request import plan_of
from openbach_run.commands.measured import as_scenario, as_script, is_measured
from openbach_run.errors import InputError
from openbach_run.openbach.expand import expand
from openbach_run.openbach.measures import STEP
from openbach_run.paths import SCENARIOS
from openbach_run.prompt.session import InputFile

measured_command = load(STEP)
GEO = SCENARIOS / "geo.yml"


@pytest.mark.parametrize(
    ("text", "wanted", "pattern"),
    [
        (
            "rtt_ms=time=([\\d.]+) ms",
            Sought("rtt_ms", "time=([\\d.]+) ms"),
            "time=\\K([\\d.]+)(?= ms)",
        ),
        ("a@12?=x(\\d)", Sought("a", "x(\\d)", 12, True), "x\\K(\\d)"),
        ("a=[()](?:\\(|y) (?P<n>\\d+)", Sought("a", "[()](?:\\(|y) (?P<n>\\d+)"), None),
        ("a=[]()]\\((\\d)", Sought("a", "[]()]\\((\\d)"), "[]()]\\(\\K(\\d)"),
    ],
)
def test_what_is_looked_for(text: str, wanted: Sought, pattern: str | None) -> None:
    assert sought(text) == wanted
    assert pattern is None or wanted.pattern == pattern
    assert sought(wanted.text) == wanted._replace(step=0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rtt_ms", "should be NAME=REGEX"),
        ("1a=(x)", "should be NAME=REGEX"),
        ("a@0=(x)", "should be NAME=REGEX"),
        ("suffix=(x)", "suffix: is taken"),
        ("a=time", "has 0 groups"),
        ("a=(x)(y)", "has 2 groups"),
        ("a=(x", "no regular expression"),
        ("a=(x){99999999999}", "no regular expression"),
        ("a=(" + "x" * 500 + ")", "502 characters"),
        ("a=x\n(y)", "not printable"),
        ("a=x|(y)", "alternatives stand in"),
        ("a=(?:x(y))", "stands in another one"),
        ("a=(x)+y", "is repeated"),
        ("a=(?x) (y)", "is not taken"),
        ("a=(?#()(y)", "is not taken"),
        ("a=[[:digit:](y)", "is not taken"),
        ("a=" + "(?:" * 120 + "(x)" + ")" * 120, "stands in another one"),
    ],
)
def test_what_cannot_be_looked_for(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        sought(text)


@given(st.text(alphabet="ab1(|)[]?:*+.\\d=^$ ", max_size=12))
def test_any_text_is_refused_or_understood(find: str) -> None:
    """A pattern for grep is one, and has the group alone as its match."""
    try:
        one = sought(f"a={find}")
    except ValueError as error:
        assert str(error)
        return
    before, _, rest = one.pattern.partition("\\K")
    assert (
        re.compile(find).groups == 1
        and find == before + rest.replace("(?=", "", 1)[: len(find) - len(before)]
    )


LINES = st.text(alphabet="x=123. v", max_size=20)


@given(
    st.lists(LINES, max_size=5), st.sampled_from(["x=(\\d+)", "v *(\\d)\\.", "^(\\d+) ", "x(\\d)$"])
)
def test_numbers_are_those_that_python_finds(
    tmp_path_factory: Any, lines: list[str], find: str
) -> None:
    printed = tmp_path_factory.mktemp("t") / "printed"
    printed.write_text("\n".join(lines) + "\n")
    found = [float(text) for line in lines for text in re.findall(find, line)]
    assert numbers(sought(f"a={find}"), printed) == found


@pytest.mark.parametrize(
    ("content", "find", "words"),
    [
        (b"v 3,5\n", "v (\\S+)", "'3,5' is no number"),
        (b"v nan\n", "v (\\S+)", "'nan' is no number"),
        (b"v 1e999\n", "v (\\S+)", "'1e999' is no number"),
        (b"v 1\n" * (MOST_NUMBERS + 1), "v (\\S+)", "10000 at most"),
        (b"a" * 60 + b"1x\n", "(?:a|aa)+([0-9])$", "exceeded PCRE's backtracking limit"),
    ],
)
def test_what_is_no_measure(tmp_path: Path, content: bytes, find: str, words: str) -> None:
    (tmp_path / "printed").write_bytes(content)
    with pytest.raises(SystemExit, match=re.escape(words)):
        numbers(sought(f"a={find}"), tmp_path / "printed")


def test_binary_output_is_searched(tmp_path: Path) -> None:
    (tmp_path / "printed").write_bytes(bytes(range(256)) * 9 + b"\nv 3.5\n")
    assert numbers(sought("a=v (\\S+)"), tmp_path / "printed") == [3.5]


# The job


def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str) -> dict[str, list[float]]:
    """Return what the job sends."""
    sent: dict[str, list[float]] = {}

    def send(_: int, **values: float) -> None:
        for name, value in values.items():
            sent.setdefault(name, []).append(value)

    monkeypatch.setattr(measured_command.collect_agent, "send_stat", send, raising=False)
    monkeypatch.setattr(measured_command.collect_agent, "now", lambda: 0, raising=False)
    monkeypatch.setattr(measured_command, "SHARED", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["measured_command", *words])
    monkeypatch.chdir(tmp_path)
    measured_command.main()
    return sent


def test_a_command_and_its_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sent = ran(
        monkeypatch, tmp_path, "echo x=1 x=2.5; exit 3",
        "--measures", "x_s=x=(\\S+)", "code=exit_code", "took_s=seconds", "no?=y(\\d)",
    )  # fmt: skip
    assert sent.pop("took_s")[0] < 60
    assert sent == {"x_s": [1, 2.5], "code": [3]}
    assert ran(monkeypatch, tmp_path, "true").keys() == {"seconds"}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["exit 4"], "`exit 4` ended with exit code 4"),
        (["yes"], "`yes` has printed more than 1048576 bytes"),
        (["true", "--measures", "a=(x)"], WRONG_FIGURES),
        (["cat", "--limit-s", "0"], 2),
        (["cat", "--measures", "a=x"], 2),
    ],
)
def test_a_command_that_measures_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], code: int | str
) -> None:
    with pytest.raises(SystemExit) as ended:
        ran(monkeypatch, tmp_path, *words)
    assert ended.value.code == code


def test_a_command_that_does_not_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has not ended in 1 s"):
        ran(monkeypatch, tmp_path, "tail -f /dev/null", "--limit-s", "1")


# The scenario

STEPS = """\
inherits: geo.yml
constants:
  count: {value: 5, text: Number of pings}
steps: |
  # the second one goes on
  pc ping -c $count server
  server echo v $$HOME &
  pc ping -c 1 box
  wait
  gw ss -ti
measures:
  rtt_ms: {find: 'time=([\\d.]+) ms$', step: 1, better: less}
  code: exit_code
  lost: {find: 'x(\\d)', step: 2, absent: none}
"""


def expanded(tmp_path: Path, text: str) -> dict[str, Any]:
    (tmp_path / "t.yml").write_text(text)
    return expand(tmp_path / "t.yml")


def test_steps_become_functions(tmp_path: Path) -> None:
    made = expanded(tmp_path, STEPS)
    functions = {one["label"]: one for one in made["openbach_functions"]}
    started = [one for one in functions.values() if STEP in one.get("start_job_instance", {})]
    ready, ids = functions["path ready"]["id"], [one["id"] for one in started]
    waits = [(one["wait"]["finished_ids"], one["wait"]["launched_ids"]) for one in started]
    server = functions["transfer server"]["id"]
    assert waits == [
        ([ready], [server]),
        ([ids[0]], []),
        ([ids[0]], [ids[1]]),
        ([ids[2], ids[1]], []),
    ]
    end = functions["tear down"]
    assert end["wait"]["finished_ids"] == [ids[3]]
    assert ids[1] not in end["stop_job_instances"]["openbach_function_ids"]
    made = expanded(tmp_path, STEPS.replace("\n  wait", ""))
    assert (
        made["openbach_functions"][-1]["stop_job_instances"]["openbach_function_ids"][0] == ids[1]
    )
    given = [one["start_job_instance"][STEP] for one in started]
    assert given[0] == {
        "command": "ping -c $count server",
        "measures": ["rtt_ms=time=([\\d.]+) ms$$"],
    }
    assert given[1] == {"command": "echo v $$HOME", "measures": ["lost?=x(\\d)"]}
    assert given[3] == {"command": "ss -ti", "measures": ["code=exit_code"]}
    assert "download" not in functions and "size" not in made["arguments"]
    assert made["x-measures"] == {
        "rtt_ms": {"better": "less"},
        "code": {},
        "lost": {"absent": "none"},
    }
    assert made["x-sweep"]["measure"] == "rtt_ms" and "cc" in made["x-sweep"]["values"]


def test_columns_are_the_scenarios(tmp_path: Path) -> None:
    (tmp_path / "t.yml").write_text(STEPS)
    campaign = plan_of(str(tmp_path / "t.yml"), ["count=1,2"], "1", Options()).campaigns[0]
    columns = {one.column: one for one in campaign.measures[STEP]}
    assert list(columns) == ["rtt_ms", "code", "lost"]
    assert (columns["rtt_ms"].unit, columns["rtt_ms"].better) == ("ms", "less")
    assert campaign.measure == "rtt_ms" and "count" in campaign.swept


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("steps: |", "description: |", "measures: a scenario with steps has measures"),
        ("pc ping -c 1 box", "pcc ping", "steps, line 4: no host 'pcc'"),
        ("pc ping -c 1 box", "pc job ping_series", "give it as a function"),
        ("$count server", "$counts server", "$counts is no argument"),
        ("code: exit_code", "code: exitcode", "measures.code: code: exitcode: has 0 groups"),
        ("code: exit_code", "cc: exit_code", "measures.cc: is an argument or constant"),
        ("step: 2", "step: 5", "measures.lost.step: there are 4 commands"),
        ("step: 2", "stepp: 2", "measures: should be regular expressions by name"),
        ("better: less", "better: few", 'x-measures: rtt_ms.better: "few" is none of'),
        ("inherits: geo.yml", "inherits: parts/path.yml", "end: is missing"),
    ],
)
def test_steps_that_are_none(tmp_path: Path, old: str, new: str, words: str) -> None:
    (tmp_path / "t.yml").write_text(STEPS.replace(old, new))
    with pytest.raises(InputError, match=re.escape(words)):
        plan_of(str(tmp_path / "t.yml"), [], "1", Options())


def test_the_scenario_of_a_command_line(tmp_path: Path) -> None:
    script = as_script(["server", "iperf3 -s &", "pc", "echo $HOME it's", "wait", "pc", "true"])
    script = f"   # of a file\n  {script}"
    (tmp_path / "conf.txt").write_text("x")
    measures = [sought("a_s@2=it'(s)$"), sought("b?=(\\d)")]
    text = as_scenario(GEO, script, measures, [])
    assert text.startswith("inherits: 'geo.yml'\n")
    made = expanded(tmp_path, text)
    given = [
        one["start_job_instance"][STEP]
        for one in made["openbach_functions"]
        if STEP in one.get("start_job_instance", {})
    ]
    assert [one["command"] for one in given] == ["iperf3 -s", "echo $$HOME it's", "true"]
    assert given[1]["measures"] == ["a_s=it'(s)$$"] and given[2]["measures"] == ["b?=(\\d)"]


def test_files_come_first(tmp_path: Path) -> None:
    (tmp_path / "conf.txt").write_text("x")
    files = [InputFile(tmp_path / "conf.txt", "wg0.conf")]
    made = expanded(
        tmp_path, as_scenario(GEO, "# x y\nbox cat wg0.conf", [sought("a@1=(x)")], files)
    )
    assert "file_wg0_conf" in made["x-sweep"]["link_files"]
    assert made["constants"]["file_wg0_conf"] == str(tmp_path / "conf.txt")
    copied, shown = [
        one["start_job_instance"][STEP]
        for one in made["openbach_functions"]
        if STEP in one.get("start_job_instance", {})
    ]
    assert copied == {"command": "cp $file_wg0_conf wg0.conf"}
    assert shown["measures"] == ["a=(x)"]


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ([], "no command"),
        (["pc"], "pc has no command"),
        (["pc", "a\nb"], "a command is one line"),
        (["pc", "a \\"], "a command is one line"),
    ],
)
def test_command_lines_that_are_no_scripts(words: list[str], right: str) -> None:
    with pytest.raises(InputError, match=right):
        as_script(words)
    assert is_measured(["geo", "--measure", "x"]) and is_measured(["--measure=x"])
    assert not is_measured(["geo", "--measures"])
