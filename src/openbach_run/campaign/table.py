# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a campaign, and its table: its main measure for each cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from pathlib import Path

from openbach_run.campaign.late import late
from openbach_run.campaign.model import USUAL, Campaign
from openbach_run.campaign.reading import GENERAL
from openbach_run.campaign.sub_runs import unfold_campaign
from openbach_run.guest.main import HOST_KERNEL
from openbach_run.link_checks import ORBIT
from openbach_run.openbach.extras import MEASURE
from openbach_run.openbach.measures import WORST, measure_of
from openbach_run.results import least_transfer_time as least
from openbach_run.results.intervals import estimate, figure, notes, without_brackets
from openbach_run.results.record import Record, not_locked, statistics
from openbach_run.results.seeds import WARNING
from openbach_run.results.tables import Table

MOST_COLUMNS = 6
"""The most columns of values in a table."""
NOTHING = "–"
MEDIANS = "medians of what jobs without measures.yml have sent"
ANY_UNIT = 6, "g"
"""Digits and format of figures whose size nobody knows: six significant digits."""
SIZES, ASKED = ("vpn_mtu", "mss_bytes"), "vpn_asked_mtu"
"""Columns of vpn, file_transfer and tcp_throughput, or their ends."""
MOST_COMBINATIONS = 12
"""The most combinations of values that a note names."""
FRAGMENTS, SIDES = "_fragments", ("forward", "return")
"""Columns of satcom_link: a side with the suffix _fragments."""
BY_FLOW = ("fq_codel", "cake")
"""Queues that tell flows apart."""


@dataclass(frozen=True)
class Result:
    """The outcome of a campaign: its directory and the records of its runs."""

    directory: Path
    campaigns: tuple[Campaign, ...]
    records: tuple[Record, ...]
    """The records that exist, in the order of the runs. A run that holds runs of other scenarios
    has one record for each of these."""
    failed: tuple[Record, ...] = ()
    """The records of the runs that failed now, and of sub-scenarios that failed in any run."""

    @property
    def tables(self) -> list[Table]:
        """Return the table of each campaign."""
        runs = self.directory / "runs"
        return [campaign_table(campaign, self.records, runs) for campaign in self._unfolded()]

    @cached_property
    def without_measure(self) -> list[str]:
        """Return a text for each campaign with runs that lack the measure which its table shows."""
        runs = self.directory / "runs"
        texts = [not_sent(campaign, self.records, runs) for campaign in self._unfolded()]
        return [text for text in texts if text]

    @property
    def is_good(self) -> bool:
        """Return whether no run has failed, or lacks the measure that its table shows."""
        return not self.failed and not self.without_measure

    def _unfolded(self) -> list[Campaign]:
        """Return its campaigns; that of a scenario which only starts another one is that one's."""
        return [unfold_campaign(campaign, self.records) for campaign in self.campaigns]


def campaign_table(
    campaign: Campaign, records: Sequence[Record], runs: Path | None = None
) -> Table:
    """Return the table of a campaign's main measure, from those of its records that exist.

    There is a row for each combination of the swept arguments but the last; the last makes the
    columns, unless that would be one long row. A scenario without arguments has one column, `run`.
    The title names the values that are neither swept nor the scenario's defaults. Where neither the
    scenario nor its jobs say what the main measure is, the table shows all measures. Its note knows
    from the directory `runs` what came too late.
    """
    if campaign.measure is None and (every := _all_measures(campaign, records)):
        return every
    by_cell = {tuple(cell.values()): list[Record]() for cell in campaign.cells}
    for record in records:
        if record.scenario == campaign.scenario.name:
            # Another campaign of the same command may have this scenario with other values.
            by_cell.get(_values(record.arguments, campaign.values), []).append(record)
    # Without a swept argument the first one makes the column.
    swept = campaign.swept or list(campaign.values)[:1]
    # One argument with many values reads better downwards.
    is_long = len(swept) == 1 and len(campaign.values[swept[0]]) > MOST_COLUMNS
    down, across = (swept, []) if is_long else (swept[:-1], swept[-1:])
    # In the order of the sweep.
    columns = list(dict.fromkeys(_values(cell, across) for cell in campaign.cells))
    rows: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
    figures: list[tuple[str, bool]] = []
    for cell in campaign.cells:
        shown = _cell(by_cell[tuple(cell.values())], campaign)
        rows.setdefault(_values(cell, down), {})[_values(cell, across)] = shown
        if len(campaign.seeds_of(cell)) > 1:
            figures.append((shown, campaign.has_chance(cell)))
    fixed = _fixed(campaign, swept)
    unnamed = campaign.measure_in_words if down else "run"
    listed = []
    for key, cells in rows.items():
        listed.append([*key, *(cells.get(values, "") for values in columns)])
    title = f"{campaign.scenario.name}: {campaign.measure_in_words}"
    return Table(
        f"{title} with {fixed}" if fixed else title,
        [*down, *("=".join((*across, *values)) or unnamed for values in columns)],
        listed,
        "; ".join(
            [
                _note(campaign),
                *without_brackets(figures),
                *_survivors(rows),
                *_notes_of_runs(campaign, list(chain(*by_cell.values())), runs),
            ]
        ),
        len(down),
    )


