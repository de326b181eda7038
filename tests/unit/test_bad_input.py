# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a user gives to the command: an exit code and a text for a person, never a traceback."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import re
import resource
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.fake_engine import Transfers
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from openbach_run.campaign import engines, request
from openbach_run.commands import main
from openbach_run.engine.virtual import descriptors
from openbach_run.errors import InputError, SetupError
from openbach_run.openbach.expand import expand
from openbach_run.openbach.job_folders import load_packages
from openbach_run.report.cells import read_campaigns
from openbach_run.topology.inventory import load_inventory

ROOT = Path(__file__).resolve().parents[2]
GEO = expand(ROOT / "scenarios/geo.yml")
TABLE = expand(ROOT / "scenarios/geo_loss_table.yml")
VALUES_OF_ONE: dict[str, Any] = {"vpn": ["none"], "cc": ["cubic"], "pep": ["none"]}
CAMPAIGN = {
    "seeds": 2,
    "scenarios": [
        {"scenario": "geo", "values": VALUES_OF_ONE},
        {"scenario": "web", "values": {"vpn": ["none"]}},
    ],
}
INVENTORY = yaml.safe_load((ROOT / "inventory.yml").read_text())

PACKAGES, THERE = load_packages([ROOT / "jobs"]), load_inventory(ROOT / "inventory.yml")

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        [
            *("$x", "$", "${", "$vpn", "1e999", "3", "[1]", "{}", "none", "a/b", "..", "\0", "10M"),
            *("-1", "\ud800"),
        ]
    )
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in entries:
        yield from places(inner, (*path, key))


@st.composite
def mutated(draw: st.DrawFn, whole: Any) -> Any:
    """With something else in one to three places."""
    found = copy.deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from([place for place in places(found) if place] or [("x",)]))
        inner = found
        for key in path:
            inner = inner[key]
        if draw(st.booleans()):
            inner[last] = draw(JSON)
        elif isinstance(inner, dict) and draw(st.booleans()):
            inner[draw(st.text(max_size=6))] = inner.pop(last)
        else:
            del inner[last]
        if not isinstance(found, dict) or not found:
            break
    return found


