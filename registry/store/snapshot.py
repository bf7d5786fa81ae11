"""Reads whole tables of a namespace, page by page: the snapshot that a follower of the change stream starts from."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from ..errors import StoreError
from ..model import BrokerRow, QueueData
from ..tables.live_table import LiveInfo
from ..tables.tables import Tables
from . import keys
from .large_rows import read_hashes, read_set, scan_hash
from .store import Store

logger = logging.getLogger(__name__)

# How many names a page has, so that a page takes at most 1 ms of Redis.
_PAGE = {"brokers": 100, "clusters": 20, "filters": 300, "mappings": 200, "live": 80}
_CELLS = 5000  # the most topics whose queue data one round trip asks for
_NAMES = 500  # the most brokerNames whose numbers of topics one round trip asks for
_LOOKED_AT = 500  # brokerNames that one call searches for the queue data of one topic
_KV_AT_ONCE = 10  # KV namespaces whose values one round trip asks for
# Most topics have one of a few queue datas; equal queue datas share one object.
_decode_queue_data = functools.lru_cache(maxsize=16_384)(msgspec.json.Decoder(QueueData).decode)
# section -> function that makes the key of one row: of one broker, cluster, who or topic
_ROW: dict[str, Callable[[str, str], str]] = {
    "brokers": keys.broker,
    "clusters": keys.cluster,
    "filters": keys.filter_servers,
    "mappings": keys.mapping,
    "live": keys.live,
}
_BROKER_ID = re.compile(rb"-?\d+\Z")


class NamespaceHead(NamedTuple):
    """The state of a namespace at the moment when a snapshot starts."""

    epoch: str
    seq: int
    config_rev: int
    up_since_ms: int  # no broker is removed for silence before this time plus its timeout
    now_ms: int  # the time of Redis
    last_id: str  # the last entry of the change stream
    chain: str = ""  # of the last event


def pairs(flat: list[bytes]) -> Iterable[tuple[bytes, bytes]]:
    """The fields and values of a HASH as Redis sends it."""
    return zip(flat[::2], flat[1::2], strict=True)


async def read_head(store: Store) -> NamespaceHead:
    """The state of the namespace now."""
    epoch, seq, config_rev, up_since, now, last_id, chain = await store.call("snapshot", "head", "0", 1)
    return NamespaceHead(
        epoch.decode(), seq, int(config_rev), int(up_since), int(now), last_id.decode(), chain.decode()
    )


async def read_section(store: Store, section: str) -> AsyncIterator[tuple[str, list[bytes]]]:
    """One table, except queue data, in pages: (name, flat HASH, SET or LIST of that name). A name may come twice.

    ``section``: as the script snapshot names it, or "kv".
    """
    if section == "kv":
        async for name, flat in _read_kv_section(store):
            yield name, flat
        return
    cursor, is_over = b"0", False
    while not is_over:
        cursor, large_rows, *rows = await store.call("snapshot", section, cursor, _PAGE.get(section, 100))
        is_over = cursor == b"0"
        for raw, row in zip(rows[::2], rows[1::2], strict=True):
            with _left_out_if_broken(store, f"name {raw!r} in {section}"):
                yield raw.decode(), row
        for large in large_rows:
            with _left_out_if_broken(store, f"name {large!r} in {section}"):
                name = large.decode()
                if flat := await _large_row(store, section, name):  # else it was deleted meanwhile
                    yield name, flat


async def _large_row(store: Store, section: str, name: str) -> list[bytes]:
    """A row that is too large for the script, read by plain commands."""
    key = _ROW[section](store.namespace, name)
    if section == "clusters":
        return list(await read_set(store, key))
    if section == "filters":
        (items,) = await store.read(("LRANGE", key, 0, -1))
        return list(items)
    (fields,) = await read_hashes(store, [key])
    return _flat(fields)


def _flat(fields: dict[bytes, bytes]) -> list[bytes]:
    return list(itertools.chain.from_iterable(fields.items()))


async def _read_kv_section(store: Store) -> AsyncIterator[tuple[str, list[bytes]]]:
    names = []
    for raw in sorted(await read_set(store, keys.kv_namespaces(store.namespace))):
        with _left_out_if_broken(store, f"name {raw!r} in kv"):
            names.append(raw.decode())
    for first in range(0, len(names), _KV_AT_ONCE):
        some = names[first : first + _KV_AT_ONCE]
        found = await read_hashes(store, [keys.kv(store.namespace, name) for name in some], large_values=True)
        for name, fields in zip(some, found, strict=True):
            yield name, _flat(fields)


@contextlib.contextmanager
def _left_out_if_broken(store: Store, place: str) -> Iterator[None]:
    """Skip a text that is not UTF-8, and log its key: one wrong byte must not end every front end."""
    try:
        yield
    except UnicodeDecodeError as error:
        logger.error("%s%s is left out: %s", keys.prefix(store.namespace), place, error)


def _texts(store: Store, key: str, flat: list[bytes]) -> dict[str, str]:
    """A HASH of texts, without the fields that are not UTF-8."""
    found = {}
    for field, value in pairs(flat):
        with _left_out_if_broken(store, f"{key}, field {field!r},"):
            found[field.decode()] = value.decode()
    return found


async def read_kv(store: Store) -> dict[str, dict[str, str]]:
    """The KV configuration: KV namespace -> key -> value. Text that is not UTF-8 is left out, and logged."""
    return {name: _texts(store, f"kv:{name}", flat) async for name, flat in read_section(store, "kv")}


async def read_shared_config(store: Store) -> dict[str, str]:
    """The shared configuration: property key -> value. Text that is not UTF-8 is left out, and logged."""
    found: dict[str, str] = {}
    async for _, flat in read_section(store, "config"):
        found = _texts(store, "config", flat)
    return found


async def read_lives(store: Store) -> AsyncIterator[tuple[str, dict[bytes, bytes], dict[str, LiveInfo]]]:
    """The live infos, page by page: (who, the HASH ``live:<who>``, brokerName -> live info). A who may come twice."""
    async for who, flat in read_section(store, "live"):
        fields = dict(pairs(flat))
        yield who, fields, _live_infos(fields)


def _live_infos(fields: dict[bytes, bytes]) -> dict[str, LiveInfo]:
    def number(field: bytes) -> int | None:
        return int(fields[field]) if field in fields else None

    ha = fields.get(b"ha")
    return {
        field[5:].decode(): LiveInfo(
            fields.get(b"cluster", b"").decode(), fields.get(b"addr", b"").decode(), int(broker_id),
            number(b"timeout_ms") or 0, number(b"counter"), number(b"timestamp"), number(b"state_version"),
            ha.decode() if ha is not None else None,
        )
        for field, broker_id in fields.items()
        if field.startswith(b"name:")
    }  # fmt: skip


async def read_queues(
    store: Store, broker_names: Iterable[str] | None = None
) -> AsyncIterator[tuple[str, dict[bytes, bytes]]]:
    """The queue data by brokerName: (brokerName, topic -> queue data). A name with many topics comes several times.

    It uses plain commands: a script needs five times as long as HGETALL to pack the same data.
    ``broker_names``: only these; default: all, which must be UTF-8.
    """
    if broker_names is None:
        members = await read_set(store, keys.brokers(store.namespace))
        broker_names = [_text(store, "brokers", member) for member in sorted(members)]
    names = list(broker_names)
    for first in range(0, len(names), _NAMES):
        some = names[first : first + _NAMES]
        counts = await store.read(*(("HLEN", keys.queues(store.namespace, name)) for name in some))
        batch, cells = list[str](), 0
        for name, count in zip(some, counts, strict=True):
            if count > _CELLS:
                async for fields in scan_hash(store, keys.queues(store.namespace, name)):
                    yield name, fields
                continue
            if cells + count > _CELLS:
                for found in await _read_small(store, batch):
                    yield found
                batch, cells = [], 0
            batch.append(name)
            cells += count
        for found in await _read_small(store, batch):
            yield found


async def _read_small(store: Store, names: list[str]) -> list[tuple[str, dict[bytes, bytes]]]:
    if not names:
        return []
    rows = await store.read(*(("HGETALL", keys.queues(store.namespace, name)) for name in names))
    return [(name, fields) for name, fields in zip(names, rows, strict=True) if fields]


def _text(store: Store, place: str, name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise StoreError(f"a name in {keys.prefix(store.namespace)}{place}: {error}") from error


async def read_topic_queues(store: Store, topic: str) -> dict[str, QueueData]:
    """One topic's queue data by brokerName. Each call of the script searches 500 brokerNames."""
    found, cursor = dict[str, QueueData](), b"0"
    while True:
        cursor, flat = await store.call("snapshot", "topic", cursor, _LOOKED_AT, topic)
        found.update({_text(store, "brokers", name): decode_queue_data(topic, data) for name, data in pairs(flat)})
        if cursor == b"0":
            return dict(sorted(found.items()))


