"""Asks an HTTP server for the addresses of the name servers, as RocketMQ's clients do.

Source of the behaviour: TopAddressing and MixAll.getWSAddr (rocketmq 5.x).
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import ssl
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Final
from urllib.parse import quote, urlsplit

from ..errors import PeerUnavailable

# How long a Java client waits for the answer.
LOOKUP_TIMEOUT_S: Final = 3.0
_ANSWER_BYTES: Final = 64 * 1024


@dataclass(frozen=True)
class AddressServer:
    """An HTTP server that answers GET with ``host:port;host:port`` in its first line."""

    url: str

    @classmethod
    def at(cls, domain: str, subgroup: str = "nsaddr", unit_name: str = "") -> AddressServer:
        """Make the address server's URL as Java clients do.

        Args:
            domain: ``rocketmq.namesrv.domain``, host or host:port; default port 8080.
            subgroup: ``rocketmq.namesrv.domain.subgroup``.
            unit_name: the client's unitName; of a name server in cluster-test mode its productEnvName.
        """
        base = f"http://{domain}/rocketmq/" if ":" in domain else f"http://{domain}:8080/rocketmq/"
        unit = f"-{quote(unit_name, safe='')}?nofix=1" if unit_name.strip() else ""
        return cls(f"{base}{subgroup}{unit}")

    async def fetch(self, *, timeout_s: float = LOOKUP_TIMEOUT_S) -> str:
        """Ask once; returns the first line of the answer, which is never empty.

        Raises:
            PeerUnavailable: no answer in time, no HTTP answer, another status than 200, or an empty body.
        """
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._get()
        except (OSError, UnicodeError, ValueError) as error:
            why = f"no answer within {timeout_s:g} s" if isinstance(error, TimeoutError) else error
            raise PeerUnavailable(f"address server {self.url}: {why}") from error
        try:
            received = SimpleNamespace(makefile=lambda *_: io.BytesIO(answer))  # HTTPResponse uses nothing else
            response = http.client.HTTPResponse(received)  # type: ignore[arg-type]
            response.begin()
            text = response.read().decode("utf-8", "replace").strip()
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise PeerUnavailable(f"address server {self.url}: no HTTP answer: {error!r}") from error
        if response.status != 200:
            raise PeerUnavailable(f"address server {self.url}: status {response.status}, expected 200")
        if not text:
            raise PeerUnavailable(f"address server {self.url}: an empty answer, expected host:port;host:port")
        return text.splitlines()[0].strip()

    async def _get(self) -> bytes:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        tls = parts.scheme == "https"
        reader, writer = await asyncio.open_connection(
            host, parts.port or (443 if tls else 80), ssl=ssl.create_default_context() if tls else None
        )
        try:
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            writer.write(f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
            answer = bytearray()
            while data := await reader.read(_ANSWER_BYTES):
                answer += data
                if len(answer) > _ANSWER_BYTES:
                    raise ValueError(f"an answer of more than {_ANSWER_BYTES} bytes")
            return bytes(answer)
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
