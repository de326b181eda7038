# SPDX-License-Identifier: GPL-3.0-or-later
"""The director against agents and a clock that are made up.

What starts when, and how a run ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbach_run.guest.director import SECOND_US, Director, LaunchRefused, substitute
from openbach_run.guest.instances import JobInstance, JobStatus, ScenarioStatus

FOR_EVER = 1 << 62


@dataclass
class FakeAgents:
    """A job's command line says how long it takes and how it exits: `3 0`. `-1 0` is for ever."""

    refusals: dict[str, int]  # by entity: how many launches are refused
    time_us: int = 0
    # By instance: end time, exit code.
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    stopped: dict[int, int] = field(default_factory=dict)

    def now_us(self) -> int:
        return self.time_us

    def wait_until(self, due_us: int) -> None:
        assert due_us >= self.time_us, "time must not go back"
        self.time_us = due_us

    def start(self, job: JobInstance) -> None:
        if self.refusals.get(job.entity, 0):
            self.refusals[job.entity] -= 1
            raise LaunchRefused(f"{job.entity} refuses")
        duration_s, exit_code = float(job.argv[0]), int(job.argv[1])
        end_us = self.time_us + round(duration_s * SECOND_US) if duration_s >= 0 else FOR_EVER
        self.ends[job.id] = (end_us, exit_code)

    def poll(self, instance_id: int) -> JobStatus:
        end_us, exit_code = self.ends[instance_id]
        if instance_id in self.stopped:
            return JobStatus.STOPPED
        if end_us > self.time_us:
            return JobStatus.RUNNING
        return JobStatus.ERROR if exit_code else JobStatus.NOT_RUNNING

    def stop(self, instance_id: int) -> None:
        self.stopped.setdefault(instance_id, self.time_us)


def bind(
    job: Any, arguments: dict[str, Any], values: dict[str, str], resolve: Callable[[list[int]], int]
) -> list[str]:
    line = [substitute(str(arguments.get("for", 1)), values), str(arguments.get("exit", 0))]
    return line + [str(resolve(path)) for path in arguments.get("jobs", [])]


class Run:
    """A scenario that was run, and what was seen of it."""

    def __init__(
        self,
        *functions: dict[str, Any],
        refusals: dict[str, int] | None = None,
        subs: dict[str, Any] | None = None,
        limit_s: float = 1000,
        arguments: dict[str, str] | None = None,
        constants: dict[str, str] | None = None,
    ) -> None:
        self.events: list[dict[str, Any]] = []
        self.agents = FakeAgents(refusals or {})
        jobs: dict[str, Any] = {"task": None}
        subs = {
            name: {"name": name, "openbach_functions": content}
            for name, content in (subs or {}).items()
        }
        self.director = Director(self.agents, jobs, bind, subs, self.events.append, limit_s)
        scenario = {
            "name": "main",
            "constants": constants or {},
            "openbach_functions": list(functions),
        }
        self.status = self.director.run(scenario, arguments or {})
        self.failed = self.director.failed

    def at(self, event: str, function: int, scenario: int = 1) -> list[float]:
        return [
            round(seen["t_s"], 6)
            for seen in self.events
            if (seen["event"], seen.get("function"), seen.get("scenario_instance_id", 1))
            == (event, function, scenario)
        ]

    @property
    def errors(self) -> str:
        return " | ".join(failure.get("error", "") for failure in self.failed)

    @property
    def job_statuses(self) -> list[str]:
        return [job.status.value for job in self.director.job_instances]


def task(
    number: int, takes_s: float | str = 1, exit_code: int = 0, entity: str = "pc", **keys: Any
) -> dict[str, Any]:
    on_fail = keys.pop("on_fail", {})
    body = {
        "entity_name": entity,
        **keys.pop("body", {}),
        "task": {"for": takes_s, "exit": exit_code},
    }
    return {"id": number, "wait": keys, "on_fail": on_fail, "start_job_instance": body}


def stop(
    number: int, *ids: int, on_fail: dict[str, Any] | None = None, **wait: Any
) -> dict[str, Any]:
    return {
        "id": number,
        "wait": wait,
        "on_fail": on_fail or {},
        "stop_job_instances": {"openbach_function_ids": list(ids)},
    }


def sub(
    number: int, name: str = "inner", arguments: dict[str, str] | None = None, **wait: Any
) -> dict[str, Any]:
    return {
        "id": number,
        "wait": wait,
        "start_scenario_instance": {"scenario_name": name, "arguments": arguments or {}},
    }


