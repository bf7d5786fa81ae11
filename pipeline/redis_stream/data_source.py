"""``redis_stream``: the registry's streams as a Spark data source, in batches and as a stream.

    spark.readStream.format("redis_stream").option("url", "redis://127.0.0.1:6379").load()

Where this package is installed, Spark finds the source by itself (``pyspark_redis_stream.py``).

| option | meaning | default |
| --- | --- | --- |
| url | as ``mqregistry serve --redis`` takes it, also Sentinel, TLS, cluster | required |
| password | if the URL has none | MQREGISTRY_REDIS_PASSWORD of the driver |
| namespace | | default |
| stream | changes, heartbeats, lookups | changes |
| startingId | read the entries after this one: ``<ms>-<n>``, ``oldest``, ``latest`` | oldest |
| startingSeq | number of the change at startingId: the reader then checks that no change after it is missing | |
| startingUnread | how many entries after that change, up to startingId, cannot be read | 0 |
| startingTime | instead of startingId: read from this moment on (ISO 8601, UTC if it names no zone) | |
| endingTime | read up to this moment, which is not included | |
| epoch | the epoch that the registry must have; a different one is an error | any |
| maxEntriesPerTrigger | entries of a batch: for changes at most, for other streams about this many | 250000 |
| partitions | tasks of a batch, at most | 4 |
| reader | streaming only: under this name Redis notes what was read, and keeps the other entries | none |

``mqregistry.pipeline.lake.schema.BRONZE[stream]`` has the columns; ``reason`` and ``raw`` are null unless an entry
cannot be read. An offset is the last entry read, with its number and the registry's epoch. If an entry was trimmed,
deleted or replaced before it was read, the reader raises ``mqregistry.pipeline.redis_stream.stream.GapError``.

Spark writes its options to logs and pages, also a password in ``url``. It redacts the option ``password``, and does not
see a password from the environment.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mqregistry.errors import ConfigError
from mqregistry.events.journal import STREAMS
from mqregistry.events.journal import Stream as StreamName
from mqregistry.store.streams import acknowledge_with

from ..garbage import collection_paused
from ..lake.schema import BRONZE
from .ranges import OLDEST, UNKNOWN, EntryId, Position, parse_id
from .stream import Login, Stream, StreamHead

_OPTIONS: Final = {
    "url", "password", "namespace", "stream", "startingid", "startingseq", "startingunread", "startingtime",
    "endingtime", "epoch", "maxentriespertrigger", "partitions", "reader",
    "path",
}  # fmt: skip
_LEAST_PER_PARTITION: Final = 20_000  # with fewer entries a task costs more than it saves


class EntryRange(InputPartition):
    """The entries after ``start`` up to ``end``; ``first``: the id that the first one must have (None: any)."""

    def __init__(self, start: Position, end: Position, epoch: str, first: EntryId | None) -> None:
        self.start, self.end, self.epoch, self.first = start, end, epoch, first


class RedisStreamSource(DataSource):
    """The data source ``redis_stream``, with the methods that Spark calls."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._config = _Config(options)
        self.options = {}  # keep the password out of Spark's options

    @classmethod
    def name(cls) -> str:
        """The name that ``spark.read.format`` takes."""
        return "redis_stream"

    def schema(self) -> StructType:
        """The columns of the stream's table in bronze, less namespace, epoch and day."""
        return from_arrow_schema(BRONZE[self._config.stream])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Everything from startingId to the newest entry."""
        return _BatchReader(self._config)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Everything from startingId on."""
        return _StreamReader(self._config)


