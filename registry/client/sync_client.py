"""Runs an asynchronous client in a background thread with its own event loop: the base of the blocking clients.

- Threads: any number of threads may call at the same time. The background thread is a daemon; its loop never handles
  signals. If an event loop runs in the caller's thread, a call blocks that loop, like any other blocking call.
- Callbacks (listeners) run in the background thread, so they must be short; a blocking call in a callback raises
  RuntimeError, because it would wait for itself.
- Closing: ``with``, or ``close()``, from any thread, any number of times; calls under way raise ClientClosed. A client
  that the program does not close is closed when the process ends, or when nothing refers to it any more.
- Fork: the child has no background thread. In the child, calls raise ClientClosed at once, ``close()`` does nothing,
  and the parent's connections stay untouched: open a new client in the child (with multiprocessing or gunicorn: after
  the fork, not at import).
- Ctrl-C during a call cancels only this call.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

from ..errors import ClientClosed

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")
_Client = TypeVar("_Client")
_Arguments = ParamSpec("_Arguments")

# How long close() waits for the thread; a look-up of a host name may block the thread for longer.
_CLOSE_S: Final = 10.0
# If Ctrl-C comes just when a thread begins to wait, Python notices it only after the wait: so each wait is short.
_SIGNALS_S: Final = 0.5


class BackgroundLoop:
    """A thread with an event loop. One task enters a client (an asynchronous context manager), waits, and leaves it.

    ``what``: the client's name in messages.
    """

    def __init__(self, client: AbstractAsyncContextManager[object], what: str) -> None:
        self._client = client
        self._what = what
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._pending: set[Future[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._open = False
        self._entered: Future[None] = Future()
        self._thread = threading.Thread(target=self._main, name=what, daemon=True)

    def start(self) -> None:
        """Start the thread and enter the client; if the client raises, end the thread and raise the same error."""
        self._thread.start()
        try:
            self._entered.result()
        except BaseException:
            self.close()  # also after Ctrl-C
            raise

    def call(self, function: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Run the coroutine that ``function`` makes on the loop; wait for its result and return it.

        Raises:
            ClientClosed: the client is not open, or was closed meanwhile, or this is a forked child.
            RuntimeError: this is the background thread.
        """
        self._check_process()
        if threading.current_thread() is self._thread:
            raise RuntimeError(f"a listener of {self._what} must not call it: it would wait for itself")
        result: Future[_Result] = Future()
        task: list[asyncio.Task[None]] = []

        async def run() -> None:
            try:
                value = await function()
            except asyncio.CancelledError:
                self._fail(result)
                raise
            except BaseException as error:  # raised in the calling thread
                result.set_exception(error)
                if not isinstance(error, Exception):
                    raise
            else:
                result.set_result(value)

        def begin() -> None:
            if not result.done():
                task.append(asyncio.get_running_loop().create_task(run()))

        loop = self._loop
        try:
            with self._lock:
                if not self._open or loop is None:
                    raise self._closed()
                self._pending.add(result)
                loop.call_soon_threadsafe(begin)
            return _wait(result)
        except BaseException:
            if not result.done() and loop is not None:  # Ctrl-C
                with contextlib.suppress(RuntimeError):  # the loop may have ended
                    loop.call_soon_threadsafe(lambda: [one.cancel() for one in task])
            raise
        finally:
            with self._lock:
                self._pending.discard(result)

    def check_open(self) -> None:
        """Raise ClientClosed as ``call`` does; for methods that read in the caller's thread."""
        self._check_process()
        if not self._open:
            raise self._closed()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise ClientClosed(
                f"this {self._what} was opened in process {self._pid}, before the fork: open one in this process"
            )

    def close(self) -> None:
        """Leave the client and end the thread, without waiting in a callback; in a forked child do nothing."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._open = False
            if self._loop is not None and self._stop is not None:
                self._loop.call_soon_threadsafe(self._stop.set)
        if threading.current_thread() is not self._thread and self._thread.ident is not None:
            self._thread.join(_CLOSE_S)
            if self._thread.is_alive():
                logger.warning("%s has not ended within %g s; it is left behind", self._what, _CLOSE_S)

    def _main(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:  # raised in the thread that called start(), if it still waits
            if not self._entered.done():
                self._entered.set_exception(error)
            else:
                logger.exception("%s ended", self._what)
        finally:
            with self._lock:
                self._open, self._loop = False, None
                left = list(self._pending)
            for result in left:
                self._fail(result)

    async def _live(self) -> None:
        self._stop = asyncio.Event()
        with self._lock:
            self._loop = asyncio.get_running_loop()
        # If close() was called meanwhile, the event is set, and the wait below ends at once.
        async with self._client:
            with self._lock:
                self._open = not self._stop.is_set()
            self._entered.set_result(None)
            await self._stop.wait()

    def _fail(self, result: Future[Any]) -> None:
        if not result.done():
            result.set_exception(self._closed())

    def _closed(self) -> ClientClosed:
        return ClientClosed(f"this {self._what} is not open: use it within 'with', or between open() and close()")


def _wait(result: Future[_Result]) -> _Result:
    while True:
        try:
            return result.result(_SIGNALS_S)
        except TimeoutError:
            if result.done():  # the call itself raised TimeoutError, or it ended just now
                return result.result()


class SyncClient(Generic[_Client]):
    """Base of the blocking clients: ``with Client(...) as client:``, or ``open()`` and ``close()``.

    Args:
        client: the asynchronous client, not entered yet. Subclasses have it as ``_client``: they may read values of it
            that are safe to read from any thread, and call it by ``_call``.
    """

    def __init__(self, client: _Client) -> None:
        assert isinstance(client, AbstractAsyncContextManager)
        self._client = client
        self._background = BackgroundLoop(client, type(self).__name__)
        self._finalizer = weakref.finalize(self, self._background.close)

    def open(self) -> Self:
        """Start the background thread and enter the client.

        Raises:
            RuntimeError: it was opened before; a client can be opened once.
            Other errors: those of the asynchronous client.
        """
        self._background.start()
        return self

    def close(self) -> None:
        """End the client and its thread; may be called any number of times."""
        self._finalizer()
        self._background.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, function: Callable[..., Coroutine[Any, Any, _Result]], *args: Any, **options: Any) -> _Result:
        return self._background.call(lambda: function(*args, **options))

    def _on_loop(self, function: Callable[[], _Result]) -> _Result:
        """Run a function that does not wait in the background thread: only this thread may use the client."""

        async def run() -> _Result:
            return function()

        return self._call(run)


def on_loop(
    method: Callable[Concatenate[_Client, _Arguments], _Result],
) -> Callable[Concatenate[SyncClient[_Client], _Arguments], _Result]:
    """Make a blocking client's method from a method that does not wait; it runs in the background thread."""

    @functools.wraps(method)
    def run(self: SyncClient[_Client], /, *args: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        return self._on_loop(lambda: method(self._client, *args, **options))

    return run


def waits_for(
    method: Callable[Concatenate[_Client, _Arguments], Coroutine[Any, Any, _Result]],
) -> Callable[Concatenate[SyncClient[_Client], _Arguments], _Result]:
    """Make a blocking client's method from a coroutine method: the caller's thread waits for the result."""

    @functools.wraps(method)
    def run(self: SyncClient[_Client], /, *args: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        return self._call(method, self._client, *args, **options)

    return run


def made_like(
    client: Callable[_Arguments, _Client],
) -> Callable[[Callable[[Any], None]], Callable[Concatenate[Any, _Arguments], None]]:
    """Decorate ``__init__`` of a blocking client: it takes the arguments of the asynchronous client and makes it.

    Then the decorated method runs; it may raise an error.
    """

    def decorate(check: Callable[[Any], None]) -> Callable[Concatenate[Any, _Arguments], None]:
        @functools.wraps(client.__init__)
        def init(self: Any, /, *args: _Arguments.args, **options: _Arguments.kwargs) -> None:
            SyncClient.__init__(self, client(*args, **options))
            check(self)

        return init

    return decorate
