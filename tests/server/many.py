"""Many signed connections in one thread: each sends the same request again and again, and notes every answer."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

from mqregistry.auth.signature import sign
from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader

CLOSED = -1
"""The code of an answer that never came: the front end hung up, and the peer connects again."""


class Answer(NamedTuple):
    """What came of one request."""

    sent_s: float
    code: int
    remark: str


class Peer:
    """Sends one request over one connection, every ``period_s`` or when the answer has come.

    secret_key: what it signs with from its next request on. answers: all so far.
    """

    def __init__(
        self, port: int, access_key: str, secret_key: str, code: int, ext: dict[str, str], body: bytes = b"",
        *, period_s: float = 0.4,
    ) -> None:  # fmt: skip
        self.port, self.access_key, self.secret_key, self.period_s = port, access_key, secret_key, period_s
        self.answers: list[Answer] = []
        self._code, self._ext, self._body = code, ext, body
        self._opaque = itertools.count(1)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    await self._ask_for_ever(reader, writer)
                finally:
                    writer.close()
            except OSError as error:
                self.answers.append(Answer(time.monotonic(), CLOSED, str(error)))
                await asyncio.sleep(0.05)

    async def _ask_for_ever(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader()
        while True:
            sent_s = time.monotonic()
            writer.write(self._frame())
            found: list[bytes] = []
            while not found:
                data = await reader.read(1 << 16)
                if not data:
                    raise OSError("the front end hung up")
                found = list(frames.feed(data))
            reply = decode_command(found[0])
            self.answers.append(Answer(sent_s, reply.code, reply.remark or ""))
            await asyncio.sleep(max(0.0, sent_s + self.period_s - time.monotonic()))

    def _frame(self) -> bytes:
        fields = {**self._ext, "AccessKey": self.access_key}
        fields["Signature"] = sign(self.secret_key, fields, self._body)
        return encode_command(
            Command(code=self._code, opaque=next(self._opaque), version=479, ext_fields=fields, body=self._body)
        )


class Many:
    """Runs peers in a thread for the length of a block; their first requests are spread over a period."""

    def __init__(self, peers: Iterable[Peer]) -> None:
        self.peers = list(peers)
        self._end = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> Many:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    async def _run(self) -> None:
        async def begin(number: int, peer: Peer) -> None:
            await asyncio.sleep(peer.period_s * number / len(self.peers))
            await peer.run()

        tasks = [asyncio.create_task(begin(number, peer)) for number, peer in enumerate(self.peers)]
        await asyncio.to_thread(self._end.wait)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
