# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job declares to measure: reading it, and what becomes of what was sent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.fake_engine import FakeEngine
from helpers.job_folder import job_folder
from helpers.records import OURS, record, write_statistics
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.campaign.execute import PlannedRun, execute_run, known_record
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.reading import plan
from openbach_run.campaign.spec import runs_of
from openbach_run.commands import main
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import faults, load_packages
from openbach_run.openbach.measures import (
    EVERY_STATISTIC,
    SERIES,
    TAKES_OF_ALL,
    TAKES_OF_ONE,
    WORST,
    Measure,
    check_agreement,
    flat,
    from_records,
    in_words,
    read_measures,
    to_records,
)
from openbach_run.openbach.shapes import schema_of
from openbach_run.paths import REPOSITORY
from openbach_run.results.measures import OF_ALL, OF_ONE, measures
from openbach_run.results.record import statistics
from openbach_run.results.store import Store
from openbach_run.topology.inventory import load_inventory

SENT = ("answer_ms", "queries", "rate_bps")


def read(folder: Path, content: Any) -> tuple[Measure, ...]:
    (folder / "measures.yml").write_text(
        content if isinstance(content, str) else yaml.safe_dump(content)
    )
    return read_measures(folder, "dns", SENT)


def test_a_name_says_most_of_it(tmp_path: Path) -> None:
    assert read(tmp_path, "answer_ms:\nqueries: {type: int, better: more, take: last}\n") == (
        Measure("answer_ms", "answer_ms", "ms", "answer"),
        Measure("queries", "queries", "", "queries", type="int", better="more", take="last"),
    )


def test_a_job_without_the_file_measures_what_it_sends(tmp_path: Path) -> None:
    assert read_measures(tmp_path, "dns", SENT) == (EVERY_STATISTIC,)
    assert read(tmp_path, "{}") == ()


def one_sent(job: str, instance: int, suffix: str | None = None, **values: Any) -> dict[str, Any]:
    metadata = {
        "job_name": job,
        "job_instance_id": instance,
        "scenario_instance_id": 1,
        "suffix": suffix,
        "time": 1000,
    }
    return {"_metadata": metadata, **values}


def write_started(folder: Path, *entities: str, job: str = "iperf3") -> None:
    started = [
        {
            "t_s": 0.0,
            "event": "job_started",
            "scenario_instance_id": 1,
            "function": number,
            "instance_id": number,
            "job": job,
            "entity": entity,
        }
        for number, entity in enumerate(entities, 1)
    ]
    (folder / "events.jsonl").write_text("".join(json.dumps(one) + "\n" for one in started))


EACH = {"iperf3": (EVERY_STATISTIC,)}


def test_each_number_of_a_job_without_the_file_is_a_column(tmp_path: Path) -> None:
    """The description of OpenBACH's own iperf3 leaves out the average.

    It says `throughput_*flow_number*`.
    """
    write_started(tmp_path, "pc")
    sent = [
        one_sent("iperf3", 1, "Flow1", throughput=value, state="up", up=True, file=None)
        for value in (3, 5, 4.5)
    ]
    write_statistics(tmp_path, [*sent, one_sent("iperf3", 1, average_throughput=4)])
    found = measures(tmp_path, statistics(tmp_path), EACH)
    assert found == {"Flow1_throughput": 4.5, "average_throughput": 4.0}


def test_what_both_ends_send_is_told_apart(tmp_path: Path) -> None:
    write_started(tmp_path, "server", "pc", "pc")
    sent = [one_sent("iperf3", instance, throughput=instance) for instance in (1, 2, 3)]
    write_statistics(tmp_path, sent)
    assert measures(tmp_path, statistics(tmp_path), EACH) == {
        "server_throughput": 1.0,
        "pc_throughput": 2.0,
        "pc_2_throughput": 3.0,
    }


def test_several_scenario_instances_have_no_row_together_whatever_their_jobs_declare(
    tmp_path: Path,
) -> None:
    """One read its columns from its measures.yml, the other one had none.

    Their figures stood in one row.
    """
    write_started(tmp_path, "pc")
    other = one_sent("dns", 2, answer_ms=5)
    other["_metadata"]["scenario_instance_id"] = 2
    write_statistics(tmp_path, [one_sent("iperf3", 1, throughput=1), other])
    both = {**EACH, "dns": (Measure("answer_ms", "answer_ms", "ms", "answer"),)}
    lines = statistics(tmp_path)
    assert measures(tmp_path, lines, both) == {}
    assert measures(tmp_path, lines, both, scenario_instance_id=2) == {"answer_ms": 5.0}


