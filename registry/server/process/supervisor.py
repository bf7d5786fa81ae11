"""The parent process of a front end: owns the port, keeps its worker processes running, answers /metrics.

It handles no requests. The workers' stderr goes into this process's log under their names; the status that they send
over pipes goes into :class:`FrontEndWorkers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import msgspec

from ...config.settings import Settings
from ...embedded import how_it_ended
from ...errors import ConfigError, StartError, StoreError, StoreUnavailable
from ...events.by import SWEEPER, front_end_name, this_process
from ...store.store import Store
from ...tasks import wait_within
from .known_fleet import KnownFleet
from .metrics import FrontEndWorkers, Status
from .pipes import lines, open_pipe
from .port.acceptor import Acceptor, open_acceptor
from .port.sockets import when_free
from .spawning import WORKER_COMMAND, ForkedWorker, spawn
from .stream_metrics import survey

logger = logging.getLogger(__name__)


_RESTART_FIRST_S: Final = 0.1
_RESTART_MOST_S: Final = 5.0
# After a worker has run for this time, the next restart is quick again.
_LIVED_S: Final = 10.0
# If a worker is started again within this time, new clients wait for it; otherwise they go to other workers.
_WAITED_FOR_S: Final = 0.5
# How often this process checks that workers send their status; they send one every second.
_LOOK_EVERY_S: Final = 1.0
# How often a Redis that was away at the start is tried again.
_REACH_EVERY_S: Final = 0.25
# A worker that has not ended this long after the end of the time for a drain gets SIGKILL.
_KILL_AFTER_S: Final = 1.0


def _stop_signals() -> list[signal.Signals]:
    """The signals that end the front end; not SIGHUP if it is ignored, as under nohup."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    return numbers if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [*numbers, signal.SIGHUP]


WorkerProcess = ForkedWorker | asyncio.subprocess.Process

Beside = Callable[[Store], Coroutine[Any, Any, None]]
"""A coroutine function that runs beside the workers, as the sweeper does; it takes the front end's store."""


class _Line(msgspec.Struct, frozen=True):
    """The members that every line of a status pipe may have."""

    event: str = ""
    reason: str = ""


def boot_line(settings: Settings) -> str:
    """The line that a Java NameServer prints when it answers."""
    return f"The Name Server boot success. serializeType={settings.serialize_type}"


