# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests/fuzz.py has found: each was a traceback, and is an error that names file and place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.altered import changed
from helpers.job_code import ROOT, load

from openbach_run.bundle.artifact_files import wrong_files
from openbach_run.campaign.reading import plan
from openbach_run.catalog import packages_of
from openbach_run.engine.platform.answers import as_collected
from openbach_run.engine.platform.rest import Lost, read_access
from openbach_run.engine.virtual import series
from openbach_run.errors import InputError, SetupError
from openbach_run.openbach.expand import expand
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.project import for_2_6
from openbach_run.openbach.reading import read_scenario
from openbach_run.openbach.refusals import Malformed
from openbach_run.report import published
from openbach_run.report.cells import Campaigns, Cell
from openbach_run.report.claims import read_claims
from openbach_run.results import campaign_file
from openbach_run.web.index import Index
from openbach_run.web.store import Database

NO_TEXT = b"a\xff\n"
NOT_UTF_8 = r"not UTF-8 text \(byte 1\)"
Content = dict[str, Any]


def packages_file(place: Path) -> None:
    (place / "files").mkdir()
    (place / "packages.txt").write_bytes(NO_TEXT)
    packages_of(place / "files")


def sums(place: Path) -> None:
    (place / "SHA256SUMS").write_bytes(NO_TEXT)
    list(wrong_files(place))


def kernel_series(place: Path) -> None:
    (place / "series").write_bytes(NO_TEXT)
    series.names(place)


def controller(place: Path) -> None:
    (place / "controller").write_bytes(NO_TEXT)
    read_access("192.0.2.1", place / "controller")


@pytest.mark.parametrize("read", [packages_file, sums, kernel_series, controller])
def test_a_file_that_is_no_text_is_named(tmp_path: Path, read: Callable[[Path], None]) -> None:
    with pytest.raises((InputError, SetupError), match=NOT_UTF_8):
        read(tmp_path)


def written(place: Path, content: Any) -> Path:
    place.write_text(yaml.safe_dump(content))
    return place


CLAIMS = {
    "C1": {
        "statement": "x",
        "parts": [{"says": "x", "cell": {"vpn": ["none"], "loss": {"above": 1}}, "least": 1}],
    }
}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("C1", [], "C1: [] is no JSON object"),
        ("C1.parts", ..., 'C1: has no "parts"'),
        ("C1.statement", ..., 'C1: has no "statement"'),
        ("C1.parts.0", 5, "C1: parts.0: 5 is no JSON object"),
        ("C1.parts.0.says", ..., 'C1: parts.0: has no "says"'),
        ("C1.parts.0.cell", ["x"], "C1: parts.0: \"cell\" is ['x']"),
        ("C1.parts.0.cell.vpn", "none", "C1: parts.0: cell: should have for each argument a list"),
        (
            "C1.parts.0.cell.loss.above",
            "1",
            "C1: parts.0: cell: should have for each argument a list",
        ),
        ("C1.parts.0.least", "1", "C1: parts.0: \"least\" is '1'"),
        ("C1.parts.0.best_over", [["x"]], "C1: parts.0: best_over: should be a list"),
        ("C1.parts.0.lest", 1, "C1: parts.0: lest: a part has"),
    ],
)
def test_a_claim_of_another_shape_is_named(
    tmp_path: Path, path: str, value: Any, said: str
) -> None:
    assert read_claims(written(tmp_path / "good.yml", CLAIMS)) == CLAIMS
    with pytest.raises(InputError) as error:
        read_claims(written(tmp_path / "claims.yml", changed(CLAIMS, path, value)))
    assert str(error.value).startswith(f"{tmp_path / 'claims.yml'}: {said}")


PUBLISHED = {
    "d": {
        "document": "x",
        "tables": [{"title": "x", "cell": {}, "measure": "tcp_mbps", "figures": {"none": 5}}],
    }
}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("d", 5, "d: 5 is no JSON object"),
        ("d.document", ..., 'd: has no "document"'),
        ("d.tables", {}, 'd: "tables" is {}'),
        ("d.tables.0.cell", ..., 'd: tables.0: has no "cell"'),
        ("d.tables.0.cell", {"vpn": 5}, "d: tables.0: cell: should have"),
        ("d.tables.0.figures", {}, "d: tables.0: figures: should have"),
        ("d.tables.0.figures.none", "5", "d: tables.0: figures: should have"),
        ("d.tables.0.figures.none", 0, "d: tables.0: figures: the first should not be 0"),
    ],
)
def test_a_published_table_of_another_shape_is_named(
    tmp_path: Path, path: str, value: Any, said: str
) -> None:
    assert published.titles(written(tmp_path / "good.yml", PUBLISHED)) == {"d": "x"}
    with pytest.raises(InputError) as error:
        published.titles(written(tmp_path / "published.yml", changed(PUBLISHED, path, value)))
    assert str(error.value).startswith(f"{tmp_path / 'published.yml'}: {said}")


