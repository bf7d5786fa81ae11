"""Changes the route tables in Redis: one method for each script, with typed arguments and results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

import msgspec

from ..behaviour import behaviour_of
from ..errors import NotDecided
from ..events.by import By
from ..model import DEFAULT_HEARTBEAT_TIMEOUT_MS, DataVersion, QueueData, Registration
from ..tables.registration import RegistrationDiff, entries_of
from .store import Store, text

TOPICS_PER_EVENT: Final = 500
"""No event has more topics: 10,000 of them would be 520 kB."""

TOPICS_AT_ONCE: Final = 3000
"""A script changes the perm of no more topics: Redis needs up to 10 microseconds for each."""

ENTRIES_PER_CALL: Final = 10_000
"""The most topics that one call writes, up to 3 microseconds each; a larger registration takes several calls."""

_BROKERS_PER_CALL: Final = 2000
"""The most brokers from which one call removes a topic: about 10 microseconds each."""

_NAMES_PER_ARGUMENT: Final = 250
"""The foreign names that scripts unpack and free at a time (lua/include/collect)."""

# The shortest and the longest heartbeat timeout; other values become the nearer of these (docs/differences.md, D28).
_TIMEOUT_MS = (1000, 3_600_000)

_QUEUE_DATA_BYTES: Final = 24  # a packed cell has about this many bytes besides the topic's name

_encode = msgspec.json.encode
_pack = msgspec.msgpack.encode
_flat = itertools.chain.from_iterable
_T = TypeVar("_T")
_ARRAY_16: Final = b"\xdc"


class Channel(NamedTuple):
    """A broker's connection. value: ``<worker incarnation>/<connection>``, followed by ``leases.opened_now()``."""

    front_end: str
    value: str


NO_CHANNEL = Channel("", "")


class HeartbeatReply(NamedTuple):
    """The reply of the heartbeat script."""

    # True: the registration equals the last one, and master_addr and ha_server_addr are the answer. False: it must be
    # compared with the tables; n and data_version are those of the last one (None: the broker is not known)
    same: bool
    seq: int
    master_addr: str = ""
    ha_server_addr: str | None = None
    n: str = "0"
    data_version: DataVersion | None = None
    is_new_body: bool = True  # the last registration had another body


class EncodedTopics(NamedTuple):
    """Some topics of a registration, encoded for the script; one event has the topics of several of these."""

    size: int  # how many topics
    cells: bytes  # topic, queue data, topic, ... as MessagePack strings
    members: bytes  # the same as members of a JSON object


class Registered(NamedTuple):
    """The outcome of the script register_broker, which explains the statuses."""

    status: Literal["OK", "RETRY", "REFRESHED", "FOREIGN", "REFUSED_STATE", "REFUSED_ONE_TOPIC"]
    seq: int
    master_addr: str = ""
    ha_server_addr: str | None = None
    changed: bool = False
    n: str = "0"
    owner: str = ""  # with OK and FOREIGN: another user who had registered this broker or its id; "" = none
    compare_with: HeartbeatReply | None = None  # with RETRY: what to compare the registration with again


class Touched(NamedTuple):
    """The outcome of a heartbeat without registration, or of a 104; data_version None: the broker is not known."""

    seq: int
    data_version: DataVersion | None
    refreshed: bool = False  # the heartbeat counted as a sign of life, or the 104 as a goodbye
    owner: str = ""  # another user who registered this broker; "" = nobody did
    foreign: bool = False  # it did not count because that user owns the broker


def _maybe(value: str | None) -> str:
    """An argument that is "" for None, and begins with "=" for a text, which may be empty."""
    return "" if value is None else "=" + value


def _or_none(value: bytes | None) -> str | None:
    return value if value is None else value.decode()


def _data_version(counter: bytes, timestamp: bytes, state_version: bytes) -> DataVersion | None:
    return DataVersion(int(counter), int(timestamp), int(state_version)) if counter else None


def _differs(reply: Sequence[Any]) -> HeartbeatReply:
    version, is_new_body = _data_version(*reply[3:6]), reply[6] == 1
    return HeartbeatReply(False, reply[1], n=reply[2].decode(), data_version=version, is_new_body=is_new_body)


