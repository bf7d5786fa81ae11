"""What every answer of the console has, and whose requests it takes: the headers, the Host, the Origin, the token."""

from __future__ import annotations

import hmac
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS: Final = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def host_of(value: str) -> str:
    """The host of a Host header, without its port, in lower case; IPv6 without brackets."""
    if value.startswith("["):
        return value[1:].partition("]")[0].lower()
    return value.rpartition(":")[0].lower() if ":" in value else value.lower()


class Guard:
    """Refuses requests that name another host than this machine, and those that another site had a browser send.

    A page of somebody else whose name resolves to 127.0.0.1 (DNS rebinding) has its own name in Host. A form or a
    script of another site has that site in Origin, or in Sec-Fetch-Site.

    Args:
        root_path: the path below which a proxy shows the console, whether the proxy cuts it off or not.
    """

    def __init__(self, app: ASGIApp, root_path: str = "") -> None:
        self._app = app
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in _HEADERS.items():
                    headers[name] = value
                if "cache-control" not in headers:
                    headers["cache-control"] = "no-store"
            await send(message)

        fault = self._fault(scope)
        if fault is not None:
            await PlainTextResponse(fault + "\n", 403)(scope, receive, with_headers)
            return
        if self._root_path and scope["path"].startswith(self._root_path + "/"):
            path = scope["path"].removeprefix(self._root_path)
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await self._app(scope, receive, with_headers)

    @staticmethod
    def _fault(scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host_of(host) not in _LOOPBACK:
            return (
                f"this console answers to localhost and 127.0.0.1 alone, the request names the host {host[:100]!a}: "
                "open it under one of these, or have the proxy send Host: 127.0.0.1"
            )
        if scope["method"] in ("GET", "HEAD"):
            return None
        origin = headers.get("origin")
        if origin is None or origin.partition("://")[2].lower() != host.lower():
            return f"the request comes from the site {(origin or 'unknown')[:100]!a}, not from this console"
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return "the request comes from another site"
        return None


def is_token(given: str, token: str) -> bool:
    """Whether a form was made by this console."""
    return hmac.compare_digest(given.encode(), token.encode())
