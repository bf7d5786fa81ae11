"""How often a broker registers, and how long it waits after a failure."""

from __future__ import annotations

import random

import msgspec

from .config import BrokerConfig


class Pace(msgspec.Struct, frozen=True):
    """When a registrar registers again, in seconds: ``first_s`` after the start, then each ``period_s``.

    After a failure or a lost connection it retries after ``retry_s``, then after twice that time, and so on, up to the
    period. Periods are randomly shortened by up to a tenth, waits before a retry by up to three quarters, because many
    brokers often retry at the same time.
    """

    first_s: float
    period_s: float
    retry_s: float = 1.0

    @classmethod
    def of(cls, config: BrokerConfig) -> Pace:
        """The pace of a Java broker with this configuration."""
        return cls(10.0, min(max(config.register_name_server_period_ms, 10_000), 60_000) / 1000)

    def retry_after_s(self, failures: int) -> float:
        """How long to wait after this number of failures in a row."""
        return random.uniform(0.25, 1.0) * min(self.period_s, self.retry_s * 2.0 ** min(failures - 1, 30))


def jittered(seconds: float) -> float:
    """Randomly shorten a duration by up to a tenth, so that brokers do not send at the same moment."""
    return seconds * random.uniform(0.9, 1)
