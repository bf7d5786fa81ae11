"""Bodies that are read in chunks give the same as bodies that are read whole, or are refused."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from mqregistry.errors import RemoteProtocolError
from mqregistry.model import QueueData
from mqregistry.protocol.bodies import register_chunks
from mqregistry.protocol.bodies.register import encode_register_body
from mqregistry.protocol.bodies.register_chunks import CHUNK_BYTES, TopicChunk, cut_body
from mqregistry.protocol.bodies.register_content import RegisterBody
from mqregistry.protocol.slices import finish
from tests.protocol.at_once import decode_register_body

Cells = dict[str, QueueData]
Topic = tuple[str, tuple[int, int, int, int], int]

# names that look like something else, too
NAMES = st.sampled_from(
    ["a", "b", "c", "d", "e", "f", "order", "topicName", "attributes", "%RETRY%g", "null", "5", "perm",
     'q"', "b\\", "}", '},"a":{"', "é", "topicConfigTable", "topicQueueMappingInfoMap", "{", ","]
)  # fmt: skip
PLAIN = st.sampled_from([f"topic-{number}" for number in range(30)])
NUMBERS = st.tuples(*[st.sampled_from([0, 1, 4, 16, 1000, -(2**31)])] * 4)
JAVA, FORMS = 0, 12  # forms above JAVA: what no Java broker writes, or hardly ever


def entry(topic: Topic, five: bool) -> str:
    """One member of the topic table."""
    name, (read, write, perm, flag), form = topic
    value: dict[str, Any] = {"attributes": {}} if five else {}
    value |= {
        "order": False, "perm": perm, "readQueueNums": read, "topicFilterType": "SINGLE_TAG", "topicName": name,
        "topicSysFlag": flag, "writeQueueNums": write,
    }  # fmt: skip
    separators = (",", ":")
    key = name
    if form == 1:
        value = dict(reversed(value.items()))
    elif form == 2:
        separators = (" , ", " : ")
    elif form == 3:
        value["attributes"] = {"+x": '},"a":{"', "+y": "}}"}
    elif form == 4:
        value["more"] = {"a": {"topicName": "a"}, "b": [{}, {}]}
    elif form == 5:
        del value["perm"], value["topicSysFlag"]
    elif form == 6:
        value["topicName"] = "another"
    elif form == 7:
        value["topicName"] = None
    elif form == 8:
        value["perm"] = str(perm)
    elif form == 9:
        key = "another"
    elif form == 10:
        value["readQueueNums"] = None
    elif form == 11:
        value["attributes"] = {"topicConfigTable": {"a": {"perm": 1}}}
    return json.dumps(key) + ":" + json.dumps(value, separators=separators)


def text(topics: list[Topic], counter: int, rest: int, five: bool) -> bytes:
    """A whole body. rest: what stands round the table; 0 is as Java writes it."""
    table = "{" + ",".join(entry(topic, five) for topic in topics) + "}"
    version = f'"dataVersion":{{"counter":{counter},"stateVersion":0,"timestamp":7}}'
    mapping = '"T":{"bname":"b","currIdMap":{0:3,1:4},"dirty":false,"epoch":7,"topic":"T","totalQueues":2}'
    tail = ',"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}' if five else ""
    filters = '"filterServerList":[],'
    if rest == 1:
        tail = ',"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{' + mapping + "}"
    elif rest == 2:
        filters = '"filterServerList":["f:1"],'
    elif rest == 3:
        filters = '"filterServerList":["]",\n"],\\"topicConfigSerializeWrapper\\":{"],'
    elif rest == 4:
        tail = ',"topicConfigTable":{"a":{"topicName":"a","perm":1}}'
    elif rest == 5:
        tail = ',"\\u0074opicConfigTable":{"a":{"topicName":"a","perm":1}}'
    elif rest == 6:
        version = '"topicConfigTable":{"a":{"topicName":"a"}},' + version
    elif rest == 7:
        version = '"mappingDataVersion":{"counter":1},' + version
    elif rest == 8:
        filters = ""
    elif rest == 9:
        version = '"x":{' + version + '},"y":1'
    elif rest == 11:
        tail = ',"topicConfigTable":{}'
    elif rest == 12:
        tail = ',"\\u0074opicConfigTable":{}'
    body = f'{{{filters}"topicConfigSerializeWrapper":{{{version},"topicConfigTable":{table}{tail}}}}}'
    if rest == 10:
        body = body[:-1] + ',"topicConfigSerializeWrapper":{"topicConfigTable":{"a":{"topicName":"a"}}}}'
    return body.encode()


topics = st.one_of(
    st.tuples(PLAIN, NUMBERS, st.just(JAVA)),
    st.tuples(PLAIN, NUMBERS, st.just(JAVA)),
    st.tuples(PLAIN, NUMBERS, st.just(JAVA)),
    st.tuples(NAMES | PLAIN, NUMBERS, st.integers(0, FORMS - 1)),
)
tables = st.one_of(
    st.lists(st.tuples(PLAIN, NUMBERS, st.just(JAVA)), min_size=1, max_size=30, unique_by=lambda topic: topic[0]),
    st.lists(topics, max_size=20),
)
rests = st.just(0) | st.just(0) | st.integers(0, 12)


@st.composite
def edited(draw: st.DrawFn, table: list[Topic]) -> list[Topic]:
    """The table some time later: changed, added, dropped, moved, said twice."""
    table = list(table)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, max(0, len(table) - 1)))
        kind = draw(st.sampled_from(["change", "change", "change", "add", "drop", "move", "twice", "weird"]))
        if kind == "add" or not table:
            table.insert(place, draw(topics))
        elif kind == "change":
            table[place] = (table[place][0], draw(NUMBERS), table[place][2])
        elif kind == "drop":
            del table[place]
        elif kind == "move":
            table.insert(draw(st.integers(0, len(table) - 1)), table.pop(place))
        elif kind == "twice":
            table.insert(draw(st.integers(0, len(table))), (table[place][0], draw(NUMBERS), table[place][2]))
        else:
            table[place] = draw(topics)
    return table


def whole(body: bytes) -> RegisterBody | None:
    try:
        return decode_register_body(body, compressed=False, version=479, now_ms=99)
    except RemoteProtocolError:
        return None


def stored(cells: Cells, body: RegisterBody) -> Cells:
    return cells | body.topics


def rest_of(body: RegisterBody) -> Any:
    return body.data_version, body.mappings, body.filter_servers


Read = tuple[RegisterBody, tuple[TopicChunk, ...]]


def read_all(body: bytes, chunk_bytes: int, known: dict[bytes, TopicChunk] | None = None) -> Read | None:
    """The whole body and its chunks; None when it cannot be read in chunks."""
    known = {} if known is None else known
    cut = cut_body(body, known, now_ms=99, chunk_bytes=chunk_bytes)
    found = finish(cut.reading_all(known)) if cut else None
    return None if cut is None or found is None else (found, cut.chunks)


def read_changes(
    body: bytes,
    last: tuple[TopicChunk, ...],
    topic_names: set[str],
    chunk_bytes: int = 1000,
    known: dict[bytes, TopicChunk] | None = None,
) -> Read | None:
    """The same of a body that is compared with the last one."""
    known = {chunk.digest: chunk for chunk in last} if known is None else known
    cut = cut_body(body, known, now_ms=99, chunk_bytes=chunk_bytes)
    found = finish(cut.reading_changes(last, topic_names, known)) if cut else None
    return None if cut is None or found is None else (found, cut.chunks)


def size(chunks: tuple[TopicChunk, ...]) -> int:
    return sum(chunk.size for chunk in chunks)


def check_whole(body: bytes, chunk_bytes: int) -> Read | None:
    read = read_all(body, chunk_bytes)
    if read is not None:
        found, chunks = read
        expected = whole(body)
        assert expected is not None
        assert found == expected
        assert list(found.topics) == list(expected.topics)
        assert size(chunks) == len(expected.topics)
    return read


@settings(max_examples=400)
@given(st.data(), tables, rests, st.booleans(), st.sampled_from([1, 100, 250, 2500]))
def test_changed_chunks_and_the_last_body_give_the_same_as_the_whole_body(
    data: st.DataObject, table: list[Topic], rest: int, five: bool, chunk_bytes: int
) -> None:
    read = check_whole(text(table, 1, rest, five), chunk_bytes)
    if read is None:
        return
    body_read, chunks = read
    known = {chunk.digest: chunk for chunk in chunks}
    cells = stored({"stale": QueueData(1, 1, 6), "topic-29": QueueData(9, 9, 9)}, body_read)
    for counter in (2, 3, 4):
        table = data.draw(edited(table))
        body = text(table, counter, data.draw(st.just(rest) | rests), data.draw(st.just(five) | st.booleans()))
        if data.draw(st.integers(0, 9)) == 0:
            at = data.draw(st.integers(0, len(body) - 1))
            body = body[:at] + data.draw(st.sampled_from([b"", b'"', b"}", b"\\", b",", b"{", b" "])) + body[at + 1 :]
        check_whole(body, chunk_bytes)
        for one, other in data.draw(st.lists(st.tuples(*[st.sampled_from(list(known.values()))] * 2), max_size=3)):
            one.precedes(other)  # as another broker's body may have said
        changes = read_changes(body, chunks, set(cells), chunk_bytes, known)
        event("whole" if changes is None else f"changes of {min(3, len(changes[0].topics))}")
        if changes is None:
            continue  # the last body still says what the tables hold
        expected = whole(body)
        assert expected is not None
        assert rest_of(changes[0]) == rest_of(expected)
        assert stored(cells, changes[0]) == stored(cells, expected)
        assert size(changes[1]) == len(expected.topics)
        cells, chunks = stored(cells, expected), changes[1]


@settings(max_examples=400)
@given(st.data(), tables, rests, st.booleans(), st.sampled_from([1, 100, 250, 2500]))
def test_chunks_that_another_body_had_give_the_same_as_decoding_them(
    data: st.DataObject, table: list[Topic], rest: int, five: bool, chunk_bytes: int
) -> None:
    known: dict[bytes, TopicChunk] = {}
    if read_all(text(table, 1, rest, five), chunk_bytes, known) is None:
        return
    for counter in (2, 3):
        body = text(data.draw(edited(table)), counter, data.draw(st.just(rest) | rests), five)
        if data.draw(st.integers(0, 9)) == 0:
            at = data.draw(st.integers(0, len(body) - 1))
            body = body[:at] + data.draw(st.sampled_from([b"", b'"', b"}", b"\\", b",", b"{", b" "])) + body[at + 1 :]
        for chunk in data.draw(st.lists(st.sampled_from(list(known.values())), max_size=2)):
            chunk.topics = None  # forgotten, while a last body still has the chunk
        read = read_all(body, chunk_bytes, known)
        event("refused" if read is None else "read")
        if read is None:
            continue
        found, chunks = read
        assert found == whole(body)
        topics = [item for chunk in chunks for item in (chunk.topics or {}).items()]
        assert topics == list(found.topics.items())


JAVA_TABLE: list[Topic] = [(f"topic-{number}", (4, 4, 6, 0), JAVA) for number in range(200)]
JAVA_NAMES = {topic[0] for topic in JAVA_TABLE}


def read_java() -> Read:
    read = read_all(text(JAVA_TABLE, 1, 0, True), 1000)
    assert read is not None
    return read


@pytest.mark.parametrize("five", [False, True])
@pytest.mark.parametrize("rest", [0, 1, 2, 8])
def test_what_java_writes_is_read_in_chunks(five: bool, rest: int) -> None:
    read = check_whole(text(JAVA_TABLE, 1, rest, five), 1000)
    assert read is not None
    chunks = read[1]
    assert len(chunks) > 10
    same = read_changes(text(JAVA_TABLE, 2, rest, five), chunks, JAVA_NAMES)
    assert same is not None
    assert same[0].topics == {}
    assert same[0].data_version.counter == 2
    assert same[1] == chunks


@pytest.mark.parametrize("places", [[0], [199], [100], [0, 199], [3, 50, 51, 120, 199], range(20, 60), range(40, 200)])
def test_changed_topics_are_decoded_with_their_neighbours(places: list[int]) -> None:
    chunks = read_java()[1]
    table = list(JAVA_TABLE)
    for place in places:
        table[place] = (table[place][0], (1000, 4, 6, 0), JAVA)
    changes = read_changes(text(table, 2, 0, True), chunks, JAVA_NAMES)
    assert changes is not None
    decoded = changes[0].topics.keys()
    assert {table[place][0] for place in places} <= decoded
    assert len(decoded) <= 20 * len(places)
    assert size(changes[1]) == 200
    back = read_changes(text(JAVA_TABLE, 3, 0, True), changes[1], JAVA_NAMES)
    assert back is not None
    assert {table[place][0] for place in places} <= back[0].topics.keys()
    assert back[0].topics.keys() == decoded
    assert [chunk.digest for chunk in back[1]] == [chunk.digest for chunk in chunks]


def same_in_each_run(text: str | bytes) -> int:
    """A hash that does not depend on the process: bodies are cut at the same places in each run."""
    return zlib.adler32(hashlib.md5(text if isinstance(text, bytes) else text.encode()).digest())


@pytest.mark.parametrize("place", [0, 1, 77, 2001, 3999])
def test_behind_a_change_a_body_is_cut_as_the_last_one(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what no longer is as it was is searched for a topic to cut at."""
    monkeypatch.setattr(register_chunks, "hash", same_in_each_run, raising=False)
    before = [(f"topic-{number}", (4, 4, 6, 0), JAVA) for number in range(4000)]
    known: dict[bytes, TopicChunk] = {}
    assert read_all(text(before, 1, 0, True), 4000, known) is not None
    searched: list[int] = []
    chunk_end = register_chunks._chunk_end

    def counted(*args: Any) -> int:
        searched.append(args[1])
        return chunk_end(*args)

    monkeypatch.setattr(register_chunks, "_chunk_end", counted)
    changed = [*before[:place], (before[place][0], (1000, 4, 6, 0), JAVA), *before[place + 1 :]]
    fewer = [*before[:place], *before[place + 1 :]]
    more = [*before[:place], *((f"new-{number}", (1, 1, 6, 0), JAVA) for number in range(60)), *before[place:]]
    for table, most in ((before, 1), (changed, 3), (fewer, 8), (more, 12)):
        searched.clear()
        cut = cut_body(text(table, 2, 0, True), known, chunk_bytes=4000)
        assert cut is not None
        assert 1 <= len(searched) <= most  # the first one always
        assert len(table) <= cut.count_objects() <= 2 * len(table) + 6  # attributes are an object, too
        whole_body = finish(cut.reading_all({}))
        assert whole_body is not None
        assert whole_body.topics.keys() == {name for name, _, _ in table}


