# SPDX-License-Identifier: GPL-3.0-or-later
"""openbach_run from Python.

The notebook of the documentation, executed in a kernel of Jupyter, and its results with right
types. `tools/dev tests/guest/test_api.py` writes its outputs anew.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import pandas
import pytest
from helpers.guest_runs import REPOSITORY
from nbclient import NotebookClient

import openbach_run
from openbach_run import Results

CELL_LIMIT_S = 600


NOTEBOOK = REPOSITORY / "docs/example.ipynb"


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """docs/example.ipynb with its cells' outputs; in `path` is where it has been executed."""
    return executed(tmp_path_factory.mktemp("notebook"))


def executed(place: Path) -> Any:
    made = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(REPOSITORY / "src"))
        patch.setenv("IPYTHONDIR", str(place / ".ipython"))
        patch.setenv("JUPYTER_CONFIG_DIR", str(place / ".jupyter"))
        resources = {"metadata": {"path": str(place)}}
        NotebookClient(
            made, timeout=CELL_LIMIT_S, kernel_name="python3", resources=resources
        ).execute()
    made.metadata.path = str(place)
    return made


@pytest.fixture(scope="module")
def results(notebook: Any) -> Results:
    return openbach_run.load(Path(notebook.metadata.path) / "results/notebook")


@pytest.fixture(scope="module")
def captured(notebook: Any) -> Results:
    return openbach_run.load(Path(notebook.metadata.path) / "results/notebook-capture")


def outputs(notebook: Any, kind: str) -> list[Any]:
    return [
        one for cell in notebook.cells for one in cell.get("outputs", ()) if one.output_type == kind
    ]


def test_the_notebook_shows_tables_a_figure_and_progress(notebook: Any) -> None:
    shown = [one.data for one in outputs(notebook, "execute_result")]
    assert len(shown) == 3 and all("text/plain" in one for one in shown)
    assert shown[0]["text/html"].count("Finished Ok") == 8
    assert len([one for one in outputs(notebook, "display_data") if "image/png" in one.data]) == 1
    progress = "".join(one.text for one in outputs(notebook, "stream") if one.name == "stderr")
    assert "\r100%  8 of 8 runs" in progress and "\r100%  1 of 1 runs" in progress


def said(notebook: Any) -> list[list[dict[str, Any]]]:
    """Return what the cells print and show, without progress, addresses of objects, and figures."""
    cells = []
    for cell in notebook.cells:
        kept: list[dict[str, Any]] = []
        for one in cell.get("outputs", ()):
            data = {kind: text for kind, text in one.get("data", {}).items() if "image" not in kind}
            is_progress = one.output_type == "stream" and one.name == "stderr"
            if one.output_type == "stream" and not is_progress and kept and kept[-1].get("text"):
                kept[-1]["text"] += one.text  # a stream comes in as many pieces as it is read in
            elif not is_progress:
                kept.append({"text": one.get("text"), **data})
        cells.append(kept)
    return cells


def test_the_notebook_of_docs_has_its_outputs(notebook: Any) -> None:
    committed = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    assert said(committed) == said(notebook), "tests/guest/test_api.py writes them anew"
    assert len([one for one in outputs(committed, "display_data") if "image/png" in one.data]) == 1


def test_runs_have_right_types(results: Results) -> None:
    runs = results.runs
    assert len(runs) == 8 and set(runs["status"]) == {"Finished Ok"}
    assert (
        runs["loss"].dtype == "int64"
        and runs["transfer_time_s"].dtype == "float64"
        and runs["seed"].dtype == "int64"
    )
    assert list(runs["vpn"].cat.categories) == ["none", "wireguard"] and list(
        runs["size"].cat.categories
    ) == ["300k"]
    assert runs.attrs["units"]["transfer_time_s"] == "s"


def test_cells_are_the_medians(results: Results) -> None:
    cells, runs = results.cells(), results.runs
    numbers = ["median", "low", "high", "seeds", "p90", "p90_high"]
    assert list(cells.columns) == ["vpn", "loss", *numbers] and len(cells) == 4
    median = runs[(runs["vpn"] == "none") & (runs["loss"] == 1)]["transfer_time_s"].median()
    (told,) = cells[(cells["vpn"] == "none") & (cells["loss"] == 1)]["median"]
    assert told == pytest.approx(median)


def test_series_of_all_runs(results: Results) -> None:
    window = results.series("cwnd_segments")
    assert window["run_id"].nunique() == 8 and isinstance(
        window["time"].dtype, pandas.DatetimeTZDtype
    )
    assert (window["time_s"] >= 0).all() and window["value"].gt(0).any()
    with pytest.raises(openbach_run.InputError, match=r"there are .*transfer_time_s"):
        results.series("no_such_statistic")


def test_packets_have_tcps_numbers(results: Results, captured: Results) -> None:
    run_id = captured.runs["run_id"][0]
    packets = captured.packets(run_id, interface="sat/")
    data = packets[packets["payload"] > 0]
    assert set(data["interface"].cat.remove_unused_categories().cat.categories) <= {
        "sat/to_st",
        "sat/to_gw",
    }
    assert data["payload"].sum() >= 300_000
    opened = captured.packets(run_id, "pc/")
    assert (opened["flags"] == "S").sum() >= 1 and set(opened["protocol"]) >= {"tcp"}
    with pytest.raises(openbach_run.InputError, match="pcap=True"):
        results.packets(results.runs["run_id"][0])


def test_the_engines_kernel_runs_with_its_clock_too(tmp_path: Path) -> None:
    runs = openbach_run.run(
        "geo",
        vpn="none",
        cc="cubic",
        loss=0,
        size="100k",
        seeds=1,
        clock="real",
        results=tmp_path,
        quiet=True,
    ).runs
    assert (
        list(runs["status"]) == ["Finished Ok"] and runs["wall_s"][0] > runs["transfer_time_s"][0]
    )


def test_bad_input_is_an_exception(tmp_path: Path) -> None:
    with pytest.raises(openbach_run.InputError, match="vnp"):
        openbach_run.run("geo", vnp="none", results=tmp_path)
    with pytest.raises(openbach_run.InputError, match=r"engine='vritual': one of virtual, native"):
        openbach_run.run("geo", engine="vritual", results=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(openbach_run.InputError, match="--clock rael: one of virtual, real"):
        openbach_run.run("geo", clock="rael", results=tmp_path)
    with pytest.raises(openbach_run.InputError, match="real is of the virtual engine"):
        openbach_run.run("geo", engine="native", clock="real", results=tmp_path)
    with pytest.raises(openbach_run.InputError, match="no results"):
        openbach_run.load(tmp_path)


def write() -> None:
    """Write the outputs of docs/example.ipynb anew, without progress and versions."""
    with tempfile.TemporaryDirectory() as place:
        made = executed(Path(place))
    del made.metadata["path"]
    made.metadata.language_info = {"name": "python"}
    for cell in made.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
            for one in cell.outputs:
                if "execution_count" in one:
                    one["execution_count"] = None
    NOTEBOOK.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write()
