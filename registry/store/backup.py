"""Copies all keys of a namespace into a file, and back: tables, KV, settings, users with their secrets, streams.

The file has plain values, not Redis's internal form (DUMP), so any version of Redis can get them. One transaction reads
all keys except the streams, so they are of one moment. The streams are read up to that moment.
"""

from __future__ import annotations

import gzip
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from ..errors import StoreError
from ..events.changes import SCHEMA_MAJOR
from . import keys
from .connection.blocking import open_blocking_client
from .connection.errors import mapped_errors
from .connection.url import parse_url
from .snapshot import pairs

_FORMAT: Final = 1
_LENGTH: Final = struct.Struct(">I")
_TIMEOUT_MS: Final = 120_000
_TRIES: Final = 20
_AT_ONCE: Final = 500
_ENTRIES: Final = 2000
# The keys of running processes: a backup does not have them.
_LEASE: Final = b"lease:"
_READS: Final[dict[str, Callable[[Any, bytes], Any]]] = {
    "hash": lambda to, key: to.hgetall(key),
    "set": lambda to, key: to.smembers(key),
    "zset": lambda to, key: to.zrange(key, 0, -1, withscores=True),
    "list": lambda to, key: to.lrange(key, 0, -1),
    "string": lambda to, key: to.get(key),
    "stream": lambda to, key: to.xrevrange(key, count=1),
}
_NO_FILE: Final = "is no backup of mqregistry, or its end is missing"


class Head(msgspec.Struct, frozen=True):
    """The first record of a file. ``schema``: the major version of what Redis holds."""

    format: int
    schema: int
    namespace: str
    taken_ms: int
    keys: int


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """One key, or some entries of a stream. auth: the key begins with ``mqauth:``. name: the key without its prefix."""

    auth: bool
    name: bytes
    kind: str
    ttl_ms: int
    content: list[Any]


def _client(url: str) -> Any:
    # in a transaction on a cluster, redis-py does not parse answers, so no client parses these
    raw = ("HGETALL", "SMEMBERS", "ZRANGE", "XREVRANGE", "XRANGE")
    return open_blocking_client(parse_url(url), timeout_ms=_TIMEOUT_MS, raw=raw)


def _prefixes(namespace: str) -> dict[bool, bytes]:
    return {False: keys.prefix(namespace).encode(), True: keys.auth_prefix(namespace).encode()}


def _names(client: Any, namespace: str) -> set[bytes]:
    found: set[bytes] = set()
    for prefix in _prefixes(namespace).values():
        pattern = b"".join(b"\\" + bytes([byte]) if byte in b"*?[]\\" else bytes([byte]) for byte in prefix) + b"*"
        found |= {key for key in client.scan_iter(pattern, count=1000) if not key.startswith(prefix + _LEASE)}
    return found


def back_up(url: str, namespace: str, file: Path) -> Head:
    """Write all keys of a namespace into a file that only the user of this process may read.

    Raises:
        StoreUnavailable, StoreError: an error of Redis; or there is no such namespace. OSError: the file cannot be
            written.
    """
    client = _client(url)
    part = file.with_name(file.name + ".part")
    try:
        with mapped_errors(f"reading namespace {namespace!r}"):
            found = _read(client, namespace)
            head = Head(_FORMAT, SCHEMA_MAJOR, namespace, int(time.time() * 1000), len(found))
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "wb") as raw:
                with gzip.open(raw, "wb", compresslevel=6) as out:
                    _put(out, head)
                    for kept in _records(client, namespace, found):
                        _put(out, kept)
                    out.write(_LENGTH.pack(0))
                raw.flush()
                os.fsync(raw.fileno())
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        client.close()
    part.replace(file)
    return head


def _read(client: Any, namespace: str) -> dict[bytes, tuple[str, int, Any]]:
    """Key -> type, time to live in ms and content, all of one moment."""
    meta, kinds = keys.meta(namespace).encode(), dict[bytes, str]()
    for _ in range(_TRIES):
        names = sorted(_names(client, namespace))
        if meta not in names:
            break
        types = _many(client, names, lambda to, key: to.type(key), transaction=False)
        kinds.update(zip(names, (kind.decode() for kind in types), strict=True))
        known = [name for name in names if kinds[name] in _READS]
        contents = _many(client, known, lambda to, key: _READS[kinds[key]](to, key), transaction=True)
        if _names(client, namespace) - set(names):
            continue  # a key was added meanwhile, perhaps before the transaction: read again
        lives = _many(client, known, lambda to, key: to.pttl(key), transaction=False)
        found = zip(known, contents, lives, strict=True)
        return {name: (kinds[name], ttl, content) for name, content, ttl in found if content}
    raise StoreError(
        f"there is no namespace {namespace!r}" if meta not in names else
        f"namespace {namespace!r} gets new keys all the time: try again when fewer brokers register for the first time"
    )  # fmt: skip


