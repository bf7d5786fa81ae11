"""Brokers that beat and clients that look up, in threads, while a test breaks things."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter

from mqregistry.protocol.bodies.route import decode_route

from .harness import Broker, Client, FrontEnd, wait_until


class Beating:
    """A broker that registers at every front end, again and again, and connects again when it must."""

    def __init__(self, broker: Broker, ports: list[int], *, period_s: float = 0.25) -> None:
        self.broker, self.ports, self.period_s = broker, list(ports), period_s
        self.answers: Counter[int | str] = Counter()
        self.welcome = False
        """Whether every front end took the last round."""
        self._clients: dict[int, Client] = {}
        self._stop = threading.Event()
        self._round = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._round:
                self.welcome = all([self._beat(port) for port in self.ports])
            self._stop.wait(self.period_s)
        for client in self._clients.values():
            client.close()

    def connect(self, port: int) -> Client:
        """A new connection."""
        return Client(port, timeout_s=4)

    def add_topics(self, topics: dict[str, tuple[int, int, int]]) -> None:
        """A new version of the broker, between two rounds: the first front end is the first that hears of it."""
        wait_until(lambda: self.welcome, "every front end takes this broker")
        with self._round:
            self.broker.counter += 1
            self.broker.topics |= topics

    def _beat(self, port: int) -> bool:
        try:
            client = self._clients.get(port)
            if client is None:
                client = self._clients[port] = self.connect(port)
            code = client.register(self.broker).code
            self.answers[code] += 1
            return code == 0
        except (OSError, AssertionError) as error:
            self.answers[type(error).__name__] += 1
            client = self._clients.pop(port, None)
            if client is not None:
                client.close()
            return False

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class Watching:
    """A client that asks every front end for routes all the time and keeps the answers that are wrong.

    topics: topic -> broker names that every answer must name (None: any answer with a route will do).
    """

    def __init__(self, front_ends: list[FrontEnd], topics: dict[str, set[str] | None]) -> None:
        self.front_ends, self.topics = front_ends, topics
        self.asked = 0
        self.wrong: list[str] = []
        self.unreachable: Counter[int] = Counter()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(front_end,), daemon=True) for front_end in front_ends]
        for thread in self._threads:
            thread.start()

    def _run(self, front_end: FrontEnd) -> None:
        client: Client | None = None
        while not self._stop.is_set():
            try:
                client = client or Client(front_end.port, timeout_s=4)
                for topic, names in self.topics.items():
                    reply = client.route(topic)
                    if reply.code == 1500:  # as clients do: another connection
                        raise OSError("sent away")
                    self.asked += 1
                    if reply.code != 0:
                        self.wrong.append(f"port {front_end.port}: {topic}: code {reply.code}: {reply.remark}")
                    elif names is not None:
                        found = set(decode_route(reply.body).broker_rows)
                        if not names <= found:
                            self.wrong.append(f"port {front_end.port}: {topic}: only {sorted(found)}")
            except (OSError, AssertionError):
                self.unreachable[front_end.port] += 1
                if client is not None:
                    client.close()
                client = None
            self._stop.wait(0.005)
        if client is not None:
            client.close()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@contextlib.contextmanager
def beating(brokers: list[Broker], front_ends: list[FrontEnd], **options: float):
    """Brokers that beat at all of these front ends for the length of a block, all registered when it begins."""
    fleet = [Beating(broker, [front_end.port for front_end in front_ends], **options) for broker in brokers]
    try:
        for front_end in front_ends:
            front_end.wait_until(
                lambda front_end=front_end: front_end.poll().get("brokers_alive") == len(brokers),
                f"{len(brokers)} brokers registered",
            )
        yield fleet
    finally:
        for member in fleet:
            member.stop()


@contextlib.contextmanager
def watching(front_ends: list[FrontEnd], topics: dict[str, set[str] | None]):
    """Lookups for the length of a block; fails at its end if any answer was wrong."""
    watch = Watching(front_ends, topics)
    try:
        yield watch
    finally:
        watch.stop()
    assert watch.asked > 0
    assert not watch.wrong, f"{len(watch.wrong)} wrong of {watch.asked}, the first: " + "\n".join(watch.wrong[:5])