class RouteStore:
    """Runs the scripts that change the route tables; ``behaviour`` is that of the store's compat mode.

    ``owner`` of the methods: the caller argument of lua/include/owner; "" = authentication is off. A method with it
    raises NotDecided, and changes nothing, when it would change resources for which the right was not checked.
    ``by`` of the methods: the author of the change; default: this process.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.behaviour = behaviour_of(store.compat)
        self._live_by_cluster = self.behaviour.live_by_cluster

    async def _call(self, name: str, *arguments: Any, by: By | None = None) -> Any:
        reply = await self._store.call(name, *arguments, by=by)
        if reply[0] == b"ASK":
            raise NotDecided(map(text, reply[2:]))
        return reply

    async def heartbeat(
        self, cluster: str, broker_name: str, broker_id: int, broker_addr: str, digest: str,
        channel: Channel = NO_CHANNEL, body_bytes: int = 0, owner: str = "",
    ) -> HeartbeatReply:  # fmt: skip
        """Check whether the registration equals the last one. One round trip, O(1)."""
        reply = await self._call(
            "heartbeat", self.behaviour.who(cluster, broker_addr), cluster if self._live_by_cluster else "",
            broker_name, broker_id, digest, *channel, body_bytes, owner,
        )  # fmt: skip
        if reply[0] == b"SAME":
            return HeartbeatReply(True, reply[1], text(reply[2]), _or_none(reply[3]))
        return _differs(reply)

    async def register_broker(
        self, registration: Registration, diff: RegistrationDiff, *, encoded: Iterable[EncodedTopics] | None = None,
        digest: str = "", channel: Channel = NO_CHANNEL, body_bytes: int = 0, topic_count: int | None = None,
        default_timeout_ms: int = DEFAULT_HEARTBEAT_TIMEOUT_MS, restored_at: int | None = None,
        owner: str = "", by: By | None = None,
    ) -> Registered:  # fmt: skip
        """Write what a registration changes, if the tables did not change since the comparison. O(topics of the diff).

        More than ENTRIES_PER_CALL topics are written by several calls. If one is not accepted, or this process ends,
        the earlier ones stay, and the next registration is compared as a whole.

        Args:
            encoded: ``diff.topics`` in their order, when they are encoded already; each by one call of :meth:`encode`.
            digest: the next registration is unchanged if it has the same one. body_bytes: the length of its body.
            topic_count: how many topics it names, when ``registration`` holds only some of them.
            default_timeout_ms: the heartbeat timeout of a broker that does not send its own.
            restored_at: set when a broker is restored that Redis has lost: the seq of the tables that were compared.
        """
        r, version = registration, registration.data_version
        if topic_count is None:
            topic_count = len(r.topics)
        one_topic = topic_count == 1 and self.behaviour.refuses_first_single_topic
        filters = r.filter_servers
        timeout_ms = default_timeout_ms
        if r.heartbeat_timeout_ms is not None:
            timeout_ms = min(max(r.heartbeat_timeout_ms, _TIMEOUT_MS[0]), _TIMEOUT_MS[1])
        rev, n, changed = diff.rev, diff.n, False
        for step in _steps(diff, _parts(map(self.encode, _batches(diff.topics)) if encoded is None else encoded)):
            arguments = (
                self.behaviour.who(r.cluster, r.broker_addr), diff.epoch, rev, n, diff.config_rev,
                r.cluster, r.broker_name, r.broker_id, r.broker_addr, _maybe(r.ha_server_addr), _maybe(r.zone_name),
                "1" if r.enable_acting_master else "0", timeout_ms,
                version.counter, version.timestamp, version.state_version,
                digest, *channel, body_bytes, "1" if one_topic else "0",
                -1 if filters is None else len(filters), len(step.parts), len(step.dropped), len(step.mappings),
                ("1" if step.more else "0") if restored_at is None else f"restored {restored_at}", owner,
                *(filters or ()), *_flat(step.parts), *step.dropped, *step.mappings,
            )  # fmt: skip
            while (reply := await self._call("register_broker", *arguments, by=by))[0] == b"WIPING":
                while (await self._call("finish_wipe", r.broker_name, TOPICS_AT_ONCE, by=by))[1]:
                    pass
            status = reply[0].decode()
            if status != "OK":
                break
            changed, rev, n = changed or reply[4] == 1, int(reply[5]), str(reply[6])
        if status in ("OK", "REFRESHED"):
            ok = status == "OK"
            had = text(reply[7]) if ok else ""
            return Registered(status, reply[1], text(reply[2]), _or_none(reply[3]), ok and changed, n, owner=had)
        if status == "RETRY":
            return Registered(status, reply[1], n=reply[2].decode(), compare_with=_differs(reply))
        return Registered(status, reply[1], owner=text(reply[2]) if status == "FOREIGN" else "")

    def encode(self, topics: dict[str, QueueData]) -> EncodedTopics:
        """Encode some topics, at least one, and no more than an event holds.

        Topics and queue data travel as MessagePack in one argument: 20,000 arguments would cost redis-py, and the Redis
        parser, more than the script itself.
        """
        # queue data holds only numbers, so `},{` can only be a boundary between two items
        queue_datas = _encode(list(topics.values()))[1:-1].decode().replace("},{", "}\n{").split("\n")
        cells = list(_flat(zip(topics, queue_datas, strict=True)))
        strings = _pack(cells)[1 if len(cells) < 16 else 3 :]  # without the header of the array
        return EncodedTopics(len(topics), strings, _encode(topics)[1:-1])

    async def touch_broker(
        self, cluster: str, broker_addr: str, channel: Channel = NO_CHANNEL, body_bytes: int = 0, *,
        only_version: DataVersion | None = None, owner: str = "",
    ) -> Touched:  # fmt: skip
        """Refresh a broker by a heartbeat without registration (322, 904). One round trip, O(1).

        only_version: refresh only if this is the broker's data version; None: always.
        """
        v = only_version
        reply = await self._call(
            "touch_broker", self.behaviour.who(cluster, broker_addr), *channel, body_bytes,
            "" if v is None else f"{v.counter} {v.timestamp} {v.state_version}", owner,
        )  # fmt: skip
        if reply[0] == b"FOREIGN":
            return Touched(reply[1], None, owner=text(reply[2]), foreign=True)
        known, ok = reply[0] != b"UNKNOWN", reply[0] == b"OK"
        return Touched(reply[1], _data_version(*reply[2:5]) if known else None, ok, text(reply[5]) if ok else "")

    async def unregister_broker(
        self, cluster: str, broker_addr: str, broker_name: str, broker_id: int | None = None, *, owner: str = "",
        said_ago_ms: int = 0, renewed: tuple[int | str, int | str] = ("", ""), by: By | None = None,
    ) -> Touched:  # fmt: skip
        """Remove a broker that leaves (104); seq: from which the tables show it.

        Args:
            broker_id: with compat 4.8 it says which broker is removed; the address then only removes a live info.
            said_ago_ms: how long ago it was sent; a broker that was heard since is not removed.
            renewed: up_since_ms and now_ms of the caller's last lease renewal, "": it renews none. If Redis stood still
                since, a broker that was heard after the renewal is not removed.
        """
        if self.behaviour.unregisters_by_id and broker_id is not None:
            reply = await self._call(
                "unregister_broker_id", self.behaviour.who(cluster, broker_addr), broker_addr, broker_name, broker_id,
                cluster, owner, said_ago_ms, *renewed, by=by,
            )  # fmt: skip
        else:
            scope = cluster if self._live_by_cluster else ""
            reply = await self._call(
                "unregister_broker", scope, broker_addr, broker_name, owner, said_ago_ms, *renewed, by=by
            )
        if reply[0] == b"FOREIGN":
            return Touched(reply[1], None, owner=text(reply[2]), foreign=True)
        return Touched(reply[1], None, reply[0] == b"OK", text(reply[3]) if reply[0] == b"OK" else "")

    async def channel_destroyed(
        self, who: str, of: Channel, cause: str = "client", *, up_since_ms: int | str = "", by: By | None = None
    ) -> str:
        """Report that a connection closed; returns REMOVED, KEPT or STALE.

        cause: why the close shows that the broker is gone; "" = it does not show that.
        """
        return text((await self._call("channel_destroyed", who, *of, cause, up_since_ms, by=by))[0])

    async def set_write_perm(
        self, broker_name: str, mode: Literal["wipe", "add", "give"], topics: Sequence[str] = (), *, owner: str = "",
        by: By | None = None,
    ) -> tuple[int, int]:  # fmt: skip
        """Wipe write permission, add it (perm 6), or give it to these topics; returns (seq, topics of the brokerName).

        Some thousand topics at a time. If it fails half way, the changed topics stay changed: call it again.
        """
        rest, of, more = b"", (broker_name, mode, TOPICS_AT_ONCE), (owner, _pack(topics))
        while True:
            _, seq, count, rest = await self._call("set_write_perm", *of, rest, *more, by=by)
            if not rest:
                return seq, count

    async def delete_topic(self, topic: str, cluster: str = "", *, owner: str = "", by: By | None = None) -> int:
        """Delete a topic, everywhere or from one cluster's brokers (5.x); returns the seq."""
        if not self.behaviour.deletes_in_one_cluster:
            cluster = ""
        rest = b""
        while True:
            _, seq, _, rest = await self._call("delete_topic", topic, cluster, _BROKERS_PER_CALL, rest, owner, by=by)
            if not rest:
                return int(seq)

    async def register_topic(
        self, topic: str, queue_datas: Iterable[tuple[str, QueueData]], *, owner: str = "", by: By | None = None
    ) -> int:
        """Give a topic queues at known brokers (217); returns the seq."""
        flat: list[Any] = []
        for broker_name, queue_data in queue_datas:
            flat += (broker_name, _encode(queue_data))
        return int((await self._call("register_topic", topic, owner, *flat, by=by))[1])


