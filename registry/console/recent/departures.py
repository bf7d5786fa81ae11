"""Groups the brokers that left and are not back: brokers that left together get one sentence. Does no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ...events.by import CLI, CONSOLE, By
from ...model import BrokerRow
from ...operators.language import marked, say
from ...operators.words import some_of
from ..links import Named, brokers_named
from .lanes import REPLACED, Gone

# Brokers left together if they left for one cause, each at most this long after the one before.
_TOGETHER_MS: Final = 60_000
_PLACES: Final = 3

_BY_REQUEST: Final = "broker_unregistered"
_CAUSES: Final = {  # cause -> why one broker left, why several left
    _BY_REQUEST: (marked("it unregistered itself (104)"), marked("they unregistered themselves (104)")),
    "broker_closed": (marked("its last connection closed"), marked("their last connections closed")),
    "broker_expired": (
        marked("it sent no heartbeat until its timeout"), marked("they sent no heartbeat until their timeouts")
    ),
    "broker_reaped": (
        marked("its connections had closed, and the front end that knew of it ended"),
        marked("their connections had closed, and the front end that knew of it ended"),
    ),
}  # fmt: skip


class Departure(NamedTuple):
    """Brokers that left together and are not back."""

    since_ms: int  # since_ms, until_ms: when the first and the last left
    until_ms: int
    cause: str  # the type of the event that removed them
    author: By | None  # the operator who removed them, else None
    seq: int  # the change that removed the first one
    brokers: list[Gone]

    @property
    def key(self) -> str:
        """The name of the departure in the address of a page."""
        return f"{self.cause}:{self.since_ms}:{self.until_ms}"

    @property
    def is_planned(self) -> bool:
        """Whether the brokers unregistered, or an operator removed them."""
        return self.cause == _BY_REQUEST

    @property
    def why(self) -> str:
        """The cause and the author, in words."""
        is_one = len(self.brokers) == 1
        if self.author is not None:
            text = marked("{author} had it removed") if is_one else marked("{author} had them removed")
            return say(text, author=self.author)
        of_one, of_several = _CAUSES.get(self.cause, (self.cause, self.cause))
        return say(of_one if is_one else of_several)

    @property
    def places(self) -> str:
        """Where the brokers were: IPv4 networks of 256 addresses, or hosts, the most frequent first."""
        found = Counter(_place(one.addr) for one in self.brokers).most_common()
        shown = [f"{place} ({number})" if len(found) > 1 else place for place, number in found[:_PLACES]]
        return some_of(shown) + (say(" and {number} more", number=len(found) - _PLACES) if len(found) > _PLACES else "")

    @property
    def names(self) -> str:
        """The brokers, the first few by name."""
        return some_of([f"{one.broker_name} {one.addr}" for one in self.brokers])

    @property
    def named(self) -> tuple[Named, ...]:
        """The broker names in :attr:`names`, for links."""
        return brokers_named(one.broker_name for one in self.brokers)


def depart(gone: Iterable[Gone], rows: Mapping[str, BrokerRow]) -> list[Departure]:
    """The departures, the latest first.

    ``gone``: processes that left. A process is back once its brokerName has its broker id again, at any address: a
    recreated pod has a new address. ``rows``: the broker rows now.
    """
    away = [one for one in gone if one.moment.kind != REPLACED and not _is_back(one, rows)]
    return sorted(_group(away), key=lambda one: -one.until_ms)


def _is_back(one: Gone, rows: Mapping[str, BrokerRow]) -> bool:
    row = rows.get(one.broker_name)
    return row is not None and one.moment.broker_id in row.broker_addrs


def _group(away: list[Gone]) -> Iterator[Departure]:
    open_groups: dict[tuple[str, By | None], list[Gone]] = {}
    for one in sorted(away, key=lambda one: (one.moment.ms, one.moment.seq, one.broker_name)):
        by = one.moment.by
        cause = one.moment.kind, by if by is not None and by.how in (CLI, CONSOLE) else None
        group = open_groups.get(cause)
        if group is not None and one.moment.ms - group[-1].moment.ms > _TOGETHER_MS:
            yield _departure(cause, open_groups.pop(cause))
        open_groups.setdefault(cause, []).append(one)
    for cause, group in open_groups.items():
        yield _departure(cause, group)


def _departure(cause: tuple[str, By | None], group: list[Gone]) -> Departure:
    first, last = group[0].moment, group[-1].moment
    return Departure(first.ms, last.ms, cause[0], cause[1], first.seq, group)


def _place(addr: str) -> str:
    """The network of an IPv4 address, else the host."""
    host = addr.rpartition(":")[0]
    parts = host.split(".")
    return ".".join([*parts[:3], "x"]) if len(parts) == 4 and all(part.isdigit() for part in parts) else host
