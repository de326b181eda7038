# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that a job refuses are refused before anything starts.

Declaration and program agree on which these are.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.campaign.notes import notes_of
from openbach_run.campaign.reading import plan
from openbach_run.commands import main
from openbach_run.errors import InputError
from openbach_run.openbach import limits, rules, value_checks
from openbach_run.openbach.job import (
    INSTANCE_TYPES,
    Argument,
    Command,
    Job,
    WrongType,
    argv,
    convert,
)
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.reading import parse_scenario

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = load_packages([ROOT / "jobs"])
JOBS = {name: package.job for name, package in PACKAGES.items()}
FREE = {
    "forward_interface", "return_interface", "interface", "interfaces", "except_ports", "flow", "link_file", "es_n0_file", "page", "seed", "new_address", "name", "paths",
    "path_mtus", "outside", "cells", "title", "command", "measures",
}  # fmt: skip
"""Arguments of type str or int that take whatever the type takes."""
REQUIRED = {
    "kind": "none", "local_ip": "10.10.1.1", "remote_ip": "10.10.4.2",
    "remote_network": "192.168.20.0/24", "orbit": "geo", "server_ip": "192.168.20.2",
    "destination_ip": "192.168.20.2", "size": "30M", "duration_s": "30", "interval_s": "1",
    "port": "5201", "cc": "cubic", "position": "none", "rate": "10M", "protocol": "udp",
    "first": "server", "at": "client",
}  # fmt: skip
"""Values that are right, for what a job requires."""


def arguments(job: Job) -> Iterator[tuple[tuple[str, ...], Argument]]:
    """Every argument of the job, with the subcommand that it belongs to."""

    def of(command: Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Argument]]:
        yield from ((path, argument) for argument in command.arguments.values())
        for name, subcommand in command.subcommands.items():
            yield from of(subcommand, (*path, name))

    yield from of(job.arguments, ())


DECLARED = [
    (job.name, path, argument)
    for job in JOBS.values()
    for path, argument in arguments(job)
    if argument.choices or set(argument.limits) & set(limits.RANGE)
    if (job.name, argument.name)
    not in (("satpep", "cc"), ("file_transfer", "cc"))  # these programs ask the kernel
]


def program(job: str) -> Any:
    return importlib.import_module(job)


def command_line(job: str, path: tuple[str, ...], argument: Argument, value: str) -> list[str]:
    def stored(command: Command, path: tuple[str, ...]) -> dict[str, Any]:
        given: dict[str, Any] = {
            one.name: [[REQUIRED.get(one.name, "x")]] for one in command.required
        }
        if argument.name == "duration_s" and "size" in given:
            given["size"] = [["unlimited"]]
        if argument.name == "access":
            given["orbit"] = [["geo_rcs2"]]  # only such a satellite says how to ask
        if argument.name == "forward":
            given["orbit"] = [["geo_dvbs2"]]  # only such a satellite has frames
        if argument.name in command.arguments and not path:
            given[argument.name] = [[value]]
        chosen = path[0] if path else next(iter(command.subcommands), None)
        return given | ({chosen: stored(command.subcommands[chosen], path[1:])} if chosen else {})

    return argv(JOBS[job].arguments, stored(JOBS[job].arguments, path))


def takes(job: str, words: list[str]) -> bool:
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            program(job).parse(words)
        except SystemExit:
            return False
    return True


def samples(argument: Argument) -> list[str]:
    bounds = [
        limits.bound(argument.limits[key])
        for key in ("minimum", "maximum")
        if key in argument.limits
    ]
    beside = [each for one in bounds for each in (one, one - 1, one + 1, one * 0.999, one * 1.001)]
    exact = [str(argument.limits.get(key, 0)) for key in ("minimum", "maximum")]
    typed = [
        "0", "-1", "nan", "inf", "-inf", "1e300", "1e-9", "fast", "10X", "1k", "30M", "1.5", "A",
        "B_double,A", "none",
    ]  # fmt: skip
    whole = [str(int(one)) for one in beside]
    return [
        *argument.choices,
        *map(str, argument.limits.get("also", [])),
        *exact,
        *whole,
        *map(repr, beside),
        *typed,
    ]


@pytest.mark.parametrize(
    ("job", "path", "argument"),
    DECLARED,
    ids=[f"{job}.{argument.name}" for job, _, argument in DECLARED],
)
def test_declaration_and_program_refuse_the_same(
    job: str, path: tuple[str, ...], argument: Argument
) -> None:
    seen = set()
    for sample in samples(argument):
        try:
            value = str(convert(sample, argument.type))
        except (WrongType, OverflowError):
            continue
        right = limits.refusal(argument, value, argument.name)
        seen.add(bool(right))
        words = command_line(job, path, argument, value)
        assert takes(job, words) is (right == ""), f"{words}: {right or 'declared to be right'}"
    assert seen == {True, False}, "the samples show both"


