# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever is sent to the local controller, it never answers 500 and never keeps half of it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from helpers.web import ARGUMENTS, ROOT, application, visiting
from hypothesis import given, settings
from hypothesis import strategies as st

SCENARIO = json.loads((ROOT / "scenarios/geo_loss.json").read_text())
MANY = pytest.param(150, marks=pytest.mark.nightly)


def drawn(**arguments: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    """Return what makes a test of a property: few examples at each push, and many nightly."""

    def test_of(check: Callable[..., None]) -> Any:
        @pytest.mark.parametrize("examples", [30, MANY])
        def test(client: TestClient, examples: int) -> None:
            settings(max_examples=examples, deadline=None)(given(**arguments)(check))(client)

        return test

    return test_of


queries = st.dictionaries(
    st.sampled_from(["limit", "offset", "type", "address", "delay", "quiet"]), st.text(max_size=5)
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(
        ["$vpn", "$", "$$", "${", "geo", "satvpn_pc", "/", "..", "\x00", "💡", "1" * 600, "\ud800"]
    ),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


def places(content: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything in a JSON value."""
    yield at
    entries = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    for key, entry in entries:
        yield from places(entry, (*at, key))


PLACES = [place for place in places(SCENARIO) if place]


@st.composite
def broken_scenarios(draw: st.DrawFn) -> Any:
    """A good scenario in which something is replaced, removed or added."""
    made = copy.deepcopy(SCENARIO)
    for _ in range(draw(st.integers(1, 3))):
        *outer, last = draw(st.sampled_from(PLACES))
        target: Any = made
        for key in outer:
            if not isinstance(target, (dict, list)) or (
                isinstance(target, dict) and key not in target
            ):
                break
            if isinstance(target, list) and (not isinstance(key, int) or key >= len(target)):
                break
            target = target[key]
        else:
            if isinstance(target, dict):
                if draw(st.booleans()):
                    target[last] = draw(values)
                else:
                    target.pop(last, None)
            elif isinstance(target, list) and isinstance(last, int) and last < len(target):
                target[last] = draw(values)
    return made


def named(more: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"name": leaves}, optional=more)


@st.composite
def broken_projects(draw: st.DrawFn) -> Any:
    return {
        "name": draw(st.one_of(st.just("p"), values)),
        **draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "description": values,
                    "owners": values,
                    "hidden_network": values,
                    "entity": st.one_of(values, st.lists(named({"networks": values}), max_size=3)),
                    "network": st.one_of(values, st.lists(named({"address": leaves}), max_size=3)),
                    "scenario": st.one_of(values, st.lists(broken_scenarios(), max_size=2)),
                },
            )
        ),
    }


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with visiting(application(tmp_path_factory.mktemp("web"), workers=1)) as visitor:
        yield visitor


def everything(client: TestClient) -> Any:
    return client.get("/project/").json()


def post(client: TestClient, path: str, content: Any) -> Any:
    headers = {"Content-Type": "application/json"}
    return client.post(path, content=json.dumps(content).encode(), headers=headers)


@drawn(sent=broken_scenarios())
def test_scenarios(client: TestClient, sent: Any) -> None:
    before = everything(client)
    answer = post(client, "/project/satvpn/scenario/", sent)
    assert answer.status_code in (200, 400, 409), answer.text
    if answer.status_code == 200:
        stored = answer.json()
        assert stored in client.get("/project/satvpn/scenario/").json()
        client.delete(f"/project/satvpn/scenario/{quote(stored['name'], safe='')}/")
    else:
        assert everything(client) == before
    if isinstance(sent, dict) and sent.get("name") == "geo_loss":
        assert client.put("/project/satvpn/scenario/geo/", json={"name": "geo"}).status_code == 400


@drawn(sent=broken_scenarios())
def test_changes_of_a_scenario(client: TestClient, sent: Any) -> None:
    kept = client.get("/project/satvpn/scenario/geo_loss/").json()
    headers = {"Content-Type": "application/json"}
    answer = client.put(
        "/project/satvpn/scenario/geo_loss/", content=json.dumps(sent).encode(), headers=headers
    )
    assert answer.status_code in (200, 400), answer.text
    now = client.get("/project/satvpn/scenario/geo_loss/").json()
    assert now == (answer.json() if answer.status_code == 200 else kept)


@drawn(sent=broken_projects())
def test_projects(client: TestClient, sent: Any) -> None:
    before = everything(client)
    answer = post(client, "/project/", sent)
    assert answer.status_code in (200, 400, 409), answer.text
    if answer.status_code == 200:
        assert answer.json() in everything(client)
        client.delete(f"/project/{quote(answer.json()['name'], safe='')}/")
    else:
        assert everything(client) == before


@drawn(arguments=values, path=st.sampled_from(["geo", "geo_loss", "geo_loss_table", "none"]))
def test_starts(client: TestClient, arguments: Any, path: str) -> None:
    answer = post(
        client, f"/project/satvpn/scenario/{path}/scenario_instance/", {"arguments": arguments}
    )
    assert answer.status_code in (200, 400, 404, 422), answer.text


ROUTES = [
    "/login/", "/job/", "/agent/", "/project/satvpn/", "/project/satvpn/entity/",
    "/scenario_instance/1/", "/file/", "/project/satvpn/scenario/geo/", "/job_instance/",
    "/login/users/", "/collector/",
]  # fmt: skip


@drawn(
    route=st.sampled_from(ROUTES),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    body=st.one_of(values, st.binary()),
    query=queries,
)
def test_any_body_anywhere(
    client: TestClient, route: str, method: str, body: Any, query: dict[str, str]
) -> None:
    if method == "DELETE" and route in (
        "/project/satvpn/",
        "/project/satvpn/scenario/geo/",
        "/login/",
    ):
        return  # these would do what they are asked to
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.request(method, route, content=content, params=query)
    assert answer.status_code < 500 and answer.status_code != 403, answer.text


# Our page


def token_of(client: TestClient) -> str:
    return client.get("/").text.partition('name="token" value="')[2].partition('"')[0]


@drawn(
    file=st.one_of(
        st.binary(max_size=200), broken_scenarios().map(lambda sent: json.dumps(sent).encode())
    )
)
def test_uploads(client: TestClient, file: bytes) -> None:
    before = everything(client)
    files = {"file": ("mine.json", file, "application/json")}
    answer = client.post(
        "/page/import", data={"token": token_of(client)}, files=files, follow_redirects=False
    )
    assert answer.status_code in (303, 422), answer.text
    if answer.status_code == 422:
        assert everything(client) == before


def test_an_upload_with_half_a_character_is_refused(client: TestClient) -> None:
    """It was kept, and every list of the scenarios then ended in an error."""
    sent = json.dumps({**SCENARIO, "name": "halved", "description": "\ud800"}).encode()
    files = {"file": ("mine.json", sent, "application/json")}
    answer = client.post(
        "/page/import", data={"token": token_of(client)}, files=files, follow_redirects=False
    )
    assert answer.status_code == 422 and "mine.json: no JSON" in answer.text
    assert everything(client)


FIELDS = ["value.vpn", "values.loss", "values.size", "seeds", "value.cc", "value.x"]


@drawn(
    fields=st.dictionaries(
        st.one_of(st.sampled_from(FIELDS), st.text(max_size=6)),
        st.lists(st.text(max_size=12), max_size=3),
        max_size=5,
    ),
    complete=st.booleans(),
)
def test_forms(client: TestClient, fields: dict[str, list[str]], complete: bool) -> None:
    launched = len(client.get("/project/satvpn/scenario_instance/?quiet").json())
    whole = {
        f"values.{name}": value
        for name, value in ARGUMENTS.items()
        if name in SCENARIO["arguments"]
    }
    data = {**(whole if complete else {}), **fields, "token": token_of(client)}
    answer = client.post("/page/scenario/satvpn/geo_loss", data=data, follow_redirects=False)
    assert answer.status_code in (303, 422), answer.text
    if answer.status_code == 422:
        assert len(client.get("/project/satvpn/scenario_instance/?quiet").json()) == launched


def test_a_form_says_what_is_not_tested_here(tmp_path: Path) -> None:
    # A server of its own: other tests replace scenarios.
    with visiting(application(tmp_path, workers=1)) as client:
        form = client.get("/page/scenario/satvpn/geo_loss").text
    assert "> mycelium (not tested here)</label>" in form
    assert "> wireguard</label>" in form


def test_forms_without_the_pages_token_do_nothing(client: TestClient) -> None:
    before = everything(client)
    files = {
        "file": ("mine.json", b'{"name": "foreign", "openbach_functions": []}', "application/json")
    }
    for token in ({}, {"token": "x"}, {"token": "0" * 64}):
        assert client.post("/page/import", data=token, files=files).status_code == 403
        assert client.post("/page/scenario/satvpn/geo", data=token).status_code == 403
    assert everything(client) == before
