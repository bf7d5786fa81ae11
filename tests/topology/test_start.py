"""What a Redis must be like, looked at before anything is served."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time

import pytest

from bench.servers.processes import free_port
from bench.servers.redis_servers import HOST, RedisProcess
from mqregistry.errors import StoreError, StoreUnavailable
from mqregistry.store.store import Store

from ..forked import run_command


class Stub:
    """A TCP server that answers each command with one text (INFO), or not at all (None)."""

    def __init__(self, info: str | None) -> None:
        self._info = info
        self._listener = socket.create_server((HOST, 0))
        self.url = f"redis://{HOST}:{self._listener.getsockname()[1]}"
        self._clients: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._clients.append(client)
                with contextlib.suppress(OSError):
                    while self._info is not None and client.recv(65536):
                        client.sendall(f"${len(self._info)}\r\n{self._info}\r\n".encode())

    def close(self) -> None:
        for end in (self._listener, *self._clients):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._thread.join(5)


@pytest.fixture
def stub_with():
    stubs = []

    def make(info):
        stubs.append(Stub(info))
        return stubs[-1]

    yield make
    for stub in stubs:
        stub.close()


@pytest.mark.parametrize("version", ["5.0.14", "6.0.16", "2.8.0"])
async def test_redis_too_old_is_refused(stub_with, version):
    async with Store(stub_with(f"redis_version:{version}\r\n").url) as store:
        with pytest.raises(StoreError, match=rf"{version}.*too old: 6\.2 or later"):
            await store.check_server()


@pytest.mark.parametrize("version", ["6.2.0", "7.0.15", "8.2.1", "10.0.0"])
async def test_redis_new_enough_is_taken(stub_with, version):
    async with Store(stub_with(f"redis_version:{version}\r\naof_enabled:1\r\n").url) as store:
        # The later ones of a line have mends that these lack; that is told, and refuses nothing.
        assert [told for told in await store.check_server() if "CVE-2025-49844" not in told] == []


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_redis_that_may_evict_is_refused(folder, policy):
    with RedisProcess(folder / "n", ["maxmemory 100mb", f"maxmemory-policy {policy}"]) as server:
        async with Store(server.url) as store:
            with pytest.raises(StoreError, match=f"policy {policy}.*CONFIG SET maxmemory-policy noeviction"):
                await store.connect()
            assert server.call("DBSIZE") == 0
            server.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
            assert (await store.connect()).created


async def test_redis_without_append_only_file_is_warned_of(folder, caplog):
    with RedisProcess(folder / "n") as server:
        async with Store(server.url) as store:
            with caplog.at_level(logging.WARNING):
                await store.connect()
            assert "set appendonly yes" in caplog.text
            server.call("CONFIG", "SET", "appendonly", "yes")
            # the tests also run on a Redis that is so old that it is warned of
            assert [text for text in await store.check_server() if "CVE-2025-49844" not in text] == []


async def test_redis_unreachable_is_told_quickly(stub_with, own_namespace):
    silent = stub_with(None)
    for url in (f"redis://{HOST}:{free_port()}", silent.url, "unix:///nowhere/redis.sock", "redis://nowhere.invalid"):
        async with Store(url, own_namespace, timeout_ms=300) as store:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match="cannot use Redis at"):
                await store.connect()
            assert time.monotonic() - began < 15


@pytest.mark.parametrize("command", ["serve", "sweep"])
def test_command_on_a_redis_that_is_not_there_or_not_fit_ends_with_253(stub_with, command):
    for url, no_wait, message in (
        (f"redis://:secret@{HOST}:{free_port()}", ["--no-wait"], "Redis is away"),
        (stub_with("redis_version:5.0.14\r\n").url, [], "too old"),
    ):
        ended = run_command(command, "--redis", url, *no_wait)
        assert ended.returncode == 253, ended.stderr
        assert message in ended.stderr
        assert "secret" not in ended.stderr
        assert "Traceback" not in ended.stderr
