#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fuzz: mutations of the checkout's own files, for every parser of what others write.

`make fuzz SECONDS=3600`.

Half of the inputs have other bytes; of files in JSON or YAML the others say something else
(fuzz_trees.py). Each parser answers with what it read or an error for a person. Anything else is a
find: another exception, more than LIMIT_S of CPU time for one input, more than MEMORY_BYTES beyond
what the script has at its start. Inputs follow from the seed, the parser and a number, so `--only
NAME --first N --inputs 1` repeats one. The exit code is 1 if there was a find.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib
import io
import json
import math
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any
from urllib.parse import quote

from fuzz_trees import JSON, LINES, YAML, Tree, trees

from openbach_jobs import link_file
from openbach_run import yaml_files
from openbach_run.bundle.artifact_files import wrong_files
from openbach_run.campaign.file import plan_file
from openbach_run.campaign.reading import parse_settings, plan
from openbach_run.campaign.vpn_config import read_config
from openbach_run.catalog import Catalog, description, packages_of, wanted_by
from openbach_run.commands import capture
from openbach_run.engine.platform.answers import as_collected
from openbach_run.engine.platform.rest import read_access
from openbach_run.engine.virtual import series
from openbach_run.engine.virtual.lock import read_lock
from openbach_run.engine.virtual.outcome import outcome_of
from openbach_run.errors import InputError, SetupError
from openbach_run.link_checks import read_link_file, read_presets
from openbach_run.openbach.job_folders import Package, load_packages
from openbach_run.openbach.lint import lint
from openbach_run.openbach.project import for_2_6
from openbach_run.openbach.reading import read_scenario
from openbach_run.paths import DEBIAN_LOCK, LIBRARY, REPOSITORY
from openbach_run.playbook import installation_of
from openbach_run.report import hosts, published
from openbach_run.report.cells import Campaigns, Cell, Run, read_campaigns
from openbach_run.report.claims import judge, read_claims
from openbach_run.results import campaign_file as asked_files
from openbach_run.results import run_files, run_json
from openbach_run.results.captures import digests_at, packets
from openbach_run.results.files import as_csv
from openbach_run.results.line_protocol import line_protocol
from openbach_run.results.measures import measures
from openbach_run.results.record import Record, checked_statistics, events, not_locked
from openbach_run.results.seeds import parse_seeds
from openbach_run.results.store import Store
from openbach_run.topology.inventory import agent_addresses, load_inventory
from openbach_run.web.index import Index
from openbach_run.web.serve import read_password
from openbach_run.web.store import Database
from satlink import command as link
from satlink import mahimahi, opensand
from satlink.formats.table import read as measured_in
from satlink.measured import Options

LIMIT_S = 20.0
MEMORY_BYTES = 1 << 30
EXPECTED = (InputError, SetupError, link_file.LinkFileError)
CLEAN_EVERY = 5000
"""Inputs after which the cache of YAML is emptied: it would have each one that is read."""
LONGEST = 1 << 16
TOKENS = (
    *(
        b"1e999",
        b"-1",
        b"0",
        b"NaN",
        b"null",
        b"true",
        b"{}",
        b"[]",
        b'""',
        b"\0",
        b"\xff",
        b"\n",
        b"$x",
        b"${",
        b"$$",
    ),
    *(
        400 * b"9",
        5000 * b"7",
        b"0x" + 5000 * b"f",
        3000 * b"[",
        3000 * b'{"a":',
        b"\xe2\x80\xae",
        b'"\\ud800"',
        b"\x1b[2J",
    ),
    *(
        b"!!set {a}",
        b"&a [*a]",
        b"*a",
        b"2026-02-31",
        b"2026-01-01: x",
        b"? [a]",
        b"<<: *a",
        b"1:2:3",
        b".inf",
        b"10M",
    ),
)


class Hang(BaseException):
    """An input took too long."""


