"""Reads what a form sent."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from .context import BadRequest

_MOST_BYTES: Final = 256 * 1024


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; of several with one name the last.

    Raises:
        BadRequest: it is too large, or no form.
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise BadRequest(f"the form has more than {_MOST_BYTES} bytes")
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, strict_parsing=True, errors="strict"))
    except ValueError:
        raise BadRequest("the form cannot be read") from None
