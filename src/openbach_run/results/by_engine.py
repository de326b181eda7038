# SPDX-License-Identifier: GPL-3.0-or-later
"""Sentences that are true of the results of one engine only, in one place.

A kind of results is virtual time, a clock of this machine in the project's own kernel, this
machine's own kernel, or an OpenBACH platform. Reports and tables take from here what they say of
time, seeds, the path and the limits. A sentence names its kind, so that it is true beside others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from openbach_run.clock import REAL, VIRTUAL
from openbach_run.results.record import Record
from openbach_run.yaml_files import read_yaml

OWN_CLOCK, NATIVE, CONTROLLER, UNKNOWN = "real clock", "native", "controller", "unknown"
SAID: dict[str, dict[str, Any]] = read_yaml(Path(__file__).with_suffix(".yml"))
PATHS, SEEDS, TABLES = SAID["paths"], SAID["seeds"], SAID["tables"]
PAGES, LIMITS = SAID["pages"], SAID["limits"]
COMPARED = {True: SAID["compared"]["paired"], False: SAID["compared"]["unpaired"]}


def kind_of(record: Record) -> str:
    """Return the kind of results that a record is of."""
    engine = record.identity.get("engine")
    if record.clock == VIRTUAL:
        return VIRTUAL
    return OWN_CLOCK if engine == VIRTUAL else engine if engine in PATHS else UNKNOWN


def apart(record: Record) -> dict[str, str]:
    """Return engine or clock of a record as a command has them; {} in virtual time."""
    kind = kind_of(record)
    if kind in (NATIVE, CONTROLLER):
        return {"engine": kind}
    return {} if kind == VIRTUAL else {"clock": record.clock}


def options(values: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the options of a command that give the engine or clock of these values."""
    return [(f"--{name}", values[name]) for name in ("engine", "clock") if name in values]


def kinds_of(records: Iterable[Record]) -> list[str]:
    """Return the kinds of results that the records are of, each once."""
    return list(dict.fromkeys(map(kind_of, records)))


def where(kinds: Sequence[str]) -> list[str]:
    """Return where the runs were made, a sentence for each kind."""
    return [PATHS[kind].format(runs=_runs(kinds)) for kind in kinds]


def of_seeds(kinds: Sequence[str]) -> list[str]:
    """Return what a seed is, a sentence for each kind."""
    return [SEEDS[kind] for kind in kinds]


def compared(kinds: Sequence[str]) -> list[str]:
    """Return how two cells are compared, a sentence for seeds that pair and for others."""
    return [text for paired, text in COMPARED.items() if paired in map(VIRTUAL.__eq__, kinds)]


def pages(kinds: Sequence[str]) -> list[str]:
    """Return the folder or page of docs/ that has the method in full, for each kind."""
    return list(dict.fromkeys(PAGES.get(kind, "native") for kind in kinds))


def _runs(kinds: Sequence[str]) -> str:
    return "Some of the runs" if len(kinds) > 1 else "The runs"


def time_of(clock: str) -> str:
    """Return what the seconds of a clock are: `virtual time`, `time by the clock real/10`."""
    return f"{clock} time" if clock in (VIRTUAL, REAL) else f"time by the clock {clock}"


def limit(kinds: Sequence[str], text: str) -> str | None:
    """Return a limitation as it holds for results of these kinds: with whose it is; or None."""
    of = next((of for start, of in LIMITS.items() if text.startswith(start)), {*kinds})
    own = [kind for kind in kinds if kind in of]
    return text if len(own) == len(kinds) else f"({', '.join(own)}) {text}" if own else None
