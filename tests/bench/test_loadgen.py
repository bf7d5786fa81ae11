"""The generator against servers that answer right, wrong, late or not at all."""

from __future__ import annotations

import zlib
from random import Random

import msgspec
import pytest

from bench.load import plan
from bench.load.tool import LoadFailed
from mqregistry.model import DataVersion, QueueData
from mqregistry.protocol.bodies.crc32 import check_crc32
from mqregistry.protocol.bodies.register import encode_register_body
from mqregistry.protocol.bodies.register_content import RegisterBody
from mqregistry.protocol.command import Command
from tests.bench.conftest import TOPICS
from tests.bench.scripted import right
from tests.protocol.at_once import decode_register_body

SHORT = {"connections": 2, "inflight": 2, "seconds": 60, "asks": 500, "sample": 1}


def one_right(command):
    return [right(command)]


def changed(command, **fields):
    return [msgspec.structs.replace(right(command), **fields)]


def test_once_asks_everything_and_keeps_the_answers(load, tmp_path):
    server, generator = load(one_right)
    assert generator.once(tmp_path / "bodies").lookups.codes == {"0": len(TOPICS)}
    assert sorted(command.ext_fields["topic"] for command in server.received) == sorted(TOPICS)
    assert plan.read_answers(tmp_path / "bodies") == [plan.CheckedAnswer(0, topic.encode()) for topic in TOPICS]


def test_closed_loop_counts_what_the_server_answered(load):
    server, generator = load(one_right)
    generator.once()
    before = len(server.received)
    result = generator.run(**SHORT)
    lookups = result.lookups
    assert lookups.codes == {"0": lookups.answered}
    assert lookups.wrong == 0
    assert lookups.sampled == lookups.answered == lookups.asked == 500
    assert len(server.received) - before == 500
    assert sum(second[0] for second in result.series) == lookups.latency.count == 500


def test_closed_loop_ends_when_its_time_is_over(load):
    server, generator = load(one_right)
    result = generator.run(connections=2, inflight=2, seconds=0.05)
    # what was still on its way at the end, at most one a slot
    assert result.lookups.answered <= result.lookups.asked <= result.lookups.answered + 4
    assert len(server.received) <= result.lookups.asked


def test_answer_of_another_topic_is_found_wrong(load, tmp_path):
    asked = []

    def mixes_up(command):
        asked.append(command)
        topic = command.ext_fields["topic"]
        # right while everything is asked once, then one topic gets the answer of another
        return (
            changed(command, body=b"topic-4") if topic == "topic-3" and len(asked) > len(TOPICS) else one_right(command)
        )

    _, generator = load(mixes_up)
    generator.once()
    result = generator.run(**SHORT, wrong=tmp_path / "wrong")
    wrong = plan.read_wrong(tmp_path / "wrong")
    assert len(wrong) == result.lookups.wrong > 0
    assert set(wrong) == {(3, plan.CheckedAnswer(0, b"topic-4"))}


def test_code_other_than_0_is_counted_and_shown(load, tmp_path):
    _, generator = load(lambda command: changed(command, code=17, remark="no such topic"))
    result = generator.run(**{**SHORT, "sample": 0}, wrong=tmp_path / "wrong")
    assert result.lookups.codes == {"17": result.lookups.answered}
    assert result.lookups.wrong == result.lookups.answered
    kept = plan.read_wrong(tmp_path / "wrong")
    assert len(kept) == result.lookups.wrong == 500
    assert {answer.code for _, answer in kept} == {17}
    assert "no such topic" in result.lookups.remark


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        (lambda command: changed(command, opaque=command.opaque + 1), "wrong opaque, or answered twice"),
        (lambda command: [right(command), right(command)], "wrong opaque, or answered twice"),
        (lambda command: None, "hung up|reset"),
    ],
    ids=["another opaque", "twice", "hangs up"],
)
def test_server_that_breaks_the_protocol_ends_the_run(load, answers, error):
    _, generator = load(answers)
    with pytest.raises(LoadFailed, match=error):
        generator.run(**SHORT)


