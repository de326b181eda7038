# SPDX-License-Identifier: GPL-3.0-or-later
"""The figure of a link file (rate, delay and loss of both directions) or of Es/N0 over time."""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from openbach_jobs import dvbs2, link_file
from openbach_run.drawing import COLOURS, SETTINGS, STYLES, WIDTH_IN
from openbach_run.link_checks import is_es_n0_file

# Without the date a figure of the same file is the same to the byte.
METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


def draw(file: Path, output: Path) -> None:
    """Draw one period of a link file, or a file of Es/N0.

    Raises LinkFileError or SeriesError, and ValueError for a figure of unknown kind.
    """
    kind_of(output)
    with matplotlib.rc_context(SETTINGS):
        save(_es_n0(file) if is_es_n0_file(file) else _link(file), output)


def kind_of(output: Path) -> str:
    """Return the kind of a figure, one of METADATA. Raises ValueError for another one."""
    kind = output.suffix.removeprefix(".")
    if kind not in METADATA:
        raise ValueError(f"{output}: a figure ends in .{', .'.join(METADATA)}")
    return kind


def save(figure: Figure, output: Path) -> None:
    """Write a figure. Raises ValueError."""
    kind = kind_of(output)
    # Under another name until it is whole: an error leaves no half figure.
    new = output.with_name(f".{output.name}.new")
    try:
        figure.savefig(new, format=kind, metadata=METADATA[kind])
        os.replace(new, output)
    except OSError as error:
        raise ValueError(f"{output}: {error.strerror}") from error
    finally:
        new.unlink(missing_ok=True)


def _es_n0(file: Path) -> Figure:
    """Return a figure of the Es/N0 of each terminal over time."""
    rows = sorted(dvbs2.read_series(file), key=lambda row: row[0])
    shown_s = rows[-1][0] or 1.0
    figure = Figure(figsize=(WIDTH_IN, 3.0))
    axes = figure.subplots()
    terminals = sorted({row[1] for row in rows}, key=lambda name: (len(name), name))
    for number, terminal in enumerate(terminals):
        own = [(time_s, es_n0_db) for time_s, whose, es_n0_db in rows if whose == terminal]
        times_s = [*(time_s for time_s, _ in own), shown_s]
        values_db = [*(es_n0_db for _, es_n0_db in own), own[-1][1]]
        colour = COLOURS[(number + 1) % len(COLOURS)]
        label = f"terminal {terminal}" if terminal != dvbs2.ALL else "all terminals"
        axes.step(times_s, values_db, where="post", color=colour, label=label)
    axes.set(ylabel="Es/N0 (dB)", xlabel="time (s)", title=file.name, xlim=(0, shown_s))
    axes.legend()
    return figure


def _link(file: Path) -> Figure:
    """Return a figure of a link file."""
    summary = link_file.check(file)
    shown_s = summary.duration_s or 1.0
    changes = list(
        takewhile(
            lambda change: change.time_s < shown_s or not summary.repeats, link_file.read(file)
        )
    )
    figure = Figure(figsize=(WIDTH_IN, 4.0))
    rates, delays, losses = figure.subplots(3, sharex=True, height_ratios=(3, 3, 1))
    for number, direction in enumerate(("forward", "return")):
        mine = [change for change in changes if change.direction == direction]
        times_s = [*(change.time_s for change in mine), shown_s]
        states = [*(change.state for change in mine), mine[-1].state]
        # A step: a link keeps its state until the next change, it does not glide.
        look = {
            "where": "post",
            "color": COLOURS[number + 1],
            "linestyle": STYLES[number],
            "label": direction,
        }
        rates.step(times_s, [state.rate_bps / 1e6 for state in states], **look)
        delays.step(times_s, [state.delay_ms for state in states], **look)
        losses.step(times_s, [state.loss_pct for state in states], **look)
    rates.set(ylabel="rate (Mbit/s)", title=file.name)
    rates.set_ylim(bottom=0)
    rates.legend()
    delays.set_ylabel("one-way delay (ms)" if summary.has_delay else "delay: the scenario's")
    losses.set(ylabel="loss (%)", xlabel="time (s)", xlim=(0, shown_s))
    losses.set_ylim(bottom=0)
    return figure