class Supervisor:
    """One front end. ``run`` serves until ``stop`` is called (or a signal comes, with ``signals=True``).

    Args:
        on_boot: called once, when all workers answer; default: prints the boot line.
        worker_command: starts a worker that is not forked.
        forked: the first worker of each index (``fork_workers``); later ones are started with worker_command.
        wait: whether to wait for a Redis that is away at the start; every request is answered with code 1 until then.
        fresh: whether this Redis was empty before, so that a new namespace has lost nothing.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        on_boot: Callable[[], None] | None = None,
        worker_command: Sequence[str] = WORKER_COMMAND,
        forked: Sequence[ForkedWorker] = (),
        wait: bool = False,
        fresh: bool = False,
    ) -> None:
        self.settings = settings
        self.front_end = secrets.token_hex(8)
        self.fleet = FrontEndWorkers(settings.workers)
        self.known = KnownFleet(self.front_end, settings.namespace, lambda: self.fleet.draining, self.fleet.show)
        self.booted = asyncio.Event()
        self.stopping = asyncio.Event()
        self._on_boot = on_boot or (lambda: print(boot_line(settings), flush=True))
        self._command = worker_command
        self._forked = dict(enumerate(forked))
        self._wait = wait
        self._fresh = fresh
        self._acceptor: Acceptor
        self._processes: dict[int, WorkerProcess] = {}
        self._answering: set[int] = set()
        self._told: Counter[int] = Counter()
        self._start_failures: dict[int, str] = {}
        self._kill = asyncio.Event()

    def stop(self) -> None:
        """Drain and end; the second call ends at once."""
        if self.stopping.is_set():
            self._kill.set()
        self.stopping.set()

    async def run(self, *, signals: bool = True, beside: Sequence[Beside] = ()) -> None:
        """Open the port, start the workers, and serve until stopped.

        Args:
            signals: SIGTERM, SIGINT and SIGHUP (the terminal is gone) stop it.
            beside: started once Redis has answered, and cancelled at the end; if one ends earlier, the front end ends.

        Raises:
            StartError: Redis cannot be used, the port is taken, or no worker could start.
        """
        settings = self.settings
        try:
            # the author of what the sweeper beside this front end writes
            by = this_process(SWEEPER, front_end=front_end_name(settings.listen_port))
            store = Store(
                settings.redis,
                settings.namespace,
                timeout_ms=settings.redis_timeout_ms,
                compat=settings.compat,
                by=by,
                fresh=self._fresh,
            )
        except ConfigError as error:  # the URL is wrong
            raise StartError(str(error)) from error
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(store.close)
            self.fleet.times = store.times
            if signals:
                loop = asyncio.get_running_loop()
                for number in _stop_signals():
                    loop.add_signal_handler(number, self._on_signal, number)
                    stack.callback(loop.remove_signal_handler, number)
            reached = await self._reach(store)
            stack.callback(reached.cancel)
            where = (settings.bind_address, settings.listen_port, settings.server_socket_backlog, settings.workers)
            self._acceptor = await when_free(lambda: open_acceptor(*where), self.stopping)
            stack.callback(self._acceptor.close)
            port = settings.effective_http_port
            if port:
                from .http import HttpServer  # http.server takes a tenth of the time of all imports

                http = await when_free(
                    lambda: HttpServer(settings.bind_address, port, self.fleet, self.known), self.stopping
                )
                stack.callback(http.close)
            logger.info(
                "front end %s: %d worker(s) on %s:%d, namespace %s, HTTP port %s",
                self.front_end, settings.workers, settings.bind_address, settings.listen_port, settings.namespace,
                port or "off",
            )  # fmt: skip
            await self._serve(store, reached, beside)

    async def _reach(self, store: Store) -> asyncio.Future[None]:
        """Connect; returns a future that is done once Redis has answered, or fails with StartError.

        Raises:
            StartError: Redis cannot be used, or is away and this front end does not wait for it.
        """

        async def try_again() -> None:
            while True:
                await asyncio.sleep(_REACH_EVERY_S)
                with contextlib.suppress(StoreUnavailable):
                    return await self._connect(store)

        try:
            await self._connect(store)
        except StoreUnavailable as error:
            if not self._wait:
                raise StartError(str(error)) from error
            logger.warning("%s; waiting for it, every request is answered with an error until then", error)
            return asyncio.ensure_future(try_again())
        reached = asyncio.get_running_loop().create_future()
        reached.set_result(None)
        return reached

    async def _connect(self, store: Store) -> None:
        try:
            await store.connect()
        except StoreError as error:
            raise StartError(str(error)) from error

    def _on_signal(self, number: int) -> None:
        if self.stopping.is_set():
            logger.warning("%s again: ending at once", signal.Signals(number).name)
        else:
            logger.info("%s: draining", signal.Signals(number).name)
        self.stop()

    async def _serve(self, store: Store, reached: asyncio.Future[None], beside: Sequence[Beside]) -> None:
        async def begin(one: Beside) -> None:
            await asyncio.shield(reached)
            await one(store)

        shown = self.settings.broker_metrics
        everything: list[Beside] = [*beside, self.known.follow, lambda store: survey(store, self.fleet, shown)]
        tasks = [asyncio.ensure_future(begin(one)) for one in everything]
        keepers = [asyncio.create_task(self._keep(index)) for index in range(self.settings.workers)]
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            # If one of these ends by itself, the front end ends: _keep does so only if no worker can start at all.
            await asyncio.wait([stopping, *keepers, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.fleet.draining = True
            self.stopping.set()
            ending = asyncio.gather(*keepers, return_exceptions=True)
            await self._end_workers(ending)
            for task in (*tasks, stopping):
                task.cancel()
            await asyncio.gather(*tasks, stopping, return_exceptions=True)
        for done in (*keepers, *tasks):
            if not done.cancelled() and (error := done.exception()) is not None:
                raise error

    async def _keep(self, index: int) -> None:
        """Restart worker ``index`` whenever it ends, until the stop; StartError: no worker ever answered."""
        pause_s = _RESTART_FIRST_S
        while not self.stopping.is_set():
            started = time.monotonic()
            ended_as, reason = await self._run_worker(index)
            answered = index in self._answering
            self._answering.discard(index)
            self.fleet.gone(index)
            if answered and time.monotonic() - started >= _LIVED_S:
                pause_s = _RESTART_FIRST_S
            self._acceptor.worker_ended(index, comes_back=answered and pause_s <= _WAITED_FOR_S)
            if self.stopping.is_set():
                return
            if not self.booted.is_set() and not answered:
                self._start_failures[index] = reason or ended_as
                if len(self._start_failures) == self.settings.workers:
                    raise StartError("; ".join(dict.fromkeys(self._start_failures.values())))
            self.fleet.restarts += 1
            logger.error("worker %d ended: %s; starting it again in %.1f s", index + 1, reason or ended_as, pause_s)
            await wait_within(self.stopping, pause_s)
            pause_s = min(_RESTART_MOST_S, pause_s * 2)

    async def _run_worker(self, index: int) -> tuple[str, str]:
        """Run one worker process to its end; returns how it ended, and its own reason."""
        async with open_pipe() as (status, status_fd), open_pipe() as (log, log_fd):
            try:
                process = await self._make(index, status_fd, log_fd)
            except (OSError, ValueError) as error:
                return f"it could not be started: {error}", ""
            finally:
                os.close(status_fd)
                os.close(log_fd)
            self._processes[index] = process
            if self.stopping.is_set():  # the stop came while this process was being made
                self._signal_workers(signal.SIGTERM)
            relay = asyncio.create_task(_relay(log, logging.getLogger(f"worker {index + 1}")))
            watch = asyncio.create_task(self._watch(index, process))
            try:
                reason = await self._listen_to(index, status)
                code = await process.wait()
                await relay
            finally:
                relay.cancel()
                watch.cancel()
                self._processes.pop(index, None)
        return how_it_ended(code), reason

    async def _make(self, index: int, status_fd: int, log_fd: int) -> WorkerProcess:
        """Make a worker process; raises OSError or ValueError when it could not be started."""
        # Once all workers have answered, a new worker does not wait for Redis, but ends: its clients go to the others.
        wait = self._wait and not self.booted.is_set()
        spec = {
            "settings": self.settings, "front_end": self.front_end, "index": index, "wait": wait, "parent": os.getpid(),
            "fresh": self._fresh and not self.booted.is_set(),
        }  # fmt: skip
        connections_fd = self._acceptor.fd_for(index)
        forked = self._forked.pop(index, None)
        if forked is None:
            return await spawn(self._command, spec, connections_fd, status_fd, log_fd)
        forked.begin(spec, connections_fd, status_fd, log_fd)
        return forked

    async def _listen_to(self, index: int, status: asyncio.StreamReader) -> str:
        """Read a worker's status lines until it ends; returns the reason it gave, if any."""
        reason = ""
        async for line in lines(status):
            try:
                told = msgspec.json.decode(line, type=_Line)
                if told.event == "ready":
                    self._answers(index)
                elif told.event == "failed":
                    reason = told.reason
                elif told.event == "status":
                    self._told[index] += 1
                    self.fleet.told(index, msgspec.json.decode(line, type=Status))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                logger.warning("worker %d sent a line that cannot be read (%s): %r", index + 1, error, line[:200])
        return reason

    async def _watch(self, index: int, process: WorkerProcess) -> None:
        """Kill a worker that answered once and then hangs: its clients go to others, and a new worker is started.

        Checks are counted instead of time, so that a suspension of this process or of the machine is no silence.
        """
        limit_s = self.settings.worker_silence_timeout_ms / 1000
        look_s = min(_LOOK_EVERY_S, limit_s)
        told, silent_s = -1, 0.0
        while limit_s and not self.stopping.is_set():
            await asyncio.sleep(look_s)
            if index not in self._answering or told != self._told[index]:
                told, silent_s = self._told[index], 0.0
                continue
            silent_s += look_s
            if silent_s >= limit_s:
                logger.error(
                    "worker %d (process %d) runs but has told nothing for %.1f s (workerSilenceTimeoutMs): killing it",
                    index + 1, process.pid, silent_s,
                )  # fmt: skip
                process.send_signal(signal.SIGKILL)
                return

    def _answers(self, index: int) -> None:
        self._answering.add(index)
        self._acceptor.worker_ready(index)
        self._start_failures.pop(index, None)
        self.fleet.told(index, Status(ready=True))
        if self.booted.is_set():
            logger.info("worker %d answers", index + 1)
        elif len(self._answering) == self.settings.workers:
            self.booted.set()
            self._on_boot()

    async def _end_workers(self, ended: asyncio.Future[Any]) -> None:
        """Let the workers drain; kill those that take too long, or all after a second stop."""
        self._signal_workers(signal.SIGTERM)
        killed: asyncio.Future[Any] = asyncio.ensure_future(self._kill.wait())
        bound_s = self.settings.shutdown_wait_time_seconds + _KILL_AFTER_S
        await asyncio.wait([ended, killed], timeout=bound_s, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            if not killed.done():
                logger.error("%d worker(s) did not end within %.0f s: killed", len(self._processes), bound_s)
            self._signal_workers(signal.SIGKILL)
        killed.cancel()
        await ended

    def _signal_workers(self, number: signal.Signals) -> None:
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)


async def _relay(reader: asyncio.StreamReader, to: logging.Logger) -> None:
    """Log a worker's lines ``LEVEL text``; a line without a level has the level of the line before."""
    level = logging.WARNING  # Python's own lines before logging is configured are mostly errors
    async for raw in lines(reader):
        text = raw.decode("utf-8", "replace")
        word, blank, rest = text.partition(" ")
        known = logging.getLevelNamesMapping().get(word) if blank else None
        if known is not None:
            level, text = known, rest
        to.log(level, "%s", text)