def _fixed(campaign: Campaign, swept: Sequence[str]) -> str:
    """Return the values that are neither swept nor the scenario's defaults: `loss=1, pep=B`."""
    in_file = campaign.scenario.sweep.get("defaults", {})
    defaults = {**GENERAL, **in_file, **campaign.constants}
    fixed = []
    for name, values in campaign.values.items():
        if name not in swept and values[0] != defaults.get(name):
            fixed.append(f"{name}={values[0]}")
    return ", ".join(fixed)


def _notes_of_runs(
    campaign: Campaign, records: Sequence[Record], runs: Path | None
) -> Iterator[str]:
    """Yield what a reader has to know of the runs in the table, which are the `records`."""
    with_steps = {name for name, preset in campaign.presets.items() if least.rate_steps(preset)}
    yield from least.notes(records, campaign.swept, with_steps)
    yield from _fragments(campaign, records)
    yield from _warnings(records)
    yield from _shares(records)
    yield from _sizes(campaign, records)
    yield from _clocks(records)
    yield from not_locked(records)
    if runs:
        yield from late(campaign, records, runs)


def _all_measures(campaign: Campaign, records: Sequence[Record]) -> Table | None:
    """Return a table of all measures of a scenario and its sub-scenarios; None without any.

    It has a row for each measure if each scenario has one cell, else a row for each cell with the
    first measures.
    """
    scenarios = (campaign.scenario.name, *campaign.sub_scenarios)
    done = [record for record in records if record.scenario in scenarios]
    columns = _measured(done)
    if not columns:
        return None
    swept = []
    for name in campaign.values:
        values_had = {record.arguments.get(name) for record in done}
        if len(values_had) > 1:
            swept.append(name)
    by_cell: dict[tuple[str, ...], list[Record]] = {}
    for record in done:
        by_cell.setdefault(
            (record.scenario, *(record.arguments.get(name, "") for name in swept)), []
        ).append(record)
    several = len({record.scenario for record in done}) > 1
    head = [*(["scenario"] if several else []), *swept]
    texts = [_note(campaign), MEDIANS, *_clocks(done), *not_locked(done)]
    rows = []
    for (scenario, *values), of_cell in by_cell.items():
        key = [*([scenario] if several else []), *values]
        if swept:
            rows.append(
                [*key, *(_shown(of_cell, column, *ANY_UNIT) for column in columns[:MOST_COLUMNS])]
            )
        else:
            rows += [
                [*key, column, _shown(of_cell, column, *ANY_UNIT)]
                for column in _measured(of_cell) or [NOTHING]
            ]
    if swept and (others := columns[MOST_COLUMNS:]):
        texts.append(f"results.csv has {len(others)} more columns: {', '.join(others)}")
    shown = columns[:MOST_COLUMNS] if swept else ["run"]
    labels = [*head, *([] if swept else ["measure"])]
    return Table(campaign.scenario.name, [*labels, *shown], rows, "; ".join(texts), len(labels))


