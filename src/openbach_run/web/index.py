# SPDX-License-Identifier: GPL-3.0-or-later
"""The index of all results below the results directory, whoever made them.

It fills the tables cell, run, measured, folder and planned of the database. It follows the
directories: to look costs little where nothing has changed, and only new records are read. If it is
lost, nothing else is lost: it is made again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple, TypeVar, cast

from openbach_run.campaign.sub_runs import unfold
from openbach_run.openbach.measures import flat, measure_of
from openbach_run.results import campaign_file, packed_runs, run_files
from openbach_run.results.measures import measures_of
from openbach_run.results.record import Record
from openbach_run.results.run_files import DamagedRecord
from openbach_run.results.store import Store
from openbach_run.web.store import Database

EVERY_S = 1.0
"""The time between two looks if nobody asks."""
BATCH = 100
"""The records that are read in one transaction, for which other threads wait."""
SETTLED_S = 0.05
"""A directory that was changed within this time before the look may have been changed again: time
stamps are that coarse."""
DELETED = ".deleted"
"""The folder in which deleted folders lie until they are removed for good."""
LISTED_VALUES = 200
"""The most values of a setting in the summary of a folder."""
MOST_KNOWN = 10_000
"""The most cells that are kept in memory, at some 2 kB each."""
REMEMBERED = 12
"""The most lists of a set's runs, or of their values, that are kept: five make a heat map."""
T = TypeVar("T")
MEMBER = "INSERT OR REPLACE INTO member VALUES (?, ?, ?, ?, ?, ?)"
"""The statement that adds a run to a launch."""
SQL_LIMIT = 30_000
"""The most values in one SQL statement."""
LARGEST_NUMBER = 1e150
"""The largest number of a statistic: its squares can be added up. What is not finite is larger."""


class Cell(NamedTuple):
    """A row of table cell."""

    key: str
    scenario: str
    values: dict[str, str]