SIZE, LOSS = (
    next(argument for _, argument in arguments(JOBS[job]) if argument.name == name)
    for job, name in (("file_transfer", "size"), ("lan_link", "loss"))
)


SIZES = st.text(max_size=6) | st.floats().map(str) | st.integers().map(str)


@given(SIZES | st.from_regex(r"-?[0-9_\s]{1,3}[kMGX]?", fullmatch=True))
def test_sizes_are_refused_before_as_in_the_program(text: str) -> None:
    taken = takes("file_transfer", ["client", "10.0.0.1", "--", text])
    assert taken is not bool(limits.refusal(SIZE, text, "size"))


@pytest.mark.parametrize("job", sorted(JOBS))
def test_every_argument_says_what_it_takes(job: str) -> None:
    unsaid = [
        argument.name
        for _, argument in arguments(JOBS[job])
        if argument.type in ("str", "int", "float") and not argument.choices and not argument.limits
    ]
    assert set(unsaid) <= FREE


REFUSED = {
    "size=unlimited": (
        "size=unlimited: the transfer would never end: no duration ends it, and no function .*"
        " give a size"
    ),
    "loss=-1": "loss=-1: loss is preset, or from 0 to 100 %",
    "loss=101": "from 0 to 100 %",
    "size=10X": "size=10X: size is from 1 to 1000G bytes, with k, M or G",
    "size=0": "from 1 to 1000G bytes",
    "rate=fast": "from 32k to 1G bit/s",
    "rate=1k": "from 32k to 1G bit/s",
    "return_rate=1e300": "return_rate=1e300: return_rate is preset, or same, or none, or from 32k to 1G bit/s",
    "buffer_bdp=0": "from 0.001 to 1000 BDP",
    "buffer_bdp=1e300": "from 0.001 to 1000 BDP",
    "series_s=1e-9": "series_s is 0, or from 0.01 to 3600 s",
    "jitter_ms=nan": "from 0 to 10000 ms",
    "link_file=nofile.csv": "nofile.csv",
    "cc_pep=bbr9": "cc_pep=bbr9: did you mean bbr",
    "cc=bbr9": "^cc=bbr9: did you mean bbr",
    "cc_tunnel=bbr9": "cc_tunnel is one of",
    "streams=0": "from 1 to 128",
    "initcwnd=0": "from 1 to 1000 segments",
    "burst_packets=0.5": "at least 1|from 1 to 1000000 packets",
    "burst_ms=0.5": "burst_ms is preset, or none, or from 1 to 100000 ms|from 1 to 100000 ms",
    "loss=1 burst_ms=10 burst_packets=1": "burst_packets and burst_ms: give one of them",
    "loss=70 burst_packets=2": r"burst_packets=2: no loss in bursts of this length .* \(with loss=70",
    "loss=0,70 burst_packets=1,2": r"burst_packets=2: no loss .* \(with loss=70",
}
OF_THE_TABLE = [
    case
    for case in REFUSED.items()
    if case[0].split("=")[0] in ("size", "rate", "buffer_bdp", "streams", "initcwnd")
]
"""Arguments that geo_loss_table hands to geo_loss."""


