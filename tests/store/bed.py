"""What the tests of the store work with: front ends as the server has them, without a network."""

from __future__ import annotations

import hashlib
import re
import time
from typing import Any, NamedTuple

import msgspec

from mqregistry.events.changes import Change, Parts
from mqregistry.model import DEFAULT_HEARTBEAT_TIMEOUT_MS, DataVersion, QueueData, Registration
from mqregistry.store import keys
from mqregistry.store.change_reader import ChangeReader
from mqregistry.store.config_writes import KvStore
from mqregistry.store.leases import LeaseStore
from mqregistry.store.restore_changes import Restorer
from mqregistry.store.route_writes import Channel, HeartbeatReply, Registered, RouteStore
from mqregistry.store.snapshot import NamespaceHead, read_head, read_tables
from mqregistry.store.store import Store
from mqregistry.store.streams import StreamStore
from mqregistry.tables.registration import RegistrationDiff, compare
from mqregistry.tables.tables import Tables

RW = QueueData(8, 8, 6)
WIPED = QueueData(8, 8, 4, registered=(8, 8, 6, 0))


def registration(
    addr: str = "10.0.0.1:10911",
    name: str = "broker-a",
    broker_id: int = 0,
    cluster: str = "c1",
    *,
    topics: Any = ("t1", "t2"),
    counter: int = 1,
    timestamp: int = 1000,
    state_version: int = 0,
    **fields: Any,
) -> Registration:
    """A registration; topics are names, or a mapping topic -> (read, write, perm[, flag])."""
    table = topics if isinstance(topics, dict) else dict.fromkeys(topics, (8, 8, 6))
    return Registration(
        cluster, name, broker_id, addr,
        ha_server_addr=fields.pop("ha_server_addr", f"ha-{addr}"),
        data_version=DataVersion(counter, timestamp, state_version),
        topics={topic: QueueData(*numbers) for topic, numbers in table.items()},
        filter_servers=fields.pop("filter_servers", []),
        **fields,
    )  # fmt: skip


def digest_of(r: Registration) -> str:
    """Equal for equal registrations, as the front end's digest of header and body is."""
    return hashlib.sha1(msgspec.json.encode(r), usedforsecurity=False).hexdigest()


def in_small_parts(store: Store, topics: int) -> None:
    """Have scripts of this store change so few topics at a time that a few take many parts, and many count as many."""
    change_scripts(store, r"^local (room|AT_ONCE) = \d+$", rf"local \1 = {topics}")


def stop_clock(store: Store) -> None:
    """From now on the clock of the namespace goes on when a test moves it, and not while a busy machine holds it up."""
    change_scripts(store, r"^local time = call\(\"TIME\"\)$", f"local time = {{{int(time.time())}, 0}}")


def change_scripts(store: Store, pattern: str, replacement: str) -> None:
    """Change the lines of scripts of this store that are like this."""
    changed = {}
    for name, script in store._scripts.items():
        source = re.sub(pattern, replacement, script.source, flags=re.M)
        sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
        changed[name] = script._replace(source=source, sha=sha)
    store._scripts = changed


class Prepared(NamedTuple):
    """A registration on its way: what its front end had found out before it sends the difference."""

    registration: Registration
    heartbeat: HeartbeatReply
    diff: RegistrationDiff | None
    channel: Channel


