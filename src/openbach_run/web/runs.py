# SPDX-License-Identifier: GPL-3.0-or-later
"""One run, from the files that it has left: its path, its jobs over time, its files, its packets.

The path has the hosts, tunnel and PEP as they were in the run.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from openbach_run.errors import InputError
from openbach_run.openbach.reading import RENAMED
from openbach_run.openbach.values import jobs_started
from openbach_run.results import run_files
from openbach_run.results.record import Record, events
from openbach_run.results.run_files import DamagedRecord
from openbach_run.results.store import Store
from openbach_run.topology.inventory import host_of
from openbach_run.web.answers import Services, not_found
from openbach_run.web.shared_work import own_command

PROXY = "satpep"
"""The job that splits TCP connections on a host."""

FILES = (
    "record.json",
    "run.json",
    "commands.sh",
    "console.log",
    "result.json",
    "events.jsonl",
    "statistics.jsonl",
)
"""The files of a run that can be read on the page."""
CAPTURES = ".captures"
"""The folder for runs that were repeated for their packets:
results/.captures/<folder>/runs/<run_id>."""
CAPTURE_LIMIT_S = 1800.0
LEFT = (
    "SELECT i.run_dir FROM member m JOIN instance i ON i.id = m.instance WHERE m.folder = ? AND"
    " m.run_id = ? AND i.run_dir <> '' ORDER BY i.id DESC"
)
"""The directory of what a stopped run has left."""


@dataclass(frozen=True)
class Run:
    """A run's directory and what is known of it."""

    folder: str
    name: str
    """The name of its directory after it has ended: the run_id."""
    place: Path
    record: Record | None
    goes_on: bool
    spec: Mapping[str, Any]
    """The content of run.json, what the guest got; {} if it is missing or not whole."""


def find_run(services: Services, folder: str, name: str) -> Run:
    """Return a run that has ended, was stopped, or goes on. Raises Refusal (404)."""
    # The names come from an address: they must not lead out of the results directory.
    if any(not part or part.startswith(".") or {"/", "\0"} & {*part} for part in (folder, name)):
        raise not_found("Run", folder=folder, run=name)
    directory = services.launcher.results / folder
    ended = directory / "runs" / name
    # The directory has this name until its record is whole.
    unfinished = directory / "runs" / f"{name}.unfinished"

    def places() -> Iterator[Path]:
        """Yield where it may be; last where it may have been moved meanwhile."""
        yield from (ended, unfinished)
        for row in services.database.rows(LEFT, folder, name):
            yield Path(row["run_dir"])
        yield ended

    place = next(filter(run_files.is_there, places()), None)
    if place is None:
        raise not_found("Run", folder=folder, run=name)
    goes_on = place == unfinished
    record = None if goes_on else Store(directory).load(name)
    try:
        spec = run_files.document(place, "run.json")
    except (OSError, DamagedRecord):
        spec = {}
    return Run(folder, name, place, record, goes_on, spec if isinstance(spec, dict) else {})


def content(run: Run, name: str) -> str | None:
    """Return the text of a file that the run has left, or None."""
    try:
        return run_files.content(run.place, name).decode(errors="replace")
    except (OSError, DamagedRecord):
        return None


# Jobs


def jobs_of(run: Run) -> list[dict[str, Any]]:
    """Return the jobs of a run with the times at which they ran; [] if the events make no sense.

    Each has job, entity, host, number, label, start_s, stop_s, status.
    """
    labels = _labels(run.spec)
    try:
        return list(_jobs_in(events(run.place), labels))
    except Exception:  # a guest's events: they may be anything
        return []


def _jobs_in(
    events: Iterable[Mapping[str, Any]], labels: Mapping[Any, str]
) -> Iterator[dict[str, Any]]:
    """Yield the jobs that events tell of; one that has not ended lasts until the last event.

    Proxies and ends of a tunnel that the run does not have are left out: their jobs do nothing.
    """
    jobs: dict[int, dict[str, Any]] = {}
    now_s = 0.0
    for event in events:
        now_s = float(event["t_s"])
        if event["event"] == "job_started" and not _is_idle(event):
            jobs[event["instance_id"]] = {
                "job": str(event["job"]),
                "entity": str(event["entity"]),
                "number": int(event["instance_id"]),
                "host": host_of(str(event["entity"])),
                "label": labels.get(event.get("function"), ""),
                "start_s": now_s,
                "stop_s": None,
                "status": "Running",
            }
        elif event["event"] in ("job_ended", "job_stop_ordered") and event["instance_id"] in jobs:
            job = jobs[event["instance_id"]]
            job.update(status=str(event.get("status", "Stopped")), stop_s=job["stop_s"] or now_s)
    for job in jobs.values():
        yield {**job, "stop_s": now_s if job["stop_s"] is None else job["stop_s"]}


