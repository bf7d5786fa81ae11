"""Sets the headers of every answer of the console, and checks requests: Host, Origin, form token."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Any, Final, cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from ...networks import is_loopback, parse_address
from .reach import LOOPBACK, Reach

_HEADERS: Final = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def host_of(value: str) -> str:
    """The host of a Host header, without its port, in lower case; IPv6 without brackets."""
    if value.startswith("["):
        return value[1:].partition("]")[0].lower()
    return value.rpartition(":")[0].lower() if ":" in value else value.lower()


class Guard:
    """Refuses requests whose Host is not the console's, and requests that come from a page of another site.

    With DNS rebinding an attacker's site has a name that resolves to 127.0.0.1; its requests have that name in Host.
    A form or a script of another site has that site in Origin, or in Sec-Fetch-Site.

    Args:
        root_path: the path below which a proxy serves the console; the proxy may strip the path or pass it on.
        reach: how browsers reach the console: declared origins, proxies, its own TLS.
    """

    def __init__(self, app: ASGIApp, root_path: str, reach: Reach) -> None:
        self._app = app
        self._root_path = root_path
        self._reach = reach

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)  # some pages have set a stricter one, or allow a frame
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

    def _fault(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if host_of(host) not in LOOPBACK and host not in self._reach.hosts:
            names = ", ".join(("localhost", "127.0.0.1", *sorted(self._reach.hosts)))
            return (
                f"the request names the host {host[:100]!a}, and this console answers to {names} alone: open it under "
                "one of these, have the proxy send one of them as Host, or start it with --origin https://NAME"
            )
        if scope["method"] in ("GET", "HEAD"):
            return None
        origin = headers.get("origin")
        if origin is None or not self._is_ours(origin.lower(), host):
            return (
                f"the request comes from the site {(origin or 'unknown')[:100]!a}, not from this console: if a "
                "proxy serves the console there, start it with --origin"
            )
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return "the request comes from another site"
        return None

    def _is_ours(self, origin: str, host: str) -> bool:
        """Whether the Origin is this console's: a declared one, or a loopback name that equals Host."""
        if origin in self._reach.origins:
            return True
        return host_of(host) in LOOPBACK and origin.partition("://")[2] == host


class Peers:
    """Records the peer before X-Forwarded-For replaces it. Without TLS it refuses all but proxies and loopback."""

    def __init__(self, app: ASGIApp, reach: Reach) -> None:
        self._app = app
        self._reach = reach

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http":
            peer = scope.get("client") or ("", 0)
            peer = (str(parse_address(peer[0]) or peer[0]), peer[1])  # an IPv4 address in an IPv6 one becomes IPv4
            scope["client"] = peer  # for the middleware that reads X-Forwarded-For
            is_proxy = self._reach.is_proxy(peer[0])
            if not (is_proxy or self._reach.is_tls or is_loopback(peer[0])):
                text = "this console takes requests from its proxy alone, and this request comes from elsewhere\n"
                await PlainTextResponse(text, 403, dict(_HEADERS))(scope, receive, send)
                return
            if is_proxy and any(name == b"x-forwarded-for" for name, _ in scope["headers"]):
                scope["via"] = peer
        await self._app(scope, receive, send)


def guards(root_path: str, reach: Reach) -> Sequence[Middleware]:
    """The middleware of every request, the outermost first."""
    proxied = []
    if reach.proxies:
        proxied = [
            Middleware(Peers, reach=reach),
            Middleware(cast(Any, ProxyHeadersMiddleware), trusted_hosts=list(reach.proxies)),
        ]
    return [*proxied, Middleware(Guard, root_path=root_path, reach=reach)]


def is_token(given: str, token: str) -> bool:
    """Whether the token of a form is the expected one."""
    return hmac.compare_digest(given.encode(), token.encode())