def test_names_of_statistics_become_names_of_columns(tmp_path: Path) -> None:
    write_started(tmp_path, "pc")
    write_statistics(
        tmp_path,
        [
            one_sent(
                "iperf3", 1, None, **{"loss (%)": 1, "loss": 2, "délai ms": 3, "seed": 4, "%": 5}
            )
        ],
    )
    assert measures(tmp_path, statistics(tmp_path), EACH) == {
        "loss": 1.0,
        "loss_2": 2.0,
        "d_lai_ms": 3.0,
        "iperf3_seed": 4.0,
        "_": 5.0,
    }


@pytest.mark.parametrize(
    ("content", "words"),
    {
        "- answer_ms": "measures.yml: should be a mapping of columns",
        "answer_ms: 3": (
            "measures.yml: answer_ms: should be a mapping with some of the keys statistic,"
            " unit, title"
        ),
        "answer_ms: {titel: x}": "answer_ms.titel: no such key; did you mean title?",
        "answr_ms: {}": (
            "answr_ms: dns declares no statistic answr_ms; did you mean answer_ms."
            " files/dns.yml has answer_ms, q"
        ),
        "answer_ms: {statistic: x}": "declares no statistic x; files/dns.yml has answer_ms, queries, rate_bps",
        "answer_ms: {type: integer}": 'answer_ms.type: "integer" is none of float, int, text; did you mean int?',
        "answer_ms: {better: fewer}": 'answer_ms.better: "fewer" is none of less, more',
        "answer_ms: {take: [last]}": r'answer_ms.take: \["last"\] is none of median, mean',
        "answer_ms: {factor: 1e-6}": r'answer_ms.factor: "1e-6" should be a number like 1.0e-6 \(YAML reads 1e-6 as a text',
        "answer_ms: {factor: .inf}": "answer_ms.factor: Infinity should be a number",
        "answer_ms: {factor: 0}": "answer_ms.factor: 0 should be a number",
        "answer_ms: {unit: 3}": "answer_ms.unit: 3 should be a text",
        "answer ms: {statistic: answer_ms}": "answer ms: the name is not made of letters",
        "seed: {statistic: queries}": "seed: the name is another column",
        "answer_ms: {": "line 1, column",
    }.items(),
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(tmp_path, content)


TAKES = schema_of("measures")["$defs"]["measure"]["properties"]["take"]["enum"]


def test_a_file_may_name_every_take() -> None:
    assert [*TAKES_OF_ONE, *TAKES_OF_ALL, SERIES] == TAKES


KEYS = st.sampled_from([*SENT, "statistic", "unit", "type", "factor", "title", "better", "take"])
VALUES = st.sampled_from([*SENT, *TAKES, "int", "float", "less"])
SINGLE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | VALUES
YAML = (
    SINGLE
    | st.lists(SINGLE, max_size=2)
    | st.dictionaries(KEYS | st.text(max_size=5), SINGLE, max_size=3)
)


@given(st.dictionaries(KEYS | st.text(max_size=5), YAML, max_size=3) | SINGLE)
def test_any_content_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: Any
) -> None:
    folder = tmp_path_factory.mktemp("job")
    try:
        found = read(folder, content)
    except InputError as error:
        assert str(folder / "measures.yml") in str(error)
        return
    assert [one.column for one in found] == list(content or {})
    assert all(
        one.statistic in SENT and one.type in ("float", "int") and one.take in TAKES
        for one in found
    )
    assert from_records(json.loads(json.dumps(to_records({"dns": found})))) == {"dns": found}


def test_a_record_of_another_version_is_understood() -> None:
    kept = {"dns": [{"column": "answer_ms", "title": "answer time", "colour": "red"}]}
    assert from_records(kept) == {"dns": (Measure("answer_ms", "answer_ms", "ms", "answer time"),)}


def test_every_way_to_take_several_values_is_there() -> None:
    assert (tuple(OF_ONE), (*OF_ALL, *WORST)) == (TAKES_OF_ONE, TAKES_OF_ALL)


@pytest.mark.parametrize(
    ("take", "value"),
    [
        ("median", 4),
        ("mean", 5),
        ("min", 2),
        ("max", 10),
        ("first", 10),
        ("last", 4),
        ("sum", 20),
        ("count", 4),
    ],
)
def test_what_a_column_takes_of_what_was_sent_several_times(
    tmp_path: Path, take: str, value: float
) -> None:
    write_statistics(
        tmp_path, [{"_metadata": {"job_name": "dns"}, "answer_ms": one} for one in (10, 2, 4, 4)]
    )
    declared = {
        "dns": read(
            tmp_path, {"answer_us": {"statistic": "answer_ms", "factor": 1000, "take": take}}
        )
    }
    assert measures(tmp_path, statistics(tmp_path), declared) == {"answer_us": 1000.0 * value}


