# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may ask the local controller for what: hosts, origins, sizes, passwords."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
import requests
from fastapi.testclient import TestClient
from helpers.waiting import HANG_S
from helpers.web import COOKIE, application, entrance, listening, visiting

from openbach_run.commands import main
from openbach_run.errors import InputError
from openbach_run.web.guard import BODY_LIMIT_BYTES
from openbach_run.web.serve import listen, read_password

PASSWORD = "a password for a test"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with visiting(application(tmp_path_factory.mktemp("open"))) as visitor:
        yield visitor


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[TestClient]:
    with visiting(application(tmp_path, password=PASSWORD), logged_in=False) as visitor:
        yield visitor


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[", "10.0.0.1"),
        *("evil@127.0.0.1", "@127.0.0.1", "evil:x@localhost:8000", "127.0.0.1/evil"),
        *("127.0.0.1?evil", "127.0.0.1#evil", "127.0.0.1:evil"),
    ],
)
def test_other_names_of_this_machine_are_refused(client: TestClient, host: str) -> None:
    assert client.get("/version/", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8000", "[::1]:8000"])
def test_its_own_names_are_not(client: TestClient, host: str) -> None:
    assert client.get("/version/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://["},
        {"Origin": "http://127.0.0.1:9000"},
    ],
)
def test_pages_of_other_sites_change_nothing(client: TestClient, headers: dict[str, str]) -> None:
    assert client.post("/project/", json={"name": "p"}, headers=headers).status_code == 403
    assert client.get("/project/p/").status_code == 404


def test_our_own_page_may(client: TestClient) -> None:
    headers = {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/project/", json={"name": "q"}, headers=headers).status_code == 200


def test_bodies_have_a_limit(client: TestClient) -> None:
    body = b'{"name": "' + b"x" * BODY_LIMIT_BYTES + b'"}'
    assert client.post("/project/", content=body).status_code == 413
    assert client.post("/project/", content=iter([body[:1000], body[1000:]])).status_code == 413
    assert (
        client.post("/project/", content=b"{}", headers={"Content-Length": "x"}).status_code == 413
    )


@pytest.mark.parametrize("path", ["/nothing/", "/agent/"])
def test_an_answer_waits_for_the_body(locked: TestClient, path: str) -> None:
    """A refusal that does not need the body is sent after it: else the kernel resets."""
    body = iter([(b"{", True), (b"}", False)])
    read: list[bytes] = []
    seen_at_start: list[int] = []

    async def receive() -> dict[str, object]:
        part, more = next(body)
        read.append(part)
        return {"type": "http.request", "body": part, "more_body": more}

    async def send(message: MutableMapping[str, object]) -> None:
        if message["type"] == "http.response.start":
            seen_at_start.append(len(read))

    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
        "query_string": b"", "http_version": "1.1", "scheme": "http", "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), (b"content-length", b"2")],
        "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1), "state": {},
    }  # fmt: skip
    asyncio.run(locked.app(scope, receive, send))  # type: ignore[arg-type]
    assert seen_at_start == [2]


def test_answers_are_not_to_be_guessed_or_framed(client: TestClient) -> None:
    headers = client.get("/version/").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    "path",
    ["/project/", "/openbach/project/", "/job/", "/scenario_instance/1/", "/logs/", "/nothing/"],
)
def test_with_a_password_nothing_is_told_before_the_login(locked: TestClient, path: str) -> None:
    assert locked.get(path).status_code == 403
    assert locked.post(path, json={}).status_code == 403


def test_the_password_opens(locked: TestClient) -> None:
    assert locked.get("/version/").status_code == 200
    for credentials in (
        {"login": "openbach", "password": "x"},
        {"login": "root", "password": PASSWORD},
    ):
        assert locked.post("/login/", json=credentials).status_code == 401
    assert locked.get("/project/").status_code == 403
    assert (
        locked.post("/login/", json={"login": "openbach", "password": PASSWORD}).status_code == 200
    )
    assert locked.get("/project/").status_code == 200
    cookie = locked.cookies[COOKIE]
    assert locked.delete("/login/").status_code == 204
    locked.cookies.set(COOKIE, cookie)
    assert locked.get("/project/").status_code == 403


