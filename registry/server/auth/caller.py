"""Who sends a request, and how that is known."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple, Protocol

from ...auth.rights import Resource
from ...auth.users import User
from ...networks import Address, parse_address

Signer = tuple[str, str]
"""A user's name, and the id of the secret that was used."""


class How(enum.StrEnum):
    """How the sender of a request is known, in order of precedence."""

    SIGNATURE = "signature"
    CERTIFICATE = "certificate"
    NETWORK = "network"
    ANONYMOUS = "anonymous"


class Caller(NamedTuple):
    """The sender of a request, as far as rules know him."""

    how: How
    user: User | None = None  # None: no known user
    secret_id: str = ""  # of the secret that signed the request
    digest: str = ""  # of a signed registration; a repeated registration has the same digest
    refused: bool = False  # the mode is observe, and the refusal of this request is reported already
    decided: tuple[Resource, ...] = ()  # the resources that this caller may change

    @property
    def name(self) -> str:
        """The user's name; "" = no known user."""
        return "" if self.user is None else self.user.name


NOBODY: Final = Caller(How.ANONYMOUS)


class Unproven(NamedTuple):
    """The sender of a request with a wrong signature: refused, even where unsigned requests are allowed."""

    access_key: str
    reason: str
    why: str = ""


TOO_MANY_FAILURES: Final = "too_many_failures"
UNKNOWN_ACCESS_KEY: Final = "unknown_access_key"
WRONG_SIGNATURE: Final = "wrong_signature"


class Certificate(NamedTuple):
    """A client's certificate that TLS has verified."""

    names: tuple[str, ...] = ()  # URI:... and DNS:... (lower case) of its SAN, then CN:... of its subject
    id: tuple[bytes, int] = (b"", 0)  # the issuer, and the issuer's serial number of this certificate


NO_CERTIFICATE: Final = Certificate()


class Origin(Protocol):
    """What is known of a request's connection."""

    address: str  # of the client, for messages
    source: str  # the client's host; "" = only a PROXY header that is not believed names it
    via: str  # the balancer that the connection came through; "" = none
    is_tls: bool
    certificate: Certificate


def source_of(origin: Origin) -> Address | None:
    """The client's address as rules see it; None: not known."""
    return parse_address(origin.source) if origin.source else None
