# SPDX-License-Identifier: GPL-3.0-or-later
"""README.md of an artifact: what a stranger needs to judge its results, from start to end."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from openbach_run.bundle.artifact import Chosen, Claimed, Figure, Said
from openbach_run.report.cells import printable
from openbach_run.results.intervals import Estimate
from openbach_run.results.tables import figure as shown

COLUMNS = 96
QUICK_MIN = 10
"""Minutes in which a stranger has to see that it works."""
NO_LICENCE = "Their authors name no licence for the results."


@dataclass(frozen=True)
class About:
    """Facts on an artifact besides its results."""

    title: str
    version: str
    commands: Sequence[str]
    """Those that made the results."""
    kernel: str
    packages: int
    memory: str
    """Of a run."""
    unpacked_mb: int
    unpacked_s: float
    bundle_mb: int
    licence: str
    """Of the results; "" if none is named."""
    quick: Sequence[Chosen]


def readme(said: Said, about: About) -> str:
    """Return the text of README.md."""
    runs = sum(len(one.seeds) for one in said.figures)
    parts = [
        f"# {_plain(about.title)}",
        "",
        *_beginning(said, about, runs),
        *_claims(said.claims),
        *_figures(said.figures),
        *_full(said.figures, runs),
        *_environment(about),
        *_rest(about),
    ]
    return "\n".join(parts) + "\n"


def _beginning(said: Said, about: About, runs: int) -> list[str]:
    first = min(said.figures, key=lambda one: sum(one.wall_s))
    quick = sum(len(one.seeds) for one in about.quick)
    quick_s = sum(one.wall_s for one in about.quick)
    return [
        *_text(
            f"The results of {runs} runs in a testbed for satellite links, VPNs and proxies, and"
            " the testbed itself as one program, `openbach`. It runs on any x86-64 Linux, without"
            " installation, network, root or special hardware. Its time is virtual, so every run"
            " gives the same packets and the same figures on every machine, however slow or loaded."
        ),
        f"## Kick the tyres, in {QUICK_MIN} minutes",
        "",
        "In this directory:",
        "",
        "    sha256sum --quiet --check SHA256SUMS",
        "    ./openbach --version",
        f"    ./openbach artifact --verify . --minutes {QUICK_MIN}",
        "",
        *_text(
            "The first command prints nothing. The second unpacks the program, once"
            f" ({about.unpacked_s:.0f} s, {about.unpacked_mb} MB where this was made), and prints"
            f" `openbach-run {about.version}`. The third checks that the figures below follow from"
            f" the records in `results/`, repeats {quick} of the {runs} runs ({_time(quick_s)} of"
            " one CPU where they were made) and compares every measure and every packet. It prints"
            " a line for each figure, and ends with `all the same` and exit code 0."
        ),
        f"One figure by hand, {first.name} of the table below:",
        "",
        f"    ./openbach {printable(first.command)}",
        "",
        *_text(f"prints this value: {_value(first)}."),
    ]


def _claims(claims: Sequence[Claimed]) -> list[str]:
    if not claims:
        return []
    lines = [
        "## Claims",
        "",
        "A claim compares figures. `--only` repeats all runs that it needs.",
        "",
        "| claim | command | found | bounds | tolerance |",
        "|---|---|---|---|---|",
    ]
    for one in claims:
        values = [value for _, value in one.comparisons if value is not None]
        ends = (
            dict.fromkeys(f"{value:.4g}" for value in (min(values), max(values))) if values else {}
        )
        number = f" ({len(values)} comparisons)" if len(values) > 1 else ""
        found = f"{one.verdict}: {one.kind} {' to '.join(ends) or 'not measured'}{number}"
        command = f"`./openbach artifact --verify . --only '{one.name.partition(' ')[0]}'`"
        text = f"**{one.name}** {one.statement} {one.says}"
        cells = [text, command, found, one.bounds, "none: equal in all digits"]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return [*lines, ""]


def _figures(figures: Sequence[Figure]) -> list[str]:
    lines = [
        "## Figures",
        "",
        *_text(
            "The median over the seeds, and its 95 % bootstrap interval where there are several."
            " The command prints it in its table. `figures.json` has all digits, and how long each"
            " run took."
        ),
        "| figure | command | value | tolerance | time |",
        "|---|---|---|---|---|",
    ]
    for one in figures:
        command = f"`./openbach {one.command}`"
        time = _time(sum(one.wall_s))
        cells = [one.name, command, _value(one), "none: equal in all digits", time]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return [*lines, ""]


def _value(one: Figure) -> str:
    """Return a figure's value as a table has it."""
    failed = f"{one.failed} of {len(one.seeds)} runs fail" if one.failed else ""
    if one.median is None:
        whole = f"a table of {one.parts} values" if one.parts else "no measure: the packets"
        return failed or whole
    found = Estimate(one.median, one.low, one.high, len(one.seeds))
    value = f"{one.title} {shown(found)} {one.unit}".strip()
    return ", ".join(filter(None, [value, failed]))


