"""FrameReader: any split, every bad length, no quadratic cost."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqregistry.errors import RemoteProtocolError
from mqregistry.protocol.frame import MAX_FRAME_BYTES, FrameReader
from tests.golden import load


def wire(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


REQUESTS = [row["frame"] for row in load("probe-zones--ns-5.3.3")[1] if "code" in row][:6]
FRAMES = [request[4:] for request in REQUESTS]


def feed_in_pieces(reader: FrameReader, stream: bytes, cuts: list[int]) -> list[bytes]:
    frames: list[bytes] = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        frames += reader.feed(stream[start:stop])
    return frames


def test_whole_frames_in_one_read() -> None:
    reader = FrameReader()
    assert reader.feed(b"".join(REQUESTS)) == FRAMES
    assert reader.pending_bytes == 0
    assert reader.feed(b"") == []


def test_two_frames_split_at_every_position() -> None:
    stream = REQUESTS[0] + REQUESTS[1]
    for cut in range(len(stream) + 1):
        reader = FrameReader()
        assert feed_in_pieces(reader, stream, [cut]) == FRAMES[:2]
        assert reader.pending_bytes == 0


def test_byte_by_byte() -> None:
    reader = FrameReader()
    stream = b"".join(REQUESTS)
    assert feed_in_pieces(reader, stream, list(range(1, len(stream)))) == FRAMES


@given(
    st.lists(st.binary(min_size=4, max_size=40), max_size=8),
    st.lists(st.integers(0, 400), max_size=12),
    st.binary(max_size=3),
)
def test_any_frames_in_any_pieces(frames: list[bytes], cuts: list[int], rest: bytes) -> None:
    stream = b"".join(map(wire, frames)) + rest
    reader = FrameReader()
    assert feed_in_pieces(reader, stream, sorted(min(cut, len(stream)) for cut in cuts)) == frames
    assert reader.pending_bytes == len(rest)


def test_pending_bytes_counts_what_is_held() -> None:
    reader = FrameReader()
    assert reader.feed(REQUESTS[0] + REQUESTS[1][:9]) == FRAMES[:1]
    assert reader.pending_bytes == 9


# FACTS section 5: the length words that Java hangs up on, and those it waits for.
@pytest.mark.parametrize("length", [0, 1, 3, -1, -5, 16_777_213, 0x02000000, int.from_bytes(b"GET ", "big")])
@pytest.mark.parametrize("split", [-1, 0, 1, 3, 4, 5])
def test_bad_length_word_sets_the_error_and_keeps_earlier_frames(length: int, split: int) -> None:
    stream = REQUESTS[0] + (length & 0xFFFFFFFF).to_bytes(4, "big") + b"more bytes"
    cut = len(REQUESTS[0]) + split
    reader = FrameReader()
    frames = reader.feed(stream[:cut])
    assert (reader.error is not None) == (split >= 4)  # as soon as the whole word is there
    if reader.error is None:
        frames += reader.feed(stream[cut:])
    assert frames == FRAMES[:1]
    assert reader.error is not None
    assert reader.error.closes
    assert reader.pending_bytes == 0
    with pytest.raises(RemoteProtocolError, match="frame length"):
        reader.feed(REQUESTS[1])


def test_of_a_frame_that_is_too_long_its_beginning_is_kept() -> None:
    for cut in (0, 2, 4):
        reader = FrameReader()
        stream = (16_777_213).to_bytes(4, "big") + b"beginning"
        reader.feed(stream[:cut])
        reader.error or reader.feed(stream[cut:])
        assert reader.too_long == (16_777_213, b"" if cut == 4 else b"beginning")
    reader = FrameReader()
    reader.feed(b"\0\0\0\1more")
    assert reader.too_long is None


def test_a_frame_of_exactly_the_limit_is_waited_for_and_given() -> None:
    reader = FrameReader()
    frame = bytes(MAX_FRAME_BYTES - 4)
    assert reader.feed(wire(frame)[:-1]) == []
    assert reader.error is None
    assert reader.feed(b"\0") == [frame]


def test_a_large_frame_in_pieces_of_every_kind_is_whole() -> None:
    frame = bytes(range(256)) * 1000
    stream = wire(frame) + wire(b"next")
    for sizes in ([3, 5000, 1], [1], [4096], [4095, 4096, 4097], [100_000, 7, 7], [3, 1, 70_000]):
        reader, at, turn, frames = FrameReader(), 0, 0, []
        while at < len(stream):
            size = sizes[turn % len(sizes)]
            before = sum(len(one) + 4 for one in frames)
            frames += reader.feed(stream[at : at + size])
            at, turn = at + size, turn + 1
            assert reader.pending_bytes + sum(len(one) + 4 for one in frames) == min(at, len(stream)) >= before
        assert frames == [frame, b"next"]


def test_single_bytes_are_not_held_one_by_one() -> None:
    reader = FrameReader()
    reader.feed((1 << 20).to_bytes(4, "big"))
    tracemalloc.start()
    for _ in range(100_000):
        reader.feed(b"x")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 300_000


def test_a_large_frame_in_small_pieces_costs_linear_time() -> None:
    stream = wire(bytes(8 * 1024 * 1024))
    reader = FrameReader()
    start = time.thread_time()
    for at in range(0, len(stream), 1024):
        frames = reader.feed(stream[at : at + 1024])
    assert len(frames) == 1
    # 8,192 pieces; copying all that is pending for each would move 34 GB.
    assert time.thread_time() - start < 1.0


@pytest.mark.parametrize("step", [1, 3, 7, 8, 9, 50, 1000])
def test_the_rest_of_a_frame_is_passed_over(step):
    """Its head is given once, when it is whole; nothing of the rest is held, and the next frames are whole."""
    head, after = b"\x00\x00\x00\x05hello", b"\x00\x00\x00\x04next"
    data = (len(head) + 400).to_bytes(4, "big") + head + b"x" * 400 + after + after
    reader, frames, heads = FrameReader(), [], []
    for first in range(0, len(data), step):
        frames += reader.feed(data[first : first + step])
        found = reader.head()
        if found is not None:
            heads.append(found)
            reader.skip()
            assert reader.pending
            assert (reader.pending_bytes, reader.announced_bytes) == (0, 0)
    if step < 400:
        assert heads == [head]
        assert frames == [b"next"] * 2
    assert not reader.pending
