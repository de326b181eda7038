# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a campaign's execution: engine, clock, CPUs, and where records go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from openbach_run.clock import VIRTUAL, clock_named
from openbach_run.errors import InputError
from openbach_run.paths import PROJECT, REPOSITORY
from openbach_run.results.python_packages import python_packages

ENGINES = ("virtual", "native", "controller")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choices for the runs of a campaign: what executes them, and where their records go.

    Raises InputError for options that do not go together; its words are those of the command line.
    """

    results: Path | None = None
    """Directory of the records and results.csv; None means results/NAME in this directory."""
    engine: str = "virtual"
    """Executor of the runs: `virtual` time on this machine, this machine's own kernel in real time
    (`native`), or an OpenBACH platform (`controller`)."""
    clock: str = VIRTUAL
    """Clock of the virtual engine: `virtual`, `real`, or `real/N`, N times slower."""
    workers: int | None = None
    """Runs at the same time; None means one for each CPU, and one in real time."""
    scheduler: str | None = None
    """Address of a Dask scheduler, whose workers execute the runs."""
    rerun: bool = False
    """Run again what has already finished."""
    pcap: bool = False
    """Keep every packet of every interface."""
    keys: bool = False
    """True to keep, with `pcap`, the keys of WireGuard's tunnels, and the qlog of QUIC."""
    locked: bool = False
    """Refuse other Debian and Python packages than those of the locks."""
    additions: tuple[Path, ...] = ()
    """Directories with VPNs, jobs, scenarios and so on beside those of this checkout."""
    jobs: tuple[Path, ...] = ()
    """More jobs: folders of packages, or JSON files of argument trees."""
    inventory: Path | None = None
    """File of hosts and networks; None means the inventory that the scenario names."""
    controller: str | None = None
    """Address of the OpenBACH platform; None means what the file `controller` here names."""
    project: str = PROJECT
    """Project of the platform in which the scenario runs."""

    def __post_init__(self) -> None:
        """Check that the options go together. Raises InputError."""
        _check_captures(self)
        if self.workers is not None and self.scheduler is not None:
            raise InputError(
                "--workers: a cluster runs as many at a time as its workers have threads"
            )
        if self.locked and (others := python_packages().get("python_not_locked")):
            raise InputError(f"--locked: Python packages are not requirements.lock's: {others}")
        _check_controller(self)
        _check_real_time(self)

    @property
    def in_real_time(self) -> bool:
        """Return whether time is not virtual, so that runs go one at a time."""
        return bool(self.chosen)

    @property
    def chosen(self) -> dict[str, str]:
        """Return engine and clock, without those of virtual time.

        A report keeps runs with other ones apart.
        """
        every = {"engine": self.engine, "clock": self.clock}
        return {name: value for name, value in every.items() if value != VIRTUAL}

    @property
    def path_words(self) -> list[str]:
        """Return the words of a command that name additions, jobs and the inventory."""
        paths = [("--with", path) for path in self.additions]
        paths += [("--jobs", path) for path in self.jobs]
        if self.inventory is not None:
            paths.append(("--inventory", self.inventory))
        words: list[str] = []
        for option, path in paths:
            words += [option, shown_path(path)]
        return words

    def words(self, platform_url: str | None) -> list[str]:
        """Return the words of a command that say what is executed, and where."""
        if platform_url is not None:
            platform = ["--engine", "controller", "--controller", platform_url]
            return [*self.path_words, *platform, "--project", self.project]
        words = self.path_words
        for name, value in self.chosen.items():
            words += [f"--{name}", value]
        # A run that keeps qlog is another one than that without.
        words += ["--pcap", "--keys"] if self.keys else []
        return words


def shown_path(path: Path) -> str:
    """Return the text of a path: relative to the checkout if it is in there."""
    file = path.resolve()
    return str(file.relative_to(REPOSITORY) if file.is_relative_to(REPOSITORY) else path)


def _check_captures(options: Options) -> None:
    """Raise InputError for captures where none can be kept."""
    if options.pcap and options.scheduler is not None:
        raise InputError(
            "--pcap: captures stay on the machine of a run; repeat the run here, without"
            " --scheduler"
        )
    if options.keys and not options.pcap:
        raise InputError("--keys: of the tunnels in a capture; it goes with --pcap")
    if options.pcap and options.engine == "controller":
        raise InputError(
            "--pcap: packets are captured by the virtual engine; on a platform let a job do it"
            " (tcpdump)"
        )


def _check_controller(options: Options) -> None:
    """Raise InputError for options that do not go with a platform."""
    if options.engine != "controller":
        if options.controller is not None:
            raise InputError("--controller needs --engine controller")
        return
    if options.locked:
        raise InputError(
            "--locked: a platform's hosts have the packages that they have; debian.lock is of the"
            " guest"
        )
    if options.workers not in (None, 1) or options.scheduler is not None:
        raise InputError(
            "--workers, --scheduler: a platform has one set of hosts, its runs go one at a time"
        )


def _check_real_time(options: Options) -> None:
    """Raise InputError for options that do not go with real time."""
    if clock_named(options.clock) != VIRTUAL and options.engine != "virtual":
        raise InputError(
            f"--clock {options.clock} is of the virtual engine; the time of --engine"
            f" {options.engine} is always real"
        )
    if options.scheduler is not None and (options.clock != VIRTUAL or options.engine == "native"):
        raise InputError(
            "--scheduler: a cluster checks one worker's packets by another's; in real time they"
            " differ"
        )
    if options.engine == "native":
        if options.pcap:
            raise InputError(
                "--pcap: packets are captured by the virtual engine; natively let a job do it"
                " (tcpdump)"
            )
        if options.workers not in (None, 1):
            raise InputError(
                "--workers: native runs share this machine's CPUs, they go one at a time"
            )
