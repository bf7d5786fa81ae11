"""Chooses the time zone of a browser's pages: the server's, UTC, or the browser's own. A cookie keeps it."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse

from ..context import Console

TIME_ZONE_COOKIE: Final = "zone"
_YEAR_S: Final = 366 * 86_400


async def choose(console: Console, request: Request) -> RedirectResponse:
    """Keep the zone, and go back to the page."""
    back = request.query_params.get("back", "/")
    if not back.startswith("/") or back.startswith(("//", "/\\")):
        back = "/"
    answer = RedirectResponse(console.url(back), 303)
    name = request.query_params.get("name", "")[:64]
    path = console.home_path or "/"
    if name:
        answer.set_cookie(TIME_ZONE_COOKIE, name, max_age=_YEAR_S, path=path, httponly=True, samesite="strict")
    else:
        answer.delete_cookie(TIME_ZONE_COOKIE, path=path, httponly=True, samesite="strict")
    return answer
