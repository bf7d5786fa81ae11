"""The pages of the login, and the answer to requests without a login."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ...operators.language import say
from ...operators.words import some
from ..context import PageWriter
from ..forms import MOST_LOGIN_BYTES, read_form
from ..login.guard import is_token
from ..login.logins import Logins
from ..twins import Failure, failure_twin, wants_json

_MOST_NEXT: Final = 2000


def ask(pages: PageWriter, request: Request) -> Response:
    """The answer to a request that has no session.

    When a user follows a link of another site, the browser does not send the SameSite=Strict cookie of the session.
    The answer is then a page that loads itself again, and the new request has the cookie.
    """
    path = request.scope["path"]
    if wants_json(request):
        return failure_twin(Failure(401, "Log in", "A form of name and secret to /login gives the cookie."))
    if path == "/events":  # an open page, whose session is over
        return Response("retry: 5000\n\nevent: ended\ndata: \n\n", media_type="text/event-stream")
    if "hx-request" in request.headers:
        return Response(status_code=401, headers={"hx-refresh": "true"})
    if request.method not in ("GET", "HEAD"):
        return pages.outside(
            request, "login.html", 401, next="/", text=say("You are not logged in any more. Nothing was changed.")
        )
    if request.headers.get("sec-fetch-site") == "cross-site" and request.headers.get("sec-fetch-mode") == "navigate":
        return HTMLResponse('<!doctype html><html lang="en"><title>mqregistry</title><meta http-equiv="refresh" '
                            'content="0">')  # fmt: skip
    wanted = path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(pages.home_url("/login") + f"?{urlencode({'next': wanted})}", 303)


async def login(pages: PageWriter, request: Request, logins: Logins) -> Response:
    """Answer with the form of the login."""
    wanted = _next(request.query_params.get("next", ""))
    known = [one.namespace for one in logins.all if one.viewer(request) is not None]
    if known and len(logins.all) == 1:
        return RedirectResponse(pages.home_path + wanted, 303)
    text = ""
    if known:
        text = say(
            "You are logged in to {names}. What you asked for needs a user of another namespace.", names=some(known)
        )  # fmt: skip
    return pages.outside(request, "login.html", 200, next=wanted, text=text)


async def log_in(pages: PageWriter, request: Request, logins: Logins) -> Response:
    """Log in a user who sent the form, or show the form again with the reason."""
    form = await read_form(request, MOST_LOGIN_BYTES)
    wanted = _next(form.get("next", ""))
    answer = await logins.log_in(request, form.get("name", "").strip(), form.get("secret", "").strip())
    if not answer.opened:
        if not answer.wait_s:
            return pages.outside(request, "login.html", 401, next=wanted, text=answer.text)
        seconds = str(int(answer.wait_s) + 1)
        text = answer.text + say(" Try again in {seconds} s.", seconds=seconds)
        page = pages.outside(request, "login.html", 429, next=wanted, text=text)
        page.headers["retry-after"] = seconds
        return page
    response = RedirectResponse(pages.home_path + wanted, 303)
    for one, value in answer.opened:
        one.give(request, response, value)
    return response


async def log_out(pages: PageWriter, request: Request, logins: Logins) -> Response:
    """End the session, or with several namespaces all of them, also for other open pages."""
    form = await read_form(request, MOST_LOGIN_BYTES)
    viewers = [viewer for one in logins.all if (viewer := one.viewer(request)) is not None]
    response = RedirectResponse(pages.home_url("/login"), 303)
    if viewers and not any(is_token(form.get("token", ""), viewer.token) for viewer in viewers):
        return RedirectResponse(pages.home_url("/"), 303)
    for one in logins.all:
        one.log_out(request)
        one.take(response)
    return response


def _next(text: str) -> str:
    """The path to go to after the login; never that of another site."""
    fits = text.startswith("/") and not text.startswith("//") and text.isprintable() and "\\" not in text
    return text if fits and len(text) <= _MOST_NEXT else "/"
