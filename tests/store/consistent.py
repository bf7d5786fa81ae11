"""What holds of the keys of a namespace at every moment between two scripts, whatever happened before."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from mqregistry.behaviour import behaviour_of
from mqregistry.events.changes import Parts
from mqregistry.model import QueueData
from mqregistry.store import keys
from mqregistry.store.change_reader import ChangeReader
from mqregistry.store.snapshot import read_lives, read_tables
from mqregistry.store.store import Store
from mqregistry.tables.live_table import LiveTable
from mqregistry.tables.tables import Tables

Hash = dict[str, str]

ID = re.compile(r"-?\d+\Z")
ROW_FIELDS = {"cluster", "zone", "acting", "rev"}
LIVE_FIELDS = {"cluster", "addr", "timeout_ms", "counter", "timestamp", "state_version", "ha", "update_ms", "n",
               "digest", "rev", "config_rev", "closed_at", "closed_as", "period_ms"}  # fmt: skip
VERSION = {"counter", "timestamp", "state_version"}
ALONE = {"meta", "clusters", "brokers", "deadlines", "disconnected", "mappings", "kv", "kv_sizes", "config", "leases",
         "wiping", "topics", "arriving", "leaving", "changes", "heartbeats", "lookups", "readers",
         "counted"}  # fmt: skip
FAMILIES = ("queues", "topic", "leaving", "cluster", "broker", "live", "beat", "filter", "mapping", "kv", "channels",
            "lease", "held")  # fmt: skip


class Dump:
    """Every key of a namespace: ``alone`` by its name, ``of`` by family and then by what follows the colon."""

    def __init__(self) -> None:
        self.alone: dict[str, Any] = {}
        self.of: dict[str, dict[str, Any]] = {family: {} for family in FAMILIES}

    def members(self, name: str) -> set[str]:
        return self.alone.get(name, set())

    def fields(self, name: str) -> Hash:
        return self.alone.get(name, {})


_READ = {
    b"hash": lambda pipe, key: pipe.hgetall(key),
    b"set": lambda pipe, key: pipe.smembers(key),
    b"zset": lambda pipe, key: pipe.zrange(key, 0, -1, False, True),
    b"list": lambda pipe, key: pipe.lrange(key, 0, -1),
    b"string": lambda pipe, key: pipe.get(key),
    b"stream": lambda pipe, key: pipe.xrange(key),
}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")  # lookups and heartbeats count any bytes
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, set):
        return {_plain(item) for item in value}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


async def dump(store: Store, *, events: bool = False) -> Dump:
    """Read all of it, the change stream only on demand. Nobody else may write meanwhile; a beat or lease may vanish."""
    prefix, client = keys.prefix(store.namespace), store.client
    without = {keys.heartbeats(store.namespace).encode()}
    if not events:
        without.add(keys.changes(store.namespace).encode())
    names = [key for key in await client.keys(prefix.replace("[", "\\[") + "*") if key not in without]
    pipe = client.pipeline(transaction=False)
    for name in names:
        pipe.type(name)
    types = await pipe.execute()
    there = [(name, kind) for name, kind in zip(names, types, strict=True) if kind != b"none"]
    pipe = client.pipeline(transaction=False)
    for name, kind in there:
        _READ[kind](pipe, name)
    found = Dump()
    for (key, _), value in zip(there, await pipe.execute(), strict=True):
        name = key.decode().removeprefix(prefix)
        family, colon, rest = name.partition(":")
        if colon:
            assert family in found.of, f"a key that nobody knows: {name}"
            found.of[family][rest] = _plain(value)
        else:
            assert name in ALONE, f"a key that nobody knows: {name}"
            found.alone[name] = _plain(value)
    return found


async def assert_consistent(store: Store, *, events: bool = False) -> None:
    """Fail unless every key of the namespace agrees with every other one.

    No row without an address, none that nothing would ever remove; no live entry without a place and a deadline; every
    set and hash in both directions; nothing that belongs to something that is gone.

    Args:
        events: also that the change stream holds every event; only for one that was never trimmed.
    """
    found = await dump(store, events=events)
    _tables(found)
    _topic_sets(found)
    _lives(found)
    _connections(found)
    _configuration(found)


def _tables(found: Dump) -> None:
    seq = int(found.alone["meta"]["seq"])
    rows, queues, clusters = found.of["broker"], found.of["queues"], found.of["cluster"]
    assert found.members("brokers") == rows.keys(), "brokers"
    assert found.members("clusters") == clusters.keys(), "clusters"
    stands = {(name[5:], live["addr"]) for live in found.of["live"].values() for name in live if name[:5] == "name:"}
    for name, row in rows.items():
        addrs = [addr for field, addr in row.items() if ID.match(field)]
        assert addrs, f"broker {name}: a row without an address"
        assert all(addrs), f"broker {name}: an empty address"
        assert len(set(addrs)) == len(addrs), f"broker {name}: an address under two ids: {row}"
        assert {field for field in row if not ID.match(field)} - {"zone"} == ROW_FIELDS - {"zone"}, row
        assert row["acting"] in ("0", "1"), row
        assert 0 < int(row["rev"]) <= seq, row
        assert name in clusters.get(row["cluster"], ()), f"broker {name}: not in the cluster of its row"
        for addr in addrs:
            assert (name, addr) in stands, f"broker {name}: nothing would ever remove {addr}"
    for cluster, names in clusters.items():
        assert names <= rows.keys(), f"cluster {cluster}: a name without a row: {names - rows.keys()}"
    assert found.fields("wiping").keys() <= rows.keys(), "a name without a row loses its write permission"
    assert queues.keys() <= rows.keys(), "queue data of a name without a row"
    for datas in queues.values():
        for data in datas.values():
            assert re.fullmatch(r'\{"r":-?\d+,"w":-?\d+,"p":-?\d+,"f":-?\d+(,"b":\[(-?\d+,){3}-?\d+\])?\}', data), data
            msgspec.json.decode(data, type=QueueData)


def _topic_sets(found: Dump) -> None:
    """Each set is what the queue data says, but for brokerNames that arrive or leave: then tidy_topics is not done."""
    queues, sets, arriving = found.of["queues"], found.of["topic"], found.fields("arriving").keys()
    left = {number: (name, found.of["leaving"].get(number, {})) for number, name in found.fields("leaving").items()}
    assert found.of["leaving"].keys() <= left.keys(), "queue data of a name that left, which nobody will go through"
    assert arriving <= queues.keys(), "a name arrives that has no topics"
    for topic in sets.keys() | {topic for topics in queues.values() for topic in topics}:
        members, has = sets.get(topic, set()), {name for name, topics in queues.items() if topic in topics}
        assert members <= has | {name for name, topics in left.values() if topic in topics}, f"topic {topic}: {members}"
        assert has - arriving <= members, f"topic {topic}: {has - members} missing"
    assert found.members("topics") == sets.keys(), "topics"


def _lives(found: Dump) -> None:
    lives, rows, meta = found.of["live"], found.of["broker"], found.alone["meta"]
    deadlines = {who for who, _ in found.alone.get("deadlines", [])}
    assert deadlines == lives.keys(), f"deadlines and live info: {deadlines ^ lives.keys()}"
    assert {who for who, _ in found.alone.get("disconnected", [])} <= lives.keys(), "disconnected"
    for family in ("beat", "filter", "channels"):
        assert found.of[family].keys() <= lives.keys(), f"{family} of nobody: {found.of[family].keys() - lives.keys()}"
    numbers = [live["n"] for live in lives.values() if "n" in live]
    assert len(set(numbers)) == len(numbers), "two registrations of one number"
    for who, live in lives.items():
        names = {field[5:]: value for field, value in live.items() if field[:5] == "name:"}
        assert names, f"live {who}: no place"
        assert {field for field in live if field[:5] != "name:"} <= LIVE_FIELDS, live
        assert who in (f"{live['cluster']}|{live['addr']}", f"|{live['addr']}"), (who, live)
        assert {"timeout_ms", "update_ms"} <= live.keys(), live
        assert all(ID.match(broker_id) for broker_id in names.values()), live
        assert VERSION & live.keys() in (set(), VERSION), f"live {who}: half a version"
        alive = {"n", "digest", *VERSION} & live.keys()
        assert alive in (set(), {"n", "digest", *VERSION}), f"live {who}: half alive: {live}"
        if alive:
            assert 0 < int(live["n"]) <= int(meta["n"]), live
            # a heartbeat with this digest is answered "same": the place must be there (of several names it is not known
            # whose digest it is, and one change may have given them one rev)
            ((name, broker_id), *others) = names.items()
            row = rows.get(name, {})
            if not others and live["rev"] == row.get("rev") and live["config_rev"] == meta["config_rev"]:
                assert row.get(broker_id) == live["addr"], f"live {who}: its digest counts, but not its place"


def _connections(found: Dump) -> None:
    held = {(worker, who) for worker, whos in found.of["held"].items() for who in whos}
    channels = {
        (channel.partition("/")[0], who)
        for who, of_front_ends in found.of["channels"].items()
        for channel in of_front_ends.values()
    }
    assert held == channels, f"held and channels: {held ^ channels}"
    leases = found.members("leases")
    assert found.of["held"].keys() <= leases, "brokers of a worker that nobody would clean up after"
    assert found.of["lease"].keys() <= leases, "a lease that is not listed"


def _configuration(found: Dump) -> None:
    kv = found.of["kv"]
    assert kv.keys() <= found.members("kv"), "a KV namespace that is not listed"
    assert found.members("mappings") == found.of["mapping"].keys(), "mappings"
    for kv_namespace, size in found.fields("kv_sizes").items():
        held = sum(len(key.encode()) + len(value.encode()) for key, value in kv.get(kv_namespace, {}).items())
        assert int(size) == held, f"kv_sizes of {kv_namespace}"
    if "changes" in found.alone:
        events = [entry["e"] for _, entry in found.alone["changes"]]
        assert len(events) == int(found.alone["meta"]["seq"]), "events and seq"
        assert sum(map(_told_bytes, events)) == int(found.alone["meta"]["changes_bytes"]), "changes_bytes"


def _told_bytes(event: str) -> int:
    """The bytes of an event without its end, which says how many there were."""
    return len(event.encode()) - len(re.search(r',"at":\d+\}\Z', event).group())


class Told:
    """The tables and live info as the change stream tells them, from its first entry on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reader, self._parts = ChangeReader(store, "0-0"), Parts()
        self.seq, self.tables = 0, Tables()
        self.lives = LiveTable(self.tables, live_by_cluster=behaviour_of(store.compat).live_by_cluster)

    def skip(self, entry_id: bytes) -> None:
        """Go on after this entry, which is no event; all before it are read."""
        self._reader.last_id = entry_id.decode()

    async def assert_true(self) -> None:
        """Fail unless Redis holds exactly what it told."""
        while changes := await self._reader.read(block_ms=0):
            for change in changes:
                assert change.seq == self.seq + 1, f"seq {change.seq} after {self.seq}"
                self.seq = change.seq
                for whole in self._parts.add(change):
                    self.tables.apply(whole)
                    self.lives.apply(whole)
        head, tables = await read_tables(self._store)
        assert head.seq == self.seq
        assert self.tables.contents() == tables.contents()
        held = {who: infos async for who, _, infos in read_lives(self._store)}
        assert self.lives.by_who.keys() == held.keys()
        for who, infos in held.items():
            told = self.lives.by_who[who]
            assert {name: info.broker_id for name, info in told.items()} == {n: i.broker_id for n, i in infos.items()}
            assert all(info.counter is None or info == told[name] for name, info in infos.items()), who