def broker_row(flat: list[bytes]) -> BrokerRow:
    """The HASH ``broker:<brokerName>`` as a value."""
    fields = dict(pairs(flat))
    zone = fields.get(b"zone")
    return BrokerRow(
        cluster=fields.get(b"cluster", b"").decode(),
        broker_addrs={int(k): v.decode() for k, v in fields.items() if _BROKER_ID.match(k)},
        zone_name=zone.decode() if zone is not None else None,
        enable_acting_master=fields.get(b"acting") == b"1",
        rev=int(fields.get(b"rev", b"0")),
    )


async def read_tables(store: Store) -> tuple[NamespaceHead, Tables]:
    """A whole snapshot. It is exact after the caller applied every change after ``head.last_id``.

    Brokers are read before their queue data; the stream has each change in between. Text that is not UTF-8 is left out
    and logged with its key. Queue data or a topic's name that cannot be read raises StoreError.
    """
    head = await read_head(store)
    tables = Tables()
    async for name, flat in read_section(store, "clusters"):
        with _left_out_if_broken(store, f"cluster:{name}"):
            tables.clusters[name] = {member.decode() for member in flat}
    async for name, flat in read_section(store, "brokers"):
        with _left_out_if_broken(store, f"broker:{name}"):
            tables.brokers[name] = broker_row(flat)
    async for name, cells in read_queues(store, tables.brokers):
        try:
            tables.set_cells(name, list(map(bytes.decode, cells)), map(_decode_queue_data, cells.values()))
        except (msgspec.DecodeError, UnicodeDecodeError):
            for raw, queue_data in cells.items():
                decode_queue_data(_text(store, f"queues:{name}", raw), queue_data)
            raise
    async for name, flat in read_section(store, "filters"):
        with _left_out_if_broken(store, f"filter:{name}"):
            tables.set_filter_servers(name, [server.decode() for server in flat])
    async for topic, flat in read_section(store, "mappings"):
        for broker_name, mapping in _texts(store, f"mapping:{topic}", flat).items():
            tables.set_mapping(topic, broker_name, mapping)
    tables.kv.update(await read_kv(store))
    tables.config = await read_shared_config(store)
    tables.config_rev = head.config_rev
    return head, tables


def decode_queue_data(topic: str, queue_data: bytes | str) -> QueueData:
    """Decode a value of a HASH ``queues:<brokerName>``. StoreError: it cannot be read; the message names the topic."""
    try:
        return _decode_queue_data(queue_data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"topic {topic!r} holds queue data that cannot be read: {queue_data!r}") from error
