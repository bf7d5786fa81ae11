"""All front ends that Redis last knew, as lists for programs that poll the HTTP port.

``/rocketmq/nsaddr`` is the address server of RocketMQ's clients and brokers (TopAddressing), ``/http_sd`` the HTTP
service discovery of Prometheus.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from ...errors import RegistryError, StoreUnavailable
from ...store.processes import Fleet, FrontEnd, read_fleet
from ...store.store import Store
from ...tasks import cancelled, pause
from .figures.metrics_table import Series

logger = logging.getLogger(__name__)

READ_EVERY_S: Final = 2.0
# For this time after Redis came back, the lists keep the front ends that were known before: Redis may have lost their
# leases, and each front end renews its lease in this time.
_SETTLE_MS: Final = 10_000
# When a sweeper is replaced, or starts after the front ends, none runs for at most this time.
_UNSWEPT_MS: Final = 15_000
_UNSWEPT: Final = (
    "no sweeper runs: brokers that fall silent stay in every route; start 'mqregistry sweep', or a front end without "
    "--no-sweep"
)


class KnownFleet:
    """The front ends and sweepers that Redis knew last. Written by the event loop, read by HTTP threads.

    Args:
        front_end: the id of the front end of this process. drains: whether this front end drains.
        shows: takes the values for /metrics.
    """

    def __init__(
        self, front_end: str, namespace: str, drains: Callable[[], bool] = lambda: False,
        shows: Callable[[str, Iterable[Series]], object] = lambda source, series: None,
    ) -> None:  # fmt: skip
        self._front_end = front_end
        self._namespace = namespace
        self._drains = drains
        self._shows = shows
        self._front_ends: dict[str, FrontEnd] = {}
        self.targets = b"[]"
        """Every HTTP port, as JSON for Prometheus.

        Processes that ended less than an hour ago are in the list, so that an alert sees that they cannot be reached.
        """
        self._unswept_since_ms: int | None = None
        self._is_unswept = False

    async def follow(self, store: Store) -> None:
        """Read the list every two seconds. While Redis is away, the last list stays. Runs until cancelled."""
        while not cancelled():
            try:
                self.learn(await read_fleet(store))
            except RegistryError as error:
                if not isinstance(error, StoreUnavailable):  # the workers log that
                    logger.error("cannot read which front ends there are; the last list stands: %s", error)
            await pause(READ_EVERY_S)

    def learn(self, fleet: Fleet) -> None:
        """Take over what Redis knows now."""
        now = {one.id: one for one in fleet.front_ends}
        if fleet.now_ms < fleet.up_since_ms + _SETTLE_MS:
            now = self._front_ends | now
        self._front_ends = now
        self.targets = msgspec.json.encode(_targets(now, fleet, self._namespace))
        states = Counter(one.state.replace(" ", "_") for one in now.values())
        series = [Series("front_ends", state, states[state]) for state in ("ready", "not_ready", "draining", "gone")]
        sweepers = sum(not one.gone for one in fleet.sweepers)
        self._shows("fleet", [*series, Series("sweepers", "", sweepers)])
        self._learn_swept(fleet.now_ms, is_swept=sweepers > 0)

    def _learn_swept(self, now_ms: int, *, is_swept: bool) -> None:
        """Log when no sweeper runs (any more), and when one runs again."""
        if is_swept:
            if self._is_unswept:
                logger.warning("a sweeper runs")
            self._unswept_since_ms, self._is_unswept = None, False
            return
        if self._unswept_since_ms is None:
            self._unswept_since_ms = now_ms
        if not self._is_unswept and now_ms - self._unswept_since_ms >= _UNSWEPT_MS:
            self._is_unswept = True
            logger.warning("%s", _UNSWEPT)

    def warnings(self) -> list[str]:
        """The warnings of /readyz about all front ends."""
        return [_UNSWEPT] if self._is_unswept else []

    def addresses(self) -> bytes:
        """``host:port;host:port`` of the front ends that are ready, for RocketMQ's clients; empty: there is none."""
        drains = self._drains()
        ready = {
            one.address
            for one in self._front_ends.values()
            if one.state == "ready" and not (drains and one.id == self._front_end)
        }
        return ";".join(sorted(ready)).encode()


def _targets(front_ends: dict[str, FrontEnd], fleet: Fleet, namespace: str) -> list[dict[str, object]]:
    found: dict[str, dict[str, str]] = {}
    for sweeper in fleet.sweepers:
        if sweeper.facts.http_address:
            name = f"{sweeper.facts.host}/{sweeper.facts.pid}"
            found[sweeper.facts.http_address] = {"kind": "sweeper", "name": name}
    for one in front_ends.values():
        if one.http_address:
            found[one.http_address] = {"kind": "front_end", "name": one.name, "address": one.address}
    return [
        {
            "targets": [address],
            "labels": {"__meta_mqregistry_namespace": namespace}
            | {f"__meta_mqregistry_{label}": value for label, value in labels.items()},
        }
        for address, labels in sorted(found.items())
    ]
