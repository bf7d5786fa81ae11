"""The pages of the login itself, and what somebody gets who is not logged in."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ..context import Console
from ..forms import MOST_LOGIN_BYTES, read_form
from ..guard import is_token
from ..login.logins import Logins

_MOST_NEXT: Final = 2000


def ask(console: Console, request: Request) -> Response:
    """The answer to somebody who is not logged in, and wants a page.

    A link on another site leads here without the cookie, which is SameSite=Strict, also for who is logged in: the page
    that then loads itself again is no other site.
    """
    path = request.scope["path"]
    if path == "/events":  # an open page, whose session is over
        return Response("retry: 5000\n\nevent: ended\ndata: \n\n", media_type="text/event-stream")
    if "hx-request" in request.headers:
        return Response(status_code=401, headers={"hx-refresh": "true"})
    if request.method not in ("GET", "HEAD"):
        return console.outside("login.html", 401, next="/", text="You are not logged in any more. Nothing was changed.")
    if request.headers.get("sec-fetch-site") == "cross-site" and request.headers.get("sec-fetch-mode") == "navigate":
        return HTMLResponse('<!doctype html><html lang="en"><title>mqregistry</title><meta http-equiv="refresh" '
                            'content="0">')  # fmt: skip
    wanted = path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(console.url("/login") + f"?{urlencode({'next': wanted})}", 303)


async def login(console: Console, request: Request, logins: Logins) -> Response:
    """Answer with the form of the login."""
    wanted = _next(request.query_params.get("next", ""))
    if logins.viewer(request) is not None:
        return RedirectResponse(console.root_path + wanted, 303)
    return console.outside("login.html", 200, next=wanted, text="")


async def log_in(console: Console, request: Request, logins: Logins) -> Response:
    """Check what the form of the login sent."""
    form = await read_form(request, MOST_LOGIN_BYTES)
    wanted = _next(form.get("next", ""))
    answer = await logins.log_in(request, form.get("name", "").strip(), form.get("secret", "").strip())
    if answer.session is None:
        if not answer.wait_s:
            return console.outside("login.html", 401, next=wanted, text=answer.text)
        seconds = str(int(answer.wait_s) + 1)
        text = f"{answer.text} Try again in {seconds} s."
        page = console.outside("login.html", 429, next=wanted, text=text)
        page.headers["retry-after"] = seconds
        return page
    response = RedirectResponse(console.root_path + wanted, 303)
    logins.give(request, response, answer.value)
    return response


async def log_out(console: Console, request: Request, logins: Logins) -> Response:
    """End the session, also of its other open pages."""
    form = await read_form(request, MOST_LOGIN_BYTES)
    viewer = logins.viewer(request)
    response = RedirectResponse(console.url("/login"), 303)
    if viewer is not None and not is_token(form.get("token", ""), viewer.token):
        return RedirectResponse(console.url("/"), 303)
    logins.log_out(request)
    logins.take(response)
    return response


def _next(text: str) -> str:
    """A path of this console, to go on with; never another site."""
    fits = text.startswith("/") and not text.startswith("//") and text.isprintable() and "\\" not in text
    return text if fits and len(text) <= _MOST_NEXT else "/"