def test_two_servers_on_a_host_have_cookies_of_their_own(locked: TestClient) -> None:
    login = {"login": "openbach", "password": PASSWORD}
    for port in (8010, 8011):
        answer = locked.post(f"http://127.0.0.1:{port}/login/", json=login)
        assert [*answer.cookies] == [f"sessionid_{port}"]
        assert locked.get(f"http://127.0.0.1:{port}/project/").status_code == 200


def test_a_made_up_session_is_none(locked: TestClient) -> None:
    locked.cookies.set(COOKIE, "x" * 43)
    assert locked.get("/project/").status_code == 403


# The address with the token


def test_without_a_session_this_machine_is_told_nothing_either(tmp_path: Path) -> None:
    with visiting(application(tmp_path), logged_in=False) as client:
        for credentials in (
            {"login": "openbach", "password": "any"},
            {"login": "openbach", "password": ""},
        ):
            assert client.post("/login/", json=credentials).status_code == 401
        assert client.get("/project/").json() == {
            "error": "You are not logged in",
            "msg": "You are not logged in",
        }
        assert (
            client.post("/project/satvpn/scenario/geo/scenario_instance/", json={}).status_code
            == 403
        )
        page = client.get("/page/scenario/satvpn/geo", headers={"Accept": "text/html"})
        assert "controller" in page.text and "Log in" in page.text


def test_the_token_in_the_address_becomes_a_session(tmp_path: Path) -> None:
    app = application(tmp_path)
    with visiting(app, logged_in=False) as client:
        answer = client.get(
            entrance(app, "/page/compare") + "&launch=1&launch=2", follow_redirects=False
        )
        assert (answer.status_code, answer.headers["location"]) == (
            303,
            "/page/compare?launch=1&launch=2",
        )
        assert (
            "HttpOnly" in answer.headers["set-cookie"]
            and "SameSite=strict" in answer.headers["set-cookie"]
        )
        assert client.get("/project/").status_code == 200
        assert "Scenarios" in client.get("/").text


@pytest.mark.parametrize("path", ["//evil.example/", "/%2f/evil.example", "/\\evil.example"])
def test_the_token_leads_to_no_other_site(tmp_path: Path, path: str) -> None:
    app = application(tmp_path)
    with visiting(app, logged_in=False) as client:
        answer = client.get(f"http://127.0.0.1:8000{entrance(app, path)}", follow_redirects=False)
        assert (
            urlsplit(urljoin("http://127.0.0.1:8000/", answer.headers["location"])).netloc
            == "127.0.0.1:8000"
        )


@pytest.mark.parametrize("token", ["", "x", "é", "x" * 43])
def test_another_token_opens_nothing(tmp_path: Path, token: str) -> None:
    with visiting(application(tmp_path), logged_in=False) as client:
        answer = client.get("/", params={"token": token}, follow_redirects=False)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


def test_the_token_goes_with_no_other_method_and_no_other_host(tmp_path: Path) -> None:
    app = application(tmp_path)
    with visiting(app, logged_in=False) as client:
        assert client.post(entrance(app, "/project/"), json={"name": "p"}).status_code == 403
        assert client.get(entrance(app), headers={"Host": "evil.example"}).status_code == 403


def test_neither_token_nor_password_is_logged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    app = application(tmp_path, password=PASSWORD)
    with listening(app) as url:
        requests.get(entrance(app, url), timeout=HANG_S)
        requests.get(
            f"{url}page/launch/7?token={app.state.services.sessions.token}", timeout=HANG_S
        )
        requests.post(
            f"{url}login/", json={"login": "openbach", "password": PASSWORD}, timeout=HANG_S
        )
    printed = capfd.readouterr()
    assert app.state.services.sessions.token not in printed.out + printed.err
    assert PASSWORD not in printed.out + printed.err


# The command's options


def test_password_files(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\nmore\n")
    assert read_password(file) == PASSWORD
    file.write_text("short")
    with pytest.raises(InputError, match="12 to 1000 characters"):
        read_password(file)
    with pytest.raises(InputError, match="--password-file"):
        read_password(tmp_path / "none")
    with pytest.raises(InputError, match="12 to 1000 characters"):
        read_password(Path("/dev/zero"))  # was read to the end of the memory


def test_a_port_in_use_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    with listen("127.0.0.1", 0) as taken:
        assert main.main(["serve", "--port", str(taken.getsockname()[1])]) == 2
    assert "--port and --listen name another place" in capsys.readouterr().err
    assert main.main(["serve", "--port", "99999"]) == 2
    assert main.main(["serve", "--listen", "no.such.host.invalid"]) == 2