class Index:
    """A keeper of the index, which follows the results directories.

    `look` may be called from any thread. `start` begins a thread that looks until `close`.
    """

    def __init__(self, database: Database, results: Path) -> None:
        self._database, self._results = database, results
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._stores: dict[str, Store] = {}
        self._words: set[str] = set()
        self._plans: dict[str, str] = {}
        """Folder → the time of its campaign.json that was read."""
        self._cells: dict[str, int] = {}
        """Folder → the number of cells of which its summary is."""
        self._known: dict[int, Cell] = {}
        """Cells that were read lately; a cell never changes."""
        self._remembered: dict[tuple[str, ...], tuple[int | None, Any]] = {}
        self.version = 0
        """A number that grows after every change."""
        self.behind = 0
        """The number of records that are still to be read."""
        self.running: dict[str, set[str]] = {}
        """Folder → run_ids of its runs that have not ended."""

    def start(self) -> None:
        """Begin the thread that looks from time to time."""
        self._thread.start()

    def close(self) -> None:
        """End that thread."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _follow(self) -> None:
        """Look from time to time, until `close`."""
        while not self._ending.wait(EVERY_S):
            try:
                self.look()
            except Exception:  # the database is full, say: it may be better later
                logging.getLogger(__name__).exception("the index of results")

    def look(self, limit_s: float = float("inf"), wait_s: float = 0) -> None:
        """Bring the index up to date, or as far as the time allows.

        With a limit it does nothing if another look goes on, and does not end within `wait_s`.
        """
        # Two looks at a time would read the same records.
        if not self._lock.acquire(timeout=-1 if limit_s == float("inf") else wait_s):
            return
        try:
            end_s = time.monotonic() + limit_s
            places = [place for place in self._results.iterdir() if (place / "runs").is_dir()]
            folders = {place.name: place for place in places}
            known = self._database.pairs("SELECT name, seen FROM folder")
            # Somebody has removed or renamed them.
            for name in known.keys() - folders.keys():
                self._forget(name)
            self.behind = 0
            for name, place in folders.items():
                if _seen(place) != known.get(name):
                    self._read(name, place, end_s)
        finally:
            self._lock.release()

    def _forget(self, folder: str) -> None:
        """Remove a folder that no longer exists from the index."""
        with self._database.transaction():
            of_it = "SELECT id FROM run WHERE folder = ?"
            self._database.execute(f"DELETE FROM measured WHERE run IN ({of_it})", folder)
            for table, column in (("run", "folder"), ("planned", "folder"), ("folder", "name")):
                self._database.execute(f"DELETE FROM {table} WHERE {column} = ?", folder)
        for known in (self._stores, self._plans, self._cells, self.running):
            known.pop(folder, None)
        self.version += 1

    def _read(self, folder: str, place: Path, end_s: float) -> None:
        """Read what is new in a folder, until `end_s`."""
        seen, looked_s = _seen(place), time.time()
        with os.scandir(place / "runs") as entries:
            # One call for the whole directory: it may have 20 000 runs.
            inodes = {entry.name: entry.inode() for entry in entries}
        inodes.pop(packed_runs.FOLDER, None)
        # A packed run has the time of its record in place of an inode.
        for name, packed in packed_runs.index_of(place / "runs").runs.items():
            inodes.setdefault(name, -packed.time_s)
        self.running[folder] = {
            name.removesuffix(".unfinished") for name in inodes if name.endswith(".unfinished")
        }
        # Runs that go on, have failed or were replaced have an ending after a ".".
        files = {
            name: inode
            for name, inode in inodes.items()
            if "." not in name and not name.startswith("stopped-")
        }
        known = self._database.pairs("SELECT run_id, inode FROM run WHERE folder = ?", folder)
        # A run that was repeated has a new directory under its name: another inode.
        gone = [name for name, inode in known.items() if files.get(name) != inode]
        new = [name for name in files if known.get(name) != files[name]]
        with self._database.transaction():
            for name in gone:
                self._remove(folder, name)
            if self._plans.get(folder) != (planned := seen.partition(" ")[2]):
                self._plan(folder, place)
                self._plans[folder] = planned
        self.version += 1
        for first in range(0, len(new), BATCH):
            self.behind += 0 if first else len(new)
            with self._database.transaction():
                for name in new[first : first + BATCH]:
                    self._add(folder, place, name, files[name])
            self.behind -= len(new[first : first + BATCH])
            self.version += 1
            if time.monotonic() > end_s or self._ending.is_set():
                return
        # An empty `seen` makes the next look read the folder again.
        newest_s = max(map(float, seen.split()))
        self._summarise(folder, seen if looked_s - newest_s > SETTLED_S else "")
        self.version += 1

    def _remove(self, folder: str, run_id: str) -> None:
        """Remove a run with all of its parts."""
        of_it = "SELECT id FROM run WHERE folder = ? AND run_id = ?"
        self._database.execute(f"DELETE FROM measured WHERE run IN ({of_it})", folder, run_id)
        self._database.execute("DELETE FROM run WHERE folder = ? AND run_id = ?", folder, run_id)

    def _add(self, folder: str, place: Path, run_id: str, inode: int) -> None:
        """Add a record. One that this version does not understand gets no row."""
        store = self._stores.setdefault(folder, Store(place))
        run_dir = place / "runs" / run_id
        record = store.load(run_id)
        if record is None:
            return
        try:
            ended = -inode if inode < 0 else (run_dir / "record.json").stat().st_mtime
            for part, of_part in enumerate(unfold(record, run_dir)):
                cell = self.cell(of_part.scenario, of_part.arguments)
                how = of_part.status, _plain(of_part.error), of_part.virtual_s, of_part.wall_s
                values = folder, run_id, part, cell, of_part.seed, *how, ended, inode
                row = self._database.execute(
                    f"INSERT OR REPLACE INTO run VALUES (NULL{', ?' * len(values)})", *values
                )
                measures = of_part.measures.items()
                self._database.execute_many(
                    "INSERT OR REPLACE INTO measured VALUES (?, ?, ?)",
                    [(row, name, float(value)) for name, value in measures if is_drawable(value)],
                )
            self._learn_words(record)
        # Of another version, or damaged.
        except (OSError, TypeError, ValueError, AttributeError) as error:
            logging.getLogger(__name__).warning("%s: is not shown: %s", run_dir, error)

    def _learn_words(self, record: Record) -> None:
        """Store the words of measures that are new."""
        if new := record.measures.keys() - self._words:
            declared = flat(measures_of(record))
            rows = []
            for name in new:
                suffix, measure = measure_of(name, declared)
                words = f"{suffix.replace('_', ' ')} {measure.words}".strip()
                rows.append((name, words, measure.better or ""))
            self._database.execute_many("INSERT OR REPLACE INTO measure VALUES (?, ?, ?)", rows)
            self._words |= new

    def cell(self, scenario: str, values: Mapping[str, str]) -> int:
        """Return the id of a cell, which is added if it is new."""
        key = cell_key(scenario, values)
        row = self._database.row("SELECT id FROM cell WHERE key = ?", key)
        if row is not None:
            return int(row["id"])
        text = json.dumps(dict(values))
        number = self._database.execute(
            'INSERT INTO cell (key, scenario, "values") VALUES (?, ?, ?)', key, scenario, text
        )
        settings = [(number, _plain(name), _plain(str(value))) for name, value in values.items()]
        self._database.execute_many("INSERT OR IGNORE INTO setting VALUES (?, ?, ?)", settings)
        return number

    def remembered(self, key: tuple[str, ...], make: Callable[[], T]) -> T:
        """Return the result of `make`, computed again only after a change of the results.

        Only the results for the keys that were asked for last are kept.
        """
        version, value = self._remembered.pop(key, (None, None))
        if version != self.version:
            version, value = self.version, make()
        self._remembered[key] = version, value
        for oldest in list(self._remembered)[:-REMEMBERED]:
            self._remembered.pop(oldest, None)
        return cast(T, value)

    def cells_by_id(self, ids: Sequence[int]) -> dict[int, Cell]:
        """Return the cells in the order of the ids."""
        # All at once: what a page needs is soon read again.
        if len(self._known) > MOST_KNOWN:
            self._known = {}
        known = self._known
        new = [number for number in ids if number not in known]
        for first in range(0, len(new), SQL_LIMIT):
            some = new[first : first + SQL_LIMIT]
            for row in self._database.rows_of("SELECT * FROM cell WHERE id IN ({})", some):
                # Thousands of cells have the same few names and values.
                values = json.loads(row["values"]).items()
                values = {intern(name): intern(str(value)) for name, value in values}
                known[row["id"]] = Cell(row["key"], row["scenario"], values)
        return {number: known[number] for number in ids if number in known}

    def _plan(self, folder: str, place: Path) -> None:
        """Store the runs that the last command in a folder was to run."""
        self._database.execute("DELETE FROM planned WHERE folder = ?", folder)
        command = ""
        broken = DamagedRecord, ValueError, KeyError, TypeError, AttributeError
        # A campaign.json of another version, or half of one: the folder is shown without its plan.
        with suppress(OSError, RecursionError, OverflowError, *broken):
            for kind, content in campaign_file.parts(place):
                if kind == "command":
                    command = str(content)
                else:
                    cell = self.cell(content["scenario"], content["arguments"])
                    values = folder, content["run_id"], cell, content["seed"]
                    sql = "INSERT OR REPLACE INTO planned VALUES (?, ?, ?, ?)"
                    self._database.execute(sql, *values)
        self._database.execute(
            "INSERT INTO folder VALUES (?, '', ?, '[]', '{}') ON CONFLICT (name) DO UPDATE SET"
            " command = excluded.command",
            folder,
            _plain(command),
        )

    def _summarise(self, folder: str, seen: str) -> None:
        """Store a folder's scenarios, the settings its cells differ in, and when it was seen."""
        of_it = (
            "SELECT cell FROM run WHERE folder = ? UNION SELECT cell FROM planned WHERE folder = ?"
        )
        count = self._database.rows(f"SELECT COUNT(*) AS cells FROM ({of_it})", folder, folder)[0][
            "cells"
        ]
        # Nearly always the same number means the same cells, and a summary that is a little old
        # does no harm.
        if self._cells.get(folder) == count:
            self._database.execute("UPDATE folder SET seen = ? WHERE name = ?", seen, folder)
            return
        rows = self._database.rows(
            f'SELECT scenario, "values" FROM cell WHERE id IN ({of_it}) ORDER BY id', folder, folder
        )
        scenarios, values = differing(
            [(row["scenario"], json.loads(row["values"])) for row in rows]
        )
        shown = {name: listed[:LISTED_VALUES] for name, listed in values.items()}
        sql = 'UPDATE folder SET seen = ?, scenarios = ?, "values" = ? WHERE name = ?'
        self._database.execute(sql, seen, json.dumps(scenarios), json.dumps(shown), folder)
        self._cells[folder] = count