def _is_idle(event: Mapping[str, Any]) -> bool:
    """Return whether a job that starts is a proxy of another position or a tunnel none."""
    argv = event.get("argv") or [""]
    if RENAMED.get(event["job"], (event["job"],))[0] == PROXY and "--at" in argv[:-1]:
        return argv[0] not in argv[argv.index("--at") + 1].split(",")
    return bool(event["job"] == "vpn" and argv[0] == "none")


def _labels(spec: Mapping[str, Any]) -> dict[Any, str]:
    """Return the labels of the scenario's functions by their id; {} if they make no sense."""
    with suppress(Exception):
        functions = spec["scenario"]["openbach_functions"]
        return {function["id"]: str(function.get("label") or "") for function in functions}
    return {}


def outputs(run: Run, number: int) -> dict[str, str]:
    """Return a job's start by the name of the file that describes it, and its stdout and stderr."""
    # job.json: of runs of older versions.
    prefix = re.compile(rf"jobs/{number}_[^/]*/(job\.json|stdout|stderr)")
    names = [name for name in _names(run.place) if prefix.fullmatch(name)]
    written = {name.rpartition("/")[2]: content(run, name) for name in sorted(names)}
    texts = {name: text for name, text in written.items() if text is not None}
    return texts if "job.json" in texts else {**_start(run, number), **texts}


def _start(run: Run, number: int) -> dict[str, str]:
    """Return a job's start from the first file that has it; after the run also how it ended."""
    for name in ("jobs.jsonl", "events.jsonl"):
        with suppress(Exception):  # a guest's: they may be anything
            for line in run_files.lines(run.place, name, lambda line: None):
                if line.get("instance_id") == number:
                    return {name: json.dumps(line, indent=1)}
    return {}


def _names(place: Path) -> list[str]:
    """Return the names of a run's files, packed or not."""
    # A run that has not been packed has its files in jobs/.
    loose = [str(file.relative_to(place)) for file in place.glob("jobs/*/*")]
    if loose:
        return loose
    try:
        with (
            run_files.opened(place, run_files.PACKED) as packed,
            tarfile.open(fileobj=packed, mode="r|gz") as members,
        ):
            return [member.name for member in members]
    except (OSError, EOFError, DamagedRecord, tarfile.TarError):
        return []


# The path


@dataclass(frozen=True)
class Host:
    """A place in the drawing: `column` from the left and `row` from the top."""

    name: str
    column: int
    row: int
    notes: tuple[str, ...]
    """The PEP and VPN that the host had in the run: `PEP`, `VPN`."""


@dataclass(frozen=True)
class Route:
    """The hosts and links of a run, for a drawing and in words."""

    hosts: list[Host]
    links: list[tuple[Host, Host, str, bool]]
    """Both ends of each link, the network's name, and whether it is the satellite's."""
    tunnel: tuple[Host, Host, str] | None
    words: str


def route_of(run: Run) -> Route | None:
    """Return the path of a run; None if run.json does not tell it."""
    with suppress(Exception):  # a guest's file: it may be anything
        return _path(run.spec)
    return None


def _path(spec: Mapping[str, Any]) -> Route:
    """Return the path from the content of run.json.

    Raises any error if that is not as it should be.
    """
    listed = spec["inventory"]["hosts"]
    networks: dict[str, list[str]] = {}
    for host in listed:
        for port in host["interfaces"]:
            networks.setdefault(str(port["network"]), []).append(str(host["entity"]))
    started = list(_started(spec))
    notes: dict[str, list[str]] = {}
    ends, kind = [], ""
    for entity, job, arguments in started:
        if job == "vpn" and arguments.get("kind", "none") != "none" and "wait" not in arguments:
            ends.append(entity)
            kind = arguments["kind"]
        # Records of before have the job by its old name.
        is_proxy = RENAMED.get(job, (job,))[0] == PROXY and "wait" not in arguments
        if is_proxy and arguments.get("position") in arguments.get("at", "").split(","):
            notes.setdefault(entity, []).append("PEP")
    for entity in dict.fromkeys(ends):
        notes.setdefault(entity, []).append("VPN")
    sat = {entity for entity, job, _ in started if job == "satcom_link"}
    columns = _columns([str(host["entity"]) for host in listed], networks)
    in_column: dict[int, int] = {}
    hosts: dict[str, Host] = {}
    names = {str(host["entity"]): str(host["name"]) for host in listed}
    for entity, column in sorted(columns.items(), key=lambda item: item[1]):
        row = in_column.get(column, 0)
        in_column[column] = row + 1
        of_host = tuple(dict.fromkeys(notes.get(entity, ())))
        hosts[entity] = Host(names[entity], column, row, of_host)
    links = []
    for network, members in networks.items():
        # A network with more than two hosts is drawn as a chain.
        for host, other in itertools.pairwise(members):
            left, right = sorted((hosts[host], hosts[other]), key=lambda host: host.column)
            links.append((left, right, network, host in sat or other in sat))
    two = list(dict.fromkeys(ends))
    tunnel = (hosts[two[0]], hosts[two[-1]], kind) if len(two) > 1 else None
    if tunnel and tunnel[0].column > tunnel[1].column:
        tunnel = (tunnel[1], tunnel[0], kind)
    return Route(list(hosts.values()), links, tunnel, _in_words(list(hosts.values()), tunnel))


