"""What the source does when the stream is not what it was: each gap is an error that names both sides. No Spark."""

import itertools
import re

import pytest

from mqregistry.errors import StoreError, StoreUnavailable
from mqregistry.pipeline.lake.schema import BRONZE
from mqregistry.pipeline.redis_stream.ranges import OLDEST, UNKNOWN, EntryId, Position
from mqregistry.pipeline.redis_stream.stream import GapError, Login, OtherPast
from mqregistry.store import keys

from .streams import EPOCH, START_MS, Bed


@pytest.fixture
def stream(bed):
    stream = bed.stream()
    yield stream
    stream.close()


def position(seq, ms=None):
    return Position(EntryId(START_MS + 10 * seq, (seq - 1) % 5_000), seq)


def seqs_of(pages):
    return list(itertools.chain.from_iterable(page.seqs for page in pages))


def check(stream, start, epoch=EPOCH):
    stream.check(start, epoch, stream.head())


def test_ranges_hold_every_change_once_and_are_about_even(bed, stream):
    bed.changes(20_000)
    end = stream.last()
    assert end == Position(end.id, 20_000)
    ends = stream.cut(Position(OLDEST, 0), end, 4, 1)
    assert [at.seq for at in ends] == pytest.approx([5_000, 10_000, 15_000, 20_000], abs=300)
    starts = [Position(OLDEST, 0), *ends[:-1]]
    pages = [list(stream.read(a, b, EPOCH)) for a, b in zip(starts, ends, strict=True)]
    assert seqs_of(itertools.chain(*pages)) == list(range(1, 20_001))
    assert {page.batch.schema for part in pages for page in part} == {BRONZE["changes"]}


def test_heartbeats_are_cut_about_evenly_though_nothing_numbers_them(bed):
    moments = [START_MS + i for i in range(6_000)] + [START_MS + 10**8 + 50 * i for i in range(6_000)]
    bed.add(*map(bed.heartbeat, moments), stream="heartbeats")
    stream = bed.stream("heartbeats")
    ends = stream.cut(Position(OLDEST), stream.last(), 4, 1)
    counts = [len(bed.client.xrange(bed.key("heartbeats"), "-", str(at.id))) for at in ends]
    assert counts == pytest.approx([3_000, 6_000, 9_000, 12_000], abs=1_200)
    rows = [list(stream.read(a, b, EPOCH)) for a, b in zip([Position(OLDEST), *ends[:-1]], ends, strict=True)]
    assert sum(page.batch.num_rows for part in rows for page in part) == 12_000
    stream.close()


@pytest.mark.parametrize("limit", [1, 7, 500, 4_999, 6_000])
def test_a_batch_is_never_more_than_its_limit(bed, stream, limit):
    bed.changes(5_000)
    end = stream.after(Position(OLDEST, 0), limit, stream.last())
    assert 0 < end.seq <= limit
    assert end.seq >= min(limit, 5_000) - limit // 20 - 1


def test_a_limit_within_one_millisecond_gets_on_past_what_cannot_be_read(bed, stream):
    bed.add(*[bed.change(ms=START_MS) for _ in range(3)])
    bed.seq += 5  # five changes that cannot be read
    bed.add(*[{"e": b"{"}] * 5, ids=[f"{START_MS}-{n}" for n in range(3, 8)])
    bed.add(*[bed.change(ms=START_MS) for _ in range(3)], ids=[f"{START_MS}-{n}" for n in range(8, 11)])
    at, ids = Position(OLDEST, 0), []
    while at.id < stream.last().id:
        end = stream.after(at, 1, stream.last())
        assert end.id > at.id
        ids += [n for page in stream.read(at, end, EPOCH) for n in page.batch["id_n"].to_pylist()]
        at = end
    assert ids == list(range(11))


def test_trimmed_ahead_of_the_reader_names_both_ids_and_the_number_lost(bed, stream):
    bed.changes(100)
    check(stream, position(50))
    bed.client.xtrim(bed.key(), minid=str(position(61).id), approximate=False)
    with pytest.raises(GapError) as caught:
        check(stream, position(50))
    text = str(caught.value)
    assert f"read up to {position(50).id} (change 50)" in text
    assert f"begins at {position(61).id} (change 61), so 10 changes" in text
    assert "mqregistry pipeline run" in text
    check(stream, position(60))  # exactly what was read is gone: nothing is lost
    check(stream, position(61))


