"""Commands as a user runs them: processes of their own, in an environment without settings."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.servers.processes import free_port
from mqregistry.cli import cli
from mqregistry.config.settings import Settings
from mqregistry.server.process.supervisor import boot_line
from mqregistry.store.store import Store

from ..forked import run_command
from .process.world import CHOSEN_SERVER
from .processes import Process


@pytest.fixture
def in_store(redis_url, namespace):
    """Runs a coroutine function on a store of the namespace, which it makes."""

    def use(work: Callable[[Store], Any]) -> Any:
        async def run() -> Any:
            async with Store(redis_url, namespace) as store:
                await store.connect()
                return await work(store)

        return asyncio.run(run())

    return use


@pytest.fixture
def home():
    """A short folder: unix sockets have short names."""
    # the server of an `up` that a test killed may still write while it ends
    with tempfile.TemporaryDirectory(prefix="mq", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def env(home):
    """A user without settings and with nothing running."""
    (home / "run").mkdir(mode=0o700)
    others = {name: value for name, value in os.environ.items() if not name.startswith(("MQREGISTRY_", "XDG_"))}
    kept = others | {name: os.environ[name] for name in (CHOSEN_SERVER,) if name in os.environ}
    return {**kept, "HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), "TMPDIR": str(home)}


@pytest.fixture
def start(env):
    """Start a command; it is ended with the test."""
    processes = []

    def run(*arguments, **variables):
        processes.append(Process(*arguments, env={**env, **variables}))
        return processes[-1]

    yield run
    for process in processes:
        if process.popen.poll() is None:
            process.end(signal.SIGKILL)
        process.wait()


@pytest.fixture
def start_up(start, home):
    """Start ``up`` and wait until it answers; gives it and its port."""

    def run(*arguments, data_dir=None, **variables):
        port = free_port(after=4)  # --console takes the fourth above
        process = start(
            "up", "--port", str(port), "--data-dir", str(data_dir or home / "data"), "--http-port", "0", *arguments,
            **variables,
        )  # fmt: skip
        process.wait_for(boot_line(Settings()))
        return process, port

    return run


@pytest.fixture
def command(env):
    """Run a command to its end, in this process; gives click's result."""

    def run(*arguments, expect=0, **variables):
        unset = {name: None for name in os.environ if name.startswith(("MQREGISTRY_", "XDG_"))}
        result = CliRunner(env={**unset, **env, **variables}).invoke(cli, arguments)
        assert result.exit_code == expect, result.output + repr(result.exception)
        return result

    return run


@pytest.fixture
def finished(env):
    """Run a command to its end, in a process of its own."""

    def run(*arguments, **variables):
        return run_command(*arguments, env={**env, **variables})

    return run