def _full(figures: Sequence[Figure], runs: int) -> list[str]:
    total_s = sum(sum(one.wall_s) for one in figures)
    return [
        "## The full run",
        "",
        "    ./openbach artifact --verify . --results again",
        "",
        *_text(
            f"repeats all {runs} runs. Where they were made they took {_time(total_s)} of one CPU:"
            f" about {_time(total_s / 2)} on two CPUs, {_time(total_s / 8)} on eight. After an"
            " interruption the same command goes on with the runs that are missing in `again`."
            " `--only F1,F7` repeats the runs of some figures."
        ),
    ]


def _environment(about: About) -> list[str]:
    rows = [
        ("program", f"openbach-run {about.version}, `openbach`, {about.bundle_mb} MB"),
        ("machine", "x86-64; any number of CPUs; no KVM"),
        (
            "system",
            "Linux 4.18 or later with user namespaces, or Linux 6.12 or later with Landlock;"
            " the program says which setting is missing",
        ),
        ("memory", f"{about.memory}; this for each of the runs at a time, one on each CPU"),
        ("disk", f"{about.unpacked_mb} MB in `~/.cache/openbach-run`, and 0.1 MB for each run"),
        ("network", "none"),
        ("kernel of the hosts", about.kernel),
        ("packages of the hosts", f"{about.packages} of Debian; each record names them"),
    ]
    lines = [f"| {_cell(name)} | {_cell(text)} |" for name, text in rows]
    return ["## Environment", "", "| | |", "|---|---|", *lines, ""]


def _rest(about: About) -> list[str]:
    commands = [f"    {printable(one)}" for one in about.commands]
    return [
        "## What is here",
        "",
        "| | |",
        "|---|---|",
        "| `openbach` | the testbed, with the sources of its own programs in it |",
        "| `results/` | the records of all runs: values, measures, versions, statistics, logs |",
        "| `figures.json` | the two tables above, for programs |",
        "| `claims.yml` | the claims, and how each is judged |",
        "| `report/` | the technical report of the results |",
        "| `SHA256SUMS` | the hash of every file |",
        "",
        "The results were made by",
        "",
        *commands,
        "",
        "## Licence",
        "",
        *_text(
            "The program is under the GPL, version 3 or later (`LICENSE`), its kernel under"
            " version 2. The licences of the Debian and Python packages in it, and a list of them"
            " all (`sbom.spdx.json`), are in the directory into which it unpacks itself."
            f" {_plain(about.licence) or NO_LICENCE}"
        ),
    ]


def _text(paragraph: str) -> list[str]:
    """Return the lines of a paragraph, and an empty one."""
    lines = textwrap.wrap(paragraph, COLUMNS, break_long_words=False, break_on_hyphens=False)
    return [*lines, ""]


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _plain(text: str) -> str:
    """Return a text that is one line and no Markdown."""
    return printable(text).replace("<", "&lt;")


def _cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return _plain(text).replace("|", "\\|")
