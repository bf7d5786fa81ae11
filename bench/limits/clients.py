"""Measures tens of thousands of clients of one front end: memory, lookups beside idle connections, route watches.

Several processes hold the connections, and the front end has several workers, because one process may not open so many
files (``ulimit -n``). The connections come from several loopback addresses, because one has only 28,000 ports.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import selectors
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.load import plan
from bench.load.histogram import Histogram
from bench.load.shapes import VERSION, clusters
from bench.load.tool import LoadGenerator
from bench.servers.peers import OurServer
from bench.servers.processes import Processes
from bench.servers.wire import ask
from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader
from mqregistry.protocol.watch import ROUTE_WATCH, WatchAnswer, WatchRequest

WORKERS = 3
ASKING = 2_000
ADDRESSES = 250
LOOKUPS_A_SECOND = 1_000
HOLD_MS = 60_000
FLEET = clusters("clients", "8 brokers of 100 topics", 1, 8, 100, all_by=8)
Say = Callable[[str], None]


def measure(
    say: Say, connections: int, watches: int, seconds: float, server_cores: Sequence[int], other_cores: Sequence[int]
) -> dict[str, Any]:
    """Run all steps, with all processes of mqregistry on the server core."""
    with tempfile.TemporaryDirectory(prefix="mqb", ignore_cleanup_errors=True) as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        lookups, registrations = FLEET.write(folder)
        processes = Processes(Path(tempfile.mkdtemp(prefix="mq", dir=folder)))
        stack.callback(processes.close)
        server = OurServer(WORKERS, 1, processes, server_cores, "clients")
        stack.callback(server.stop)
        generator = stack.enter_context(LoadGenerator(server.port, lookups, registrations, other_cores))
        count = len(FLEET.brokers)
        done = generator.run(reg_parallel=count, reg_each=1).registrations
        assert done.codes == {"0": count}, done
        found: dict[str, Any] = {"connections": connections, "watches": watches, "workers": WORKERS}
        found["alone"] = _rate(generator, seconds)
        before_mb = _workers_mb(server)
        share = connections // WORKERS
        holders = [stack.enter_context(_holder(server.port, number, share)) for number in range(WORKERS)]
        for holder in holders:
            holder.recv()
        found["bytes_each"] = (_workers_mb(server) - before_mb) * 1e6 / connections
        say(f"{connections:,} connections: {found['bytes_each'] / 1e3:.2f} kB each")
        found["beside"] = _rate(generator, seconds)
        say(f"{ASKING:,} that ask: alone {found['alone']:,.0f}/s, beside the others {found['beside']:,.0f}/s")
        found |= _told(server, generator, holders, watches, say)
    return found


def _rate(generator: LoadGenerator, seconds: float) -> float:
    return generator.run(connections=ASKING, inflight=1, seconds=seconds).rate


def _workers_mb(server: OurServer) -> float:
    return sum(mb for name, mb in server.pss_by_process().items() if "redis" not in name)


def _told(
    server: OurServer, generator: LoadGenerator, holders: Sequence[Connection], watches: int, say: Say
) -> dict[str, Any]:
    """Change a topic; how long until each client that watches it gets the change, and lookups meanwhile."""
    topic = FLEET.topics[FLEET.brokers[0].topics[0]]
    for holder in holders:
        holder.send((topic, watches // len(holders)))
    for holder in holders:
        holder.recv()
    with generator.lookups_beside(LOOKUPS_A_SECOND) as parts:
        with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), timeout=60)) as line:
            changed_s = time.monotonic()
            fields = {"brokerName": FLEET.brokers[0].name}
            assert ask(line, Command(code=205, opaque=1, version=VERSION, ext_fields=fields)).code == 0
        told_s = sorted(itertools.chain.from_iterable(holder.recv() for holder in holders))
    latency = Histogram.sum(parts)
    took_s = [one - changed_s for one in told_s]
    found = {
        "told_p50_s": statistics.median(took_s), "told_all_s": took_s[-1],
        "meanwhile": {"p50_ms": latency.percentile_ms(50), "p99_ms": latency.percentile_ms(99)},
    }  # fmt: skip
    say(
        f"{len(took_s):,} watches told of a change: half of them after {found['told_p50_s']:.2f} s, all after "
        f"{found['told_all_s']:.2f} s; small lookups meanwhile p99 {latency.percentile_ms(99):.2f} ms"
    )
    return found


# the processes that hold connections


@contextlib.contextmanager
def _holder(port: int, number: int, count: int) -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_hold, args=(theirs, port, number, count), daemon=True)
    process.start()
    try:
        yield ours
    finally:
        process.terminate()
        process.join()


class _Client:
    """One connection. told_s: when it got the change; it then looks up the route, and goes on watching."""

    def __init__(self, port: int, host: str) -> None:
        self.line = socket.create_connection(("127.0.0.1", port), timeout=120, source_address=(host, 0))
        self.reader = FrameReader()
        self.told_s = 0.0

    def answers(self) -> list[Command]:
        data = self.line.recv(1 << 16)
        assert data, "the front end closed the connection"
        return [decode_command(frame) for frame in self.reader.feed(data)]

    def request(self, command: Command) -> Command:
        self.line.sendall(encode_command(command))
        while not (answers := self.answers()):
            pass
        return answers[0]

    def watch(self, topic: str, answer: Command | None) -> bytes:
        found = WatchAnswer.decode(0, answer.ext_fields, answer.body) if answer else None
        ext_fields, body = WatchRequest(frozenset([topic]), HOLD_MS, found.position if found else None).encode()
        return encode_command(Command(code=ROUTE_WATCH, opaque=7, version=VERSION, ext_fields=ext_fields, body=body))


def _hold(pipe: Connection, port: int, number: int, count: int) -> None:
    clients = [_Client(port, f"127.0.{number + 1}.{one % ADDRESSES + 1}") for one in range(count)]
    for client in clients:
        client.request(Command(code=105, opaque=1, version=VERSION, ext_fields={"topic": "none"}))
    pipe.send(None)
    topic, watches = pipe.recv()
    poll = selectors.DefaultSelector()
    for client in clients[:watches]:
        client.line.sendall(client.watch(topic, None))
        client.line.sendall(client.watch(topic, client.answers()[0]))
        poll.register(client.line, selectors.EVENT_READ, client)
    pipe.send(None)
    left = watches
    while left:
        for key, _ in poll.select():
            client = key.data
            for answer in client.answers():
                if answer.opaque == 7 and not client.told_s:
                    client.told_s = time.monotonic()
                    left -= 1
                    client.line.sendall(plan.lookup(topic, VERSION) + client.watch(topic, answer))
    pipe.send([client.told_s for client in clients[:watches]])
    pipe.recv()
