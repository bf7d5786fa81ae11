"""How much CPU time each step of a lookup and of a registration takes in a worker: ``python -m bench hotpath``.

There is no socket and no Redis: a connection object gets the request of a 5.x client, as from the event loop, and its
transport discards what it sends. Each step is timed by itself; its time is the least CPU time of many repetitions, so a
busy machine disturbs little. The whole takes longer than its steps: the rest are the calls between them.
"""

from __future__ import annotations

import argparse
import asyncio
import time
import timeit
import zlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from bench.load.plan import lookup
from bench.load.shapes import PERM, S2, VERSION, Variant
from mqregistry.config.settings import Settings
from mqregistry.model import BrokerRow, QueueData
from mqregistry.protocol.bodies.crc32 import check_crc32
from mqregistry.protocol.bodies.register_chunks import TopicChunk, cut_body
from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import decode_command, encode_command
from mqregistry.protocol.frame import FrameReader
from mqregistry.protocol.headers import RegisterBroker
from mqregistry.protocol.registration import cut, decoding, digest_of, sender_of
from mqregistry.protocol.slices import finish
from mqregistry.server.counting.counters import Counters
from mqregistry.server.net.connection import ServerConnection
from mqregistry.server.net.connections import ConnectionLimits, Connections
from mqregistry.server.requests.context import RequestContext
from mqregistry.server.requests.lookup_cache import LookupCache
from mqregistry.server.view.freshness import Freshness
from mqregistry.server.view.view import View
from mqregistry.tables.registration import compare
from mqregistry.tables.tables import Tables

TOPIC = "topic-00-00001"
WIDTH = 8
PIECE_BYTES = 256 << 10  # the most that uvloop reads at once


class Bin:
    """A transport that discards everything written to it."""

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def write(self, data: bytes) -> None:
        pass

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        pass


def filled_view(topics: Sequence[str] = (TOPIC,)) -> View:
    """A view with these topics on eight brokers."""
    view = View()
    for place in range(WIDTH):
        name = f"broker-00-{place}"
        view.tables.brokers[name] = BrokerRow("cluster-00", {0: f"10.1.0.{place + 1}:10911"})
        for topic in topics:
            view.tables.set_queue_data(topic, name, QueueData(2, 1, PERM, 0))
    view.freshness = Freshness.FRESH
    return view


def connection(view: View) -> ServerConnection:
    """A connection of a worker with this view, with every answer encoded already, and without Redis."""
    nothing: Any = SimpleNamespace()
    channels: Any = SimpleNamespace(new_channel=object, closed=lambda connection: None)
    front_end = RequestContext(Settings(), view, nothing, nothing, channels, Counters(), nothing)
    for topic in view.tables.topics:
        assert front_end.answers.kept_route(topic, quoted_keys=True)
    one = ServerConnection(Connections(front_end, ConnectionLimits()))
    one.connection_made(Bin())  # type: ignore[arg-type]
    return one


def nanoseconds(step: Callable[[], object], repeat: int, number: int = 2_000) -> float:
    """The least CPU time of one call, in nanoseconds."""
    return min(timeit.repeat(step, timer=time.process_time, number=number, repeat=repeat)) / number * 1e9


