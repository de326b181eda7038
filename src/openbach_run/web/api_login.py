# SPDX-License-Identifier: GPL-3.0-or-later
"""REST API: login/ and version/."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from openbach_run.web import answers
from openbach_run.web.answers import Body, Refusal, Services, With, refused_by_view
from openbach_run.web.platform import VERSION
from openbach_run.web.sessions import cookie_of

router = APIRouter()


def profile(services: Services, user: str | None) -> dict[str, Any]:
    """Return the user's profile; before the login, that of nobody."""
    favourites: dict[str, list[str]] = {}
    if user is not None:
        for row in services.database.rows(
            "SELECT project, name FROM scenario WHERE favourite = 1 ORDER BY name"
        ):
            favourites.setdefault(row["project"], []).append(row["name"])
    return {
        "username": user,
        "name": user,
        "first_name": user and "",
        "last_name": user and "",
        "is_user": user is not None,
        "is_admin": user is not None,
        "email": user and "",
        "favorites": favourites,
    }


def user_of(request: Request, services: Services) -> str | None:
    """Return the user of the request's session; None if there is none."""
    return services.sessions.user(request.cookies.get(cookie_of(request.headers)))


@router.get("/login/")
def who(request: Request, services: With) -> dict[str, Any]:
    """Return the profile of who is logged in."""
    return profile(services, user_of(request, services))


@router.post("/login/")
async def log_in(
    request: Request, response: Response, body: Body, services: With
) -> dict[str, Any]:
    """Log in with login and password; answer with the profile and a cookie."""
    if body.get("action", "authenticate") != "authenticate":
        raise Refusal(422, "The local controller has one user; log in as that")
    for field in ("login", "password"):
        if not isinstance(body.get(field), str):
            raise refused_by_view(400, f"Missing login field '{field}'")
    if user_of(request, services) is not None:
        text = "A user is already connected. Please logout first and then log back in."
        raise refused_by_view(409, text)
    cookie = await answers.log_in(request, services, body["login"], body["password"])
    if cookie is None:
        raise refused_by_view(401, "Wrong Credentials")
    response.set_cookie(cookie_of(request.headers), cookie, httponly=True, samesite="strict")
    return profile(services, body["login"])


@router.put("/login/")
def change_profile(request: Request, services: With) -> dict[str, Any]:
    """Return the profile as it is: nothing in it can be changed here."""
    return profile(services, user_of(request, services))


@router.delete("/login/", status_code=204)
def log_out(request: Request, response: Response, services: With) -> None:
    """End the session."""
    services.sessions.log_out(request.cookies.get(cookie_of(request.headers)))
    response.delete_cookie(cookie_of(request.headers))


@router.get("/login/users/")
def users(request: Request, services: With) -> list[dict[str, Any]]:
    """Return all users: the one who is logged in."""
    user = user_of(request, services)
    entry = profile(services, user)
    del entry["favorites"]
    return [entry] if user is not None else []


@router.put("/login/users/")
@router.delete("/login/users/")
def change_users() -> None:
    """Refuse (422): the one user cannot be changed."""
    raise Refusal(422, "The local controller has one user, who cannot be changed or deleted")


@router.api_route("/version/", methods=["GET", "POST", "PUT", "PATCH"])
def version() -> dict[str, str]:
    """Return the version of OpenBACH whose API this is."""
    return {"openbach_version": VERSION}
