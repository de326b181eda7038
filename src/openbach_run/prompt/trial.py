# SPDX-License-Identifier: GPL-3.0-or-later
"""The user's own programs as both ends of a testbed: what became of them, for each seed."""

from __future__ import annotations

import json
import random
import re
import shlex
import signal
import stat
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from openbach_run.campaign.executor import cpus_for
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.errors import InputError
from openbach_run.json_files import read_json
from openbach_run.openbach.lines import Command, Entry, in_words
from openbach_run.prompt.cpu_clock import set_traps
from openbach_run.prompt.environments import base_of, environment_of
from openbach_run.prompt.session import (
    FILES,
    LEFT,
    InputFile,
    Session,
    bring,
    left_files,
    put,
    run,
    run_directory,
)
from openbach_run.results import run_files
from openbach_run.results.record import FINISHED
from openbach_run.results.run_files import DamagedRecord

PAYLOAD = "payload"
"""The file of random bytes that both ends are given."""
STDOUT = "-"
"""Word in place of a file's name: what the client prints."""
QLOG = "qlog"
RESULTS = "results.json"
SOCKETS = "cat /proc/net/tcp /proc/net/tcp6 /proc/net/udp /proc/net/udp6 2> /dev/null"
LISTENING = f'{SOCKETS} | mawk \'$4 == "0A" || $4 == "07" {{print $2}}\' | sort > /run/$1'
"""A shell's command: the addresses of sockets that listen (TCP), or are not connected (UDP)."""
READY_S = 10
"""Virtual seconds in which a server has to open a socket."""
READY = (
    f"look() {{ {LISTENING}; }}; for n in $(seq {READY_S * 100}); do look sockets;"
    ' [ "$(cat /run/sockets)" = "$(cat /run/sockets.before)" ] || exit 0; sleep 0.01; done; exit 1'
)
ILLEGAL = (-signal.SIGILL, 128 + signal.SIGILL)
"""Exit codes of a program that has come to a trap: its own, and that of a shell around it."""
ILLEGAL_SAID = "illegal instruction"
"""Words of shells on their programs, and of programs that catch the signal, as those of Go."""
SERVER, READY_AT, CLIENT = 1, 2, 3
"""The places of the commands in a run."""


@dataclass(frozen=True)
class Program:
    """A command for one end, and the host of that end."""

    host: str
    command: str


@dataclass(frozen=True)
class Trial:
    """Two programs to be tried, the files that they are given, and what has to arrive."""

    server: Program
    client: Program
    files: tuple[InputFile, ...] = ()
    payload_bytes: int = 0
    received: str | None = None
    """The name of the file that the client writes, or STDOUT."""
    qlog: bool = False
    limit_s: int = 3600


@dataclass(frozen=True)
class Seen:
    """The outcome of a trial with one seed."""

    seed: int
    time_s: float | None
    """Time from the start of the client to its end; None if it did not end."""
    bytes: int | None
    """Number of bytes that arrived, where the trial says in which file."""
    exit_code: int | None
    """Exit code of the client."""
    wrong: str
    """Fault, in words for a person; "" if there is none."""
    packets: str
    """The hash of all packets: the same packets at the same times have the same."""

    @property
    def goodput_bps(self) -> float | None:
        """Return the payload's rate; None if it is not known."""
        return self.bytes * 8 / self.time_s if self.bytes and self.time_s else None


def entries_of(trial: Trial) -> list[Entry]:
    """Return the commands: the client begins when the server has opened a socket."""
    before = f"set -- sockets.before; {LISTENING}"
    environment = f"export QLOGDIR=/home/{QLOG}; " if trial.qlog else ""
    make = f"mkdir -p /home/{QLOG}; " if trial.qlog else ""
    return [
        Command(trial.server.host, make + before),
        Command(trial.server.host, environment + trial.server.command, apart=True),
        Command(trial.server.host, READY),
        Command(trial.client.host, environment + trial.client.command, needs=READY_AT),
    ]


