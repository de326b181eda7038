# SPDX-License-Identifier: GPL-3.0-or-later
"""From records to rows and to the table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.campaign import Campaign
from openbach_run.model import parse_scenario
from openbach_run.record import Record
from openbach_run.results import as_csv, as_markdown, as_text, least_transfer_time_s, measures, table

COLUMNS = [
    "scenario", "vpn", "pep", "cc", "loss", "seed", "status", "transfer_time_s", "goodput_mbps", "bytes", "ttfb_s",
    "retransmits", "virtual_s", "wall_s", "run_id", "capture_sha256",
]  # fmt: skip


def campaign(seeds: tuple[int, ...] = (1,), **values: tuple[str, ...]) -> Campaign:
    return Campaign(parse_scenario({"name": "geo", "openbach_functions": []}, {}), {}, values, seeds)


def record(time_s: float | None = 28.5, status: str = "Finished Ok", seed: int = 1, **arguments: str) -> Record:
    return Record(
        "0123456789abcdef", "geo", arguments, seed, status, None, 30.0, 1.0, "ab", {"transfer_time_s": time_s},
        "./openbach-run geo", {}, [],
    )  # fmt: skip


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def write_statistics(folder: Path, statistics: Sequence[dict[str, Any]]) -> None:
    (folder / "statistics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in statistics))


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
    assert measures(tmp_path) == {
        "transfer_time_s": 30.0, "goodput_mbps": 8.0, "bytes": 30000000, "ttfb_s": 0.5, "retransmits": None,
    }  # fmt: skip


def test_a_run_without_statistics_has_no_measures(tmp_path: Path) -> None:
    assert set(measures(tmp_path).values()) == {None}


def test_a_row_has_every_column_in_order() -> None:
    made = as_csv([record(vpn="none", size="30M", pep="none", cc="bbr", loss="0")])
    (row,) = rows(made)
    assert [name for name in row if name != "size"] == COLUMNS
    assert row["size"] == "30M"
    assert row["retransmits"] == ""


def test_rows_of_a_scenario_of_another_shape() -> None:
    (row,) = rows(as_csv([record(orbit="leo")]))
    assert (row["orbit"], row["vpn"]) == ("leo", "")


NAMES = st.sampled_from(["vpn", "cc", "loss", "note"])
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"))  # Python 3.11's csv does not quote a lone CR


@given(st.dictionaries(NAMES, TEXTS, min_size=1))
def test_values_survive_csv(arguments: dict[str, str]) -> None:
    with io.StringIO(as_csv([replace(record(), arguments=arguments)]), newline="") as file:
        (row,) = csv.DictReader(file)
    assert {name: row[name] for name in arguments} == arguments


def test_the_last_swept_argument_makes_the_columns() -> None:
    swept = campaign(vpn=("none", "wireguard"), cc=("bbr",), loss=("0", "1"))
    shown = table(swept, [record(vpn="none", cc="bbr", loss="1")])
    assert shown.header == ["vpn", "loss=0", "loss=1"]
    assert shown.rows == [["none", "–", "28.50"], ["wireguard", "–", "–"]]
    assert "with cc=bbr" in shown.title


def test_several_seeds_show_median_and_range_and_failures() -> None:
    one = record(vpn="none")
    done = [replace(one, seed=seed, measures={"transfer_time_s": 20.0 + seed}) for seed in (1, 2, 5)]
    failed = replace(one, seed=4, status="Finished Ko")
    shown = table(campaign((1, 2, 4, 5), vpn=("none",)), [*done, failed])
    assert shown.rows == [["22.00 [21.00–25.00] (1 failed)"]]
    assert shown.note == "median [least–most] over 4 seeds"


@pytest.mark.parametrize(
    ("known", "cell"),
    [([], "–"), ([record(vpn="none", status="Guest Lost")], "failed"), ([record(None, vpn="none")], "done")],
)
def test_cells_without_a_time(known: list[Record], cell: str) -> None:
    assert table(campaign(vpn=("none",)), known).rows == [[cell]]


def test_a_scenario_without_arguments_has_one_cell() -> None:
    shown = table(campaign(), [record()])
    assert (shown.header, shown.rows) == (["run"], [["28.50"]])
    assert "28.50" in as_text(shown)
    assert "| run |\n| --- |\n| 28.50 |" in as_markdown(shown)


@pytest.mark.parametrize(("size", "least_s"), [("30M", 25.094), ("30000k", 25.094), ("1448", 1514 * 8 / 10e6)])
def test_the_least_transfer_time(size: str, least_s: float) -> None:
    assert least_transfer_time_s(size) == pytest.approx(least_s, rel=1e-4)


@pytest.mark.parametrize("size", ["", "M", "much"])
def test_a_size_that_is_none_has_no_least_time(size: str) -> None:
    assert least_transfer_time_s(size) is None
