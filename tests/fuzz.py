#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fuzz: mutations of the checkout's own files, for every parser of what others write. `make fuzz SECONDS=3600`.

Each parser answers with what it read or an error for a person. Anything else is a find: another exception, more than
LIMIT_S of CPU time for one input, more than MEMORY_BYTES beyond what the script has at its start. Inputs follow from the
seed, the parser and a number, so `--only NAME --first N --inputs 1` repeats one. The exit code is 1 if there was a find.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType

from openbach_run.additions import Additions, description
from openbach_run.campaign.entries import CHECKS
from openbach_run.campaign.file import plan_file
from openbach_run.campaign.plan import plan
from openbach_run.campaign.settings import parse_seeds, parse_settings
from openbach_run.engine.virtual.lock import read_lock
from openbach_run.engine.virtual.outcome import outcome_of
from openbach_run.errors import InputError, SetupError
from openbach_run.openbach.job_folders import Package, load_packages
from openbach_run.openbach.lint import lint
from openbach_run.openbach.scenario import read_scenario
from openbach_run.paths import REPOSITORY
from openbach_run.report.assumptions import read_assumptions
from openbach_run.report.cells import read_campaigns
from openbach_run.results.captures import packets
from openbach_run.results.line_protocol import line_protocol
from openbach_run.results.measures import measures
from openbach_run.results.record import Store, check, events
from openbach_run.satellite import mahimahi, opensand, rtt
from openbach_run.satellite.given import read_link_file, read_presets
from openbach_run.satellite.job import link_file
from openbach_run.topology.inventory import agent_addresses, load_inventory

LIMIT_S = 20.0
MEMORY_BYTES = 1 << 30
EXPECTED = (InputError, SetupError, link_file.LinkFileError)
LONGEST = 1 << 16
TOKENS = (
    *(b"1e999", b"-1", b"0", b"NaN", b"null", b"true", b"{}", b"[]", b'""', b"\0", b"\xff", b"\n", b"$x", b"${", b"$$"),
    *(400 * b"9", 5000 * b"7", b"0x" + 5000 * b"f", 3000 * b"[", 3000 * b'{"a":', b"\xe2\x80\xae", b'"\\ud800"', b"\x1b[2J"),
    *(b"!!set {a}", b"&a [*a]", b"*a", b"2026-02-31", b"2026-01-01: x", b"? [a]", b"<<: *a", b"1:2:3", b".inf", b"10M"),
)  # fmt: skip


class Hang(BaseException):
    """An input took too long."""


@dataclass
class Parser:
    """`read` reads the file of an input; `seeds` are contents that it takes."""

    name: str
    seeds: list[bytes]
    read: Callable[[Path], object]
    file: str
    tried: int = 0
    refused: int = 0
    finds: dict[str, int] = field(default_factory=dict)
    """By the place of the fault, the first input."""


def mutated(chance: random.Random, seeds: list[bytes]) -> bytes:
    """One of the contents with up to six places changed, lines left out, doubled or exchanged, or parts of another."""
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
                words = content.split(b" ")
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
    return [file.read_bytes()[:LONGEST] for pattern in patterns for file in sorted(REPOSITORY.glob(pattern))]


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
    check(place)
    measures(place, {name: one.measures for name, one in jobs().items()})
    list(line_protocol([place]))


def told_events(file: Path) -> None:
    place = run_directory(file, "events.jsonl")
    check(place)
    events(place)


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
    store.all()


def asked_for(file: Path) -> None:
    read_campaigns([run_directory(file, "campaign.json")])


def job(file: Path) -> None:
    (file.parent / "j/files").mkdir(parents=True)
    file.rename(file.parent / "j/files/j.yml")
    load_packages([file.parent / "j"])


def settings(file: Path) -> None:
    text = file.read_bytes().decode(errors="surrogateescape")
    parse_settings(text.split("\n"))


def seeds(file: Path) -> None:
    parse_seeds(file.read_bytes().decode(errors="surrogateescape"))


def vpn(file: Path) -> None:
    description(run_directory(file, "vpn.json"))


def profile(file: Path) -> None:
    CHECKS["congestion-controls"](Additions(), run_directory(file, "profile.json"))


def inventory(file: Path) -> None:
    load_inventory(file)
    agent_addresses(file)


METADATA = {"job_name": "file_transfer", "agent_name": "pc", "time": 5, "job_instance_id": 1, "scenario_instance_id": 1}
RUN = {"run_id": "0", "scenario": "geo", "arguments": {"vpn": "none"}, "seed": 1}
FAILED_JOB = {"job": "a", "entity": "b", "status": "Error", "exit_code": 1, "last_lines": ["x"]}


def line(**content: object) -> bytes:
    return json.dumps(content).encode() + b"\n"


