"""ChangeReader and error mapping: what needs no script, so fakeredis will do."""

from __future__ import annotations

import msgspec
import pytest
from fakeredis import FakeAsyncRedis, FakeServer
from redis import exceptions

from mqregistry.errors import StoreError, StoreUnavailable
from mqregistry.store import keys
from mqregistry.store.change_reader import ChangeReader
from mqregistry.store.connection.errors import mapped_errors


class Store:
    """As much of a Store as a reader needs."""

    namespace = "fake"

    def __init__(self) -> None:
        self.server = FakeServer()
        self.client = FakeAsyncRedis(server=self.server)


@pytest.fixture
def store(runner):
    store = Store()
    yield store
    store.server.connected = True
    runner.run(store.client.aclose())


async def append(store: Store, seq: int) -> None:
    event = msgspec.json.encode({"type": "kv_put", "seq": seq, "ms": 5, "kv_namespace": "n"})
    await store.client.xadd(keys.changes(store.namespace), {"e": event}, id=f"{seq}-0")


async def test_pages_come_in_order_and_nothing_twice(store):
    for seq in range(1, 12):
        await append(store, seq)
    reader = ChangeReader(store, "0-0")
    pages = []
    while page := await reader.read(block_ms=0, count=4):
        pages.append([change.seq for change in page])
    assert pages == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11]]
    assert reader.last_id == "11-0"
    assert await reader.read(block_ms=0) == []
    await append(store, 12)
    assert [change.seq for change in await reader.read(block_ms=0)] == [12]


@pytest.mark.parametrize("fields", [{"x": "y"}, {"e": "{}"}, {"e": b'{"type":"kv_put","seq":2,"ms":5,"key":"\xff"}'}])
async def test_an_entry_that_is_no_event_is_named_and_not_skipped(store, fields):
    await append(store, 1)
    await store.client.xadd(keys.changes(store.namespace), fields, id="2-0")
    reader = ChangeReader(store, "0-0")
    for _ in range(2):
        with pytest.raises(StoreError, match=r"entry 2-0 of mq:\{fake\}:changes"):
            await reader.read(block_ms=0)
        assert reader.last_id == "1-0"


async def test_redis_away_leaves_the_position(store):
    await append(store, 1)
    reader = ChangeReader(store, "0-0")
    store.server.connected = False
    with pytest.raises(StoreUnavailable, match="reading the change stream: Redis is away"):
        await reader.read(block_ms=0)
    store.server.connected = True
    assert [change.seq for change in await reader.read(block_ms=0)] == [1]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (exceptions.ConnectionError("gone"), StoreUnavailable),
        (exceptions.TimeoutError("slow"), StoreUnavailable),
        (OSError("reset"), StoreUnavailable),
        (exceptions.ResponseError("LOADING Redis is loading the dataset in memory"), StoreUnavailable),
        (exceptions.ResponseError("READONLY You can't write against a read only replica."), StoreUnavailable),
        (exceptions.ResponseError("ERR Error running script: -OOM command not allowed"), StoreUnavailable),
        (exceptions.ResponseError("WRONGTYPE Operation against a key"), StoreError),
        (exceptions.AuthenticationError("WRONGPASS"), StoreError),
        (exceptions.NoPermissionError("NOPERM"), StoreError),
    ],
    ids=lambda part: str(part)[:20] if isinstance(part, Exception) else part.__name__,
)
def test_errors_are_ours(error, expected):
    with pytest.raises(expected, match=r"^doing x: ") as raised, mapped_errors("doing x"):
        raise error
    assert raised.value.__cause__ is error


@pytest.mark.parametrize(
    "text",
    [
        "ERR Error running script (call to f_25a3b2ec3a3b1fbb8a83b85dcd0a73d6e4cbbb0d): @user_script:14: {}",
        "{} script: 25a3b2ec3a3b1fbb8a83b85dcd0a73d6e4cbbb0d, on @user_script:14.",
        "{} script: on @user_script:14.",
    ],
)
def test_where_in_a_script_it_happened_is_not_told(text):
    """Neither a digest nor a line helps anybody: Redis 6.2 says them before the text, 7 and later after it."""
    with pytest.raises(StoreError) as raised, mapped_errors("doing x"):
        raise exceptions.ResponseError(text.format("WRONGTYPE mq:{x}:topics is no set"))
    assert str(raised.value) == "doing x: WRONGTYPE mq:{x}:topics is no set"
