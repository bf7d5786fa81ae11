"""Reads the users and rules by which the console decides: at its start, and within a second of each change."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...auth.policy import Policy
from ...errors import RegistryError, StartError, StoreUnavailable
from ...names import printable
from ...store.auth.policies import PolicyStore
from ...store.store import Store
from ...tasks import cancelled, pause

logger = logging.getLogger(__name__)

_LOOK_S: Final = 0.5


class Rules:
    """The last known policy of a namespace; this class only reads.

    While Redis is away, or has older rules than these (front ends restore what it lost), the known rules stay in force,
    so denied requests stay denied. ``use``: called with each policy that comes into force after the first.
    """

    def __init__(self, store: Store, use: Callable[[Policy], object] = lambda _: None) -> None:
        self._policies = PolicyStore(store)
        self._use = use
        self.policy = Policy()
        self._complaint = ""

    async def start(self) -> None:
        """Read the rules for the first time. StartError: they cannot be read."""
        try:
            self.policy = await self._policies.read()
        except StoreUnavailable:
            raise
        except RegistryError as error:
            raise StartError(
                f"a console with a login cannot read its users from Redis: {error}. Log in to Redis as "
                "mqconsole of deploy/users.acl; with --actions as mqregistry"
            ) from error

    async def follow(self) -> None:
        """Read the rules again when they change. Runs until cancelled."""
        while not cancelled():
            await pause(_LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Read the rules if their revision has changed; while that fails, the known rules stay in force."""
        try:
            if await self._policies.revision() != self.policy.revision:
                policy = await self._policies.read()
                if policy.revision > self.policy.revision:
                    self.policy = policy
                    self._use(policy)
            self._complaint = ""
        except RegistryError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                logger.warning("the rules cannot be read, the known ones stay in force: %s", printable(str(error)))
