"""What the machine does to a round is seen: a Redis that has no processor for a while."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from mqregistry.embedded import EmbeddedRedis
from tests.waiting import until

from . import stalls as stalls_module
from .stalls import Stalls, waited_s


async def test_a_redis_that_does_not_answer_is_a_window_also_while_it_lasts(tmp_path):
    stalls = Stalls()
    timeline = stalls.timeline
    began = time.monotonic()
    with EmbeddedRedis(tmp_path) as server:
        watch = asyncio.create_task(stalls.watch_redis(server.socket_path))
        try:
            await asyncio.sleep(0.3)  # some looks at a Redis that answers
            assert timeline.is_quiet(began, time.monotonic())
            os.kill(server.pid, signal.SIGSTOP)
            try:
                await until(lambda: not timeline.is_quiet(began, time.monotonic(), ("redis",)), "it is seen")
                await asyncio.sleep(0.2)  # the stall lasts: it is told while it does, not when it is over
                now = time.monotonic()
                assert not timeline.is_quiet(now - 0.05, now)  # it goes on
            finally:
                os.kill(server.pid, signal.SIGCONT)
            await until(lambda: stalls.stalled_s, "it is over")
            over = time.monotonic()
            assert timeline.is_quiet(over, over + 1)
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)


async def test_a_process_that_waits_for_a_processor_is_a_window():
    waits = [0.0]
    stalls = Stalls()
    stalls.pids = [0]
    stalls_module.waited_s, real = (lambda pid: waits[0] if pid == 0 else 0.0), stalls_module.waited_s
    watch = asyncio.create_task(stalls.watch_processes())
    try:
        began = time.monotonic()
        await asyncio.sleep(0.2)  # some looks at a process that does not wait
        assert stalls.timeline.is_quiet(began, time.monotonic())
        waits[0] = 0.2
        await until(lambda: not stalls.timeline.is_quiet(began, time.monotonic(), ("waits",)), "it is seen")
        await until(lambda: stalls.stalled_s, "it is over")
        over = time.monotonic()
        assert stalls.timeline.is_quiet(over, over + 1)
    finally:
        stalls_module.waited_s = real
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


def test_linux_tells_how_long_a_process_waited():
    assert waited_s(os.getpid()) > 0
    assert waited_s(2**22 + 1) == 0
