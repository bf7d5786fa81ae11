"""The status that each process of a registry writes into Redis, and how it is read (:func:`read_fleet`).

A worker sends its status with the renewal of its lease, a sweeper with the call that cleans up after dead workers, each
about once a second (lua/include/processes.lua). The status of a front end is computed from that of its workers.
"""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypedDict

import msgspec

from .. import __version__
from ..drain import DrainFacts
from ..events.by import host_name
from ..names import printable
from . import keys
from .leases import LEASE_MS
from .snapshot import read_head
from .store import Store

logger = logging.getLogger(__name__)

# A sweeper writes its status every second, and every five while its sweeps fail.
SWEEPER_SILENT_MS: Final = 10_000
# The most connections of brokers whose addresses one worker writes: if one address changes, it writes all again.
PEERS_MOST: Final = 2000


class WorkerFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="worker", tag_field="kind"):
    """The status of a worker of a front end."""

    front_end: str  # the id of its front end, which channels have
    name: str  # the name of its front end, which events have
    host: str
    pid: int
    release: str
    started_ms: int
    address: str  # host:port at which clients and brokers reach the front end
    http_address: str = ""  # host:port of its HTTP port; "" = it has none
    index: int = 0  # its place among the workers of the front end, from 0
    workers: int = 1  # how many workers the front end has
    view: str = ""  # state of its tables (Freshness)
    ready: bool = False  # it has tables, and accepts connections
    draining: bool = False
    seq: int = 0  # of the last change that its tables have
    connections: int = 0
    brokers: int = 0  # broker processes that are connected to this worker
    # a sentence for each of its brokers with an address that other machines probably cannot reach
    unreachable: list[str] = []
    # settings that the front end was started with, key -> value and source, without secrets; only the first worker has
    # them (:func:`mqregistry.config.in_force.own_values`)
    settings: dict[str, tuple[str, str]] = {}
    drains: dict[str, DrainFacts] = {}  # of brokerNames that lost write permission while it followed the changes


class SweeperFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="sweeper", tag_field="kind"):
    """The status of a sweeper, after each sweep."""

    host: str
    pid: int
    release: str
    started_ms: int
    front_end: str = ""  # the name of the front end that it runs in; "" = it has a process of its own
    http_address: str = ""  # host:port of its own /metrics; "" = it has none
    expired: int = 0  # brokers that it removed because they were silent
    reaped: int = 0  # brokers that it removed after their process had ended


class ThisProcess(TypedDict):
    """The facts that every process has."""

    host: str
    pid: int
    release: str
    started_ms: int


def this_process() -> ThisProcess:
    """The facts of the calling process, which has just started."""
    return {
        "host": host_name(), "pid": os.getpid(), "release": __version__, "started_ms": round(time.time() * 1000),
    }  # fmt: skip


class PeerAddress(NamedTuple):
    """The client side of a broker's connection: ``host:port``, and the ``host:port`` of a proxy between ("" = none)."""

    address: str
    via: str = ""


class WorkerNow(msgspec.Struct, frozen=True, kw_only=True):
    """A worker and its status. told_ms: its last lease renewal, by the clock of Redis; gone: its lease ran out."""

    incarnation: str
    told_ms: int
    gone: bool
    facts: WorkerFacts


class SweeperNow(msgspec.Struct, frozen=True, kw_only=True):
    """A sweeper and its status. ``last_sweep_ms``: by the clock of Redis; ``gone``: its next sweep is long overdue."""

    id: str
    last_sweep_ms: int
    gone: bool
    facts: SweeperFacts

    @property
    def place(self) -> str:
        """The name of its front end, or of its machine if it has a process of its own."""
        return f"in {self.facts.front_end}" if self.facts.front_end else f"on {self.facts.host}"


class FrontEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A front end, by the status of its workers; a worker that was replaced is left out."""

    id: str
    name: str
    address: str
    http_address: str
    # ready, draining, not ready (a worker is missing or has no tables yet), or gone (no worker has its lease)
    state: str
    host: str
    release: str
    started_ms: int
    told_ms: int  # the last lease renewal of any of its workers
    seq: int  # of the last change that its slowest worker has
    behind: int  # how many changes its slowest worker lacks
    connections: int
    brokers: int
    workers_expected: int
    workers: list[WorkerNow]
    settings: dict[str, tuple[str, str]] = {}  # as in WorkerFacts


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """Every front end and sweeper of a namespace that runs, or ended less than an hour ago."""

    now_ms: int  # by the clock of Redis
    up_since_ms: int  # the end of the last time without any lease renewal (lua/include/seen)
    seq: int  # of the last change in Redis
    front_ends: list[FrontEnd]
    sweepers: list[SweeperNow]


_facts = msgspec.json.Decoder(WorkerFacts | SweeperFacts)
_peers = msgspec.json.Decoder(dict[str, PeerAddress])


def encode_peers(peers: Iterable[tuple[str, PeerAddress]]) -> bytes:
    """Encode the first ``PEERS_MOST`` pairs of a who and its address, for Redis."""
    return msgspec.json.encode(dict(itertools.islice(peers, PEERS_MOST)))


async def read_fleet(store: Store) -> Fleet:
    """Read the status of every front end and sweeper."""
    head = await read_head(store)
    workers, sweepers = await _read_processes(store, head.now_ms)
    return Fleet(
        now_ms=head.now_ms,
        up_since_ms=head.up_since_ms,
        seq=head.seq,
        front_ends=front_ends_of(workers, seq=head.seq),
        sweepers=sorted(sweepers, key=lambda one: (one.gone, one.facts.front_end or one.facts.host, one.facts.pid)),
    )


async def _read_processes(store: Store, now_ms: int) -> tuple[list[WorkerNow], list[SweeperNow]]:
    (entries,) = await store.read(("HGETALL", keys.processes(store.namespace)))
    workers: list[WorkerNow] = []
    sweepers: list[SweeperNow] = []
    for raw_id, value in entries.items():
        told, _, text = value.partition(b" ")
        try:
            told_ms, facts, name = int(told), _facts.decode(text), raw_id.decode()
        except ValueError as error:  # perhaps another release wrote the status
            logger.debug("the status of the process %r cannot be read: %s", raw_id, error)
            continue
        silent_ms = now_ms - told_ms
        if isinstance(facts, WorkerFacts):
            workers.append(WorkerNow(incarnation=name, told_ms=told_ms, gone=silent_ms > LEASE_MS, facts=facts))
        else:
            gone = silent_ms > SWEEPER_SILENT_MS
            sweepers.append(SweeperNow(id=name, last_sweep_ms=told_ms, gone=gone, facts=facts))
    return workers, sweepers


async def read_front_ends_of_the_hour(store: Store) -> list[FrontEnd]:
    """Every front end that wrote a status within the last hour, also replaced ones."""
    head = await read_head(store)
    workers, _ = await _read_processes(store, head.now_ms)
    return front_ends_of(workers, seq=head.seq, replaced=True)


def front_ends_of(workers: Iterable[WorkerNow], *, seq: int, replaced: bool = False) -> list[FrontEnd]:
    """The front ends of these workers: running front ends first, by name.

    ``replaced``: also front ends that ended when a running front end has the same name and address.
    """
    newest: dict[str, dict[int, WorkerNow]] = {}
    for worker in sorted(workers, key=lambda one: (one.facts.started_ms, one.told_ms)):
        newest.setdefault(worker.facts.front_end, {})[worker.facts.index] = worker
    found = [_front_end(name, [of[index] for index in sorted(of)], seq) for name, of in newest.items()]
    there = {(one.name, one.address) for one in found if one.state != "gone"}
    kept = [one for one in found if replaced or one.state != "gone" or (one.name, one.address) not in there]
    return sorted(kept, key=lambda one: (one.state == "gone", one.name, one.started_ms))


def _front_end(name: str, workers: list[WorkerNow], seq: int) -> FrontEnd:
    there = [worker for worker in workers if not worker.gone]
    counted = [worker.facts for worker in there or workers]
    first = counted[0]
    if not there:
        state = "gone"
    elif any(facts.draining for facts in counted):
        state = "draining"
    elif sum(facts.ready for facts in counted) < first.workers:
        state = "not ready"
    else:
        state = "ready"
    reached = min(facts.seq for facts in counted)
    return FrontEnd(
        id=name, name=first.name, address=first.address, http_address=first.http_address, state=state,
        host=first.host, release=first.release, started_ms=min(worker.facts.started_ms for worker in workers),
        told_ms=max(worker.told_ms for worker in workers), seq=reached, behind=max(0, seq - reached),
        connections=sum(facts.connections for facts in counted), brokers=sum(facts.brokers for facts in counted),
        workers_expected=first.workers, workers=workers,
        settings=next((facts.settings for facts in counted if facts.settings), {}),
    )  # fmt: skip


class BrokerConnection(msgspec.Struct, frozen=True, rename="camel"):
    """A broker's connection to a front end."""

    # name of the front end; its id if it wrote no status; "direct": the broker writes to Redis itself
    front_end: str
    address: str  # of the front end, host:port
    worker: str  # incarnation of the worker
    peer: str  # the client side, host:port; "" = not known
    via: str  # host:port of a proxy between; "" = none or not known

    def __str__(self) -> str:
        text = self.front_end + (f" from {self.peer}" if self.peer else "") + (f" via {self.via}" if self.via else "")
        return printable(text)


class BrokerConnections:
    """Completes channels of brokers with names of front ends and addresses; made by :func:`read_connections`."""

    def __init__(self, workers: Mapping[str, WorkerFacts], peers: Mapping[str, Mapping[str, PeerAddress]]) -> None:
        self._workers = workers
        self._peers = peers

    def of(self, who: str, channels: Mapping[bytes, bytes]) -> list[BrokerConnection]:
        """The connections of a broker process. ``channels``: its HASH ``channels:<who>``."""
        found = []
        for front_end, channel in channels.items():
            incarnation = channel.partition(b"/")[0].decode("utf-8", "replace")
            facts = self._workers.get(incarnation)
            without_status = "direct" if front_end.startswith(b"direct:") else front_end.decode("utf-8", "replace")
            peer = self._peers.get(incarnation, {}).get(who, PeerAddress(""))
            found.append(
                BrokerConnection(
                    facts.name if facts else without_status, facts.address if facts else "", incarnation, peer.address,
                    peer.via,
                )
            )  # fmt: skip
        return sorted(found, key=lambda one: (one.front_end, one.worker))


async def read_connections(store: Store, now_ms: int) -> BrokerConnections:
    """Read the names of front ends, and the addresses of brokers' connections."""
    workers, _ = await _read_processes(store, now_ms)
    peers: dict[str, dict[str, PeerAddress]] = {}
    if workers:
        told = await store.read(
            *(("HGET", keys.peers(store.namespace), worker.incarnation) for worker in workers)
        )  # fmt: skip
        for worker, text in zip(workers, told, strict=True):
            try:
                peers[worker.incarnation] = _peers.decode(text or b"{}")
            except msgspec.DecodeError as error:
                logger.debug("the peers of the worker %s cannot be read: %s", worker.incarnation, error)
    return BrokerConnections({worker.incarnation: worker.facts for worker in workers}, peers)
