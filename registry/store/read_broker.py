"""Reads one broker's part of the tables, for writers that do not follow the change stream (client.broker)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..model import ORDER_TOPIC_CONFIG, BrokerRow
from ..tables.tables import Tables
from . import keys
from .large_rows import read_hashes
from .snapshot import broker_row, decode_queue_data, pairs
from .store import Store

# With this many topics a call takes 1 ms of Redis.
_TOPICS_PER_CALL = 1000


class BrokerView(NamedTuple):
    """One brokerName in the tables after the change ``seq``."""

    epoch: str
    seq: int
    config_rev: int
    row: BrokerRow | None
    tables: Tables  # its row, and its queue data and mappings of the topics that were asked for
    config: Mapping[str, str]  # the shared configuration
    order_topic_config: Mapping[str, str] | None  # None when nobody ever set one


async def read_broker(
    store: Store,
    broker_name: str,
    topics: Sequence[str] = (),
    mappings: Sequence[tuple[str, str]] = (),
    *,
    all_topics: bool = False,
) -> BrokerView:
    """Read the part of the tables that a registration is compared with.

    Args:
        topics: the topics of the registration. mappings: its static topics, with the brokerName of each mapping.
        all_topics: read also all other topics that the brokerName has.
    Cost: a round trip for each thousand topics of the registration; with all_topics one more for each 500 topics.
    """
    tables = Tables()
    pages = [topics[at : at + _TOPICS_PER_CALL] for at in range(0, len(topics), _TOPICS_PER_CALL)] or [()]
    first = None
    for page in pages:
        mapped = [part for pair in mappings for part in pair] if page is pages[0] else []
        reply = await store.call("read_broker", broker_name, len(page), *page, *mapped)
        first = first or reply
        for topic, queue_data in zip(page, reply[4], strict=True):
            if queue_data is not None:
                tables.set_queue_data(topic, broker_name, decode_queue_data(topic, queue_data))
    assert first is not None
    epoch, seq, config_rev, flat_row, _, found_mappings, config, has_order = first
    for (topic, mapped_name), mapping in zip(mappings, found_mappings, strict=True):
        if mapping is not None:
            tables.set_mapping(topic, mapped_name, mapping.decode())
    if all_topics and flat_row:
        # read after the row: a writer sends the row's rev, and Redis refuses the write if a topic changed since
        (cells,) = await read_hashes(store, [keys.queues(store.namespace, broker_name)])
        for name, queue_data in cells.items():
            topic = name.decode()
            tables.set_queue_data(topic, broker_name, decode_queue_data(topic, queue_data))
    order = None
    if has_order:
        (order,) = await read_hashes(store, [keys.kv(store.namespace, ORDER_TOPIC_CONFIG)], large_values=True)
    tables.config_rev = int(config_rev)
    row = broker_row(flat_row) if flat_row else None
    if row is not None:
        tables.brokers[broker_name] = row
    return BrokerView(
        epoch.decode(), seq, int(config_rev), row, tables, _text(pairs(config)),
        _text(order.items()) if order is not None else None,
    )  # fmt: skip


def _text(fields: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {key.decode(): value.decode("utf-8", "replace") for key, value in fields}
