"""Limits the console's connections: how many one address and all together may open, how long a request may take."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

MOST: Final = 1000
MOST_OF_ADDRESS: Final = 64
# The header of a request must be complete this long after its first byte, and a form this long after the header.
WITHIN_S: Final = 10.0

_Protocol: Any = AutoHTTPProtocol


def bounded(is_proxy: Callable[[str], bool]) -> type[asyncio.Protocol]:
    """The protocol class of one console's connections.

    ``is_proxy``: whether an address is that of a proxy; many browsers connect from it, so only MOST limits it.
    """
    of_address: Counter[str] = Counter()

    class Bounded(_Protocol):  # type: ignore[misc]
        """One connection."""

        _address = ""
        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            """Close the connection if there are too many."""
            super().connection_made(transport)
            self._address = (transport.get_extra_info("peername") or ("?",))[0]
            of_address[self._address] += 1
            of_one = of_address[self._address]
            if of_address.total() > MOST or (of_one > MOST_OF_ADDRESS and not is_proxy(self._address)):
                transport.abort()
            else:
                self._look()

        def data_received(self, data: bytes) -> None:
            """Start the timer of the next request."""
            super().data_received(data)
            self._look()

        def connection_lost(self, error: Exception | None) -> None:
            """The connection is closed: stop counting it."""
            of_address[self._address] -= 1
            if not of_address[self._address]:
                del of_address[self._address]
            self._cancel()
            super().connection_lost(error)

        def _look(self) -> None:
            if self.cycle is not None and not self.cycle.response_complete:
                self._cancel()
            elif self._late is None:
                self._late = asyncio.get_running_loop().call_later(WITHIN_S, self.transport.close)

        def _cancel(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

    return Bounded
