# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of results: their runs, how they are found, named and deleted.

A set is what the page has launched (`launch/7`), or what lies in a folder of the results directory,
of whichever command or campaign (`folder/matrix`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from openbach_run.campaign.forecast import duration
from openbach_run.errors import InputError
from openbach_run.results import run_files
from openbach_run.results.record import FINISHED
from openbach_run.results.store import Store
from openbach_run.web.answers import Services, not_found
from openbach_run.web.index import DELETED
from openbach_run.web.replay import as_date
from openbach_run.web.store import LARGEST_ID, RUNNING, SCHEDULING, STOPPED, Row

WAITING = "Waiting"
GOES_ON = (WAITING, SCHEDULING, RUNNING)
"""The states of a run that has not ended."""
STATES = ("running", "waiting", "stopped", "failed", "finished")
"""The states of a set; the first that applies is its state."""
MARK_LENGTH = 5000
DATED = re.compile(r"(.+)\.(\d{4}-\d\d-\d\dT\d{6}\.\d{6})", re.DOTALL)
"""The name of a deleted folder in DELETED: its own name, and when it was deleted (UTC)."""
PER_PAGE = 50
RECORD_S = 10.0
"""The longest in s that a reader of runs waits for the records of those that have finished."""


@dataclass(frozen=True)
class Results:
    """A set, with the name, note and tags that people have given it."""

    item: str
    """The set's id: `launch/7` or `folder/matrix`."""
    scenarios: tuple[str, ...]
    values: Mapping[str, Sequence[str]]
    """The settings that its cells differ in, with their values."""
    command: str
    total: int
    done: int
    failed: int
    stopped: int
    running: int
    date: str
    """The date of the latest run that has ended, or of the launch: ISO, to the second, UTC."""
    name: str = ""
    note: str = ""
    tags: tuple[str, ...] = ()
    deleted: bool = False

    @property
    def title(self) -> str:
        """Return the name of the set for a person."""
        kind, _, name = self.item.partition("/")
        if self.name or kind == "folder":
            return self.name or f"results/{name}"
        by = f" by {', '.join(self.values)}" if self.values else ""
        return f"Launch {name}: {', '.join(self.scenarios)}{by}"

    @property
    def progress(self) -> str:
        """Return how many runs are done, and how others stand: `14 of 20 runs done, 6 stopped`."""
        counts = {"failed": self.failed, "stopped": self.stopped, "running": self.running}
        others = [f"{count} {state}" for state, count in counts.items() if count]
        return ", ".join([f"{self.done - self.stopped} of {self.total} runs done", *others])

    @property
    def said(self) -> str:
        """Return what people say of the set, by which a form tells whether it is as it was."""
        return json.dumps([self.name, self.note, self.tags])

    @property
    def state(self) -> str:
        """Return the first of STATES that applies."""
        if self.done < self.total:
            return "running" if self.running else "waiting"
        if self.stopped:
            return "stopped"
        return "failed" if self.failed else "finished"


class Run(NamedTuple):
    """A run of a set, whether it has ended or not."""

    folder: str
    run_id: str
    cell: int
    seed: int
    status: str
    error: str | None
    virtual_s: float
    row: int | None
    """The id in table run; None until it has ended with a record."""
    left: str = ""
    """The directory of the instance that executes it; "" until that has begun."""

    @property
    def has_page(self) -> bool:
        """Return whether it has left anything: what was stopped before it began has not."""
        return bool(self.row is not None or self.left or self.status == RUNNING)

    @property
    def state(self) -> str:
        """Return its status in words; of a stopped run also whether it had begun."""
        when = "under way" if self.left else "before it began"
        return f"{self.status} {when}" if self.status == STOPPED else self.status

    @property
    def ended(self) -> bool:
        """Return whether it has ended in any way."""
        return self.status not in GOES_ON

    @property
    def finished(self) -> bool:
        """Return whether it has ended well."""
        return self.status == FINISHED

    @property
    def failed(self) -> bool:
        """Return whether it has ended otherwise, and nobody has stopped it."""
        return self.ended and self.status not in (FINISHED, STOPPED)


# Runs

RUNS = "SELECT folder, run_id, cell, seed, status, error, virtual_s, id AS row, '' AS left FROM run"
RUNS_OF_FOLDER = f"""
{RUNS} WHERE folder = ?1
UNION ALL SELECT p.folder, p.run_id, p.cell, p.seed, 'Waiting', NULL, 0, NULL, '' FROM planned p
    WHERE p.folder = ?1 AND NOT EXISTS
        (SELECT 1 FROM run r WHERE r.folder = p.folder AND r.run_id = p.run_id)
"""
# The record of a failed run is there until the run that repeats it has ended.
STATUS = """
CASE WHEN r.status <> 'Finished Ok' AND i.status IN ('Scheduling', 'Running') THEN i.status
    ELSE COALESCE(r.status, i.status, 'Stopped') END AS status
"""
RUNS_OF_LAUNCH = f"""
SELECT m.folder, m.run_id, COALESCE(r.cell, m.cell) AS cell, m.seed, {STATUS},
    CASE WHEN r.id IS NULL THEN i.error ELSE r.error END AS error,
    COALESCE(r.virtual_s, 0) AS virtual_s, r.id AS row, COALESCE(i.run_dir, '') AS left
    FROM member m LEFT JOIN run r ON r.folder = m.folder AND r.run_id = m.run_id
    LEFT JOIN instance i ON i.id = m.instance WHERE m.launch = ?1
"""


def runs_of(services: Services, item: str) -> list[Run]:
    """Return the runs of a set, in the order in which they were asked for if that is known.

    Those of a launch that have finished have their records, unless these cannot be read.
    """
    kind, _, name = item.partition("/")
    if kind == "launch":
        sql, number = RUNS_OF_LAUNCH + " ORDER BY m.instance, r.part", number_of(name)
        runs = list(map(Run._make, services.database.rows(sql, number)))
        if any(run.finished and run.row is None for run in runs):
            # A look that began before the last one finished may still go on.
            services.index.look(RECORD_S, wait_s=RECORD_S)
            runs = list(map(Run._make, services.database.rows(sql, number)))
        return runs
    running = services.index.running.get(name, set())
    ask = services.database.rows
    runs = services.index.remembered(
        (item, "runs"), lambda: list(map(Run._make, ask(RUNS_OF_FOLDER, name)))
    )

    def now(run: Run) -> Run:
        goes_on = run.row is None and run.run_id in running
        return run._replace(status=RUNNING) if goes_on else run

    return list(map(now, runs)) if running else runs


def measured_by(services: Services, runs: Iterable[Run]) -> dict[int, dict[str, float]]:
    """Return what runs have measured: row → column → value."""
    values: dict[int, dict[str, float]] = {run.row: {} for run in runs if run.row is not None}
    for row in services.database.rows_of("SELECT * FROM measured WHERE run IN ({})", values):
        values[row["run"]][row["name"]] = row["value"]
    return values


LATEST = "SELECT run.*, time(ended, 'unixepoch') AS clock FROM {} ORDER BY ended DESC LIMIT 12"
# What the runs that go on have taken so far is no longer to go.
SPEED = """
SELECT COALESCE(AVG(r.wall_s), (SELECT AVG(wall_s) FROM run WHERE folder = m.folder)) AS each_s,
    SUM(CASE WHEN i.status = 'Running' THEN julianday('now') - julianday(i.start_date) END) * 86400
    AS spent_s FROM member m LEFT JOIN run r ON r.folder = m.folder AND r.run_id = m.run_id
    LEFT JOIN instance i ON i.id = m.instance WHERE m.launch = ?
"""


def latest(services: Services, item: str) -> list[Row]:
    """Return the rows of the runs of a set that have ended last, the latest first."""
    kind, _, name = item.partition("/")
    ask, of_it = services.database.rows, "member JOIN run USING (folder, run_id) WHERE launch = ?"
    if kind == "launch":
        return ask(LATEST.format(of_it), number_of(name))
    sql = LATEST.format("run WHERE folder = ?")
    return services.index.remembered((item, "latest"), lambda: ask(sql, name))


def to_go(services: Services, results: Results) -> str:
    """Return in words how long the runs of a launch still take, by those that have ended."""
    left = results.total - results.done
    row = services.database.row(SPEED, number_of(results.item.removeprefix("launch/")))
    if not left or row is None or row["each_s"] is None:
        return ""
    to_go_s = max(0.0, left * row["each_s"] - (row["spent_s"] or 0))
    return f"about {duration(to_go_s / services.launcher.workers)} to go"


def number_of(text: str) -> int:
    """Return the number in a text, at most LARGEST_ID; 0 for any other text."""
    return min(int(text), LARGEST_ID) if text.isdecimal() and len(text) < 20 else 0


# Sets

COUNTED = """
COUNT(*) AS total, SUM(status NOT IN ('Waiting', 'Scheduling', 'Running')) AS done,
SUM(status NOT IN ('Waiting', 'Scheduling', 'Running', 'Stopped', 'Finished Ok')) AS failed,
SUM(status = 'Stopped') AS stopped, SUM(status = 'Running') AS running
"""
OF_FOLDERS = """
SELECT f.*, COALESCE(r.total, 0) + COALESCE(p.total, 0) AS total, COALESCE(r.total, 0) AS done,
    r.failed, r.ended FROM folder f
LEFT JOIN (SELECT folder, COUNT(*) AS total, SUM(status <> 'Finished Ok') AS failed,
    MAX(ended) AS ended FROM run GROUP BY folder) r ON r.folder = f.name
LEFT JOIN (SELECT folder, COUNT(*) AS total FROM planned p WHERE NOT EXISTS
    (SELECT 1 FROM run r WHERE r.folder = p.folder AND r.run_id = p.run_id)
    GROUP BY folder) p ON p.folder = f.name
"""
OF_LAUNCHES = f"""
SELECT l.*, c.* FROM launch l JOIN (SELECT launch, {COUNTED} FROM
    (SELECT m.launch, {STATUS} FROM member m
    LEFT JOIN run r ON r.folder = m.folder AND r.run_id = m.run_id
    LEFT JOIN instance i ON i.id = m.instance)
    GROUP BY launch) c ON c.launch = l.id
"""


def all_sets(services: Services) -> list[Results]:
    """Return all launches and folders, the newest first.

    A folder that no command has written is left out while a launch has its runs.
    """
    marks = {row["item"]: row for row in services.database.rows("SELECT * FROM mark")}
    launches = [_launch(row, marks) for row in services.database.rows(OF_LAUNCHES)]
    there = [launch.scenarios[0] for launch in launches if not launch.deleted]
    launched = {services.launcher.directory(scenario).name for scenario in there}
    rows = [
        row
        for row in folder_rows(services).values()
        if row["command"] or row["name"] not in launched
    ]
    folders = [_folder(row, marks, services) for row in rows]
    return sorted([*launches, *folders], key=lambda results: results.date, reverse=True)


def folder_rows(services: Services) -> dict[str, Row]:
    """Return the rows of table folder by name, with the counts of their runs."""
    rows = services.database.rows
    return services.index.remembered(
        ("folders",), lambda: {row["name"]: row for row in rows(OF_FOLDERS)}
    )


def find_set(services: Services, item: str) -> Results:
    """Return a set. Raises Refusal (404) if there is none."""
    kind, _, name = item.partition("/")
    rows = services.database.rows("SELECT * FROM mark WHERE item = ?", item)
    marks = {row["item"]: row for row in rows}
    if kind == "launch":
        sql = OF_LAUNCHES.replace("i.id = m.instance)", "i.id = m.instance WHERE m.launch = ?1)")
        if row := services.database.row(sql, number_of(name)):
            return _launch(row, marks)
    elif kind == "folder" and (row := folder_rows(services).get(name)):
        return _folder(row, marks, services)
    raise not_found("Results", item=item)


def _launch(row: Row, marks: Mapping[str, Row]) -> Results:
    """Return the set of a launch."""
    values = {name: listed for name, listed in json.loads(row["values"]).items() if len(listed) > 1}
    counted = [row[name] or 0 for name in ("total", "done", "failed", "stopped", "running")]
    return _marked(
        f"launch/{row['id']}", marks, (row["scenario"],), values, "", counted, row["created"][:19]
    )


def _folder(row: Row, marks: Mapping[str, Row], services: Services) -> Results:
    """Return the set of a folder."""
    running = len(services.index.running.get(row["name"], ())) if row["done"] < row["total"] else 0
    counted = [row["total"], row["done"], row["failed"] or 0, 0, running]
    date = as_date(datetime.fromtimestamp(row["ended"] or 0, UTC))[:19]
    scenarios, values = tuple(json.loads(row["scenarios"])), json.loads(row["values"])
    item = f"folder/{row['name']}"
    return _marked(item, marks, scenarios, values, row["command"], counted, date)


def _marked(
    item: str,
    marks: Mapping[str, Row],
    scenarios: tuple[str, ...],
    values: Mapping[str, Sequence[str]],
    command: str,
    counted: Sequence[int],
    date: str,
) -> Results:
    """Return a set with the name, note and tags that it was given."""
    mark = marks.get(item)
    total, done, failed, stopped, running = counted
    results = Results(item, scenarios, values, command, total, done, failed, stopped, running, date)
    if mark is None:
        return results
    tags = tuple(mark["tags"].split())
    # A deleted folder lies elsewhere: whatever has its name now is another one.
    deleted = bool(mark["deleted"]) and item.startswith("launch/")
    return replace(results, name=mark["name"], note=mark["note"], tags=tags, deleted=deleted)


# Finding


def matching(
    services: Services, sets: Iterable[Results], filters: Mapping[str, str]
) -> list[Results]:
    """Return the sets that fit what is asked for.

    `filters` may have `q` (words and NAME=VALUE, all of which have to fit), `scenario`, `state`,
    `tag`, `from` and `to` (dates, both included), `deleted`.
    """
    words = filters.get("q", "").lower().split()
    with_values = [_having(services, *word.split("=", 1)) for word in words if "=" in word]
    texts = [word for word in words if "=" not in word]

    def fits(results: Results) -> bool:
        """Return whether a set fits all that is asked for."""
        return (
            results.deleted == bool(filters.get("deleted"))
            and all(results.item in items for items in with_values)
            and all(text in _text(results) for text in texts)
            and (not filters.get("scenario") or filters["scenario"] in results.scenarios)
            and (not filters.get("state") or filters["state"] == results.state)
            and (not filters.get("tag") or filters["tag"] in results.tags)
            # Dates of this form sort as texts do, and 9 comes after all of them.
            and filters.get("from", "") <= results.date[:10] <= (filters.get("to") or "9")
        )

    return list(filter(fits, sets))


def _text(results: Results) -> str:
    """Return all that is searched for the words of a query."""
    texts = results.title, results.item, *results.scenarios, results.note, *results.tags
    return " ".join([*texts, results.command]).lower()


def _having(services: Services, name: str, value: str) -> set[str]:
    """Return the sets with a cell that has this value; * stands for any letters."""
    cells = "SELECT cell FROM setting WHERE name = ? AND value LIKE ?"
    pattern = value.replace("*", "%")
    rows = services.database.rows(
        f"SELECT 'folder/' || folder FROM run WHERE cell IN ({cells})"
        f" UNION SELECT 'folder/' || folder FROM planned WHERE cell IN ({cells})"
        f" UNION SELECT 'launch/' || launch FROM member WHERE cell IN ({cells})",
        *(name, pattern) * 3,
    )
    return {item for (item,) in rows}


# What people say of them


def mark(services: Services, item: str, **marks: str) -> None:
    """Change `name`, `note`, `tags` (words) or `deleted` of a set."""
    cut = {name: text[:MARK_LENGTH] for name, text in marks.items()}
    cut = {name: text.encode(errors="replace").decode() for name, text in cut.items()}
    if "tags" in cut:
        cut["tags"] = " ".join(dict.fromkeys(re.split(r"[\s,]+", cut["tags"].strip())))
    services.database.execute("INSERT OR IGNORE INTO mark (item) VALUES (?)", item)
    settings = ", ".join(f"{column} = ?" for column in cut)
    services.database.execute(f"UPDATE mark SET {settings} WHERE item = ?", *cut.values(), item)


def delete(services: Services, item: str) -> str:
    """Delete a set that has ended; return the item by which `restore` brings it back.

    A launch leaves the list, but its runs stay in their folder. A folder is moved aside under a
    name of its own, and no earlier one gives way to it. Raises InputError, Refusal (404).
    """
    with services.database.transaction():  # no run is added between the check and the change
        results = find_set(services, item)
        kind, _, name = results.item.partition("/")
        place = services.launcher.results / name
        scenarios = {row["scenario"] for row in services.database.running()}
        running = set(map(services.launcher.directory, scenarios))
        if results.done < results.total if kind == "launch" else place in running:
            raise InputError(f"{results.title}: runs go on there: stop them first")
        if kind == "launch":
            mark(services, results.item, deleted="yes")
            return results.item
    copy = f"{name}.{datetime.now(UTC):%Y-%m-%dT%H%M%S.%f}"
    (services.launcher.results / DELETED).mkdir(exist_ok=True)
    # It is held while it is renamed: no command writes there.
    with Store(place).opened():
        _move(services, name, f"{DELETED}/{copy}")
    return f"folder/{copy}"


def restore(services: Services, item: str) -> str:
    """Bring a deleted set back; return its item.

    Raises InputError if something else has its name now, Refusal (404).
    """
    if item.startswith("launch/"):
        deleted_item = find_set(services, item).item
        mark(services, deleted_item, deleted="")
        return deleted_item
    copy = _deleted_folder(services, item)
    name, _ = deleted_folders(services)[copy]
    if (services.launcher.results / name).exists():
        raise InputError(f"results/{name} is there again: delete that one first, it is kept, too")
    _move(services, f"{DELETED}/{copy}", name)
    return f"folder/{name}"


def remove_for_good(services: Services, item: str) -> None:
    """Remove a deleted set; the runs of a launch stay in their folder.

    Raises InputError, Refusal (404).
    """
    if not item.startswith("launch/"):
        copy = f"{DELETED}/{_deleted_folder(services, item)}"
        # What is left if this is killed has a name that says so, and can be removed again.
        half = f"{copy}.removed"
        _move(services, copy, half)
        run_files.remove(services.launcher.results / half)
        services.database.execute("DELETE FROM mark WHERE item = ?", f"folder/{half}")
        return
    with services.database.transaction():  # it is not resumed meanwhile
        results = find_set(services, item)
        if not results.deleted or results.done < results.total:
            raise InputError(f"{results.title}: only what is deleted is removed for good")
        number = number_of(results.item.partition("/")[2])
        services.database.execute("DELETE FROM mark WHERE item = ?", results.item)
        services.database.execute("DELETE FROM member WHERE launch = ?", number)
        services.database.execute("DELETE FROM launch WHERE id = ?", number)


def _move(services: Services, name: str, new_name: str) -> None:
    """Rename a folder, with what people say of it. Raises InputError."""
    results, sql = services.launcher.results, "UPDATE OR REPLACE mark SET item = ? WHERE item = ?"
    try:
        (results / name).rename(results / new_name)
    except OSError as error:
        raise InputError(f"{name}: cannot be moved to {new_name}: {error.strerror}") from error
    services.database.execute(sql, f"folder/{new_name}", f"folder/{name}")
    services.index.look()


def deleted_folders(services: Services) -> dict[str, tuple[str, str]]:
    """Return the folders in DELETED by their names there: the name that each had, and the date.

    The date is "" for a folder that an earlier version has moved there.
    """
    folders = {}
    aside = services.launcher.results / DELETED
    for copy in sorted(os.listdir(aside)) if aside.is_dir() else ():
        dated = DATED.fullmatch(copy)
        folders[copy] = (dated[1], dated[2]) if dated else (copy, "")
    return folders


def _deleted_folder(services: Services, item: str) -> str:
    """Return the name in DELETED of the folder that an item names. Raises Refusal (404)."""
    kind, _, copy = item.partition("/")
    if kind != "folder" or copy not in deleted_folders(services):
        raise not_found("Results", item=item)
    return copy
