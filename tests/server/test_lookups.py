"""What was looked up comes to the stream: all of it, once, whatever Redis does meanwhile."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections import Counter
from pathlib import Path

import pytest
import redis

from mqregistry.embedded import EmbeddedRedis
from mqregistry.errors import StoreUnavailable
from mqregistry.events import journal
from mqregistry.server.view.lookup_counts import OTHERS, LookupCounts, LookupJournal
from mqregistry.store import keys
from mqregistry.store.store import Store
from mqregistry.store.streams import StreamStore

from ..conftest import NO_FSYNC
from .harness import Broker, FrontEnd, wait_until


def written(url, namespace):
    with contextlib.closing(redis.Redis.from_url(url, protocol=2)) as client:
        return [journal.decode_lookups(fields[b"e"]) for _, fields in client.xrange(keys.lookups(namespace))]


def totals(entries):
    found, missing = Counter(), Counter()
    for entry in entries:
        found.update(entry.found)
        missing.update(entry.missing)
    return dict(found), dict(missing)


@pytest.mark.parametrize("interval_ms", [100, 600_000])
def test_lookups_of_a_front_end_are_written_down_at_the_latest_when_it_ends(redis_url, namespace, interval_ms):
    front_end = FrontEnd(redis_url, namespace, lookup_counts_interval_ms=interval_ms)
    with contextlib.closing(front_end):
        with front_end.client() as client:
            assert client.register(Broker("broker-a", "127.0.0.1:10911", topics=["topic1", "topic2"])).code == 0
            for topic, code in (("topic1", 0), ("topic1", 0), ("topic2", 0), ("none", 17), ("none", 17)):
                assert client.route(topic).code == code
            if interval_ms == 100:
                wait_until(
                    lambda: totals(written(redis_url, namespace)) == ({"topic1": 2, "topic2": 1}, {"none": 2}),
                    "they come",
                )
            else:
                assert written(redis_url, namespace) == []
            assert client.route("none").code == 17
        front_end.kill(signal.SIGTERM)
        assert front_end.process.returncode == 0
    entries = written(redis_url, namespace)
    assert totals(entries) == ({"topic1": 2, "topic2": 1}, {"none": 3})
    assert {name: set(hosts) for entry in entries for name, hosts in entry.clients.items()} == {"none": {"127.0.0.1"}}
    assert {entry.front_end for entry in entries} == {front_end.front_end}
    assert all(0 <= entry.ms - entry.since_ms < 60_000 for entry in entries)
    assert not any(entry.found and not any(entry.found.values()) for entry in entries), "no lookup is no entry"


def count(counts, times=1):
    for _ in range(times):
        counts.found("t")
        counts.missing("m")


async def test_an_outage_loses_nothing_and_doubles_nothing(runner):
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder), extra=NO_FSYNC) as server:
        async with Store(server.url, "n", timeout_ms=300) as store:
            await store.connect()
            counts = LookupCounts()
            one = LookupJournal(counts, StreamStore(store), "fe", "w", interval_s=10)
            count(counts, 5)
            await one.write()
            server.kill()
            for _ in range(3):
                count(counts, 10)
                with pytest.raises(StoreUnavailable):
                    await one.write()
            server.start()
            count(counts)
            await one.write()
            await one.write()
            entries = written(server.url, "n")
            assert totals(entries) == ({"t": 36}, {"m": 36})
            assert [entry.found["t"] for entry in entries] == [5, 10, 21]


async def test_a_report_whose_answer_was_lost_is_not_counted_twice(store, monkeypatch):
    counts = LookupCounts()
    one = LookupJournal(counts, StreamStore(store), "fe", "w", interval_s=10)
    call = StreamStore.write_lookups

    async def answer_lost(*arguments):
        await call(*arguments)
        raise StoreUnavailable("no answer in time")

    with monkeypatch.context() as patch:
        patch.setattr(StreamStore, "write_lookups", answer_lost)
        for _ in range(3):
            count(counts)
            with pytest.raises(StoreUnavailable):
                await one.write()
    await one.close()
    assert totals(written(store.url, store.namespace)) == ({"t": 3}, {"m": 3})


async def test_what_is_kept_for_an_outage_is_bounded_and_still_counts_all(store):
    counts = LookupCounts(max_topics=10, max_missing=5)
    one = LookupJournal(counts, StreamStore(store), "fe", "w", interval_s=10)
    for number in range(30):
        counts.found(f"t{number}")
        counts.missing(f"m{number}")
    await one.write()
    found, missing = totals(written(store.url, store.namespace))
    assert (len(found), found[OTHERS], sum(found.values())) == (11, 20, 30)
    assert (len(missing), missing[OTHERS], sum(missing.values())) == (6, 25, 30)


async def test_a_last_report_that_redis_does_not_take_is_said(caplog):
    async with Store("unix:///nonexistent/redis.sock", "n", timeout_ms=100) as store:
        counts = LookupCounts()
        count(counts)
        await LookupJournal(counts, StreamStore(store), "fe", "w", interval_s=10).close()
    assert "the last lookup counts of this worker are lost" in caplog.text
