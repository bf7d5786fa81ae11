"""Right answers are taken for right, and every other kind is found out."""

from __future__ import annotations

import zlib

import msgspec
import pytest

from bench.load.plan import COUNTER, CheckedAnswer
from bench.load.shapes import CHANGED, GROWTH, PERM, S1, S2, Variant, clusters
from mqregistry.model import BrokerRow, QueueData, TopicRoute
from mqregistry.protocol.bodies.route import encode_route
from mqregistry.protocol.headers import RegisterBroker
from tests.protocol.at_once import decode_register_body

SMALL = clusters("small", "", 2, 2, 5, ten_by=1, all_by=1)
OTHER_ROW = BrokerRow("cluster-00", {0: "10.9.9.9:10911"})


def route(number, shape=SMALL, more=0):
    read, write = shape.queue_numbers(number)
    owners = shape.owners[number]
    return TopicRoute(
        {broker.name: QueueData(read + more, write, PERM, 0) for broker in owners},
        {broker.name: BrokerRow(broker.cluster, {0: broker.addr}) for broker in owners},
        {},
    )


def answer(one, **options):
    return CheckedAnswer(0, encode_route(one, **{"quoted_keys": True, **options}))


@pytest.mark.parametrize("options", [{}, {"quoted_keys": False}, {"topic_syn_flag": True}])
@pytest.mark.parametrize("shape", [SMALL, S1])
def test_right_answers_of_any_version_are_right(shape, options):
    for number in range(len(shape.topics)):
        assert shape.wrongs(number, answer(route(number, shape), **options)) == ""


def test_no_topics_answer_passes_for_another():
    for number in range(len(SMALL.topics)):
        passing = [other for other in range(len(SMALL.topics)) if not SMALL.wrongs(number, answer(route(other)))]
        assert passing == [number]


@pytest.mark.parametrize("shape", [S1, S2, GROWTH[-1]], ids=lambda shape: shape.name)
def test_queue_numbers_belong_to_one_topic_each(shape):
    assert len({shape.queue_numbers(number) for number in range(len(shape.topics))}) == len(shape.topics)
    assert all(read <= CHANGED for read, _ in map(shape.queue_numbers, range(len(shape.topics))))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (CheckedAnswer(17, b""), "code 17"),
        (CheckedAnswer(0, b""), "bad route"),
        (CheckedAnswer(0, answer(route(1)).body[:-9]), "bad route"),
        (answer(msgspec.structs.replace(route(1), broker_rows={"broker-00-0": OTHER_ROW})), "brokers"),
        (answer(msgspec.structs.replace(route(1), queue_datas={})), "queues"),
        (answer(route(1, more=CHANGED)), "queues"),
    ],
)
def test_wrong_answers_are_found(wrong, said):
    assert said in SMALL.wrongs(1, wrong)


def test_changed_queues_are_right_only_while_they_change():
    assert SMALL.wrongs(1, answer(route(1, more=CHANGED)), may_change=True) == ""
    assert SMALL.wrongs(1, answer(route(1, more=7)), may_change=True) != ""


def test_variants_change_what_they_say():
    base, one, ten, everything, leave = SMALL.commands(0)
    bodies = [
        decode_register_body(command.body, compressed=False, version=479) for command in (base, one, ten, everything)
    ]
    changed = [
        sum(body.topics[name] != config for name, config in bodies[Variant.BASE].topics.items()) for body in bodies
    ]
    assert changed == [0, 1, 5, 5]
    assert {body.data_version.counter for body in bodies} == {COUNTER}
    assert RegisterBroker.from_ext_fields(base.ext_fields).broker_name == "broker-00-0"
    assert (base.code, leave.code, leave.ext_fields["brokerId"]) == (103, 104, "0")
    assert SMALL.commands(1)[Variant.ALL] is None
    assert zlib.crc32(base.body) != zlib.crc32(one.body)


def test_s2_is_as_large_as_real_registrations():
    command = S2.registration(S2.brokers[0], Variant.BASE)
    assert 1_600_000 < len(command.body) < 1_800_000