@dataclass
class Parser:
    """`read` reads the file of an input; `seeds` are contents that it takes."""

    name: str
    seeds: list[bytes]
    read: Callable[[Path], object]
    file: str
    form: str = ""
    """JSON, YAML or LINES: what the seeds say is changed, too."""
    refusals: tuple[type[Exception], ...] = EXPECTED
    tried: int = 0
    refused: int = 0
    finds: dict[str, int] = field(default_factory=dict)
    """By the place of the fault, the first input."""

    def input(self, chance: random.Random) -> bytes:
        if self.form and chance.randrange(2):
            known = self._trees()
            return chance.choice(known).mutated(chance, known)
        return mutated(chance, self.seeds)

    def _trees(self) -> list[Tree]:
        if not self._kept:
            self._kept += trees(self.seeds, self.form)
        return self._kept

    _kept: list[Tree] = field(default_factory=list)


def mutated(chance: random.Random, seeds: list[bytes]) -> bytes:
    """Return one of the contents with up to six places changed.

    Lines are left out, doubled or exchanged, or come from another content.
    """
    content = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        at = chance.randrange(len(content) + 1)
        end = min(len(content), at + chance.choice((0, 1, 2, 8, 64)))
        match chance.randrange(6):
            case 0:
                content[at:end] = chance.choice(TOKENS)
            case 1:
                content[at:end] = chance.randbytes(chance.randint(0, 4))
            case 2:
                del content[at:end]
            case 3:
                other = chance.choice(seeds)
                begin = chance.randrange(len(other) + 1)
                content[at:end] = other[begin : begin + chance.choice((4, 40, 400))]
            case 4:
                words = bytes(content).split(b" ")
                words[chance.randrange(len(words))] = chance.choice(TOKENS)
                content = bytearray(b" ".join(words))
            case _:
                lines = content.split(b"\n")
                one, other_line = chance.randrange(len(lines)), chance.randrange(len(lines))
                lines[one], lines[other_line] = lines[other_line], lines[one]
                content = bytearray(b"\n".join(lines))
    return bytes(content[:LONGEST])


@cache
def jobs() -> dict[str, Package]:
    return load_packages([REPOSITORY / "jobs"])


def all_of(*patterns: str) -> list[bytes]:
    return [
        file.read_bytes()[:LONGEST]
        for pattern in patterns
        for file in sorted([*REPOSITORY.glob(pattern), *LIBRARY.glob(pattern)])
    ]


def scenario(file: Path) -> None:
    read = read_scenario(file, {name: one.job for name, one in jobs().items()})
    lint(read, {name: one.job for name, one in jobs().items()})
    plan(file, [], (1,), jobs())


def run_directory(file: Path, name: str) -> Path:
    """With the input under the name that a run has for it."""
    (file.parent / "console.log").touch()
    file.rename(file.parent / name)
    return file.parent


def statistics(file: Path) -> None:
    place = run_directory(file, "statistics.jsonl")
    measures(place, checked_statistics(place), {name: one.measures for name, one in jobs().items()})
    list(line_protocol([place]))


def told_events(file: Path) -> None:
    place = run_directory(file, "events.jsonl")
    checked_statistics(place)
    events(place)


def campaign(file: Path) -> None:
    plan_file(file, [], None, jobs(), Catalog())


def satellite(file: Path) -> None:
    read_presets(["x"], {"x": file})


def packets_of(file: Path) -> None:
    list(packets(file))
    with contextlib.suppress(ValueError, struct.error):
        digests_at(file.read_bytes())


def outcome(file: Path) -> None:
    outcome_of(run_directory(file, "result.json"), 1.0, "ab", None, 0)


def console(file: Path) -> None:
    place = run_directory(file, "console.log")
    (place / "result.json").write_text('{"status": "Finished Ok", "virtual_s": 1, "failed": []}')
    outcome_of(place, 1.0, "ab", None, 0)


def record(file: Path) -> None:
    store = Store(file.parent)
    (store.runs / "0").mkdir(parents=True)
    file.rename(store.runs / "0/record.json")
    shown(store.all())


def asked_for(file: Path) -> None:
    read_campaigns([run_directory(file, "campaign.json")])


