# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands for hosts, as a person gives them: on the command line, or in a script."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openbach_jobs.link_file import near
from openbach_run.errors import InputError

WAIT, JOB = "wait", "job"
COMMENT = "#"
APART = "&"


@dataclass(frozen=True)
class Command:
    """A command for a host; with `apart` the next one does not wait for its end."""

    host: str
    text: str
    apart: bool = False
    job: tuple[str, ...] = ()
    """Name and arguments of a command that is an OpenBACH job; () of another one."""
    needs: int | None = None
    """The number of a command that has to end well, or this one is not started."""

    @property
    def line(self) -> str:
        """Return the line of a script."""
        return f"{self.host} {self.text}{' &' if self.apart else ''}"

    def as_entry(self) -> Mapping[str, Any]:
        """Return what the guest gets (guest/typed.py)."""
        started = {"job": list(self.job)} if self.job else {"command": self.text}
        needs = {} if self.needs is None else {"needs": self.needs}
        return {"host": self.host, **started, **needs, "apart": self.apart}


@dataclass(frozen=True)
class Wait:
    """A wait for the end of all commands before."""

    line = WAIT

    def as_entry(self) -> Mapping[str, Any]:
        """Return what the guest gets (guest/typed.py)."""
        return {"wait": 1}


Entry = Command | Wait


def of_words(words: Sequence[str], hosts: Mapping[str, str]) -> list[Entry]:
    """Return the commands of `HOST COMMAND HOST COMMAND …`, each command one word.

    `hosts` has the names that a host is called by → its name. Raises InputError.
    """
    entries: list[Entry] = []
    rest = list(words)
    while rest:
        first = rest.pop(0)
        if first == WAIT:
            entries.append(Wait())
            continue
        place = f"command {len(entries) + 1}"
        # Before its host is looked for: an unquoted command shows as an unknown host.
        host = _host(first, hosts, place, "a command is one word: put it in quotes")
        if not rest:
            raise InputError(f"{place}: {first} has no command: HOST 'COMMAND'")
        entries.append(_command(host, rest.pop(0), place))
    return checked(entries)


def of_script(text: str, name: str, hosts: Mapping[str, str]) -> list[Entry]:
    """Return the commands of a script: a line `HOST COMMAND…` for each. Raises InputError.

    A line that begins with # says nothing; `wait` waits; a backslash at the end goes on in the next
    line.
    """
    entries: list[Entry] = []
    begun, first = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        first = first if begun else number
        begun += line
        if begun.endswith("\\"):
            begun = begun[:-1]
            continue
        words, begun = begun.strip(), ""
        if not words or words.startswith(COMMENT):
            continue
        if words == WAIT:
            entries.append(Wait())
            continue
        called, _, command = words.partition(" ")
        place = f"{name}, line {first}"
        host = _host(called, hosts, place, "a line is HOST COMMAND")
        entries.append(_command(host, command, place))
    if begun:
        raise InputError(f"{name}, line {first}: ends with a backslash, and nothing follows")
    return checked(entries)


def checked(entries: list[Entry]) -> list[Entry]:
    """Return the commands if they are some, and the last ones are waited for.

    Raises InputError.
    """
    if not any(isinstance(entry, Command) for entry in entries):
        raise InputError("no command: HOST 'COMMAND', as in: pc 'ping -c 5 server'")
    last = entries[-1]
    if isinstance(last, Command) and last.apart:
        raise InputError(
            f"{last.line}: the last command has &, so it would be ended at once: leave out the &,"
            f" or add `{WAIT}`, which waits for all that run"
        )
    return entries


def _host(called: str, hosts: Mapping[str, str], place: str, hint: str) -> str:
    if called not in hosts:
        names = ", ".join(dict.fromkeys(hosts.values()))
        raise InputError(
            f"{place}: no host {called!r}; {near(called, hosts)}there are {names} ({hint})"
        )
    return hosts[called]


def _command(host: str, text: str, place: str) -> Command:
    text = text.strip()
    apart = text.endswith(APART) and not text.endswith((APART * 2, "\\" + APART))
    command = text[: -len(APART)].strip() if apart else text
    if not command:
        raise InputError(f"{place}: an empty command for {host}")
    if "\0" in command:
        raise InputError(f"{place}: a NUL character in the command for {host}")
    return Command(host, command, apart, _job(command, place))


def _job(text: str, place: str) -> tuple[str, ...]:
    """Return the words of `job NAME ARGUMENT…` without the first one; () of other commands."""
    if text.split()[0] != JOB:
        return ()
    try:
        words = shlex.split(text)[1:]
    except ValueError as error:
        raise InputError(f"{place}: {text}: {error}") from None
    if not words:
        raise InputError(f"{place}: {JOB} NAME ARGUMENT…, as in: job path_ready 192.168.20.2")
    return tuple(words)


def check_jobs(entries: Sequence[Entry], jobs: Collection[str]) -> None:
    """Raise InputError for a job that is none of these, which the hosts have."""
    for entry in entries:
        if isinstance(entry, Command) and entry.job and entry.job[0] not in jobs:
            name = entry.job[0]
            raise InputError(
                f"{entry.line}: the hosts have no job {name}; {near(name, jobs)}there are"
                f" {', '.join(sorted(jobs))}"
            )


def in_words(code: int) -> str:
    """Return how a command ended."""
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
