# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenarios that were sent to the real backend, with what it answered.

They are in tests/data/conformance.json.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.reading import parse_scenario
from openbach_run.openbach.refusals import Malformed

DATA = Path(__file__).resolve().parents[1] / "data"
CASES = json.loads((DATA / "conformance.json").read_text())
JOBS = {name: package.job for name, package in load_packages([DATA / "job_schemas.json"]).items()}


def answer(sent: Any) -> tuple[int, Any]:
    try:
        return 200, parse_scenario(sent, JOBS).as_stored()
    except Malformed as error:
        return error.status, error.answer


def without_row_numbers(answer: Any) -> Any:
    """Numbers of rows in the backend's database are chance."""
    text = re.sub(r"\((\d+), (\d+)\) already", r"(_, \2) already", json.dumps(answer))
    return json.loads(re.sub(r"contains \(\d+,", "contains (_,", text))


@pytest.mark.parametrize("name", CASES)
def test_answers_as_the_backend(name: str) -> None:
    case = CASES[name]
    status, answered = answer(case["sent"])
    assert status == case["status"]
    assert without_row_numbers(answered) == without_row_numbers(case["answer"])


ONE_WAY = {"push_file", "pull_file", "if", "while", "list_job_instances"}
"""Functions of which the backend stores something that it would not take itself."""


def comes_back(case: Any) -> bool:
    return case["status"] == 200 and not any(
        ONE_WAY & function.keys() for function in case["sent"]["openbach_functions"]
    )


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if comes_back(case)])
def test_what_is_stored_can_be_sent_again(name: str) -> None:
    stored = parse_scenario(CASES[name]["sent"], JOBS).as_stored()
    assert parse_scenario(stored, JOBS).as_stored() == stored


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["$a", "${b}", "$$"])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from([
    "name", "id", "label", "wait", "time", "launched_ids", "on_fail", "policy", "retry",
    "start_job_instance", "entity_name", "fping", "destination_ip", "iperf3", "client", "server_ip",
    "stop_job_instances", "openbach_function_ids", "push_file", "local_path", "if",
    "start_scenario_instance", "scenario_name", "arguments", "time_series", "jobs", "statistics",
])  # fmt: skip
SHAPED = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=15,
)


@given(JSON | SHAPED)
def test_nothing_but_malformed_is_raised(value: Any) -> None:
    answer(value)


@given(st.dictionaries(KEYS, SHAPED, max_size=4), SHAPED)
def test_no_function_raises_anything_but_malformed(
    function: dict[str, Any], arguments: Any
) -> None:
    answer({"name": "t", "openbach_functions": [function], "arguments": arguments})
    fping = {"entity_name": "e", "fping": function}
    answer(
        {
            "name": "t",
            "openbach_functions": [{"id": 0, "wait": arguments, "start_job_instance": fping}],
        }
    )