@pytest.mark.parametrize(
    ("scenario", "setting", "words"),
    [
        *(("geo", *case) for case in REFUSED.items()),
        *(("geo_loss_table", *case) for case in OF_THE_TABLE),
    ],
)
def test_no_guest_starts_for_a_value_that_its_job_refuses(
    scenario: str, setting: str, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        plan(ROOT / f"scenarios/{scenario}.yml", setting.split(), (1,), PACKAGES)


TOGETHER = (
    [
        (job, {"loss": loss, "burst_packets": burst, **place})
        for job, place in (
            ("lan_link", {}),
            ("satcom_link", {}),
            *(("satcom_link", {"loss_at": at}) for at in ("satellite", "last_mile")),
        )
        for loss in ("0", "1", "50", "50.1", "66", "67", "99.9", "100")
        for burst in ("1", "1.5", "2", "3", "1000", "1000000")
    ]
    + [
        (
            "file_transfer",
            {
                **http,
                "client": {"size": size, "direction": direction, "duration_s": duration, **more},
            },
        )
        for http in ({}, {"http": "none"}, {"http": "1.1"}, {"http": "3"})
        for size in ("30M", "unlimited")
        for direction in ("upload", "download")
        for duration in ("0", "5")
        for more in ({}, {"streams": "2"}, {"own_cc": "yes"})
    ]
    + [
        ("satpep", {"run": {"program": program, name: value}})
        for program in ("satpep", "pepsal")
        for name, value in (
            ("initcwnd", "10"),
            ("client_leg", "mss=1300"),
            ("server_leg", "mss=1300"),
            ("cc", "bbr"),
        )
    ]
)


def test_declaration_and_program_refuse_the_same_values_together() -> None:
    def stored(command: Command, values: dict[str, Any]) -> dict[str, Any]:
        required = {one.name: [[REQUIRED.get(one.name, "x")]] for one in command.required}
        chosen = next(
            (name for name in values if name in command.subcommands),
            next(iter(command.subcommands), None),
        )
        own = {name: [[value]] for name, value in values.items() if name != chosen}
        sub = (
            {chosen: stored(command.subcommands[chosen], values.get(chosen, {}))} if chosen else {}
        )
        return required | own | sub

    for job, values in TOGETHER:
        arguments = stored(JOBS[job].arguments, values)
        function = {"id": 0, "start_job_instance": {"entity_name": "e", job: arguments}}
        scenario = parse_scenario({"name": "t", "openbach_functions": [function, stop(0)]}, JOBS)
        words = argv(JOBS[job].arguments, arguments)
        assert takes(job, words) is (not value_checks.check(scenario, {}, JOBS)), words


def test_an_argument_that_is_not_given_is_equal_to_nothing() -> None:
    assert rules.holds("place != 'far'", {})
    assert not rules.holds("place == 'far'", {})
    assert not rules.holds("loss > 50", {})
    assert not rules.holds("1 / loss > 2", {"loss": 0.0})
    assert rules.holds("not (1 < loss <= 50) and -loss < 0", {"loss": 51.0})


@given(st.text(max_size=20) | st.from_regex(r"[a-b0-9 ()+*/<>=!.,'\[\]-]{0,20}", fullmatch=True))
def test_any_text_is_a_condition_or_is_refused(text: str) -> None:
    try:
        rules.check(text)
    except ValueError:
        return
    rules.holds(text, {"a": 1.0, "b": "text"})


@pytest.mark.parametrize(
    ("scenario", "setting"),
    [
        ("voip", "duration_s=-1"),
        ("voip", "ping_s=1e-9"),
        ("web", "loads=0"),
        ("mixed_cc", "cc_2=x"),
    ],
)
def test_the_command_ends_with_2(
    scenario: str, setting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([scenario, setting]) == 2
    assert setting.split("=")[0] in capsys.readouterr().err


def transfer(size: Any, **more: Any) -> dict[str, Any]:
    body = {
        "entity_name": "e",
        "file_transfer": {"client": {"server_ip": "10.0.0.1", "size": size}},
    }
    return {"id": 0, "start_job_instance": body, **more}


def wrong(
    *functions: dict[str, Any], given: dict[str, str] | None = None, **more: Any
) -> list[str]:
    given = given or {}
    scenario = {
        "name": "t",
        "openbach_functions": list(functions),
        "arguments": dict.fromkeys(given, ""),
        **more,
    }
    return [str(one) for one in value_checks.check(parse_scenario(scenario, JOBS), given, JOBS)]


def test_values_that_are_put_together() -> None:
    assert wrong(transfer("${n}M"), given={"n": "30"}) == []
    (said,) = wrong(transfer("${n}X"), given={"n": "30"})
    assert said.startswith(
        "openbach_functions.0.start_job_instance.file_transfer.size: '${n}X' is '30X' here: size is"
    )
    assert wrong(transfer("$n"), constants={"n": "0"}) == [
        "n=0: n is from 1 to 1000G bytes, with k, M or G for thousands, millions, billions"
    ]


@pytest.mark.parametrize("time", [-1, 1e308, "1e308", "inf", "nan"])
def test_times_that_no_run_waits_for(time: Any) -> None:
    (said,) = wrong(transfer("1k", wait={"time": time}))
    assert said.startswith("openbach_functions.0.wait.time: ") and said.endswith(
        "time is from 0 to 604800 s"
    )
    (said,) = wrong(transfer("1k", on_fail={"policy": "retry", "retry": 1, "delay": time}))
    assert "on_fail.delay is from 0 to 604800 s" in said


def test_scenarios_that_start_each_other_have_an_end() -> None:
    def starting(name: str, other: str) -> Any:
        start = {
            "id": 1,
            "start_scenario_instance": {"scenario_name": other, "arguments": {"n": "${n}k"}},
        }
        return parse_scenario(
            {"name": name, "arguments": {"n": ""}, "openbach_functions": [transfer("$n"), start]},
            JOBS,
        )

    a, b, c = starting("a", "b"), starting("b", "c"), starting("c", "b")
    assert value_checks.check(a, {"n": "1"}, JOBS, {"b": b, "c": c})[0].value == "1kk"


def test_a_file_can_be_checked_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.json"
    swept = {"x-sweep": {"values": {"n": ["1k", "2X"]}}, "arguments": {"n": ""}}
    file.write_text(json.dumps({"name": "t", "openbach_functions": [transfer("$n")], **swept}))
    assert main.main(["--check", str(file)]) == 0  # the backend would accept it
    assert "warning: x-sweep: n=2X: n is from 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("scenario", "setting", "count"),
    [
        ("web", "http=1.1,2", 0),
        ("web", "http=2,3", 1),
        ("geo", "cc=cubic,bbr2", 0),
        ("geo", "http=none,3", 1),
    ],
)
def test_what_a_value_does_not_act_on_is_noted_once(
    scenario: str, setting: str, count: int
) -> None:
    campaign = plan(ROOT / f"scenarios/{scenario}.yml", setting.split(), (1,), PACKAGES)
    noted = notes_of(campaign)
    assert len(noted) == count
    assert all("cc acts on TCP only" in text for text in noted)


def test_the_command_prints_what_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([str(ROOT / "scenarios/web.json"), "--dry-run", "http=3", "vpn=none"]) == 0
    assert "note: http=3: QUIC has nginx's own congestion control" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"minimun": 0}, "minimun is unknown"),
        ({"unit": "s"}, "should have one of minimum"),
        ({"minimum": 2, "maximum": 1}, "minimum is above the maximum"),
        ({"minimum": "1X"}, "'1X' is not a number"),
        ({"pattern": "("}, "unterminated"),
        ({"minimum": 0, "also": "none"}, "also is a list"),
        ({"refused": [{"if": "a == 1"}]}, "should be a list of {if: CONDITION, because: TEXT}"),
        ({"refused": [{"if": "a ==", "because": "b"}]}, "'a ==' is no condition: "),
        (
            {"refused": [{"if": "open('x')", "because": "b"}]},
            r"is no condition: open\('x'\) is not allowed",
        ),
        ({"refused": [{"if": "a ** 9", "because": "b"}]}, "is no condition: "),
        (
            {"noted": {"if": "a == 1", "because": "b"}},
            "noted should be a list of {if: CONDITION, because: TEXT}",
        ),
    ],
)
def test_declarations_that_say_nothing_clear(declared: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        limits.check_declaration("x.yml: arguments.optional.0.limits", declared)


def test_a_campaign_is_counted_before_its_cells_are_made() -> None:
    losses = ",".join(str(n / 100) for n in range(1500))
    rates = ",".join(f"{n}k" for n in range(1000, 2500))
    with pytest.raises(InputError, match="27000000 runs; at most 200000 at once"):
        plan(ROOT / "scenarios/geo.yml", [f"loss={losses}", f"rate={rates}"], (1,), PACKAGES)


def test_instance_types_have_no_limits() -> None:
    assert not [one for _, _, one in DECLARED if one.type in INSTANCE_TYPES]


def stop(*numbers: int, **wait: Any) -> dict[str, Any]:
    return {"id": 9, "wait": wait, "stop_job_instances": {"openbach_function_ids": list(numbers)}}


def unending(*functions: dict[str, Any]) -> list[str]:
    return [one for one in wrong(*functions) if "would never end" in one]


def test_a_job_that_never_ends_is_refused_where_nothing_stops_it() -> None:
    endless = transfer("unlimited")
    assert len(unending(endless)) == 1
    assert len(unending(endless, stop(0, finished_ids=[0]))) == 1, (
        "what would stop it waits for its end"
    )
    assert unending(endless, stop(0)) == []
    timed = {
        "entity_name": "e",
        "file_transfer": {
            "client": {"server_ip": "10.0.0.1", "size": "unlimited", "duration_s": 5}
        },
    }
    assert unending({"id": 0, "start_job_instance": timed}) == []
    pings = {
        "entity_name": "e",
        "ping_series": {"interval_s": "1", "destination_ip": "10.0.0.1", "count": "0"},
    }
    assert len(unending({"id": 0, "start_job_instance": pings})) == 1


@pytest.mark.parametrize(
    ("scenario", "setting"), [("lan_ping", "pings=0"), ("lan_ping", "ping_s=0")]
)
def test_no_guest_starts_for_pings_that_never_end(scenario: str, setting: str) -> None:
    with pytest.raises(InputError, match="would never end"):
        plan(ROOT / f"scenarios/{scenario}.yml", [setting], (1,), PACKAGES)


@pytest.mark.parametrize("scenario", ["multi_flow", "multi_flow_loss", "voip", "multipath"])
def test_ours_stop_what_never_ends(scenario: str) -> None:
    plan(ROOT / f"scenarios/{scenario}.yml", [], (1,), PACKAGES)
