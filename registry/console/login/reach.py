"""Checks before the start from where a console can be reached: no secret may cross the network without TLS."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ...networks import Networks, canonical_network, is_loopback, parse_address

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_PORTS: Final = {"http": ":80", "https": ":443"}


class Reach(NamedTuple):
    """How a console is reached."""

    login: bool = False
    # the addresses under which browsers open it besides loopback, as https://console.example
    origins: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()  # networks of proxies, whose X-Forwarded-For is believed
    cert: Path | None = None  # cert, key: files for TLS at its own port
    key: Path | None = None

    @property
    def is_tls(self) -> bool:
        """Whether its own port speaks TLS."""
        return self.cert is not None

    @property
    def hosts(self) -> frozenset[str]:
        """The values that Host may have, besides the loopback addresses."""
        return frozenset(origin.partition("://")[2] for origin in self.origins)

    def is_proxy(self, host: str) -> bool:
        """Whether a peer is one of the proxies."""
        return Networks(self.proxies).has(parse_address(host))


def check_reach(
    host: str, *, login: bool, origins: Sequence[str], proxies: Sequence[str], cert: Path | None, key: Path | None
) -> Reach:
    """The reach that the options ask for, if it is safe: all but users of this machine must log in, and over TLS.

    ValueError: it is unsafe, or the options contradict each other; the message says what to do.
    """
    if (cert is None) != (key is None):
        raise ValueError("--tls-cert and --tls-key: give both, or neither")
    if proxies and not login:
        raise ValueError("--proxy says whose X-Forwarded-For is believed, which only --login uses: add --login")
    reach = Reach(login, tuple(map(parse_origin, origins)), tuple(map(_parse_proxy, proxies)), cert, key)
    if cert is not None and key is not None:
        _check_certificate(cert, key)
    if login:
        for origin in reach.origins:
            if origin.startswith("http://") and not is_loopback(urlsplit(origin).hostname or ""):
                raise ValueError(
                    f"--origin {origin}: secrets would cross the network unencrypted: let browsers use https, to this "
                    "console (--tls-cert, --tls-key) or to a proxy before it"
                )
    if is_loopback(host):
        return reach
    if not login:
        raise ValueError(
            f"--host {host}: others can reach the console there without a login: add --login. Without --login the "
            "console listens on 127.0.0.1 or ::1 alone; other machines reach it through ssh -L, or through a proxy on "
            "this machine that asks for a login"
        )
    if cert is None and not proxies:
        raise ValueError(
            f"--host {host}: secrets would cross the network unencrypted: give --tls-cert and --tls-key, or --proxy "
            "ADDRESS if browsers use https to a proxy at that address"
        )
    if not origins:
        raise ValueError(
            f"--host {host}: give the address under which browsers open the console, which refuses requests for other "
            "addresses: --origin https://console.example:9880"
        )
    return reach


def parse_origin(text: str) -> str:
    """An origin as browsers write it: in lower case, without the default port of its scheme."""
    try:
        parts = urlsplit(text.rstrip("/"))
        fits = parts.scheme in _PORTS and parts.hostname and not (parts.path or parts.query or parts.fragment)
        fits = fits and "@" not in parts.netloc and parts.port != 0 and text.isascii()
    except ValueError:
        fits = False
    if not fits or any(char.isspace() for char in text):
        raise ValueError(f"--origin {text!r}: expected what browsers show before the path, as https://console.example")
    return f"{parts.scheme}://{parts.netloc.lower().removesuffix(_PORTS[parts.scheme])}"


def _parse_proxy(text: str) -> str:
    try:
        network = canonical_network(text)
    except ValueError as error:
        raise ValueError(f"--proxy {text}: expected an address or a network: {error}") from None
    if network.endswith("/0"):
        raise ValueError(f"--proxy {text}: then everybody may claim any address; name only the proxies")
    return network


def _check_certificate(cert: Path, key: Path) -> None:
    try:
        # a key with a password would ask for it on the terminal
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=lambda: b"")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ValueError(
            f"--tls-cert {cert} and --tls-key {key} cannot be used: {error}; expected a certificate with its chain, "
            "and its key without a password, both as PEM"
        ) from None
