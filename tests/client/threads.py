"""A fake name server with an event loop of its own, for tests that have none; and a forked child."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable

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


def exit_code_of_fork(child: Callable[[], None]) -> int:
    """Run ``child`` in a fork of this process: 0, or 1 when it raises (told on stderr), or the signal's negative."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork in a process with threads
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            child()
            status = 0
        except BaseException:  # noqa: BLE001 - a fork must end here; its status says so
            traceback.print_exc()
        finally:
            os._exit(status)
    deadline = time.monotonic() + 60
    while (found := os.waitpid(pid, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(found[1])
