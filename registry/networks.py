"""Networks and addresses of peers, as settings and rules name them, and a fast test whether an address is in one."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address


@functools.lru_cache(maxsize=4096)
def parse_address(text: str) -> Address | None:
    """The address of a peer; None if it is none (a unix socket). IPv4 in an IPv6 socket counts as IPv4."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def canonical_network(text: str) -> str:
    """A network as it is stored: ``10.0.0.0/8``; a single address is a network of one.

    Raises:
        ValueError: it is none, or has bits of a host; the message says which.
    """
    network = ip_network(text.strip())
    if isinstance(network, IPv6Network) and network.prefixlen >= 96:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            network = ip_network(f"{mapped}/{network.prefixlen - 96}")
    return str(network)


class Networks:
    """A list of networks; in an empty one is nobody.

    Raises:
        ValueError: a text is neither an address nor a network.
    """

    __slots__ = ("_ranges",)

    def __init__(self, texts: Iterable[str]) -> None:
        networks = [ip_network(canonical_network(text)) for text in texts]
        self._ranges = tuple(
            (network.version, int(network.network_address), int(network.broadcast_address)) for network in networks
        )

    @classmethod
    def of_setting(cls, text: str) -> Networks:
        """As settings write a list: ``127.0.0.0/8;::1;10.1.2.3``."""
        return cls(part for part in text.split(";") if part.strip())

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def has(self, address: Address | None) -> bool:
        """Whether the address is in one of them; an unknown one is in none."""
        if address is None:
            return False
        version, number = address.version, int(address)
        return any(v == version and first <= number <= last for v, first, last in self._ranges)

    def has_host(self, host: str) -> bool:
        """Whether a host is in one of them, as a socket names it: an address without a port."""
        return self.has(parse_address(host))