def _measured(records: Sequence[Record]) -> list[str]:
    """Return the columns of those runs that have finished."""
    finished = [record for record in records if record.finished]
    return list(dict.fromkeys(chain(*(record.measures for record in finished))))


def _values(cell: Mapping[str, str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the values of a cell for some names."""
    return tuple(cell[name] for name in names)


def not_sent(campaign: Campaign, records: Sequence[Record], runs: Path) -> str | None:
    """Return a text on finished runs without the measure that the scenario shows; None without any.

    It says which runs they are, and what they sent.
    """
    finished = [run for run in records if run.finished and run.scenario == campaign.scenario.name]
    without = [run for run in finished if run.measures.get(campaign.measure or "") is None]
    _, measure = measure_of(campaign.measure or "", campaign.declared)
    if MEASURE not in campaign.scenario.sweep or not without or measure.absent:
        return None
    sent: dict[str, set[str]] = {}
    for line in statistics(runs / without[0].run_id):
        suffix = f" ({line['_metadata']['suffix']})" if line["_metadata"].get("suffix") else ""
        sent.setdefault(f"{line['_metadata']['job_name']}{suffix}", set()).update(
            line.keys() - {"_metadata"}
        )
    listed = (
        "\n  ".join(f"{job}: {', '.join(sorted(names))}" for job, names in sent.items())
        or "no statistic at all"
    )
    statistic = (
        "" if measure.statistic == campaign.measure else f" (of the statistic {measure.statistic})"
    )
    columns = (
        ", ".join(name for name, value in without[0].measures.items() if value is not None)
        or "none"
    )
    return (
        f"{campaign.scenario.name}: {len(without)} of {len(finished)} finished runs have no"
        f" {campaign.measure}{statistic}, which its table shows. The first of them"
        f" ({runs / without[0].run_id}) has the columns {columns}; its jobs sent\n  {listed}"
    )


def _cell(done: Sequence[Record], campaign: Campaign) -> str:
    """Return the text of a cell: median over the seeds, interval, number of failed runs."""
    tail = _has_tail(campaign)
    shown = _shown(done, campaign.measure or "", tail=tail)
    if absent := measure_of(campaign.measure or "", campaign.declared)[1].absent:
        values = [run.measures.get(campaign.measure or "") for run in done if run.finished]
        if without := values.count(None):
            counted = f"{shown} ({without} {absent})"
            return counted if without < len(values) else absent + _failed(done)
    ended = [record for record in done if record.finished]
    if sides := _sides(ended, campaign):
        each = (f"{name} {_shown(ended, column, tail=tail)}" for column, name in sides)
        shown = ", ".join(each) + _failed(done)
    has_finished = any(record.finished for record in done)
    return (
        "not sent"
        if shown in ("done", "failed") and has_finished and MEASURE in campaign.scenario.sweep
        else shown
    )


def _sides(done: Sequence[Record], campaign: Campaign) -> list[tuple[str, str]]:
    """Return column and name of each direction or flow, the worse first.

    There are none unless the measure is that of the worst one.
    """
    _, shown = measure_of(campaign.measure or "", campaign.declared)
    sides = []
    for column in _measured(done) if shown.take in WORST else []:
        suffix, measure = measure_of(column, campaign.declared)
        if suffix and (measure.statistic, measure.take) == (shown.statistic, "median"):
            values = [record.measures.get(column) for record in done]
            middle = estimate([value for value in values if value is not None])
            sides += [(middle.median, column, suffix.replace("_", " "))] if middle else []
    sides.sort(reverse=shown.better == "less")
    return [(column, name) for _, column, name in sides]


def _has_tail(campaign: Campaign) -> bool:
    """Return whether the greatest values of its measure are the bad ones."""
    return measure_of(campaign.measure or "", campaign.declared)[1].better == "less"


def _shown(
    done: Sequence[Record], column: str, digits: int = 2, form: str = "f", *, tail: bool = False
) -> str:
    """Return the median of a column over the runs and its interval, and how many failed, if any."""
    sent = [record.measures.get(column) for record in done if record.finished]
    values = [value for value in sent if value is not None]
    if not values:
        return "failed" if _failed(done) else ("done" if done else NOTHING)
    return figure(estimate(values), digits, form, tail=tail) + _failed(done)


def _failed(done: Sequence[Record]) -> str:
    """Return how many runs have failed; "" if none has."""
    failed = sum(not record.finished for record in done)
    return f" ({failed} failed)" if failed else ""


def _has_steps(campaign: Campaign, cell: Mapping[str, str]) -> bool:
    """Return whether the satellite of a cell has steps of the rate."""
    preset = campaign.presets.get(cell.get(ORBIT, ""))
    return preset is not None and least.rate_steps(preset)


def _least(campaign: Campaign, cell: Mapping[str, str]) -> str:
    """Return a text on the least transfer time of a cell, and what binds; "" if there is none."""
    if _has_steps(campaign, cell) or not (time_s := least.least_transfer_time_s(cell)):
        return ""
    at_least = f"at least {time_s:.2f} s for a size of {cell['size']}"
    rate = f"rate of {least.rate_of(cell)}"
    window_bytes, rtt_s, by_window_s = least.window_of(cell)
    if by_window_s < time_s:
        return f"{at_least} at a {rate} (Ethernet, IP and TCP headers; no slow start)"
    return (
        f"{at_least}: TCP's window binds, not the {rate}. It is at most {window_bytes / 1e6:.3g} MB"
        f" (tcp_buffer={cell['tcp_buffer']}) for each round trip of {1000 * rtt_s:g} ms,"
        f" {window_bytes * 8e-6 / rtt_s:.3g} Mbit/s a connection"
    )


def _fragments(campaign: Campaign, records: Sequence[Record]) -> list[str]:
    """Return a note if IP packets crossed the satellite in fragments; else an empty list."""
    done = [run for run in records if run.finished]
    in_pieces = []
    for run in done:
        count = sum(run.measures.get(f"{side}{FRAGMENTS}") or 0 for side in SIDES)
        if count:
            in_pieces.append((run, count))
    if not in_pieces:
        return []
    first, _ = in_pieces[0]
    most = max(count for _, count in in_pieces)
    values = " ".join(f"{name}={first.arguments[name]}" for name in campaign.swept)
    return [
        f"{len(in_pieces)} of {len(done)} runs had fragments of IP packets on the satellite, up to"
        f" {most:.0f}{f' (first: {values})' if values else ''}: columns"
        f" {', '.join(f'{side}{FRAGMENTS}' for side in SIDES)}"
    ]


def _survivors(rows: Mapping[tuple[str, ...], Mapping[tuple[str, ...], str]]) -> list[str]:
    """Return a note if cells have both finished and failed runs; else an empty list."""
    note = (
        "WARNING: a cell with (N failed) is the median of the runs that finished only: those that"
        " failed have no value, and may be the worst ones"
    )
    shown = (cell for cells in rows.values() for cell in cells.values())
    return [note] if any(cell.endswith(" failed)") for cell in shown) else []


def _warnings(records: Sequence[Record]) -> list[str]:
    """Return the warnings of VPNs that came up, each once."""
    warnings = {
        f"{record.arguments.get('vpn', 'VPN')} warns: {record.texts['vpn_warnings']}": None
        for record in records
        if record.finished and "vpn_warnings" in record.texts
    }
    return list(warnings)


def _shares(records: Sequence[Record]) -> list[str]:
    """Return a note on the first flow's share of the link; an empty list without flows."""
    sent = (record.measures.get("share_pct") for record in records)
    shares = [share for share in sent if share]
    if not shares:
        return []
    ends = " to ".join(dict.fromkeys(f"{share:.0f}" for share in (min(shares), max(shares))))
    return [f"while all flows went on, the first one had {ends} % of the goodput (share_pct)"]


def _sizes(campaign: Campaign, records: Sequence[Record]) -> list[str]:
    """Return notes on cells that differ in a tunnel's MTU or in the segment size of TCP.

    Each value stands with the fewest swept arguments that decide it. The last note is on MTUs that
    are smaller than the VPN's folder has them.
    """
    done = [run for run in records if run.finished]
    texts = []
    for column in sorted({name for run in done for name in run.measures if name.endswith(SIZES)}):
        having = [run for run in done if run.measures.get(column)]
        sizes = [(run.arguments, int(run.measures[column] or 0)) for run in having]
        if len({size for _, size in sizes}) > 1:
            texts.append(f"cells differ in {column}: {_by_values(campaign.swept, sizes)}")
    smaller: dict[tuple[str, int], set[int]] = {}
    for run in done:
        size, mtu = int(run.measures.get(SIZES[0]) or 0), int(run.measures.get(ASKED) or 0)
        if size < mtu:
            smaller.setdefault((run.arguments.get("vpn", "the VPN"), mtu), set()).add(size)
    return texts + [
        f"the MTU of {vpn}, {mtu}, was made smaller to fit the path:"
        f" {', '.join(map(str, sorted(sizes)))} (vpn.mtu={mtu} is taken as it is)"
        for (vpn, mtu), sizes in smaller.items()
    ]


def _by_values(swept: Sequence[str], sizes: Sequence[tuple[Mapping[str, str], int]]) -> str:
    """Return sizes with the values of the fewest arguments that decide them: `1460 (vpn=none)`."""
    for names in chain(*(combinations(swept, count) for count in range(len(swept) + 1))):
        decided: dict[tuple[str, ...], set[int]] = {}
        for values, size in sizes:
            decided.setdefault(_values(values, names), set()).add(size)
        if all(len(group) == 1 for group in decided.values()):
            break
    if len(decided) > MOST_COMBINATIONS:
        own = [size for _, size in sizes]
        return f"{min(own)} to {max(own)}, by {' and '.join(names)}"
    by_size: dict[int, list[str]] = {}
    for key, (size, *_) in decided.items():
        by_size.setdefault(size, []).append(" ".join(map("=".join, zip(names, key, strict=True))))
    shown = [f"{size} ({', '.join(by_size[size])})" for size in sorted(by_size)]
    return ", ".join(shown)


def _clocks(records: Sequence[Record]) -> list[str]:
    """Return notes on runs in real time, each kind of clock once."""
    from openbach_run.results import by_engine  # late, as it reads a file of YAML

    known = dict.fromkeys((by_engine.kind_of(record), record.clock) for record in records)
    tables = by_engine.TABLES
    notes = [tables[kind].format(clock=clock) for kind, clock in known if kind in tables]
    if any(
        record.identity.get("engine") == HOST_KERNEL and record.arguments.get("queue") in BY_FLOW
        for record in records
    ):
        notes.append(f"{' and '.join(BY_FLOW)} see into tunnels of this kernel (docs/native.md)")
    return notes


def _note(campaign: Campaign) -> str:
    """Return the note under a table: seeds, least possible transfer time, other remarks."""
    cells = campaign.cells if campaign.measure == USUAL else []
    every = dict.fromkeys(_least(campaign, cell) for cell in cells)
    parts = [text for text in every if text]
    if campaign.measure_instead and campaign.measure_instead[1] == campaign.measure:
        name = campaign.measure_instead[0]
        parts.append(
            f"{campaign.measure_in_words} in place of"
            f" {campaign.scenario.sweep.get(MEASURE, USUAL)}, as {name} is given (results.csv has"
            " both)"
        )
    if set(campaign.values.get("pep", ())) - {"none"}:
        parts.append(
            "PEP A: inside the tunnel's path, B: outside it, where TCP is in clear (our reading:"
            " docs/guide.md)"
        )
    if ending := [name for name in campaign.values.get("vpn", ()) if least.ends_tcp(name)]:
        parts.append(
            f"{' and '.join(ending)} ends TCP at both ends of the tunnel, as a PEP does: compare it"
            " with a VPN and a PEP"
        )
    seeds = notes(
        {len(campaign.seeds_of(cell)) for cell in campaign.cells}, tail=_has_tail(campaign)
    )
    if not seeds and campaign.has_random_link:
        parts.append(WARNING)
    return "; ".join([*(seeds or [f"seed {campaign.seeds[0]}"]), *parts])
