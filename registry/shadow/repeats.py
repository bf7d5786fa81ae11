"""Repeats reads at our name server in the background, compares the answers, and asks again where they differ."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from ..client.addresses import NameServerAddress
from ..client.connection import PeerConnection
from ..client.reconnecting import ReconnectingConnection
from ..compare.answers import ReadRequest, content_of_answer
from ..compare.content import Content
from ..compare.differences import Cell, Difference, differences
from ..compare.judged_differences import Lasted, Lasting, Sort, now_ms
from ..errors import RegistryError
from ..protocol.command import Command
from ..tasks import pause
from .counts import JAVA, OURS, Counts

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 16
_MOST_QUEUED: Final = 1000
_MOST_QUEUED_BYTES: Final = 64 << 20
_LARGE_BYTES: Final = 64 << 10
_AGAIN_S: Final = 1.0
_MOST_AGAIN: Final = 50
_MOST_OPEN: Final = 1000


class _Read(NamedTuple):
    asked: ReadRequest
    request: Command
    answer: Command
    java_s: float


class Repeats:
    """Repeats reads while its ``async with`` lasts; :meth:`offer` never waits.

    When the answers to a read differ, both servers are asked again each second until they agree: perhaps one server got
    a change later. A read that the Java server itself answers differently each time is also noticed in this way.

    Args:
        lasting_ms: a difference counts when it has lasted longer.
        most_per_s: how many reads a second are repeated at most.
        timeout_s: for an answer of either server.
        tls: of the connection to ours; None: plain.
    """

    def __init__(
        self, java: NameServerAddress, ours: NameServerAddress, counts: Counts, *, lasting_ms: int,
        most_per_s: int, timeout_s: float, tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self._counts = counts
        self._most_per_s = most_per_s
        self._timeout_s = timeout_s
        self._java = ReconnectingConnection(java, connect_timeout_s=timeout_s)
        self._ours = ReconnectingConnection(ours, connect_timeout_s=timeout_s, tls=tls)
        self._queue: asyncio.Queue[_Read] = asyncio.Queue(_MOST_QUEUED)
        self._queued_bytes = 0
        self._second, self._in_second = 0, 0
        self._lasting = Lasting(lasting_ms)
        self._open: dict[ReadRequest, Command] = {}
        self._differing: dict[ReadRequest, list[Cell]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.away = ""  # why our server did not answer the last read; empty: it answered

    async def __aenter__(self) -> Self:
        work = [self._repeat() for _ in range(_AT_ONCE)]
        self._tasks = [asyncio.create_task(one) for one in (*work, self._ask_again())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(self._java.close(), self._ours.close())

    def offer(self, asked: ReadRequest, request: Command, answer: Command, java_s: float) -> None:
        """Put a read that the Java server answered into the queue, or skip it when there are too many."""
        second, size = int(time.monotonic()), len(answer.body)
        if second != self._second:
            self._second, self._in_second = second, 0
        if (
            self._in_second >= self._most_per_s or self._queue.full()
            or self._queued_bytes + size > _MOST_QUEUED_BYTES
        ):  # fmt: skip
            self._counts.skipped += 1
            return
        self._in_second += 1
        self._queued_bytes += size
        self._queue.put_nowait(_Read(asked, request, answer, java_s))

    def standing(self) -> Sequence[Lasted]:
        """The present differences, the oldest first."""
        return self._lasting.standing(now_ms())

    async def _repeat(self) -> None:
        while True:
            read = await self._queue.get()
            self._queued_bytes -= len(read.answer.body)
            try:
                await self._repeat_one(read)
            except Exception:  # a defect with one read must not stop the others
                self._counts.failed += 1
                logger.exception("request %s was not compared", read.asked.code)

    async def _repeat_one(self, read: _Read) -> None:
        try:
            connection = await self._ours.connected()
            began_s = time.perf_counter()
            answer = await self._ask(connection, read.request)
        except RegistryError as error:
            self._counts.failed += 1
            self.away = str(error)
            return
        self.away = ""
        self._counts.took[OURS].add(time.perf_counter() - began_s)
        self._counts.took[JAVA].add(read.java_s)
        await self._compare(read.asked, read.request, read.answer, answer, first=True)

    async def _ask(self, server: PeerConnection, request: Command) -> Command:
        return await server.request(
            request.code, request.ext_fields, bytes(request.body), timeout_s=self._timeout_s, version=request.version
        )

    async def _compare(
        self, asked: ReadRequest, request: Command, java: Command, ours: Command, *, first: bool
    ) -> None:
        if len(java.body) + len(ours.body) > _LARGE_BYTES:  # in a thread: meanwhile the loop passes bytes on
            contents, found = await asyncio.to_thread(_compared, asked, java, ours)
        else:
            contents, found = _compared(asked, java, ours)
        self._lasting.look(now_ms(), found, contents, self._differing.pop(asked, ()))
        if found:
            self._differing[asked] = [one.cell for one in found]
        is_open = any(self._lasting.is_open(one.cell) for one in found)
        if not is_open:
            self._open.pop(asked, None)
        elif len(self._open) < _MOST_OPEN:
            self._open[asked] = request
        if first:
            self._counts.repeated[asked.code, "different" if is_open else "meant" if found else "same"] += 1

    async def _ask_again(self) -> None:
        """Each second, repeat at both servers the reads whose answers differed, some of them if there are many."""
        while True:
            await pause(_AGAIN_S)
            for asked, request in list(self._open.items())[:_MOST_AGAIN]:
                try:
                    java, ours = await asyncio.gather(self._java.connected(), self._ours.connected())
                    answers = await asyncio.gather(self._ask(java, request), self._ask(ours, request))
                    self._open.pop(asked, None)  # _compare adds it at the end if the answers still differ
                    await self._compare(asked, request, *answers, first=False)
                except RegistryError:
                    break  # one server is away: differences stay until both can be asked again
                except Exception:  # a defect with one read must not stop the others
                    self._open.pop(asked, None)
                    logger.exception("request %s was not compared again", asked.code)

    def of(self, sort: Sort) -> list[Lasted]:
        """The differences of one sort."""
        return [one for one in self.standing() if one.sort is sort]


def _compared(asked: ReadRequest, java: Command, ours: Command) -> tuple[dict[str, Content], list[Difference]]:
    contents = {
        JAVA: content_of_answer(asked, java, is_java=True), OURS: content_of_answer(asked, ours, is_java=False)
    }  # fmt: skip
    return contents, differences(contents)
