"""Streams for the tests, filled directly with events of the registry's schema."""

import json

import redis

from mqregistry.events.changes import SCHEMA_MAJOR
from mqregistry.pipeline.redis_stream.stream import Login, Stream
from mqregistry.store import keys

EPOCH = "e1"
META = {"epoch": EPOCH, "seq": 0, "n": 0, "config_rev": 0, "schema": SCHEMA_MAJOR, "compat": "5.x"}
START_MS = 1_700_000_000_000


class Bed:
    """A namespace whose streams a test writes itself."""

    def __init__(self, url, namespace):
        self.url, self.namespace = url, namespace
        self.client = redis.Redis.from_url(url)
        self.client.hset(keys.meta(namespace), mapping=META)
        self.seq = 0

    def key(self, stream="changes"):
        return getattr(keys, stream)(self.namespace)

    def change(self, ms=None, **members):
        """The next event; its bytes."""
        self.seq += 1
        ms = START_MS + 10 * self.seq if ms is None else ms
        return json.dumps(
            {"seq": self.seq, "ms": ms, "type": "kv_put", "kv_namespace": "a", "value": "v", **members}
        ).encode()

    def heartbeat(self, ms, who="c1|10.0.0.1:10911"):
        return json.dumps({"ms": ms, "who": who, "front_end": "fe1", "kind": "same", "interval_ms": 1}).encode()

    def add(self, *values, stream="changes", ids=None):
        """Entries with these values of field e; ids default to those of the events' own time."""
        pipeline = self.client.pipeline(transaction=False)
        for i, value in enumerate(values):
            entry_id = ids[i] if ids else f"{json.loads(value)['ms']}-*"
            if entry_id.endswith("-*"):  # Redis 6.2 has no <ms>-*
                entry_id = f"{entry_id[:-2]}-{i}"
            fields = value if isinstance(value, dict) else {"e": value}
            pipeline.xadd(self.key(stream), fields, id=entry_id)
        pipeline.execute()
        self.client.hset(keys.meta(self.namespace), "seq", self.seq)

    def changes(self, count, **members):
        """Add so many changes, ten milliseconds apart."""
        for first in range(0, count, 5_000):
            self.add(*[self.change(key=f"k{i}", **members) for i in range(first, min(first + 5_000, count))])

    def stream(self, name="changes", url=None):
        return Stream(Login(url or self.url), self.namespace, name)