def _many(client: Any, names: list[bytes], call: Callable[[Any, bytes], Any], *, transaction: bool) -> list[Any]:
    pipeline = client.pipeline(transaction=transaction)
    for name in names:
        call(pipeline, name)
    answers: list[Any] = pipeline.execute()
    return answers


def _records(client: Any, namespace: str, found: dict[bytes, tuple[str, int, Any]]) -> Iterator[Kept]:
    prefixes = _prefixes(namespace)
    for key, (kind, ttl_ms, content) in found.items():
        auth = key.startswith(prefixes[True])
        name = key.removeprefix(prefixes[auth])
        if kind != "stream":
            flat = pairs(content) if kind in ("hash", "zset") else [content] if kind == "string" else content
            yield Kept(auth, name, kind, max(0, ttl_ms), list(flat))
            continue
        last, begin = content[0][0].decode(), "-"
        while entries := client.xrange(key, begin, last, count=_ENTRIES):
            yield Kept(auth, name, kind, 0, [(entry_id, list(pairs(fields))) for entry_id, fields in entries])
            begin = f"({entries[-1][0].decode()}"


def restore(url: str, namespace: str, file: Path) -> Head:
    """Replace all keys of a namespace with those of a file.

    The key ``meta`` is deleted first and written last. Until then the namespace does not exist, and nobody uses it,
    even if this call is interrupted.

    Raises:
        StoreUnavailable, StoreError: an error of Redis; or a front end serves the namespace; or the file is no backup.
        OSError: the file cannot be read.
    """
    for _ in _of_file(file):  # raises an error of the file before anything is deleted
        pass
    records = _of_file(file)
    head = next(records)
    assert isinstance(head, Head)
    client, meta = _client(url), None
    try:
        with mapped_errors(f"writing namespace {namespace!r}"):
            incarnations: Iterable[bytes] = client.smembers(keys.leases(namespace))
            if any(client.exists(keys.lease(namespace, one.decode())) for one in incarnations):
                raise StoreError(
                    f"namespace {namespace!r} is served: stop all front ends, and brokers that write to Redis "
                    "themselves, as they would write their old tables into Redis again; nothing was changed"
                )
            client.delete(keys.meta(namespace))
            names = sorted(_names(client, namespace))
            for at in range(0, len(names), _AT_ONCE):
                _many(client, names[at : at + _AT_ONCE], lambda to, key: to.unlink(key), transaction=False)
            for kept in records:
                assert isinstance(kept, Kept)
                if not kept.auth and kept.name == b"meta":
                    meta = kept
                else:
                    _write(client, namespace, kept)
            assert meta is not None
            _write(client, namespace, meta)
    finally:
        client.close()
    return head


def _write(client: Any, namespace: str, kept: Kept) -> None:
    key = _prefixes(namespace)[kept.auth] + kept.name
    pipeline = client.pipeline(transaction=False)
    for at in range(0, len(kept.content), _AT_ONCE):
        part = kept.content[at : at + _AT_ONCE]
        if kept.kind == "hash":
            pipeline.hset(key, mapping=dict(part))
        elif kept.kind == "set":
            pipeline.sadd(key, *part)
        elif kept.kind == "zset":
            pipeline.zadd(key, {member: float(score) for member, score in part})
        elif kept.kind == "list":
            pipeline.rpush(key, *part)
        elif kept.kind == "string":
            pipeline.set(key, part[0])
        else:
            for entry_id, fields in part:
                pipeline.xadd(key, dict(fields), id=entry_id)
    if kept.ttl_ms:
        pipeline.pexpire(key, kept.ttl_ms)
    pipeline.execute()


def _put(out: gzip.GzipFile, record: Head | Kept) -> None:
    data = msgspec.msgpack.encode(record)
    out.write(_LENGTH.pack(len(data)) + data)


def _of_file(file: Path) -> Iterator[Head | Kept]:
    """The records of a file: its head, then each key.

    Raises:
        StoreError: it is no backup, or a backup of another schema.
    """
    kind: type[Head | Kept] = Head
    try:
        with gzip.open(file, "rb") as source:
            while size := _LENGTH.unpack(source.read(_LENGTH.size))[0]:
                record = msgspec.msgpack.decode(source.read(size), type=kind)
                if isinstance(record, Head) and (record.format, record.schema) != (_FORMAT, SCHEMA_MAJOR):
                    raise StoreError(
                        f"{file} has schema {record.schema} in format {record.format}; this release reads schema "
                        f"{SCHEMA_MAJOR} in format {_FORMAT}: use the release that wrote it. Nothing was changed"
                    )
                yield record
                kind = Kept
    except (gzip.BadGzipFile, EOFError, struct.error, msgspec.DecodeError) as error:
        raise StoreError(f"{file} {_NO_FILE} ({error}); nothing was changed") from error
    if kind is Head:
        raise StoreError(f"{file} {_NO_FILE}; nothing was changed")