def job(file: Path) -> None:
    (file.parent / "j/files").mkdir(parents=True)
    file.rename(file.parent / "j/files/j.yml")
    load_packages([file.parent / "j"])


def playbook(file: Path) -> None:
    job = file.parent / "mine"
    (job / "files").mkdir(parents=True)
    (job / "files/mine.py").write_text("import yaml\n")
    (job / "install_mine.yml").write_bytes(file.read_bytes())
    installation_of(job / "files")
    wanted_by(job / "files")


def settings(file: Path) -> None:
    text = file.read_bytes().decode(errors="surrogateescape")
    parse_settings(text.split("\n"))


def seeds(file: Path) -> None:
    parse_seeds(file.read_bytes().decode(errors="surrogateescape"))


def addition(file: Path, place: str, scenario: str, *settings: str) -> None:
    """Plan a run of the scenario that uses the input.

    The input is at that place in a directory that is given by --with.
    """
    root = file.parent / "with"
    (root / place).parent.mkdir(parents=True)
    for script in ("keygen", "up", "down"):
        (root / place).with_name(script).touch(0o755)
    (root / place).write_bytes(file.read_bytes())
    catalog = Catalog.beside_ours([root])
    packages = load_packages([REPOSITORY / "jobs"], catalog)
    planned = plan(REPOSITORY / f"scenarios/{scenario}.yml", list(settings), (1,), packages)
    for uses in planned.uses:
        for kind, names in uses.items():
            for name in names if kind in ("vpn-configs", "congestion-controls") else ():
                packages_of(catalog.all(kind)[name])


def vpn(file: Path) -> None:
    description(run_directory(file, "vpn.json"))
    packages_of(file.parent)
    addition(file.parent / "vpn.json", "vpn-configs/mine/vpn.json", "geo", "vpn=mine")


def vpn_file(kind: str) -> Callable[[Path], object]:
    vpns = Catalog().all("vpn-configs")
    return lambda file: read_config(str(file), kind, {}, vpns).in_words()


def profile(file: Path) -> None:
    description(run_directory(file, "profile.json"))
    addition(
        file.parent / "profile.json",
        "congestion-controls/mine/profile.json",
        "geo",
        "vpn=none",
        "cc=mine",
    )


def impairment(file: Path) -> None:
    job_module("lan_link", "impairment").find(file.stem, file.parent)
    addition(file, "impairments/mine.json", "lan_ping", "vpn=none", "impairment=mine")


def cpu(file: Path) -> None:
    job_module("vpn", "cpu_model").find(file.stem, "wireguard_go", 2.0, file.parent)
    addition(file, "cpus/mine.json", "lan_ping", "vpn=wireguard_go", "cpu=mine")


@cache
def job_module(job: str, module: str) -> ModuleType:
    """Of a job's own code, as a guest has it."""
    return importlib.import_module(module)


def call_log(file: Path) -> None:
    stream = job_module("voip", "stream")
    stream.measured(stream.read_log(file.read_bytes().decode(errors="replace")), 3, 20.0)


def job_lists(file: Path) -> None:
    """A job's measures.yml or packages.txt, and argument trees for --jobs FILE."""
    place = file.parent / "jobs/ping_series"
    shutil.copytree(REPOSITORY / "jobs/ping_series", place, symlinks=True)
    (place / "measures.yml").unlink()
    file.rename(place / file.name)
    load_packages([place])


def argument_trees(file: Path) -> None:
    load_packages([file])


def for_older_platforms(file: Path) -> None:
    for_2_6(file)


@cache
def campaigns() -> Campaigns:
    """Some cells with figures."""
    cells = []
    for vpn_name in ("none", "wireguard", "openvpn_udp"):
        values = {
            "scenario": "geo",
            "orbit": "geo",
            "vpn": vpn_name,
            "pep": "none",
            "cc": "cubic",
            "loss": "0",
        }
        runs = [Run(seed, Path("/"), example_record(seed, values)) for seed in range(1, 6)]
        cells.append(Cell(values, runs))
    return Campaigns(["x"], cells)


