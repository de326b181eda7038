# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python interface of openbach-run: `import openbach_run`, then `run` and `load`.

docs/python.md explains it. The command line and this module call the same function, `run_campaign`,
with the same options.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pandas
import pyarrow.parquet

from openbach_run.campaign.options import Options
from openbach_run.campaign.request import Plan, plan_of
from openbach_run.campaign.run import Callbacks, run_campaign, run_with_progress
from openbach_run.campaign.sub_runs import parquet_of
from openbach_run.campaign.table import Result
from openbach_run.clock import VIRTUAL
from openbach_run.errors import InputError, SetupError
from openbach_run.progress import shown_when_due
from openbach_run.prompt.lab import Lab, LabClosed, Ran
from openbach_run.prompt.session import input_files
from openbach_run.prompt.testbed import checked_testbed
from openbach_run.report.cells import read_campaigns
from openbach_run.results import campaign_file
from openbach_run.results.captures import packets
from openbach_run.results.intervals import estimate
from openbach_run.results.record import statistics

# These names are in __init__.py, too: a type checker reads only a list that stands here, and to
# ask this module for it would import pandas. A test holds the two equal.
__all__ = [
    "Callbacks", "InputError", "Lab", "LabClosed", "Options", "Plan", "Ran", "Result", "Results",
    "SetupError", "lab", "load", "plan_of", "run", "run_campaign",
]  # fmt: skip

Value = str | int | float
Engine = Literal["virtual", "native"]
ENGINES = get_args(Engine)
PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp"}
FLAGS = "FSRPAUEC"
"""The letters of TCP's flags, from the lowest bit on."""


def run(
    scenario: str | Path,
    /,
    *,
    seeds: int | Sequence[int] | None = None,
    results: str | Path | None = None,
    workers: int | None = None,
    pcap: bool = False,
    keys: bool = False,
    engine: Engine = "virtual",
    clock: str = VIRTUAL,
    rerun: bool = False,
    locked: bool = False,
    quiet: bool = False,
    additions: Sequence[str | Path] = (),
    inventory: str | Path | None = None,
    scheduler: str | None = None,
    **values: Value | Sequence[Value],
) -> Results:
    """Run a scenario or campaign (a name or a file) for every combination of the values.

    All results come back, also those of runs that finished before, which are not repeated. The
    options are those of the command (`openbach-run --help`). A run that failed is in the results,
    with its status. Raises InputError, SetupError, OSError.
    """
    if engine not in ENGINES:
        raise InputError(f"engine={engine!r}: one of {', '.join(ENGINES)}")
    options = Options(
        results=None if results is None else Path(results),
        engine=engine,
        clock=clock,
        workers=workers,
        scheduler=scheduler,
        rerun=rerun,
        pcap=pcap,
        keys=keys,
        locked=locked,
        additions=tuple(Path(addition) for addition in additions),
        inventory=None if inventory is None else Path(inventory),
    )
    settings = [f"{name}={','.join(map(str, _several(value)))}" for name, value in values.items()]
    plan = plan_of(str(scenario), settings, None if seeds is None else _seeds(seeds), options)
    return Results(run_with_progress(plan, options, quiet=quiet).directory)


def lab(
    scenario: str | Path,
    /,
    *,
    seed: int = 1,
    files: Sequence[str | Path] = (),
    additions: Sequence[str | Path] = (),
    inventory: str | Path | None = None,
    locked: bool = False,
    quiet: bool = False,
    **values: Value,
) -> Lab:
    """Bring a scenario's path up, in virtual time; return it, ready for commands on its hosts.

    The scenario's measurement is left out. `files` are copied to the directory in which commands
    run. Time stands still between commands. Raises InputError, SetupError, LabClosed, OSError.
    """
    options = Options(
        locked=locked,
        additions=tuple(Path(addition) for addition in additions),
        inventory=None if inventory is None else Path(inventory),
    )
    settings = [f"{name}={value}" for name, value in values.items()]
    if not 0 <= seed < 2**31:
        raise InputError(f"seed={seed}: from 0 to {2**31 - 1}")
    testbed = checked_testbed(str(scenario), settings, f"{seed},", options, "lab")
    inputs = input_files([str(file) for file in files])
    with shown_when_due(quiet) as show:
        engine, specs = testbed.prepared(show)
    return Lab(testbed, engine, specs[seed], inputs)


