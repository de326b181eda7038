# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guest's data_access answers to OpenBACH's post-processing jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from data_access.post_processing import Curves, Statistics, _Plot, save
from matplotlib.figure import Figure


def line(instance: int, time_ms: int, suffix: str | None = None, **values: Any) -> str:
    metadata = {
        "job_instance_id": instance,
        "time": time_ms,
        **({"suffix": suffix} if suffix else {}),
    }
    return json.dumps({**values, "_metadata": metadata})


@pytest.fixture(autouse=True)
def statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        line(1, 1000, rtt=10.0, said="x"),
        line(1, 3000, rtt=30.0),
        line(2, 2000, "Flow1", throughput=5),
        line(2, 2500, throughput=7),
    ]
    (tmp_path / "statistics.jsonl").write_text("".join(f"{one}\n" for one in lines))
    monkeypatch.setenv("OPENBACH_STATISTICS", str(tmp_path / "statistics.jsonl"))


def fetched(**named: Any) -> Curves:
    return Statistics.from_default_collector().fetch_all(**named)


def test_the_values_of_a_job_over_the_seconds_since_the_first() -> None:
    assert fetched(job_instances=[1], fields=["rtt"]).curves == [
        ("rtt (job 1)", [0.0, 2.0], [10.0, 30.0])
    ]


def test_suffixes_are_curves_of_their_own_or_left_out() -> None:
    assert len(fetched(job_instances=[2], fields=["throughput"]).curves) == 2
    assert fetched(job_instances=[2], suffix="", fields=["throughput"]).curves[0][2] == [7]


def test_legends_are_taken_in_order() -> None:
    found = fetched(
        job_instances=[1, 2], suffix="", fields=["rtt", "throughput"], columns=iter(["one"])
    )
    assert [name for name, _, _ in found.curves] == ["one", "throughput (job 2)"]


@pytest.mark.parametrize("kind", ["time_series", "histogram", "cumulative_histogram", "comparison"])
def test_a_figure_is_drawn(tmp_path: Path, kind: str) -> None:
    figure = Figure()
    axis = figure.subplots()
    bins = [3] if "histogram" in kind else []
    getattr(_Plot, f"plot_{kind}")(fetched(job_instances=[1]), axis, "ms", *bins, True)
    save(figure, str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_what_was_not_sent_is_said() -> None:
    with pytest.raises(SystemExit, match="the jobs 1 have sent none of jitter"):
        fetched(job_instances=[1], fields=["jitter"])


def test_what_needs_a_database_is_refused_in_words() -> None:
    with pytest.raises(SystemExit, match="the guest has no collector"):
        fetched(job="fping", agent="client")
    with pytest.raises(SystemExit, match="compute_function: the guest has no collector"):
        fetched(job_instances=[1]).compute_function("mean")
