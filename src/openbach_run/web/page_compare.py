# SPDX-License-Identifier: GPL-3.0-or-later
"""The page on which runs and cells are compared, and curves as JSON, CSV, SVG and PNG.

The address says what is shown.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from starlette.datastructures import QueryParams

from openbach_run.web import compare, curves, result_sets
from openbach_run.web.answers import Json, Services, With, download, not_found
from openbach_run.web.compare import Item
from openbach_run.web.curves import Curve
from openbach_run.web.page_results import LOOK_S
from openbach_run.web.render import Form, shown
from openbach_run.web.runs import Run, find_run

SAVED = ("run", "cell", "base", "seed", "times", "from", "to", "hide", "more")
"""The fields of an address that are stored with a comparison."""

router = APIRouter()


def asked_items(query: QueryParams) -> list[tuple[str, str]]:
    """Return the items that an address names: ("run" or "cell", text)."""
    return [(name, text) for name, text in query.multi_items() if name in ("run", "cell")]


def asked_seed(query: QueryParams) -> int | None:
    """Return the seed that an address names, or None."""
    text = query.get("seed", "")
    return int(text) if text.isdecimal() and len(text) < 11 else None


@router.get("/page/compare")
def comparison(request: Request, services: With) -> Response:
    """Show the items of an address beside each other."""
    services.index.look(LOOK_S)
    query = request.query_params
    items = compare.items_of(services, asked_items(query))
    base = next((n for n, item in enumerate(items) if item.word == query.get("base")), 0)
    differ, same = compare.settings(items)
    seed = compare.seed_of(items, asked_seed(query))
    all_seeds = len(items) == 1 and items[0].is_cell and asked_seed(query) is None
    seeds: set[int] = set().union(*(item.seeds for item in items if item.is_cell))
    words = [pair(item) for item in items]
    paired = compare.are_paired(services, items)
    pairs = [*words, *((name, query[name]) for name in ("seed", "times") if query.get(name))]
    all_saved = "SELECT substr(item, 9), name FROM mark WHERE item LIKE 'compare/%' ORDER BY name"
    return shown(
        request,
        "compare.html",
        items=items,
        base=base,
        differ=differ,
        same=same,
        missing=len(set(asked_items(query))) - len(items),
        address=urlencode(pairs),
        words=words,
        warnings=compare.warnings(items, paired=paired),
        ratios=compare.ratios(services, items, base, paired=paired) if len(items) > 1 else [],
        paired=paired,
        seed=None if all_seeds else seed,
        seeds=sorted(seeds),
        all_saved=services.database.pairs(all_saved),
        without=lambda word: urlencode([other for other in words if "=".join(other) != word]),
    )


@router.post("/page/compare")
def save(form: Form, services: With) -> Response:
    """Store a comparison under a name, and show it; without a name remove it, but not its runs."""
    pairs = [
        (name, value) for name, value in parse_qsl(str(form.get("shown", ""))) if name in SAVED
    ]
    query, name = urlencode(pairs), str(form.get("name", "")).strip()
    key = hashlib.sha256(query.encode()).hexdigest()[:12]
    if not name:
        services.database.execute("DELETE FROM mark WHERE item = ?", f"compare/{form.get('key')}")
        return RedirectResponse("/page/compare", 303)
    result_sets.mark(services, f"compare/{key}", name=name, note=query)
    return RedirectResponse(f"/page/compare/{key}", 303)


@router.get("/page/compare/{key}")
def saved(key: str, services: With) -> Response:
    """Redirect to a comparison as it was stored. Raises Refusal (404)."""
    row = services.database.row("SELECT note FROM mark WHERE item = ?", f"compare/{key}")
    if row is None:
        raise not_found("Comparison", key=key)
    return RedirectResponse(f"/page/compare?{row['note']}&saved={quote(key)}", 303)


def pair(item: Item) -> tuple[str, str]:
    """Return an item as the address names it: kind and text."""
    kind, _, text = item.word.partition("=")
    return kind, text


def sole_run(services: Services, query: QueryParams) -> Run | None:
    """Return the run that an address names, if it names nothing else.

    Such a run may not have ended, and is then not in the index.
    """
    items = asked_items(query)
    if len(items) != 1 or items[0][0] != "run":
        return None
    folder, _, name = items[0][1].partition("/")
    return find_run(services, folder, name)


def found_curves(services: Services, query: QueryParams) -> list[Curve]:
    """Return the curves of the items in an address. Raises Refusal (404) if there are no items."""
    items_asked = asked_items(query)
    if (run := sole_run(services, query)) is not None:
        return curves.overlaid([("", curves.curves_of(run.place, services.platform.packages))])
    items = compare.items_of(services, items_asked)
    if not items:
        raise not_found("Run", asked=len(items_asked))
    all_curves = compare.curves(services, items, asked_seed(query))
    return all_curves if query.get("times") == "began" else curves.from_first_byte(all_curves)


@router.get("/page/curves.json")
def as_json(request: Request, services: With) -> Response:
    """Return the curves of an address, and whether their run goes on."""
    run = sole_run(services, request.query_params)
    # The page then asks again.
    going = run is not None and run.goes_on
    return Json({**curves.as_json(found_curves(services, request.query_params)), "going": going})


@router.get("/page/curves.csv")
def as_csv(request: Request, services: With) -> Response:
    """Return the curves of an address as a CSV file."""
    lines = curves.as_csv(_cut(request.query_params, found_curves(services, request.query_params)))
    headers = {"Content-Disposition": 'attachment; filename="curves.csv"'}
    return StreamingResponse(
        (line.encode(errors="replace") for line in lines), media_type="text/csv", headers=headers
    )


@router.get("/page/curves.{kind}")
def as_figure(kind: str, request: Request, services: With) -> Response:
    """Return the curves of an address as an SVG or PNG file. Raises Refusal (404)."""
    if kind not in ("svg", "png"):
        raise not_found("Figure", kind=kind)
    shown_curves = _cut(request.query_params, found_curves(services, request.query_params))
    names = request.query_params.getlist("plot") or curves.first_plots(shown_curves)
    image = curves.PEN.submit(curves.drawn, [c for c in shown_curves if c.plot in names], kind)
    policy = {"Content-Security-Policy": "default-src 'none'"}
    return download(image.result(), f"curves.{kind}", curves.MIME[kind], **policy)


def _cut(query: QueryParams, whole: Sequence[Curve]) -> list[Curve]:
    """Return the curves that the address shows."""
    span = _time(query, "from", -math.inf), _time(query, "to", math.inf)
    return curves.cut(whole, query.getlist("plot"), query.getlist("hide"), *span)


def _time(query: QueryParams, name: str, otherwise: float) -> float:
    """Return a time of an address in s."""
    try:
        return float(query[name])
    except (KeyError, ValueError):
        return otherwise
