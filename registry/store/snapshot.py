"""The read side: whole tables by pages, and the change stream."""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple

import msgspec

from registry.change import Change, decode_change
from registry.errors import StoreError
from registry.model import BrokerRow, QueueData
from registry.store import keys
from registry.store.connect import mapped_errors
from registry.store.sent import SentTopics
from registry.store.store import Store
from registry.tables import Tables, TopicsLoader

# What a page of at most 1 ms of Redis time holds.
_PAGE = {
    "topics": 250,
    "brokers": 100,
    "clusters": 20,
    "filters": 300,
    "mappings": 200,
    "kv": 50,
    "live": 150,
}
_queue_data = msgspec.json.Decoder(QueueData)
# Most cells of a registry hold one of few values.
_decode_queue_data = functools.lru_cache(maxsize=16_384)(_queue_data.decode)
_decode_rows = msgspec.msgpack.Decoder(tuple[list[str], list[list[str]]]).decode
_BROKER_ID = re.compile(rb"-?\d+\Z")


class Head(NamedTuple):
    """A moment of the registry: what a snapshot starts from. last_id: the change stream's last entry then."""

    epoch: str
    seq: int
    config_rev: int
    up_since_ms: int
    now_ms: int
    last_id: str


def _pairs(flat: list[bytes]) -> Iterable[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


async def read_head(store: Store) -> Head:
    """Where the registry stands now."""
    epoch, seq, config_rev, up_since, now, last_id = await store.call("snapshot", "head", "0", 1)
    return Head(epoch.decode(), seq, int(config_rev), int(up_since), int(now), last_id.decode())


async def _pages(store: Store, section: str) -> AsyncIterator[list[Any]]:
    cursor: bytes = b"0"
    while True:
        page = await store.call("snapshot", section, cursor, _PAGE.get(section, 100))
        cursor = page[0]
        yield page
        if cursor == b"0":
            return


async def read_section(store: Store, section: str) -> AsyncIterator[tuple[str, list[bytes]]]:
    """One table but topics, page by page: (name, flat HASH, SET or LIST of that name). A name may come twice."""
    async for page in _pages(store, section):
        for i in range(1, len(page), 2):
            yield page[i].decode(), page[i + 1]


async def read_topic_rows(store: Store) -> AsyncIterator[list[tuple[str, list[str]]]]:
    """The topics, page by page: (topic, its HASH as brokerName, queue data, ...). A topic may come twice.

    Raises:
        StoreError: a name that is not UTF-8.
    """
    async for page in _pages(store, "topics"):
        try:
            topics, rows = _decode_rows(page[1])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"a topic or brokerName in {keys.prefix(store.namespace)}topics: {error}") from error
        yield list(zip(topics, rows, strict=True))


class _Cells(dict[str, QueueData]):
    """Queue data by its text: most cells of a registry hold one of few values, and share it."""

    def __missing__(self, text: str) -> QueueData:
        found = self[text] = _queue_data.decode(text)
        return found


def broker_row(flat: list[bytes]) -> BrokerRow:
    """The HASH ``broker:<brokerName>`` as a value."""
    fields = dict(_pairs(flat))
    zone = fields.get(b"zone")
    return BrokerRow(
        cluster=fields.get(b"cluster", b"").decode(),
        broker_addrs={int(k): v.decode() for k, v in fields.items() if _BROKER_ID.match(k)},
        zone_name=zone.decode() if zone is not None else None,
        enable_acting_master=fields.get(b"acting") == b"1",
        rev=int(fields.get(b"rev", b"0")),
    )


async def read_tables(store: Store) -> tuple[Head, Tables]:
    """A whole snapshot. Exact once every change after ``head.last_id`` has been applied to it.

    Brokers are read before topics: a change in between is in the stream, and applied later.
    """
    head = await read_head(store)
    tables = Tables()
    async for name, flat in read_section(store, "clusters"):
        tables.clusters[name] = {member.decode() for member in flat}
    async for name, flat in read_section(store, "brokers"):
        tables.brokers[name] = broker_row(flat)
    loader = TopicsLoader(tables, _Cells().__getitem__)
    async for rows in read_topic_rows(store):
        try:
            loader.add(rows)
        except msgspec.DecodeError:
            for topic, row in rows:
                for queue_data in row[1::2]:
                    decode_queue_data(topic, queue_data)
            raise
    loader.finish()
    async for name, flat in read_section(store, "filters"):
        tables.set_filter_servers(name, [server.decode() for server in flat])
    async for topic, flat in read_section(store, "mappings"):
        for broker_name, mapping in _pairs(flat):
            tables.set_mapping(topic, broker_name.decode(), mapping.decode())
    async for name, flat in read_section(store, "kv"):
        tables.kv[name] = {key.decode(): value.decode() for key, value in _pairs(flat)}
    async for _, flat in read_section(store, "config"):
        tables.config = {key.decode(): value.decode() for key, value in _pairs(flat)}
    tables.config_rev = head.config_rev
    return head, tables


def decode_queue_data(topic: str, queue_data: bytes | str) -> QueueData:
    """A cell of ``topic:<topic>``; raises StoreError, naming the topic, when it is not ours."""
    try:
        return _decode_queue_data(queue_data)
    except msgspec.DecodeError as error:
        raise StoreError(f"topic {topic!r} holds queue data that cannot be read: {queue_data!r}") from error


class ChangeReader:
    """Reads the change stream from a position on, over a connection of its own (a blocking read holds one).

    Args:
        sent: what this process sent itself.
    """

    def __init__(self, store: Store, last_id: str, sent: SentTopics | None = None) -> None:
        self._decode = decode_change if sent is None else sent.decode
        self._client: Any = store.client
        self._key = keys.changes(store.namespace)
        self.last_id = last_id

    async def read(self, *, block_ms: int, count: int = 500) -> list[Change]:
        """The next changes, in order; [] when there was none for ``block_ms`` (0 = do not wait).

        Raises:
            StoreUnavailable: Redis did not answer within the client's timeout, which must exceed block_ms.
            StoreError: an entry cannot be read.
        """
        with mapped_errors("reading the change stream"):
            reply = await self._client.xread(
                {self._key: self.last_id}, count=count, block=block_ms if block_ms > 0 else None
            )
        changes: list[Change] = []
        for _, entries in reply or ():
            for entry_id, fields in entries:
                try:
                    changes.append(self._decode(fields[b"e"]))
                except (KeyError, msgspec.DecodeError) as error:
                    raise StoreError(
                        f"entry {entry_id.decode()} of {self._key} is no event of this release: {error}"
                    ) from error
                self.last_id = entry_id.decode()
        return changes
