"""Works out who sends a request: by its signature, else by the connection's certificate, else by its address."""

from __future__ import annotations

import asyncio
import enum
from typing import Final, NamedTuple, Protocol

from ...auth.policy import Policy
from ...auth.rights import Resource
from ...auth.signature import SigningKey, access_key_of, matching_key
from ...auth.users import User
from ...networks import Address, parse_address
from ...protocol.command import Command

# A body from this size on is signed in a thread: 1 MB takes 1.4 ms.
LARGE_BYTES: Final = 128 * 1024


Signer = tuple[str, str]
"""A user's name, and the id of the secret that was used."""


class How(enum.StrEnum):
    """How it is known who sends a request: what counts first comes first."""

    SIGNATURE = "signature"
    CERTIFICATE = "certificate"
    NETWORK = "network"
    ANONYMOUS = "anonymous"


class Caller(NamedTuple):
    """Who sends a request.

    user: None: nobody that is known. secret_id: of the secret that it is signed with.
    digest: of a registration, when it was worked out to recognise the request. refused: the request would be refused
    if the mode were enforce; that is reported already. decided: resources that his right was decided on: what a script
    may change for him.
    """

    how: How
    user: User | None = None
    secret_id: str = ""
    digest: str = ""
    refused: bool = False
    decided: tuple[Resource, ...] = ()

    @property
    def name(self) -> str:
        """The user's name; "" when it is nobody that is known."""
        return "" if self.user is None else self.user.name


NOBODY: Final = Caller(How.ANONYMOUS)


class Unproven(NamedTuple):
    """A request that is signed, and not by whom it says. It is refused: never taken for one that is not signed."""

    access_key: str
    reason: str
    why: str = ""


TOO_MANY_FAILURES: Final = "too_many_failures"
UNKNOWN_ACCESS_KEY: Final = "unknown_access_key"
WRONG_SIGNATURE: Final = "wrong_signature"


class Certificate(NamedTuple):
    """A client's certificate, verified.

    names: ``URI:...`` and ``DNS:...`` (lower case) of its SAN, then ``CN:...`` of its subject.
    id: the issuer, and its number there.
    """

    names: tuple[str, ...] = ()
    id: tuple[bytes, int] = (b"", 0)


NO_CERTIFICATE: Final = Certificate()


class Origin(Protocol):
    """What is known of the connection that a request comes over.

    address: of the client, for people. source: the client's host, as far as it can be trusted; "" = not known.
    via: the balancer that the connection came through; "" = none.
    """

    address: str
    source: str
    via: str
    is_tls: bool
    certificate: Certificate


class Callers:
    """Tells who sends a request, by the users of one policy.

    Cost: of a signed request an HMAC, 4 µs and 1.4 ms for each MB of body; of an unsigned one less than a microsecond.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._keys: dict[str, tuple[SigningKey, ...]] = {}

    def of_connection(self, origin: Origin) -> Caller:
        """Who sends the requests of a connection that are not signed."""
        user = self._policy.by_certificate(origin.certificate.names) if origin.certificate.names else None
        if user is not None:
            return Caller(How.CERTIFICATE, user)
        user = self._policy.by_source(source_of(origin))
        return NOBODY if user is None else Caller(How.NETWORK, user)

    def of_signature(self, command: Command) -> Caller | Unproven | None:
        """Who signed a request; None: nobody did."""
        access_key = access_key_of(command.ext_fields)
        if access_key is None:
            return None
        user = self._policy.by_access_key(access_key)
        if user is None:
            return Unproven(access_key, UNKNOWN_ACCESS_KEY)
        number = matching_key(self._keys_of(user), command.ext_fields or {}, command.body)
        return _signed(user, number)

    async def of_large_signature(self, command: Command) -> Caller | Unproven | None:
        """The same, in a thread if the body is large."""
        access_key = access_key_of(command.ext_fields)
        user = self._policy.by_access_key(access_key) if access_key is not None else None
        if user is None or len(command.body) < LARGE_BYTES:
            return self.of_signature(command)
        keys = self._keys_of(user)
        return _signed(user, await asyncio.to_thread(matching_key, keys, command.ext_fields or {}, command.body))

    def _keys_of(self, user: User) -> tuple[SigningKey, ...]:
        keys = self._keys.get(user.name)
        if keys is None:
            keys = self._keys[user.name] = tuple(SigningKey(secret.key) for secret in user.secrets)
        return keys


def source_of(origin: Origin) -> Address | None:
    """The client's address as rules see it; None: not known."""
    return parse_address(origin.source) if origin.source else None


def _signed(user: User, number: int | None) -> Caller | Unproven:
    if number is None:
        return Unproven(user.name, WRONG_SIGNATURE)
    return Caller(How.SIGNATURE, user, user.secrets[number].id)
