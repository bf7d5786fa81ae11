"""Parses networks and addresses of peers, and tests fast whether an address is in a list of networks."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
_LOOPBACK = ip_address("127.0.0.1")
_DOCKER = ip_network("172.17.0.0/16")


@functools.lru_cache(maxsize=4096)
def parse_address(text: str) -> Address | None:
    """The address of a peer; None: the text is no address (a unix socket). IPv4 in an IPv6 socket counts as IPv4."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_loopback(host: str) -> bool:
    """Whether a host, a name or an address, can be reached only from its own machine."""
    address = parse_address(host)
    return host == "localhost" if address is None else address.is_loopback


def why_unreachable(broker_addr: str, sender: str) -> str:
    """Why other machines probably cannot reach a broker at its registered address; "" = no reason is known.

    Args:
        broker_addr: ``host:port``, as the broker registers it.
        sender: ``host:port`` from which the broker's connection comes.
    """
    address, source = (parse_address(text.rpartition(":")[0].strip("[]")) for text in (broker_addr, sender))
    if address is None and broker_addr.rpartition(":")[0].lower() == "localhost":
        address = _LOOPBACK
    if address is None:
        return ""
    if address.is_unspecified:
        return "which is no address of any machine"
    if source is None or source.is_loopback:
        return ""
    if address.is_loopback:
        return "where each machine reaches only itself"
    if address.is_link_local and not source.is_link_local:
        return "which only machines on the same link reach"
    if address in _DOCKER and source not in _DOCKER:
        return "which is in a Docker network inside one machine"
    return ""


def canonical_network(text: str) -> str:
    """The stored form of a network: ``10.0.0.0/8``; a single address is a network of one address.

    Raises:
        ValueError: the text is no network, or has host bits; the message says which.
    """
    network = ip_network(text.strip())
    if isinstance(network, IPv6Network) and network.prefixlen >= 96:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            network = ip_network(f"{mapped}/{network.prefixlen - 96}")
    return str(network)


class Networks:
    """A list of networks; an empty list contains no address.

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
        """The list in a setting's text: ``127.0.0.0/8;::1;10.1.2.3``."""
        return cls(part for part in text.split(";") if part.strip())

    def has(self, address: Address | None) -> bool:
        """Whether the address is in one of the networks; an unknown address (None) is in none."""
        if address is None:
            return False
        version, number = address.version, int(address)
        return any(v == version and first <= number <= last for v, first, last in self._ranges)

    def has_host(self, host: str) -> bool:
        """Whether an address, as text without a port, is in one of the networks."""
        return self.has(parse_address(host))