def example_record(seed: int, values: dict[str, str]) -> Record:
    fields = {
        **json.loads(RECORD),
        "seed": seed,
        "arguments": values,
        "measures": {"transfer_time_s": 3.0 + seed},
    }
    return Record(**fields)


def claims(file: Path) -> None:
    for name, described in read_claims(file).items():
        judge(name, described, campaigns())


def published_figures(file: Path) -> None:
    published.titles(file)
    published.tables(campaigns(), file)


def archive_sums(file: Path) -> None:
    list(wrong_files(run_directory(file, "SHA256SUMS")))


def kernel_series(file: Path) -> None:
    series.names(run_directory(file, "series"))


def link_options(file: Path) -> None:
    """Numbers for the models of constellations and of rain, a line each."""
    lines = file.read_bytes().decode(errors="replace").replace("\0", "").split("\n")
    output = ["-o", str(file.parent / "x.csv"), "--quiet"]
    with contextlib.suppress(SystemExit):  # argparse has said what is wrong
        link.main([*lines, "--duration-s", "60", *output])


def controller_file(file: Path) -> None:
    read_access(None, file)


def collected(file: Path) -> None:
    list(as_collected(file.read_bytes().decode(errors="replace")))


def read_run_json(file: Path) -> None:
    place = run_directory(file, "run.json")
    content = run_json.read(place)
    hosts.hosts({"x": content})
    found = run_json.inventory(place)
    capture.names(found)
    capture.far_ends(found)


def packed(file: Path) -> None:
    """The packed files of a run that has finished.

    What is changed in a compressed one is nearly always its sum only.
    """
    place = run_directory(file, run_files.PACKED)
    compressed(place / run_files.PACKED)
    for name in ("run.json", "result.json", "jobs/1/stdout"):
        with contextlib.suppress(FileNotFoundError):
            run_files.content(place, name)


def packed_statistics(file: Path) -> None:
    place = run_directory(file, "statistics.jsonl.gz")
    compressed(place / "statistics.jsonl.gz")
    checked_statistics(place)


def compressed(file: Path) -> None:
    if not (content := file.read_bytes()).startswith(b"\x1f\x8b"):
        file.write_bytes(gzip.compress(content, mtime=0))


def shared_fields(file: Path) -> None:
    store = Store(file.parent)
    (store.runs / "0").mkdir(parents=True)
    store.shared.mkdir()
    file.rename(store.shared / "ab.json")
    own = {
        name: value
        for name, value in json.loads(RECORD).items()
        if name not in ("identity", "packages", "declared")
    }
    (store.runs / "0/record.json").write_text(json.dumps({**own, "shared": "ab"}))
    shown(store.all())


def shown(records: list[Record]) -> None:
    """What commands make of records."""
    as_csv(records)
    not_locked(records)
    for one in records:
        _ = one.clock, one.finished
        with contextlib.suppress(InputError):
            _ = one.repetition, one.options


def asked_parts(file: Path) -> None:
    """As the page reads it, which makes its results known."""
    results = file.parent / "results"
    (results / "x/runs").mkdir(parents=True)
    file.rename(results / "x" / asked_files.FILE)
    database = Database(results / "serve.sqlite")
    try:
        Index(database, results).look()
    finally:
        database.close()


ROUTES = (
    ("POST", "/project/satvpn/scenario/"), ("PUT", "/project/satvpn/scenario/geo_loss/"),
    ("POST", "/project/"), ("POST", "/project/satvpn/scenario/geo/scenario_instance/"),
    ("POST", "/login/"), ("POST", "/job_instance/"), ("PUT", "/project/satvpn/"),
    ("POST", "/page/import"), ("POST", "/page/link/satvpn/geo"),
)  # fmt: skip
"""Where requests have bodies. The last two are forms of the page."""