class FrontEnd:
    """One worker of one front end, with a connection for each broker process unless told otherwise."""

    default_timeout_ms = DEFAULT_HEARTBEAT_TIMEOUT_MS
    owner = ""  # who asks, lua/include/owner

    def __init__(self, store: Store, front_end: str = "fe1", incarnation: str = "w1") -> None:
        self.store = store
        self.front_end = front_end
        self.incarnation = incarnation
        self.routes = RouteStore(store)
        self.leases = LeaseStore(store)
        self.kv = KvStore(store)

    def channel(self, connection: int | str = 1) -> Channel:
        return Channel(self.front_end, f"{self.incarnation}/{connection}")

    async def prepare(
        self, r: Registration, *, connection: int | str = 1, delete_missing_topics: bool = False
    ) -> Prepared:
        """The first half of a registration: heartbeat, and the comparison if that declined."""
        channel = self.channel(connection)
        beat = await self.routes.heartbeat(
            r.cluster, r.broker_name, r.broker_id, r.broker_addr, digest_of(r), channel, 100, self.owner
        )
        if beat.same:
            return Prepared(r, beat, None, channel)
        diff = await self.compare(r, beat.n, beat.data_version, delete_missing_topics=delete_missing_topics)
        return Prepared(r, beat, diff, channel)

    async def compare(
        self, r: Registration, n: str, known: DataVersion | None, *, delete_missing_topics: bool = False
    ) -> RegistrationDiff:
        epoch, tables = await self.tables()
        return compare(
            r,
            known,
            tables,
            epoch=epoch,
            n=n,
            delete_missing_topics=delete_missing_topics,
            stay_deleted=() if self.routes.behaviour.restores_deleted_topics else None,
        )

    async def tables(self) -> tuple[str, Tables]:
        """What it compares with, and the epoch of that."""
        head, tables = await read_tables(self.store)
        return head.epoch, tables

    async def send_once(self, prepared: Prepared) -> Registered:
        """The second half, once: RETRY is an answer too."""
        assert prepared.diff is not None
        r = prepared.registration
        return await self.routes.register_broker(
            r, prepared.diff, digest=digest_of(r), channel=prepared.channel, body_bytes=100,
            default_timeout_ms=self.default_timeout_ms, owner=self.owner,
        )  # fmt: skip

    async def send(self, prepared: Prepared, *, delete_missing_topics: bool = False) -> Registered:
        """The second half; catches up and compares again as often as it takes."""
        for _ in range(200):
            result = await self.send_once(prepared)
            if result.status != "RETRY":
                return result
            diff = await self.compare(
                prepared.registration,
                result.n,
                result.compare_with.data_version,
                delete_missing_topics=delete_missing_topics,
            )
            prepared = prepared._replace(diff=diff)
        raise AssertionError(f"no end of retries: {prepared}")

    async def register(
        self, r: Registration, *, connection: int | str = 1, delete_missing_topics: bool = False
    ) -> HeartbeatReply | Registered:
        """A registration from beginning to end."""
        prepared = await self.prepare(r, connection=connection, delete_missing_topics=delete_missing_topics)
        if prepared.diff is None:
            return prepared.heartbeat
        return await self.send(prepared, delete_missing_topics=delete_missing_topics)

    async def close(self, r: Registration, *, connection: int | str = 1) -> str:
        return await self.routes.channel_destroyed(
            self.routes.behaviour.who(r.cluster, r.broker_addr), self.channel(connection)
        )


async def follow(reader: ChangeReader, parts: Parts, tables: Tables) -> None:
    """Apply the changes that there are to tables."""
    while changes := await reader.read(block_ms=0):
        for change in changes:
            for whole in parts.add(change):
                tables.apply(whole)


class Following(FrontEnd):
    """It compares with tables that follow the changes, as the server's do, and so reads all of them only once."""

    _known: tuple[str, Tables, ChangeReader, Parts] | None = None

    async def tables(self) -> tuple[str, Tables]:
        if self._known is None:
            head, tables = await read_tables(self.store)
            self._known = head.epoch, tables, ChangeReader(self.store, head.last_id), Parts()
        epoch, tables, reader, parts = self._known
        await follow(reader, parts, tables)
        return epoch, tables


