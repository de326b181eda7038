# SPDX-License-Identifier: GPL-3.0-or-later
"""The index of results and what is shown of it: it follows the folders, whoever writes them."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from fastapi.testclient import TestClient
from helpers.made_up import write_results, write_series
from helpers.waiting import wait_for
from helpers.web import application, visiting

from openbach_run.results import run_files
from openbach_run.results.store import Store
from openbach_run.web import compare, curves, heat, launch_form, result_sets, runs
from openbach_run.web.answers import Services
from openbach_run.web.curves import Curve
from openbach_run.web.render import decimals

LOOSE = {"vpn": ("none", "wireguard"), "pep": ("none",), "cc": ("cubic",), "loss": ("0", "1")}


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    write_results(tmp_path / "matrix", 3, **LOOSE)
    app = application(tmp_path)
    with visiting(app):
        found: Services = app.state.services
        wait_for(lambda: looked(found), "the index")
        yield found


def looked(services: Services) -> list[result_sets.Results]:
    services.index.look()
    return result_sets.all_sets(services)


def only(services: Services) -> result_sets.Results:
    (found,) = result_sets.all_sets(services)
    return found


def test_a_folder_of_a_command_is_a_set(services: Services) -> None:
    found = only(services)
    assert (found.item, found.total, found.done, found.state) == (
        "folder/matrix",
        24,
        24,
        "finished",
    )
    assert found.scenarios == ("geo_loss", "leo_loss")
    assert found.values["vpn"] == ["none", "wireguard"]
    assert found.command.startswith("./openbach-run campaigns/matrix.yml")


def test_the_index_follows_what_is_written_repeated_and_removed(services: Services) -> None:
    store = Store(services.launcher.results / "matrix")
    record = store.all()[0]
    place = store.begin(record.run_id)
    (place / "statistics.jsonl").write_text("")
    services.index.look()
    assert services.index.running["matrix"] == {record.run_id}
    store.keep(place, type(record)(**{**record.__dict__, "measures": {"transfer_time_s": 1234.5}}))
    services.index.look()
    assert 1234.5 in heat.values_of(services, "folder/matrix", "transfer_time_s").values()
    store.remove(record.run_id)
    services.index.look()
    assert (only(services).total, only(services).done, only(services).state) == (24, 23, "waiting")
    waiting = [run for run in result_sets.runs_of(services, "folder/matrix") if not run.ended]
    assert [(run.run_id, run.status) for run in waiting] == [(record.run_id, result_sets.WAITING)]


def test_an_index_is_kept_and_read_again_only_where_something_changed(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def load(store: Store, run_id: str) -> None:
        read.append(run_id)

    monkeypatch.setattr(Store, "load", load)
    with visiting(application(tmp_path)) as client:
        assert client.get("/page/set/folder/matrix/state").json()["done"] == 24
        assert read == []


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"q": "matrix"}, True),
        ({"q": "vpn=wireguard loss=1"}, True),
        ({"q": "vpn=wire*"}, True),
        ({"q": "vpn=nebula"}, False),
        ({"scenario": "leo_loss"}, True),
        ({"scenario": "voip"}, False),
        ({"state": "finished"}, True),
        ({"state": "failed"}, False),
        ({"tag": "paper"}, True),
        ({"tag": "none"}, False),
        ({"from": "2020-01-01"}, True),
        ({"to": "2020-01-01"}, False),
        ({"deleted": "yes"}, False),
        ({"q": "%"}, False),
    ],
)
def test_finding(services: Services, asked: dict[str, str], found: bool) -> None:
    result_sets.mark(services, "folder/matrix", tags="paper, draft")
    assert bool(result_sets.matching(services, result_sets.all_sets(services), asked)) is found


def test_the_log_has_the_measure_before_the_length_of_the_run(
    services: Services, tmp_path: Path
) -> None:
    with visiting(application(tmp_path)) as client:
        log = client.get("/page/set/folder/matrix").text.partition('id="log"')[2]
    line = r"seed 3, transfer time \(s\) [\d.]+; the whole run: [\d.]+ s by its own clock in 1\.0 s</li>"
    assert re.search(line, log)


def test_a_map_without_a_cell_has_no_page() -> None:
    assert heat.page_of([], "1", 120) == (0, 0, [])


def test_the_heat_map_has_the_medians_of_the_records(services: Services) -> None:
    runs = result_sets.runs_of(services, "folder/matrix")
    made = heat.heat(
        services,
        "folder/matrix",
        runs,
        {"scenario": "leo_loss", "across": "loss", "only.vpn": "wireguard"},
    )
    assert made is not None and (made.down, made.columns, made.cells) == ([], ["0", "1"], 2)
    records = Store(services.launcher.results / "matrix").all()
    wanted = sorted(
        one.measures["transfer_time_s"]
        for one in records
        if one.scenario == "leo_loss"
        and one.arguments["vpn"] == "wireguard"
        and one.arguments["loss"] == "1"
    )
    cell = made.rows[0][1][1]
    assert cell is not None and cell.estimate is not None
    found = cell.estimate
    assert (found.median, found.low, found.high) == (wanted[1], wanted[0], wanted[2])
    shades = made.shades
    assert cell.level is not None and shades[cell.level] <= found.median < shades[cell.level + 1]
    other = heat.heat(services, "folder/matrix", runs, {"scenario": "geo_loss"})
    assert other is not None and other.shades == shades, "panels have one scale"


@pytest.mark.parametrize(
    ("medians", "ends"),
    [([4.75, 5.48], (4.75, 9.5)), ([1, 8], (1, 8)), ([-1, 0, 3], (-1, 3)), ([0], (0, 1))],
)
def test_the_darkest_shade_is_twice_the_lightest_or_more(
    medians: list[float], ends: tuple[float, float]
) -> None:
    shades = heat.shades(medians)
    assert (shades[0], round(shades[-1], 9), len(shades)) == (*ends, 11)


@pytest.mark.parametrize(
    ("values", "places"),
    [([4.75, 5.472], 2), ([27.34, 494.2], 1), ([1e7], 0), ([0, 0.0123, 3e4], 1)],
)
def test_values_stand_below_each_other(values: list[float], places: int) -> None:
    assert decimals(values) == places


def test_curves_begin_with_the_first_byte() -> None:
    rtt = Curve("rtt (ms)", "a", [1.0, 4.0, 5.0], [500.0] * 3)
    goodput = Curve("goodput (Mbit/s)", "a", [3.0, 3.5, 4.0, 4.5], [0.0, 0.0, 1.0, 2.0])
    control = replace(goodput, values=[1.6e-5, 0.0, 1.0, 2.0])
    assert curves.from_first_byte([control])[0].times_s == [0.0, 0.5, 1.0], "not with iperf3's byte"
    later = Curve("goodput (Mbit/s)", "b", [7.0, 7.5, 8.0], [3.0, 4.0, 5.0], run=1)
    moved = [curve.times_s for curve in curves.from_first_byte([rtt, goodput, later])]
    assert moved == [[0.5, 1.5], [0.0, 0.5, 1.0], [0.0, 0.5, 1.0]]


def test_the_heat_map_has_the_notes_on_its_times(tmp_path: Path) -> None:
    """Of a time below what the rate allows, and of two clocks."""
    store = Store(write_results(tmp_path / "matrix", 1, **LOOSE))
    first, *_ = [one for one in store.all() if one.scenario == "geo_loss"]
    changed = first.measures | {"transfer_time_s": 10.0}
    store.rewrite(replace(first, arguments=first.arguments | {"http": "1.1"}, measures=changed))
    app = application(tmp_path)
    with visiting(app):
        services: Services = app.state.services
        wait_for(lambda: looked(services), "the index")
        runs = result_sets.runs_of(services, "folder/matrix")
        made = heat.heat(services, "folder/matrix", runs, {"scenario": "geo_loss"})
        assert made is not None
        assert "WARNING: 1 times are shorter than the rate allows" in "; ".join(made.notes)
        assert "WARNING: two clocks" in "; ".join(made.notes)
        other = heat.heat(services, "folder/matrix", runs, {"measure": "goodput_mbps"})
        assert other is not None and "two clocks" not in "; ".join(other.notes)


def test_ratios_are_paired_and_differences_named(services: Services) -> None:
    runs = result_sets.runs_of(services, "folder/matrix")
    made = heat.heat(services, "folder/matrix", runs, {"across": "vpn", "only.loss": "1"})
    assert made is not None
    words = [("cell", f"folder/matrix/{cell.key}") for cell in made.rows[0][1] if cell is not None]
    items = compare.items_of(services, [*words, ("run", "matrix/none"), ("cell", "x")])
    assert [one.label for one in items] == ["vpn=none", "vpn=wireguard"]
    assert compare.differences(items) == ["vpn"]
    assert compare.warnings(items) == []
    row = compare.ratios(services, items, 0)[0]
    found = row.ratios[1]
    assert (
        row.words == "transfer time (s)"
        and found is not None
        and found.seeds == 3
        and 1.0 < found.median < 1.02
    )


def test_connections_that_a_pep_ends_are_not_set_beside_whole_ones(tmp_path: Path) -> None:
    """Of four cells of one scenario in two named folders; a tunnel keeps a PEP from splitting."""
    swept = {"pep": ("none", "A"), "cc": ("cubic",), "loss": ("0",)}
    for name, vpn in (("open", "none"), ("tunnel", "wireguard")):
        write_results(tmp_path / name, 2, vpn=(vpn,), **swept)
    app = application(tmp_path)
    with visiting(app) as client:
        services: Services = app.state.services
        services.index.look()
        result_sets.mark(services, "folder/open", name="No VPN")
        sets = {"none": "open", "wireguard": "tunnel"}
        known = services.index.cells_by_id(range(1, 9)).values()
        cells = sorted((cell.values["vpn"], cell.values["pep"] != "none", cell) for cell in known)
        geo = [cell for *_, cell in cells if cell.scenario == "geo_loss"]
        words = [("cell", f"folder/{sets[cell.values['vpn']]}/{cell.key}") for cell in geo]
        for record in tmp_path.glob("*/runs/*/record.json"):
            write_series(record.parent)
        items = compare.items_of(services, words)
        assert [(item.label, item.is_split) for item in items] == [
            ("No VPN: vpn=none pep=none", False),
            ("No VPN: vpn=none pep=A", True),
            ("vpn=wireguard pep=none", False),
            ("vpn=wireguard pep=A", False),
        ]
        assert "TCP connections of No VPN: vpn=none pep=A:" in "; ".join(compare.warnings(items))
        rows = {row.words: row for row in compare.ratios(services, items, 0)}
        row = rows["retransmits, of different connections: no ratio"]
        assert (row.better, row.medians, row.ratios[1]) == ("", [0, 0, 0, 0], None)
        assert None not in rows["transfer time (s)"].ratios[1:]
        csv = client.get("/page/curves.csv", params=[*words]).text
    assert "No VPN: vpn=none pep=A: tcp_series on server to PEP," in csv
    assert "vpn=wireguard pep=A: tcp_series on server," in csv


@pytest.mark.parametrize(
    "path", ["page/results?page=99999999999999999999999", "page/results?from=x&to=%00&q=a=b=c"]
)
def test_addresses_may_be_anything(services: Services, tmp_path: Path, path: str) -> None:
    with visiting(application(tmp_path)) as client:
        assert client.get(path).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        *("page/set/folder/..", "page/set/folder/.captures", "page/set/launch/x"),
        *("page/run/matrix/..", "page/run/../matrix", "page/run/matrix/0/file/record.json"),
        *("page/curves.json?run=..%2F..%2Fetc/x", "page/curves.json", "page/link/x.svg"),
    ],
)
def test_nothing_else_of_the_machine_is_shown(
    services: Services, tmp_path: Path, path: str
) -> None:
    with visiting(application(tmp_path)) as client:
        for accept in ("*/*", "text/html"):
            assert client.get(path, headers={"accept": accept}).status_code == 404


def form_token(client: TestClient) -> str:
    return (
        client.get("/page/set/folder/matrix")
        .text.partition('name="token" value="')[2]
        .partition('"')[0]
    )


def undo(client: TestClient) -> list[str]:
    """Items that the page offers to bring back."""
    page = client.get("/page/results?deleted=yes").text
    return [unquote(one) for one in re.findall(r'action="/page/restore/([^"]+)"', page)]


def test_a_deleted_folder_comes_back_as_it_was(services: Services, tmp_path: Path) -> None:
    with visiting(application(tmp_path)) as client:
        token = {"token": form_token(client)}
        before = sorted(tmp_path.glob("matrix/runs/*/record.json"))
        assert client.post("/page/delete/folder/matrix").status_code == 403
        with Store(tmp_path / "matrix").opened():
            assert client.post("/page/delete/folder/matrix", data=token).status_code == 422
        client.post("/page/mark/folder/matrix", data={**token, "note": "of the paper"})
        assert client.post("/page/delete/folder/matrix", data=token).status_code == 200
        assert client.get("/page/set/folder/matrix").status_code == 404
        (item,) = undo(client)
        assert "results/matrix<" in client.get("/page/results?deleted=yes").text
        assert client.post(f"/page/restore/{item}", data=token).status_code == 200
        assert sorted(tmp_path.glob("matrix/runs/*/record.json")) == before
        assert "of the paper" in client.get("/page/set/folder/matrix").text
        client.post("/page/delete/folder/matrix", data=token)
        (item,) = undo(client)
        assert client.post(f"/page/remove/{item}", data=token).status_code == 200
        assert undo(client) == [] and not list(tmp_path.glob("**/record.json"))


def test_each_deletion_keeps_the_copy_of_the_earlier_one(
    services: Services, tmp_path: Path
) -> None:
    with visiting(application(tmp_path)) as client:
        token = {"token": form_token(client)}
        client.post("/page/delete/folder/matrix", data=token)
        write_results(tmp_path / "matrix", 1, **LOOSE)
        client.get("/page/results")
        with Store(tmp_path / "matrix").opened():
            assert client.post("/page/delete/folder/matrix", data=token).status_code == 422
        assert len(list(tmp_path.glob(".deleted/*/runs/*/record.json"))) == 24
        # Else it would run unseen: the name was that of the deleted one.
        assert "/page/set/folder/matrix" in client.get("/page/results").text
        assert client.post("/page/delete/folder/matrix", data=token).status_code == 200
        first, second = undo(client)
        assert len(list(tmp_path.glob(".deleted/*/runs/*/record.json"))) == 32
        assert client.post(f"/page/restore/{second}", data=token).status_code == 200
        assert len(list(tmp_path.glob("matrix/runs/*/record.json"))) == 8
        assert client.post(f"/page/restore/{first}", data=token).status_code == 422
        assert undo(client) == [first]


def test_what_an_earlier_version_deleted_comes_back(services: Services, tmp_path: Path) -> None:
    (tmp_path / ".deleted").mkdir()
    (tmp_path / "matrix").rename(tmp_path / ".deleted/matrix")
    result_sets.mark(services, "folder/matrix", note="of the paper", deleted="yes")
    assert result_sets.restore(services, "folder/matrix") == "folder/matrix"
    assert (only(services).note, only(services).deleted, only(services).done) == (
        "of the paper",
        False,
        24,
    )


def test_a_folder_that_is_not_deleted_is_not_removed(services: Services, tmp_path: Path) -> None:
    result_sets.mark(services, "folder/matrix", note="of the paper")
    with visiting(application(tmp_path)) as client:
        answer = client.post("/page/remove/folder/matrix", data={"token": form_token(client)})
    assert answer.status_code == 404 and only(services).note == "of the paper"


def test_a_folder_that_is_a_link_comes_back(services: Services, tmp_path: Path) -> None:
    (tmp_path / "matrix").rename(tmp_path / "disk")
    (tmp_path / "matrix").symlink_to("disk")
    services.index.look()
    item = result_sets.delete(services, "folder/matrix")
    result_sets.restore(services, item)
    assert len(list(tmp_path.glob("matrix/runs/*/record.json"))) == 24
    item = result_sets.delete(services, "folder/matrix")
    result_sets.remove_for_good(services, item)
    assert len(list(tmp_path.glob("disk/runs/*/record.json"))) == 24


def test_a_note_is_not_replaced_by_one_who_has_not_seen_it(
    services: Services, tmp_path: Path
) -> None:
    with visiting(application(tmp_path)) as client:
        page = client.get("/page/set/folder/matrix").text
        found = re.search(r'name="seen" value="([^"]*)"', page)
        form = {"token": form_token(client), "seen": html.unescape(found[1] if found else "")}
        assert client.post("/page/mark/folder/matrix", data={**form, "note": "1"}).is_success
        answer = client.post("/page/mark/folder/matrix", data={**form, "tags": "2"})
        assert answer.status_code == 422 and only(services).note == "1"


def test_undo_is_offered_for_what_is_deleted_only(services: Services, tmp_path: Path) -> None:
    """A link from elsewhere could make it the button of another action."""
    with visiting(application(tmp_path)) as client:
        for item in ("../remove/folder/matrix", "folder/matrix"):
            page = client.get("/page/results", params={"just": item}).text
            assert "is deleted." not in page


def test_the_forecast_knows_the_cells_that_are_there(services: Services) -> None:
    given = {"vpn": ["none"], "pep": ["none"], "cc": ["cubic"], "loss": ["0"], "size": ["30M"]}
    found = launch_form.check(services, "satvpn", "geo_loss", given, "2")
    assert found.errors == {}
    assert (
        found.text.startswith("1 cell, 2 runs; about ") and "known cells of geo_loss" in found.text
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loss", "-1"),
        ("size", "10X"),
        ("rate", "fast"),
        ("buffer_bdp", "0"),
        ("link_file", "nofile.csv"),
        ("noise", "/etc/passwd"),
        ("cc_pep", "bbr9"),
        ("cc_pep", "$nothing"),
        ("orbit", "mars"),
        ("vpn", ""),
    ],
)
def test_what_is_wrong_is_told_of_its_field(services: Services, name: str, value: str) -> None:
    common = {"vpn": ["none"], "pep": ["none"], "cc": ["cubic"], "loss": ["0"], "size": ["1M"]}
    given = {**common, name: [value] if value else []}
    found = launch_form.check(services, "satvpn", "geo", given, "1")
    assert list(found.errors) == [name]


def test_a_campaign_that_is_written_otherwise_is_read_at_once(services: Services) -> None:
    folder = services.launcher.results / "matrix"
    document = json.loads((folder / "campaign.json").read_text())
    document["runs"].append({**document["runs"][0], "run_id": "f" * 16, "seed": 99})
    (folder / "campaign.json").write_text(json.dumps(document, indent=1))
    services.index.look()
    assert only(services).total == 25


def test_jobs_of_proxies_and_tunnels_that_a_run_does_not_have_are_left_out(tmp_path: Path) -> None:
    argvs = {
        "satpep": ["B", "--at", "A,A_double", "run"],
        "pep": ["B", "--at", "B,B_double", "run"],
        "vpn": ["none", "10.0.0.1"],
        "file_transfer": ["none"],
    }
    start = {"t_s": 0.1, "event": "job_started", "entity": "pop"}
    events = [{**start, "job": job, "argv": argv} for job, argv in argvs.items()]
    lines = [f"{json.dumps({**of, 'instance_id': n})}\n" for n, of in enumerate(events)]
    (tmp_path / "events.jsonl").write_text("".join(lines))
    run = runs.Run("geo", "r", tmp_path, None, goes_on=True, spec={})
    assert [job["job"] for job in runs.jobs_of(run)] == ["pep", "file_transfer"]


def test_what_a_job_was_started_with_is_shown_while_it_runs_and_later(tmp_path: Path) -> None:
    """Also where files of a run are missing, or a guest has written anything.

    Runs of older versions are among them.
    """
    run = runs.Run("geo", "r", tmp_path, None, goes_on=True, spec={})
    assert runs.outputs(run, 1) == {}
    started = {"t_s": 0.2, "event": "job_started", "instance_id": 1, "argv": ["client"]}
    (tmp_path / "events.jsonl").write_text(
        "".join(f"{json.dumps(one)}\n" for one in ({"event": "other"}, started))
    )
    (tmp_path / "jobs/1_vpn_box").mkdir(parents=True)
    (tmp_path / "jobs/1_vpn_box/stdout").write_text("up\n")
    assert runs.outputs(run, 1) == {"events.jsonl": json.dumps(started, indent=1), "stdout": "up\n"}
    assert runs.outputs(run, 2) == {}
    ended = {"instance_id": 1, "argv": ["vpn", "client"], "exit_code": 0}
    (tmp_path / "jobs.jsonl").write_text(f"{json.dumps(ended)}\n")
    run_files.pack(tmp_path, ())
    assert runs.outputs(run, 1) == {"jobs.jsonl": json.dumps(ended, indent=1), "stdout": "up\n"}
    (tmp_path / "jobs.jsonl").write_text("[]\n")
    assert runs.outputs(run, 1) == {"events.jsonl": json.dumps(started, indent=1), "stdout": "up\n"}
    (tmp_path / "jobs/1_vpn_box").mkdir(parents=True)
    (tmp_path / "jobs/1_vpn_box/job.json").write_text("{}")
    assert runs.outputs(run, 1) == {"job.json": "{}"}