def test_a_cell_without_a_vpn_is_beside_no_published_figure(tmp_path: Path) -> None:
    file = written(
        tmp_path / "published.yml", changed(PUBLISHED, "d.tables.0.cell", {"scenario": ["mine"]})
    )
    assert published.tables(Campaigns([], [Cell({"scenario": "mine"})]), file) == {}


def test_statistics_of_a_controller_are_a_whole_csv_or_lost() -> None:
    assert [one["a"] for one in as_collected("time,a\r2026-01-01T00:00:00Z,5\r")] == [5]
    with pytest.raises(Lost, match="is no CSV: field larger than"):
        list(as_collected('time,a\n,"' + "x" * 200_000))


@pytest.mark.parametrize(
    "content",
    [
        '{"command": ' + "[" * 5000,
        '{"command": "x", "runs": [{"run_id": []}]}',
        '{"command": "x", "runs": 5}',
        "".join(campaign_file.text("x", [campaign_file.AskedRun("0", "geo", {}, 10**40)])),
        *campaign_file.text("x", [campaign_file.AskedRun("0", ["geo"], {}, 1)]),  # type: ignore[arg-type]
    ],
)
def test_a_damaged_campaign_keeps_no_results_off_the_page(tmp_path: Path, content: str) -> None:
    """The index stopped at the first."""
    for name in ("a", "b"):
        (tmp_path / name / "runs").mkdir(parents=True)
        (tmp_path / name / campaign_file.FILE).write_text(
            content if name == "a" else '{"command": "good", "runs": []}'
        )
    database = Database(tmp_path / "serve.sqlite")
    try:
        Index(database, tmp_path).look()
        assert "good" in [row["command"] for row in database.rows("SELECT command FROM folder")]
    finally:
        database.close()


@pytest.mark.parametrize("run_id", ["a\0", "../b", "", 65 * "a"])
def test_a_run_id_is_the_name_of_a_directory(tmp_path: Path, run_id: str) -> None:
    text = campaign_file.text("x", [campaign_file.AskedRun(run_id, "geo", {}, 1)])
    (tmp_path / campaign_file.FILE).write_text("".join(text))
    with pytest.raises(InputError, match=r"runs\.0: '.*' is no run_id"):
        campaign_file.read(tmp_path)


JOB: Content = yaml.safe_load((ROOT / "jobs/ping_series/files/ping_series.yml").read_text())


UNKNOWN_UBUNTU = {
    "ansible_distribution": "Ubuntu",
    "ansible_system": "Linux",
    "ansible_distribution_release": "x",
    "command": "c",
}


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({}, "supported_platforms should be a list of platforms"),
        ({"supported_platforms": [5]}, "supported_platforms should be a list of platforms"),
        (
            {"supported_platforms": [{"ansible_distribution": "Ubuntu"}]},
            "Ubuntu: ansible_system is missing, or no text",
        ),
        ({"supported_platforms": [{"ansible_distribution": "Debian"}]}, "names no Ubuntu"),
        (
            {"supported_platforms": [UNKNOWN_UBUNTU]},
            "supported_platforms: Ubuntu x: only jammy, noble",
        ),
    ],
)
def test_a_platform_that_2_6_cannot_have_is_named(
    tmp_path: Path, block: Content, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        for_2_6(written(tmp_path / "j.yml", {**JOB, "platform_configuration": block}))


def test_a_job_that_is_no_mapping_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="supported_platforms should be a list"):
        for_2_6(written(tmp_path / "j.yml", ["x"]))


def test_choices_are_texts_or_numbers(tmp_path: Path) -> None:
    """A job's that is malformed is told when it is loaded, or when it is used."""
    argument = {
        "name": "a",
        "type": "str",
        "count": "1",
        "choices": [{"a": 1}],
        "limits": {"folder": "vpn-configs"},
    }
    (tmp_path / "jobs.json").write_text(
        json.dumps({"mine": {"arguments": {"required": [argument]}}})
    )
    with pytest.raises(InputError, match=r"choices \(a\) should be texts or numbers"):
        _ = load_packages([tmp_path / "jobs.json"])["mine"].job.arguments