def test_silent_server_is_an_error_not_a_zero(load):
    _, generator = load(lambda command: [])
    with pytest.raises(LoadFailed, match="nothing was answered"):
        generator.run(connections=1, seconds=60, stall_s=0.1)


def test_open_loop_omits_nothing_while_the_server_stalls(load):
    """It answers nothing before request 200 is there: request k, due k ms after the start, waited (199 - k) ms."""
    rate, held = 1000, 200
    waiting = []

    def stalls(command):
        waiting.append(right(command))
        if len(waiting) < held:
            return []
        answers, waiting[:] = list(waiting), [None] * held
        return [answer for answer in answers if answer is not None]

    server, generator = load(stalls)
    result = generator.run(connections=1, rate=rate, seconds=0.4, drain_s=20)
    latency = result.lookups.latency
    assert len(server.received) == result.lookups.asked == result.lookups.answered == latency.count == 400
    assert latency.max_ns >= 199e6
    assert latency.percentile_ns(75) >= 99e6  # of 400, 101 waited 99 ms and longer
    # A closed loop sees the same stall as one slow answer for each of its slots, however long it was.


def test_open_loop_counts_answers_that_never_come(load):
    _, generator = load(lambda command: one_right(command) if command.ext_fields["topic"] != "topic-7" else [])
    result = generator.run(connections=2, rate=1000, seconds=0.3, drain_s=0.2)
    lookups = result.lookups
    assert lookups.lost == lookups.asked - lookups.answered > 0
    assert lookups.latency.count == lookups.asked == 300
    assert lookups.latency.max_ns >= 0.2e9


def test_zeros_matrix_joins_checksums():
    random = Random(3)
    for length in (0, 1, 2, 255, 1000, 65_537):
        head, tail = random.randbytes(50), random.randbytes(length)
        matrix = plan.zeros_matrix(length)
        shifted = 0
        for bit in range(32):
            shifted ^= matrix[bit] * (zlib.crc32(head) >> bit & 1)
        assert shifted ^ zlib.crc32(tail) == zlib.crc32(head + tail)


def test_growing_registrations_have_the_next_version_and_its_checksum(load, tmp_path):
    body = encode_register_body(
        RegisterBody(data_version=DataVersion(plan.COUNTER, 1, 0), topics={"t": QueueData(4, 4, 6)})
    )
    command = Command(code=103, opaque=plan.OPAQUE, version=479, ext_fields={"bodyCrc32": "0000000000"}, body=body)
    other = msgspec.structs.replace(command, body=body.replace(b'"perm":6', b'"perm":4'))
    plan.write_registrations(tmp_path / "registrations", [[command, other, None]] * 2, count=2, variants=3)
    server, generator = load(one_right, tmp_path / "registrations")

    result = generator.run(reg_parallel=2, reg_each=4, reg_a=0, reg_b=1)
    assert result.registrations.codes == {"0": 8}
    generator.run(reg_parallel=1, reg_each=2, reg_a=0, reg_b=0, reg_keep=1)
    with pytest.raises(LoadFailed, match="no such variant"):
        generator.run(reg_parallel=1, reg_each=1, reg_a=2, reg_b=2)

    seen = {}
    for number, request in enumerate(server.received):
        assert check_crc32(request.body, int(request.ext_fields["bodyCrc32"]))
        registered = decode_register_body(request.body, compressed=False, version=479)
        key = "kept" if number >= 8 else registered.topics["t"].perm
        seen.setdefault(key, []).append(registered.data_version.counter - plan.COUNTER)
    assert {k: sorted(v) for k, v in seen.items()} == {
        6: [1, 1, 3, 3],
        4: [2, 2, 4, 4],
        "kept": [4, 4],
    }
