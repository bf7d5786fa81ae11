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
"""The most topics of one event: an event with 10,000 topics would have 520 kB."""
TOPICS_AT_ONCE: Final = 3000
"""The most topics whose perm one call changes: Redis needs up to 10 microseconds for each."""
ENTRIES_PER_CALL: Final = 10_000
"""The most topics that one call writes, up to 3 microseconds each; a larger registration takes several calls."""
_BROKERS_PER_CALL: Final = 2000
"""The most brokers from which one call removes a topic: about 10 microseconds each."""
_NAMES_PER_ARGUMENT: Final = 250
"""The most names in one argument: scripts free their memory before they read the next (lua/include/collect)."""
# The shortest and the longest heartbeat timeout; other values are clamped to them (docs/differences.md, D28).
_TIMEOUT_MS = (1000, 3_600_000)
_QUEUE_DATA_BYTES: Final = 24  # a topic's packed queue data has about this many bytes

_encode = msgspec.json.encode
_pack = msgspec.msgpack.encode
_flat = itertools.chain.from_iterable
_T = TypeVar("_T")
_ARRAY_16: Final = b"\xdc"  # MessagePack: the header of an array with up to 65,535 items


class Channel(NamedTuple):
    """A broker's connection. ``value``: ``<worker incarnation>/<connection>``, followed by ``leases.opened_now()``."""

    front_end: str
    value: str


NO_CHANNEL = Channel("", "")


class HeartbeatReply(NamedTuple):
    """The reply of the heartbeat script."""

    same: bool  # True: the registration equals the broker's last. False: the caller must compare it with the tables
    seq: int
    # master_addr, ha_server_addr: the answer to the broker, if same
    master_addr: str = ""
    ha_server_addr: str | None = None
    # n, data_version: number and version of the last registration, if not same; None: the broker is not known
    n: str = "0"
    data_version: DataVersion | None = None
    is_new_body: bool = True  # the last registration had another body


class EncodedTopics(NamedTuple):
    """Some topics of a registration, encoded for the script and for its event."""

    size: int  # how many topics
    cells: bytes  # for the script: topic, queue data, topic, ... as MessagePack strings
    members: bytes  # for the event: the members of a JSON object, topic -> queue data


class Registered(NamedTuple):
    """The outcome of the script register_broker; its header explains the statuses."""

    status: Literal["OK", "RETRY", "REFRESHED", "FOREIGN", "REFUSED_STATE", "REFUSED_ONE_TOPIC"]
    seq: int
    master_addr: str = ""
    ha_server_addr: str | None = None
    changed: bool = False
    n: str = "0"
    owner: str = ""  # with OK and FOREIGN: another user who had registered this broker or its id; "" = none
    compare_with: HeartbeatReply | None = None  # with RETRY: the broker's last registration, for a new comparison


class Touched(NamedTuple):
    """The outcome of a heartbeat without registration, or of a 104; data_version None: the broker is not known."""

    seq: int
    data_version: DataVersion | None
    refreshed: bool = False  # the heartbeat extended the deadline, or the 104 removed the broker
    owner: str = ""  # another user who registered this broker; "" = nobody did
    foreign: bool = False  # the request had no effect because the user ``owner`` owns the broker


def _maybe(value: str | None) -> str:
    """An optional argument of a script: "" is None, and "=" precedes a text, which may be empty."""
    return "" if value is None else "=" + value


def _or_none(value: bytes | None) -> str | None:
    return value if value is None else value.decode()


def _data_version(counter: bytes, timestamp: bytes, state_version: bytes) -> DataVersion | None:
    return DataVersion(int(counter), int(timestamp), int(state_version)) if counter else None


def _differs(reply: Sequence[Any]) -> HeartbeatReply:
    version, is_new_body = _data_version(*reply[3:6]), reply[6] == 1
    return HeartbeatReply(False, reply[1], n=reply[2].decode(), data_version=version, is_new_body=is_new_body)