def test_a_body_of_which_nothing_is_as_it_was_is_read_whole() -> None:
    table = [(name, (1000, 4, 6, 0), JAVA) for name, _, _ in JAVA_TABLE]
    assert read_changes(text(table, 2, 0, True), read_java()[1], JAVA_NAMES) is None


@pytest.mark.parametrize("place", [0, 77, 200])
def test_a_new_topic_is_decoded_with_its_neighbours(place: int) -> None:
    chunks = read_java()[1]
    table = [*JAVA_TABLE[:place], ("new", (1, 1, 6, 0), JAVA), *JAVA_TABLE[place:]]
    changes = read_changes(text(table, 2, 0, True), chunks, JAVA_NAMES)
    assert changes is not None
    assert "new" in changes[0].topics
    assert size(changes[1]) == 201


def test_a_topic_that_stands_there_twice_is_read_whole() -> None:
    chunks = read_java()[1]
    for place in (0, 100, 200):
        table = [*JAVA_TABLE[:place], ("topic-150", (1, 1, 6, 0), JAVA), *JAVA_TABLE[place:]]
        body = text(table, 2, 0, True)
        changes = read_changes(body, chunks, JAVA_NAMES)
        expected = whole(body)
        assert expected is not None
        assert changes is None or stored({}, changes[0])["topic-150"] == stored({}, expected)["topic-150"]


