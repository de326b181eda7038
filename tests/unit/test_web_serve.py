# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `serve` around its application.

The file `controller`, one server a directory, a database that is damaged.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.web import application, ended, listening, start, visiting

from openbach_run.commands import main
from openbach_run.engine.platform import engine as engine_module
from openbach_run.engine.platform.rest import read_access, write_access
from openbach_run.errors import InputError
from openbach_run.web import serve
from openbach_run.web.serve import access_file, alone
from openbach_run.web.sessions import Sessions

FOREIGN = [
    '{"controller": "172.20.34.80", "login": "me", "password": "mine"}',
    "172.20.34.80\n",
    "{",
    "",
    '"lab:8000"',
    "\xff",
]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# The file `controller`


def test_the_controller_file_is_for_its_owner_as_long_as_it_serves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sessions, file = Sessions(), Path("controller")
    with access_file("127.0.0.1:8000", sessions, tell=False):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert json.loads(file.read_text()) == {
            "controller": "127.0.0.1",
            "login": "openbach",
            "password": sessions.token,
        }
        assert os.listdir() == ["controller"]
    assert os.listdir() == []
    printed = capsys.readouterr()
    assert printed.out + printed.err == ""


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ("127.0.0.1:9000", "http://127.0.0.1:9000/"),
        ("[::1]:8000", "http://[::1]:8000/"),
        ("0.0.0.0:8000", "http://127.0.0.1:8000/"),
        ("[::]:81", "http://[::1]:81/"),
    ],
)
def test_it_is_what_the_controller_engine_reads(place: str, url: str) -> None:
    sessions = Sessions()
    with access_file(place, sessions, tell=False):
        access = read_access(None, Path("controller"))
    assert (access.url, access.login, access.password) == (url, "openbach", sessions.token)


@pytest.mark.parametrize("content", FOREIGN)
def test_a_file_for_another_controller_is_left_alone(
    content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("controller").write_bytes(content.encode("latin-1"))
    sessions = Sessions()
    with access_file("127.0.0.1:8000", sessions, tell=False):
        assert Path("controller").read_bytes() == content.encode("latin-1")
    assert Path("controller").read_bytes() == content.encode("latin-1")
    printed = capsys.readouterr().err
    assert "it is left as it is" in printed
    assert f"login openbach, password {sessions.token}" in printed


def test_an_older_file_for_this_controller_is_replaced() -> None:
    Path("controller").write_text("127.0.0.1\n")
    with access_file("127.0.0.1:8000", Sessions(), tell=False):
        assert "openbach" in Path("controller").read_text()


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_access(tmp_path / "none/controller", "127.0.0.1", "openbach", "secret")


def test_scripts_and_the_controller_engine_log_in_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine_module, "POLL_S", 0.02)
    app = application(Path("served"))
    with (
        listening(app) as url,
        access_file(
            url.removeprefix("http://").rstrip("/"), app.state.services.sessions, tell=False
        ),
    ):
        assert (
            main.main(
                ["geo_loss", "vpn=none", "cc=bbr", "loss=0", "--engine", "controller", "--quiet"]
            )
            == 0
        )
    assert "10.00" in capsys.readouterr().out


# One server a directory


def test_a_second_server_on_the_directory_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before it touches anything: it would call the first one's running instances stopped."""
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        alone(Path("results"), "http://127.0.0.1:8000/"),
    ):
        port = one.getsockname()[1]
        one.close()
        assert main.main(["serve", "--port", str(port), "--results", "results"]) == 2
        assert os.listdir("results") == ["serve.lock"]
    told = capsys.readouterr().err
    assert f"is served already, by process {os.getpid()} at http://127.0.0.1:8000/" in told
    with alone(Path("results"), "http://127.0.0.1:8001/"):
        pass


def test_results_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    Path("results").write_text("a file")
    assert main.main(["serve", "--port", "0", "--results", "results"]) == 2
    assert "--results DIR names another place" in capsys.readouterr().err
    assert Path("results").read_text() == "a file"


def test_the_command_prints_the_address_and_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[Any] = []

    class Server:
        def __init__(self, config: Any) -> None:
            served.append(config)

        def run(self, sockets: list[socket.socket]) -> None:
            served.append(json.loads(Path("controller").read_text()))
            raise KeyboardInterrupt

    monkeypatch.setattr("uvicorn.Server", Server)
    monkeypatch.setattr(serve, "prepared_engine", lambda *arguments: None)
    assert main.main(["serve", "--port", "0"]) == 0
    address = capsys.readouterr().out.split()[0]
    assert address == f"http://{served[1]['controller']}/?token={served[1]['password']}"
    assert not Path("controller").exists()


# The database


def spoil(file: Path, at: int, content: bytes) -> None:
    with file.open("r+b") as stream:
        stream.seek(at)
        stream.write(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b"this is no database at all, and never was" * 100),
        lambda file: spoil(file, 4096, b"\xff" * 20_000),
        lambda file: file.write_bytes(file.read_bytes()[:6000]),
    ],
    ids=["no database", "overwritten", "cut"],
)
def test_a_damaged_database_is_kept_aside(
    damage: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with visiting(application(tmp_path / "results")) as client:
        ended(client, start(client))
    file = tmp_path / "results/serve.sqlite"
    damage(file)
    damaged = file.read_bytes()
    with visiting(application(tmp_path / "results")) as client:
        assert client.get("/project/satvpn/scenario_instance/?quiet").json() == []
        assert ended(client, start(client))["status"] == "Finished Ok"
    kept = [
        one
        for one in file.parent.iterdir()
        if ".damaged-" in one.name and one.suffix not in ("-wal", "-shm")
    ]
    assert [one.read_bytes() for one in kept if not one.name.endswith(("-wal", "-shm"))] == [
        damaged
    ]
    assert kept[0].name in caplog.text
    assert list((file.parent / "geo/runs").iterdir()), "the records are where they were"


def test_a_database_that_cannot_be_written_is_told_and_left(tmp_path: Path) -> None:
    application_results = tmp_path / "results"
    with visiting(application(application_results)):
        pass
    file = application_results / "serve.sqlite"
    spoil(file, 18, b"\x03")  # the version of a format that this SQLite only reads
    before = file.read_bytes()
    with pytest.raises(InputError, match="--results DIR names another place"):
        application(application_results)
    assert file.read_bytes() == before


def test_a_directory_in_place_of_the_database(tmp_path: Path) -> None:
    (tmp_path / "serve.sqlite").mkdir()
    with pytest.raises(InputError, match="unable to open"):
        application(tmp_path)


def test_a_database_that_fails_meanwhile_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = application(tmp_path)
    with visiting(app) as client:

        def full(*anything: Any) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(app.state.services.database, "rows", full)
        answer = client.get("/project/")
        monkeypatch.undo()
    assert answer.status_code == 503
    assert "disk is full" in answer.json()["error"]


def test_help_teaches_the_token(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["serve", "--help"])
    told = capsys.readouterr().out
    assert all(words in told for words in ("?token=", '"controller"', "--engine controller"))
