# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of OpenBACH's data_access that its jobs time_series, histogram and comparison use.

It reads the statistics that the jobs of this run have sent so far. A real agent has its own
data_access and never sees this one.

Other post-processing jobs need days of an agent's statistics in a database; they are refused in
words.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean, pstdev
from typing import Any

REFUSED = (
    "the guest has no collector: of post-processing it has the drawings of time_series, histogram"
    " and comparison, of the jobs of the same run. The statistics are in the run's"
    " statistics.jsonl, and openbach-run report draws them"
)

Curve = tuple[str, list[float], list[float]]
"""Curve: its legend, its times in s, its values."""


class Statistics:
    """The statistics of this run.

    Times are seconds since its first one, or since 1970 if `origin` is 0.
    """

    def __init__(self) -> None:
        self.origin: int | None = None

    @classmethod
    def from_default_collector(cls) -> Statistics:
        """Return the statistics of this run."""
        return cls()

    def fetch_all(
        self,
        job: str | None = None,
        agent: str | None = None,
        job_instances: Sequence[int] | None = None,
        suffix: str | None = None,
        fields: Sequence[str] | None = None,
        columns: Iterable[str] | None = None,
        **others: Any,
    ) -> Curves:
        """Return all curves in one; `columns` has their legends, in order.

        Ends the job if these jobs have not sent the fields.
        """
        if others or not job_instances:
            sys.exit(REFUSED)
        recorded = list(_curves(job_instances, suffix, fields))
        if not recorded:
            sys.exit(
                f"the jobs {', '.join(map(str, job_instances))} have sent none of"
                f" {', '.join(fields or ['anything'])}"
            )
        # Given names replace those of the curves from the first one on.
        legends = iter(columns or ())
        begin_ms = 0 if self.origin == 0 else min(times[0] for _, times, _ in recorded)
        curves = []
        for legend, times_ms, values in recorded:
            times_s = [(time_ms - begin_ms) / 1000 for time_ms in times_ms]
            curves.append((next(legends, legend), times_s, values))
        return Curves(curves)

    def fetch(self, *choices: Any, **named: Any) -> Iterator[Curves]:
        """Yield the curves, each by itself."""
        for curve in self.fetch_all(*choices, **named).curves:
            yield Curves([curve])

    def __getattr__(self, name: str) -> Any:
        sys.exit(f"{name}: {REFUSED}")


def _curves(
    job_instances: Sequence[int], suffix: str | None, fields: Sequence[str] | None
) -> Iterator[Curve]:
    """Yield a curve for each job instance, suffix and field that was sent as a number.

    `suffix` "" takes what has none.
    """
    curves: dict[tuple[int, str, str], tuple[list[float], list[float]]] = {}
    with open(os.environ["OPENBACH_STATISTICS"]) as file:
        lines = [json.loads(line) for line in file]
    for line in lines:
        metadata = line.pop("_metadata")
        instance, own = metadata["job_instance_id"], metadata.get("suffix") or ""
        if instance not in job_instances or (suffix is not None and own != suffix):
            continue
        for name, value in line.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if is_number and (fields is None or name in fields):
                times, values = curves.setdefault((instance, own, name), ([], []))
                times.append(metadata["time"])
                values.append(value)
    for (instance, own, name), (times, values) in sorted(curves.items()):
        yield " ".join(filter(None, [name, own, f"(job {instance})"])), times, values


class Curves:
    """Curves to be drawn in one figure."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        if not isinstance(curves, list):
            sys.exit(REFUSED)
        self.curves = curves

    def plot_time_series(
        self, axis: Any, label: str | None = None, legend: bool = True, **others: Any
    ) -> Any:
        """Plot values over seconds."""
        return self._drawn(
            axis, lambda line: axis.plot(line[1], line[2], label=line[0]), "Time (s)", label, legend
        )

    def plot_histogram(
        self, axis: Any, label: str | None = None, bins: int = 10, legend: bool = True
    ) -> Any:
        """Plot which part of the values is in each of `bins` intervals."""

        def draw(curve: Curve) -> None:
            weights = [1 / len(curve[2])] * len(curve[2])
            axis.hist(curve[2], bins=bins, weights=weights, label=curve[0], alpha=0.7)

        return self._drawn(axis, draw, label, "Part of the values", legend)

    def plot_cumulative_histogram(
        self, axis: Any, label: str | None = None, bins: int = 10, legend: bool = True
    ) -> Any:
        """Plot which part of the values is at most that."""

        def draw(curve: Curve) -> None:
            axis.hist(
                curve[2], bins=bins, density=True, cumulative=True, histtype="step", label=curve[0]
            )

        return self._drawn(axis, draw, label, "Part of the values", legend)

    def plot_comparison(self, axis: Any, label: str | None = None, legend: bool = True) -> Any:
        """Plot mean and standard deviation of each."""
        for place, (_, _, values) in enumerate(self.curves):
            axis.errorbar([place], [fmean(values)], yerr=[pstdev(values)], marker="o", capsize=4)
        axis.set_xticks(range(len(self.curves)), [name for name, _, _ in self.curves])
        axis.set_ylabel(label or "")
        return axis

    def _drawn(
        self,
        axis: Any,
        draw: Callable[[Curve], Any],
        x_label: str | None,
        y_label: str | None,
        legend: bool,
    ) -> Any:
        for curve in self.curves:
            draw(curve)
        axis.set_xlabel(x_label or "")
        axis.set_ylabel(y_label or "")
        if legend:
            axis.legend()
        return axis

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        sys.exit(f"{name}: {REFUSED}")


_Plot = Curves
"""Name of Curves in OpenBACH's jobs."""


def save(figure: Any, filename: str, use_pickle: bool = False, set_legend: bool = True) -> None:
    """Write the figure to a file: an image, or as pickle has it."""
    if use_pickle:
        with open(filename, "wb") as file:
            pickle.dump(figure, file)
    else:
        figure.savefig(filename)
