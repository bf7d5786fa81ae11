"""Bodies read in pieces come to the same as bodies read whole, or are left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from registry.errors import RemoteProtocolError
from registry.model import QueueData
from registry.protocol.bodies import RegisterBody, decode_register_body, encode_register_body
from registry.protocol.register_pieces import Read, read_alike, read_difference, read_whole

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
    return cells | {name: topic.queue_data() for name, topic in body.topics.items()}


def rest_of(body: RegisterBody) -> Any:
    return body.data_version, body.mappings, body.filter_servers


def check_whole(body: bytes, piece_bytes: int) -> Read | None:
    read = read_whole(body, now_ms=99, piece_bytes=piece_bytes)
    if read is not None:
        expected = whole(body)
        assert read.body == expected
        assert list(read.body.topics) == list(expected.topics)
        assert read.topics == len(expected.topics)
    return read


@settings(max_examples=400)
@given(st.data(), tables, rests, st.booleans(), st.sampled_from([1, 200, 500, 5000]))
def test_a_difference_comes_to_the_same_as_the_whole_body(
    data: st.DataObject, table: list[Topic], rest: int, five: bool, piece_bytes: int
) -> None:
    read = check_whole(text(table, 1, rest, five), piece_bytes)
    if read is None:
        return
    cells = stored({"stale": QueueData(1, 1, 6), "topic-29": QueueData(9, 9, 9)}, read.body)
    for counter in (2, 3, 4):
        table = data.draw(edited(table))
        body = text(table, counter, data.draw(st.just(rest) | rests), data.draw(st.just(five) | st.booleans()))
        if data.draw(st.integers(0, 9)) == 0:
            at = data.draw(st.integers(0, len(body) - 1))
            body = body[:at] + data.draw(st.sampled_from([b"", b'"', b"}", b"\\", b",", b"{", b" "])) + body[at + 1 :]
        check_whole(body, piece_bytes)
        difference = read_difference(body, read.pieces, set(cells), now_ms=99, piece_bytes=piece_bytes)
        event("whole" if difference is None else f"difference of {min(3, len(difference.body.topics))}")
        if difference is None:
            continue  # of what stands in the tables, the last body still tells
        expected = whole(body)
        assert expected is not None
        assert rest_of(difference.body) == rest_of(expected)
        assert stored(cells, difference.body) == stored(cells, expected)
        assert difference.topics >= len(expected.topics)
        cells, read = stored(cells, expected), difference


@settings(max_examples=400)
@given(st.data(), tables, rests, st.booleans(), st.sampled_from([1, 200, 500, 5000]))
def test_a_body_much_like_anothers_comes_to_the_same_as_alone(
    data: st.DataObject, table: list[Topic], rest: int, five: bool, piece_bytes: int
) -> None:
    other = read_whole(text(table, 1, rest, five), now_ms=99, by_piece=True, piece_bytes=piece_bytes)
    if other is None:
        return
    for counter in (2, 3):
        body = text(data.draw(edited(table)), counter, data.draw(st.just(rest) | rests), five)
        if data.draw(st.integers(0, 9)) == 0:
            at = data.draw(st.integers(0, len(body) - 1))
            body = body[:at] + data.draw(st.sampled_from([b"", b'"', b"}", b"\\", b",", b"{", b" "])) + body[at + 1 :]
        read = read_alike(body, other, now_ms=99, piece_bytes=piece_bytes)
        event("alone" if read is None else "alike")
        if read is None:
            continue
        assert read.body == whole(body)
        assert read.by_piece is not None
        by_piece = [topics for piece in read.pieces for topics in read.by_piece[piece.digest].items()]
        assert by_piece == list(read.body.topics.items())


JAVA_TABLE: list[Topic] = [(f"topic-{number}", (4, 4, 6, 0), JAVA) for number in range(200)]


@pytest.mark.parametrize("five", [False, True])
@pytest.mark.parametrize("rest", [0, 1, 2, 8])
def test_what_java_writes_is_read_in_pieces(five: bool, rest: int) -> None:
    read = check_whole(text(JAVA_TABLE, 1, rest, five), 1000)
    assert read is not None
    assert len(read.pieces) > 20
    known = {topic[0] for topic in JAVA_TABLE}
    same = read_difference(text(JAVA_TABLE, 2, rest, five), read.pieces, known, piece_bytes=1000)
    assert same is not None
    assert same.body.topics == {}
    assert same.body.data_version.counter == 2
    assert same.pieces == read.pieces


@pytest.mark.parametrize("places", [[0], [199], [100], [0, 199], [3, 50, 51, 120, 199], range(20, 60), range(40, 200)])
def test_changed_topics_are_decoded_with_their_neighbours(places: list[int]) -> None:
    read = read_whole(text(JAVA_TABLE, 1, 0, True), piece_bytes=1000)
    assert read is not None
    table = list(JAVA_TABLE)
    for place in places:
        table[place] = (table[place][0], (1000, 4, 6, 0), JAVA)
    known = {topic[0] for topic in table}
    difference = read_difference(text(table, 2, 0, True), read.pieces, known, piece_bytes=1000)
    assert difference is not None
    assert {table[place][0] for place in places} <= difference.body.topics.keys()
    assert len(difference.body.topics) <= 10 * len(places)
    assert difference.topics == 200
    back = read_difference(text(JAVA_TABLE, 3, 0, True), difference.pieces, known, piece_bytes=1000)
    assert back is not None
    assert {table[place][0] for place in places} <= back.body.topics.keys()


def test_a_body_of_which_nothing_is_as_it_was_is_read_whole() -> None:
    read = read_whole(text(JAVA_TABLE, 1, 0, True), piece_bytes=1000)
    assert read is not None
    table = [(name, (1000, 4, 6, 0), JAVA) for name, _, _ in JAVA_TABLE]
    known = {topic[0] for topic in table}
    assert read_difference(text(table, 2, 0, True), read.pieces, known, piece_bytes=1000) is None


@pytest.mark.parametrize("place", [0, 77, 200])
def test_a_new_topic_is_a_difference(place: int) -> None:
    read = read_whole(text(JAVA_TABLE, 1, 0, True), piece_bytes=1000)
    assert read is not None
    table = [*JAVA_TABLE[:place], ("new", (1, 1, 6, 0), JAVA), *JAVA_TABLE[place:]]
    known = {topic[0] for topic in JAVA_TABLE}
    difference = read_difference(text(table, 2, 0, True), read.pieces, known, piece_bytes=1000)
    assert difference is not None
    assert "new" in difference.body.topics
    assert len(difference.body.topics) < 20
    assert difference.topics == 201


def test_a_topic_that_stands_there_twice_is_read_whole() -> None:
    read = read_whole(text(JAVA_TABLE, 1, 0, True), piece_bytes=1000)
    assert read is not None
    known = {topic[0] for topic in JAVA_TABLE}
    for place in (0, 100, 200):
        table = [*JAVA_TABLE[:place], ("topic-150", (1, 1, 6, 0), JAVA), *JAVA_TABLE[place:]]
        body = text(table, 2, 0, True)
        difference = read_difference(body, read.pieces, known, piece_bytes=1000)
        assert difference is None or stored({}, difference.body)["topic-150"] == stored({}, whole(body))["topic-150"]


def test_missing_topics_change_nothing_and_are_noticed_when_they_come_again() -> None:
    read = read_whole(text(JAVA_TABLE, 1, 0, True), piece_bytes=1000)
    assert read is not None
    known = {topic[0] for topic in JAVA_TABLE}
    first = sum(piece.topics for piece in read.pieces[:10])
    for table in (JAVA_TABLE[1:], JAVA_TABLE[:-1], JAVA_TABLE[: first - 1], JAVA_TABLE[5:195]):
        assert read_difference(text(table, 2, 0, True), read.pieces, known, piece_bytes=1000) is None
    fewer = read_difference(text(JAVA_TABLE[:first], 2, 0, True), read.pieces, known, piece_bytes=1000)
    assert fewer is not None
    assert fewer.body.topics == {}
    assert fewer.topics == first
    assert read_difference(text(JAVA_TABLE, 3, 0, True), fewer.pieces, known, piece_bytes=1000) is None


@pytest.mark.parametrize("place", [0, 1, 77, 199, 200])
def test_a_broker_with_a_topic_of_its_own_is_decoded_only_there(place: int) -> None:
    def with_own(name: str) -> bytes:
        own: Topic = (name, (1, 1, 7, 0), JAVA)
        return text([*JAVA_TABLE[:place], own, *JAVA_TABLE[place:]], 1, 0, True)

    first = read_whole(with_own("broker-a"), by_piece=True, piece_bytes=1000)
    assert first is not None
    assert first.by_piece is not None
    for body in (with_own("broker-b"), with_own("a-broker-with-a-longer-name"), text(JAVA_TABLE, 1, 0, True)):
        read = read_alike(body, first, piece_bytes=1000)
        assert read is not None
        assert read.body == whole(body)
        assert len(set(read.pieces) - set(first.pieces)) <= 2


def test_a_body_that_has_nothing_in_common_is_read_right() -> None:
    first = read_whole(text(JAVA_TABLE, 1, 0, True), by_piece=True, piece_bytes=1000)
    assert first is not None
    body = text([("other-" + name, numbers, form) for name, numbers, form in JAVA_TABLE], 1, 0, True)
    read = read_alike(body, first, piece_bytes=1000)
    assert read is None or read.body == whole(body)


def test_our_own_bodies_are_read_in_pieces() -> None:
    body = decode_register_body(text(JAVA_TABLE, 1, 1, True), compressed=False, version=479)
    for version in (479, 373):
        assert check_whole(encode_register_body(body, version=version), 1000) is not None
