# SPDX-License-Identifier: GPL-3.0-or-later
"""`--engine controller` against the local controller, over HTTP: the same table as without it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from helpers.web import application, listening

from openbach_run.commands import main
from openbach_run.engine.platform import engine as engine_module

PASSWORD = "a password for a test"


@pytest.mark.parametrize("prefix", ["", "openbach/"])
def test_a_campaign(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine_module, "POLL_S", 0.02)
    with listening(application(tmp_path / "served", password=PASSWORD)) as url:
        access = {"controller": url + prefix, "login": "openbach", "password": PASSWORD}
        Path("controller").write_text(json.dumps(access))
        assert (
            main.main(["geo_loss", "vpn=none", "cc=bbr", "loss=0,1", "--engine", "controller"]) == 0
        )
    printed = capsys.readouterr()
    assert "10.00   20.00" in printed.out
    with Path("results/geo_loss/results.csv").open(newline="") as file:
        rows = [
            (row["scenario"], row["loss"], row["status"], row["transfer_time_s"])
            for row in csv.DictReader(file)
        ]
    assert rows == [
        ("geo_loss", "0", "Finished Ok", "10.0"),
        ("geo_loss", "1", "Finished Ok", "20.0"),
    ]
    assert PASSWORD not in printed.out + printed.err


def test_a_parent_scenario_makes_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine_module, "POLL_S", 0.02)
    with listening(application(tmp_path / "served", password=PASSWORD)) as url:
        Path("controller").write_text(
            json.dumps({"controller": url, "login": "openbach", "password": PASSWORD})
        )
        assert main.main(["geo_loss_table", "--engine", "controller", "--quiet"]) == 0
    printed = capsys.readouterr()
    assert "loss=0  loss=0.1  loss=1" in printed.out
    assert printed.out.count("10.00") == 12


def test_a_wrong_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with listening(application(tmp_path / "served", password=PASSWORD)) as url:
        Path("controller").write_text(
            json.dumps({"controller": url, "login": "openbach", "password": "wrong"})
        )
        assert main.main(["geo", "vpn=none", "cc=bbr", "--engine", "controller"]) == 1
    assert "does not know the login openbach" in capsys.readouterr().err
