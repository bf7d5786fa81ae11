"""The parent of a front end: owns the port, keeps its worker processes alive, sweeps, answers /metrics.

It decides nothing about requests. What the workers write to stderr goes into this process's log under their name;
what they tell over their status pipes goes into :class:`Fleet`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Final

import msgspec

from registry.config import Settings
from registry.errors import ConfigError, StartError, StoreError, StoreUnavailable
from registry.server.handover import Entrance, entrance
from registry.server.metrics import Fleet, Status
from registry.server.processes import WORKER_COMMAND, Forked, Process, open_pipe, spawn
from registry.server.streams import watch_streams
from registry.store.store import Store
from worker.sweeper import Sweeper

logger = logging.getLogger(__name__)


_RESTART_FIRST_S: Final = 0.1
_RESTART_MOST_S: Final = 5.0
# A worker that lived so long did not die "at once": the next restart is quick again.
_LIVED_S: Final = 10.0
# New clients wait for a worker that is away no longer than this (and its start); else they go to others.
_WAITED_FOR_S: Final = 0.5
# How often it is looked whether the workers still tell of themselves; they do every second.
_LOOK_EVERY_S: Final = 1.0
# Beyond the drain's own bound, before SIGKILL.
_KILL_AFTER_S: Final = 1.0


def _stop_signals() -> list[signal.Signals]:
    """Those that end us; nohup lets a process outlive its terminal by ignoring SIGHUP."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    return numbers if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [*numbers, signal.SIGHUP]


class _Line(msgspec.Struct, frozen=True):
    """What every line of a status pipe has."""

    event: str = ""
    reason: str = ""


def boot_line(settings: Settings) -> str:
    """What a Java NameServer says when it answers."""
    return f"The Name Server boot success. serializeType={settings.serialize_type}"


