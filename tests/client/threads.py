"""A fake name server with an event loop of its own, for tests that have none."""

from __future__ import annotations

import asyncio
import contextlib
import threading

from .fake_name_server import FakeNameServer


@contextlib.contextmanager
def serving_in_thread(routes=None):
    """A FakeNameServer that runs in a thread; changing its ``routes`` is safe."""
    server, loop = FakeNameServer(routes), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(30)

    run(server.start())
    try:
        yield server
    finally:
        run(server.stop())
        run(loop.shutdown_default_executor())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