def test_heartbeats_trimmed_ahead_of_the_reader(bed):
    bed.add(
        *[bed.heartbeat(START_MS + i) for i in range(10)], stream="heartbeats", ids=[f"{i}-0" for i in range(1, 11)]
    )
    stream = bed.stream("heartbeats")
    bed.client.xtrim(bed.key("heartbeats"), minid="5-0", approximate=False)
    check(stream, Position(EntryId(5, 0)))
    with pytest.raises(GapError, match="was read up to 3-0 and now begins at 5-0"):
        check(stream, Position(EntryId(3, 0)))
    bed.client.xtrim(bed.key("heartbeats"), maxlen=0, approximate=False)
    check(stream, Position(EntryId(10, 0)))
    with pytest.raises(GapError, match="was read up to 9-0 and now is empty after 10-0"):
        check(stream, Position(EntryId(9, 0)))
    stream.close()


@pytest.mark.parametrize("name", ["changes", "heartbeats"])
def test_trimmed_while_it_is_read(bed, name, monkeypatch):
    monkeypatch.setattr("mqregistry.pipeline.redis_stream.stream._FIRST_PAGE", 10)
    values = [bed.change() for _ in range(100)]
    bed.add(*(values if name == "changes" else [bed.heartbeat(START_MS + 10 * i) for i in range(1, 101)]), stream=name)
    stream = bed.stream(name)
    end = stream.last()
    pages = stream.read(Position(OLDEST, 0 if name == "changes" else UNKNOWN), end, EPOCH, stream.head().first_id)
    next(pages)
    bed.client.xtrim(bed.key(name), maxlen=20, approximate=False)
    with pytest.raises(GapError, match=r"without 11 to 80|trimmed ahead"):
        list(pages)
    stream.close()


def test_the_oldest_entry_trimmed_between_planning_and_reading(bed, stream):
    bed.changes(100)
    first, end = stream.head().first_id, stream.last()
    bed.client.xtrim(bed.key(), maxlen=20, approximate=False)
    with pytest.raises(GapError, match=f"{first} is not there"):
        list(stream.read(Position(OLDEST), end, EPOCH, first))


def test_a_change_removed_from_the_middle_is_found(bed, stream):
    bed.changes(100)
    bed.client.xdel(bed.key(), str(position(42).id))
    with pytest.raises(GapError, match=r"without 42 to 42.*is change 43, the one before is 41"):
        list(stream.read(Position(OLDEST, 0), stream.last(), EPOCH))


def test_the_last_entry_of_a_range_removed_is_found(bed):
    bed.add(*[bed.heartbeat(START_MS + i) for i in range(10)], stream="heartbeats")
    stream = bed.stream("heartbeats")
    end = stream.last()
    bed.client.xdel(bed.key("heartbeats"), str(end.id))
    with pytest.raises(GapError, match=f"from {OLDEST} to {end.id}"):
        list(stream.read(Position(OLDEST), end, EPOCH))
    stream.close()


def test_a_deleted_stream(bed, stream):
    bed.changes(10)
    bed.client.delete(bed.key())
    check(stream, position(10))  # nothing that was not read
    with pytest.raises(GapError, match=r"is gone: it was deleted after \S+ \(change 9\)"):
        check(stream, position(9))


def test_another_epoch_names_both(bed, stream):
    bed.changes(10)
    bed.client.hset(keys.meta(bed.namespace), "epoch", "e2")
    with pytest.raises(GapError, match=r"its epoch is e2, the pipeline was reading epoch e1 up to \S+ \(change 5\)"):
        check(stream, position(5))
    with pytest.raises(GapError, match="its epoch is e2"):
        list(stream.read(Position(OLDEST, 0), stream.last(), EPOCH))


