"""Keeps the tables of one moment as a file, a checkpoint, from which a replay of the stream can begin."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import zlib
from pathlib import Path
from sys import intern
from typing import Final, NamedTuple

import msgspec

from ..model import BrokerRow, QueueData
from ..tables.tables import Tables

_NAME: Final = re.compile(r"(\d{15})-(\d{12})-(\d+-\d+)\.checkpoint")
_MOST: Final = 400


class StreamPlace(NamedTuple):
    """The place of a checkpoint in the stream. ms, seq, last_id: time, number and entry of its last change."""

    ms: int
    seq: int
    last_id: str


class _CheckpointContent(msgspec.Struct, array_like=True):
    topics: dict[str, dict[str, QueueData]]
    brokers: dict[str, BrokerRow]
    clusters: dict[str, list[str]]
    filter_servers: dict[str, list[str]]
    mappings: dict[str, dict[str, str]]
    kv: dict[str, dict[str, str]]
    config: dict[str, str]
    config_rev: int


_decode: Final = msgspec.msgpack.Decoder(_CheckpointContent).decode


def encode_tables(tables: Tables) -> bytes:
    """Encode tables, as a checkpoint holds them."""
    content = _CheckpointContent(
        tables.topics, tables.brokers, {name: sorted(members) for name, members in tables.clusters.items()},
        tables.filter_servers, tables.mappings, tables.kv, tables.config, tables.config_rev,
    )  # fmt: skip
    return zlib.compress(msgspec.msgpack.encode(content), 1)


def decode_tables(data: bytes) -> Tables:
    """Decode tables. ValueError: these bytes are no tables."""
    try:
        content = _decode(zlib.decompress(data))
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(str(error)) from error
    tables = Tables()
    shared: dict[QueueData, QueueData] = {}
    for topic, cells in content.topics.items():
        tables.topics[intern(topic)] = {
            intern(name): shared.setdefault(data, data) for name, data in cells.items()
        }  # fmt: skip
        for name in cells:
            tables.broker_topics.setdefault(intern(name), set()).add(topic)
    tables.brokers = content.brokers
    tables.clusters = {name: set(members) for name, members in content.clusters.items()}
    tables.filter_servers, tables.mappings, tables.kv = content.filter_servers, content.mappings, content.kv
    tables.config, tables.config_rev = content.config, content.config_rev
    return tables


class Checkpoints:
    """The checkpoints of one epoch of a namespace, as files that only this user may read.

    An epoch ends when Redis loses its data. ``folder``: has a folder for each epoch of each namespace.
    """

    def __init__(self, folder: Path, redis: str, namespace: str, epoch: str) -> None:
        of = hashlib.sha256("\0".join((redis, namespace, epoch)).encode()).hexdigest()[:20]
        self.folder = folder / of

    def places(self) -> list[StreamPlace]:
        """The places of all checkpoints, the oldest first."""
        try:
            names = os.listdir(self.folder)
        except OSError:
            return []
        return sorted(StreamPlace(int(m[1]), int(m[2]), m[3]) for name in names if (m := _NAME.fullmatch(name)))

    def _path(self, place: StreamPlace) -> Path:
        return self.folder / f"{place.ms:015}-{place.seq:012}-{place.last_id}.checkpoint"

    def write(self, place: StreamPlace, data: bytes) -> None:
        """Keep a checkpoint, and no more than ``_MOST`` in all."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(place)
        new = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.new")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        new.replace(path)
        for old in self.places()[:-_MOST]:
            self.remove(old)

    def read(self, place: StreamPlace) -> Tables | None:
        """The tables of a checkpoint; None: its file is missing or damaged."""
        try:
            return decode_tables(self._path(place).read_bytes())
        except (OSError, ValueError):
            return None

    def remove(self, place: StreamPlace) -> None:
        """Remove the file of a checkpoint."""
        self._path(place).unlink(missing_ok=True)