def test_flows_are_taken_together(tmp_path: Path) -> None:
    write_statistics(
        tmp_path,
        [
            {
                "_metadata": {"job_name": "dns", "suffix": flow, "time": 1000 * second},
                "rate_bps": rate,
            }
            for flow, rate in (("a", 6e6), ("b", 2e6))
            for second in (1, 2, 3)
        ],
    )
    declared = read(
        tmp_path,
        {
            "both_mbps": {"statistic": "rate_bps", "factor": 1e-6, "take": "total_rate"},
            "a_pct": {"statistic": "rate_bps", "take": "first_share_pct"},
            "worse_mbps": {"statistic": "rate_bps", "factor": 1e-6, "take": "worst_flow"},
            "delay_s": {"statistic": "rate_bps", "take": "worst", "better": "less"},
            "over_time": {"statistic": "rate_bps", "take": "series"},
        },
    )
    assert measures(tmp_path, statistics(tmp_path), {"dns": declared}) == {
        "both_mbps": 8.0,
        "a_pct": 75.0,
        "worse_mbps": 2.0,
        "delay_s": 6e6,
    }


@pytest.mark.parametrize(
    ("suffixes", "found"),
    [
        ([""], {"worse_ms": 1.0}),
        (["to_client"], {"worse_ms": 1.0}),
        (["", "to_client", "to_server"], {"worse_ms": 3.0, "slower_ms": 3.0}),
    ],
)
def test_the_worst_is_that_of_a_direction_and_not_the_sum(
    suffixes: list[str], found: dict[str, float], tmp_path: Path
) -> None:
    """F6: what has no suffix is the sum of both directions, where there are both."""
    sent = (
        {"": 9.0, "to_client": 1.0, "to_server": 3.0} if len(suffixes) > 1 else {suffixes[0]: 1.0}
    )
    write_statistics(
        tmp_path,
        [
            {"_metadata": {"job_name": "dns", "suffix": suffix}, "answer_ms": value}
            for suffix, value in sent.items()
        ],
    )
    of_all = {"statistic": "answer_ms", "better": "less"}
    declared = read(
        tmp_path,
        {"worse_ms": {**of_all, "take": "worst"}, "slower_ms": {**of_all, "take": "worst_flow"}},
    )
    assert measures(tmp_path, statistics(tmp_path), {"dns": declared}) == found


def test_a_column_that_is_there_already_gets_its_jobs_name(tmp_path: Path) -> None:
    """Two jobs measure the same without a suffix, or a column is called like an argument."""
    sent = [
        {"_metadata": {"job_name": job}, "ttfb_s": time_s}
        for job, time_s in (("file_transfer", 1), ("web_page", 2))
    ]
    write_statistics(tmp_path, [*sent, {"_metadata": {"job_name": "voip"}, "delay_ms": 3}])
    found = {
        name: value
        for name, value in measures(tmp_path, statistics(tmp_path), OURS, ["delay_ms"]).items()
        if value is not None
    }
    assert found == {"file_transfer_ttfb_s": 1, "web_page_ttfb_s": 2, "voip_delay_ms": 3}
    assert in_words("web_page_ttfb_s", flat(OURS)) == "web page time to first byte (s)"


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("to_client_mos", "to client MOS"),
        ("flow_1_goodput_mbps", "flow 1 goodput (Mbit/s)"),
        ("total_goodput_mbps", "goodput of all flows (Mbit/s)"),
        ("never_heard_of_ms", "never heard of (ms)"),
    ],
)
def test_columns_in_words(column: str, words: str) -> None:
    assert in_words(column, flat(OURS)) == words


def test_jobs_that_do_not_agree_on_a_column_are_refused() -> None:
    check_agreement(OURS)
    other = {"dns": (Measure("ttfb_s", "ttfb_s", "ms", "time to first byte", better="less"),)}
    with pytest.raises(
        InputError, match="jobs web_page and dns: both measure ttfb_s, with another unit"
    ):
        check_agreement({"web_page": OURS["web_page"]} | other)


def test_a_jobs_measures_are_those_of_its_folder(tmp_path: Path) -> None:
    folder = job_folder(tmp_path, statistics=[{"name": "answer_ms"}])
    (folder / "measures.yml").write_text("answer_ms: {better: less}\n")
    assert load_packages([tmp_path])["toy"].measures == (
        Measure("answer_ms", "answer_ms", "ms", "answer", better="less"),
    )
    (folder / "measures.yml").write_text("answer_s: {}\n")
    (fault,) = faults(load_packages([tmp_path]))
    assert "toy declares no statistic answer_s; did you mean answer_ms" in fault


# In a campaign

PACKAGES = load_packages([REPOSITORY / "jobs"])
SETTINGS = ("vpn=none", "cc=cubic", "loss=0", "pep=none", "size=1M")