class _Config:
    """The options of a reader, checked."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {key.lower(): value for key, value in options.items()}
        for key in given.keys() - _OPTIONS:
            raise ConfigError(f"redis_stream has no option {key!r}")
        if not given.get("url"):
            raise ConfigError("redis_stream needs the option url, e.g. redis://127.0.0.1:6379")
        self.login = Login(given["url"], given.get("password"))
        self.namespace = given.get("namespace", "default")
        stream = given.get("stream", "changes")
        named = [name for name in STREAMS if name == stream]
        if not named:
            raise ConfigError(f"redis_stream: stream {stream!r}: expected one of {', '.join(STREAMS)}")
        self.stream: StreamName = named[0]
        self.starting_id = given.get("startingid", "oldest")
        if self.starting_id not in ("oldest", "latest"):
            try:
                parse_id(self.starting_id)
            except ValueError as error:
                raise ConfigError(f"redis_stream: startingId: {error}; or oldest, or latest") from error
        self.starting_seq = _number(given, "startingSeq", UNKNOWN, 0)
        self.starting_unread = _number(given, "startingUnread", 0, 0)
        self.starting_ms = _moment_ms(given, "startingTime")
        self.ending_ms = _moment_ms(given, "endingTime")
        self.epoch = given.get("epoch")
        self.reader = given.get("reader")
        self.limit = _number(given, "maxEntriesPerTrigger", 250_000, 1)
        self.partitions = _number(given, "partitions", 4, 1)

    def open(self) -> Stream:
        return Stream(self.login, self.namespace, self.stream)


def _number(given: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = given.get(name.lower())
    if text is None:
        return default
    if not text.isdecimal() or int(text) < least:
        raise ConfigError(f"redis_stream: {name} {text!r}: expected a whole number, {least} or more")
    return int(text)


def _moment_ms(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    try:
        at = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"redis_stream: {name} {text!r}: expected a moment, e.g. 2026-11-21T14:00Z") from error
    at = at if at.tzinfo else at.replace(tzinfo=datetime.UTC)
    return (at - datetime.datetime.fromtimestamp(0, datetime.UTC)) // datetime.timedelta(milliseconds=1)


class _Reader:
    """The common part of both readers; it holds no connection, because executors get a copy of it."""

    def __init__(self, config: _Config) -> None:
        self._config = config

    def _begin(self, stream: Stream) -> Position:
        config = self._config
        if config.starting_ms is not None:
            return stream.at_or_before(_last_before(config.starting_ms))
        if config.starting_id == "latest":
            return stream.last()
        start = OLDEST if config.starting_id == "oldest" else parse_id(config.starting_id)
        return Position(start, config.starting_seq, config.starting_unread)

    def _end(self, stream: Stream) -> Position:
        ending_ms = self._config.ending_ms
        return stream.last() if ending_ms is None else stream.at_or_before(_last_before(ending_ms))

    def _ranges(self, stream: Stream, head: StreamHead, start: Position, end: Position, epoch: str) -> list[EntryRange]:
        if start.id >= end.id:
            return []
        ends = stream.cut(start, end, self._config.partitions, _LEAST_PER_PARTITION)
        starts = [start, *ends[:-1]]
        first = head.first_id if start.id == OLDEST else None
        return [
            EntryRange(begin, end, epoch, first if begin is start else None)
            for begin, end in zip(starts, ends, strict=True)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The entries of one range."""
        assert isinstance(partition, EntryRange)
        with collection_paused(), contextlib.closing(self._config.open()) as stream:
            for page in stream.read(partition.start, partition.end, partition.epoch, partition.first):
                yield page.batch


class _BatchReader(_Reader, DataSourceReader):
    def partitions(self) -> list[EntryRange]:
        with contextlib.closing(self._config.open()) as stream:
            head = stream.head()
            epoch = self._config.epoch or head.epoch
            start = self._begin(stream)
            stream.check(start, epoch, head)
            end = self._end(stream)
            return self._ranges(stream, head, start, end, epoch) or [EntryRange(start, start, epoch, None)]


class _StreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads in a process that Spark starts beside the driver; there it keeps its connection to Redis."""

    def __init__(self, config: _Config) -> None:
        super().__init__(config)
        self._kept: Stream | None = None
        self._target: Position | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_config": self._config, "_kept": None, "_target": None}

    @property
    def _stream(self) -> Stream:
        if self._kept is None:
            self._kept = self._config.open()
        return self._kept

    def initialOffset(self) -> dict[str, Any]:
        head = self._stream.head()
        return _offset(self._begin(self._stream), self._config.epoch or head.epoch)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._config.limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._end(self._stream)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin, epoch = _position(start)
        head = self._stream.head()
        self._stream.check(begin, epoch, head)
        end = self._target or self._end(self._stream)
        if end.id <= begin.id:
            return start
        if isinstance(limit, ReadMaxRows):
            end = self._stream.after(begin, limit.max_rows, end)
        elif not isinstance(limit, ReadAllAvailable):
            raise ConfigError(f"redis_stream cannot limit a batch by {limit}")
        return _offset(end, epoch)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        head = self._stream.head()
        return _offset(self._stream.last(), head.epoch)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[EntryRange]:
        (begin, epoch), (last, _) = _position(start), _position(end)
        head = self._stream.head()
        self._stream.check(begin, epoch, head)
        return self._ranges(self._stream, head, begin, last, epoch)

    def commit(self, end: dict[str, Any]) -> None:
        """Tell Redis that Spark has all entries up to ``end``, so that they may be trimmed."""
        if self._config.reader:
            position, epoch = _position(end)
            with contextlib.closing(self._config.login.connect()) as client:
                positions: dict[str, str] = {self._config.stream: str(position.id)}
                acknowledge_with(client, self._config.namespace, self._config.reader, positions, epoch=epoch)

    def stop(self) -> None:
        if self._kept is not None:
            self._kept.close()


def _last_before(ms: int) -> EntryId:
    return EntryId(ms - 1, 2**63 - 1)


def _offset(position: Position, epoch: str) -> dict[str, Any]:
    return {"id": str(position.id), "seq": position.seq, "unread": position.unread, "epoch": epoch}


def _position(offset: dict[str, Any]) -> tuple[Position, str]:
    return Position(parse_id(offset["id"]), offset["seq"], offset["unread"]), offset["epoch"]