class Server:
    """The local controller with an engine that is made up."""

    def __init__(self) -> None:
        web: Any = importlib.import_module("helpers.web")
        self._place = tempfile.TemporaryDirectory(prefix="fuzz-")
        self._visit = web.visiting(web.application(Path(self._place.name), workers=1))
        self._client: Any = self._visit.__enter__()

    def close(self) -> None:
        self._visit.__exit__(None, None, None)
        self._place.cleanup()

    def ask(self, method: str, path: str, body: bytes) -> None:
        if path.startswith("/page/"):
            token = (
                self._client.get("/").text.partition('name="token" value="')[2].partition('"')[0]
            )
            files = {
                "file": (
                    "mine.csv" if "link" in path else "mine.json",
                    body,
                    "application/octet-stream",
                )
            }
            answer = self._client.post(
                path, data={"token": token}, files=files, follow_redirects=False
            )
        else:
            answer = self._client.request(
                method, path, content=body, headers={"Content-Type": "application/json"}
            )
        if answer.status_code >= 500:
            raise RuntimeError(f"{method} {path}: HTTP {answer.status_code}: {answer.text[:300]}")
        if answer.status_code >= 400:
            raise InputError(answer.text[:80])
        if method == "POST" and "name" in (made := _json_object(answer.text)) and path != "/login/":
            self._client.delete(f"{path}{quote(str(made['name']), safe='')}/")


def _json_object(text: str) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        if isinstance(found := json.loads(text), dict):
            return found
    return {}


server = cache(Server)


def request(file: Path) -> None:
    content = file.read_bytes()
    server().ask(*ROUTES[zlib.crc32(content) % len(ROUTES)], content)


def inventory(file: Path) -> None:
    load_inventory(file)
    agent_addresses(file)


METADATA = {
    "job_name": "file_transfer",
    "agent_name": "pc",
    "time": 5,
    "job_instance_id": 1,
    "scenario_instance_id": 1,
}
RUN = {"run_id": "0", "scenario": "geo", "arguments": {"vpn": "none"}, "seed": 1}
FAILED_JOB = {"job": "a", "entity": "b", "status": "Error", "exit_code": 1, "last_lines": ["x"]}


def line(**content: object) -> bytes:
    return json.dumps(content).encode() + b"\n"


STATISTIC = line(transfer_time_s=3.5, bytes=300, _metadata=METADATA)
EVENT = line(
    t_s=1,
    event="scenario_started",
    scenario_instance_id=1,
    scenario="geo",
    arguments={"vpn": "none"},
)
RECORD = line(
    **RUN,
    status="Finished Ok",
    error=None,
    virtual_s=3.0,
    wall_s=1.0,
    capture_hash="ab",
    measures={"transfer_time_s": 3},
    command="x",
    identity={"engine": "virtual"},
    packages=[],
    declared={},
    parts=[],
)
RESULT = line(status="Finished Ko", virtual_s=1, failed=[{"function": 1, "error": "x"}, FAILED_JOB])
ASKED = line(
    command="x", plots={"geo": {"measure": "mos", "figure": "measures"}}, commit=None, runs=[RUN]
)
LINK = (
    b"# repeat_s:"
    b" 60\ntime_s,direction,rate_bps,delay_ms,loss_pct\n0,both,10000000,250,0\n12.5,forward,4000000,,\n"
)
PING = (
    b"[1.5] 64 bytes: icmp_seq=1 ttl=5 time=20.1 ms\n[2.5] 64 bytes: icmp_seq=2 ttl=5 time=21 ms\n3"
    b" packets transmitted\n"
)
SENT = {
    "timestamps": {"client": {"send": {"wall": 1, "monotonic": 1}}},
    "delay": {"rtt": 5000},
    "lost": "false",
}
IRTT = line(round_trips=[SENT])
CAPTURE = bytes.fromhex("0a0d0d0a1c0000004d3c2b1a01000000ffffffffffffffff1c000000") + bytes(64)
KERNEL = (
    b"[    0.100000] WARNING: CPU: 0 PID: 1 at x\n[    1.000000] Out of memory: Killed process 5\n"
)


