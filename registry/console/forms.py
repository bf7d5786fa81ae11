"""Reads the fields of a form that a browser sent."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from ..operators.language import say
from .connections import WITHIN_S
from .context import BadRequest, PageNotAllowed
from .login.guard import is_token
from .login.viewer import viewer_of

_MOST_BYTES: Final = 256 * 1024
MOST_LOGIN_BYTES: Final = 4 * 1024


async def read_form(request: Request, most_bytes: int = _MOST_BYTES) -> dict[str, str]:
    """The fields of a form. If a name occurs several times, its last value counts.

    BadRequest: the body is too large, cannot be read as a form, or did not come in time.
    """
    body = b""
    try:
        async with asyncio.timeout(WITHIN_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most_bytes:
                    raise BadRequest(say("the form has more than {number} bytes", number=most_bytes))
    except TimeoutError:
        raise BadRequest(say("the form was not whole within {seconds} s", seconds=f"{WITHIN_S:g}")) from None
    except ClientDisconnect:  # nobody reads the answer
        raise BadRequest(say("the browser hung up before the form was whole")) from None
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, strict_parsing=True, errors="strict"))
    except ValueError:
        raise BadRequest(say("the form cannot be read")) from None


async def read_checked_form(request: Request) -> dict[str, str]:
    """The fields of a form that a page of this console made for this viewer; PageNotAllowed: no such page made it."""
    form = await read_form(request)
    if not is_token(form.get("token", ""), viewer_of(request).token):
        raise PageNotAllowed(
            say("the form comes from another run of this console, or from another login: open the page again")
        )
    return form