class RouteStore:
    """Runs the scripts that change the route tables.

    Args of the methods:
        owner: the caller argument of lua/include/owner; "" = authentication is off. The method raises NotDecided, and
            changes nothing, if the change needs a right that the caller has not checked yet.
        by: the author of the change; default: this process.
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

        More than ENTRIES_PER_CALL topics are written by several calls. If Redis refuses one of these calls, or this
        process ends, the writes of the earlier calls stay, and the next registration is compared as a whole.

        Args:
            encoded: ``diff.topics`` in their order, if :meth:`encode` has already encoded them.
            digest: a next registration with the same digest is unchanged. body_bytes: the length of the body.
            topic_count: how many topics the broker sent, if ``registration`` holds only some of them.
            default_timeout_ms: the heartbeat timeout of a broker that does not send its own.
            restored_at: set if this restores a broker that Redis lost: the seq of the tables that were compared.
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
        """Encode at least one and at most TOPICS_PER_EVENT topics.

        One argument has all of them as MessagePack: for redis-py and for the parser of Redis, 20,000 arguments would
        cost more than the script itself.
        """
        # queue data has only numbers, so `},{` is always the boundary of two queue datas
        queue_datas = _encode(list(topics.values()))[1:-1].decode().replace("},{", "}\n{").split("\n")
        cells = list(_flat(zip(topics, queue_datas, strict=True)))
        strings = _pack(cells)[1 if len(cells) < 16 else 3 :]  # without the header of the array
        return EncodedTopics(len(topics), strings, _encode(topics)[1:-1])

    async def touch_broker(
        self, cluster: str, broker_addr: str, channel: Channel = NO_CHANNEL, body_bytes: int = 0, *,
        only_version: DataVersion | None = None, owner: str = "",
    ) -> Touched:  # fmt: skip
        """Refresh a broker by a heartbeat without registration (322, 904). One round trip, O(1).

        ``only_version``: refresh only if this is the broker's data version; None: always.
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
            said_ago_ms: how long ago it was sent; a broker that sent a heartbeat since then is not removed.
            renewed: up_since_ms and now_ms of the caller's last lease renewal, "": it has no lease. If Redis stood
                still since the renewal, a broker that sent a heartbeat after the renewal is not removed.
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
        """Report that a broker's connection closed; returns REMOVED, KEPT or STALE (lua/channel_destroyed).

        ``cause``: why the close means that the broker ended; "" = the broker may still run.
        """
        return text((await self._call("channel_destroyed", who, *of, cause, up_since_ms, by=by))[0])

    async def set_write_perm(
        self, broker_name: str, mode: Literal["wipe", "add", "give"], topics: Sequence[str] = (), *, owner: str = "",
        by: By | None = None,
    ) -> tuple[int, int]:  # fmt: skip
        """Wipe write permission, add it (perm 6), or give it to these topics; returns (seq, topics of the brokerName).

        Each call of the script changes at most TOPICS_AT_ONCE topics. After an error the topics that were changed stay
        changed; the caller repeats the method.
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
    """The arguments of one call of register_broker; ``more``: further calls follow."""

    parts: Sequence[tuple[bytes, bytes]]
    dropped: Sequence[bytes]
    mappings: Sequence[bytes]
    more: bool = False


def _steps(diff: RegistrationDiff, parts: Iterable[tuple[int, bytes, bytes]]) -> Iterator[_Call]:
    """The calls that write the diff, nearly always one; each is encoded just before it is sent."""
    dropped = (_pack(some) for some in _slices(diff.dropped))
    mappings = (_pack(list(_flat(some))) for some in _slices(diff.mappings))
    if diff.entries <= ENTRIES_PER_CALL:
        yield _Call([part[1:] for part in parts], list(dropped), list(mappings))
        return
    calls = itertools.chain(
        (_Call((), some, ()) for some in _grouped(dropped, _names_size, ENTRIES_PER_CALL)),
        (_Call((), (), some) for some in _grouped(mappings, _names_size, ENTRIES_PER_CALL)),
        (
            _Call([(cells, body) for _, cells, body in some], (), ())
            for some in _grouped(parts, _topics_size, ENTRIES_PER_CALL)
        ),
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


def _topics_size(part: tuple[int, bytes, bytes]) -> int:
    count, cells, _ = part
    return entries_of(count, len(cells) - _QUEUE_DATA_BYTES * count)


def _parts(encoded: Iterable[EncodedTopics]) -> Iterator[tuple[int, bytes, bytes]]:
    """Join encoded topics to parts of at most TOPICS_PER_EVENT topics: (number of topics, cells, members) each."""
    for part in _grouped(encoded, lambda one: one.size, TOPICS_PER_EVENT):
        size = sum(one.size for one in part)
        cells = b"".join((_ARRAY_16, (2 * size).to_bytes(2, "big"), *(one.cells for one in part)))
        yield size, cells, b",".join([one.members for one in part])


def _grouped(items: Iterable[_T], size_of: Callable[[_T], int], most: int) -> Iterator[list[_T]]:
    """The items in order, in groups of a total size of at most ``most``; a larger item is a group alone."""
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