RUN_JSON = line(
    scenario={
        "name": "geo",
        "openbach_functions": [
            {"start_job_instance": {"entity_name": "a", "vpn": {"kind": [["x"]]}}}
        ],
    },
    arguments={},
    inventory=load_inventory(REPOSITORY / "inventory.yml").to_dict(),
)
PROJECT = line(
    name="p",
    description="",
    owners=[],
    entity=[{"name": "e", "networks": []}],
    network=[],
    scenario=[],
)
AS_WRITTEN = list(
    asked_files.text(
        "x", [asked_files.AskedRun("0", "geo", {"vpn": "none"}, 1)], commit=None, apart={}
    )
)
SUMS = b"0" * 64 + b"  README.md\n" + b"1" * 64 + b"  results/geo/results.csv\n"
LOCK = b"".join(DEBIAN_LOCK.read_bytes().splitlines(keepends=True)[:20])
TREES = line(
    mine={
        "version": "1",
        "arguments": {
            "required": [{"name": "a", "type": "str", "count": "1"}],
            "optional": [
                {
                    "name": "b",
                    "flag": "-b",
                    "type": "int",
                    "count": "0-1",
                    "choices": [1, 2],
                    "limits": {"minimum": 1},
                }
            ],
        },
    }
)
CALL = b"Flow>1 Seq> 1 Src> 10.0.0.1/5 txTime>1:2:3.5 rxTime>1:2:3.75 Size>  172\n" * 4
PLAYBOOK = b"""- name: Packages
  apt: {name: "{{ item }}", state: present, update_cache: yes}
  with_items: [tcpdump, "{{ 'a' if ansible_distribution_version == '13' else 'b' }}"]
  when: ansible_distribution_release in ['trixie', 'noble']
- apt: name=fping state=present
- pip: {name: [psutil, "yaml==5.1"], virtualenv: /opt/openbach/virtualenv}
- copy: {src: files/, dest: /opt/openbach/agent/jobs/mine/, mode: "0755"}
- template: {src: files/x.j2, dest: /etc/x}
- shell: echo {{ job_name | default('x') }} > /tmp/x
  args: {chdir: /tmp, creates: /tmp/x}
- block:
    - lineinfile: {path: /etc/hosts, regexp: ^x, line: x}
    - service: {name: apache2, state: restarted}
"""
CONTROLLER = line(controller="192.0.2.1", login="a", password="b", vault_password="c")
COLLECTED = b"""time,@job_name,@agent_name,@suffix,@job_instance_id,rate
2026-01-01T00:00:01.5Z,vpn,pc,,5,1e6
,vpn,pc,x,5,3
"""
SHARED = line(
    identity={"engine": "virtual"},
    packages=["a_1"],
    declared={"vpn": [{"column": "a_s", "factor": 1.0}]},
)
PACKED = run_files._tar({"run.json": b"{}", "jobs/1/stdout": b"x\n"})
OPTIONS = b"acm\n--rate-bps\n1e7\n--margin-db\n0.5\n--seed\n3"