IGNORE = {"policy": "Ignore"}


# Waits


def test_nothing_to_do() -> None:
    assert Run().status == "Finished Ok"


def test_functions_without_waits_start_at_once_and_the_run_ends_with_the_last_job() -> None:
    run = Run(task(0, 3), task(1, 5))
    assert run.status is ScenarioStatus.FINISHED_OK
    assert run.at("job_started", 0) == run.at("job_started", 1) == [0]
    assert run.job_statuses == ["Not Running", "Not Running"]
    # The job was seen to have ended at 6, and passes are at 0, 0.2, 1.2, …
    assert run.agents.time_us == 6_200_000


def test_launched_ids_wait_for_the_next_pass() -> None:
    run = Run(task(0, 10), task(1, launched_ids=[0]))
    assert run.at("function_finished", 0) == [0]
    assert run.at("job_started", 1) == [0.2]


def test_launched_ids_include_the_waiting_time_of_the_function_waited_for() -> None:
    run = Run(task(0, 10, time=3), task(1, launched_ids=[0]))
    assert run.at("job_started", 0) == run.at("job_started", 1) == [3]  # a pass was due at 3 too


def test_running_ids_are_met_before_the_waiting_time_is_over() -> None:
    run = Run(task(0, 10, time=3), task(1, running_ids=[0]))
    assert run.at("function_started", 1) == [0]


@pytest.mark.parametrize(("takes_s", "seen_s"), [(0, 2), (1.9, 2), (2, 2), (2.1, 4), (7, 8)])
def test_finished_ids_see_the_end_of_a_job_every_2_s(takes_s: float, seen_s: float) -> None:
    run = Run(task(0, takes_s), task(1, finished_ids=[0]))
    assert run.at("job_started", 1) == [pytest.approx(seen_s, abs=0.001)]


def test_ended_ids_wait_for_the_launch_and_accept_an_error() -> None:
    run = Run(
        task(0, 10, entity="gone", on_fail=IGNORE, time=1.1),
        task(1, ended_ids=[0]),
        refusals={"gone": 1},
    )
    assert run.status == "Finished Ok"
    assert run.at("job_started", 1) == [1.2]


def test_all_kinds_of_waits_are_needed() -> None:
    run = Run(
        task(0, 1),
        task(1, 9),
        task(2, launched_ids=[1], finished_ids=[0]),
        task(3, finished_ids=[0, 1]),
    )
    assert run.at("job_started", 2) == [2]
    assert run.at("job_started", 3) == [10]


def test_waits_may_point_forward_and_ids_need_no_order() -> None:
    run = Run(task(7, finished_ids=[3]), task(3))
    assert run.at("job_started", 7) == [2]


def test_finished_ids_of_a_stopped_job_are_met_by_the_order_to_stop() -> None:
    run = Run(task(0, -1), stop(1, 0, launched_ids=[0], time=5), task(2, finished_ids=[0]))
    assert run.at("job_started", 2) == [5.2]
    assert run.status == "Finished Ok"
    assert run.job_statuses == ["Stopped", "Not Running"]


def test_times_and_delays_may_be_placeholders() -> None:
    run = Run(task(0, time="$pause"), constants={"pause": "2.5"})
    assert run.at("job_started", 0) == [2.5]


def test_arguments_win_over_nothing_and_reach_the_command_line() -> None:
    run = Run(task(0, "$takes"), task(1, finished_ids=[0]), arguments={"takes": "5"})
    assert run.at("job_started", 1) == [6]


# Failures


def test_a_job_that_fails_stops_everything() -> None:
    run = Run(task(0, -1, entity="server"), task(1, 3, exit_code=4), task(2, finished_ids=[1]))
    assert run.status is ScenarioStatus.FINISHED_KO
    assert run.job_statuses == ["Stopped", "Error"]
    job = {"job": "task", "entity": "pc", "instance_id": 2, "scenario_instance_id": 1}
    assert run.failed == [{**job, "status": "Error"}]
    assert run.agents.time_us == 4_000_000


def test_an_ignored_job_may_fail() -> None:
    run = Run(task(0, 1, exit_code=1, on_fail=IGNORE), task(1, finished_ids=[0]))
    assert run.status == "Finished Ok"
    assert run.failed == []
    assert run.job_statuses == ["Error", "Not Running"]


