"""Random writers, readers, silences and trims against a plain list: nothing needed goes, nothing grows for ever.

HYPOTHESIS_PROFILE=long HYPOTHESIS_EXAMPLES=300 pytest tests/store/test_streams_random.py   runs it for long.
"""

from __future__ import annotations

import asyncio
import secrets

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from mqregistry.events import journal
from mqregistry.store import keys
from mqregistry.store.store import Store
from mqregistry.store.streams import StreamLimits, StreamStore

from .bed import acknowledge

TIMEOUT_MS = 3_600_000
AGE_MS = 10 * TIMEOUT_MS
NODE = 100
READERS = st.sampled_from(["a", "b"])

# As emit writes them, many at once.
FILL = """
local at = tonumber(ARGV[3])
for i = 1, tonumber(ARGV[1]) do
  local seq = tonumber(ARGV[2]) + i
  local event = '{"seq":' .. seq .. ',"pad":"' .. string.rep("x", tonumber(ARGV[4])) .. '"'
  at = at + #event
  redis.call("XADD", KEYS[1], "*", "e", event .. ',"at":' .. at .. "}")
end
redis.call("HSET", KEYS[2], "seq", tonumber(ARGV[2]) + tonumber(ARGV[1]), "changes_bytes", at)
return at
"""


class RetentionMachine(RuleBasedStateMachine):
    """One stream, two readers; ``kept`` is what must be there, from the model's point of view."""

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.run = self.runner.run
        self.store = Store(self.url, secrets.token_hex(6), timeout_ms=30_000)
        self.run(self.store.init_namespace())
        self.streams = StreamStore(self.store)
        self.key, self.meta = keys.changes(self.store.namespace), keys.meta(self.store.namespace)
        self.ids: list[str] = []  # of every entry there ever was
        self.gone = 0  # so many of them were trimmed
        self.bytes = 0
        self.now_ms = self.written_ms = 0
        self.positions: dict[str, int] = {}  # entries acknowledged
        self.seen_ms: dict[str, int] = {}
        self.told: dict[str, set[str]] = {"a": set(), "b": set()}

    def teardown(self) -> None:
        names = self.run(self.store.client.keys(keys.prefix(self.store.namespace) + "*"))
        self.run(self.store.client.delete(*names))
        self.run(self.store.close())
        self.runner.close()

    @initialize(entries=st.sampled_from([200, 500]), percent=st.sampled_from([100, 200, 400]), size=st.booleans())
    def choose_limits(self, entries: int, percent: int, size: bool) -> None:
        size_bytes = entries * 300 if size else 0
        self.limits = StreamLimits(AGE_MS, entries, size_bytes, entries * percent // 100, size_bytes * percent // 100)

    @rule(count=st.sampled_from([1, 50, 150, 400, 400]), pad=st.sampled_from([10, 10, 1000]))
    def write(self, count: int, pad: int) -> None:
        client = self.store.client
        seq = int(self.run(client.hget(self.meta, "seq")))
        self.bytes = self.run(client.eval(FILL, 2, self.key, self.meta, count, seq, self.bytes, pad))
        self.written_ms = self.now_ms
        self.ids += [entry_id.decode() for entry_id, _ in self.run(client.xrange(self.key))][-count:]

    @rule(reader=READERS, part=st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    def acknowledge(self, reader: str, part: float) -> None:
        """Some of what it has not acknowledged and can still read; at first, perhaps, nothing yet."""
        at = max(self.positions.get(reader, 0), self.gone)
        upto = at + round(part * (len(self.ids) - at))
        if upto == 0:
            entry_id = "0-0"
        else:
            entry_id = self.ids[upto - 1]
            if upto <= self.gone:
                return  # a reader that begins anew takes what is there
        self.run(acknowledge(self.streams, reader, {"changes": entry_id}))
        self.positions[reader] = max(upto, self.positions.get(reader, 0))
        self.seen_ms[reader] = self.now_ms
        self.told[reader].discard("silent")

    @precondition(lambda self: self.positions)
    @rule(reader=READERS)
    def say_nothing_new(self, reader: str) -> None:
        if reader in self.positions:
            self.run(acknowledge(self.streams, reader, {}))
            self.seen_ms[reader] = self.now_ms
            self.told[reader].discard("silent")

    @rule(hours=st.sampled_from([0.4, 0.9, 3, 12]))
    def time_passes(self, hours: float) -> None:
        ms = int(hours * TIMEOUT_MS)
        self.run(self.store.client.hincrby(self.meta, "clock_offset_ms", ms))
        self.now_ms += ms

    def runs(self, reader: str) -> bool:
        return self.now_ms - self.seen_ms[reader] < TIMEOUT_MS - 60_000

    @precondition(lambda self: len(self.ids) > self.gone)
    @rule(most=st.sampled_from([300, 5000]))
    def trim(self, most: int) -> None:
        limits = dict.fromkeys(journal.STREAMS, self.limits)
        alarms, before, before_bytes = [], len(self.ids) - self.gone, self.size()
        for _ in range(100):
            done = self.run(self.streams.trim(limits, reader_timeout_ms=TIMEOUT_MS, most=most))
            assert done.removed <= most
            alarms += done.alarms
            # An alarm is an entry, too, and the next call may remove it: its id is of a clock that no test moves.
            told = self.run(self.store.client.xrevrange(self.key, count=len(done.alarms))) if done.alarms else []
            self.ids += [entry_id.decode() for entry_id, _ in reversed(told)]
            if not done.more:
                break
        else:
            raise AssertionError("no end of trimming")
        left = [entry_id.decode() for entry_id, _ in self.run(self.store.client.xrange(self.key))]
        self.bytes = int(self.run(self.store.client.hget(self.meta, "changes_bytes")) or 0)
        assert left == self.ids[len(self.ids) - len(left) :], "the oldest go, and nothing else"
        old, self.gone = self.gone, len(self.ids) - len(left)
        self.check_limits(len(left), before, before_bytes, old)
        self.check_alarms([(alarm.kind, alarm.reader) for alarm in alarms], old)

    def size(self) -> int:
        return sum(len(fields[b"e"]) for _, fields in self.run(self.store.client.xrange(self.key)))

    def check_limits(self, left: int, before: int, before_bytes: int, old: int) -> None:
        limits, held = self.limits, [at for reader, at in self.positions.items() if self.runs(reader)]
        assert left <= limits.hard_entries + NODE + 2
        if limits.hard_bytes:
            assert self.size() <= limits.hard_bytes * 1.1 + NODE * 300 + 1100
        if not held:
            assert left <= limits.entries + NODE + 2
            if self.now_ms >= self.written_ms + 2 * AGE_MS:
                assert left <= NODE + 2
        elif self.gone > max(old, min(held) - 1):
            # what a running reader needs, or stands at, went now: only because a hard limit was passed
            assert before > limits.hard_entries or (limits.hard_bytes and before_bytes > 0.9 * limits.hard_bytes)
            if not limits.hard_bytes:
                assert left >= limits.hard_entries

    def check_alarms(self, alarms: list[tuple[str, str]], gone_before: int) -> None:
        assert len(alarms) == len(set(alarms)), "each is told once"
        for reader, at in self.positions.items():
            if self.now_ms - self.seen_ms[reader] > TIMEOUT_MS + 60_000 and "silent" not in self.told[reader]:
                assert ("silent", reader) in alarms
                self.told[reader].add("silent")
            if gone_before < at <= self.gone and at > 0:
                assert ("lost", reader) in alarms, "the entry that it stands at is gone"
            if ("lost", reader) in alarms:
                assert at <= self.gone or at == 0


@pytest.mark.timeout(0)
def test_retention_behaves_as_a_list(redis_url):
    long = hypothesis.settings.get_current_profile_name() == "long"
    run_state_machine_as_test(
        type("RetentionMachine", (RetentionMachine,), {"url": redis_url}),
        settings=None if long else hypothesis.settings(max_examples=30, stateful_step_count=20, deadline=None),
    )
