# SPDX-License-Identifier: GPL-3.0-or-later
"""Artifacts: what results say, as results and claims that a stranger can repeat one by one.

A result is a cell of a campaign: its runs, and the median that a table shows. A claim compares
results (reports/claims.yml, or a file of the same form). Both are read from the records of the
runs, so an artifact that says anything else than its own records is found out without a run.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path

from openbach_run.campaign.model import Campaign
from openbach_run.campaign.noise import NOISE
from openbach_run.campaign.options import Options
from openbach_run.campaign.request import Plan, named, ours, plan_of
from openbach_run.catalog import Catalog
from openbach_run.clock import VIRTUAL
from openbach_run.errors import InputError
from openbach_run.openbach.measures import in_words, measure_of
from openbach_run.paths import REPOSITORY
from openbach_run.report.cells import Campaigns, Cell, Run, read_campaigns
from openbach_run.report.claims import Comparison, Finding, judge, read_claims
from openbach_run.report.runs_file import ENDING
from openbach_run.results import campaign_file
from openbach_run.results.captures import differing_packets
from openbach_run.results.intervals import estimate
from openbach_run.results.record import FINISHED, Record
from openbach_run.results.store import Store

FAILED = "Finished Ko"
REPEATED = (FINISHED, FAILED)
"""The ends of runs that the same seed repeats; any other has a cause outside of the run."""
PARTS = (campaign_file.FILE, "results.csv", "results.parquet", "shared")
"""Parts of a results directory that an artifact has, besides the runs of its campaign."""
CLAIMS = REPOSITORY / "reports/claims.yml"
USUAL_SEED = "1,"
FILES, ADDITIONS = "files", "additions"
"""Folders of an artifact with what is its authors' own: files that values name, and --with's."""


@dataclass(frozen=True)
class ListedCell:
    """A cell of a campaign with its command, runs and median, as an artifact lists it."""

    name: str
    results: str
    """The name of its results directory."""
    command: str
    """Words that repeat it, behind the name of the program."""
    seeds: tuple[int, ...]
    runs: tuple[str, ...]
    """The run_id for each seed."""
    measure: str = ""
    """The column of its median; "" if its runs measure nothing."""
    title: str = ""
    """The measure in words."""
    unit: str = ""
    median: float | None = None
    low: float | None = None
    high: float | None = None
    failed: int = 0
    """Number of its runs that end as "Finished Ko", which is a result, too."""
    parts: int = 0
    """Number of runs of other scenarios in each of its runs; 0 for most scenarios."""
    wall_s: tuple[float, ...] = ()
    """Time that each run took when the results were made."""


@dataclass(frozen=True)
class Claimed:
    """A part of a claim for one orbit, as an artifact lists it."""

    name: str
    statement: str
    says: str
    verdict: str
    bounds: str
    kind: str
    """`ratio`, `difference` or the column that it is about."""
    comparisons: tuple[tuple[str, float | None], ...]
    """Comparisons in words, each with its median."""
    results: tuple[str, ...]
    """Names of the results that it compares."""


@dataclass(frozen=True)
class Facts:
    """All that an artifact's results say."""

    results: tuple[ListedCell, ...]
    claims: tuple[Claimed, ...]

    def named(self, names: Sequence[str]) -> list[ListedCell]:
        """Return the results with these names, and those of the claims with these names.

        Raises InputError for a name that is neither.
        """
        wanted: list[str] = []
        of_claims: dict[str, list[str]] = {}
        for claim in self.claims:
            for key in {claim.name, claim.name.partition(" ")[0]}:
                of_claims.setdefault(key.upper(), []).extend(claim.results)
        known = {cell.name for cell in self.results}
        for name in names:
            if name.upper() in known:
                wanted.append(name.upper())
            elif name.upper() in of_claims:
                wanted += of_claims[name.upper()]
            else:
                claims = dict.fromkeys(claim.name.partition(" ")[0] for claim in self.claims)
                listed = ", ".join([f"R1 to R{len(known)}", *claims])
                raise InputError(f"--only {name}: no result and no claim of it; there are {listed}")
        return [cell for cell in self.results if cell.name in set(wanted)]

    def as_json(self) -> str:
        """Return it as the text of results.json."""
        return json.dumps(asdict(self), indent=1) + "\n"


@dataclass(frozen=True)
class Chosen:
    """Runs of a listed cell that are to be repeated."""

    cell: ListedCell
    seeds: tuple[int, ...]
    records: tuple[Record, ...] = ()
    """Records of the runs, if they are not looked up by their run_ids."""

    @property
    def wall_s(self) -> float:
        """Return how long they took, one after the other."""
        by_seed = dict(zip(self.cell.seeds, self.cell.wall_s, strict=True))
        return sum(by_seed[seed] for seed in self.seeds)


