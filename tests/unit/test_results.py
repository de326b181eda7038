# SPDX-License-Identifier: GPL-3.0-or-later
"""From records to rows, and to the files that other programs read."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest
from helpers.records import OURS, record, write_statistics
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.results import files
from openbach_run.results.files import as_csv, columns, csv_cell, write_parquet
from openbach_run.results.least_transfer_time import least_transfer_time_s
from openbach_run.results.line_protocol import line_protocol
from openbach_run.results.measures import measures
from openbach_run.results.record import statistics

COLUMNS = [
    "scenario", "vpn", "pep", "cc", "loss", "seed", "status", "transfer_time_s", "goodput_mbps",
    "bytes", "ttfb_s", "retransmits", "virtual_s", "wall_s", "run_id", "capture_hash",
]  # fmt: skip


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_measures_are_those_of_the_transfer(tmp_path: Path) -> None:
    write_statistics(
        tmp_path,
        [
            {"_metadata": {"job_name": "file_transfer"}, "ttfb_s": 0.5},
            {"_metadata": {"job_name": "fping"}, "bytes": 64},
            {
                "_metadata": {"job_name": "file_transfer"},
                "transfer_time_s": 30.0,
                "goodput_bps": 8e6,
                "bytes": 30000000,
            },
        ],
    )
    assert measures(tmp_path, statistics(tmp_path), OURS) == {
        "transfer_time_s": 30.0,
        "goodput_mbps": 8.0,
        "bytes": 30000000,
        "ttfb_s": 0.5,
        "retransmits": None,
        "handshake_time_s": None,
        "mss_bytes": None,
        "resumes": None,
    }


def test_a_repeated_measure_is_its_median_and_a_suffix_is_part_of_its_name(tmp_path: Path) -> None:
    page = [
        {
            "_metadata": {"job_name": "web_page", "suffix": suffix},
            "page_load_time_s": time_s,
            "connections": number,
        }
        for suffix, time_s, number in (
            (None, 2.0, 6),
            (None, 9.0, 5),
            (None, 3.0, 6),
            ("far", 4.0, 6),
            ("far", 5.0, 5),
        )
    ]
    write_statistics(tmp_path, page)
    found = measures(tmp_path, statistics(tmp_path), OURS)
    assert (found["page_load_time_s"], found["connections"], found["ttfb_s"]) == (3.0, 6, None)
    assert (found["far_page_load_time_s"], found["far_connections"]) == (4.5, 5)


def test_several_scenario_instances_have_no_measures_together(tmp_path: Path) -> None:
    write_statistics(
        tmp_path,
        [
            {"_metadata": {"job_name": job, "scenario_instance_id": instance}, name: 3.0}
            for job, instance, name in (
                ("file_transfer", 2, "transfer_time_s"),
                ("web_page", 3, "page_load_time_s"),
            )
        ],
    )
    lines = statistics(tmp_path)
    assert measures(tmp_path, lines, OURS) == {}
    assert measures(tmp_path, lines, OURS, scenario_instance_id=3)["page_load_time_s"] == 3.0


def test_a_run_without_statistics_has_no_measures(tmp_path: Path) -> None:
    assert measures(tmp_path, statistics(tmp_path), OURS) == {}


def test_a_row_has_every_column_in_order() -> None:
    measured = {
        "transfer_time_s": 28.5,
        "goodput_mbps": 8.4,
        "bytes": 30_000_000,
        "ttfb_s": 1.0,
        "retransmits": None,
    }
    one = replace(record(vpn="none", size="30M", pep="none", cc="bbr", loss="0"), measures=measured)
    row, _ = rows(as_csv([one, replace(one, measures={**measured, "retransmits": 0})]))
    assert [name for name in row if name != "size"] == COLUMNS
    assert row["size"] == "30M"
    assert row["retransmits"] == ""
    assert "retransmits" not in rows(as_csv([one]))[0], "a measure that no run has"


def test_rows_of_a_scenario_of_another_shape() -> None:
    (row,) = rows(as_csv([record(orbit="leo")]))
    assert row["orbit"] == "leo"
    assert "vpn" not in row, "a column that the scenario has no argument for"


def test_columns_of_several_scenarios_stay_in_order() -> None:
    rows = [
        {"scenario": 1, "loss": 1, "seed": 1, "bytes": 1},
        {"scenario": 1, "flows": 1, "seed": 1, "mos": 1, "bytes": 1},
    ]
    assert columns(rows) == ["scenario", "flows", "loss", "seed", "mos", "bytes"]


def test_parquet_is_written_without_pandas(tmp_path: Path) -> None:
    """Write a table without an import of pandas, which takes 0.2 s."""
    code = "import sys, pathlib; from openbach_run.results.files import write_parquet\n"
    code += "write_parquet([], pathlib.Path(sys.argv[1])); assert 'pandas' not in sys.modules\n"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "results.parquet")], check=True)
    assert pyarrow.parquet.read_table(tmp_path / "results.parquet").num_rows == 0


def test_parquet_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results.parquet"
    write_parquet([record(vpn="none")], file)
    before = file.read_bytes()
    monkeypatch.setattr(files, "_table", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_parquet([record(vpn="wireguard")], file)
    assert file.read_bytes() == before


def test_parquet_has_the_rows_of_csv_and_types(tmp_path: Path) -> None:
    import pandas

    records = [
        record(
            vpn="none", loss="0.1", jitter_ms="2"
        ),  # an argument that is called as a measure of voip
        replace(
            record(None, "Guest Lost", vpn="none", loss="1"),
            measures={"to_client_mos": 4.2, "retransmits": 3},
        ),
    ]
    write_parquet(records, tmp_path / "results.parquet")
    frame = pandas.read_parquet(tmp_path / "results.parquet")
    assert list(frame.columns) == list(pandas.read_csv(io.StringIO(as_csv(records))).columns)
    assert frame.transfer_time_s.tolist()[0] == 28.5
    assert frame.transfer_time_s.isna().tolist() == [False, True]
    assert frame.loss.tolist() == ["0.1", "1"]
    assert (
        frame.dtypes["transfer_time_s"],
        frame.dtypes["to_client_mos"],
        frame.dtypes["seed"],
    ) == ("float64", "float64", "int64")
    again = pyarrow.parquet.read_table(tmp_path / "results.parquet").to_pylist()
    assert [one["retransmits"] for one in again] == [None, 3]
    assert [one["jitter_ms"] for one in again] == ["2", None]
    schema = pyarrow.parquet.read_schema(tmp_path / "results.parquet")
    assert str(schema.field("retransmits").type) == "int64"
    assert schema.field("transfer_time_s").metadata == {b"unit": b"s", b"title": b"transfer time"}


def test_line_protocol_is_what_a_collector_would_write(tmp_path: Path) -> None:
    metadata = {
        "time": 1767225600082, "job_name": "file_transfer", "agent_name": "pc 1",
        "job_instance_id": 3, "scenario_instance_id": 1, "owner_scenario_instance_id": 1,
        "suffix": "Flow,1", "is_file": False,
    }  # fmt: skip
    write_statistics(
        tmp_path,
        [
            {
                "_metadata": metadata,
                "bytes": 3,
                "ok": True,
                "why": 'a "b"',
                "path": [1],
                "none": None,
            }
        ],
    )
    (line,) = line_protocol([tmp_path])
    assert (
        line == "file_transfer,@agent_name=pc\\"
        " 1,@job_instance_id=3,@owner_scenario_instance_id=1,@scenario_instance_id=1,@suffix=Flow\\,1"
        ' bytes=3.0,ok=true,why="a \\"b\\"",path="[1]" 1767225600082\n'
    )


NAMES = st.sampled_from(["vpn", "cc", "loss", "note"])
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\r")
)  # Python 3.11's csv does not quote a lone CR


@given(st.dictionaries(NAMES, TEXTS, min_size=1))
def test_values_survive_csv(arguments: dict[str, str]) -> None:
    with io.StringIO(as_csv([replace(record(), arguments=arguments)]), newline="") as file:
        (row,) = csv.DictReader(file)
    assert {name: row[name] for name in arguments} == {
        name: csv_cell(value) for name, value in arguments.items()
    }


def test_steps_of_the_rate_have_no_least_transfer_time() -> None:
    cell = {"size": "30M", "rate": "10M"}
    assert least_transfer_time_s({**cell, "orbit": "starlink_isl"}) is None
    assert least_transfer_time_s({**cell, "orbit": "leo_hold"}) == least_transfer_time_s(cell)
    assert least_transfer_time_s({**cell, "orbit": "of_somebody"}) == least_transfer_time_s(cell)


@pytest.mark.parametrize(
    ("size", "least_s"), [("30M", 25.094), ("30000k", 25.094), ("1448", 1514 * 8 / 10e6)]
)
def test_the_least_transfer_time(size: str, least_s: float) -> None:
    assert least_transfer_time_s({"size": size, "rate": "10M"}) == pytest.approx(least_s, rel=1e-4)
    assert least_transfer_time_s({"size": size, "rate": "2500k"}) == pytest.approx(
        4 * least_s, rel=1e-4
    )


def test_an_upload_takes_the_return_rate() -> None:
    link = {"size": "30M", "rate": "10M", "return_rate": "2M"}
    download, upload = (
        least_transfer_time_s({**link, "direction": way}) for way in ("download", "upload")
    )
    assert download and upload == pytest.approx(5 * download)
    assert least_transfer_time_s({**link, "direction": "upload", "return_rate": "same"}) == download


@pytest.mark.parametrize("size", ["", "M", "much"])
def test_a_size_that_is_none_has_no_least_time(size: str) -> None:
    assert least_transfer_time_s({"size": size, "rate": "10M"}) is None


@pytest.mark.parametrize(
    "arguments", [{}, {"size": "30M"}, {"size": "30M", "rate": "10M", "link_file": "leo.csv"}]
)
def test_without_a_rate_there_is_no_least_time(arguments: dict[str, str]) -> None:
    assert least_transfer_time_s(arguments) is None