def load(directory: str | Path) -> Results:
    """Return the results of an earlier command, also of one that did not end. Raises InputError."""
    campaign_file.read(Path(directory))
    return Results(Path(directory))


@dataclass(frozen=True)
class Results:
    """The content of a results directory."""

    directory: Path

    @property
    def file(self) -> Path:
        """Return the file with a row for each run, which any tool for Parquet reads.

        It is written if it is not there. Raises InputError, OSError.
        """
        return parquet_of(self.directory)

    @property
    def runs(self) -> pandas.DataFrame:
        """Return a row for each run, with the columns of results.csv.

        Arguments that have only numbers are numbers; the others are categories, in the order in
        which they were given. `attrs["units"]` has the units of the measures.
        """
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(self.file.read_bytes()))
        frame = table.to_pandas()
        for name in frame.columns:
            if not pandas.api.types.is_numeric_dtype(frame[name]) and name not in (
                "run_id",
                "capture_hash",
            ):
                frame[name] = _typed(frame[name])
        frame.attrs["units"] = {
            field.name: field.metadata[b"unit"].decode()
            for field in table.schema
            if b"unit" in (field.metadata or {})
        }
        return frame

    def cells(self, measure: str = "transfer_time_s") -> pandas.DataFrame:
        """Return a row for each cell: median, ends of its interval, seeds, 90th percentile.

        The arguments with several values are columns. A cell is a combination of values.
        """
        results = read_campaigns([self.directory])
        names = [name for name in results.cells[0].values if len(results.distinct(name)) > 1]
        rows = []
        for cell in results.cells:
            measured = estimate(list(cell.measured(measure).values()))
            if measured is not None:
                rows.append({**{name: cell.values.get(name) for name in names}, **asdict(measured)})
        numbers = ["median", "low", "high", "seeds", "p90", "p90_high"]
        frame = pandas.DataFrame(rows, columns=[*names, *numbers])
        return frame.assign(**{name: _typed(frame[name]) for name in names})

    def series(self, statistic: str, runs: Iterable[str] | None = None) -> pandas.DataFrame:
        """Return every value of a statistic that a job sent, for all finished runs or those given.

        Runs are given by run_id. The columns are run_id, job, agent, suffix, time (of the guest's
        clock), time_s (since the first statistic of the run) and value. Raises InputError if no run
        has sent it.
        """
        columns = ["run_id", "job", "agent", "suffix", "time", "time_s", "value"]
        rows: list[tuple[Any, ...]] = []
        for run_id in self._run_ids(runs):
            rows += _sent(run_id, self.directory / "runs" / run_id, statistic)
        frame = pandas.DataFrame(rows, columns=columns)
        if frame.empty:
            # The first run shows which statistics there are.
            names: set[str] = set()
            for run_id in self._run_ids(runs)[:1]:
                names.update(*statistics(self.directory / "runs" / run_id))
            sent = sorted(name for name in names if not name.startswith("_"))
            raise InputError(
                f"{statistic}: no run has sent this statistic; there are {', '.join(sent)}"
            )
        categories = ("run_id", "job", "agent", "suffix")
        return frame.assign(
            time=pandas.to_datetime(frame["time"], unit="ms", utc=True),
            **{name: frame[name].astype("category") for name in categories},
        )

    def packets(self, run_id: str, interface: str = "") -> pandas.DataFrame:
        """Return the IPv4 packets of a run with a capture (`pcap=True`).

        They are those of all interfaces, or of interfaces whose name begins with `interface`. The
        columns are time_s (of the guest's clock, since the first packet), the interface where the
        packet left, length in bytes from the IP header on, protocol, source and destination. TCP
        and UDP also have ports and the payload in bytes; TCP has sequence numbers and flags. Raises
        InputError without a capture.
        """
        capture = self.directory / "runs" / run_id / "capture.pcapng"
        if not capture.is_file():
            raise InputError(f"{capture} is not there: run it with pcap=True")
        seen = (
            (packet.time_ns, packet.interface, packet.ip)
            for packet in packets(capture)
            if packet.interface.startswith(interface)
        )
        rows = [(time_ns, name, *_decoded(ip)) for time_ns, name, ip in seen if ip]
        names = [
            "time_s",
            "interface",
            "length",
            "protocol",
            "source",
            "destination",
            "source_port",
            "destination_port",
            "sequence",
            "acknowledgement",
            "flags",
            "payload",
        ]
        frame = pandas.DataFrame(rows, columns=names)
        numbers = ("source_port", "destination_port", "sequence", "acknowledgement", "payload")
        return frame.assign(
            time_s=(frame["time_s"] - (frame["time_s"].iloc[0] if len(frame) else 0)) / 1e9,
            **{name: frame[name].astype("Int64") for name in numbers},
            **{
                name: frame[name].astype("category")
                for name in ("interface", "protocol", "source", "destination", "flags")
            },
        )

    def _run_ids(self, runs: Iterable[str] | None) -> list[str]:
        """Return the run_ids given, or those of all finished runs."""
        if runs is not None:
            return list(runs)
        frame = self.runs
        return list(dict.fromkeys(frame.loc[frame["status"] == "Finished Ok", "run_id"]))


