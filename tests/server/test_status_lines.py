"""What a worker tells its supervisor comes as whole lines, however long they are and however late they are read."""

from __future__ import annotations

import json
import os

import pytest

from mqregistry.server.process.pipes import LineWriter


@pytest.fixture
def pipe():
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    os.set_blocking(write_fd, False)
    yield read_fd, write_fd
    os.close(read_fd)
    os.close(write_fd)


def line(number: int, size: int) -> bytes:
    return json.dumps({"number": number, "text": "x" * size}).encode()


@pytest.mark.parametrize("size", [10, 4090, 5000, 40_000])
def test_a_reader_that_pauses_gets_whole_lines_and_the_newest_ones_again(pipe, size):
    read_fd, write_fd = pipe
    writer, text, written = LineWriter(write_fd), b"", 0
    for _ in range(5):
        for _ in range(100_000 // size + 10):  # more than a pipe holds
            written += 1
            writer.write(line(written, size))
        while True:
            try:
                text += os.read(read_fd, 3000)
            except BlockingIOError:
                break
    writer.write(line(0, size))  # finds room
    text += os.read(read_fd, 1 << 20)
    *whole, rest = text.split(b"\n")
    numbers = [json.loads(one)["number"] for one in whole]
    assert rest == b""
    assert numbers[-1] == 0
    assert len(set(numbers)) == len(numbers) < written + 1
    assert numbers[:-1] == sorted(numbers[:-1])


def test_a_reader_that_is_gone_ends_nothing():
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    os.close(read_fd)
    try:
        LineWriter(write_fd).write(b"{}")
    finally:
        os.close(write_fd)