STATISTIC = line(transfer_time_s=3.5, bytes=300, _metadata=METADATA)
EVENT = line(t_s=1, event="scenario_started", scenario_instance_id=1, scenario="geo", arguments={"vpn": "none"})
RECORD = line(
    **RUN, status="Finished Ok", error=None, virtual_s=3.0, wall_s=1.0, capture_hash="ab", measures={"transfer_time_s": 3},
    command="x", identity={"engine": "virtual"}, packages=[], declared={}, parts=[],
)  # fmt: skip
RESULT = line(status="Finished Ko", virtual_s=1, failed=[{"function": 1, "error": "x"}, FAILED_JOB])
ASKED = line(command="x", plots={"geo": {"measure": "mos", "figure": "measures"}}, commit=None, runs=[RUN])
LINK = b"# repeat_s: 60\ntime_s,direction,rate_bps,delay_ms,loss_pct\n0,both,10000000,250,0\n12.5,forward,4000000,,\n"
PING = b"[1.5] 64 bytes: icmp_seq=1 ttl=5 time=20.1 ms\n[2.5] 64 bytes: icmp_seq=2 ttl=5 time=21 ms\n3 packets transmitted\n"
IRTT = b'{"round_trips": [{"timestamps": {"client": {"send": {"wall": 1}}}, "delay": {"rtt": 5000}, "lost": "false"}]}'
CAPTURE = bytes.fromhex("0a0d0d0a1c0000004d3c2b1a01000000ffffffffffffffff1c000000") + bytes(64)
KERNEL = b"[    0.100000] WARNING: CPU: 0 PID: 1 at x\n[    1.000000] Out of memory: Killed process 5\n"


def parsers() -> list[Parser]:
    """All of them."""
    return [
        Parser("scenario (JSON)", all_of("scenarios/*.json"), scenario, "t.json"),
        Parser("scenario (YAML)", all_of("scenarios/*.yml"), scenario, "t.yml"),
        Parser(
            "campaign", all_of("campaigns/*.yml"), lambda file: plan_file(file, [], None, jobs(), Additions()), "t.yml"
        ),
        Parser("inventory", all_of("inventory.yml", "topologies/*.yml"), inventory, "inventory.yml"),
        Parser("satellite", all_of("satellites/*.yml"), lambda file: read_presets(["x"], {"x": file}), "x.yml"),
        Parser("job", all_of("jobs/*/files/*.yml"), job, "j.yml"),
        Parser("vpn.json", all_of("vpn-configs/*/vpn.json"), vpn, "in"),
        Parser("profile.json", all_of("congestion-controls/*/profile.json"), profile, "in"),
        Parser("link file", [LINK], read_link_file, "x.csv"),
        Parser("mahimahi", [b"1\n2\n2\n9\n"], mahimahi.read_trace, "trace"),
        Parser("opensand", [b"# x\n0 5\n10 20\n"], opensand.read_delays, "delays"),
        Parser("ping, irtt, CSV", [PING, IRTT, b"time_s,rtt_ms\n0,5\n1,\n"], lambda file: rtt.read(file, 1.0), "rtt"),
        Parser("assumptions", all_of("reports/assumptions.yml"), read_assumptions, "a.yml"),
        Parser("debian.lock", [(REPOSITORY / "debian.lock").read_bytes()[:4000]], read_lock, "debian.lock"),
        Parser("NAME=VALUE", [b"vpn=none,wireguard\nloss=0,1\nrate=10M"], settings, "in"),
        Parser("seeds", [b"5", b"3,7", b"7,"], seeds, "in"),
        Parser("statistics", [STATISTIC, 3 * STATISTIC], statistics, "in"),
        Parser("events", [EVENT, 2 * EVENT], told_events, "in"),
        Parser("result.json", [RESULT], outcome, "in"),
        Parser("console.log", [KERNEL], console, "in"),
        Parser("record.json", [RECORD], record, "in"),
        Parser("campaign.json", [ASKED], asked_for, "in"),
        Parser("capture", [CAPTURE], lambda file: list(packets(file)), "capture.pcapng"),
    ]


def attempt(parser: Parser, seed: int, number: int) -> str | None:
    """Tries one input. The traceback of a find, or None."""
    content = mutated(random.Random(f"{seed} {parser.name} {number}"), parser.seeds)
    parser.tried += 1
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        file = Path(directory) / parser.file
        file.write_bytes(content)
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                parser.read(file)
        except EXPECTED:
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


def turns(chosen: list[Parser], first: int, seconds: float, inputs: int | None) -> Iterator[tuple[Parser, int]]:
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
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=60, help="in all (default 60)")
    options.add_argument("--seed", type=int, default=1, help="of the inputs (default 1)")
    options.add_argument("--only", metavar="NAME", help="just this parser")
    options.add_argument("--first", type=int, default=0, metavar="N", help="number of the first input (default 0)")
    options.add_argument("--inputs", type=int, metavar="N", help="so many for each parser at most")
    given = options.parse_args(argv)
    signal.signal(signal.SIGPROF, hang)
    jobs()
    chosen = [one for one in parsers() if given.only in (None, one.name)]
    has_kb = int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0])
    resource.setrlimit(resource.RLIMIT_AS, ((has_kb << 10) + MEMORY_BYTES, resource.RLIM_INFINITY))
    for parser, number in turns(chosen, given.first, given.seconds, given.inputs):
        if found := attempt(parser, given.seed, number):
            print(f"FIND {parser.name}, seed {given.seed}, input {number}:\n{found}", flush=True)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    for parser in chosen:
        print(f"{parser.name:16} {parser.tried:8} inputs, {parser.refused:8} refused, {len(parser.finds)} finds")
    tried, finds = sum(one.tried for one in chosen), sum(len(one.finds) for one in chosen)
    print(json.dumps({"inputs": tried, "finds": finds, "peak_mb": peak_mb, "seed": given.seed}))
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