def test_a_retry_is_for_the_launch_and_not_for_the_exit_code() -> None:
    run = Run(task(0, 1, exit_code=1, on_fail={"policy": "Retry", "retry": 5, "delay": 1}))
    assert run.status == "Finished Ko"
    assert run.at("job_started", 0) == [0]


def test_a_refused_launch_is_retried_after_its_delay() -> None:
    policy = {"policy": "retry", "retry": 2, "delay": "$d"}
    run = Run(task(0, entity="shy", on_fail=policy), refusals={"shy": 2}, constants={"d": "3"})
    assert run.status == "Finished Ok"
    assert run.at("function_error", 0) == [0, 3.2]
    assert run.at("function_retried", 0) == [0.2, 3.2]
    assert run.at("job_started", 0) == [6.2]


def test_the_default_delay_of_a_retry_is_5_s() -> None:
    run = Run(task(0, entity="shy", on_fail={"policy": "Retry", "retry": 1}), refusals={"shy": 1})
    assert run.at("job_started", 0) == [5.2]


def test_retries_come_to_an_end() -> None:
    run = Run(
        task(0, entity="no", on_fail={"policy": "Retry", "retry": 2, "delay": 0}),
        refusals={"no": 99},
    )
    assert run.status == "Finished Ko"
    assert len(run.at("function_error", 0)) == 3
    assert "no refuses" in run.errors


def test_a_refused_launch_ends_the_run_and_stops_functions_in_their_waiting_time() -> None:
    run = Run(task(0, entity="no"), task(1, time=50), refusals={"no": 1})
    assert run.status == "Finished Ko"
    assert run.at("function_stopped", 1) == [0.2]
    assert run.at("job_started", 1) == []
    assert run.failed[0]["function"] == 0


def test_an_unknown_job_and_an_unknown_placeholder_are_function_errors() -> None:
    unknown = {"id": 0, "start_job_instance": {"entity_name": "pc", "tusk": {}}}
    assert "no job tusk; there are task" in Run(unknown).errors
    assert "'x'" in Run(task(0, "$x")).errors


def test_a_time_that_is_no_number_fails_the_run() -> None:
    run = Run(task(0, time="$t"), arguments={"t": "soon"})
    assert run.status == "Finished Ko"
    assert "'soon' is no number of seconds" in run.errors


# Stops


def test_stop_ends_what_it_names_and_nothing_else() -> None:
    run = Run(task(0, -1), task(1, 30), stop(2, 0, launched_ids=[0], time=3))
    assert run.agents.stopped == {1: 3_200_000}
    assert run.status == "Finished Ok"


def test_the_exit_code_after_a_stop_does_not_count() -> None:
    run = Run(task(0, 1.5, exit_code=1), stop(1, 0, time=1.7))
    assert run.status == "Finished Ok"
    assert run.job_statuses == ["Stopped"]


def test_stopping_an_ended_job_is_no_error() -> None:
    run = Run(task(0, 1), stop(1, 0, finished_ids=[0]))
    assert run.status == "Finished Ok"
    assert run.job_statuses == ["Not Running"]
    assert run.agents.stopped == {1: 2_000_000}  # the order goes out anyway: it runs command_stop


def test_stopping_what_was_not_launched_is_an_error_after_stopping_the_others() -> None:
    run = Run(task(0, -1), task(1, time=50), stop(2, 1, 0, time=1))
    assert run.status == "Finished Ko"
    assert "function 1 has started no job" in run.errors
    assert run.agents.stopped == {1: 1_000_000}


def test_stop_job_instance_in_the_singular() -> None:
    one = {"id": 1, "wait": {"launched_ids": [0]}, "stop_job_instance": {"openbach_function_id": 0}}
    assert Run(task(0, -1), one).job_statuses == ["Stopped"]


def test_stopping_an_unknown_function_is_an_error() -> None:
    assert "no function has the id 9" in Run(stop(1, 9)).errors


# Sub-scenarios


def test_a_parent_waits_for_its_sub_scenario() -> None:
    run = Run(sub(0), task(1, finished_ids=[0]), subs={"inner": [task(0, 5)]})
    assert run.at("job_started", 1) == [6.2]  # the job's end seen at 6, by the sub-scenario at 6.2
    assert [one.status for one in run.director.scenario_instances] == ["Finished Ok", "Finished Ok"]
    assert [job.owner_id for job in run.director.job_instances] == [1, 1]
    assert [job.scenario_id for job in run.director.job_instances] == [2, 1]


