"""One sequence of `tests.differential` at one front end of ours and, in turn, at several: not the least difference."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from bench.servers.processes import wait_until
from mqregistry.store.snapshot import read_tables
from mqregistry.store.store import Store
from mqregistry.tables.tables import Tables
from tests.differential.normal import differences
from tests.differential.run import CANNOT_TELL, IN_TOUCH_S, REPEATS, Difference, Line, NotNow, Pair, Run
from tests.differential.steps import PROCESSES, Step

from .front_ends import FrontEnds, plain

# How often what Redis holds is read as a whole; the stream is followed all the time.
READ_EVERY = 20
D11 = "D11: a close of a broker's connections that are not all it has at the several: it stays there"


class FleetPair(Pair):
    """One front end, in the place that Java has elsewhere, and several; each side on a namespace of its own."""

    java: FrontEnds
    ours: FrontEnds
    servers: tuple[FrontEnds, FrontEnds]

    def __init__(
        self, redis_url: str, one: int, several: list[int], namespaces: tuple[str, str], *, eager: bool = False,
        compat: str = "5.x",
    ) -> None:  # fmt: skip
        self.redis_url = redis_url
        self.namespaces = namespaces
        self.compat = compat
        sides = [
            FrontEnds(name, ports, redis_url, namespace, eager=eager, as_48=compat == "4.8")
            for name, ports, namespace in zip(("one", "several"), ([one], several), namespaces, strict=True)
        ]
        self.set_up(sides[0], sides[1], compat)

    def run(self, steps: Sequence[Step]) -> None:
        """Raises Difference."""
        for _ in range(REPEATS):
            self.sequences += 1
            try:
                FleetRun(self, f"q{self.sequences}x").run(steps)
                return
            except NotNow:
                self.not_now += 1
                wait_until("every front end is in touch again", self.in_touch, IN_TOUCH_S)
        raise AssertionError(f"a front end lost touch with its Redis {REPEATS} times during one sequence")

    def in_touch(self) -> bool:
        return all(server.ask(105, {"topic": "none"}).code == 17 for server in self.servers for _ in server.ports)

    def tables(self) -> list[Tables]:
        """What both namespaces hold."""

        async def read(namespace: str) -> Tables:
            async with Store(self.redis_url, namespace, timeout_ms=10_000, compat=self.compat) as store:
                return (await read_tables(store))[1]

        return [asyncio.run(read(namespace)) for namespace in self.namespaces]

    def close(self) -> None:
        for server in self.servers:
            server.close()


class FleetRun(Run):
    """One sequence. Nothing that Java does is stepped aside from here, and of what ours does only D11."""

    pair: FleetPair
    beside_java = False

    def __init__(self, pair: FleetPair, prefix: str) -> None:
        super().__init__(pair, prefix)
        self.in_order = True
        for server in pair.servers:
            server.channels.clear()
            server.follow()  # what the cleaning up before did

    def step_aside(self, reason: str) -> None:
        assert reason == D11, f"{reason}: a step of the differential test that is to be done here"
        self.pair.stepped_aside[reason] += 1

    def exchange(
        self, code: int, ext: dict[str, str | None] | None = None, body: bytes = b"", *, line: Line | None = None,
        edit: Callable[[Any], Any] = lambda body: body, **how: Any,
    ) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
        one, several = super().exchange(code, ext, body, line=line, edit=edit, **how)
        if (one.get("remark") or "").startswith(CANNOT_TELL):
            raise NotNow
        if line is not None and ext is not None:
            for server, connection in zip(self.pair.servers, line.connections, strict=True):
                server.learn(connection, "" if self.as_48 else ext.get("clusterName"), ext.get("brokerAddr"))
        return one, several

    def must_agree(self, java: dict[str, Any], ours: dict[str, Any], what: str) -> None:
        if java != ours:
            raise Difference(f"{self.where}\n  {what}", differences(java, ours))

    def compare_rows(self, *, removal: bool) -> None:
        one, several = self.cluster_info(0), self.cluster_info(1)
        self.must_agree(one, several, "106 after it")
        self.rows, self.clusters = several["rows"], several["clusters"]

    # steps that are more than a request, or less, where Java is asked

    def send_registration(self, process: int, *, oneway: bool | None) -> None:
        last = self.said[process].last
        assert last is not None
        ext, body, version, about = last
        one, several = self.exchange(
            103, dict(ext), body, line=self.line(process), oneway=oneway, version=version, binary=about["binary"],
            # the order configuration in it comes from the tables in memory, and may be that of a moment ago
            edit=(lambda body: None) if self.pair.ours.eager else self.mine,
        )  # fmt: skip
        self.must_agree(one, several, f"103 {ext} version={version} {body[:600]!r}")
        self.compare_rows(removal=False)

    def do_unregister(self, kind: str, process: int, oneway: bool | None, binary: bool | None, **given: Any) -> None:
        identity = dict(zip(("cluster", "name", "id", "addr"), PROCESSES[process], strict=True))
        picked = {key: identity[key] if given[key] is None else given[key] for key in identity}
        picked = {key: None if value == "missing" else value for key, value in picked.items()}
        ext = {
            "brokerId": None if picked["id"] is None else str(picked["id"]),
            "clusterName": self.cluster(picked["cluster"]),
            "brokerAddr": self.addr(picked["addr"]),
            "brokerName": self.name(picked["name"]),
        }
        self.same(104, ext, line=self.line(process), oneway=oneway, binary=binary)
        self.compare_rows(removal=True)

    def close(self, line: Line) -> bool:
        goes, goes_at_several = (
            server.would_go(spread) for server, spread in zip(self.pair.servers, line.connections, strict=True)
        )
        if goes != goes_at_several:
            self.step_aside(D11)
            return False
        if len(goes) > 1:
            self.in_order = False  # which of them goes first is nobody's business
        self.pair.sent["close"] += 1
        line.hang_up()
        for server in self.pair.servers:
            server.fence_close()
        self.compare_rows(removal=True)
        return True

    def same_route(self, ext: dict[str, str | None], **how: Any) -> None:
        self.same(105, ext, **how)

    def do_delete_topic(self, kind: str, topic: Any, cluster: Any, binary: bool | None) -> None:
        self.same(216, {"topic": self.topic(topic), "clusterName": self.cluster(cluster)}, binary=binary)

    def do_topics_of_cluster(self, kind: str, cluster: Any, binary: bool | None) -> None:
        self.same(224, {"cluster": self.cluster(cluster)}, binary=binary)

    def same_where_known(self, code: int, ext: dict[str, str | None] | None, body: bytes = b"", **how: Any) -> None:
        self.same(code, ext, body, **how)

    def do_put_kv(self, kind: str, namespace: Any, key: Any, value: str | None, binary: bool | None) -> None:
        self.same(100, {**self._kv(namespace, key), "value": value}, binary=binary)

    def _settle_system_topics(self, java: dict[str, Any], ours: dict[str, Any]) -> None:
        pass

    def _settle_flags(self, java: dict[str, Any], ours: dict[str, Any]) -> None:
        pass

    # at the end

    def compare_tables(self) -> None:
        """Every front end is asked for everything; then what Redis holds, what the stream tells, and every event."""
        several = self.pair.ours
        for number in range(len(several.ports)):
            several.pinned = number
            try:
                super().compare_tables()
            finally:
                several.pinned = None
        events = [server.follow() for server in self.pair.servers]
        if self.in_order and events[0] != events[1]:
            at = next((n for n, (a, b) in enumerate(zip(*events, strict=False)) if a != b), min(map(len, events)))
            raise Difference(self.where, [f"event {at}: one: {events[0][at:][:1]} several: {events[1][at:][:1]}"])
        self.must_agree(*(server.live() for server in self.pair.servers), "live info")
        replayed = [plain(server.replayed) for server in self.pair.servers]
        self.must_agree(*replayed, "the tables that the streams tell")
        if self.pair.sequences % READ_EVERY == 0:
            for server, found, told in zip(self.pair.servers, self.pair.tables(), replayed, strict=True):
                self.must_agree(plain(found), told, f"tables of {server.name} in Redis, and as its stream tells them")

    def clean_up(self) -> None:
        """Also of what only Redis knows, or it would expire in the middle of a later sequence."""
        super().clean_up()
        for server in self.pair.servers:
            server.fence_close()
            for fields in server.live().values():
                for name in [field[5:] for field in fields if field.startswith("name:")] or ["any"]:
                    server.unregister(fields["cluster"], name, fields["addr"])
            self.must_agree(server.live(), {}, f"{server.name} after cleaning up")
