# SPDX-License-Identifier: GPL-3.0-or-later
"""The site of matrices: places, colours, links and refusals, from planted results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from helpers.made_up import write_results, write_series

from openbach_run.commands import main
from openbach_run.openbach.measures import Measure, from_name
from openbach_run.report.matrix import Matrix, matrices, write_site
from openbach_run.results.files import write_parquet
from openbach_run.results.store import Store

TIME = Measure("transfer_time_s", "transfer_time_s", "s", "transfer time", better="less")
TIMES = {("none", "0"): 10.0, ("wireguard", "0"): 10.1, ("openvpn_tcp", "0"): 16.0,
         ("none", "10"): 30.0, ("wireguard", "10"): 32.0, ("none", "2"): 20.0}  # fmt: skip


def results(place: Path, **more: Any) -> Path:
    """Write planted results: a VPN and a loss rate for each row, one seed and one that failed."""
    rows: list[dict[str, Any]] = [
        {
            "scenario": "geo", "vpn": vpn, "cc": "cubic", "loss": loss, "size": "30M", "seed": 1,
            "status": "Finished Ok", "transfer_time_s": time_s, "virtual_s": 1.0, "wall_s": 1.0,
            "run_id": f"{vpn}{loss}", "capture_hash": "ab" * 32,
        }
        for (vpn, loss), time_s in TIMES.items()
    ]  # fmt: skip
    rows.append(rows[1] | {"seed": 2, "status": "Finished Ko", "transfer_time_s": None})
    place.mkdir(parents=True, exist_ok=True)
    table = pyarrow.Table.from_pylist([row | more for row in rows])
    pyarrow.parquet.write_table(table, place / "results.parquet")
    return place


def planted(tmp_path: Path) -> Matrix:
    (found,) = matrices(results(tmp_path / "mine"), [TIME])
    return found


def test_rows_are_vpns_and_columns_sort_as_numbers(tmp_path: Path) -> None:
    found = planted(tmp_path)
    assert found.grid.rows == [("none",), ("wireguard",), ("openvpn_tcp",)]
    assert [link for link, _ in found.links] == ["loss=0", "loss=2", "loss=10"]
    assert found.fixed == {"cc": "cubic", "size": "30M"}


def test_colours_are_ratios_to_the_best_of_the_column(tmp_path: Path) -> None:
    cells = planted(tmp_path).grid.cells
    levels = {(row[0], link): cell.level for (row, (link, _)), cell in cells.items()}
    assert levels == {
        ("none", "loss=0"): "best",
        ("wireguard", "loss=0"): "failed",  # one of its two runs
        ("openvpn_tcp", "loss=0"): "farthest",
        ("none", "loss=10"): "best",
        ("wireguard", "loss=10"): "near",
        ("none", "loss=2"): "plain",  # alone in its column
    }
    assert cells[("openvpn_tcp",), ("loss=0", "")].ratio == pytest.approx(1.6)


def test_of_a_rate_the_most_is_the_best(tmp_path: Path) -> None:
    more = Measure("transfer_time_s", "", "Mbit/s", "goodput", better="more")
    (found,) = matrices(results(tmp_path / "mine"), [more])
    assert found.grid.cells[("openvpn_tcp",), ("loss=0", "")].level == "best"
    assert found.grid.cells[("none",), ("loss=0", "")].ratio == pytest.approx(1.6)


def test_without_a_better_side_nothing_is_coloured(tmp_path: Path) -> None:
    (found,) = matrices(results(tmp_path / "mine"), [from_name("transfer_time_s")])
    assert {cell.level for cell in found.grid.cells.values()} == {"plain", "failed"}


def test_a_cell_has_the_command_of_its_runs(tmp_path: Path) -> None:
    cells = planted(tmp_path).grid.cells
    assert cells[("none",), ("loss=0", "")].command == (
        "./openbach-run geo vpn=none cc=cubic loss=0 size=30M --seeds 1,"
    )
    assert cells[("wireguard",), ("loss=0", "")].command.endswith(" --seeds 1,2")


def test_every_link_leads_to_a_page_of_the_site(tmp_path: Path) -> None:
    record = tmp_path / "mine/runs/none0/record.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    site = tmp_path / "site"
    write_site([results(tmp_path / "mine")], [TIME], site)
    pages = list(site.rglob("*.html"))
    assert len(pages) == 2 + len(TIMES)
    for page in pages:
        text = page.read_text()
        assert "http" not in re.sub(r"lang=|charset=", "", text)
        for target in re.findall(r'href="([^"#]+)"', text):
            if not target.startswith("data:"):
                assert (page.parent / target).exists(), (page, target)
    assert (site / "records/none0.json").exists()


def test_a_cell_shows_the_curves_of_its_first_finished_run_that_has_some(tmp_path: Path) -> None:
    place, site = results(tmp_path / "mine"), tmp_path / "site"
    for name in ("none0", "wireguard0", "none2"):
        (place / "runs" / name).mkdir(parents=True)
    asked = []

    def draw(run_dir: Path) -> bytes | None:
        asked.append(run_dir.name)
        return None if run_dir.name == "none2" else b"<svg></svg>"

    write_site([place], [TIME], site, draw=draw)
    assert asked == ["none0", "wireguard0", "none2"]
    assert sorted(one.name for one in (site / "curves").iterdir()) == [
        "none0.svg",
        "wireguard0.svg",
    ]
    shown = (site / "cells/mine-geo-1.html").read_text()
    assert 'src="../curves/none0.svg"' in shown and "have no curves" not in shown
    without = [page for page in site.glob("cells/*.html") if "have no curves" in page.read_text()]
    assert len(without) == len(TIMES) - 2


def test_the_command_draws_what_runs_have_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, site = tmp_path / "made_up", tmp_path / "site"
    write_results(place, seeds=1, vpn=("none",), pep=("none",), cc=("cubic",), loss=("0",))
    records = Store(place).all()
    write_parquet(records, place / "results.parquet")
    for one in records:
        write_series(place / "runs" / one.run_id)
    assert main.main(["matrix", str(place), "-o", str(site)]) == 0
    drawings = sorted((site / "curves").iterdir())
    assert [one.stem for one in drawings] == sorted(one.run_id for one in records)
    assert all("goodput" in one.read_text() and "<svg" in one.read_text() for one in drawings)
    for page in site.glob("cells/*.html"):
        for target in re.findall(r'(?:src|href)="([^"#]+)"', page.read_text()):
            assert target.startswith("data:") or (page.parent / target).exists(), target


def test_texts_of_others_are_no_html(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_site([results(tmp_path / "<b>mine", size="<script>\x1b\x00x</script>")], [TIME], site)
    assert not [
        page for page in site.rglob("*.html") if re.search("<script>|[\x00\x1b]", page.read_text())
    ]
    (page,) = site.glob("-b-mine-geo.html")
    assert "&lt;script&gt;" in page.read_text()


def test_the_command_writes_all_or_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, site = results(tmp_path / "mine"), tmp_path / "site"
    command = ["matrix", str(place), str(tmp_path), "-o", str(site)]
    assert main.main(command) == 0
    printed = capsys.readouterr().out
    assert f"{tmp_path}: left out" in printed and "1 matrices" in printed
    before = (site / "index.html").read_text()
    assert main.main([*command, "--measure", "page_load_time_s"]) == 2
    assert "no measure page_load_time_s; geo has transfer_time_s" in capsys.readouterr().err
    assert (site / "index.html").read_text() == before
    assert not (tmp_path / "site.unfinished").exists()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all"])
def test_a_damaged_file_is_named(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results.parquet").write_bytes(content)
    assert main.main(["matrix", str(tmp_path), "-o", str(tmp_path / "site")]) == 2
    assert str(tmp_path / "results.parquet") in capsys.readouterr().err


def test_a_folder_of_somebody_is_not_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "site").mkdir()
    place = results(tmp_path / "mine")
    assert main.main(["matrix", str(place), "-o", str(tmp_path / "site")]) == 2
    assert "is no such site" in capsys.readouterr().err


def test_a_matrix_has_the_notes_on_its_times(tmp_path: Path) -> None:
    """Of two clocks, and of a time below what the rate allows."""
    place = results(tmp_path / "mine", rate="100M", http="none")
    rows = pyarrow.parquet.read_table(place / "results.parquet").to_pylist()
    rows[0] |= {"http": "1.1", "transfer_time_s": 2.0}
    order = ("scenario", "rate", "http", *(name for name in rows[0] if name != "scenario"))
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist([{name: row[name] for name in order} for row in rows]),
        place / "results.parquet",
    )
    write_site([place], [TIME], tmp_path / "site")
    page = (tmp_path / "site/mine-geo.html").read_text()
    assert "WARNING: 1 times are shorter than the rate allows" in page
    assert "WARNING: two clocks" in page
    (plain,) = matrices(results(tmp_path / "plain"), [TIME])
    assert plain.notes == []