def _several(value: Value | Sequence[Value]) -> Sequence[Value]:
    return [value] if isinstance(value, str | int | float) else value


def _seeds(seeds: int | Sequence[int]) -> str:
    # As on the command line: `5` is how many; a list has a comma at its end, as `7,`.
    return str(seeds) if isinstance(seeds, int) else ",".join(map(str, seeds)) + ","


def _typed(column: pandas.Series[Any]) -> pandas.Series[Any]:
    """Return a column as numbers if all its values are numbers, else as categories.

    The categories have the order of their first rows.
    """
    present = column.dropna()
    try:
        pandas.to_numeric(present)
    except ValueError:
        return column.astype(pandas.CategoricalDtype(list(dict.fromkeys(present)), ordered=False))
    return pandas.to_numeric(column)


def _sent(run_id: str, run_dir: Path, statistic: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `Results.series` for a run."""
    sent = statistics(run_dir)
    times = [line["_metadata"]["time"] for line in sent if "time" in line["_metadata"]]
    for line in sent:
        if line.get(statistic) is not None:
            metadata: Mapping[str, Any] = line["_metadata"]
            at_ms = metadata.get("time")
            since_s = None if at_ms is None else (at_ms - min(times)) / 1000
            agent, suffix = metadata.get("agent_name", ""), metadata.get("suffix") or ""
            yield run_id, metadata["job_name"], agent, suffix, at_ms, since_s, line[statistic]


def _decoded(ip: bytes) -> tuple[Any, ...]:
    """Return the columns of `Results.packets`, from `length` on, for an IPv4 packet."""
    header, (length,) = (ip[0] & 15) * 4, struct.unpack_from(">H", ip, 2)
    protocol = PROTOCOLS.get(ip[9], str(ip[9]))
    addresses = (".".join(map(str, ip[12:16])), ".".join(map(str, ip[16:20])))
    # Only the first fragment of a packet has the header of TCP or UDP.
    is_first = struct.unpack_from(">H", ip, 6)[0] & 0x1FFF == 0
    if not is_first or len(ip) < header + 8 or protocol not in ("tcp", "udp"):
        return (length, protocol, *addresses, None, None, None, None, None, None)
    ports = struct.unpack_from(">HH", ip, header)
    if protocol == "udp":
        return (length, protocol, *addresses, *ports, None, None, None, length - header - 8)
    sequence, acknowledgement, offset, bits = struct.unpack_from(">IIBB", ip, header + 4)
    flags = "".join(letter for number, letter in enumerate(FLAGS) if bits >> number & 1)
    payload = length - header - (offset >> 4) * 4
    return (length, protocol, *addresses, *ports, sequence, acknowledgement, flags, payload)