def test_missing_topics_change_nothing_and_are_noticed_when_they_come_again() -> None:
    chunks = read_java()[1]
    first = size(chunks[:5])
    for table in (JAVA_TABLE[1:], JAVA_TABLE[:-1], JAVA_TABLE[: first - 1], JAVA_TABLE[5:195]):
        changes = read_changes(text(table, 2, 0, True), chunks, JAVA_NAMES)
        if changes is not None:  # a whole chunk is gone, and nothing of what is left says anything else
            assert changes[0].topics == {}
            assert size(changes[1]) == len(table)
            again = read_changes(text(JAVA_TABLE, 3, 0, True), changes[1], JAVA_NAMES)
            assert again is None or JAVA_NAMES - {topic[0] for topic in table} <= again[0].topics.keys()
    fewer = read_changes(text(JAVA_TABLE[:first], 2, 0, True), chunks, JAVA_NAMES)
    assert fewer is not None
    assert fewer[0].topics == {}
    assert size(fewer[1]) == first
    assert read_changes(text(JAVA_TABLE, 3, 0, True), fewer[1], JAVA_NAMES) is None


@pytest.mark.parametrize("place", [0, 1, 77, 2001, 4000])
def test_a_broker_with_a_topic_of_its_own_has_nearly_all_chunks_of_the_others(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where bodies are cut does not depend on what comes before: behind a difference they are cut as without it."""

    monkeypatch.setattr(register_chunks, "hash", same_in_each_run, raising=False)
    table = [(f"topic-{number}", (4, 4, 6, 0), JAVA) for number in range(4000)]

    def with_own(name: str) -> bytes:
        own: Topic = (name, (1, 1, 7, 0), JAVA)
        return text([*table[:place], own, *table[place:]], 1, 0, True)

    known: dict[bytes, TopicChunk] = {}
    first = read_all(with_own("broker-a"), 4000, known)
    assert first is not None
    assert len(first[1]) > 100
    for body in (with_own("broker-b"), with_own("a-broker-with-a-longer-name"), text(table, 1, 0, True)):
        read = read_all(body, 4000, known)
        assert read is not None
        assert read[0] == whole(body)
        assert len(set(read[1]) - set(first[1])) <= 20


def test_a_body_that_has_nothing_in_common_is_read_right() -> None:
    known: dict[bytes, TopicChunk] = {}
    read_all(text(JAVA_TABLE, 1, 0, True), 1000, known)
    body = text([("other-" + name, numbers, form) for name, numbers, form in JAVA_TABLE], 1, 0, True)
    read = read_all(body, 1000, known)
    assert read is not None
    assert read[0] == whole(body)


def test_no_chunk_has_more_topics_than_an_event_holds() -> None:
    """Names that never end a chunk before its greatest length, as short as a broker may write them."""
    table = [(f"{number}", (1, 1, 1, 0), JAVA) for number in range(9000)]
    body = text(table, 1, 0, False).replace(b'"order":false,', b"").replace(b'"topicFilterType":"SINGLE_TAG",', b"")
    read = read_all(body, CHUNK_BYTES)
    assert read is not None
    assert read[0] == whole(body)
    assert 100 < max(chunk.size for chunk in read[1]) <= 500


def test_our_own_bodies_are_read_in_chunks() -> None:
    body = decode_register_body(text(JAVA_TABLE, 1, 1, True), compressed=False, version=479)
    for version in (479, 373):
        assert check_whole(encode_register_body(body, version=version), 1000) is not None
