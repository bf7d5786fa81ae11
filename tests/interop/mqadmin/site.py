"""Brokers that are registered at two Java NameServers and at two front ends of ours at once, and mqadmin for both."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.servers.processes import Processes, wait_until

from ..name_servers import JavaNameServers, NameServer, OurNameServers
from ..rocketmq import CLUSTER, Admin, Broker, Client, Release
from ..tap import Frame, Tap
from ..wire import WireClient

MASTER, SLAVE = "broker-a", "broker-a slave"
OTHER = "broker-b"

STEADY_TOPIC, STEADY_MESSAGES = "steady", 20

# For 5.x, which without its timer wheel cannot delete topics, and without a place for them knows no users; 4.8.0 does
# not mind keys that it does not know.
AUTH = "org.apache.rocketmq.auth"
PROPERTIES: dict[str, object] = {
    "timerWheelEnable": True,
    "mappedFileSizeTimerLog": 1 << 20,
    "authenticationMetadataProvider": f"{AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": f"{AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}

REGISTER_TIMEOUT_S = 60
AGREE_TIMEOUT_S = 40
FLOW_TIMEOUT_S = 60
GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206


@dataclass(frozen=True)
class Side:
    """Two name servers of one kind, and mqadmin with both in its list."""

    name: str
    word: str
    """Stands in the names of what commands make with this side, so that the sides keep out of each other's way."""
    name_servers: tuple[NameServer, ...]
    taps: tuple[Tap, ...]

    @property
    def addr(self) -> str:
        """What mqadmin gets as its list."""
        return ";".join(tap.addr for tap in self.taps)

    def requests(self, since: float) -> list[Frame]:
        """What came through mqadmin's address list from that moment of the monotonic clock on."""
        return [frame for tap in self.taps for frame in tap.frames() if frame.at >= since and not frame.is_response]


@dataclass(frozen=True)
class Site:
    release: Release
    java: Side
    ours: Side
    brokers: dict[str, Broker]
    admin: Admin
    folder: Path

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.java, self.ours

    def wait_until_agreed(self) -> None:
        """Until all name servers have the same tables, as 106, 206 and the 105 of every topic show them."""

        def differences() -> list[str]:
            first, *others = [(server, tables(server.port)) for side in self.sides for server in side.name_servers]
            return [
                f"{key} at {first[0].addr}: {first[1].get(key)}; at {server.addr}: {table.get(key)}"
                for server, table in others
                for key in sorted(first[1].keys() | table.keys())
                if first[1].get(key) != table.get(key)
            ]

        last: list[str] = []

        def agreed() -> bool:
            last[:] = differences()
            return not last

        try:
            wait_until("all name servers have the same tables", agreed, AGREE_TIMEOUT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}:\n" + "\n".join(last[:20])) from None

    def wait_for_brokers(self) -> None:
        """Until the brokers are registered at every name server."""
        addrs = {broker.addr for broker in self.brokers.values()}
        servers = [server for side in self.sides for server in side.name_servers]

        def missing() -> list[str]:
            return [f"{addr} at {server.addr}" for server in servers for addr in addrs - set(_registered(server.port))]

        wait_until("all brokers are registered", lambda: not missing(), REGISTER_TIMEOUT_S)


def tables(port: int) -> dict[str, Any]:
    """All that a name server shows of its tables, in an order that does not depend on it."""
    with WireClient(port) as client:
        body = client.request(GET_ALL_TOPIC_LIST_FROM_NAMESERVER)[1]
        topics = json.loads(body)["topicList"]
        return {"cluster info": ordered(client.cluster_info())} | {
            f"route of {topic}": ordered(client.route(topic)) for topic in topics
        }


def ordered(value: Any) -> Any:
    """JSON whose lists, all of which are sets to RocketMQ, are sorted."""
    match value:
        case dict():
            return {key: ordered(value[key]) for key in sorted(value)}
        case list():
            return sorted((ordered(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
        case _:
            return value


def _registered(port: int) -> Iterator[str]:
    with WireClient(port) as client:
        for row in client.cluster_info()["brokerAddrTable"].values():
            yield from row["brokerAddrs"].values()


@contextmanager
def open_site(processes: Processes, release: Release) -> Iterator[Site]:
    with ExitStack() as stack:
        java = JavaNameServers(lambda: release, release.version)

        def side(name: str, word: str, name_servers: Sequence[NameServer]) -> Side:
            taps = tuple(stack.enter_context(Tap(server.port)) for server in name_servers)
            return Side(name, word, tuple(name_servers), taps)

        # Open as long as the site: a process on its leash ends with the thread that started it.
        pool = stack.enter_context(ThreadPoolExecutor())
        both = (
            pool.submit(java.start_two, processes),
            pool.submit(OurNameServers().start_two, processes, _properties(release)),
        )
        sides = side("Java", "east", both[0].result()), side("ours", "west", both[1].result())
        addrs = ";".join(server.addr for each in sides for server in each.name_servers)
        brokers = {
            MASTER: Broker(processes, release, addrs, PROPERTIES),
            SLAVE: Broker(processes, release, addrs, PROPERTIES | {"brokerId": 1, "brokerRole": "SLAVE"}),
            OTHER: Broker(processes, release, addrs, PROPERTIES | {"brokerName": OTHER}),
        }
        _start_all(pool, brokers.values())
        site = Site(release, *sides, brokers, Admin(processes, release), processes.home("exports"))
        _write_files(site)
        site.wait_for_brokers()
        # Made by its first message, the topic would stand at one broker only.
        site.admin.run("updateTopic", sides[0].addr, "-c", CLUSTER, "-t", STEADY_TOPIC, "-r", "4", "-w", "4")
        client = _start_client(processes, release, addrs)
        client.send(STEADY_MESSAGES)
        client.wait_for_all(FLOW_TIMEOUT_S)
        site.wait_until_agreed()
        yield site


def _start_client(processes: Processes, release: Release, addrs: str) -> Client:
    """One that has no answer within 3 s of its start, as on a machine with much other work, gives up: then another."""
    for _ in range(2):
        with contextlib.suppress(AssertionError):
            return Client(processes, release, addrs, STEADY_TOPIC)
    return Client(processes, release, addrs, STEADY_TOPIC)


def _properties(release: Release) -> dict[str, object]:
    """Ours behave as the Java NameServer of that release."""
    return {"compat": "4.8"} if release.version.startswith("4.") else {}


def _start_all(pool: ThreadPoolExecutor, brokers: Iterable[Broker]) -> None:
    for started in [pool.submit(broker.start) for broker in brokers]:
        started.result()


def _write_files(site: Site) -> None:
    """What commands that read a file are given."""
    for side in site.sides:
        topic = {"topicName": f"listed-{side.word}", "readQueueNums": 3, "writeQueueNums": 3, "perm": 6}
        group = {"groupName": f"listed-{side.word}", "consumeEnable": True, "retryQueueNums": 2}
        (site.folder / f"topics-{side.word}.json").write_text(json.dumps([topic]))
        (site.folder / f"groups-{side.word}.json").write_text(json.dumps([group]))
