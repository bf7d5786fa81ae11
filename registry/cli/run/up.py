"""``mqregistry up``: a Redis, front ends and a sweeper in one command."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from ...config.settings import Settings
from ...embedded import EmbeddedRedis, die_with_parent, how_it_ended
from ...errors import StartError
from ..options import config_file_option, print_option, set_option, setting_options, start_settings
from .logging_setup import configure_logging
from .private_folder import write_private_files
from .state_files import Running, announced, locked

if TYPE_CHECKING:
    from ...store.store import Store

logger = logging.getLogger(__name__)
redis_logger = logging.getLogger("redis")

# Defaults that differ from those of "serve": "up" is for this machine alone, and must end within 5 s after Ctrl-C.
DEFAULTS: Final = {"bind_address": "127.0.0.1", "shutdown_wait_time_seconds": 3}

_LOOK_EVERY_S: Final = 0.25
_START_LOOK_EVERY_S: Final = 0.01
_RESTART_MOST_S: Final = 5.0
_CONSOLE_PORT: Final = 4  # the console's port minus the name server's port: 9880 - 9876
_LOG_BYTES: Final = 4 * 1024 * 1024


@click.command()
@setting_options(
    "bind_address", "listen_port", "workers", "data_dir", "namespace", "http_port", "sweep", "compat", "log_level",
    "log_format", "log_file",
)  # fmt: skip
@set_option
@config_file_option
@print_option
@click.option("--console", is_flag=True, help="Also start the console, which only reads and prints its address.")
def up(config_file: Path | None, print_config: bool, console: bool, **flags: Any) -> None:
    """Start a whole registry on this machine: an embedded Redis, the name server, and a sweeper.

    The tables are kept in the data folder between runs; nobody but this user may read them. One Ctrl-C stops
    everything.
    """
    settings = start_settings(
        flags, config_file, print_config=print_config, defaults=DEFAULTS, redis_of=_running_redis
    )  # fmt: skip
    write_private_files()
    configure_logging(settings)
    run_up(settings, kind="up", beside=[run_console] if console else ())


async def run_console(settings: Settings, port: int | None = None) -> None:
    """Run the console in a process of its own until this one ends; if the console fails, everything else goes on.

    ``port``: None: 4 more than the port of the name server.
    """
    port = port or settings.listen_port + _CONSOLE_PORT
    arguments = ("console", "--redis", settings.redis, "--namespace", settings.namespace, "--port", str(port))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mqregistry", *arguments, "--checkpoints", str(Path(settings.data_dir) / "console"),
        "--parent", str(os.getpid()), stdin=asyncio.subprocess.DEVNULL, preexec_fn=die_with_parent,
    )  # fmt: skip
    try:
        status = await process.wait()
        logger.error("the console ended with status %d; 'mqregistry console' starts a new one", status)
        await asyncio.Event().wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


WhenBooted = Callable[[Settings], Coroutine[Any, Any, None]]


def _running_redis(settings: Settings) -> str:
    """The URL of the Redis that an ``up`` runs in this data folder now; "" where none does."""
    redis = EmbeddedRedis(_data_dir(settings))
    return redis.url if redis.socket_path.exists() else ""


def _data_dir(settings: Settings) -> Path:
    return Path(settings.data_dir).expanduser().absolute()


def run_up(settings: Settings, *, kind: str, beside: Sequence[WhenBooted] = (), quiet: bool = False) -> None:
    """Serve until stopped, on an embedded Redis in ``settings.data_dir``.

    Args:
        kind: up or demo, for the state file.
        beside: started with the settings in effect when the name server answers; when one of them ends, ``up`` ends.
        quiet: print no boot line.
    """
    data_dir = _data_dir(settings)
    if settings.redis and not quiet:
        logger.warning("up starts a Redis of its own: redis (%s) is not used", settings.source("redis"))
    with locked(data_dir), contextlib.ExitStack() as stack:
        redis = EmbeddedRedis(data_dir)
        _shorten(redis.log_file)
        stack.callback(redis.stop)
        redis.begin()
        redis.has_started()  # launches Redis, which reads its file while this process imports modules
        settings = msgspec.structs.replace(
            settings, redis=redis.url, data_dir=str(data_dir), sources={**settings.sources, "redis": "up"}
        )
        gc.disable()  # nothing that is imported is garbage; fork_workers enables it again
        from ...server.process.spawning import fork_workers
        from ...server.process.supervisor import Supervisor, boot_line
        from .front_end import run_front_end

        forked = stack.enter_context(fork_workers(settings.workers))
        with _ended_by_sigterm():
            redis.wait()

        def on_boot() -> None:
            stack.enter_context(announced(Running(
                kind, os.getpid(), settings.redis, settings.namespace, settings.bind_address, settings.listen_port,
                settings.effective_http_port, settings.data_dir,
            )))  # fmt: skip
            if not quiet:
                with contextlib.suppress(OSError):  # nobody reads stdout any more
                    print(boot_line(settings), flush=True)
            looks = "look with: mqregistry brokers, or in a browser: mqregistry console"
            logger.info("tables in %s, Redis at %s; %s", data_dir, redis.url, looks)

        async def serve() -> None:
            supervisor = Supervisor(settings, on_boot=on_boot, forked=forked, fresh=redis.is_new)

            def when_booted(one: WhenBooted) -> Callable[[Store], Coroutine[Any, Any, None]]:
                async def run(_: Store) -> None:
                    await supervisor.booted.wait()
                    await one(settings)

                return run

            await run_front_end(
                supervisor,
                beside=[
                    lambda _: _keep_redis(redis), lambda _: _relay_log(redis.log_file), *map(when_booted, beside)
                ],
            )  # fmt: skip

        asyncio.run(serve())


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends this block as Ctrl-C does; by default a container's first process ignores it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


async def _keep_redis(redis: EmbeddedRedis) -> None:
    """Start the embedded Redis again if it ends; meanwhile workers go on serving the routes that they know."""
    pause_s = _LOOK_EVERY_S
    while True:
        await asyncio.sleep(pause_s)
        if redis.pid is not None:  # it is None after a start that failed
            code = redis.poll()
            if code is None:
                pause_s = _LOOK_EVERY_S
                continue
            redis_logger.error("%s; starting it again", how_it_ended(code))
        try:
            # Not in a thread: the kernel ends Redis with the thread that started it (PR_SET_PDEATHSIG).
            redis.begin()
            while not redis.has_started():  # noqa: ASYNC110
                await asyncio.sleep(_START_LOOK_EVERY_S)
        except StartError as error:
            redis_logger.error("%s", error)
            pause_s = min(_RESTART_MOST_S, pause_s * 2)


def _shorten(log_file: Path) -> None:
    with contextlib.suppress(OSError):
        if log_file.stat().st_size > _LOG_BYTES:
            log_file.replace(log_file.with_suffix(".log.1"))


async def _relay_log(log_file: Path) -> None:
    """Log the warnings of Redis, except warnings while it starts; other lines are only in the log file of Redis."""
    with contextlib.suppress(OSError), log_file.open("r", encoding="utf-8", errors="replace") as log:
        log.seek(0, os.SEEK_END)
        line = ""
        starting = False
        while True:
            line += log.readline()
            if not line.endswith("\n"):
                await asyncio.sleep(_LOOK_EVERY_S)
                continue
            _, mark, text = line.rstrip().partition(" # ")
            starting = ("Redis is starting" in line or starting) and "Ready to accept" not in line
            if mark and not starting:
                redis_logger.warning("%s", text)
            line = ""
    # the file cannot be read, so there is nothing to log; but ``up`` would end if this coroutine ended
    await asyncio.Event().wait()
