"""Selects the next queue to send to: in turn, but not at the broker that failed last, or not at slow brokers.

Source of the behaviour: TopicPublishInfo.selectOneMessageQueue, MQFaultStrategy and LatencyFaultToleranceImpl
(rocketmq 5.x).
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from ..checks import check_optional
from .queues import MessageQueue, PublishInfo

# The time of a send (ms) -> how long its broker is avoided (ms).
_AVOIDED_MS: Final = ((15_000, 30_000), (5_000, 10_000), (3_000, 6_000), (1_800, 5_000), (550, 2_000))
# A failed send counts as a send of at least this time.
_FAILED_MS: Final = 10_000


class _Fault(NamedTuple):
    latency_ms: float
    until_ms: float


class QueueSelector:
    """Selects the queue for the next message; safe to use from several threads.

    Args:
        latency_fault_tolerance: after a slow send, avoid the broker for a time that grows with the time of the send
            (sendLatencyFaultEnable; also off in Java).
        clock_ms: a monotonic clock.
    """

    def __init__(
        self,
        *,
        latency_fault_tolerance: bool = False,
        clock_ms: Callable[[], float] = lambda: time.monotonic() * 1000,
    ) -> None:
        self._tolerant = latency_fault_tolerance
        self._clock_ms = clock_ms
        self._faults: dict[str, _Fault] = {}
        # next() of a count needs no lock
        self._indexes: dict[str, itertools.count[int]] = {}

    def select(self, topic: str, info: PublishInfo, last_broker_name: str | None = None) -> MessageQueue | None:
        """Return the next queue; None if there is no queue.

        Args:
            last_broker_name: a broker to avoid if another broker has a queue: sending this message to it just failed.

        Raises:
            TypeError: last_broker_name is no str.
        """
        check_optional(last_broker_name, str, "last_broker_name")
        queues = info.queues
        if not queues:
            return None
        if self._tolerant:
            return self._next(topic, queues, self._is_available) or self._least_bad(topic, queues)
        found = None
        if last_broker_name is not None:
            found = self._next(topic, queues, lambda name: name != last_broker_name)
        return found or self._next(topic, queues, lambda name: True)

    def report(self, broker_name: str, latency_ms: float = 0.0, *, failed: bool = False) -> None:
        """Report how long a send took, or that it failed; only latency_fault_tolerance uses it."""
        if self._tolerant:
            latency_ms = max(latency_ms, _FAILED_MS) if failed else latency_ms
            avoided_ms = next((avoided for slow, avoided in _AVOIDED_MS if latency_ms >= slow), 0)
            self._faults[broker_name] = _Fault(latency_ms, self._clock_ms() + avoided_ms)

    def forget(self, topic: str) -> None:
        """Forget the position in a topic that is not used any more."""
        self._indexes.pop(topic, None)

    def keep_brokers(self, broker_names: set[str]) -> None:
        """Forget the faults of all brokers but these."""
        self._faults = {name: fault for name, fault in list(self._faults.items()) if name in broker_names}

    def _next(self, topic: str, queues: tuple[MessageQueue, ...], good: Callable[[str], bool]) -> MessageQueue | None:
        index = self._indexes.get(topic)
        if index is None:  # a random begin, so that clients do not all begin with the same queue
            index = self._indexes.setdefault(topic, itertools.count(random.randrange(1 << 16)))
        for _ in queues:
            queue = queues[next(index) % len(queues)]
            if good(queue.broker_name):
                return queue
        return None

    def _is_available(self, broker_name: str) -> bool:
        fault = self._faults.get(broker_name)
        return fault is None or self._clock_ms() >= fault.until_ms

    def _least_bad(self, topic: str, queues: tuple[MessageQueue, ...]) -> MessageQueue | None:
        """The next queue of the broker with the fastest last send."""
        names = {queue.broker_name for queue in queues}
        best = min(sorted(names), key=lambda name: self._faults.get(name, _Fault(0, 0)))
        return self._next(topic, queues, lambda name: name == best)