def _batches(topics: dict[str, QueueData]) -> Iterator[dict[str, QueueData]]:
    items = iter(topics.items())
    while batch := dict(itertools.islice(items, TOPICS_PER_EVENT)):
        yield batch


def _slices(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for first in range(0, len(items), _NAMES_PER_ARGUMENT):
        yield items[first : first + _NAMES_PER_ARGUMENT]


class _Call(NamedTuple):
    """The arguments of one call of register_broker; more: further calls follow."""

    parts: Sequence[tuple[bytes, bytes]]
    dropped: Sequence[bytes]
    mappings: Sequence[bytes]
    more: bool = False


def _steps(diff: RegistrationDiff, parts: Iterable[tuple[int, bytes, bytes]]) -> Iterator[_Call]:
    """The calls that write the diff, nearly always one; each is encoded when its turn comes."""
    dropped = (_pack(some) for some in _slices(diff.dropped))
    mappings = (_pack(list(_flat(some))) for some in _slices(diff.mappings))
    if diff.entries <= ENTRIES_PER_CALL:
        yield _Call([part[1:] for part in parts], list(dropped), list(mappings))
        return
    calls = itertools.chain(
        (_Call((), some, ()) for some in _grouped(dropped, _names_size, ENTRIES_PER_CALL)),
        (_Call((), (), some) for some in _grouped(mappings, _names_size, ENTRIES_PER_CALL)),
        _topic_calls(parts),
    )
    last = None
    for call in calls:
        if last is not None:
            yield last._replace(more=True)
        last = call
    if last is not None:
        yield last


def _names_size(argument: bytes) -> int:
    return 2 * entries_of(_NAMES_PER_ARGUMENT, len(argument))


def _topic_calls(parts: Iterable[tuple[int, bytes, bytes]]) -> Iterator[_Call]:
    def entries(part: tuple[int, bytes, bytes]) -> int:
        count, cells, _ = part
        return entries_of(count, len(cells) - _QUEUE_DATA_BYTES * count)

    for some in _grouped(parts, entries, ENTRIES_PER_CALL):
        yield _Call([(cells, body) for _, cells, body in some], (), ())


def _parts(encoded: Iterable[EncodedTopics]) -> Iterator[tuple[int, bytes, bytes]]:
    """Join encoded topics to parts, (number of topics, cells, body) each, with no more topics than an event holds."""
    for part in _grouped(encoded, lambda one: one.size, TOPICS_PER_EVENT):
        size = sum(one.size for one in part)
        cells = b"".join((_ARRAY_16, (2 * size).to_bytes(2, "big"), *(one.cells for one in part)))
        yield size, cells, b",".join([one.members for one in part])


def _grouped(items: Iterable[_T], size_of: Callable[[_T], int], most: int) -> Iterator[list[_T]]:
    """The items in order, in groups of at most this total size; a larger item is a group alone."""
    some, size = list[_T](), 0
    for item in items:
        more = size_of(item)
        if some and size + more > most:
            yield some
            some, size = [], 0
        some.append(item)
        size += more
    if some:
        yield some