def programs_of(command: str) -> list[str]:
    """Return the program of a command if it is a file of this machine, as `./server`.

    Raises InputError for one that is not there, or is no program.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"{command}: {error}") from None
    if not words:
        raise InputError("an empty command: --server './server --port 4433'")
    program = words[0]
    if "/" not in program or program.startswith(("/usr/", "/bin/", "/sbin/")):
        return []
    place = Path(program)
    if not place.is_file():
        raise InputError(f"{program}: no such file here; programs of the hosts have no / in them")
    if not place.stat().st_mode & stat.S_IXUSR:
        raise InputError(f"{program}: is no program: it may not be executed (chmod +x)")
    environment = environment_of(place)
    if environment is not None and program == f"./{environment.name}/bin/{place.name}":
        base_of(environment)  # checked before a guest starts
        return [f"./{environment.name}"]
    _check_interpreter(place)
    if program != f"./{place.name}":
        raise InputError(
            f"{program}: is ./{place.name} on the hosts: write that, and add --file {program}"
        )
    return [program]


def _check_interpreter(place: Path) -> None:
    """Raise InputError for a script whose interpreter is only on this machine."""
    with place.open("rb") as file:
        match = re.match(rb"#!\s*(\S+)", file.read(256))
    interpreter = Path(match[1].decode(errors="replace")) if match else None
    if interpreter is None or str(interpreter).startswith(("/usr/bin/", "/bin/", "/usr/sbin/")):
        return
    of_environment = environment_of(interpreter)
    better = "they have #!/usr/bin/env python3"
    if of_environment is not None:
        python = f"./{of_environment.name}/bin/python"
        better = f"write '{python} {place.name}' with --file {place}"
    raise InputError(
        f"{place}: its first line names {interpreter}, which the hosts do not have: {better}"
    )


def try_seeds(
    engine: VirtualEngine,
    specs: Mapping[int, Mapping[str, Any]],
    trial: Trial,
    output: Path | None,
    *,
    twice: bool,
) -> tuple[list[Seen], str]:
    """Return what became of each seed, and a text if the first seed did not repeat itself.

    With `twice` it is run a second time. Files go to `output`/seed-N.
    """
    seeds = list(specs)
    again = seeds[:1] if twice else []
    cpus = cpus_for(None)
    tasks = [(number, seed) for number, seed in enumerate([*seeds, *again, *again])]

    def tried(task: tuple[int, int]) -> Seen | None:
        number, seed = task
        place = None if output is None or number >= len(seeds) else output / f"seed-{seed}"
        trapped = number > len(seeds)
        return _try(engine, {**specs[seed]}, seed, trial, cpus[number % len(cpus)], place, trapped)

    with ThreadPoolExecutor(len(cpus)) as pool:
        try:
            seen = list(pool.map(tried, tasks))
        except BaseException:
            engine.stop()
            raise
    first = [run for run in seen[: len(seeds)] if run is not None]
    if not twice:
        return first, ""
    repeated, trapped = seen[len(seeds) :]
    assert repeated is not None
    reader = "" if trapped is None else trapped.wrong
    return first, _steadiness(repeated.packets == first[0].packets, reader)


def _steadiness(same: bool, reader: str) -> str:
    """Return a text on a trial that took time or chance from the CPU; "" if it took none."""
    if same:
        return reader and f"{reader}; with this seed its packets did not depend on that"
    because = reader or "no program has come to RDTSC; RDRAND is one that gives chance"
    return (
        "the same seed gave other packets when it was repeated: a program takes time or chance from"
        f" the CPU itself ({because})"
    )


def _try(
    engine: VirtualEngine,
    spec: Mapping[str, Any],
    seed: int,
    trial: Trial,
    cpu: int,
    output: Path | None,
    trapped: bool,
) -> Seen | None:
    """Run a trial with one seed; return what became of it.

    With `trapped` its programs end where they would read the CPU's clock, and `wrong` says which
    did, or nothing; None if none has such an instruction.
    """
    printed: dict[tuple[int, int], str] = {}

    def note(event: Mapping[str, Any]) -> None:
        if "of" in event:
            key = (event["of"], event["stream"])
            printed[key] = printed.get(key, "") + event["text"]

    with run_directory(trial.files) as run_dir:
        if trial.payload_bytes:
            content = random.Random(seed).randbytes(trial.payload_bytes)
            put(run_dir, PAYLOAD, content)
        readers = set_traps(run_dir / FILES) if trapped else []
        if trapped and not readers:
            return None
        limited = {**spec, "virtual_limit_s": trial.limit_s}
        session = run(engine, limited, entries_of(trial), run_dir, note, cpu)
        if trapped:
            return _trapped(session, seed, readers, printed)
        seen = _seen(session, seed, trial, printed)
        seen = _arrived(seen, trial, run_dir, printed.get((CLIENT, 1), ""))
        if output is not None:
            _bring(run_dir, output, printed)
    return seen


def _trapped(
    session: Session, seed: int, readers: Sequence[str], printed: Mapping[tuple[int, int], str]
) -> Seen:
    """Return which end was ended by a trap."""
    ends = []
    for name, number in (("server", SERVER), ("client", CLIENT)):
        ended = session.ended.get(number)
        output = "".join(printed.get((number, stream), "") for stream in (1, 2))
        if (ended is not None and ended.code in ILLEGAL) or ILLEGAL_SAID in output.lower():
            ends.append(name)
    wrong = f"the {' and the '.join(ends)} read the CPU's clock (RDTSC: {' or '.join(readers)})"
    return Seen(seed, None, None, None, wrong if ends else "", session.outcome.capture_hash)


def _bring(run_dir: Path, output: Path, printed: Mapping[tuple[int, int], str]) -> None:
    bring(run_dir, left_files(run_dir), output)
    for name, number in (("server", SERVER), ("client", CLIENT)):
        for stream, of in ((1, "stdout"), (2, "stderr")):
            text = printed.get((number, stream), "")
            (output / f"{name}.{of}").write_bytes(text.encode("latin-1"))


def _seen(
    session: Session, seed: int, trial: Trial, printed: Mapping[tuple[int, int], str]
) -> Seen:
    """Return what became of the programs themselves."""
    packets = session.outcome.capture_hash
    client, server = session.ended.get(CLIENT), session.ended.get(SERVER)
    failed = Seen(seed, None, None, None, "", packets)
    server_said = _last_line(printed, SERVER)
    ready = session.ended.get(READY_AT)
    if server is not None and ready is not None and server.ended_s < ready.ended_s:
        return replace(failed, wrong=f"the server ended at once: {server_said}")
    if ready is not None and ready.code:
        return replace(
            failed,
            wrong=f"the server has opened no socket in {READY_S} s; it says: {server_said}",
        )
    if session.outcome.status != FINISHED or client is None or CLIENT in session.lasting:
        late = f"the client did not end in {trial.limit_s} virtual seconds"
        error = session.outcome.error or ""
        return replace(failed, wrong=late if "not finished after" in error else error)
    time_s = client.ended_s - client.begun_s
    wrong = ""
    if client.code:
        wrong = f"the client: {in_words(client.code)}: {_last_line(printed, CLIENT)}"
    elif server is not None and server.code and SERVER not in session.lasting:
        wrong = f"the server: {in_words(server.code)}: {server_said}"
    return Seen(seed, time_s, None, client.code, wrong, packets)


def _arrived(seen: Seen, trial: Trial, run_dir: Path, printed: str) -> Seen:
    """Return it with what has arrived, compared byte for byte with what was sent."""
    if trial.received is None or seen.time_s is None:
        return seen
    try:
        if trial.received == STDOUT:
            content = printed.encode("latin-1")
        else:
            with run_files.opened(run_dir, f"{LEFT}/{trial.received}") as file:
                content = file.read()
    except (FileNotFoundError, DamagedRecord):
        return replace(seen, wrong=seen.wrong or f"the client has left no file {trial.received}")
    arrived = replace(seen, bytes=len(content))
    if not trial.payload_bytes or seen.wrong:
        return arrived
    sent = random.Random(seen.seed).randbytes(trial.payload_bytes)
    if content == sent:
        return arrived
    same = next(
        (at for at, pair in enumerate(zip(content, sent, strict=False)) if pair[0] != pair[1]),
        min(len(content), len(sent)),
    )
    what = (
        f"{len(content)} bytes arrived, {len(sent)} were sent; byte {same} is the first other one"
    )
    return replace(arrived, wrong=what)


def _last_line(printed: Mapping[tuple[int, int], str], number: int) -> str:
    lines = [
        line
        for stream in (1, 2)
        for line in printed.get((number, stream), "").splitlines()
        if line.strip()
    ]
    return lines[-1].encode("latin-1").decode(errors="replace") if lines else "nothing"


# Results, as a file


def write_results(file: Path, wanted: Mapping[str, Any], seen: Sequence[Seen]) -> None:
    """Write what was asked for and what became of it, for a later --against."""
    file.parent.mkdir(parents=True, exist_ok=True)
    document = {"asked": wanted, "seeds": [asdict(seed) for seed in seen]}
    file.write_text(json.dumps(document, indent=1) + "\n")


def read_results(place: Path) -> tuple[dict[str, Any], list[Seen]]:
    """Return what `write_results` has written, to a file or into a directory.

    Raises InputError.
    """
    file = place / RESULTS if place.is_dir() else place
    if not file.is_file():
        raise InputError(f"{place}: no results: `openbach-run try … -o DIR` writes {RESULTS}")
    document = read_json(file)
    names = {field.name for field in fields(Seen)}
    kinds: Mapping[str, tuple[type, ...]] = {
        "seed": (int,),
        "time_s": (float, int, type(None)),
        "wrong": (str,),
    }
    try:
        rows = document["seeds"]
        for row in rows:
            if set(row) != names or not all(isinstance(row[key], kinds[key]) for key in kinds):
                raise TypeError
        return dict(document["asked"]), [Seen(**row) for row in rows]
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{file}: no results of `openbach-run try`") from None
