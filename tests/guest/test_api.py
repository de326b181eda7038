# SPDX-License-Identifier: GPL-3.0-or-later
"""openbach_run from Python: results with right types, and the notebook of the documentation, whose cells are executed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
import pandas
import pytest
from conftest import REPOSITORY

import openbach_run


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The variables of docs/example.ipynb after its last cell."""
    matplotlib.use("agg")
    cells = json.loads((REPOSITORY / "docs/example.ipynb").read_text())["cells"]
    variables: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("notebook"))
        for cell in cells:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), variables)
        variables["results"] = openbach_run.load(Path("results/notebook").resolve())
        variables["captured"] = openbach_run.load(Path("results/notebook-capture").resolve())
    return variables


def test_runs_have_right_types(notebook: dict[str, Any]) -> None:
    runs = notebook["results"].runs
    assert len(runs) == 8 and set(runs["status"]) == {"Finished Ok"}
    assert (
        runs["loss"].dtype == "int64" and runs["transfer_time_s"].dtype == "float64" and runs["seed"].dtype == "int64"
    )
    assert list(runs["vpn"].cat.categories) == ["none", "wireguard"] and list(runs["size"].cat.categories) == ["300k"]
    assert runs.attrs["units"]["transfer_time_s"] == "s"


def test_cells_are_the_medians(notebook: dict[str, Any]) -> None:
    cells, runs = notebook["cells"], notebook["results"].runs
    assert list(cells.columns) == ["vpn", "loss", "median", "low", "high", "seeds"] and len(cells) == 4
    median = runs[(runs["vpn"] == "none") & (runs["loss"] == 1)]["transfer_time_s"].median()
    (told,) = cells[(cells["vpn"] == "none") & (cells["loss"] == 1)]["median"]
    assert told == pytest.approx(median)


def test_series_of_all_runs(notebook: dict[str, Any]) -> None:
    window = notebook["window"]
    assert window["run_id"].nunique() == 8 and isinstance(window["time"].dtype, pandas.DatetimeTZDtype)
    assert (window["time_s"] >= 0).all() and window["value"].gt(0).any()
    with pytest.raises(openbach_run.InputError, match=r"there are .*transfer_time_s"):
        notebook["results"].series("no_such_statistic")


def test_packets_have_tcps_numbers(notebook: dict[str, Any]) -> None:
    data = notebook["data"]
    assert set(data["interface"].cat.remove_unused_categories().cat.categories) <= {"sat/to_st", "sat/to_gw"}
    assert data["payload"].sum() >= 300_000
    run_id = notebook["captured"].runs["run_id"][0]
    opened = notebook["captured"].packets(run_id, "pc/")
    assert (opened["flags"] == "S").sum() >= 1 and set(opened["protocol"]) >= {"tcp"}
    with pytest.raises(openbach_run.InputError, match="pcap=True"):
        notebook["results"].packets(notebook["results"].runs["run_id"][0])


def test_bad_input_is_an_exception(tmp_path: Path) -> None:
    with pytest.raises(openbach_run.InputError, match="vnp"):
        openbach_run.run("geo", vnp="none", results=tmp_path)
    with pytest.raises(openbach_run.InputError, match="no results"):
        openbach_run.load(tmp_path)