class Supervisor:
    """One front end. ``run`` serves until ``stop`` is called (or a signal comes, with ``signals=True``).

    forked: the first worker of each index, see ``fork_workers``; the others are made with worker_command.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        on_boot: Callable[[], None] | None = None,
        worker_command: Sequence[str] = WORKER_COMMAND,
        forked: Sequence[Forked] = (),
    ) -> None:
        self.settings = settings
        self.front_end = secrets.token_hex(8)
        self.fleet = Fleet(settings.workers)
        self.booted = asyncio.Event()
        self._on_boot = on_boot or (lambda: print(boot_line(settings), flush=True))
        self._command = worker_command
        self._forked = dict(enumerate(forked))
        self._entrance: Entrance
        self._processes: dict[int, Process] = {}
        self._answering: set[int] = set()
        self._told: Counter[int] = Counter()
        self._start_failures: dict[int, str] = {}
        self._stop = asyncio.Event()
        self._kill = asyncio.Event()

    def stop(self) -> None:
        """Drain and end; asked again, end at once."""
        if self._stop.is_set():
            self._kill.set()
        self._stop.set()

    async def run(
        self, *, signals: bool = True, beside: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
    ) -> None:
        """Serve until stopped.

        Args:
            signals: SIGTERM, SIGINT and SIGHUP (the terminal is gone) stop it.
            beside: run as long as this serves, and cancelled then.

        Raises:
            StartError: Redis cannot be used, the port is taken, or no worker could start.
        """
        settings = self.settings
        try:
            store = Store(
                settings.redis, settings.namespace, timeout_ms=settings.redis_timeout_ms, compat=settings.compat
            )
        except ConfigError as error:  # the URL
            raise StartError(str(error)) from error
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(store.close)
            if signals:
                loop = asyncio.get_running_loop()
                for number in _stop_signals():
                    loop.add_signal_handler(number, self._on_signal, number)
                    stack.callback(loop.remove_signal_handler, number)
            try:
                await store.connect()
            except (StoreUnavailable, StoreError) as error:
                raise StartError(str(error)) from error
            self._entrance = entrance(
                settings.bind_address, settings.listen_port, settings.server_socket_backlog, settings.workers
            )
            stack.callback(self._entrance.close)
            port = settings.effective_http_port
            if port:
                from registry.server.http import HttpServer  # its base is a tenth of all imports

                stack.callback(HttpServer(settings.bind_address, port, self.fleet).close)
            logger.info(
                "front end %s: %d worker(s) on %s:%d, namespace %s, HTTP port %s",
                self.front_end, settings.workers, settings.bind_address, settings.listen_port, settings.namespace,
                port or "off",
            )  # fmt: skip
            await self._serve(store, beside)

    def _on_signal(self, number: int) -> None:
        if self._stop.is_set():
            logger.warning("%s again: ending at once", signal.Signals(number).name)
        else:
            logger.info("%s: draining", signal.Signals(number).name)
        self.stop()

    async def _serve(self, store: Store, beside: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        tasks = [asyncio.ensure_future(one()) for one in beside]
        if self.settings.sweep:
            sweeper = Sweeper(store, self.settings, removed=self._removed, alarmed=self.fleet.alarmed)
            tasks.append(asyncio.ensure_future(sweeper.run(self._stop)))
        tasks.append(asyncio.ensure_future(watch_streams(store, self.fleet.survey)))
        keepers = [asyncio.create_task(self._keep(index)) for index in range(self.settings.workers)]
        stopping = asyncio.create_task(self._stop.wait())
        try:
            # Whatever ends by itself ends everything: a keeper only when no worker can start at all.
            await asyncio.wait([stopping, *keepers, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.fleet.draining = True
            self._stop.set()
            ending = asyncio.gather(*keepers, return_exceptions=True)
            await self._end_workers(ending)
            for task in (*tasks, stopping):
                task.cancel()
            await asyncio.gather(*tasks, stopping, return_exceptions=True)
        for done in (*keepers, *tasks):
            if not done.cancelled() and (error := done.exception()) is not None:
                raise error

    def _removed(self, expired: int, reaped: int) -> None:
        self.fleet.brokers_expired += expired
        self.fleet.brokers_reaped += reaped

    # workers

    async def _keep(self, index: int) -> None:
        """Keep worker ``index`` running until the stop.

        Raises:
            StartError: not one of the workers got as far as answering.
        """
        pause_s = _RESTART_FIRST_S
        while not self._stop.is_set():
            started = time.monotonic()
            ended_as, reason = await self._run_worker(index)
            answered = index in self._answering
            self._answering.discard(index)
            self.fleet.gone(index)
            if answered and time.monotonic() - started >= _LIVED_S:
                pause_s = _RESTART_FIRST_S
            self._entrance.ended(index, comes_back=answered and pause_s <= _WAITED_FOR_S)
            if self._stop.is_set():
                return
            if not self.booted.is_set() and not answered:
                self._start_failures[index] = reason or ended_as
                if len(self._start_failures) == self.settings.workers:
                    raise StartError("; ".join(dict.fromkeys(self._start_failures.values())))
            self.fleet.restarts += 1
            logger.error("worker %d ended: %s; starting it again in %.1f s", index + 1, reason or ended_as, pause_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stop.wait()
            pause_s = min(_RESTART_MOST_S, pause_s * 2)

    async def _run_worker(self, index: int) -> tuple[str, str]:
        """One life of one worker: (how it ended, the reason it gave)."""
        async with open_pipe() as status, open_pipe() as log:
            try:
                process = await self._make(index, status.fd, log.fd)
            except (OSError, ValueError) as error:
                return f"it could not be started: {error}", ""
            finally:
                status.release()
                log.release()
            self._processes[index] = process
            if self._stop.is_set():  # it came while this one was being made
                self._signal_workers(signal.SIGTERM)
            relay = asyncio.create_task(_relay(log.reader, logging.getLogger(f"worker {index + 1}")))
            watch = asyncio.create_task(self._watch(index, process))
            try:
                reason = await self._listen_to(index, status.reader)
                code = await process.wait()
                await relay
            finally:
                relay.cancel()
                watch.cancel()
                self._processes.pop(index, None)
        ended_as = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return ended_as, reason

    async def _make(self, index: int, status_fd: int, log_fd: int) -> Process:
        """Raises OSError, ValueError: it could not be started."""
        spec = {"settings": self.settings, "front_end": self.front_end, "index": index}
        entrance_fd = self._entrance.begin(index)
        forked = self._forked.pop(index, None)
        if forked is None:
            return await spawn(self._command, spec, entrance_fd, status_fd, log_fd)
        forked.begin(spec, entrance_fd, status_fd, log_fd)
        return forked

    async def _listen_to(self, index: int, status: asyncio.StreamReader) -> str:
        """Read a worker's status lines until it ends; returns the reason it gave, if any."""
        reason = ""
        async for line in _lines(status):
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
                logger.warning("worker %d says what cannot be read (%s): %r", index + 1, error, line[:200])
        return reason

    async def _watch(self, index: int, process: Process) -> None:
        """Kill a worker that answered once and then hangs: its clients go to others, and another one takes its place.

        Looks are counted, not time, so that it is no silence when this process itself, or the machine, was suspended.
        """
        limit_s = self.settings.worker_silence_timeout_ms / 1000
        look_s = min(_LOOK_EVERY_S, limit_s)
        told, silent_s = -1, 0.0
        while limit_s and not self._stop.is_set():
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
        self._entrance.answers(index)
        self._start_failures.pop(index, None)
        self.fleet.told(index, Status(ready=True))
        if self.booted.is_set():
            logger.info("worker %d answers", index + 1)
        elif len(self._answering) == self.settings.workers:
            self.booted.set()
            self._on_boot()

    async def _end_workers(self, ended: asyncio.Future[Any]) -> None:
        """Let the workers drain; end those that take too long, or all when asked a second time."""
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


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Lines without their ends; one that is too long is left out."""
    while True:
        try:
            line = await reader.readline()
        except ValueError:
            continue
        if not line:
            return
        yield line.rstrip(b"\r\n")


async def _relay(reader: asyncio.StreamReader, to: logging.Logger) -> None:
    """A worker's log lines, ``LEVEL text`` each, into ours; a line without a level continues the one before."""
    level = logging.WARNING  # what Python itself writes before logging is set up is seldom good
    async for raw in _lines(reader):
        text = raw.decode("utf-8", "replace")
        word, blank, rest = text.partition(" ")
        known = logging.getLevelNamesMapping().get(word) if blank else None
        if known is not None:
            level, text = known, rest
        to.log(level, "%s", text)
