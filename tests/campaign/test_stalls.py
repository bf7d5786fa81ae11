"""What the machine does to a round is seen: a Redis that has no processor for a while."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from mqregistry.embedded import EmbeddedRedis

from .stalls import UNANSWERED_S, Stalls


async def test_a_redis_that_does_not_answer_is_a_window_also_while_it_lasts(tmp_path):
    stalls = Stalls()
    timeline = stalls.timeline
    began = time.monotonic()
    with EmbeddedRedis(tmp_path) as server:
        watch = asyncio.create_task(stalls.watch_redis(server.socket_path))
        try:
            await asyncio.sleep(0.3)
            assert timeline.is_quiet(began, time.monotonic())
            os.kill(server.pid, signal.SIGSTOP)
            stopped = time.monotonic()
            try:
                async with asyncio.timeout(10):
                    while timeline.is_quiet(began, time.monotonic(), ("redis",)):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                assert time.monotonic() - stopped > UNANSWERED_S
                await asyncio.sleep(0.2)
                now = time.monotonic()
                assert not timeline.is_quiet(now - 0.05, now)  # it goes on
            finally:
                os.kill(server.pid, signal.SIGCONT)
            async with asyncio.timeout(10):
                while not stalls.stalled_s:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            over = time.monotonic()
            assert timeline.is_quiet(over, over + 1)
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
