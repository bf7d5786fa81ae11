"""Finds out who signed the requests of a connection: repeated registrations, large bodies, many wrong signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from ...auth.policy import Policy
from ...auth.signature import access_key_of
from ...protocol.codes import RequestCode
from ...protocol.command import Command
from ...protocol.registration import digest_of
from .caller import TOO_MANY_FAILURES, WRONG_SIGNATURE, Caller, Callers, How, Origin, Unproven

# The signature of a registration that a connection repeats is checked again after this time.
VERIFIED_FOR_S: Final = 60.0


_REGISTER: Final = int(RequestCode.REGISTER_BROKER)


class FailureLimit(Protocol):
    """Limits how many wrong signatures an address may send."""

    def too_many(self, host: str, user: str) -> str:
        """Why a signature is not looked at; "" = it is."""

    def failed(self, host: str, user: str = "") -> None:
        """A signature was wrong; user "": it was nobody's."""


class _NoFailures:
    def too_many(self, host: str, user: str) -> str:
        return ""

    def failed(self, host: str, user: str = "") -> None:
        pass


NO_FAILURES: Final = _NoFailures()


class Verified(NamedTuple):
    """A registration whose signature fits: until then the next one with its digest is by the same caller."""

    caller: Caller
    policy: Policy
    until_s: float


class Signing(Origin, Protocol):
    """A connection. verified: the last signed registration over it. last_caller: who was last known over it."""

    verified: Verified | None
    last_caller: Caller | None


class Proofs:
    """What signatures prove, by one policy."""

    def __init__(self, policy: Policy, failures: FailureLimit, clock: Callable[[], float]) -> None:
        self._policy = policy
        self._failures = failures
        self._clock = clock
        self._callers = Callers(policy)
        self.of_connection = self._callers.of_connection

    async def of_write(self, command: Command, sender: Signing) -> Caller | Unproven | None:
        """Who signed a write; None: nobody did. A registration that its connection repeats is not looked at again."""
        if access_key_of(command.ext_fields) is None:
            return None
        known = self.known(command, sender)
        if known is not None:
            return known
        caller = await self._large_signed(command, sender)
        if isinstance(caller, Caller) and command.code == _REGISTER:
            caller = caller._replace(digest=digest_of(command))
            sender.verified = Verified(caller, self._policy, self._clock() + VERIFIED_FOR_S)
        return caller

    def known(self, command: Command, sender: Signing) -> Caller | None:
        """Who sends a registration that this connection repeats; None: it is to be looked at."""
        known = sender.verified
        if command.code == _REGISTER and known and known.policy is self._policy and self._clock() < known.until_s:
            return known.caller if known.caller.digest == digest_of(command) else None
        return None

    def signed(self, command: Command, sender: Signing) -> Caller | Unproven | None:
        """Who signed a request; None: nobody did.

        Too many that are wrong are not looked at, except over a connection on which this user has proved himself.
        """
        caller = self._not_looked_at(command, sender) or self._callers.of_signature(command)
        return self._failed(caller, sender)

    async def _large_signed(self, command: Command, sender: Signing) -> Caller | Unproven | None:
        caller = self._not_looked_at(command, sender) or await self._callers.of_large_signature(command)
        return self._failed(caller, sender)

    def _not_looked_at(self, command: Command, sender: Signing) -> Unproven | None:
        access_key, last = access_key_of(command.ext_fields), sender.last_caller
        if access_key is None or (last is not None and last.how is How.SIGNATURE and last.name == access_key):
            return None
        why = self._failures.too_many(_host_of(sender), access_key)
        return Unproven(access_key, TOO_MANY_FAILURES, why) if why else None

    def _failed(self, caller: Caller | Unproven | None, sender: Signing) -> Caller | Unproven | None:
        if isinstance(caller, Unproven) and caller.reason != TOO_MANY_FAILURES:
            user = caller.access_key if caller.reason == WRONG_SIGNATURE else ""
            self._failures.failed(_host_of(sender), user)
        return caller


def _host_of(sender: Signing) -> str:
    """The address that wrong signatures count for: of a client that is not known, that of its balancer."""
    return sender.source or sender.via.rpartition(":")[0]
