"""What is looked at while a Redis fails over: tables, events, sweepers, brokers that beat seldom."""

from __future__ import annotations

import asyncio
import os
import select
from typing import Any

from mqregistry.events.changes import Change, decode_change
from mqregistry.store import keys
from mqregistry.store.snapshot import read_tables
from mqregistry.store.store import Store

from ..forked import Forked, command
from ..server.harness import wait_until


class SweeperProcess:
    """``mqregistry sweep``, and what it logs."""

    def __init__(self, url: str, namespace: str) -> None:
        self._log, log = os.pipe()
        with open(os.devnull, "r+b") as nothing, open(log, "wb"):
            self.process = Forked(
                command, ["sweep", "--redis", url, "--namespace", namespace],
                stdio=(nothing.fileno(), nothing.fileno(), log), dies_with_tests=True,
            )  # fmt: skip
        self._text = b""
        wait_until(lambda: "sweeping namespace" in self.log, "the sweeper sweeps")

    @property
    def log(self) -> str:
        while select.select([self._log], [], [], 0)[0]:
            data = os.read(self._log, 65536)
            if not data:
                break
            self._text += data
        text = self._text.decode()
        assert self.process.poll() is None, f"the sweeper ended:\n{text}"
        return text

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._log)


def contents(url: str, namespace: str) -> dict[str, Any]:
    """The tables as Redis has them."""

    async def read() -> dict[str, Any]:
        async with Store(url, namespace) as store:
            return (await read_tables(store))[1].contents()

    return asyncio.run(read())


def replayed(url: str, namespace: str) -> dict[str, Any]:
    """The tables as the change stream alone tells them, without a gap."""
    from ..store.bed import replay

    async def read() -> dict[str, Any]:
        async with Store(url, namespace) as store:
            return (await replay(store)).contents()

    return asyncio.run(read())


def events(server: Any, namespace: str) -> list[Change]:
    """The change stream of a server."""
    with server.client() as client:
        return [decode_change(fields[b"e"]) for _, fields in client.xrange(keys.changes(namespace))]


def alike(front_ends: list[Any], topics: Any) -> bool:
    """Whether all front ends give the same bytes for every topic and for 106."""
    seen = set()
    for front_end in front_ends:
        with front_end.client() as client:
            seen.add((*(client.route(topic).body for topic in topics), client.request(106).body))
    return len(seen) == 1


def settled(front_end: Any, *, rebuilds: int = 1) -> bool:
    """Fresh, exact, Redis there, and the tables read so often at least (a status is up to a second old)."""
    status = front_end.poll()
    return (
        not status.get("view_stale", True)
        and not status.get("redis_away", True)
        and status["view_rebuilds_total"] >= rebuilds
    )
