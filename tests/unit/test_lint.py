# SPDX-License-Identifier: GPL-3.0-or-later
"""What the backend accepts and then breaks on is found, and our own scenarios are free of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openbach_run.job_packages import load_packages
from openbach_run.lint import lint
from openbach_run.model import parse_scenario

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = {name: package.job for name, package in load_packages([ROOT / "tests/data/job_schemas.json"]).items()}
OURS = {name: package.job for name, package in load_packages([ROOT / "jobs"]).items()}


def job(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "start_job_instance": {"entity_name": "e", "fping": {"destination_ip": "10.0.0.1"}}, **more}


def with_body(number: int, **body: Any) -> dict[str, Any]:
    return {"id": number, "start_job_instance": {"entity_name": "e", "fping": {"destination_ip": "10.0.0.1"}, **body}}


CASES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "offset": ([with_body(0, offset=5)], "wait.time"),
    "interval": ([with_body(0, interval=5)], "wait.time"),
    "unknown wait key": ([job(0, wait={"foo_ids": []})], "is ignored"),
    "self": ([job(0, wait={"launched_ids": [0]})], "waits for itself"),
    "circle": ([job(0, wait={"launched_ids": [1]}), job(1, wait={"finished_ids": [0]})], "wait for each other"),
    "retry": ([job(0, on_fail={"policy": "retry", "retry": 1}), job(1, wait={"launched_ids": [0]})], "ended_ids"),
    "ignore": ([job(0, on_fail={"policy": "ignore"}), job(1, wait={"launched_ids": [0]})], "ended_ids"),
    "finished of a stop": (
        [job(0), {"id": 1, "stop_job_instances": {"openbach_function_ids": [0]}}, job(2, wait={"finished_ids": [1]})],
        "use launched_ids",
    ),
    "stop of nothing": ([{"id": 1, "stop_job_instances": {"openbach_function_ids": [9]}}], "nothing to stop"),
    "count": (
        [{"id": 0, "start_job_instance": {"entity_name": "e", "fping": {"destination_ip": ["10.0.0.1", "10.0.0.2"]}}}],
        "has 2 values, takes 1",
    ),
    "repeated": (
        [{"id": 0, "start_job_instance": {"entity_name": "e", "fping": {"destination_ip": [["10.0.0.1"], ["10.0.0.2"]]}}}],
        "cannot be repeated",
    ),
    "choices": (
        [{"id": 0, "start_job_instance": {"entity_name": "e", "tc_configure_link": {
            "interface_name": "eth0", "apply": {"delay_distribution": "bogus"}}}}],
        "is not one of",
    ),
    "itself": ([{"id": 0, "start_scenario_instance": {"scenario_name": "t", "arguments": {}}}], "starts itself"),
    "if": (
        [{"id": 0, "if": {"condition": {}, "openbach_functions_true_ids": [], "openbach_functions_false_ids": []}}],
        "cannot be run",
    ),
    "reboot": ([{"id": 0, "push_file": {"entity_name": "e", "local_path": [], "remote_path": []}}], "real platform"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_is_found(name: str) -> None:
    functions, words = CASES[name]
    findings = lint(parse_scenario({"name": "t", "openbach_functions": functions}, SCHEMAS), SCHEMAS)
    assert [finding for finding in findings if words in finding.message], findings


def test_entity_placeholder_and_slash() -> None:
    function = {"id": 0, "start_job_instance": {"entity_name": "$e", "fping": {"destination_ip": "10.0.0.1"}}}
    scenario = {"name": "a/b", "arguments": {"e": ""}, "openbach_functions": [function]}
    paths = [finding.path for finding in lint(parse_scenario(scenario, SCHEMAS), SCHEMAS)]
    assert paths == ["name", "openbach_functions.0.start_job_instance.entity_name"]


@pytest.mark.parametrize("file", sorted((ROOT / "scenarios").glob("*.json")), ids=lambda file: file.stem)
def test_our_scenarios_are_portable(file: Path) -> None:
    assert not lint(parse_scenario(json.loads(file.read_text()), OURS), OURS)