@pytest.mark.parametrize(
    "place", ["8.start_", "8.label", "8.start_job_instance", "8.start_job_instance.pep.none"]
)
def test_what_follows_another_value_is_an_argument_of_a_job(tmp_path: Path, place: str) -> None:
    content = expand(ROOT / "scenarios/leo.yml")
    content["x-same"] = {**content["x-same"], "mine": [place]}
    (tmp_path / "mine.json").write_text(json.dumps(content))
    jobs = {name: package.job for name, package in load_packages([ROOT / "jobs"]).items()}
    scenario = read_scenario(tmp_path / "mine.json", jobs)
    with pytest.raises(InputError, match=r"x-same\.mine should be a list of places"):
        _ = scenario.spelled_out


@pytest.mark.parametrize("time", ["3.0.075", "3..5", ".", ".5"])
def test_a_line_of_a_call_that_is_no_time_is_left_out(time: str) -> None:
    stream = load("voip", "stream")
    line = "Flow>1 Seq> 1 Src> 10.0.0.1/5 txTime>1:2:{} rxTime>1:2:3.75 Size>  172\n"
    assert len(stream.read_log(line.format("3.5"))) == 1
    assert stream.read_log(line.format(time)) == []


def test_a_number_of_a_call_that_is_too_long_is_left_out() -> None:
    line = f"Seq> {'7' * 5000} Src> 10.0.0.1/5 txTime>1:2:3.5 rxTime>1:2:3.75 Size>  172"
    assert load("voip", "stream").read_log(line) == []


@pytest.mark.parametrize(
    ("job", "module", "more"),
    [("lan_link", "impairment", ()), ("vpn", "cpu_model", ("wireguard", 1.0))],
)
def test_a_profile_that_is_nested_too_deeply_is_named(
    tmp_path: Path, job: str, module: str, more: tuple[Any, ...]
) -> None:
    (tmp_path / "mine.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"mine\.json: nested too deeply"):
        load(job, module).find("mine", *more, tmp_path)


def test_arguments_of_a_sub_scenario_are_no_text(tmp_path: Path) -> None:
    """The backend fails there, too (HTTP 500)."""
    start = {"scenario_name": "geo", "arguments": "$vpn"}
    content = {
        "name": "x",
        "arguments": {"vpn": ""},
        "openbach_functions": [{"id": 0, "start_scenario_instance": start}],
    }
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(Malformed) as refused:
        read_scenario(tmp_path / "x.json", {})
    assert refused.value.status == 500
    assert (
        "openbach_functions.0.start_scenario_instance.arguments: '$vpn' should be an object"
        in str(refused.value)
    )


@pytest.mark.parametrize("key", ["inherits", "table_of"])
def test_a_name_that_no_file_can_have_is_no_file(tmp_path: Path, key: str) -> None:
    (tmp_path / "t.yml").write_text(f"{key}: {300 * 'a'}\n")
    with pytest.raises(InputError, match=f"t.yml: {key}: a+: no such file"):
        expand(tmp_path / "t.yml")


@pytest.mark.parametrize("name", ["mine.json", "mine/files/mine.yml"])
def test_lists_in_lists_of_a_job_are_not_followed_for_ever(tmp_path: Path, name: str) -> None:
    """Python's own readers take some thousand levels, what walks them does not."""
    arguments = {"required": json.loads("[" * 300 + "]" * 300)}
    job = {
        "general": {"name": "mine"},
        "platform_configuration": {"command": "x"},
        "arguments": arguments,
    }
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(json.dumps(job if name.endswith("yml") else {"mine": job}))
    with pytest.raises(InputError, match=r"nested too deeply \(at most 100 levels\)"):
        packages = load_packages([tmp_path if name.endswith("yml") else tmp_path / name])
        assert packages["mine"].job.arguments is None


def test_a_list_of_link_files_has_texts(tmp_path: Path) -> None:
    content = {"name": "x", "openbach_functions": [], "x-sweep": {"link_files": [{}]}}
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"x-sweep\.link_files should be a list of arguments"):
        plan(tmp_path / "x.json", [], (1,), {})
