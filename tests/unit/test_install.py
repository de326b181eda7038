# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run package --install`: each step is looked at, done, and looked at again."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml
from helpers.fake_controller import Answer, FakeController, serving
from helpers.web import application, listening

from openbach_run.commands import main
from openbach_run.engine.platform import install, rest
from openbach_run.openbach.job_folders import load_packages
from openbach_run.topology.inventory import agent_addresses

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = load_packages([ROOT / "jobs"])
ADDRESSES = agent_addresses(ROOT / "inventory.yml")
RELEASE = {"2.7": "ansible_distribution_release", "2.6": "ansible_distribution_version"}


@dataclass
class EmptyPlatform(FakeController):
    """A controller with agents and a job of its own, that takes what an administrator sends."""

    form: str = "2.7"
    described: dict[str, dict[str, Any]] = field(default_factory=dict)
    on: dict[str, list[str]] = field(
        default_factory=lambda: {one: [] for one in ADDRESSES.values()}
    )
    states: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    """By job and agent: what is answered, the last one for ever."""
    failing: str = ""
    """A job whose playbook fails."""
    late: int = 0
    """How many looks at an agent do not show yet what was installed there last."""
    looks: dict[str, int] = field(default_factory=dict)
    projects: dict[str, dict[str, Any]] = field(default_factory=dict)
    orders: int = 0

    def __post_init__(self) -> None:
        platform = {RELEASE[self.form]: "noble"}
        self.described["fping"] = {
            "general": {"name": "fping", "job_version": "2.0"},
            "platform_configuration": [platform],
            "arguments": {},
        }

    def answer(self, method: str, path: str, body: Any) -> Answer | str | None:
        route, _, query = path.partition("?")
        address = parse_qs(query).get("address", [""])[0]
        match method, route.strip("/").split("/"):
            case "GET", ["job"] if address:
                if address not in self.on:
                    return 404, {"error": "The requested Agent is not in the database"}
                self.looks[address] = self.looks.get(address, 0) - 1
                listed = self.on[address][: -1 if self.looks[address] >= 0 else None]
                jobs = [{"name": name} for name in listed]
                return 200, {"agent": address, "installed_jobs": jobs}
            case "GET", ["job"]:
                return 200, [*self.described.values()]
            case "GET", ["job", name]:
                known = self.described.get(name)
                return (200, known) if known else (404, {"error": "not in the database"})
            case "GET", ["job", name, "state"]:
                left = self.states.get((name, address)) or [None]
                return 200, {"install": left.pop(0) if len(left) > 1 else left[0]}
            case "POST", ["job"] if "action" not in body:
                self.orders += 1
                self.described[body["name"]] = self.read(body["name"], body["file"])
                return 200, {}
            case "POST", ["job"]:
                self.orders += 1
                (at,) = body["addresses"]
                for name in body["names"]:
                    self.install(name, at)
                return 202, {}
            case "POST", ["project"]:
                self.orders += 1
                assert body["scenario"] == [], "a whole project takes a small controller minutes"
                self.projects[body["name"]] = body
                return 200, body
            case _, ["project", name, *_] if name not in self.projects:
                return 404, {"error": "The requested Project is not in the database"}
            case "GET", ["project", name, "entity"]:
                return 200, self.projects[name]["entity"]
            case "GET", ["project", name, "entity", entity]:
                (known,) = [one for one in self.projects[name]["entity"] if one["name"] == entity]
                return 200, known
            case "PUT", ["project", name, "entity", entity]:
                self.orders += 1
                entities = self.projects[name]["entity"]
                entities[:] = [body if one["name"] == entity else one for one in entities]
                return 200, self.projects[name]
        if method in ("POST", "PUT") and "scenario" in path:
            self.orders += 1
        return super().answer(method, path, body)

    def read(self, name: str, content: bytes) -> dict[str, Any]:
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            file = tar.extractfile(f"files/{name}.yml")
            assert file is not None
            told = yaml.safe_load(file.read())
        block = told["platform_configuration"]
        assert isinstance(block, dict) == (self.form == "2.7"), "HTTP 500 on a real one"
        return {
            "general": told["general"],
            "platform_configuration": [{RELEASE[self.form]: "noble"}],
            "arguments": told.get("arguments", {}),
        }

    def install(self, name: str, address: str) -> None:
        """The state stays that of an earlier playbook until the new one begins."""
        before = self.states.get((name, address), [None])[-1]
        begun = {"last_operation_date": str(self.orders)}
        running = {"response": {"state": "Running"}, "returncode": 202, **begun}
        ended: dict[str, Any] = {"response": None, "returncode": 204, **begun}
        if name == self.failing:
            ended |= {
                "response": {"error": "Ansible failed", "10.0.0.1": ["apt: no package"]},
                "returncode": 500,
            }
        else:
            self.on[address].append(name)
            self.looks[address] = self.late
        first = [before] if before else []
        self.states[name, address] = [*first, *first, running, ended]


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rest, "RETRY_S", 0.01)
    monkeypatch.setattr(install, "POLL_S", 0.0)