def parsers() -> list[Parser]:
    """All of them."""
    in_job = (*EXPECTED, ValueError)  # whose text is for a person
    return [
        Parser("scenario (JSON)", all_of("scenarios/*.json"), scenario, "t.json", JSON),
        Parser("scenario (YAML)", all_of("scenarios/*.yml"), scenario, "t.yml", YAML),
        Parser("campaign", all_of("campaigns/*.yml"), campaign, "t.yml", YAML),
        Parser(
            "inventory",
            all_of("inventory.yml", "topologies/*.yml"),
            inventory,
            "inventory.yml",
            YAML,
        ),
        Parser("satellite", all_of("satellites/*.yml"), satellite, "x.yml", YAML),
        Parser("job", all_of("jobs/*/files/*.yml"), job, "j.yml", YAML),
        Parser("job for 2.6", all_of("jobs/*/files/*.yml"), for_older_platforms, "j.yml", YAML),
        Parser(
            "measures.yml", all_of("jobs/ping_series/measures.yml"), job_lists, "measures.yml", YAML
        ),
        Parser("packages.txt", all_of("jobs/*/packages.txt"), job_lists, "packages.txt"),
        Parser("playbook", [PLAYBOOK, *all_of("jobs/*/install_*.yml")], playbook, "p.yml", YAML),
        Parser("argument trees", [TREES], argument_trees, "trees.json", JSON),
        Parser("vpn.json", all_of("vpn-configs/*/vpn.json"), vpn, "in", JSON),
        Parser("profile.json", all_of("congestion-controls/*/profile.json"), profile, "in", JSON),
        Parser("impairment", all_of("impairments/*.json"), impairment, "mine.json", JSON, in_job),
        Parser("cpu", all_of("cpus/*.json"), cpu, "mine.json", JSON, in_job),
        Parser("link file", [LINK], read_link_file, "x.csv"),
        Parser("wg-quick", all_of("tests/data/vpn_files/*.conf"), vpn_file("wireguard"), "w.conf"),
        Parser("ovpn", all_of("tests/data/vpn_files/*.ovpn"), vpn_file("openvpn_udp"), "o.ovpn"),
        Parser("link options", [OPTIONS, OPTIONS.replace(b"acm", b"leo")], link_options, "in"),
        Parser("mahimahi", [b"1\n2\n2\n9\n"], mahimahi.read_trace, "trace"),
        Parser("opensand", [b"# x\n0 5\n10 20\n"], opensand.read_delays, "delays"),
        Parser(
            "ping, irtt, CSV",
            [PING, IRTT, b"time_s,rtt_ms\n0,5\n1,\n"],
            lambda file: measured_in(file, Options(1.0)),
            "rtt",
        ),
        Parser("irtt", [IRTT], lambda file: measured_in(file, Options(1.0)), "rtt", JSON),
        Parser("D-ITG", [CALL], call_log, "log"),
        Parser("claims", all_of("reports/claims.yml"), claims, "claims.yml", YAML),
        Parser(
            "published", all_of("reports/published.yml"), published_figures, "published.yml", YAML
        ),
        Parser("SHA256SUMS", [SUMS], archive_sums, "in"),
        Parser("debian.lock", [LOCK], read_lock, "debian.lock"),
        Parser("kernel/series", all_of("kernel/series"), kernel_series, "in"),
        Parser("NAME=VALUE", [b"vpn=none,wireguard\nloss=0,1\nrate=10M"], settings, "in"),
        Parser("seeds", [b"5", b"3,7", b"7,"], seeds, "in"),
        Parser(
            "controller", [CONTROLLER, b"192.0.2.1", b'"192.0.2.1"'], controller_file, "controller"
        ),
        Parser("password", [b"correct horse battery\n"], read_password, "password"),
        Parser("collected CSV", [COLLECTED], collected, "in"),
        Parser("statistics", [STATISTIC, 3 * STATISTIC], statistics, "in", LINES),
        Parser("events", [EVENT, 2 * EVENT], told_events, "in", LINES),
        Parser("result.json", [RESULT], outcome, "in", JSON),
        Parser("run.json", [RUN_JSON], read_run_json, "in", JSON),
        Parser("console.log", [KERNEL], console, "in"),
        Parser("files.tar.gz", [PACKED, gzip.compress(PACKED, mtime=0)], packed, "in"),
        Parser(
            "statistics.jsonl.gz",
            [STATISTIC, gzip.compress(STATISTIC, mtime=0)],
            packed_statistics,
            "in",
        ),
        Parser("record.json", [RECORD], record, "in", JSON),
        Parser("shared/….json", [SHARED], shared_fields, "in", JSON),
        Parser("campaign.json", [ASKED], asked_for, "in", JSON),
        Parser(
            "campaign.json, page",
            [ASKED, b"".join(map(str.encode, AS_WRITTEN))],
            asked_parts,
            "in",
            JSON,
        ),
        Parser("capture", [CAPTURE], packets_of, "capture.pcapng"),
        Parser(
            "serve",
            [*all_of("scenarios/*.json"), line(arguments={"vpn": "none"}), PROJECT, LINK],
            request,
            "in",
            "",
        ),
        Parser(
            "serve (JSON)",
            [*all_of("scenarios/*.json"), line(arguments={"vpn": "none"}), PROJECT],
            request,
            "in",
            JSON,
        ),
    ]