def test_a_sub_scenario_that_fails_does_not_fail_its_parent() -> None:
    run = Run(
        sub(0), task(1, finished_ids=[0]), subs={"inner": [task(0, 1, exit_code=1), task(1, -1)]}
    )
    assert run.status == "Finished Ok"
    assert [one.status for one in run.director.scenario_instances] == ["Finished Ok", "Finished Ko"]
    assert run.job_statuses == ["Error", "Stopped", "Not Running"]
    assert len(run.failed) == 1


def test_stop_scenario_instance_stops_recursively() -> None:
    end = {"id": 1, "wait": {"time": 5}, "stop_scenario_instance": {"openbach_function_id": 0}}
    run = Run(
        sub(0), end, subs={"inner": [sub(0, "innermost"), task(1, -1)], "innermost": [task(0, -1)]}
    )
    assert run.status == "Finished Ok"
    assert [one.status for one in run.director.scenario_instances] == [
        "Finished Ok",
        "Stopped",
        "Stopped",
    ]
    assert run.job_statuses == ["Stopped", "Stopped"]


def test_a_parent_that_fails_stops_its_sub_scenarios() -> None:
    run = Run(sub(0), task(1, 3, exit_code=1), subs={"inner": [task(0, -1)]})
    assert [one.status for one in run.director.scenario_instances] == ["Finished Ko", "Stopped"]
    assert "Running" not in run.job_statuses


def test_stopping_a_scenario_that_was_not_started_is_an_error() -> None:
    end = {"id": 1, "stop_scenario_instance": {"openbach_function_id": 0}}
    assert "function 0 has started no scenario" in Run(task(0), end).errors


def test_arguments_of_a_sub_scenario_are_substituted() -> None:
    run = Run(
        sub(0, arguments={"inner_time": "$outer"}),
        task(1, finished_ids=[0]),
        subs={"inner": [task(0, "$inner_time")]},
        arguments={"outer": "9"},
    )
    assert run.at("job_started", 1) == [10.2]


def test_an_unknown_sub_scenario_is_an_error() -> None:
    assert "no scenario inner" in Run(sub(0)).errors


def test_a_scenario_may_not_start_itself() -> None:
    run = Run(sub(0), subs={"inner": [sub(0, "innermost")], "innermost": [sub(0, "inner")]})
    assert "scenario inner would start itself: main > inner > innermost > inner" in run.errors


def test_paths_of_functions_stand_for_instance_ids() -> None:
    reader = task(2, launched_ids=[0, 1], time=1)
    reader["start_job_instance"]["task"]["jobs"] = [[1], [0, 5], [0]]
    run = Run(sub(0), task(1), reader, subs={"inner": [task(5)]})
    assert run.director.job_instances[-1].argv[2:] == ["1", "2", "2"]


def test_a_path_to_something_not_launched_is_an_error() -> None:
    reader = task(2)
    reader["start_job_instance"]["task"]["jobs"] = [[1]]
    assert "function 1 has not started anything yet" in Run(task(1, time=9), reader).errors


# Where a controller would hang


STUCK: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a circle": (
        [task(0, launched_ids=[1]), task(1, finished_ids=[0])],
        "functions 0, 1 never start",
    ),
    "itself": ([task(0, ended_ids=[0])], "functions 0 never start"),
    "behind a circle": (
        [task(0, running_ids=[0]), task(1, ended_ids=[0])],
        "functions 0, 1 never start",
    ),
    "finished_ids of a stop": (
        [task(0, -1), stop(1, 0, launched_ids=[0]), task(2, finished_ids=[1])],
        "waits with finished_ids for function 1, which starts neither",
    ),
    "launched_ids of a retried function": (
        [task(0, entity="shy", on_fail={"policy": "Retry", "retry": 3}), task(1, launched_ids=[0])],
        "waits with launched_ids for function 0, which was retried (use ended_ids)",
    ),
    "launched_ids of an ignored failure": (
        [task(0, entity="shy", on_fail=IGNORE), task(1, launched_ids=[0])],
        "function 0, which failed and is ignored (use ended_ids)",
    ),
    "finished_ids of an ignored failure": (
        [task(0, entity="shy", on_fail=IGNORE), task(1, finished_ids=[0])],
        "function 0, which failed and is ignored (use ended_ids)",
    ),
    "offset": ([task(0, body={"offset": 5})], "function 0 of main has an offset (5)"),
    "interval": ([task(0, body={"interval": 1}, on_fail=IGNORE)], "interval (1)"),
    "push_file": (
        [{"id": 0, "push_file": {}}],
        "function 0 of main is a push_file: that needs a real platform",
    ),
    "reboot": ([{"id": 0, "reboot": {"entity_name": "pc"}}], "is a reboot"),
}