def ends(*words: str) -> tuple[int, str]:
    """Exit code and stderr of the command."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            return main.main(list(words)), said.getvalue()
        except SystemExit as error:  # argparse
            return int(str(error.code)), said.getvalue()


@contextlib.contextmanager
def fake() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patched:
        patched.setattr(engines, "VirtualEngine", Transfers().engine)
        # Read once: YAML takes most of the time.
        patched.setattr(request, "load_packages", lambda paths, catalog: PACKAGES)
        patched.setattr(engines, "load_inventory", lambda path: THERE)
        patched.chdir(directory)
        yield Path(directory)


MANY = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def nothing(file: Path, *more: str) -> None:
    code, said = ends(str(file), *more, "--dry-run", "--quiet")
    assert code in (0, 2), said
    assert code == 0 or "\nopenbach-run: " in f"\n{said}", said
    assert ends("--check", str(file))[0] in (0, 2)


@MANY
@given(mutated(GEO))
@example({"name": "t", "openbach_functions": []})
@example({**GEO, "x-sweep": {"values": {"vpn": [float("nan")]}}})
def test_scenarios(scenario: Any) -> None:
    with fake() as directory:
        (directory / "t.json").write_text(json.dumps(scenario))
        nothing(directory / "t.json", "size=20k")
        nothing(directory / "t.json")


@MANY
@given(mutated(TABLE))
@example(
    {
        "name": "t",
        "openbach_functions": [
            {"id": 0, "start_scenario_instance": {"scenario_name": "u", "arguments": "3"}}
        ],
    }
)
def test_scenarios_that_start_others(scenario: Any) -> None:
    with fake() as directory:
        (directory / "geo_loss.json").write_text((ROOT / "scenarios/geo_loss.json").read_text())
        (directory / "t.json").write_text(json.dumps(scenario))
        nothing(directory / "t.json")


@MANY
@given(mutated(CAMPAIGN))
@example({"scenarios": [{"scenario": "geo", "values": {"loss": [float("inf")]}}], "seeds": 10**400})
def test_campaigns(campaign: Any) -> None:
    with fake() as directory:
        (directory / "t.yml").write_text(
            yaml.safe_dump(campaign), encoding="utf-8", errors="replace"
        )
        nothing_of_a_campaign(directory / "t.yml")


def nothing_of_a_campaign(file: Path) -> None:
    code, said = ends(str(file), "--dry-run", "--quiet")
    assert code in (0, 2) and (code == 0 or said.startswith("openbach-run: ")), said


@MANY
@given(st.binary(max_size=60))
@example(b"scenarios: [" + b"[" * 5000)
@example(b"&a [*a]")
@example(b"scenarios: !!python/object:os.system x")
@example(b"seeds: 2026-02-31\nscenarios: [x]")
def test_files_of_anything(content: bytes) -> None:
    with fake() as directory:
        for name in ("t.yml", "t.json"):
            (directory / name).write_bytes(content)
            nothing_of_a_campaign(directory / name)


ARGUMENTS = st.sampled_from(
    ["vpn", "loss", "size", "rate", "cc", "cc_pep", "link_file", "series_s", "buffer_bdp", "x", ""]
)
VALUES = (
    st.text(max_size=8)
    | st.floats().map(str)
    | st.sampled_from(["$cc", "$", "none,none", "/", "\0", "1e308", ","])
)


@MANY
@given(ARGUMENTS, VALUES)
def test_settings(name: str, value: str) -> None:
    with fake():
        code, said = ends("geo", "--dry-run", "--quiet", "--", f"{name}={value}")
        assert code in (0, 2) and (code == 0 or said.startswith("openbach-run: ")), said


@MANY
@given(mutated(INVENTORY))
def test_inventories(inventory: Any) -> None:
    with tempfile.TemporaryDirectory() as directory, contextlib.suppress(InputError):
        (Path(directory) / "inventory.yml").write_text(
            yaml.safe_dump(inventory), encoding="utf-8", errors="replace"
        )
        load_inventory(Path(directory) / "inventory.yml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "all: {vars: {satvpn_networks: {2026-01-01: a}}}",
            "a mapping with names as keys is expected here, not {datetime.date",
        ),
        (
            "all: {vars: {satvpn_networks: {a: {mtu: {2026-01-01: 2}}}}}",
            "a whole number is expected here, not {datetime.date",
        ),
        (
            f"all: {{hosts: {{satvpn_pc: {{satvpn_role: {5000 * '1'}}}}}}}",
            "a whole number of more than 300 digits",
        ),
        (
            f"all: {{hosts: {{satvpn_pc: {{satvpn_role: 0x{5000 * '1'}}}}}}}",
            "a whole number of more than 300 digits",
        ),
    ],
)
def test_an_inventory_with_strange_keys_and_values_is_told(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "inventory.yml").write_text(text)
    with pytest.raises(InputError, match=re.escape(said)):
        load_inventory(tmp_path / "inventory.yml")


@pytest.mark.parametrize("host", ["!!set {a}", "{a: b}", "[pc]"])
def test_a_host_of_a_scenario_is_a_name(tmp_path: Path, host: str) -> None:
    """A set is no kind of value in any YAML (test_yaml_files.py)."""
    text = (
        f"functions: {{one: {{on: {host}, file_transfer: {{}}}}}}\nend: {{finished: one, stop:"
        " []}\n"
    )
    (tmp_path / "t.yml").write_text(text)
    with pytest.raises(InputError, match=r"t\.yml"):
        expand(tmp_path / "t.yml")


JOB = {"general": {"name": "j"}, "platform_configuration": {"command": "j"}, "arguments": {}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"required": [{"name": ["a"], "type": "str"}]},
            "required.0.name is ['a'], and should be a text",
        ),
        (
            {"required": [{"name": {"a": 1}, "type": "str"}]},
            "required.0.name is {'a': 1}, and should be a text",
        ),
        (
            {"required": [{"name": "a", "type": "str", "choices": 3}]},
            "required.0.choices (a) should be a list",
        ),
        (
            {"required": [{"name": "a", "type": "str", "count": 250 * "9"}]},
            "required.0.count (a) should be like 1, 2-4",
        ),
        (
            {"subcommand": [{"group_name": ["g"], "choices": [{"name": "c"}]}]},
            "subcommand.0.group_name is ['g']",
        ),
        (
            {"subcommand": [{"group_name": "g", "choices": [{"name": {"c": 1}}]}]},
            "choices.0.name is {'c': 1}",
        ),
        ({"required": [{"name": "a", "type": "str", "limits": {3: 4}}]}, "limits.3 is unknown"),
        (
            {"required": [{"name": "a", "type": "str", "limits": {"folder": ["x"]}}]},
            "limits.folder is ['x']",
        ),
    ],
)
def test_a_job_with_strange_arguments_is_told(tmp_path: Path, arguments: Any, said: str) -> None:
    (tmp_path / "j/files").mkdir(parents=True)
    (tmp_path / "j/files/j.yml").write_text(yaml.safe_dump({**JOB, "arguments": arguments}))
    (loaded,) = load_packages([tmp_path]).values()
    with pytest.raises(InputError, match=re.escape(said)):
        loaded.job.arguments  # noqa: B018


RUN = {"run_id": "0", "scenario": "geo", "arguments": {"vpn": "none"}, "seed": 1}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([], "[] is no JSON object"),
        ({"runs": []}, 'has no "command"'),
        (
            {"command": "", "runs": [{key: one for key, one in RUN.items() if key != "scenario"}]},
            'runs.0: has no "scenario"',
        ),
        ({"command": "", "runs": [RUN, {**RUN, "seed": None}]}, 'runs.1: "seed" is None'),
        (
            {"command": "", "runs": [{**RUN, "arguments": {"loss": 1}}]},
            'runs.0: "loss" is 1; a text was expected',
        ),
        (
            {"command": "", "runs": [], "plots": {"geo": {"x": "y"}}},
            "plots.geo: a measure and a figure were expected",
        ),
        (
            {"command": "", "runs": [], "titles": {"loss": {"x": "y"}}},
            "titles.loss: a title and a unit were expected",
        ),
        ({"command": "", "runs": [], "apart": [1]}, '"apart" is [1]'),
    ],
)
def test_a_campaign_that_is_none_is_told(tmp_path: Path, asked: Any, said: str) -> None:
    (tmp_path / "campaign.json").write_text(json.dumps(asked))
    with pytest.raises(InputError, match=re.escape(said)):
        read_campaigns([tmp_path])


def test_too_few_open_files_are_told_before_a_guest_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[tuple[int, int]] = []
    setrlimit: Callable[..., None] = lambda _, limits: raised.append(limits)  # noqa: E731
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    with pytest.raises(
        SetupError, match=r"needs 256 open files, the limit is 64: raise it with ulimit -n 256"
    ):
        descriptors.ensure_descriptors()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 1 << 20))
    descriptors.ensure_descriptors()
    assert raised == [(64, 64), (4096, 1 << 20)]


def test_names_that_are_no_utf_8_are_told() -> None:
    """A value of the command line, the name of a YAML file, and the text of a JSON file."""
    with fake() as directory:
        (directory / "caf\udce9.csv").write_text("time_s,rate_bps,delay_ms\n0,1000000,250\n")
        (directory / "g\udce9o.json").write_text(json.dumps({**GEO, "name": "geo"}))
        (directory / "name.json").write_text(json.dumps({**GEO, "name": "g\ud800o"}))
        for words in (("geo", "link_file=caf\udce9.csv"), ("name.json",)):
            code, said = ends(*words, "--dry-run", "--quiet")
            assert (code, said[:14]) == (2, "openbach-run: "), said
        assert ends("g\udce9o.json", "--dry-run", "--quiet")[0] == 0