def test_redis_came_back_with_an_earlier_state(bed, stream):
    bed.changes(10)
    with pytest.raises(GapError, match=r"ends at \S+, before \S+ \(change 12\).*earlier state"):
        check(stream, position(12))
    # and wrote on since: the next change is not the next number
    bed.add(bed.change(ms=START_MS + 10_000))
    with pytest.raises(GapError, match="is change 11, the one before is 12"):
        list(stream.read(position(12), stream.last(), EPOCH))


def test_redis_came_back_with_an_earlier_state_and_a_clock_behind(bed, stream):
    """The next changes are numbered on as if nothing had happened; but the last one read is not there."""
    bed.changes(7)
    bed.add(*[bed.change(ms=START_MS + 75 + i) for i in range(6)])
    bed.add(bed.change(ms=START_MS + 200))
    lost = Position(EntryId(START_MS + 100, 9), 10)  # change 10 as it was read is another one
    with pytest.raises(OtherPast, match=r"has change 13 at \S+, and was read up to \S+ \(change 10\)"):
        check(stream, lost)


def test_no_namespace_and_an_unknown_schema_say_so(bed, stream):
    bed.client.hset(keys.meta(bed.namespace), "schema", 9)
    with pytest.raises(StoreError, match="has schema version 9"):
        stream.head()
    bed.client.delete(keys.meta(bed.namespace))
    with pytest.raises(GapError, match=r"there is no namespace .*came back empty"):
        stream.head()


def test_redis_away_is_said_without_the_password(namespace, tmp_path):
    stream = Bed.stream(type("At", (), {"url": "", "namespace": namespace})(), url="redis://u:secret@127.0.0.1:1")
    with pytest.raises(StoreUnavailable, match=r"from redis://\*\*\*@127.0.0.1:1: Redis is away") as caught:
        stream.head()
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(Login("redis://127.0.0.1:1", "secret"))


UNREADABLE = {
    "no JSON": ({"e": b"{nonsense"}, "malformed|invalid|JSON"),
    "not an event": ({"e": b'{"seq":"x","ms":1,"type":"kv_put","kv_namespace":"n"}'}, r"Expected `int`"),
    "no UTF-8": ({"e": b'{"seq":1,"ms":1,"type":"kv_put","kv_namespace":"n","value":"\xff"}'}, "utf-8|UTF-8"),
    "too large a number": ({"e": b'{"seq":9300000000000000000,"ms":1,"type":"kv_put","kv_namespace":"n"}'}, "int"),
    "other fields": ({"x": b"1", "y": b"\x00"}, "one field e"),
    "unknown type": ({"e": b'{"seq":4,"ms":1,"type":"table_flipped"}'}, "table_flipped"),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_entry_that_cannot_be_read_comes_with_its_bytes_and_is_no_hole(bed, stream, kind):
    fields, reason = UNREADABLE[kind]
    bed.changes(3)
    bed.seq += 1  # it stands in place of change 4
    bed.add(fields, ids=[f"{START_MS + 35}-0"])
    last = stream.last()
    assert last == Position(EntryId(START_MS + 35, 0), 3, 1)
    bed.changes(3)
    pages = list(stream.read(Position(OLDEST, 0), stream.last(), EPOCH))
    assert seqs_of(pages) == [1, 2, 3, UNKNOWN, 5, 6, 7]
    assert seqs_of(stream.read(last, stream.last(), EPOCH)) == [5, 6, 7]
    row = pages[0].batch.slice(3, 1).to_pylist()[0]
    assert re.search(reason, row["reason"])
    assert (row["id_ms"], row["id_n"]) == (START_MS + 35, 0)
    assert row["raw"] == fields.get("e", b'["eA==","MQ==","eQ==","AA=="]')
    assert [r["reason"] for r in pages[0].batch.to_pylist() if r["seq"] is not None] == [None] * 6


def test_a_type_that_may_be_passed_over_is_kept_as_it_is(bed, stream):
    bed.changes(1)
    bed.add(bed.change(type="moon_phase", ignorable=True))
    (page,) = stream.read(Position(OLDEST, 0), stream.last(), EPOCH)
    assert page.batch["type"].to_pylist() == ["kv_put", "moon_phase"]
    assert page.batch["reason"].null_count == 2