def is_drawable(value: Any) -> bool:
    """Return whether a statistic is a number that JSON and a chart can hold."""
    return run_files.is_number(value) and abs(value) < LARGEST_NUMBER


def _seen(place: Path) -> str:
    """Return when a folder's runs and its campaign.json last changed: two times in s since 1970."""
    times = []
    for name in ("runs", campaign_file.FILE):
        try:
            times.append((place / name).stat().st_mtime_ns / 1e9)
        except OSError:
            times.append(0.0)
    return " ".join(f"{seconds:.9f}" for seconds in times)


def cell_key(scenario: str, values: Mapping[str, str]) -> str:
    """Return the key by which a cell is named in addresses."""
    text = json.dumps([scenario, dict(values)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differing(
    cells: Sequence[tuple[str, Mapping[str, str]]],
) -> tuple[list[str], dict[str, list[str]]]:
    """Return the scenarios of cells, and the settings that differ, with their values."""
    scenarios = list(dict.fromkeys(scenario for scenario, _ in cells))
    values_by_name: dict[str, dict[str, None]] = {}
    for _, values in cells:
        for name, value in values.items():
            values_by_name.setdefault(name, {})[str(value)] = None
    several = {name: list(values) for name, values in values_by_name.items() if len(values) > 1}
    return scenarios, several


def _plain(text: str | None) -> str | None:
    """Return text that UTF-8 can hold; a guest's text may be otherwise."""
    return None if text is None else text.encode(errors="replace").decode()