@pytest.fixture(params=["2.7", "2.6"])
def platform(request: pytest.FixtureRequest) -> Iterator[EmptyPlatform]:
    with serving(EmptyPlatform(form=request.param)) as started:
        assert isinstance(started, EmptyPlatform)
        access = {"controller": started.url, "login": "admin", "password": "secret"}
        Path("controller").write_text(json.dumps(access))
        yield started


def installed(platform: EmptyPlatform, *more: str) -> int:
    return main.main(["package", "--install", platform.url, *more])


def test_an_empty_platform_gets_everything_once(
    platform: EmptyPlatform, capsys: pytest.CaptureFixture[str]
) -> None:
    assert installed(platform, "--check") == 1
    told = capsys.readouterr()
    assert "missing: job vpn: the controller has none" in told.err
    assert "missing: project satvpn: there is none" in told.err
    assert platform.orders == 0, "--check only looks"
    assert installed(platform) == 0
    assert "missing" not in capsys.readouterr().err
    assert "vpn" in platform.on[ADDRESSES["satvpn_box"]]
    (project,) = platform.projects.values()
    assert project["owners"] == ["admin"]
    agents = {one["name"]: one["agent"]["address"] for one in project["entity"]}
    assert agents == ADDRESSES
    assert {"geo", "geo_loss", "geo_loss_table"} <= platform.scenarios.keys()
    assert not Path("openbach-package").exists()
    platform.scenarios["geo"]["openbach_functions"].reverse()
    before = platform.orders
    for more in ((), ("--check",)):
        assert installed(platform, *more) == 0
        assert re.fullmatch(r"(\d+) of \1 steps are done\n", capsys.readouterr().out)
    assert platform.orders == before, "a second one does nothing"


@pytest.mark.parametrize("platform", ["2.7"], indirect=True)
def test_what_was_interrupted_goes_on(
    platform: EmptyPlatform, capsys: pytest.CaptureFixture[str]
) -> None:
    platform.failing = "satpep"
    assert installed(platform) == 1
    told = capsys.readouterr().err
    assert '(satpep: {"error": "Ansible failed", "10.0.0.1": ["apt: no package"]})' in told
    platform.failing = ""
    project = platform.projects["satvpn"]
    project["entity"][0]["agent"] = {"address": "10.9.9.9"}
    platform.scenarios["geo"] = {"name": "geo", "description": "an old one"}
    platform.described["voip"]["general"]["job_version"] = "0.1"
    assert installed(platform) == 0
    told = capsys.readouterr().out
    name = project["entity"][0]["name"]
    assert f"entity {name}: its agent is 10.9.9.9, not {ADDRESSES[name]}" in told
    assert "scenario geo: the controller's is another version" in told
    assert (
        f"job voip: the controller has version 0.1, this checkout {PACKAGES['voip'].job.version}"
        in told
    )
    assert platform.on[ADDRESSES["satvpn_pc"]].count("voip") == 2, "its files are new, too"
    assert platform.on[ADDRESSES["satvpn_pc"]].count("file_transfer") == 1
    assert installed(platform, "--again") == 0
    assert platform.on[ADDRESSES["satvpn_pc"]].count("file_transfer") == 2


@pytest.mark.parametrize("platform", ["2.7"], indirect=True)
def test_a_job_that_its_agent_knows_later(platform: EmptyPlatform) -> None:
    """OpenBACH 2.7.0 says of a playbook that it has ended before the agent lists its job."""
    platform.late = 2
    assert installed(platform) == 0
    assert all(len(jobs) == len({*jobs}) for jobs in platform.on.values())


@pytest.mark.parametrize("platform", ["2.7"], indirect=True)
def test_an_agent_that_there_is_not_is_named(
    platform: EmptyPlatform, capsys: pytest.CaptureFixture[str]
) -> None:
    address = ADDRESSES["satvpn_sat"]
    del platform.on[address]
    assert installed(platform) == 1
    told = capsys.readouterr().err
    assert f"missing: jobs of satvpn_sat ({address}): " in told
    assert "The requested Agent is not in the database" in told
    assert platform.on[ADDRESSES["satvpn_pc"]], "the others are done"


def test_the_local_controller_has_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with listening(application(tmp_path / "served", password="a password")) as url:
        access = {"controller": url, "login": "openbach", "password": "a password"}
        Path("controller").write_text(json.dumps(access))
        assert main.main(["package", "--install", url, "--check"]) == 0
    assert re.fullmatch(r"(\d+) of \1 steps are done\n", capsys.readouterr().out)


def test_check_needs_a_platform(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["package", "--check"]) == 2
    assert "--install HOST names it" in capsys.readouterr().err
