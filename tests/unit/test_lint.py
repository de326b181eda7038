# SPDX-License-Identifier: GPL-3.0-or-later
"""What the backend accepts and then breaks on is found, and our own scenarios are free of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openbach_run.openbach.job import Job
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.lint import lint
from openbach_run.openbach.reading import parse_scenario, read_scenario

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = {
    name: package.job
    for name, package in load_packages([ROOT / "tests/data/job_schemas.json"]).items()
}
OURS = {name: package.job for name, package in load_packages([ROOT / "jobs"]).items()}


def job(number: int, **more: Any) -> dict[str, Any]:
    return {**job_of("fping", destination_ip="10.0.0.1"), "id": number, **more}


def with_body(number: int, **body: Any) -> dict[str, Any]:
    return {
        "id": number,
        "start_job_instance": {"entity_name": "e", "fping": {"destination_ip": "10.0.0.1"}, **body},
    }


def job_of(name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": 0, "start_job_instance": {"entity_name": "e", name: arguments}}


CASES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "offset": ([with_body(0, offset=5)], "wait.time"),
    "interval": ([with_body(0, interval=5)], "wait.time"),
    "unknown wait key": ([job(0, wait={"foo_ids": []})], "is ignored"),
    "self": ([job(0, wait={"launched_ids": [0]})], "waits for itself"),
    "circle": (
        [job(0, wait={"launched_ids": [1]}), job(1, wait={"finished_ids": [0]})],
        "wait for each other",
    ),
    "retry": (
        [job(0, on_fail={"policy": "retry", "retry": 1}), job(1, wait={"launched_ids": [0]})],
        "ended_ids",
    ),
    "ignore": (
        [job(0, on_fail={"policy": "ignore"}), job(1, wait={"launched_ids": [0]})],
        "ended_ids",
    ),
    "finished of a stop": (
        [
            job(0),
            {"id": 1, "stop_job_instances": {"openbach_function_ids": [0]}},
            job(2, wait={"finished_ids": [1]}),
        ],
        "use launched_ids",
    ),
    "stop of nothing": (
        [{"id": 1, "stop_job_instances": {"openbach_function_ids": [9]}}],
        "nothing to stop",
    ),
    "count": ([job_of("fping", destination_ip=["10.0.0.1", "10.0.0.2"])], "has 2 values, takes 1"),
    "repeated": (
        [job_of("fping", destination_ip=[["10.0.0.1"], ["10.0.0.2"]])],
        "cannot be repeated",
    ),
    "choices": (
        [job_of("tc_configure_link", interface_name="eth0", apply={"delay_distribution": "bogus"})],
        "'bogus': delay_distribution is one of normal",
    ),
    "itself": (
        [{"id": 0, "start_scenario_instance": {"scenario_name": "t", "arguments": {}}}],
        "starts itself",
    ),
    "stored but not run": (
        [{"id": 0, "assign_collector": {"address": "10.0.0.1", "collector": "10.0.0.2"}}],
        "cannot be run",
    ),
    "push_file": (
        [{"id": 0, "push_file": {"entity_name": "e", "local_path": [], "remote_path": []}}],
        "real platform",
    ),
    "unknown on_fail key": ([job(0, on_fail={"polcy": "ignore"})], "is ignored"),
    "stop of a stop": (
        [{"id": 1, "stop_job_instance": {"openbach_function_id": 1}}],
        "function 1 is a stop_job_instance",
    ),
    "exit code": ([job_of("command_shell", command_line="false")], "a failure goes unnoticed"),
    "path to nothing": (
        [job_of("time_series", jobs=[[[7]]], statistics=["x"])],
        "no function 7 here that starts a job",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_is_found(name: str) -> None:
    functions, words = CASES[name]
    findings = lint(
        parse_scenario({"name": "t", "openbach_functions": functions}, SCHEMAS), SCHEMAS
    )
    assert [finding for finding in findings if words in finding.message], findings


def test_entity_placeholder_and_slash() -> None:
    function = {
        "id": 0,
        "start_job_instance": {"entity_name": "$e", "fping": {"destination_ip": "10.0.0.1"}},
    }
    scenario = {"name": "a/b", "arguments": {"e": ""}, "openbach_functions": [function]}
    paths = [finding.path for finding in lint(parse_scenario(scenario, SCHEMAS), SCHEMAS)]
    assert paths == ["name", "openbach_functions.0.start_job_instance.entity_name"]


def test_constants_are_checked_like_values() -> None:
    link = job_of(
        "tc_configure_link",
        interface_name="eth0",
        apply={"delay_distribution": "$d", "delay": "$ms"},
    )
    scenario = {
        "name": "t",
        "constants": {"d": "bogus", "ms": "long"},
        "openbach_functions": [link],
    }
    assert [finding.message for finding in lint(parse_scenario(scenario, SCHEMAS), SCHEMAS)] == [
        "'$ms': value has an invalid type 'str' should be 'int': the scenario cannot be started",
        "'bogus': d is one of normal, uniform, pareto, paretonormal; the job will refuse it",
    ]


def test_an_option_of_any_length_swallows_the_subcommand_behind_it() -> None:
    values = {"name": "values", "type": "str", "count": "+", "flag": "-v"}
    group = {"group_name": "mode", "choices": [{"name": "go"}]}
    job = Job("j", "1", {"optional": [values], "subcommand": [group]})
    scenario = parse_scenario(
        {"name": "t", "openbach_functions": [job_of("j", values=["a"], go={})]}, {"j": job}
    )
    assert ["subcommand go" in finding.message for finding in lint(scenario, {"j": job})] == [True]


def test_unknown_keys_of_the_scenario() -> None:
    scenario = {"name": "t", "argument": {}, "x-sweep": {}, "$schema": "", "openbach_functions": []}
    assert [finding.path for finding in lint(parse_scenario(scenario, SCHEMAS), SCHEMAS)] == [
        "argument"
    ]


@pytest.mark.parametrize(
    "file", sorted((ROOT / "scenarios").glob("*.yml")), ids=lambda file: file.stem
)
def test_our_scenarios_are_portable(file: Path) -> None:
    assert not lint(read_scenario(file, OURS), OURS)


CASES_OF_THE_BACKEND = json.loads((ROOT / "tests/data/conformance.json").read_text())


@pytest.mark.parametrize(
    "name", [name for name, case in CASES_OF_THE_BACKEND.items() if case["status"] == 200]
)
def test_whatever_the_backend_accepts_can_be_checked(name: str) -> None:
    lint(parse_scenario(CASES_OF_THE_BACKEND[name]["sent"], SCHEMAS), SCHEMAS)
