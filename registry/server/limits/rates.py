"""Decides whether a connection or a write is within the limits, and counts it: one :class:`Rates` for each worker.

There are limits for one address, and for all addresses together (the requests of the namespace that come to this
worker). A request over a limit takes no token in mode *observe* either: so *observe* counts exactly what *enforce*
would refuse. An address is counted under its *account*: the address itself, or for IPv6 its network of 64 bits, because
one client may own all addresses of such a network.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Network
from typing import Final, Literal, NamedTuple

from ...config.settings import Settings, options
from ...errors import RateExceeded
from ...networks import Networks, parse_address
from ...protocol.codes import RequestCode
from .failures import Failures
from .loop_time import LoopTime
from .summary_log import SummaryLog
from .token_buckets import TokenBuckets

MOST_ADDRESSES: Final = 8192
"""The most addresses whose buckets one limit keeps."""

PLACES: Final = 2
"""One address may have this fraction of all waiting writes (maxInFlight): 1 / PLACES."""

_ALL: Final = ""
_IPV6_BITS: Final = 64

Kind = Literal["new_connections", "writes", "admin_writes", "new_brokers"]
_WHAT: Final[dict[Kind, str]] = {
    "new_connections": "new connections", "writes": "writes", "admin_writes": "writes of tools",
    "new_brokers": "new brokers",
}  # fmt: skip

# Not REGISTER_BROKER (103): only a registration that differs from the broker's last one counts, and Redis has that one.
_KIND_OF: Final[dict[int, Kind]] = {
    RequestCode.UNREGISTER_BROKER: "writes",
    RequestCode.PUT_KV_CONFIG: "admin_writes",
    RequestCode.DELETE_KV_CONFIG: "admin_writes",
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: "admin_writes",
    RequestCode.ADD_WRITE_PERM_OF_BROKER: "admin_writes",
    RequestCode.DELETE_TOPIC_IN_NAMESRV: "admin_writes",
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: "admin_writes",
    RequestCode.UPDATE_NAMESRV_CONFIG: "admin_writes",
}


class _Limit:
    """One limit and its counts; ``buckets``: None while the setting limits no rate."""

    def __init__(self, setting: str) -> None:
        self.key = options()[setting].key
        self.rate = self.seen = self.exceeded = self.refused = 0
        self.buckets: TokenBuckets | None = None
        self._setting = setting

    def configure(self, settings: Settings, most: int) -> None:
        self.rate, burst_s = getattr(settings, self._setting), settings.rate_burst_seconds
        if not self.rate:
            self.buckets = None
        elif self.buckets is None:
            self.buckets = TokenBuckets(self.rate, burst_s, most)
        else:
            self.buckets.change(self.rate, burst_s)


class _Kind(NamedTuple):
    """The limits of one kind of event; ``mode``: the name of its setting "off", "observe" or "enforce"."""

    what: str
    mode: str
    address: _Limit
    namespace: _Limit


class Rates:
    """The limits of one worker. Methods that count a request raise RateExceeded if it must be refused."""

    def __init__(self, settings: Settings, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._log = SummaryLog()
        self._kinds = {
            name: _Kind(
                what, f"limit_{name}", _Limit(f"address_{name}_per_second"), _Limit(f"namespace_{name}_per_second")
            )
            for name, what in _WHAT.items()
        }
        self._open: dict[str, int] = {}  # account -> its open connections
        self._waiting: dict[str, int] = {}  # account -> its writes that wait
        self.failures = Failures(_account_of, self.limited_account, clock_ns)
        self._open_limit, self._places = _Limit("address_connections"), _Limit("max_connections")
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Use these settings from now on; tokens that were taken stay taken."""
        self._settings = settings
        self._open_limit.rate, self._places.rate = settings.address_connections, settings.max_connections
        for kind in self._kinds.values():
            kind.address.configure(settings, MOST_ADDRESSES)
            kind.namespace.configure(settings, 1)
        self._unlimited = unlimited = Networks.of_setting(settings.unlimited_addresses)
        # cached: it is called for each decoded request
        self._limited = lru_cache(MOST_ADDRESSES)(lambda host: "" if unlimited.has_host(host) else _account_of(host))

    def account_of(self, host: str) -> str:
        """The account of this host."""
        return _account_of(host)

    def limited_account(self, host: str) -> str:
        """The account of this host; "" = the host has no limits (``unlimitedAddresses``)."""
        return self._limited(host)

    def loop_time(self, later: Callable[[float, Callable[[], None]], object]) -> LoopTime:
        """The event loop's time by address; ``later`` calls a function after a number of seconds."""
        return LoopTime(self.limited_account, later)

    def opened(self, host: str) -> str:
        """Count a connection of this address; call :meth:`closed` when it closes, even if it was refused.

        Returns:
            "" if the connection may stay, else why not.
        """
        account, limit, mode = _account_of(host), self._open_limit, self._settings.limit_connections
        open_now = self._open[account] = self._open.get(account, 0) + 1
        try:
            if mode != "off" and not self._unlimited.has_host(host):
                limit.seen += 1
                if limit.rate and open_now > limit.rate:
                    said = f"more than {limit.rate} open connections of {account} ({limit.key}={limit.rate})"
                    self._over(limit, said, "limit_connections", account)
            self.check("new_connections", host)
        except RateExceeded as error:
            return str(error)
        return ""

    def closed(self, host: str) -> None:
        """Stop counting a connection that :meth:`opened` has counted."""
        account = _account_of(host)
        self._open[account] -= 1
        if not self._open[account]:
            del self._open[account]

    def no_place(self) -> None:
        """Count a connection that was closed at once because of maxConnections."""
        self._places.exceeded += 1
        self._places.refused += 1

    def begun(self, host: str, most: int) -> bool:
        """Count a write that begins to wait; call :meth:`ended` when it is done.

        Args:
            most: the most waiting writes of all addresses together.

        Returns:
            False: too many writes of this address wait already; this one was not counted.
        """
        account = self.limited_account(host)
        if account:
            waiting = self._waiting.get(account, 0)
            if waiting >= max(1, most // PLACES):
                return False
            self._waiting[account] = waiting + 1
        return True

    def ended(self, host: str, writes: int = 1) -> None:
        """Stop counting waiting writes, which are done or cancelled."""
        account = self.limited_account(host)
        left = self._waiting.get(account, 0) - writes
        if left > 0:
            self._waiting[account] = left
        else:
            self._waiting.pop(account, None)

    def check_refused(self, code: int, host: str) -> None:
        """Count a request that the rules refuse: for its address, not for all addresses together.

        Raises:
            RateExceeded: the address sends too many; the client gets this error instead of the refusal.
        """
        self.check(_KIND_OF.get(code, "writes"), host, of_all=False)

    def check_request(self, code: int, host: str) -> None:
        """Count a request if its code is that of a write; for 103 see :meth:`check_registration`."""
        kind = _KIND_OF.get(code)
        if kind is not None:
            self.check(kind, host)

    def check_registration(self, host: str, *, is_new: bool) -> None:
        """Count a registration that differs from the broker's last one; ``is_new``: the broker is not in the tables."""
        self.check("writes", host)
        if is_new:
            self.check("new_brokers", host)

    def check(self, kind: Kind, host: str, *, of_all: bool = True) -> None:
        """Count one event for this address and, with ``of_all``, for all addresses together."""
        what, mode, of_address, of_namespace = self._kinds[kind]
        if getattr(self._settings, mode) == "off":
            return
        now_ns, account = self._clock_ns(), _account_of(host)
        wanted = [] if self._unlimited.has_host(host) else [(of_address, account)]
        if of_all:
            wanted.append((of_namespace, _ALL))
        for limit, key in wanted:
            limit.seen += 1
            if limit.buckets is not None and not limit.buckets.has_token(key, now_ns):
                whose = account if key else f"all addresses together, now of {account}"
                setting = f"{limit.key}={limit.rate}, rateBurstSeconds={self._settings.rate_burst_seconds}"
                self._over(limit, f"more than {limit.rate} {what} a second of {whose} ({setting})", mode, account)
                return
        for limit, key in wanted:
            if limit.buckets is not None:
                limit.buckets.take(key, now_ns)

    def _over(self, limit: _Limit, said: str, mode: str, account: str) -> None:
        refused = getattr(self._settings, mode) == "enforce"
        limit.exceeded += 1
        limit.refused += refused
        done = "refused" if refused else f"not refused, because of {options()[mode].key}=observe"
        self._log.tell(f"{limit.key}={limit.rate}", account, f"{said}: {done}", lines=1)
        if refused:
            raise RateExceeded(f"[OVERLOAD]{said}; nothing was done, try again later")

    def tell(self, kind: str, host: str, text: str, level: int = logging.WARNING) -> None:
        """Log what was wrong with a frame or request: the first of a kind and address at once, others in summaries."""
        self._log.tell(kind, _account_of(host), text, level)

    def tick(self, now_s: float) -> None:
        """Log the summaries that are due. Call it regularly."""
        self._log.summarize(now_s)

    def report(self) -> dict[str, int]:
        """The counts by metric, for the status line that the supervisor reads."""
        return {
            f'rate_{name}_total{{limit="{limit.key}"}}': getattr(limit, name)
            for limit in (
                self._places, self._open_limit,
                *(limit for kind in self._kinds.values() for limit in (kind.address, kind.namespace)),
            )
            for name in ("seen", "exceeded", "refused")
        }  # fmt: skip

    @property
    def addresses(self) -> int:
        """How many buckets of addresses the limits keep together."""
        return sum(len(kind.address.buckets) for kind in self._kinds.values() if kind.address.buckets is not None)


@lru_cache(MOST_ADDRESSES)
def _account_of(host: str) -> str:
    """The account of a host: its address, or for IPv6 its network of 64 bits."""
    address = parse_address(host)
    if address is None:
        return host or "?"
    return str(IPv6Network((address, _IPV6_BITS), strict=False)) if address.version == 6 else str(address)