@pytest.mark.parametrize("name", STUCK)
def test_where_a_controller_hangs_the_run_fails_and_says_why(name: str) -> None:
    functions, words = STUCK[name]
    run = Run(*functions, refusals={"shy": 1})
    assert run.status == "Finished Ko"
    assert words in run.errors
    assert run.agents.time_us < 1_000_000


def test_stuck_in_a_sub_scenario_fails_the_whole_run() -> None:
    run = Run(sub(0), subs={"inner": [task(0, ended_ids=[0])]})
    assert [one.status for one in run.director.scenario_instances] == ["Finished Ko", "Stopped"]


def test_an_offset_of_0_is_harmless() -> None:
    assert Run(task(0, body={"offset": 0, "interval": None})).status == "Finished Ok"


@pytest.mark.parametrize("kind", ["if", "while", "install_agent"])
def test_functions_that_the_director_lacks_end_the_instance(kind: str) -> None:
    run = Run(task(0, 1), {"id": 1, "wait": {"finished_ids": [0]}, "on_fail": IGNORE, kind: {}})
    assert run.status == "Finished Ko"
    assert f"{kind}: OpenBACH stores this kind of function, but cannot run it" in run.errors


def test_the_limit_names_what_still_runs_and_waits() -> None:
    run = Run(
        {**task(0, -1, entity="server"), "label": "the server"},
        task(1, finished_ids=[0]),
        sub(2),
        subs={"inner": [task(0, -1)]},
        limit_s=100,
    )
    assert run.status == "Finished Ko"
    for words in (
        "not finished after 100 s",
        "job task on server (function 0 (the server)) is running",
        "function 1 waits for finished_ids 0",
        "inner: job task on pc (function 0) is running",
    ):
        assert words in run.errors
    assert run.agents.time_us == 100_000_000
    assert run.job_statuses == ["Stopped", "Stopped"]


def test_heartbeats_come_every_10_s() -> None:
    run = Run(task(0, 35))
    assert [event["t_s"] for event in run.events if event["event"] == "heartbeat"] == [10, 20, 30]


# Any scenario


@st.composite
def scenarios(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(1, 6))
    ids = st.lists(st.integers(0, count - 1), max_size=2)
    policies: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
        [{}, IGNORE, {"policy": "Retry", "retry": 2, "delay": 1}]
    )
    functions = []
    for number in range(count):
        kinds = ("launched_ids", "finished_ids", "running_ids", "ended_ids")
        wait: dict[str, Any] = {
            kind: draw(ids) for kind in draw(st.lists(st.sampled_from(kinds), max_size=2))
        }
        wait["time"] = draw(st.integers(0, 3))
        if draw(st.integers(0, 4)) == 0:
            functions.append(stop(number, *draw(ids), on_fail=draw(policies), **wait))
        else:
            takes_s, exit_code = draw(st.integers(-1, 9)), draw(st.sampled_from([0, 0, 0, 1]))
            entity = draw(st.sampled_from(["pc", "pc", "shy"]))
            functions.append(
                task(number, takes_s, exit_code, entity, on_fail=draw(policies), **wait)
            )
    return functions


@settings(max_examples=300, deadline=None)
@given(scenarios())
def test_any_scenario_ends_with_nothing_running_and_a_reason_if_it_failed(
    functions: list[dict[str, Any]],
) -> None:
    run = Run(*functions, refusals={"shy": 2}, limit_s=60)
    assert run.status in ("Finished Ok", "Finished Ko")
    assert bool(run.failed) == (run.status == "Finished Ko")
    assert not {"Running", "Scheduled"} & set(run.job_statuses)
    for job in run.director.job_instances:
        assert job.stop_us is not None
    started = {function["id"]: run.at("function_started", function["id"]) for function in functions}
    for function in functions:
        for kind in ("launched_ids", "running_ids", "ended_ids", "finished_ids"):
            for waited in function["wait"].get(kind, []):
                if started[function["id"]]:
                    assert started[waited] and started[waited][0] <= started[function["id"]][0]


@settings(max_examples=50, deadline=None)
@given(scenarios())
def test_the_same_scenario_gives_the_same_events(functions: list[dict[str, Any]]) -> None:
    first, second = (Run(*functions, refusals={"shy": 2}, limit_s=60) for _ in range(2))
    assert first.events == second.events
