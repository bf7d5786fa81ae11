"""Authentication in one worker: follows the rules in Redis, decides on requests by them, reports refusals."""

from __future__ import annotations

import logging
from collections.abc import Container, Coroutine
from typing import Any, Final

from ...auth.policy import Mode, Policy
from ...auth.refused import RefusedKind
from ...auth.rights import Kind
from ...auth.users import ANONYMOUS
from ...events.changes import AuthChanged
from ...networks import is_loopback
from ...store.auth.policies import PolicyStore
from ...store.auth.refusals import RefusalStore
from ...store.leases import Renewal
from ...store.store import Store
from ..auth.authorization import Authorization
from ..auth.policy_follower import PolicyFollower
from ..auth.tally import Tally
from ..requests.context import RequestContext
from ..view.view import Applied

logger = logging.getLogger(__name__)

WHAT_STRANGERS_MAY: Final = (
    "authentication refuses nothing (mode %s), and %s:%d is not loopback: anybody who reaches that port may take a "
    "master's place, evict brokers, delete topics and change the configuration. See 'mqregistry auth mode' and "
    "docs/security.md"
)


class Authentication:
    """The rules of one worker; ``warns``: whether this worker logs what unknown senders may do."""

    def __init__(self, store: Store, context: RequestContext, front_end: str, *, warns: bool) -> None:
        policies = PolicyStore(store)
        self._context = context
        self._warns = warns
        self._warned_of: Mode | None = None  # the worker warns once for each mode, not for each change of rules
        self._tally = Tally(policies, RefusalStore(store), front_end, lambda: context.signed_again(), self._is_known)
        self._follower = PolicyFollower(policies, self._use)

    async def start(self) -> None:
        """Read the rules for the first time; StartError: they cannot be read, but this namespace enforces them."""
        await self._follower.start()

    def tasks(self) -> tuple[tuple[str, Coroutine[Any, Any, None]], ...]:
        """The tasks that run as long as the worker, with their names."""
        return ("rules", self._follower.run()), ("refusals", self._tally.run())

    async def close(self) -> None:
        """Report the refusals that were not reported yet."""
        await self._tally.close()

    def applied(self, applied: Applied) -> None:
        """Read the rules again if this change of the tables says that they changed."""
        if isinstance(applied.change, AuthChanged):
            self._follower.heard(applied.change.revision)

    def renewed(self, renewal: Renewal) -> None:
        """Read the rules again if the reply to a lease renewal has another revision."""
        self._follower.heard(renewal.auth_revision)

    def gauges(self) -> dict[str, float]:
        """The gauges, by the name of the metric."""
        return {
            "auth_revision": self._follower.revision,
            "auth_last_anonymous_write_seconds": self._tally.last_anonymous_write_s,
        }

    def counters(self) -> dict[str, int]:
        """The counters, by metric with its label."""
        return self._tally.report()

    def _is_known(self, kind: RefusedKind) -> bool:
        """Whether the user of a refusal exists, or, if the sender is anonymous, all resources that it names exist."""
        policy, tables = self._follower.policy, self._context.view.tables
        if policy is None or (kind.user not in policy.users and kind.user != ANONYMOUS):
            return False
        if kind.user != ANONYMOUS:
            return True
        there: dict[Kind, Container[str]] = {
            Kind.BROKER: tables.brokers, Kind.CLUSTER: tables.clusters, Kind.TOPIC: tables.topics, Kind.KV: tables.kv,
        }  # fmt: skip
        return all(
            one.name in there[one.kind] or (one.kind is Kind.BROKER and one.name in policy.reserved)
            for one in kind.parsed_resources()
        )

    def _use(self, policy: Policy) -> None:
        settings = self._context.settings
        logger.info("authentication: mode %s, revision %d, %d users", policy.mode, policy.revision, len(policy.users))
        if policy.mode is not Mode.OFF:
            self._context.authorize(
                Authorization(
                    policy, self._tally, require_tls=settings.auth_require_tls, tables=self._context,
                    failures=self._context.rates.failures,
                )
            )  # fmt: skip
        else:
            self._context.authorize(None)
        if self._warns and policy.mode is not self._warned_of and not is_loopback(settings.bind_address):
            self._warned_of = policy.mode
            if policy.mode is not Mode.ENFORCE:
                logger.warning(WHAT_STRANGERS_MAY, policy.mode, settings.bind_address, settings.listen_port)
