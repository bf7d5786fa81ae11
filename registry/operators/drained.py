"""How far a drain is: which clients still have routes from before the broker name lost its write permission."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..drain import DRAIN_SEEN_MS
from ..store.processes import FrontEnd, WorkerNow, read_fleet
from ..store.store import Store
from .language import say, say_number
from .maintenance import Maintenance, read_maintenance
from .words import counted, some_of


class DrainNow(NamedTuple):
    """How far the drain of a broker name is."""

    waiting: int  # clients that were heard within the last 3 minutes and have not looked up the new routes
    addresses: tuple[str, ...]  # of some of these clients
    not_known: tuple[str, ...]  # front ends that cannot report yet, with the reason
    left_ms: int  # the longest time that the drain still waits for these front ends

    @property
    def is_done(self) -> bool:
        """Whether no client has the old routes, as far as the front ends know."""
        return not self.waiting and not self.not_known

    def __str__(self) -> str:
        if self.is_done:
            return say(
                "drained: every client that was heard within the last {minutes} minutes has the new routes",
                minutes=DRAIN_SEEN_MS // 60_000,
            )
        told = []
        if self.waiting:
            told.append(say_number(
                "{number} client has not looked up the new routes: {addresses}",
                "{number} clients have not looked up the new routes: {addresses}",
                self.waiting, addresses=some_of(self.addresses),
            ))  # fmt: skip
        if self.not_known:
            reasons = "; ".join(self.not_known)
            seconds = self.left_ms // 1000 + 1
            told.append(say("{reasons}: what clients do is known in {seconds} s", reasons=reasons, seconds=seconds))
        return "; ".join(told)


def drain_of(
    name: str, front_ends: Iterable[FrontEnd], maintenance: Maintenance | None, now_ms: int, seq: int = 0
) -> DrainNow:
    """How far the drain of a broker name is, from what all front ends report.

    Args:
        maintenance: of this broker name; the drain began when it began.
        seq: the change that took the write permission; a front end that has not applied it cannot report yet.
    """
    left_ms = max(0, (maintenance.since_ms if maintenance is not None else now_ms) + DRAIN_SEEN_MS - now_ms)
    addresses, waiting, not_known = set[str](), 0, []
    for one in front_ends:
        workers = [worker for worker in one.workers if not worker.gone or now_ms - worker.told_ms < DRAIN_SEEN_MS]
        for worker in workers:
            told = worker.facts.drains.get(name)
            if told is not None and (worker.gone or worker.facts.seq >= seq):
                addresses.update(told.addresses)
                waiting += told.waiting
        reason = next(filter(None, (_why_not_known(name, worker, seq) for worker in workers)), "")
        if reason and left_ms:
            not_known.append(f"{one.name} {reason}")
    return DrainNow(waiting, tuple(sorted(addresses)), tuple(not_known), left_ms)


def _why_not_known(name: str, worker: WorkerNow, seq: int) -> str:
    if worker.gone:
        return say("is gone")
    told = worker.facts.drains.get(name)
    if worker.facts.seq < seq:
        return say("has not applied this change yet")
    if told is None:
        return say("started, or read its tables again, after the write permission was taken")
    clients = counted(told.not_known, "client")
    return say("has {clients} with too many topics to remember", clients=clients) if told.not_known else ""


async def read_drain(store: Store, name: str, seq: int) -> DrainNow:
    """Read from Redis how far the drain of a broker name is; ``seq`` as in :func:`drain_of`."""
    fleet = await read_fleet(store)
    return drain_of(name, fleet.front_ends, await read_maintenance(store, name), fleet.now_ms, seq)
