"""Keeps a worker's rules equal to the rules in Redis.

The worker reads the rules when it starts, and when an event or the renewal of its lease names another revision. While
Redis is away, the last known rules stay in force. A Redis that has lost rules gets them back: a loss never allows more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ...auth.policy import Mode, Policy
from ...errors import RegistryError, StartError, StoreUnavailable
from ...names import printable
from ...store.auth.policies import PolicyStore
from ...tasks import cancelled, pause

logger = logging.getLogger(__name__)

_MOST_NAMED: Final = 20
_RETRY_S: Final = 0.1
_RETRY_AFTER_ERROR_S: Final = 1.0

# Rules without users: every change is refused.
NO_USERS: Final = Policy(Mode.ENFORCE)


class PolicyFollower:
    """The rules of one worker. ``policy``: the rules in force; None: none were read yet.

    Args:
        use: called with each policy that comes into force.
    """

    def __init__(self, policies: PolicyStore, use: Callable[[Policy], object]) -> None:
        self._policies = policies
        self._use = use
        self.policy: Policy | None = None
        self._due = asyncio.Event()
        self._complaint = ""

    @property
    def revision(self) -> int:
        """The revision of the rules in force; 0: none were read yet."""
        return 0 if self.policy is None else self.policy.revision

    async def start(self) -> None:
        """Read the rules for the first time; StartError: this namespace enforces rules that cannot be read."""
        try:
            await self._read()
        except StoreUnavailable:
            raise
        except RegistryError as error:
            if await self._policies.is_enforced():
                raise StartError(
                    f"the rules of this namespace are enforced, and cannot be read: {error}. Mend that, or let "
                    "everybody in with 'mqregistry auth mode off'"
                ) from error
            self._complain(error)
            self._due.set()

    def heard(self, revision: int) -> None:
        """Note that Redis has rules of this revision, and read them if they are not in force."""
        if revision != self.revision:
            self._due.set()

    async def run(self) -> None:
        """Read the rules again whenever :meth:`heard` got another revision. Runs until cancelled."""
        while not cancelled():
            await self._due.wait()
            self._due.clear()
            try:
                await self._read()
                self._complaint = ""
            except StoreUnavailable:
                self._due.set()
                await pause(_RETRY_S)
            except RegistryError as error:
                self._complain(error)
                if self.policy is None:
                    await self._close_if_enforced()
                self._due.set()
                await pause(_RETRY_AFTER_ERROR_S)

    async def _read(self) -> None:
        policy = await self._policies.read()
        known = self.policy
        if known is not None and (policy.revision < known.revision or known.lost_by(policy)):
            logger.warning(
                "Redis has lost the last changes of the rules (revision %d, was %d), and gets them back: %s",
                policy.revision, known.revision, _named(known.lost_by(policy)),
            )  # fmt: skip
            if await self._policies.restore(known) != known.revision:
                policy = await self._policies.read()  # other rules were written meanwhile
        if known is None or policy.revision > known.revision:
            self.policy = policy
            self._use(policy)

    async def _close_if_enforced(self) -> None:
        """Refuse all changes while enforced rules could not be read even once."""
        try:
            if await self._policies.is_enforced():
                self._use(NO_USERS)
        except RegistryError as error:
            logger.debug("whether rules are enforced is not known: %s", error)

    def _complain(self, error: RegistryError) -> None:
        if str(error) == self._complaint:
            return
        self._complaint = str(error)
        known = "those that were read last go on" if self.policy is not None else "nothing is decided"
        logger.error("the rules on who may do what cannot be read, %s: %s", known, error)


def _named(lost: list[str]) -> str:
    users = sorted(filter(None, lost))
    more = f" and {len(users) - _MOST_NAMED} more" if len(users) > _MOST_NAMED else ""
    parts = [f"users {', '.join(map(printable, users[:_MOST_NAMED]))}{more}"] if users else []
    return ", ".join(parts + ["the mode"] * ("" in lost)) or "nothing else"
