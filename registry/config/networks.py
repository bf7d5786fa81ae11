"""Lists of networks, as settings write them: addresses and networks, separated by ``;``."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

_KEPT: Final = 4096


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The IP address that a host is, without a zone, IPv4 also where IPv6 carries it; None: it is no IP address."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


class Networks:
    """A list of networks, for example ``127.0.0.0/8;::1;10.1.2.3``.

    Raises:
        ValueError: an entry is neither an address nor a network.
    """

    def __init__(self, text: str) -> None:
        parts = [part.strip() for part in text.split(";")]
        self._networks: list[IPv4Network | IPv6Network] = [ip_network(part) for part in parts if part]
        self.has = lru_cache(_KEPT)(self._has)
        """Whether an address (a text without a port) is in one of the networks."""

    def __bool__(self) -> bool:
        return bool(self._networks)

    def _has(self, host: str) -> bool:
        address = address_of(host)
        return address is not None and any(address in network for network in self._networks)