def planned(file: Path, measures: Any = None) -> tuple[Campaign, PlannedRun]:
    campaign = plan(file, SETTINGS, (1,), PACKAGES)
    engine = FakeEngine()
    (spec,) = runs_of(campaign, load_inventory(REPOSITORY / "inventory.yml"), engine.identity_of)
    return campaign, PlannedRun(spec, engine, "./openbach-run", measures or campaign.measures)


def scenario_that_shows(folder: Path, measure: str) -> Path:
    scenario = json.loads((REPOSITORY / "scenarios/geo_loss.json").read_text())
    scenario["x-sweep"]["measure"] = measure
    (folder / "made.json").write_text(json.dumps(scenario))
    return folder / "made.json"


@pytest.mark.parametrize(
    "measure", ["transfer_time_s", "flow_2_transfer_time_s", "forward_queue_delay_ms"]
)
def test_a_scenario_shows_any_column_that_its_jobs_measure(tmp_path: Path, measure: str) -> None:
    campaign, _ = planned(scenario_that_shows(tmp_path, measure))
    assert campaign.measure == measure


@pytest.mark.parametrize(
    ("measure", "words"),
    {
        "transfer_tme_s": (
            "no job of the scenario measures transfer_tme_s; did you mean transfer_time_s."
            " file_transfer has"
        ),
        "mos": "measures mos; .*satcom_link has queue_delay_ms",
        "": "no job of the scenario measures ;",
    }.items(),
)
def test_a_measure_that_no_job_has_is_refused_before_anything_runs(
    tmp_path: Path, measure: str, words: str
) -> None:
    with pytest.raises(InputError, match=f"made.json: geo_loss: x-sweep.measure: .*{words}"):
        planned(scenario_that_shows(tmp_path, measure))


def test_check_warns_of_a_measure_that_no_job_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["--check", str(scenario_that_shows(tmp_path, "transfer_tme_s"))]) == 0
    assert (
        "warning: " in (said := capsys.readouterr().err) and "did you mean transfer_time_s?" in said
    )
    assert main.main(["--check", str(scenario_that_shows(tmp_path, "ttfb_s"))]) == 0
    assert capsys.readouterr().err == ""


def test_without_x_sweep_the_table_shows_the_transfer_time_or_what_the_last_job_measures() -> None:
    campaign, _ = planned(REPOSITORY / "scenarios/geo_loss.json")
    assert campaign.measure == "transfer_time_s"
    measured = {"satcom_link": OURS["satcom_link"], "file_transfer": OURS["file_transfer"][1:]}
    assert replace(campaign, measures=measured).measure == "goodput_mbps"
    assert replace(campaign, measures={}).measure is None


def test_a_finished_run_is_measured_anew_when_its_jobs_declare_something_else(
    tmp_path: Path,
) -> None:
    """Without being run again: what was sent is in its record."""
    _, before = planned(REPOSITORY / "scenarios/geo_loss.json")
    store = Store(tmp_path)
    store.runs.mkdir()
    place, record = execute_run(before, store, 0, lambda event: None)
    store.keep(place, record)
    assert known_record(store, before) == record
    assert record.measures["transfer_time_s"] == 10
    kilobytes = Measure("received_kb", "bytes", "kB", "received", factor=1e-3)
    _, now = planned(REPOSITORY / "scenarios/geo_loss.json", {"file_transfer": (kilobytes,)})
    found = known_record(store, now)
    assert found is not None
    assert (found.run_id, found.measures) == (record.run_id, {"received_kb": 10_000})
    assert store.load(record.run_id) == found


def test_what_was_damaged_since_keeps_its_measures(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.runs.mkdir()
    _, wanted = planned(REPOSITORY / "scenarios/geo_loss.json")
    spec = wanted.spec
    old = replace(record(28.5), run_id=spec.run_id, declared={}, arguments=spec.values)
    old = replace(old, scenario=spec.scenario_name, seed=spec.seed)
    place = store.begin(old.run_id)
    (place / "statistics.jsonl").write_text("garbage\n")
    store.keep(place, old)
    assert known_record(store, wanted) == old


def test_the_queueing_delay_is_that_of_the_transfer(tmp_path: Path) -> None:
    """36 of 42 samples were before and after it, so the median was 0 beside a full buffer."""
    sent = []
    for at_s in range(20):
        queue_ms = {8: 100, 9: 300, 10: 498, 11: 200}.get(at_s, 0)
        line = one_sent("satcom_link", 1, "forward", queue_delay_ms=queue_ms)
        line["_metadata"]["time"] = 1000 * at_s
        sent.append(line)
    end = one_sent("file_transfer", 2, transfer_time_s=3.5)
    end["_metadata"]["time"] = 11_400
    write_statistics(tmp_path, [*sent, end])
    found = measures(tmp_path, statistics(tmp_path), OURS)
    assert found["forward_queue_delay_ms"] == 250
    assert found["forward_queue_delay_p95_ms"] == found["forward_queue_delay_max_ms"] == 498
