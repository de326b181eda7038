# SPDX-License-Identifier: GPL-3.0-or-later
"""The backend, as far as conformance.json does not show it; values at start, and advice.

It follows from the reference (§1) and from the backend's source.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.errors import InputError
from openbach_run.openbach.job import Job
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.lint import lint
from openbach_run.openbach.reading import parse_scenario, read_scenario
from openbach_run.openbach.refusals import Malformed
from openbach_run.openbach.scenario import Scenario
from openbach_run.openbach.start import check_values
from openbach_run.openbach.uses import argument_choices
from openbach_run.openbach.values import bind

DATA = Path(__file__).resolve().parents[1] / "data"
JOBS = {name: package.job for name, package in load_packages([DATA / "job_schemas.json"]).items()}


def job(name: str = "fping", /, arguments: Any = None, **more: Any) -> dict[str, Any]:
    given = {"destination_ip": "10.0.0.1"} if arguments is None else arguments
    return {"id": 0, "start_job_instance": {"entity_name": "e", name: given}, **more}


def scenario(*functions: Any, **more: Any) -> dict[str, Any]:
    return {"name": "t", "openbach_functions": list(functions), **more}


def ping(**arguments: Any) -> dict[str, Any]:
    return scenario(job(arguments=arguments))


def waits(**wait: Any) -> dict[str, Any]:
    return scenario(job(wait=wait))


def refused(data: Any) -> Malformed:
    with pytest.raises(Malformed) as raised:
        parse_scenario(data, JOBS)
    return raised.value


def stored(data: Any, jobs: Mapping[str, Job] = JOBS) -> list[dict[str, Any]]:
    return parse_scenario(data, jobs).as_stored()["openbach_functions"]  # type: ignore[no-any-return]


F0 = "openbach_functions.0"
JOB0 = f"{F0}.start_job_instance"
NOT_AN_INT = "[\"value has an invalid type 'str' should be 'int'\"]"
REFUSED: dict[str, tuple[Any, str, str | None]] = {
    "functions are no list": (
        scenario() | {"openbach_functions": {}},
        "Type error",
        "openbach_functions",
    ),
    "null function": (scenario(None), "Missing entry", F0),
    "null label": (scenario(job(label=None)), "Missing entry", f"{F0}.label"),
    "id is a text": (scenario(job(id="0")), "Type error", f"{F0}.id"),
    "null description of an argument": (
        scenario(arguments={"a": None}),
        "Missing entry",
        "arguments.a",
    ),
    "clash before type": (
        scenario(arguments={"a": ""}, constants={"a": 3}),
        "Some constants are named the same than some arguments",
        "constants.a",
    ),
    "wait before id": (scenario({"wait": None}), "Missing entry", f"{F0}.wait"),
    "wait.time null": (waits(time=None), "Missing entry", f"{F0}.wait.time"),
    "wait.time list": (waits(time=[]), "Type error", f"{F0}.wait.time"),
    "wait list null": (waits(ended_ids=None), "Missing entry", f"{F0}.wait.ended_ids"),
    "wait on a text": (waits(ended_ids=["0"]), "Type error", f"{F0}.wait.ended_ids.0"),
    "unknown function": (
        scenario({"id": 0, "foo_bar": {}}),
        "Unknown OpenBACH Function",
        f"{F0}.foo_bar",
    ),
    "no entity": (
        scenario({"id": 0, "start_job_instance": {"fping": {}}}),
        "Missing entry ''entity_name''",
        JOB0,
    ),
    "no job": (
        scenario({"id": 0, "start_job_instance": {"entity_name": "e"}}),
        "The name of the job to start is missing",
        JOB0,
    ),
    "body is a list": (
        scenario({"id": 0, "stop_job_instances": []}),
        "django.db.models.query.QuerySet.create() argument after ** must be a mapping, not list",
        f"{F0}.stop_job_instances",
    ),
    "offset is a list": (
        scenario({"id": 0, "start_job_instance": {"entity_name": "e", "offset": [], "fping": {}}}),
        "Type error",
        f"{JOB0}.offset",
    ),
    "unknown argument": (
        ping(destination_ip="x", foo=1),
        "The configured job does not accept the given argument",
        f"{JOB0}.fping.foo",
    ),
    "missing before unknown": (
        ping(foo=1),
        "Missing required argument",
        f"{JOB0}.fping.destination_ip",
    ),
    "missing in a subcommand": (
        scenario(job("iperf3", {"client": {}})),
        "Missing required argument",
        f"{JOB0}.iperf3.server_ip",
    ),
    "unknown in a subcommand": (
        scenario(job("iperf3", {"server": {"foo": 1}})),
        "The configured job does not accept the given argument",
        f"{JOB0}.iperf3.foo",
    ),
    "two subcommands": (
        scenario(job("iperf3", {"server": {}, "client": {"server_ip": "1.1.1.1"}})),
        "Several subcommands provided for the group",
        f"{JOB0}.iperf3.mode",
    ),
    "bad int": (ping(destination_ip="x", count="many"), NOT_AN_INT, f"{JOB0}.fping.count"),
    "bad ip": (
        scenario(job("iperf3", {"client": {"server_ip": "nowhere"}})),
        "[\"value has an invalid type 'str' should be 'IPv4Address or IPv6Address'\"]",
        f"{JOB0}.iperf3.server_ip",
    ),
    "bad network": (
        scenario(job("ip_address", {"interface": "eth0", "add": {"address_mask": "10.0.0.1/99"}})),
        "[\"value has an invalid type 'str' should be 'IPv4Interface or IPv6Interface'\"]",
        f"{JOB0}.ip_address.address_mask",
    ),
    "gap": (
        ping(destination_ip=["x", None]),
        "An array of value contains gaps for the given argument",
        f"{JOB0}.fping.destination_ip",
    ),
    "retry without a number": (
        scenario(job(on_fail={"policy": "retry"})),
        "Missing entry",
        f"{F0}.on_fail.retry",
    ),
    "bad delay": (
        scenario(job(on_fail={"policy": "retry", "retry": 1, "delay": "x"})),
        "[\"value has an invalid type 'str' should be 'float'\"]",
        f"{F0}.on_fail",
    ),
    "policy before job": (
        scenario(job("nojob", {}, on_fail={"policy": "explode"})),
        "Unknown failure policy 'explode'",
        f"{F0}.on_fail",
    ),
    "duplicate before policy": (
        scenario(job(), job(on_fail={"policy": "explode"})),
        (
            "duplicate key value violates unique constraint"
            ' "openbach_django_openbach_scenario_version_id_func_d1e9a04a_uniq"\nDETAIL:  Key'
            " (scenario_version_id, function_id)=(1, 0) already exists.\n"
        ),
        "openbach_functions.1.start_job_instance",
    ),
    "huge id": (scenario(job(id=2**40)), "integer out of range\n", JOB0),
    "first undefined one": (
        ping(destination_ip="$z$a"),
        "This argument is used as a placeholder value but is not defined",
        "arguments.'z'",
    ),
    "a flag uses no placeholder": (
        scenario(job("iperf3", {"server": {"exit": "$a"}}), arguments={"a": ""}),
        "An argument is unused",
        "arguments.a",
    ),
    "on_fail.delay is no use": (
        scenario(job(on_fail={"policy": "retry", "retry": 1, "delay": "$a"}), arguments={"a": ""}),
        "An argument is unused",
        "arguments.a",
    ),
    "bad placeholder of a number": (
        ping(destination_ip="x", count="$1"),
        "['value uses the placeholder escape symbol ($) but does not provide a valid identifier']",
        f"{JOB0}.fping.count",
    ),
    "push_file as it is stored": (
        scenario({"id": 0, "push_file": {"entity_name": "e", "files": []}}),
        "Missing entry ''local_path''",
        f"{F0}.push_file",
    ),
    "condition without type": (
        scenario({"id": 0, "if": {"condition": {}}}),
        "Missing entry ''type''",
        f"{F0}.if",
    ),
    "arguments are a list": (
        scenario({"id": 0, "start_scenario_instance": {"scenario_name": "x", "arguments": []}}),
        "the JSON object must be str, bytes or bytearray, not list",
        f"{F0}.start_scenario_instance",
    ),
    "stop of a text": (
        scenario({"id": 0, "stop_job_instances": {"openbach_function_ids": ["x"]}}),
        NOT_AN_INT,
        f"{F0}.stop_job_instances",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    data, error, entry = REFUSED[name]
    malformed = refused(data)
    assert malformed.status == 400
    assert malformed.answer["error"] == "Data of the Scenario are malformed"
    message = malformed.answer["error_message"]
    assert (message["error"], message["offending_entry"]) == (error, entry)


def test_a_bad_value_is_shown_with_its_type() -> None:
    message = refused(ping(destination_ip="x", count="many")).answer["error_message"]
    assert (message["offending_value"], message["expected_type"]) == ("many", "int")


CRASHES: dict[str, tuple[Any, str]] = {
    "dollar": (
        job(arguments={"destination_ip": "awk '{print $1}'"}),
        "['value uses the placeholder escape symbol",
    ),
    "bare id as a job": (
        job("time_series", {"jobs": 3, "statistics": "x"}),
        "'int' object has no attribute 'read'",
    ),
    "two levels": (
        job("time_series", {"jobs": [[3]], "statistics": "x"}),
        "'int' object has no attribute 'read'",
    ),
    "subcommand is a switch": (job("iperf3", {"server": True}), "'bool' object is not iterable"),
    "object for a number": (
        job(arguments={"destination_ip": "x", "count": {}}),
        "int() argument must be",
    ),
    "a truth for a number": (
        {"id": 0, "stop_job_instance": {"openbach_function_id": True}},
        "[\"value has an invalid type 'str' should be 'int'",
    ),
    "other class": ({"id": 0, "wait_for_ended": {}}, "type object 'WaitForEnded' has no attribute"),
    "first occurrence empty": (
        job(arguments={"destination_ip": [[], ["x"]]}),
        "list index out of range",
    ),
}


@pytest.mark.parametrize("name", CRASHES)
def test_crashes(name: str) -> None:
    function, error = CRASHES[name]
    malformed = refused(scenario(function))
    assert malformed.status == 500
    assert malformed.answer["error"].startswith(error)
    assert malformed.answer["message"] == "Unexpected exception appeared"


def test_names() -> None:
    assert refused({}).answer == {"error": "You must provide a name to create a Scenario"}
    assert refused({"name": None}).status == 409
    assert refused([]).status == 500
    assert refused({"name": 12}).answer["scenario_name"] == 12
    assert parse_scenario({"name": 12, "openbach_functions": []}, JOBS).name == "12"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (3, [[3]]),
        ("3", [[3]]),
        ([3], [[3]]),
        ([[3]], [[3]]),
        (2.7, [[2]]),
        ("$n", [["$n"]]),
        (True, [["True"]]),
        ([1, 2], [[1, 2]]),
        ([[1], [2]], [[1], [2]]),
        ([[]], None),
    ],
)
def test_the_shapes_of_values(given: Any, kept: Any) -> None:
    data = scenario(job(arguments={"destination_ip": "$n", "count": given}), arguments={"n": ""})
    assert stored(data)[0]["start_job_instance"]["fping"].get("count") == kept


@pytest.mark.parametrize(
    ("kind", "given", "kept"),
    [
        ("float", 2, 2.0),
        ("str", 5, "5"),
        ("str", False, "False"),
        ("ip", 1, "0.0.0.1"),
        ("ip", "FE80::1", "fe80::1"),
        ("network", "10.0.0.1", "10.0.0.1/32"),
        ("network", "10.0.0.1/255.255.255.0", "10.0.0.1/24"),
        ("ratio", "", "_"),
        ("ratio", "Ki", "Ki"),
        ("None", True, True),
        ("None", "$n", True),
    ],
)
def test_the_types_of_values(kind: str, given: Any, kept: Any) -> None:
    jobs = {"j": Job("j", "1", {"optional": [{"name": "a", "type": kind, "flag": "-a"}]})}
    assert stored(scenario(job("j", {"a": given})), jobs)[0]["start_job_instance"]["j"] == {
        "a": [[kept]]
    }
    assert kind == "None" or "-a" in bind(jobs["j"], {"a": [[kept]]}, {}, len)


def test_functions_are_stored_as_the_backend_does() -> None:
    files = {
        "local_path": ["/etc/a", "b"],
        "remote_path": ["x", "y"],
        "users": ["u", "v"],
        "groups": ["g", "h"],
    }
    sent = [
        {"id": 0, "push_file": {"entity_name": "e", **files, "removes": [True, False]}},
        {"id": 1, "status_job_instance": {"instance_id": "3", "update": False}},
        {
            "id": 2,
            "stop_job_instances": {"openbach_function_ids": "3 4"},
            "on_fail": {"policy": "IGNORE"},
        },
    ]
    push, status, stop = stored(scenario(*sent))
    controller = "/opt/openbach/controller/files"
    assert push["push_file"]["files"] == [
        {
            "local_path": f"{controller}/etc/a",
            "remote_path": "x",
            "user": "u",
            "group": "g",
            "remove": "True",
        },
        {
            "local_path": f"{controller}/b",
            "remote_path": "y",
            "user": "v",
            "group": "h",
            "remove": "False",
        },
    ]
    assert status["status_job_instance"] == {"instance_id": 3, "update": True}
    assert stop["stop_job_instances"] == {"openbach_function_ids": [3, 4]}
    assert stop["on_fail"] == {"policy": "Ignore"}


def test_a_subcommand_is_found_at_any_depth() -> None:
    (function,) = stored(scenario(job("iperf3", {"server": {}, "tcp": {"mss": 1400}})))
    assert function["start_job_instance"]["iperf3"] == {
        "server": {},
        "client": {"tcp": {"mss": [[1400]]}},
    }


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (scenario(job("fpin", {})), "did you mean fping?"),
        (scenario(job("iperf3", {})), "one of server, client"),
        (ping(destination_ip="x", cont=1), "fping takes destination_ip, count"),
        (scenario({"id": 0, "stop_job_instances_": {}}), "did you mean stop_job_instances?"),
        (waits(finished_ids=[7]), "finished_ids: the ids are 0"),
        (scenario(job(label=3)), "is 3, should be a text"),
        (ping(destination_ip="x", count="many"), "should be 'int' (is 'many')"),
        (ping(destination_ip="$1"), "a literal dollar is written $$"),
        (scenario(job("time_series", {"jobs": 3, "statistics": "x"})), r"is written [[[3]]]"),
    ],
)
def test_words_say_what_would_be_right(data: Any, words: str) -> None:
    assert words in str(refused(data))


# Values at start


def started(values: dict[str, str], **more: Any) -> Malformed:
    data = scenario(
        job(arguments={"destination_ip": "${a}", "count": "$n"}, wait={"time": "$s"}),
        arguments={"a": "", "n": "", "s": ""},
    )
    with pytest.raises(Malformed) as raised:
        check_values(parse_scenario(data, JOBS), values, JOBS)
    assert raised.value.status == 400
    return raised.value


GOOD = {"a": "10.0.0.1", "n": "3", "s": "0.5"}


def test_values_at_start() -> None:
    assert started({**GOOD, "b": ""}).answer["argument_name"] == "b"
    missing = started({"a": "x", "s": "1"}).answer
    assert missing["error"] == "Arguments of an OpenbachFunction have the wrong type of values."
    assert (
        missing["error_message"]
        == "[\"value contains a placeholder ('n') that is not found in provided parameters\"]"
    )
    assert started({**GOOD, "n": "many"}).answer["error_message"] == NOT_AN_INT
    ill_typed_time = started({**GOOD, "s": "soon"})
    assert "should be 'float'" in ill_typed_time.answer["error_message"]
    assert "openbach_functions.0.wait.time: '$s' with {'s': 'soon'}" in str(ill_typed_time)


def bound(name: str, arguments: dict[str, Any], **values: str) -> list[str]:
    data = scenario(job(name, arguments), arguments=dict.fromkeys(values, ""))
    (function,) = stored(data)
    return bind(
        JOBS[name], function["start_job_instance"][name], values, lambda path: 100 + path[-1]
    )


def test_bind() -> None:
    sent = {
        "port": 5201,
        "reverse": True,
        "client": {"server_ip": "10.0.0.2", "transmitted_size": "$size", "tcp": {}},
    }
    words = bound("iperf3", sent, size="30M")
    assert words == ["-p", "5201", "-R", "client", "10.0.0.2", "-s", "30M", "tcp"]
    assert bound("command_shell", {"command_line": "echo $$1 ${x}y"}, x="a b") == ["echo $1 a by"]
    assert bound("time_series", {"jobs": [[[2, 7]]], "statistics": [["x"]]})[0] == "107"


def test_bind_counts_the_values() -> None:
    with pytest.raises(InputError, match=r"fping\.destination_ip: has 2 values, takes 1"):
        bound("fping", {"destination_ip": ["10.0.0.1", "10.0.0.2"]})
    with pytest.raises(InputError, match="cannot be repeated"):
        bound("fping", {"destination_ip": [["10.0.0.1"], ["10.0.0.2"]]})
    with pytest.raises(InputError, match="should be 'int'"):
        bound("fping", {"destination_ip": "x", "count": "$n"}, n="many")


def test_choices_of_arguments() -> None:
    link = {"interface_name": "$i", "apply": {"delay_distribution": "${d}", "mode": "e$m"}}
    data = scenario(job("tc_configure_link", link), arguments={"i": "", "d": "", "m": ""})
    inner = parse_scenario({**data, "name": "inner"}, JOBS)
    assert argument_choices(inner, JOBS) == {"d": ("normal", "uniform", "pareto", "paretonormal")}
    start = {"scenario_name": "inner", "arguments": {"i": "x", "d": "$shape", "m": "y"}}
    outer = parse_scenario(
        scenario({"id": 0, "start_scenario_instance": start}, arguments={"shape": ""}), JOBS
    )
    assert argument_choices(outer, JOBS) == {}
    assert argument_choices(outer, JOBS, {"inner": inner})["shape"][:2] == ("normal", "uniform")


# Files


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(json.dumps(scenario(**{"x-sweep": {"values": {}}})))
    read = read_scenario(file, JOBS)
    assert (
        isinstance(read, Scenario)
        and read.sweep == {"values": {}}
        and "x-sweep" not in read.as_stored()
    )
    file.write_text('{"name": "t",\n "openbach_functions": [,]}')
    with pytest.raises(InputError, match="line 2, column 25"):
        read_scenario(file, JOBS)
    file.write_text("9" * 5000)
    with pytest.raises(InputError, match="digits"):
        read_scenario(file, JOBS)
    with pytest.raises(InputError, match="Is a directory"):
        read_scenario(tmp_path, JOBS)


def test_deep_nesting_is_refused() -> None:
    value: Any = "x"
    for _ in range(100_000):
        value = [value]
    assert refused(scenario(job("time_series", {"jobs": value, "statistics": value}))).status == 500


TEXTS = st.sampled_from(["$a", "${b}", "x", "3", "10.0.0.1", "$$", ""])
VALUES = TEXTS | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False)
LISTS = st.lists(VALUES, min_size=1, max_size=2)
SHAPES = VALUES | LISTS | st.lists(LISTS, min_size=1, max_size=2)
SWITCHES = st.booleans() | SHAPES
ARGUMENTS = st.fixed_dictionaries(
    {"server_ip": SHAPES},
    optional={
        "transmitted_size": SHAPES,
        "duration_time": SHAPES,
        "tcp": st.fixed_dictionaries({}, optional={"mss": SHAPES}),
    },
)
FUNCTIONS = st.fixed_dictionaries(
    {
        "id": st.integers(0, 3),
        "start_job_instance": st.fixed_dictionaries(
            {
                "entity_name": TEXTS,
                "iperf3": st.fixed_dictionaries(
                    {"client": ARGUMENTS}, optional={"reverse": SWITCHES}
                ),
            },
            optional={"offset": VALUES, "interval": VALUES},
        ),
    },
    optional={
        "label": TEXTS,
        "wait": st.fixed_dictionaries(
            {}, optional={"time": VALUES, "launched_ids": st.lists(st.integers(0, 3), max_size=2)}
        ),
        "on_fail": st.fixed_dictionaries(
            {"policy": st.sampled_from(["fail", "Retry", ""])}, optional={"retry": st.integers()}
        ),
    },
)


@given(st.lists(FUNCTIONS, max_size=3, unique_by=lambda function: function["id"]))
def test_what_is_stored_is_a_fixed_point(functions: list[dict[str, Any]]) -> None:
    for names in ((), ("a",), ("b",), ("a", "b")):
        try:
            accepted = parse_scenario(
                scenario(*functions, arguments=dict.fromkeys(names, "")), JOBS
            )
        except Malformed:
            continue
        once = accepted.as_stored()
        lint(accepted, JOBS)
        assert parse_scenario(json.loads(json.dumps(once)), JOBS).as_stored() == once


def seconds_to_read(functions: int, times: int) -> float:
    """Return the CPU time of reading a scenario whose functions wait for each other."""
    waits = [{}, *({"wait": {"finished_ids": [number]}} for number in range(functions - 1))]
    chain = scenario(*(job(**more) | {"id": number} for number, more in enumerate(waits)))
    begun_s = time.process_time()
    for _ in range(times):
        assert lint(parse_scenario(chain, JOBS), JOBS) == []
    return time.process_time() - begun_s


def test_a_scenario_of_many_functions_is_read_in_time_that_grows_with_them() -> None:
    """12 000 took 11 s to import, and minutes to look through."""
    assert seconds_to_read(12_000, times=1) < 4 * seconds_to_read(500, times=24)
