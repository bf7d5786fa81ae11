"""Counts decisions for /metrics, and reports refused requests to Redis and the log.

The first refusal of a kind (user, right, resources and reason) is reported at once, further ones in summaries. The
number of kinds is bounded, because the names in them come from unknown peers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Final

from ...auth.policy import Mode
from ...auth.refused import Last, RefusedKind
from ...auth.rights import WRITING
from ...errors import RegistryError, StoreUnavailable
from ...store.auth.policies import PolicyStore
from ...store.auth.refusals import RefusalStore
from ...tasks import cancelled, pause
from .caller import Caller, How, Signer
from .refusal import Refusal

logger = logging.getLogger(__name__)

_SUMMARY_EVERY_S: Final = 10.0
USED_EVERY_S: Final = 60.0
# New kinds of refused requests are reported after this time, at most this many together.
_SOON_S: Final = 0.2
_NEW_AT_A_TIME: Final = 10
# The most lines in the log between two summaries: while the mode is observe, a fleet must not fill the log.
_MOST_LINES: Final = {True: 20, False: 3}  # enforced -> lines
# The most kinds with a count of their own between two summaries, and the most kinds that are remembered as reported.
MOST_KINDS: Final = 300
_MOST_TOLD: Final = 3000
# The most kinds with unknown names between two summaries, of one address and of all addresses. So an attacker cannot
# fill the 2,000 kinds that Redis keeps before honest clients, which ask every 30 s, have asked again.
MADE_UP_OF_ADDRESS: Final = 50
MADE_UP: Final = 200


class _Count:
    """Requests of one kind since the last report. ``enforced``: the last request was refused, not only observed."""

    __slots__ = ("enforced", "last", "times")

    def __init__(self) -> None:
        self.times = 0
        self.last = Last()
        self.enforced = False


class Tally:
    """The counts of one worker's decisions, and the refused requests that it has not reported yet.

    ``last_anonymous_write_s``: when an unknown sender last changed something against the rules (unix time); 0 = never.

    Args:
        front_end: its name in Redis.
        signed_again: returns the signers of the lookups that the cache answered since the last call.
        is_known: whether all names in a kind (users, brokers, clusters, topics and so on) exist.
    """

    def __init__(
        self, policies: PolicyStore, refusals: RefusalStore, front_end: str,
        signed_again: Callable[[], Collection[Signer]] = tuple,
        is_known: Callable[[RefusedKind], bool] = lambda _: True,
    ) -> None:  # fmt: skip
        self._signed_again = signed_again
        self._policies = policies
        self._refusals = refusals
        self._front_end = front_end
        self._allowed = 0
        self._refused = {True: 0, False: 0}  # enforced -> requests
        self._failures: dict[str, int] = {}
        self._untold: dict[RefusedKind, _Count] = {}
        self._told: dict[RefusedKind, None] = {}
        self._made_up: dict[str, int] = {}  # address -> how many kinds with unknown names, since the last summary
        self._is_known = is_known
        self._only_counted = 0
        self._lines = self._unlogged = 0
        self._used: set[Signer] = set()
        self._news = asyncio.Event()
        self.last_anonymous_write_s = 0.0

    def allowed(self) -> None:
        """Count a request that is allowed."""
        self._allowed += 1

    def refused(self, refusal: Refusal, *, enforced: bool) -> None:
        """Count a request that the rules refuse; not enforced: it is executed nevertheless."""
        self._refused[enforced] += 1
        kind = self._kind(refusal)
        self._failures[kind.reason] = self._failures.get(kind.reason, 0) + 1
        if not enforced and kind.right in WRITING and refusal.how is How.ANONYMOUS:
            self.last_anonymous_write_s = time.time()
        count = self._untold.get(kind)
        if count is None:
            if len(self._untold) >= MOST_KINDS:
                self._only_counted += 1
                return
            count = self._untold[kind] = _Count()
            if kind not in self._told:
                self._news.set()
                self._log(refusal, enforced)
        count.times += 1
        count.last, count.enforced = Last(refusal.source, refusal.how), enforced

    def _kind(self, refusal: Refusal) -> RefusedKind:
        """The kind to count a refusal by; beyond a few kinds with unknown names, all others count as one kind."""
        kind = refusal.kind
        if kind in self._untold or self._is_known(kind):
            return kind
        names = self._made_up.get(refusal.source, 0)
        if names >= MADE_UP_OF_ADDRESS or sum(self._made_up.values()) >= MADE_UP:
            return RefusedKind.of_many(kind)
        self._made_up[refusal.source] = names + 1
        return kind

    def signed(self, caller: Caller) -> None:
        """Note that a secret was used to sign."""
        self._used.add((caller.name, caller.secret_id))

    def _log(self, refusal: Refusal, enforced: bool) -> None:
        if self._lines >= _MOST_LINES[enforced]:
            self._unlogged += 1
            return
        self._lines += 1
        logger.log(
            logging.WARNING if enforced else logging.INFO,
            "%s: %s%s", "refused" if enforced else "would be refused", refusal.text,
            f"; to allow it: {refusal.mend}" if refusal.mend else "",
        )  # fmt: skip

    def report(self) -> dict[str, int]:
        """The counts, each by the name and labels of its metric."""
        return {
            'auth_decisions_total{result="allowed"}': self._allowed,
            'auth_decisions_total{result="refused"}': self._refused[True],
            'auth_decisions_total{result="would_be_refused"}': self._refused[False],
            **{f'auth_failures_total{{reason="{reason}"}}': count for reason, count in self._failures.items()},
        }

    async def run(self) -> None:
        """Report refused requests and used secrets to Redis. Runs until cancelled."""
        loop = asyncio.get_running_loop()
        next_summary = loop.time() + _SUMMARY_EVERY_S
        next_used = loop.time()
        next_again = next_used + USED_EVERY_S
        while not cancelled():
            try:
                async with asyncio.timeout_at(min(next_summary, next_used if self._used else next_summary)):
                    await self._news.wait()
            except TimeoutError:
                pass
            self._news.clear()
            now = loop.time()
            if now >= next_summary:
                next_summary = now + _SUMMARY_EVERY_S
                self._log_the_rest()
                await self._tell(list(self._untold))
            else:
                new = [kind for kind in self._untold if kind not in self._told]
                await self._tell(new[:_NEW_AT_A_TIME])
                if len(new) > _NEW_AT_A_TIME:
                    self._news.set()
            if now >= next_again:
                next_again = now + USED_EVERY_S
                self._used.update(self._signed_again())
            if self._used and now >= next_used:
                next_used = now + USED_EVERY_S
                await self._note_used()
            await pause(_SOON_S)

    def _log_the_rest(self) -> None:
        if self._unlogged:
            logger.warning(
                "requests of %d more kinds were, or would be, refused: 'mqregistry auth observe' shows them",
                self._unlogged,
            )
        if self._only_counted:
            logger.warning("%d more refused requests, of too many kinds, were only counted", self._only_counted)
        self._lines = self._unlogged = self._only_counted = 0
        self._made_up.clear()

    async def close(self) -> None:
        """Report to Redis what was not reported yet."""
        self._used.update(self._signed_again())
        await self._tell(list(self._untold))
        await self._note_used()

    async def _tell(self, kinds: list[RefusedKind]) -> None:
        """Report these kinds to Redis; while Redis is away, keep them for the next report."""
        for mode, enforced in ((Mode.ENFORCE, True), (Mode.OBSERVE, False)):
            now = [kind for kind in kinds if kind in self._untold and self._untold[kind].enforced is enforced]
            counts = {kind: self._untold.pop(kind) for kind in now}
            if not counts:
                continue
            try:
                await self._refusals.note(
                    self._front_end, mode, [(kind, one.times, one.last) for kind, one in counts.items()]
                )
            except StoreUnavailable:
                for kind, one in counts.items():
                    there = self._untold.setdefault(kind, one)
                    if there is not one:
                        there.times += one.times
                return
            except RegistryError as error:
                logger.error("refused requests cannot be written to Redis: %s", error)
            self._told.update(dict.fromkeys(counts))
            while len(self._told) > _MOST_TOLD:
                del self._told[next(iter(self._told))]

    async def _note_used(self) -> None:
        used, self._used = self._used, set()
        try:
            if used:
                await self._policies.note_used(used)
        except StoreUnavailable:
            self._used |= used
        except RegistryError as error:
            logger.error("the use of secrets cannot be written to Redis: %s", error)
