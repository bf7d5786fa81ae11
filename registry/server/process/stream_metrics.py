"""Reads from Redis for ``/metrics``: figures of Redis, of streams and their readers, and brokers' last heartbeats."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from ...errors import RegistryError, StoreUnavailable
from ...store.operator_reads import BrokerInfo, read_brokers
from ...store.store import Store
from ...store.streams import StreamStore, Survey
from ...tasks import cancelled, pause
from .figures.metrics_table import Series
from .metrics import FrontEndWorkers

logger = logging.getLogger(__name__)

SURVEY_EVERY_S: Final = 10.0


async def survey(store: Store, fleet: FrontEndWorkers, brokers_most: int = 0) -> None:
    """Give ``fleet`` new values every ten seconds, and none while Redis is away. Runs until cancelled.

    Args:
        brokers_most: the most broker processes whose last heartbeat is shown.
    """
    streams = StreamStore(store)
    while not cancelled():
        try:
            fleet.show("streams", stream_series(await streams.survey()))
            figures = (await store.figures())._asdict()
            fleet.show("redis", (Series(f"redis_{name}", "", float(value)) for name, value in figures.items()))
            if brokers_most:
                fleet.show("brokers", map(_last_beat, (await read_brokers(store))[:brokers_most]))
        except RegistryError as error:
            for source in ("streams", "redis", "brokers"):
                fleet.show(source, ())
            if not isinstance(error, StoreUnavailable):  # the workers log that
                logger.error("cannot read the state of Redis and its streams: %s", error)
        await pause(SURVEY_EVERY_S)


def stream_series(survey: Survey) -> Iterator[Series]:
    """The values of /metrics about the streams and their readers."""
    for stream, state in sorted(survey.streams.items()):
        yield Series("stream_entries", stream, state.entries)
        if state.bytes >= 0:
            yield Series("stream_bytes", stream, state.bytes)
    for name, reader in sorted(survey.readers.items()):
        yield Series("stream_reader_silent_seconds", name, max(0, survey.now_ms - reader.seen_ms) / 1000)
        for stream, position in sorted(reader.positions.items()):
            yield Series("stream_reader_behind", name, position.behind, second=stream)
            yield Series("stream_reader_behind_seconds", name, position.behind_ms / 1000, second=stream)
            yield Series("stream_reader_lost", name, position.state == "lost", second=stream)


def _last_beat(info: BrokerInfo) -> Series:
    heard_s = info.heard_ms_ago / 1000
    return Series("broker_heard_seconds", info.cluster, heard_s, second=info.broker_name, third=info.broker_addr)
