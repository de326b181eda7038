# SPDX-License-Identifier: GPL-3.0-or-later
"""Job packages in both formats, what is said about broken ones, and command lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.fake_engine import Transfers
from helpers.job_folder import NEW, OLD, job_folder
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.campaign import engines
from openbach_run.catalog import Catalog
from openbach_run.commands import main
from openbach_run.errors import InputError
from openbach_run.openbach.job import Job, WrongType, argv, convert
from openbach_run.openbach.job_folders import faults, load_packages, well_formed

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("platform", [NEW, OLD], ids=["2.7", "2.6"])
def test_both_formats_of_packages(tmp_path: Path, platform: Any) -> None:
    (loaded,) = load_packages([job_folder(tmp_path, platform)]).values()
    assert loaded.files == tmp_path / "toy/files"
    assert (loaded.job.version, loaded.job.command, loaded.job.command_stop) == (
        "1.2",
        "/bin/toy -x",
        "/bin/toy stop",
    )
    given = loaded.job.to_dict()
    assert Job.from_dict(json.loads(json.dumps(given))).to_dict() == given


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job_folder(tmp_path / "checkout/src/jobs/core_jobs")
    assert list(load_packages([tmp_path])) == ["toy"]
    monkeypatch.chdir(tmp_path / "checkout/src/jobs/core_jobs/toy")
    assert list(load_packages([Path()])) == ["toy"]
    schemas = tmp_path / "schemas.json"
    schemas.write_text(
        json.dumps({"toy": {"version": "9", "arguments": {}}, "other": {"arguments": None}})
    )
    packages = load_packages([schemas, tmp_path])
    assert packages["toy"].job.version == "9" and packages["toy"].files is None
    assert len(load_packages([ROOT / "tests/data/job_schemas.json"])) == 73


ONE = {"name": "a", "type": "int", "count": 1, "flag": "-a"}


def takes(**arguments: object) -> dict[str, Any]:
    """The keys of a job with these arguments."""
    return {"arguments": arguments}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"general": None}, "general is missing"),
        ({"platform_configuration": "x"}, "platform_configuration should be a mapping"),
        ({"platform_configuration": []}, "platform_configuration should be a mapping"),
        ({"platform_configuration": {"command": ""}}, "platform_configuration.command is missing"),
        ({"arguments": [1]}, "arguments should be a mapping"),
        (takes(required={}, optional={"a": 1}), "arguments.optional should be a list"),
        (takes(required=[3]), "arguments.required.0 should be a mapping"),
        (takes(required=[{"type": "int"}]), "arguments.required.0.name is missing"),
        (
            takes(optional=[ONE, {**ONE, "type": "integer"}]),
            r"arguments.optional.1.type \(a\) should be",
        ),
        (
            takes(optional=[{**ONE, "count": "2-"}]),
            r"arguments.optional.0.count \(a\) should be like",
        ),
        (takes(optional=[{**ONE, "flag": None}]), r"arguments.optional.0.flag \(a\) is missing"),
        (takes(subcommand=[{"choices": []}]), "arguments.subcommand.0.group_name is missing"),
        (takes(subcommand=[{"group_name": "g"}]), "arguments.subcommand.0 should have choices"),
        (
            takes(subcommand=[{"group_name": "g", "choices": [{"name": "c", "required": [{}]}]}]),
            "arguments.subcommand.0.choices.0.required.0.name is missing",
        ),
    ],
)
def test_broken_packages(tmp_path: Path, keys: dict[str, Any], words: str) -> None:
    (loaded,) = load_packages([job_folder(tmp_path, **keys)]).values()
    with pytest.raises(InputError, match=f"the job toy is malformed: .*toy.yml: {words}"):
        loaded.job.arguments  # noqa: B018


def test_broken_files(tmp_path: Path) -> None:
    file = job_folder(tmp_path) / "files/toy.yml"
    for text, words in (("a: [", "line 1"), ("- 1", "the whole should be a mapping")):
        file.write_text(text)
        (fault,) = faults(load_packages([tmp_path]))
        assert words in fault
    (tmp_path / "jobs.json").write_text("[]")
    with pytest.raises(InputError, match="JSON object of jobs"):
        load_packages([tmp_path / "jobs.json"])
    with pytest.raises(InputError, match="no job in it"):
        load_packages([ROOT / "scenarios"])
    with pytest.raises(InputError, match="no job folder"):
        load_packages([tmp_path / "nothing"])


TREE = {
    "required": [{"name": "what", "type": "str", "count": "+"}],
    "optional": [
        {"name": "fast", "type": "None", "count": 0, "flag": "-f"},
        {"name": "pair", "type": "int", "count": 2, "flag": "--pair", "repeatable": True},
    ],
    "subcommand": [
        {
            "group_name": "mode",
            "choices": [
                {"name": "go", "required": [{"name": "to", "type": "ip", "count": 1}]},
                {
                    "name": "wait",
                    "subcommand": [
                        {"group_name": "how", "optional": True, "choices": [{"name": "long"}]}
                    ],
                },
            ],
        }
    ],
}


def test_command_line() -> None:
    job = Job("toy", "1", TREE)
    values = {
        "fast": [[True]],
        "go": {"to": [["10.0.0.1"]]},
        "pair": [[1, 2], [3, 4]],
        "what": [["a", "b"]],
    }
    assert argv(job.arguments, values) == [
        "a",
        "b",
        "--pair",
        "1",
        "2",
        "--pair",
        "3",
        "4",
        "-f",
        "go",
        "10.0.0.1",
    ]
    assert argv(job.arguments, {"what": [["x"]], "wait": {"long": {}}}) == ["x", "wait", "long"]
    assert {name: path for name, (path, _) in job.subcommands.items()} == {
        "go": ("go",),
        "wait": ("wait",),
        "long": ("wait", "long"),
    }


@pytest.mark.parametrize(
    ("count", "right", "wrong"),
    [("1", [1], [0, 2]), ("2-4", [2, 4], [1, 5]), ("+", [1, 9], [0]), ("*", [0, 9], [])],
)
def test_counts(count: str, right: list[int], wrong: list[int]) -> None:
    job = Job("j", "1", {"required": [{"name": "a", "type": "str", "count": count}]})
    takes = job.arguments.required[0].takes
    assert all(map(takes, right)) and not any(map(takes, wrong))


@given(
    st.text() | st.integers() | st.floats(),
    st.sampled_from(["int", "float", "str", "ip", "network", "ratio"]),
)
def test_converted_once_is_converted_for_good(value: Any, kind: str) -> None:
    try:
        once = convert(value, kind)
    except (WrongType, OverflowError):
        return
    assert repr(convert(once, kind)) == repr(once)


MALFORMED = {"general": "x"}


def test_a_malformed_job_that_is_not_used_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "VirtualEngine", Transfers().engine)
    (job_folder(tmp_path) / "files/toy.yml").write_text(
        "general:\n  description: Sends a file (e.g.: 3G)\n"
    )
    words = ["--jobs", str(tmp_path), "--dry-run", "--quiet"]
    assert main.main(["geo", "vpn=none", "cc=cubic", *words]) == 0
    said = capsys.readouterr().err
    assert (
        "openbach-run: warning: the job toy is malformed: " in said
        and "toy.yml: mapping values are not" in said
    )


@pytest.mark.parametrize("words", [(), ("--check",)])
def test_a_malformed_job_that_is_used_is_an_error_that_names_it(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    job_folder(tmp_path, **MALFORMED)
    start = {"id": 0, "start_job_instance": {"entity_name": "e", "toy": {}}}
    (tmp_path / "t.json").write_text(json.dumps({"name": "t", "openbach_functions": [start]}))
    assert main.main([str(tmp_path / "t.json"), "--jobs", str(tmp_path / "toy"), *words]) == 2
    assert "the job toy is malformed: " in capsys.readouterr().err


def test_one_malformed_job_of_a_file_with_many_is_one(tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_text(
        json.dumps({"toy": {"arguments": [1]}, "other": {"arguments": None}})
    )
    packages = load_packages([tmp_path / "jobs.json"])
    assert packages["other"].job.arguments.required == ()
    assert (
        list(well_formed(packages)) == ["other"]
        and "toy.arguments should be a mapping" in faults(packages)[0]
    )


def test_a_malformed_folder_that_is_not_used_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "vpn-configs/mine").mkdir(parents=True)
    (tmp_path / "vpn-configs/mine/vpn.json").write_text("{")
    assert "mycelium" in Catalog.beside_ours([tmp_path]).untested()