def _in_words(hosts: Sequence[Host], tunnel: tuple[Host, Host, str] | None) -> str:
    """Return the path in words: hosts, tunnel, PEP."""
    proxies = [host.name for host in hosts if "PEP" in host.notes]
    through = "no tunnel"
    if tunnel:
        through = f"tunnel {tunnel[2]} from {tunnel[0].name} to {tunnel[1].name}"
    pep = f"PEP on {' and '.join(proxies)}" if proxies else "no PEP"
    return "; ".join([", ".join(host.name for host in hosts), through, pep])


def _columns(entities: Sequence[str], networks: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the column of each host: its distance from the first host that is on one network only.

    The distance is counted in networks.
    """
    beside: dict[str, list[str]] = {}
    often: dict[str, int] = {}
    for entity in entities:
        its_networks = [hosts for hosts in networks.values() if entity in hosts]
        beside[entity] = list(itertools.chain.from_iterable(its_networks))
        often[entity] = len(its_networks)
    # From each host that has no column yet, those on the fewest networks first, breadth first.
    columns: dict[str, int] = {}
    for first in sorted(entities, key=lambda entity: often[entity]):
        waiting = [] if first in columns else [first]
        columns.setdefault(first, 0)
        # The list grows while it is read.
        for entity in waiting:
            for other in beside[entity]:
                if other not in columns:
                    columns[other] = columns[entity] + 1
                    waiting.append(other)
    return columns


def _started(spec: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield entity, job and arguments of every start of a job in the scenarios.

    An argument's values are joined by commas, with the run's values put in.
    """
    for scenario in (spec["scenario"], *spec["sub_scenarios"].values()):
        values = {**scenario["constants"], **spec["values"], **spec["arguments"]}
        for name, value in values.items():  # `same` is the value of the end hosts
            if name.startswith("cc_") and value == "same":
                values[name] = values.get("cc", "")
        for function in scenario["openbach_functions"]:
            for job, arguments in jobs_started(function):
                entity = str(function["start_job_instance"]["entity_name"])
                yield entity, job, _flat(arguments, values)


def _flat(arguments: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, str]:
    """Return arguments by name, with those of subcommands among them.

    A subcommand has the value "".
    """
    flat: dict[str, str] = {}
    for name, argument in arguments.items():
        if isinstance(argument, dict):
            flat |= {name: "", **_flat(argument, values)}
        else:
            parts = itertools.chain.from_iterable(argument)
            flat[name] = ",".join(Template(str(part)).safe_substitute(values) for part in parts)
    return flat


# The packets


def capture_file(services: Services, run: Run) -> Path | None:
    """Return the capture of the run or of its repetition; None if neither has one."""
    folder = services.launcher.results / CAPTURES / run.folder
    repeated = folder / "runs" / run.name / "capture.pcapng"
    return next((file for file in (run.place / "capture.pcapng", repeated) if file.is_file()), None)


def make_capture(services: Services, run: Run) -> None:
    """Repeat a run to keep its packets, which are the same.

    Raises InputError if it cannot be repeated as it was.
    """
    if run.record is None:
        raise InputError("only a run that has ended can be repeated")
    if capture_file(services, run) is not None:
        return
    # Beside the results: a repetition is no run of theirs.
    target = services.launcher.results / CAPTURES / run.folder
    additions: list[str] = []
    # The last root is the checkout, where the command looks anyway.
    for root in services.platform.catalog.roots[:-1]:
        additions += ["--with", str(root)]
    options = ["--pcap", "--quiet", "--workers", "1", "--results", str(target)]
    words = [*run.record.repetition, *additions, *options]
    done = own_command(words, CAPTURE_LIMIT_S, "the repetition")
    again = Store(target).load(run.name)
    if again is None or not (target / "runs" / run.name / "capture.pcapng").is_file():
        logging.getLogger(__name__).error(
            "capture of %s: exit code %d: %s", run.name, done.returncode, done.stderr
        )
        raise InputError(
            "it cannot be repeated as it was: the code, the kernel or the scenario has changed"
            " since, or it failed (what openbach-run serve printed says more). Its command was"
            f" {run.record.command}"
        )
    if again.capture_hash != run.record.capture_hash:
        raise InputError(
            "the repetition has other packets than the run had: please report it, with both records"
        )