@dataclass
class Repeatable:
    """Scenarios and files that records name. To plan a scenario takes a tenth of a second."""

    additions: tuple[Path, ...] = ()
    """Directories of their authors, as --with has them."""
    place: Path | None = None
    """An artifact, which has the files that values name; None: they are where the values say."""
    plans: dict[str, Plan] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Content of the files that values name, by their names in the artifact."""

    @staticmethod
    def of(artifact: Path) -> Repeatable:
        """Return what an artifact has."""
        additions = artifact / ADDITIONS
        return Repeatable((additions,) if additions.is_dir() else (), artifact)

    def scenario(self, text: str) -> str:
        """Return the path of the scenario that a record names: ours, or the authors'."""
        path = Path(ours(text)).resolve()
        if path.is_relative_to(REPOSITORY.resolve()) and path.is_file():
            return str(path)
        return str(named(Catalog.beside_ours(self.additions)).get(Path(text).stem, text))

    def plan(self, scenario: str) -> Plan:
        """Return the plan without any values. Raises InputError for one that cannot be carried."""
        if scenario not in self.plans:
            plan = self.planned(scenario, [])
            roots = (REPOSITORY, *self.additions)
            if not any(plan.path.resolve().is_relative_to(root.resolve()) for root in roots):
                raise InputError(
                    f"{plan.path}: a scenario of yours, which no bundle has: move it into"
                    " scenarios/ of a directory, and give that by --with"
                )
            self.plans[scenario] = plan
        return self.plans[scenario]

    def planned(self, scenario: str, settings: Sequence[str]) -> Plan:
        """Return the plan of a scenario with values. Raises InputError."""
        options = Options(additions=self.additions)
        return plan_of(self.scenario(scenario), settings, USUAL_SEED, options)

    def name(self, scenario: str) -> str:
        """Return the shortest word for the scenario: its bare name, where that is the same file."""
        path, bare = self.plan(scenario).path, Path(scenario).stem
        return bare if Path(self.scenario(bare)).resolve() == path.resolve() else scenario

    def here(self, scenario: str, settings: Sequence[str]) -> list[str]:
        """Return values with the paths of the artifact's own files."""
        of_files = {NOISE, *self.plan(scenario).campaigns[0].link_files}
        words = []
        for word in settings:
            file = (self.place or Path()) / FILES / Path(_value(word)).name
            is_own = self.place and _name(word) in of_files and file.is_file()
            words.append(f"{_name(word)}={file}" if is_own else word)
        return words

    def packed(self, word: str, campaign: Campaign) -> str:
        """Return a value as the artifact's commands have it, and keep the file that it names.

        Raises InputError for two files of one name.
        """
        content = campaign.link_files.get(_name(word), {}).get(_value(word))
        if content is None:
            return word
        name = Path(_value(word)).name
        if self.files.setdefault(name, content) != content:
            raise InputError(f"{_value(word)}: another file is called {name}, too: rename one")
        return f"{_name(word)}={FILES}/{name}"


def facts_of(
    directories: Sequence[Path], claims: Path, repeatable: Repeatable | None = None
) -> Facts:
    """Return what results say. Raises InputError for results that cannot be repeated elsewhere.

    `repeatable` has what they need beside a bundle, and gets the files that their values name.
    """
    scenarios = repeatable or Repeatable()
    for directory in directories:
        if directory.suffix == ENDING or not directory.is_dir():
            raise InputError(f"{directory}: no results directory, with the records of its runs")
    check_names(directories)
    described = read_claims(claims)
    for directory in directories:
        _check_files(directory)
        _check_planned(directory)
    campaigns = read_campaigns(directories)
    for run in campaigns.runs:
        _check_run(run, scenarios.additions)
    listed = []
    for number, cell in enumerate(campaigns.cells, 1):
        listed.append(_listed(f"R{number}", cell, campaigns, scenarios))
    names = {id(cell): entry.name for cell, entry in zip(campaigns.cells, listed, strict=True)}
    findings: list[Claimed] = []
    for name, claim in described.items():
        judged = judge(name, claim, campaigns)
        if judged.is_told:
            for finding in judged.findings:
                if finding.comparisons:
                    findings.append(_claimed(name, judged.statement, finding, names))
    return Facts(tuple(listed), tuple(findings))


def check_names(directories: Sequence[Path]) -> None:
    """Raise InputError for two of the same name: in an artifact they lie side by side."""
    if len({directory.resolve().name for directory in directories}) < len(directories):
        raise InputError("two of the results directories have the same name")


