# SPDX-License-Identifier: GPL-3.0-or-later
"""Sentences that are true of the results of one engine only, in one place.

A kind of results is virtual time, a clock of this machine in the project's own kernel, this
machine's own kernel, or an OpenBACH platform. Reports and tables take from here what they say of
time, seeds, the path and the limits. A sentence names its kind, so that it is true beside others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from openbach_run.clock import REAL, VIRTUAL
from openbach_run.results.record import Record

OWN_CLOCK, NATIVE, PLATFORM, UNKNOWN = "real clock", "native", "controller", "unknown"
GUEST, TREE = {VIRTUAL, OWN_CLOCK}, {VIRTUAL, OWN_CLOCK, NATIVE}
"""The kinds that run in the project's own kernel, and those that have its programs."""

PATHS = {
    VIRTUAL: (
        "The path runs in a User Mode Linux kernel in virtual time: the TCP stack, the queueing"
        " disciplines and the VPNs are the real ones, only the clock stands still while they"
        " compute. Capture hashes, wall times and how a guest ended are measured outside it;"
        " statuses, virtual times and measures are what the guests say."
    ),
    OWN_CLOCK: (
        "{runs} ran in a User Mode Linux kernel by a real clock: what else the machine does"
        " disturbs them, and the CPU costs what it costs there."
    ),
    NATIVE: (
        "{runs} ran in network namespaces of a machine's own kernel, in real time: the CPU costs"
        " what it costs there."
    ),
    PLATFORM: "{runs} were executed by an OpenBACH platform on real hosts, in real time.",
    UNKNOWN: "{runs} ran in real time, with an engine that the results do not name.",
}
"""Where the runs were made."""
SEEDS = {
    VIRTUAL: "In virtual time a seed gives all cells the same loss process.",
    OWN_CLOCK: "By a real clock the same seed gives other packets: it numbers a repetition.",
    NATIVE: "On a machine's own kernel the same seed gives other packets: it numbers a repetition.",
    PLATFORM: "The losses of a platform have no seed: a seed numbers a repetition.",
    UNKNOWN: "In real time the same seed gives other packets: it numbers a repetition.",
}
COMPARED = {
    True: (
        "Two cells in virtual time are compared seed by seed (paired): the figure is the median of"
        " their ratios, and the interval is that of the ratios."
    ),
    False: (
        "Two cells of which one is in real time are compared without pairs: the figure is the"
        " median of the ratios of every run of one to every run of the other, and the interval is"
        " that of the rank sums of Mann and Whitney, for cells that differ by one factor; of too"
        " few runs it goes from the least to the greatest ratio."
    ),
}
"""How two cells are compared, by whether their seeds pair."""
BUCKETS = "token buckets of ten packets (15400 bytes)"
TABLES = {
    OWN_CLOCK: (
        f"clock {{clock}}: another run gives other packets; {BUCKETS}, with real/N of an N-th, two"
        " at least"
    ),
    NATIVE: f"on this machine's own kernel, in real time; {BUCKETS}",
    PLATFORM: f"on an OpenBACH platform, in real time: losses have no seed; {BUCKETS}",
}
"""Notes below the table of a command."""
LIMITS = {
    "The CPU costs nothing.": {VIRTUAL},
    "No host is ever disturbed": {VIRTUAL},
    "Native results are those of one machine": {NATIVE},
    "A program that computes for ever stops time.": {VIRTUAL},
    "A program in the guest can overwrite the guest's kernel": GUEST,
    "One run, one CPU.": GUEST,
    "QUIC is that of nginx 1.26 and curl": TREE,
    "Keys follow from the seed.": TREE,
    "The packets depend on a kernel and a set of packages.": {VIRTUAL},
    "x86-64 Linux with seccomp is needed.": GUEST,
    "The boundary around a guest": GUEST,
    "With Landlock alone": GUEST,
    "A program that takes random numbers or time from the CPU itself": {VIRTUAL},
    "A program of yours that has other code for other CPUs": {VIRTUAL},
    "On a Dask cluster": {VIRTUAL},
}
"""How limitations of docs/limitations.md begin that are not of all results → the kinds they are of.
"""
PAGES = {VIRTUAL: "method", OWN_CLOCK: "native", NATIVE: "native", PLATFORM: "openbach"}
"""The folder or page of docs/ that has the method in full."""


def kind_of(record: Record) -> str:
    """Return the kind of results that a record is of."""
    engine = record.identity.get("engine")
    if record.clock == VIRTUAL:
        return VIRTUAL
    return OWN_CLOCK if engine == VIRTUAL else engine if engine in PATHS else UNKNOWN


def apart(record: Record) -> dict[str, str]:
    """Return engine or clock of a record as a command has them; {} in virtual time."""
    kind = kind_of(record)
    if kind in (NATIVE, PLATFORM):
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