class Bed:
    """A namespace with two front ends, and eyes on everything in it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.fe1 = FrontEnd(store, "fe1", "w1")
        self.fe2 = FrontEnd(store, "fe2", "w2")
        self.prefix = keys.prefix(store.namespace)
        self.reader = ChangeReader(store, "0-0")

    @property
    def routes(self) -> RouteStore:
        return self.fe1.routes

    @property
    def leases(self) -> LeaseStore:
        return self.fe1.leases

    @property
    def kv(self) -> KvStore:
        return self.fe1.kv

    async def register(self, *arguments: Any, **fields: Any) -> Registration:
        """Register through the first front end; it must be accepted."""
        r = registration(*arguments, **fields)
        result = await self.fe1.register(r, connection=r.broker_addr)
        assert isinstance(result, HeartbeatReply) or result.status == "OK", result
        return r

    async def events(self) -> list[Change]:
        """The events since the last time this was asked."""
        found: list[Change] = []
        while changes := await self.reader.read(block_ms=0):
            found += changes
        return found

    async def give_back(self, kind: str, name: str, given: Any = (), gone: Any = (), *, known: int = 0) -> str:
        """As a front end that knew this much of a history that Redis has lost; what it is answered."""
        giver = Restorer(self.store, 0, known)
        begun = await giver.begin()
        return begun if begun != "OK" else await giver.give((await read_head(self.store)).seq, kind, name, given, gone)

    async def head(self) -> NamespaceHead:
        return (await read_tables(self.store))[0]

    async def tables(self) -> Tables:
        return (await read_tables(self.store))[1]

    async def contents(self) -> dict[str, Any]:
        return (await self.tables()).contents()

    async def replay(self) -> dict[str, Any]:
        """The tables as the change stream alone tells them."""
        return (await replay(self.store)).contents()

    async def redis(self, *command: Any) -> Any:
        return await self.store.client.execute_command(*command)

    def key(self, name: str) -> str:
        return self.prefix + name

    async def hash(self, name: str) -> dict[str, str]:
        flat = await self.store.client.hgetall(self.key(name))
        return {field.decode(): value.decode() for field, value in flat.items()}

    async def members(self, name: str) -> set[str]:
        return {member.decode() for member in await self.store.client.smembers(self.key(name))}

    async def live(self, r: Registration) -> dict[str, str]:
        return await self.hash(f"live:{self.routes.behaviour.who(r.cluster, r.broker_addr)}")

    async def channels(self, r: Registration) -> dict[str, str]:
        return await self.hash(f"channels:{self.routes.behaviour.who(r.cluster, r.broker_addr)}")

    async def deadline(self, r: Registration) -> int | None:
        score = await self.store.client.zscore(
            self.key("deadlines"), self.routes.behaviour.who(r.cluster, r.broker_addr)
        )
        return None if score is None else int(score)

    async def beats(self) -> list[dict[str, Any]]:
        """The heartbeat stream."""
        entries = await self.store.client.xrange(self.key("heartbeats"))
        return [msgspec.json.decode(fields[b"e"]) for _, fields in entries]

    async def now_ms(self) -> int:
        return (await self.head()).now_ms

    async def move_clock(self, ms: int) -> None:
        """Move the namespace's clock, with nobody watching it meanwhile."""
        await self.store.client.hincrby(self.key("meta"), "clock_offset_ms", ms)

    async def let_pass(self, ms: int) -> None:
        """Move the namespace's clock as if it had been watched all the time."""
        await self.move_clock(ms)
        await self.store.client.hset(self.key("meta"), "seen_ms", await self.now_ms())

    async def dump(self) -> dict[bytes, bytes]:
        """Every key of the namespace but what any call leaves (clock, heartbeats, beats with their TTL)."""
        found = {}
        prefixes = (self.prefix, keys.auth_prefix(self.store.namespace))
        patterns = [prefix.replace("[", "\\[") + "*" for prefix in prefixes]
        for key in [key for pattern in patterns for key in await self.store.client.keys(pattern)]:
            if not key.endswith(b":heartbeats") and b":beat:" not in key and b":lease:" not in key:
                found[key] = await self.store.client.dump(key)
        return found


async def replay(store: Store) -> Tables:
    """The tables as the change stream tells them from its first entry; fails on a gap."""
    reader, parts, tables, seq = ChangeReader(store, "0-0"), Parts(), Tables(), 0
    while changes := await reader.read(block_ms=0):
        for change in changes:
            assert change.seq == seq + 1, f"seq {change.seq} after {seq}"
            seq = change.seq
            for whole in parts.add(change):
                tables.apply(whole)
    return tables


async def acknowledge(streams: StreamStore, reader: str, positions: dict[str, str], *, epoch: str = "") -> None:
    """What ``acknowledge_with`` does, over the connections of a store."""
    await streams._call("acknowledge", reader, epoch, *(part for pair in positions.items() for part in pair))
