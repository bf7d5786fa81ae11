"""Finds the addresses of name servers: from a list, ``NAMESRV_ADDR``, DNS names, or an HTTP address server.

Each entry of a list has one of these forms; ``;`` separates entries:

- ``host:port`` (default port 9876; IPv6: ``[::1]:9876``). A host name stands for all its IPv4 addresses, or for all its
  IPv6 addresses if it has no IPv4 address; it is looked up again every two minutes.
- ``http://domain[:port]/rocketmq/nsaddr``: an address server, which answers with a list of ``host:port``
  (:class:`AddressServer`). As in Java, a URL without a path means the ``host:port`` after ``http://``.

Source of the behaviour: NameServerAddressUtils, TopAddressing, MixAll.getWSAddr and
BrokerOuterAPI.updateNameServerAddressListByDnsLookup (rocketmq 5.x).
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ..errors import ConfigError, PeerUnavailable
from ..tasks import wait_within
from .address_server import LOOKUP_TIMEOUT_S, AddressServer

logger = logging.getLogger(__name__)

NAMESRV_ADDR: Final = "NAMESRV_ADDR"
DEFAULT_PORT: Final = 9876
# How often Java asks the address server, or DNS, again.
LOOKUP_EVERY_S: Final = 120.0
_EXPECTED: Final = "expected host:port;host:port or http://domain/rocketmq/nsaddr"


class NameServerAddress(NamedTuple):
    """The address of one name server. ``name``: the host name that was looked up, for the check of its certificate."""

    host: str
    port: int
    name: str

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_literal(self) -> bool:
        """Whether the host is an IP address."""
        return _is_ip(self.host)


def parse_addresses(text: str | Iterable[str]) -> tuple[NameServerAddress | AddressServer, ...]:
    """Read a list of name servers in the forms that the module's docstring names.

    Raises:
        ConfigError: an entry has none of the forms, or there is no entry.
    """
    if not isinstance(text, str):
        text = tuple(text) if isinstance(text, Iterable) else (text,)
        if not all(isinstance(each, str) for each in text):
            raise ConfigError(f"{text!r} is no list of name server addresses: {_EXPECTED}")
    items = text.split(";") if isinstance(text, str) else [item for each in text for item in each.split(";")]
    found = tuple(_parse(item.strip()) for item in items if item.strip())
    if not found:
        raise ConfigError(f"no name server address in {text!r}: {_EXPECTED}")
    return found


def _parse(item: str) -> NameServerAddress | AddressServer:
    wrong = ConfigError(f"{item!r} is no name server address: {_EXPECTED}")
    try:
        if "://" in item:
            parts = urlsplit(item)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise wrong
            if parts.path.strip("/"):
                parts.port  # noqa: B018  # raises ValueError if the port is no number from 0 to 65535
                return AddressServer(item)
            item = parts.netloc
        parts = urlsplit(f"//{item}")
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError:
        raise wrong from None
    host = parts.hostname
    if not host or not port or parts.netloc != item or "@" in item or item.endswith(":"):
        raise wrong
    if not re.fullmatch(r"[\w.-]+", host) and not _is_ip(host):
        raise wrong
    return NameServerAddress(host, port, host)


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


AddressSpec = str | Sequence[str] | AddressServer | None
"""Name servers as a caller gives them: a list in one str, several str, an address server; None: ``NAMESRV_ADDR``."""


def _parse_given(given: AddressSpec) -> tuple[NameServerAddress | AddressServer, ...]:
    if isinstance(given, AddressServer):
        return (given,)
    if given is not None:
        return parse_addresses(given)
    text = os.environ.get(NAMESRV_ADDR, "")
    if not text.strip():
        raise ConfigError(f"no name server address: give one, or set {NAMESRV_ADDR}; {_EXPECTED}")
    try:
        return parse_addresses(text)
    except ConfigError as error:
        raise ConfigError(f"{NAMESRV_ADDR}: {error}") from None


class NameServerAddresses:
    """Knows the addresses of name servers.

    If a look-up fails, the addresses of the previous look-up stay. There is no background task: ``refresh`` looks up
    once, ``follow`` again and again until it is cancelled.

    Args:
        given: the list, in the forms that the module's docstring names.
        every_s: how often ``follow`` looks up names and asks address servers, in seconds.
        timeout_s: for one look-up.

    Raises:
        ConfigError: the argument is no list of addresses.
    """

    def __init__(
        self, given: AddressSpec = None, *, every_s: float = LOOKUP_EVERY_S, timeout_s: float = LOOKUP_TIMEOUT_S
    ) -> None:
        self._every_s, self._timeout_s = every_s, timeout_s
        self._failing: set[str] = set()
        self._current: tuple[NameServerAddress, ...] = ()
        self._soon = asyncio.Event()
        self.replace(given)

    @property
    def current(self) -> tuple[NameServerAddress, ...]:
        """The known addresses, each once, in the order of the list; before the first look-up, only IP addresses."""
        return self._current

    @property
    def is_fixed(self) -> bool:
        """Whether the list has only IP addresses, and needs no look-up."""
        return all(isinstance(entry, NameServerAddress) and entry.is_literal for entry in self._entries)

    def replace(self, given: AddressSpec) -> None:
        """Use another list from now on; ``follow`` then looks it up at once.

        Until the look-up, ``current`` has only the IP addresses of the new list; if the new list has no IP address,
        ``current`` keeps the old addresses.

        Raises:
            ConfigError: as of the constructor; the old list stays.
        """
        self._entries = _parse_given(given)
        self._found: dict[NameServerAddress | AddressServer, tuple[NameServerAddress, ...]] | None = None
        literals = (each for each in self._entries if isinstance(each, NameServerAddress) and each.is_literal)
        self._current = _without_duplicates(literals) or self._current
        self._soon.set()

    async def refresh(self) -> tuple[NameServerAddress, ...]:
        """Look up all names and ask all address servers now; returns the addresses.

        Raises:
            PeerUnavailable: no address was found, now or before; the message has the reason for each.
        """
        while True:
            entries = self._entries
            answers = await asyncio.gather(*(self._look_up(entry) for entry in entries))
            if entries is self._entries:  # if not, replace() was called meanwhile
                break
        before = self._found or {}
        self._found = {
            entry: found or before.get(entry, ()) for entry, (found, _) in zip(entries, answers, strict=True)
        }
        self._complain({text for _, errors in answers for text in errors})
        self._current = _without_duplicates(address for entry in entries for address in self._found[entry])
        if not self._current:
            raise PeerUnavailable("no name server address is known: " + "; ".join(sorted(self._failing)))
        return self._current

    def look_again_soon(self) -> None:
        """Make ``follow`` look up now, e.g. because no server at the known addresses answers."""
        self._soon.set()

    async def follow(
        self, on_change: Callable[[tuple[NameServerAddress, ...]], None] = lambda _: None, *, least_s: float = 1.0
    ) -> None:
        """Look up now (unless ``refresh`` has done so), every ``every_s``, and when ``look_again_soon`` is called.

        It ends only when it is cancelled.

        Args:
            on_change: called with the new list when it has changed.
            least_s: the shortest time between two look-ups.
        """
        known = self._current
        least_s = min(least_s, self._every_s)
        if self._found is not None:
            self._soon.clear()
        while True:
            await wait_within(self._soon, None if self.is_fixed else self._every_s)
            self._soon.clear()
            with contextlib.suppress(PeerUnavailable):  # refresh has logged it
                await self.refresh()
            if self._current != known:
                known = self._current
                logger.info("name servers: %s", ";".join(map(str, known)))
                on_change(known)
            await asyncio.sleep(least_s)

    async def _look_up(
        self, entry: NameServerAddress | AddressServer
    ) -> tuple[tuple[NameServerAddress, ...], list[str]]:
        """Return the addresses of one entry, and the error of its look-up."""
        if isinstance(entry, NameServerAddress):
            return await self._resolve(entry)
        try:
            listed = parse_addresses(await entry.fetch(timeout_s=self._timeout_s))
        except PeerUnavailable as error:
            return (), [str(error)]
        except ConfigError as error:
            return (), [f"address server {entry.url}: {error}"]
        answers = await asyncio.gather(*(self._resolve(each) for each in listed if isinstance(each, NameServerAddress)))
        errors = [
            f"address server {entry.url} names another address server, {each.url}: expected host:port"
            for each in listed
            if isinstance(each, AddressServer)
        ]
        return tuple(address for found, _ in answers for address in found), errors + [
            text for _, failed in answers for text in failed
        ]

    async def _resolve(self, address: NameServerAddress) -> tuple[tuple[NameServerAddress, ...], list[str]]:
        if address.is_literal:
            return (address,), []
        try:
            async with asyncio.timeout(self._timeout_s):
                infos = await asyncio.get_running_loop().getaddrinfo(
                    address.host, address.port, type=socket.SOCK_STREAM
                )
        except (OSError, UnicodeError) as error:
            why = f"not looked up within {self._timeout_s:g} s" if isinstance(error, TimeoutError) else error
            return (), [f"name server {address}: {why}"]
        # The IPv4 and the IPv6 addresses of a name belong to the same servers: one kind is enough.
        four = [info for info in infos if info[0] == socket.AF_INET]
        return _without_duplicates(
            NameServerAddress(str(info[4][0]), address.port, address.name) for info in four or infos
        ), []

    def _complain(self, failing: set[str]) -> None:
        for text in sorted(failing - self._failing):
            logger.warning("%s; the known addresses are kept", text)
        self._failing = failing


def _without_duplicates(addresses: Iterable[NameServerAddress]) -> tuple[NameServerAddress, ...]:
    found: dict[tuple[str, int], NameServerAddress] = {}
    for address in addresses:
        found.setdefault((address.host, address.port), address)
    return tuple(found.values())