def attempt(parser: Parser, seed: int, number: int) -> str | None:
    """Tries one input. The traceback of a find, or None."""
    content = parser.input(random.Random(f"{seed} {parser.name} {number}"))
    parser.tried += 1
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        file = Path(directory) / parser.file
        file.write_bytes(content)
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
        try:
            with (
                contextlib.redirect_stderr(io.StringIO()),
                contextlib.redirect_stdout(io.StringIO()),
            ):
                parser.read(file)
        except parser.refusals:
            parser.refused += 1
        except (Exception, Hang) as error:
            signal.setitimer(signal.ITIMER_PROF, 0)
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} {where.filename}:{where.lineno}"
            is_new = place not in parser.finds
            parser.finds.setdefault(place, number)
            return traceback.format_exc(limit=-6) if is_new else None
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def turns(
    chosen: list[Parser], first: int, seconds: float, inputs: int | None
) -> Iterator[tuple[Parser, int]]:
    """Parser and number of input after input, until the time is over, which all parsers share."""
    used_s = dict.fromkeys(range(len(chosen)), 0.0)
    numbers = dict.fromkeys(range(len(chosen)), first)
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < seconds:
        able = [one for one in used_s if inputs is None or numbers[one] - first < inputs]
        if not able:
            return
        at = min(able, key=lambda one: used_s[one])
        before_s = time.monotonic()
        yield chosen[at], numbers[at]
        used_s[at] += time.monotonic() - before_s
        numbers[at] += 1


def hang(number: int, frame: FrameType | None) -> None:
    raise Hang(f"more than {LIMIT_S:g} s of CPU time")


def main(argv: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--seconds", type=float, help="in all (default 60, or without end if --inputs is given)"
    )
    options.add_argument("--seed", type=int, default=1, help="of the inputs (default 1)")
    options.add_argument("--only", metavar="NAME", help="just this parser")
    options.add_argument(
        "--first", type=int, default=0, metavar="N", help="number of the first input (default 0)"
    )
    options.add_argument("--inputs", type=int, metavar="N", help="so many for each parser at most")
    given = options.parse_args(argv)
    signal.signal(signal.SIGPROF, hang)
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    jobs()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as cache_place:
        yaml_files._folder = cache(lambda: Path(cache_place) / "yaml")
        return tried(given, Path(cache_place))


def tried(given: argparse.Namespace, cache_place: Path) -> int:
    """The exit code, when the time is over."""
    chosen = [one for one in parsers() if given.only in (None, one.name)]
    if any(one.read is request for one in chosen):
        server()
    has_kb = int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0])
    resource.setrlimit(resource.RLIMIT_AS, ((has_kb << 10) + MEMORY_BYTES, resource.RLIM_INFINITY))
    seconds = given.seconds or (60 if given.inputs is None else math.inf)
    for count, (parser, number) in enumerate(turns(chosen, given.first, seconds, given.inputs)):
        if count % CLEAN_EVERY == 0:
            shutil.rmtree(cache_place / "yaml", ignore_errors=True)
        if found := attempt(parser, given.seed, number):
            print(f"FIND {parser.name}, seed {given.seed}, input {number}:\n{found}", flush=True)
    if server.cache_info().currsize:
        server().close()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    for parser in chosen:
        print(
            f"{parser.name:16} {parser.tried:8} inputs, {parser.refused:8} refused,"
            f" {len(parser.finds)} finds"
        )
    tried, finds = sum(one.tried for one in chosen), sum(len(one.finds) for one in chosen)
    print(
        json.dumps(
            {"parsers": len(chosen), "inputs": tried, "finds": finds, "peak_mb": peak_mb}
            | {"seed": given.seed}
        )
    )
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