def _check_files(directory: Path) -> None:
    """Raise InputError for what leads out of the results, and names that SHA256SUMS cannot have."""
    for place in directory.rglob("*"):
        if place.is_symlink() or not (place.is_file() or place.is_dir()):
            raise InputError(f"{place}: neither a file nor a directory: results have no such thing")
    for place in (directory.resolve(), *directory.rglob("*")):
        if not place.name.isprintable() or "\\" in place.name:
            raise InputError(f"{str(place)!r}: its name cannot be in a list of hashes")


def _check_run(run: Run, additions: Sequence[Path]) -> None:
    """Raise InputError for a run that nobody else could repeat."""
    record, place = run.record, run.run_dir
    assert record is not None  # _check_planned has read it
    if record.clock != VIRTUAL:
        raise InputError(
            f"{place}: took real time: no packet is the same again. Leave these results out"
        )
    if record.status not in REPEATED:
        raise InputError(f"{place}: {record.status}: repeat it first (the same command, --rerun)")
    if "--with" in record.options and not additions:
        raise InputError(f"{place}: was made with --with: give it again, and it travels along")
    if paths := {"--jobs", "--inventory"} & {*record.options}:
        raise InputError(
            f"{place}: was made with {', '.join(sorted(paths))}, which no artifact has: move what"
            " it names into jobs/ or topologies/ of a directory, and run the campaign --with that"
        )


def _check_planned(directory: Path) -> None:
    """Raise InputError for a run that its campaign has not asked for in this way."""
    store, planned = Store(directory), campaign_file.read(directory)["runs"]
    if not planned:
        raise InputError(f"{directory}: its campaign has no runs")
    for run in planned:
        run_id = run["run_id"]
        record = store.load(run_id)
        if record is None:
            raise InputError(
                f"{store.runs / run_id}: has not been run, or its record cannot be read: run the"
                " campaign to its end"
            )
        wanted = (run["scenario"], run["arguments"], run["seed"])
        if (record.scenario, record.arguments, record.seed) != wanted or record.run_id != run_id:
            raise InputError(
                f"{store.runs / run_id}: its record is of another run than that of"
                f" {campaign_file.FILE}"
            )


def _listed(name: str, cell: Cell, campaigns: Campaigns, scenarios: Repeatable) -> ListedCell:
    """Return a cell as it is listed. Raises InputError if no bundle could repeat it."""
    runs = sorted(cell.runs, key=lambda run: run.seed)
    records = [run.record for run in runs if run.record]
    place = runs[0].run_dir
    words, campaign = _words(records[0], scenarios, place)
    named = {records[0].repetition[0]}
    for run, record in zip(runs, records, strict=True):
        if record.repetition[0] not in named:
            named.add(record.repetition[0])
            _words(record, scenarios, run.run_dir)
    plot = campaigns.plots.get(cell.values["scenario"])
    column = plot.measure if plot is not None else campaign.measure or ""
    estimated = estimate(list(cell.measured(column).values())) if column else None
    declared = list(chain.from_iterable(campaigns.declared.values()))
    unit = measure_of(column, declared)[1].unit
    seeds = tuple(run.seed for run in runs)
    own = ["--with", ADDITIONS] if scenarios.additions else []
    return ListedCell(
        name,
        place.parent.parent.name,
        shlex.join(
            [*words, "--seeds", ",".join(map(str, seeds)) + ("," * (len(seeds) == 1)), *own]
        ),
        seeds,
        tuple(record.run_id for record in records),
        column if estimated else "",
        in_words(column, declared).removesuffix(f" ({unit})") if estimated else "",
        unit if estimated else "",
        estimated.median if estimated else None,
        estimated.low if estimated else None,
        estimated.high if estimated else None,
        sum(not record.finished for record in records),
        max(len(record.parts or ()) for record in records),
        tuple(record.wall_s for record in records),
    )


def _words(record: Record, scenarios: Repeatable, place: Path) -> tuple[list[str], Campaign]:
    """Return scenario and values of a record, without those that the scenario has anyway.

    And the campaign that they make. Raises InputError.
    """
    scenario, *settings, _ = record.repetition
    try:
        (own,) = scenarios.plan(scenario).campaigns
        name = scenarios.name(scenario)
        settings = scenarios.here(scenario, settings)
        words, campaign = _fewest(scenarios, scenario, settings, own.swept)
    except (InputError, ValueError) as error:
        raise InputError(f"{place}: cannot be repeated by this version: {error}") from error
    if campaign.vpn_configs:
        file = next(iter(campaign.vpn_configs.values())).file
        raise InputError(f"{place}: needs the file {file}, a person's own, which no bundle has")
    return [name, *(scenarios.packed(word, campaign) for word in words)], campaign


