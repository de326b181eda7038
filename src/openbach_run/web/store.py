# SPDX-License-Identifier: GPL-3.0-or-later
"""The local controller's database: projects, scenarios and their versions, launches, instances.

It also has names, notes and tags of results, and an index of the records, so that a page of 20 000
runs need not read them.

It is one SQLite file. How an instance went is not in it but in its record's events; here are only
its ids, state and dates, and the ids by which the API calls its jobs and sub-scenarios (a record
numbers its own from 1).
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from openbach_run.errors import InputError
from openbach_run.openbach.scenario import Scenario

SCHEMA = """
CREATE TABLE IF NOT EXISTS project (name TEXT PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS version (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL,       -- as it was sent
    stored TEXT NOT NULL        -- as the API gives it back
);
CREATE TABLE IF NOT EXISTS scenario (
    project TEXT NOT NULL REFERENCES project ON DELETE CASCADE,
    name TEXT NOT NULL,
    version INTEGER NOT NULL REFERENCES version,
    favourite INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (project, name)
);
CREATE TABLE IF NOT EXISTS launch (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project TEXT NOT NULL,
    scenario TEXT NOT NULL,
    created TEXT NOT NULL,
    "values" TEXT NOT NULL,     -- JSON: argument -> list of values
    seeds TEXT NOT NULL         -- JSON: list, or null for the default
);
CREATE TABLE IF NOT EXISTS instance (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner INTEGER,              -- the instance that was launched; of that one, itself
    parent INTEGER,             -- the instance that started this one
    number INTEGER NOT NULL,    -- in the record: 1 for the one that was launched
    launch INTEGER,
    project TEXT NOT NULL,
    scenario TEXT NOT NULL,
    versions TEXT NOT NULL,     -- JSON: scenario and sub-scenarios by name -> version
    arguments TEXT NOT NULL,    -- JSON
    seed INTEGER NOT NULL,
    status TEXT NOT NULL,
    start_date TEXT NOT NULL,
    stop_date TEXT,
    run_dir TEXT NOT NULL DEFAULT '',
    error TEXT,
    UNIQUE (owner, number)
);
CREATE INDEX IF NOT EXISTS instance_of_project ON instance (project, scenario, id);
CREATE INDEX IF NOT EXISTS instance_of_launch ON instance (launch);
CREATE INDEX IF NOT EXISTS instance_of_parent ON instance (parent);
CREATE TABLE IF NOT EXISTS job (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner INTEGER NOT NULL REFERENCES instance ON DELETE CASCADE,
    number INTEGER NOT NULL,    -- in the record
    name TEXT NOT NULL,
    UNIQUE (owner, number)
);

-- What lies in the results directory, of whoever made it: kept by index.py, made again if lost.
CREATE TABLE IF NOT EXISTS cell (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,   -- of scenario and values: in addresses
    scenario TEXT NOT NULL,
    "values" TEXT NOT NULL      -- JSON: argument or constant -> value
);
CREATE TABLE IF NOT EXISTS setting (
    cell INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (cell, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS setting_of_value ON setting (name, value, cell);
CREATE TABLE IF NOT EXISTS run (
    id INTEGER PRIMARY KEY,
    folder TEXT NOT NULL,       -- results/<folder>/runs/<run_id>
    run_id TEXT NOT NULL,
    part INTEGER NOT NULL,      -- of a scenario that starts others, which of these; else 0
    cell INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    virtual_s REAL NOT NULL,
    wall_s REAL NOT NULL,
    ended REAL NOT NULL,        -- s since 1970
    inode INTEGER NOT NULL,     -- of its directory: a run that is repeated has another one
    UNIQUE (folder, run_id, part)
);
CREATE INDEX IF NOT EXISTS run_of_cell ON run (cell, folder);
CREATE INDEX IF NOT EXISTS run_of_folder ON run (folder, status, ended);
CREATE TABLE IF NOT EXISTS measured (
    run INTEGER NOT NULL,
    name TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (run, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS measure (
    name TEXT PRIMARY KEY,
    words TEXT NOT NULL,
    better TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS folder (
    name TEXT PRIMARY KEY,
    seen TEXT NOT NULL,         -- times at which its files were last changed
    command TEXT NOT NULL,
    scenarios TEXT NOT NULL,    -- JSON: names
    "values" TEXT NOT NULL      -- JSON: what its cells differ in
);
CREATE TABLE IF NOT EXISTS planned (
    folder TEXT NOT NULL,       -- by the last command there
    run_id TEXT NOT NULL,
    cell INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    PRIMARY KEY (folder, run_id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS member (
    launch INTEGER NOT NULL,
    folder TEXT NOT NULL,
    run_id TEXT NOT NULL,
    cell INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    instance INTEGER NOT NULL,  -- the latest one that executes it
    PRIMARY KEY (launch, folder, run_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS mark (
    item TEXT PRIMARY KEY,      -- launch/<number>, folder/<name>; compare/<hash>: note is its query
    name TEXT NOT NULL DEFAULT '',
    note TEXT NOT NULL DEFAULT '',
    tags TEXT NOT NULL DEFAULT '',
    deleted TEXT NOT NULL DEFAULT ''
);
"""
FORMAT = 1
SCHEDULING, RUNNING, STOPPED, FINISHED_KO = "Scheduling", "Running", "Stopped", "Finished Ko"
LARGEST_ID = 2**63 - 1

Row = sqlite3.Row


class _Damaged(Exception):
    """The file is no database, or no longer one."""


def _opened(file: Path) -> sqlite3.Connection:
    """Open and check the file. Raises _Damaged, sqlite3.Error."""
    # Several threads use it, one at a time; transactions are begun and ended here, not by Python.
    connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
    connection.row_factory = Row
    try:
        connection.executescript(
            # After a loss of power the last transactions may be missing, but the file is whole.
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
        )
        connection.executescript(SCHEMA)
        (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok":
            raise _Damaged(state)
        # This also tells whether it can be written.
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    except sqlite3.DatabaseError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise _Damaged(error) from error
        raise
    except _Damaged:
        connection.close()
        raise
    return connection


def _put_aside(file: Path) -> Path:
    """Rename the file, with what SQLite keeps beside it, and return its new name."""
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%S.%f")
    kept = file.with_name(f"{file.name}.damaged-{date}")
    # The file itself is the last: a new one must not meet the log of the old one.
    for ending in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            file.with_name(file.name + ending).rename(kept.with_name(kept.name + ending))
    return kept


class Database:
    """The database. Several threads may use it: it serves one of them at a time."""

    def __init__(self, file: Path) -> None:
        """Open the file; a damaged one is kept under another name, and a new one is begun.

        Raises InputError for a file that cannot be written.
        """
        self._lock = threading.RLock()
        try:
            try:
                self._connection = _opened(file)
            except _Damaged as damage:
                kept = _put_aside(file)
                text = (
                    "%s is damaged (%s): it is kept as %s, and a new one begun. Its launches and"
                    " imported scenarios are "
                )
                logging.getLogger(__name__).error(
                    text + "not shown; the records of all runs are there", file, damage, kept
                )
                self._connection = _opened(file)
        except (sqlite3.Error, OSError, _Damaged) as error:
            raise InputError(f"{file}: {error}; --results DIR names another place") from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the database: what is done meanwhile is stored as a whole or, on an error, not."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def rows(self, sql: str, *values: Any) -> list[Row]:
        """Return the rows of a query."""
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: Any) -> Row | None:
        """Return the first row, or None."""
        with self._lock:
            row: Row | None = self._connection.execute(sql, values).fetchone()
            return row

    def pairs(self, sql: str, *values: Any) -> dict[Any, Any]:
        """Return the rows of a query for two columns, the second one by the first."""
        return dict(map(tuple, self.rows(sql, *values)))

    def rows_of(self, sql: str, numbers: Collection[Any]) -> list[Row]:
        """Return the rows of a query whose `{}` is a list of these numbers."""
        return self.rows(sql.format(",".join("?" * len(numbers))), *numbers)

    def by_id(self, table: str, number: int) -> Row | None:
        """Return the row of a table with this id, or None."""
        # SQLite raises an error for a larger one.
        sql = f"SELECT * FROM {table} WHERE id = ?"
        return self.row(sql, number) if number <= LARGEST_ID else None

    def execute_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        """Execute a statement for each of several rows of values."""
        with self._lock:
            self._connection.executemany(sql, values)

    def execute(self, sql: str, *values: Any) -> int:
        """Execute a statement; return the id of the row that was inserted, if one was."""
        with self._lock:
            return self._connection.execute(sql, values).lastrowid or 0

    # Projects and scenarios

    def projects(self) -> dict[str, dict[str, Any]]:
        """Return documents by name: description, owners, entities, networks, hidden networks."""
        documents = self.pairs("SELECT * FROM project ORDER BY name")
        return {name: json.loads(document) for name, document in documents.items()}

    def project(self, name: str) -> dict[str, Any] | None:
        """Return a project's document, or None."""
        row = self.row("SELECT document FROM project WHERE name = ?", name)
        return None if row is None else json.loads(row["document"])

    def put_project(self, name: str, document: Mapping[str, Any]) -> None:
        """Store a project's document."""
        self.execute(
            "INSERT INTO project VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET document ="
            " excluded.document",
            name,
            json.dumps(document),
        )

    def scenarios(self, project: str) -> dict[str, dict[str, Any]]:
        """Return the latest versions of a project's scenarios by name, in stored form."""
        sql = (
            "SELECT name, stored FROM scenario JOIN version ON version.id = version WHERE project ="
            " ? ORDER BY name"
        )
        return {name: json.loads(stored) for name, stored in self.pairs(sql, project).items()}

    def scenario(self, project: str, name: str) -> Row | None:
        """Return the latest version of a scenario (id, source, stored), or None."""
        sql = (
            "SELECT version.* FROM scenario JOIN version ON version.id = version WHERE project = ?"
            " AND name = ?"
        )
        return self.row(sql, project, name)

    def put_scenario(self, project: str, scenario: Scenario) -> None:
        """Store a new version of a scenario, unless it is the same as the latest one."""
        source, stored = json.dumps(scenario.source), json.dumps(scenario.as_stored())
        latest = self.scenario(project, scenario.name)
        if latest is not None and (latest["source"], latest["stored"]) == (source, stored):
            return
        version = self.execute("INSERT INTO version (source, stored) VALUES (?, ?)", source, stored)
        self.execute(
            "INSERT INTO scenario (project, name, version) VALUES (?, ?, ?) "
            "ON CONFLICT (project, name) DO UPDATE SET version = excluded.version",
            project,
            scenario.name,
            version,
        )

    def stored(self, versions: Mapping[str, int]) -> dict[str, dict[str, Any]]:
        """Return scenarios in stored form by name, in the given versions."""
        rows = self.rows_of("SELECT * FROM version WHERE id IN ({})", versions.values())
        by_id = {row["id"]: row["stored"] for row in rows}
        return {name: json.loads(by_id[number]) for name, number in versions.items()}

    # Instances

    def instance(self, number: int) -> Row | None:
        """Return an instance's row, or None."""
        return self.by_id("instance", number)

    def instances(self, project: str, scenario: str | None, offset: int, limit: int) -> list[Row]:
        """Return the instances of a project, the newest first; a limit of -1 is none."""
        return self.rows(
            "SELECT * FROM instance WHERE project = ? AND (? IS NULL OR scenario = ?) ORDER BY id"
            " DESC LIMIT ? OFFSET ?",
            project,
            scenario,
            scenario,
            limit,
            offset,
        )

    def running(self) -> list[Row]:
        """Return the instances that were launched and have not ended."""
        sql = "SELECT * FROM instance WHERE owner = id AND stop_date IS NULL ORDER BY id"
        return self.rows(sql)

    def children(self, numbers: Sequence[int]) -> dict[int, list[int]]:
        """Return the ids of the sub-scenario instances that each instance has started."""
        children: dict[int, list[int]] = {number: [] for number in numbers}
        sql = "SELECT id, parent FROM instance WHERE parent IN ({}) ORDER BY id"
        for row in self.rows_of(sql, numbers):
            children[row["parent"]].append(row["id"])
        return children

    def ids(self, owner: int) -> tuple[dict[int, int], dict[int, int]]:
        """Return ids by the numbers in the record: of scenario instances, and of jobs."""
        instances = self.pairs("SELECT number, id FROM instance WHERE owner = ?", owner)
        return instances, self.pairs("SELECT number, id FROM job WHERE owner = ?", owner)

    def add_instance(self, **columns: Any) -> int:
        """Add an instance and return its id; without `owner` it is its own owner."""
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        number = self.execute(f"INSERT INTO instance ({names}) VALUES ({marks})", *columns.values())
        if "owner" not in columns:
            self.execute("UPDATE instance SET owner = id WHERE id = ?", number)
        return number

    def update_instance(self, number: int, **columns: Any) -> None:
        """Change some columns of an instance."""
        settings = ", ".join(f"{name} = ?" for name in columns)
        self.execute(f"UPDATE instance SET {settings} WHERE id = ?", *columns.values(), number)

    def delete_instance(self, owner: int) -> None:
        """Delete an instance with its sub-scenarios and jobs."""
        with self.transaction():
            self.execute("DELETE FROM job WHERE owner = ?", owner)
            self.execute("DELETE FROM instance WHERE owner = ?", owner)

    def mark_interrupted(self, date: str) -> None:
        """Mark every instance that has not ended as stopped: the local controller has ended."""
        self.execute(
            "UPDATE instance SET status = ?, stop_date = ?, run_dir = '', error = 'the local"
            " controller ended while this ran' WHERE stop_date IS NULL",
            STOPPED,
            date,
        )
