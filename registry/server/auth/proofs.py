"""Works out who sends a request: by its signature, else by the connection's certificate, else by its address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ...auth.policy import Policy
from ...auth.signature import SigningKey, access_key_of, matching_key
from ...auth.users import User
from ...protocol.codes import RequestCode
from ...protocol.command import Command
from ...protocol.registration import digest_of
from ..limits.failures import Failures
from .caller import (
    NOBODY,
    TOO_MANY_FAILURES,
    UNKNOWN_ACCESS_KEY,
    WRONG_SIGNATURE,
    Caller,
    How,
    Unproven,
    source_of,
)  # fmt: skip
from .peer import Peer, Verified

# The signature of a registration that a connection repeats is checked again after this time.
VERIFIED_FOR_S: Final = 60.0
# The signature of a body from this size on is checked in a thread: 1 MB takes 1.4 ms.
LARGE_BYTES: Final = 128 * 1024

_REGISTER: Final = int(RequestCode.REGISTER_BROKER)


class Proofs:
    """Tells who sends a request, by the users of one policy.

    A signed request costs 4 µs, and 1.4 ms for each MB of its body; an unsigned request less than 1 µs.
    """

    def __init__(self, policy: Policy, failures: Failures, clock: Callable[[], float]) -> None:
        self._policy = policy
        self._failures = failures
        self._clock = clock
        self._keys: dict[str, tuple[SigningKey, ...]] = {}

    def of_connection(self, peer: Peer) -> Caller:
        """Who sends the unsigned requests of a connection."""
        user = self._policy.by_certificate(peer.certificate.names) if peer.certificate.names else None
        if user is not None:
            return Caller(How.CERTIFICATE, user)
        user = self._policy.by_source(source_of(peer))
        return NOBODY if user is None else Caller(How.NETWORK, user)

    async def of_write(self, command: Command, sender: Peer) -> Caller | Unproven | None:
        """Who signed a write; None: nobody did. A registration that is :meth:`known` is not checked again."""
        if access_key_of(command.ext_fields) is None:
            return None
        known = self.known(command, sender)
        if known is not None:
            return known
        signer = self._signer(command, sender)
        if isinstance(signer, User) and len(command.body) >= LARGE_BYTES:
            fields, keys = command.ext_fields or {}, self._keys_of(signer)
            caller: Caller | Unproven | None = _signed(
                signer, await asyncio.to_thread(matching_key, keys, fields, command.body)
            )
        else:
            caller = self._checked(signer, command)
        self._note_failure(caller, sender)
        if isinstance(caller, Caller) and command.code == _REGISTER:
            caller = caller._replace(digest=digest_of(command))
            sender.verified = Verified(caller, self._policy, self._clock() + VERIFIED_FOR_S)
        return caller

    def known(self, command: Command, sender: Peer) -> Caller | None:
        """Who sends a registration that this connection repeats; None: its signature must be checked."""
        known = sender.verified
        if command.code == _REGISTER and known and known.policy is self._policy and self._clock() < known.until_s:
            return known.caller if known.caller.digest == digest_of(command) else None
        return None

    def signed(self, command: Command, sender: Peer) -> Caller | Unproven | None:
        """Who signed a request; None: nobody did.

        After too many wrong signatures, signed requests are refused unchecked, except those of a user who has sent a
        right signature over this connection.
        """
        caller = self._checked(self._signer(command, sender), command)
        self._note_failure(caller, sender)
        return caller

    def _checked(self, signer: User | Unproven | None, command: Command) -> Caller | Unproven | None:
        if not isinstance(signer, User):
            return signer
        return _signed(signer, matching_key(self._keys_of(signer), command.ext_fields or {}, command.body))

    def _signer(self, command: Command, sender: Peer) -> User | Unproven | None:
        """The user whose signature a request claims to have; None: the request is not signed."""
        access_key, last = access_key_of(command.ext_fields), sender.last_caller
        if access_key is None:
            return None
        if last is None or last.how is not How.SIGNATURE or last.name != access_key:
            why = self._failures.too_many(_host_of(sender), access_key)
            if why:
                return Unproven(access_key, TOO_MANY_FAILURES, why)
        return self._policy.by_access_key(access_key) or Unproven(access_key, UNKNOWN_ACCESS_KEY)

    def _keys_of(self, user: User) -> tuple[SigningKey, ...]:
        keys = self._keys.get(user.name)
        if keys is None:
            keys = self._keys[user.name] = tuple(SigningKey(secret.key) for secret in user.secrets)
        return keys

    def _note_failure(self, caller: Caller | Unproven | None, sender: Peer) -> None:
        if isinstance(caller, Unproven) and caller.reason != TOO_MANY_FAILURES:
            user = caller.access_key if caller.reason == WRONG_SIGNATURE else ""
            self._failures.failed(_host_of(sender), user)


def _signed(user: User, number: int | None) -> Caller | Unproven:
    if number is None:
        return Unproven(user.name, WRONG_SIGNATURE)
    return Caller(How.SIGNATURE, user, user.secrets[number].id)


def _host_of(sender: Peer) -> str:
    """The address to which a wrong signature is counted: the client's, or its balancer's if that is unknown."""
    return sender.source or sender.via.rpartition(":")[0]