def _fewest(
    scenarios: Repeatable, scenario: str, settings: Sequence[str], swept: Sequence[str]
) -> tuple[list[str], Campaign]:
    """Return the fewest of all settings that make a cell, and the campaign that they make.

    They are those of the scenario's sweep, files, and those that do not follow. Raises InputError.
    """
    first = [word for word in settings if _name(word) in swept or Path(_value(word)).is_file()]
    usual = scenarios.planned(scenario, first).campaigns[0].cells[0]
    cell = {_name(word): _value(word) for word in settings}
    needed = [word for word in settings if word in first or usual.get(_name(word)) != _value(word)]
    for words in (needed, list(settings)):
        (campaign,) = scenarios.planned(scenario, words).campaigns
        if campaign.cells == [cell]:
            return words, campaign
    raise InputError("its values make another cell in this version")


def _name(setting: str) -> str:
    return setting.partition("=")[0]


def _value(setting: str) -> str:
    return setting.partition("=")[2]


def _claimed(name: str, statement: str, finding: Finding, names: Mapping[int, str]) -> Claimed:
    part = finding.part
    compared: list[tuple[str, float | None]] = []
    results: dict[str, None] = {}
    for pair in finding.comparisons:
        compared.append((pair.name, pair.estimate.median if pair.estimate else None))
        for cell in _cells(pair):
            results[names[id(cell)]] = None
    kind = part.as_ if part.against is not None else part.measure
    return Claimed(
        f"{name} {finding.orbit.upper()}".strip(),
        statement,
        part.says,
        finding.verdict,
        part.bounds,
        kind,
        tuple(compared),
        tuple(results),
    )


def _cells(pair: Comparison) -> list[Cell]:
    return [cell for cell in (pair.cell, pair.against) if cell is not None]


def some_of(cells: Sequence[ListedCell], seconds: float) -> list[Chosen]:
    """Return runs that take at most some seconds one after the other; at least one.

    The cheapest come first that have a word of a command which no other has; then the cheapest.
    """
    runs = []
    for cell in cells:
        for seed, wall_s in zip(cell.seeds, cell.wall_s, strict=True):
            runs.append((wall_s, cell.name, seed, cell))
    runs.sort(key=lambda run: (run[0], int(run[1][1:]), run[2]))
    left_s, seen = seconds, set[str]()
    taken: dict[str, list[int]] = {}
    for only_new in (True, False):
        for wall_s, name, seed, cell in runs:
            new = {*cell.command.split(" --seeds ")[0].split()} - seen
            if (only_new and not new) or seed in taken.get(name, ()):
                continue
            if wall_s <= left_s or not taken:
                taken.setdefault(name, []).append(seed)
                left_s -= wall_s
                seen |= new
    return [Chosen(cell, tuple(sorted(taken[cell.name]))) for cell in cells if cell.name in taken]


def spread(directories: Sequence[Path], count: int) -> list[Chosen]:
    """Return finished runs of each results directory, evenly spread, each as a cell of one run.

    Raises InputError if no run in virtual time has finished.
    """
    chosen = []
    for directory in directories:
        finished = [run for run in Store(directory).all() if run.finished and run.clock == VIRTUAL]
        if not finished and count:
            raise InputError(
                f"{directory}: no run in virtual time has finished: of others no packet is the same"
                " again (--runs 0 repeats none)"
            )
        # Every n-th run, n rounded up.
        for record in finished[:: max(1, -(-len(finished) // count))] if count else []:
            words, seeds = shlex.join(record.repetition[:-1]), (record.seed,)
            name = directory.resolve().name
            cell = ListedCell(
                record.run_id, name, words, seeds, (record.run_id,), title=f"of {name}"
            )
            chosen.append(Chosen(cell, seeds, (record,)))
    return chosen


def differences(before: Record, again: Record | None, *, packets_only: bool = False) -> str:
    """Return how a repeated run differs from its record, for a person; "" if it does not.

    With what else differs, such as the kernel.
    """
    if again is None:
        return "it left no record"
    if packets_only and again.finished and again.capture_hash == before.capture_hash:
        return ""
    change = _differences(before, again)
    others = [
        f"{name}: {value} then, {again.identity.get(name)} now"
        for name, value in before.identity.items()
        if again.identity.get(name) != value
    ]
    return f"{change} ({'; '.join(others)})" if change and others else change


def _differences(before: Record, again: Record) -> str:
    if again.status != before.status:
        return f"{before.status} then, {again.status} now ({again.error})"
    if again.measures != before.measures:
        names = [*before.measures, *again.measures]
        differing = [key for key in names if before.measures.get(key) != again.measures.get(key)]
        name = differing[0]
        then, now = before.measures.get(name), again.measures.get(name)
        return f"{name}: {then} then, {now} now"
    if packets := differing_packets(before.capture_hash, again.capture_hash):
        return packets
    if (again.virtual_s, again.parts or []) != (before.virtual_s, before.parts or []):
        return f"it ended at {before.virtual_s} s then, at {again.virtual_s} s now"
    return ""