def known_steps(repeat: int, topics: int) -> list[tuple[str, float]]:
    """Name and nanoseconds of each step of a repeated lookup, which needs no decoding; the whole comes last."""
    names = [f"topic-00-{number:05d}" for number in range(topics)]
    view = filled_view(names)
    one = connection(view)
    known = one._connections.known
    frames = [lookup(name, VERSION) for name in names]
    for frame in frames * 3:
        one.data_received(frame)
    assert len(known) == topics
    data = frames[0]
    front, _, rest = data.rpartition(b'"opaque":')
    digits, _, back = rest.partition(b",")
    key = b"\0".join((front[8:], back))
    kept = known._newer[key]
    body = kept.body
    assert body is not None
    pieces = (data[:80], digits, known._suffix, body)

    def split() -> bytes:
        front, _, rest = data.rpartition(b'"opaque":')
        _, _, back = rest.partition(b",")
        return b"\0".join((front[8:], back))

    def count() -> None:
        kept.asked += 1

    def all_of_them() -> None:
        for frame in frames:
            one.data_received(frame)

    steps: dict[str, Callable[[], object]] = {
        "whole frame, split at the opaque": split,
        # a slice is a new object, whose hash is not known yet
        "look up: slice, hash, dict": lambda: known._newer.get(key[1:]),
        "count": count,
        "join head, opaque, suffix, body": lambda: b"".join(pieces),
        "**known: LookupCache.answer**": lambda: known.answer(data, one.asked.note),
        "**the whole: Connection.data_received**": lambda: one.data_received(data),
    }
    timed = [(name, nanoseconds(step, repeat)) for name, step in steps.items()]
    in_turn = nanoseconds(all_of_them, max(1, repeat // 10), number=1) / topics
    return [*timed, (f"**the same, {topics:,} topics in turn** (memory)", in_turn)]


def lookup_steps(repeat: int) -> list[tuple[str, float]]:
    """Name and nanoseconds of each step of a lookup that has to be decoded; the whole comes last."""
    view = filled_view()
    one = connection(view)
    one._connections.known.learn = lambda frame, command: None  # type: ignore[method-assign]
    learn = LookupCache(one._context).learn
    front_end, handler = one._context, one._connections.answering.reads[RequestCode.GET_ROUTEINFO_BY_TOPIC]
    data = lookup(TOPIC, VERSION)
    reader = FrameReader()
    (frame,) = reader.feed(data)
    command = decode_command(frame)
    answers = front_end.answers
    kept = answers.kept_route(TOPIC, quoted_keys=True)
    assert command is not None
    assert kept is not None
    body = kept.body
    assert body is not None
    success = front_end.replies.success
    made = [success.reply(1, body)]
    steps: dict[str, Callable[[], object]] = {
        "known? LookupCache.answer, in vain": lambda: one._connections.known.answer(data, one.asked.note),
        "split: FrameReader.feed": lambda: reader.feed(data),
        "decode: decode_command": lambda: decode_command(frame),
        "look up: RouteAnswers.kept_route": lambda: answers.kept_route(TOPIC, quoted_keys=True),
        "reply: ReplyTemplate.reply": lambda: success.reply(1, body),
        "the handler of 105: look up, reply, counters": lambda: handler(front_end, command, 1),
        "learn: LookupCache.learn (the second time)": lambda: learn(frame, command),
        "send: Connection._send, into the void": lambda: one._send(made),
        "an empty call (the timer's own)": lambda: None,
        "**the whole: Connection.data_received**": lambda: one.data_received(data),
    }
    return [(name, nanoseconds(step, repeat)) for name, step in steps.items()]


def registration_steps(repeat: int) -> list[tuple[str, float]]:
    """Name and nanoseconds of each step of a registration of 10,000 topics in the worker, read in pieces."""
    frame = encode_command(S2.registration(S2.brokers[0], Variant.BASE))
    pieces = [frame[at : at + PIECE_BYTES] for at in range(0, len(frame), PIECE_BYTES)]

    def split() -> list[bytes]:
        reader = FrameReader()
        return [whole for piece in pieces for whole in reader.feed(piece)]

    (whole,) = split()
    command = decode_command(whole)
    assert command is not None
    header = RegisterBroker.from_ext_fields(command.ext_fields)
    sender, chunked = sender_of(header), cut(header, command, {})
    assert chunked is not None
    known: dict[bytes, TopicChunk] = {}
    registration = finish(decoding(sender, header, command, chunked, known, mappings=True))
    chunks = chunked.chunks
    changed = S2.registration(S2.brokers[0], Variant.TEN).body
    tables = Tables()
    tables.set_queue_datas("broker-00-0", registration.topics)
    tables.brokers["broker-00-0"] = BrokerRow("cluster-00", {0: "10.1.0.1:10911"})
    names = tables.broker_topics["broker-00-0"]

    def decode_changes() -> None:
        cut_again = cut_body(changed, known)
        assert cut_again is not None
        assert finish(cut_again.reading_changes(chunks, names, {}))

    steps: dict[str, Callable[[], object]] = {
        f"split: FrameReader.feed, pieces of {PIECE_BYTES >> 10} KiB": split,
        "decode: decode_command (copies the body)": lambda: decode_command(whole),
        "digest: digest_of": lambda: digest_of(command),
        "changed only: check_crc32": lambda: check_crc32(command.body, zlib.crc32(command.body) & 0x7FFFFFFF),
        "changed only: decode what differs, ten topics": decode_changes,
        "changed only: decode all, when that does not do": lambda: finish(
            decoding(sender, header, command, cut(header, command, {}), {}, mappings=True)
        ),
        "changed only: compare all with the view": lambda: compare(registration, None, tables),
    }
    return [(name, nanoseconds(step, max(3, repeat // 5), number=3)) for name, step in steps.items()]


async def measured(repeat: int, topics: int = 40_000) -> list[list[tuple[str, float]]]:
    """The three tables; a coroutine, because connections need a running event loop."""
    return [known_steps(repeat, topics), lookup_steps(repeat), registration_steps(repeat)]


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=100, help="the more, the less a busy machine shows")
    known, lookups, registrations = asyncio.run(measured(parser.parse_args().repeat))
    for what, steps in (("a known lookup", known), ("a lookup that goes the long way", lookups)):
        print(f"| {what} | ns |\n| --- | --- |")
        for name, ns in steps:
            print(f"| {name} | {ns:,.0f} |")
        print()
    print("| a registration of 10,000 topics | ms |\n| --- | --- |")
    for name, ns in registrations:
        print(f"| {name} | {ns / 1e6:.2f} |")
    return 0


if __name__ == "__main__":
    main()
