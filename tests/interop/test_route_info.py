"""Random routes: the queues that we see in them are those that the Java client of each release sees."""

import json
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from bench.servers.processes import Processes
from mqregistry.client.routes.queues import publish_info, route_changed, static_endpoints, subscribe_info
from mqregistry.client.routes.tables import RouteTables
from mqregistry.errors import RemoteProtocolError
from mqregistry.model import TopicRoute
from mqregistry.protocol.bodies.route import decode_route

from .rocketmq import ANSWER_TIMEOUT_S, START_TIMEOUT_S, Console, Release

# The first test may have to fetch a release.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

ROUTES = 300
SEED = 7
TOPIC = "topic1"
HIGHEST_ID = 4

NAMES = ["broker-a", "broker-b", "broker-B", "broker-10", "broker-9", "b", "br\u00f6ker", "\uff21", "\U0001f600"]
BAD_ORDER = ["broker-a", "broker-a:", "broker-a: 4", ";broker-a:4", "broker-a:4;;broker-b:4", ":", "broker-a:4x"]
ODD_ORDER = ["", ";", "broker-a:2;", "broker-a:+2:9", " broker-a:1", ":2", "nobody:3", "broker-a:-1;broker-b:0"]

Json = dict[str, Any]


class BareKey(int):
    """A key that is written without quotes."""


def written(value: Any) -> str:
    """JSON on one line, with bare integer keys where the value has them."""
    if isinstance(value, dict):
        members = (
            f"{key if isinstance(key, BareKey) else json.dumps(str(key))}:{written(member)}"
            for key, member in value.items()
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


@dataclass
class Routes:
    """Makes routes as a NameServer of 4.x or 5.x could answer them."""

    rng: random.Random
    five: bool

    def route(self) -> Json:
        rng = self.rng
        names = rng.sample(NAMES, rng.choice([0, 1, 2, 2, 3, 5]))
        route: Json = {
            "brokerDatas": [self._broker(name) for name in self._shuffled(names) if rng.random() < 0.9],
            "filterServerTable": {"127.0.0.1:1": ["127.0.0.1:2"]} if rng.random() < 0.1 else {},
            "queueDatas": [self._queue_data(name) for name in self._shuffled(names) if rng.random() < 0.95],
        }
        order = self._order(names)
        if order is not None:
            route["orderTopicConf"] = order
        if self.five and names and rng.random() < 0.3:
            route["topicQueueMappingByBroker"] = self._mappings(names)
        return route

    def changed(self, route: Json) -> Json:
        """The same with one member of another route, and all in another order; by chance nothing really changes."""
        other = self.route()
        key = self.rng.choice([*other, "nothing", "cluster"])
        if key == "cluster":
            other["brokerDatas"] = [broker | {"cluster": "c9"} for broker in route["brokerDatas"]]
            key = "brokerDatas"
        new = route | ({key: other[key]} if key in other else {})
        for kept in ("brokerDatas", "queueDatas"):
            new[kept] = self._shuffled(new[kept])
        return new

    def _shuffled(self, items: list[Any]) -> list[Any]:
        return self.rng.sample(items, len(items))

    def _keys(self, numbered: dict[int, Any]) -> dict[int, Any]:
        bare = self.rng.random() < 0.5
        return {BareKey(key) if bare else key: value for key, value in numbered.items()}

    def _broker(self, name: str) -> Json:
        rng = self.rng
        ids = [0] if rng.random() < 0.8 else []
        ids += rng.sample([1, 2, 3, 4], rng.choice([0, 0, 1, 2, 4]))
        addrs = {broker_id: f"10.0.{rng.randrange(3)}.{broker_id}:10911" for broker_id in ids}
        row = {"brokerAddrs": self._keys(addrs), "brokerName": name, "cluster": rng.choice(["c1", "c2"])}
        if self.five:
            row["enableActingMaster"] = rng.random() < 0.2
            if rng.random() < 0.2:
                row["zoneName"] = "z1"
        return row

    def _queue_data(self, name: str) -> Json:
        rng = self.rng
        nums = [0, 1, 2, 4, 8, 16]
        return {
            "brokerName": name,
            "perm": rng.choice([6, 6, 6, 6, *range(8)]),
            "readQueueNums": rng.choice(nums),
            "topicSysFlag" if self.five else "topicSynFlag": rng.choice([0, 0, 0, 1]),
            "writeQueueNums": rng.choice(nums),
        }

    def _order(self, names: list[str]) -> str | None:
        rng = self.rng
        kind = rng.random()
        if kind < 0.6:
            return None
        if kind < 0.7:
            return rng.choice(BAD_ORDER)
        if kind < 0.8:
            return rng.choice(ODD_ORDER)
        return ";".join(f"{name}:{rng.randrange(9)}" for name in self._shuffled(names))

    def _mappings(self, names: list[str]) -> Json:
        rng = self.rng
        total = rng.choice([0, 1, 4, 8])
        mappings = {}
        # Epochs are times in ms. They differ: of two equal ones Java takes that which its hash map gives last.
        epochs = rng.sample([-5, -1, 0, 1, 2, 1_600_000_000_000, 1_700_000_000_000], min(len(names), 3))
        for name, epoch in zip(names, epochs, strict=False):
            held = rng.sample(range(10), rng.randrange(6))
            mappings[name] = {
                "bname": name,
                "currIdMap": self._keys({queue_id: at for at, queue_id in enumerate(held)}),
                "dirty": False,
                "epoch": epoch,
                "scope": rng.choice(["__global__", "__global__", "__global__", "unit", "__global__2"]),
                "topic": TOPIC,
                "totalQueues": total if rng.random() < 0.8 else rng.randrange(9),
            }
        return mappings


def ours(text: str, older_text: str) -> Json:
    """What RouteInfo.java answers, of what we compute."""
    route, older = decode_route(text.encode()), decode_route(older_text.encode())
    answer: Json = {
        "subscribe": [[queue.broker_name, queue.queue_id] for queue in subscribe_info(TOPIC, route)],
        "endpoints": sorted(
            [queue.broker_name, queue.queue_id, holder] for queue, holder in static_endpoints(TOPIC, route).items()
        ),
        "changed": route_changed(older, route),
        "found": found(route),
    }
    try:
        info = publish_info(TOPIC, route)
        queues = [[queue.broker_name, queue.queue_id] for queue in info.queues]
        answer["publish"] = {"order": info.order, "queues": queues}
    except RemoteProtocolError:
        answer["publish"] = "error"
    return answer


def found(route: TopicRoute) -> Json:
    """Which addresses are found when only this route is known."""
    tables = RouteTables()
    tables.broker_addrs = {name: row.broker_addrs for name, row in route.broker_rows.items()}
    told: Json = {}
    for name in route.broker_rows:
        told[name] = {"publish": tables.find_broker_addr_in_publish(name)}
        for broker_id in range(HIGHEST_ID + 1):
            for only in (True, False):
                result = tables.find_broker_addr_in_subscribe(name, broker_id, only_this_broker=only)
                told[name][f"{broker_id} {'only' if only else 'any'}"] = list(result) if result else None
        told[name] = {key: value for key, value in told[name].items() if value is not None}
    return told


def theirs(line: str) -> Json:
    """The answer of RouteInfo.java, with that in order which Java leaves to its hashes."""
    answer = json.loads(line)
    publish = answer["publish"]
    if "error" in publish:
        assert publish["error"] in ("ArrayIndexOutOfBoundsException", "NumberFormatException")
        publish = "error"
    elif any(name.startswith("__syslo__") for name, _ in publish["queues"]):
        # Java sorts the queues of a static topic by id alone: those of several scopes stand in any order.
        ids = [queue_id for _, queue_id in publish["queues"]]
        assert ids == sorted(ids)
        publish["queues"].sort(key=lambda queue: (queue[1], queue[0]))
    return {
        "publish": publish,
        "subscribe": answer["subscribe"]["queues"],
        "endpoints": sorted(answer["endpoints"]),
        "changed": answer["changed"],
        "found": answer["found"],
    }


def kinds(answer: Json, route: Json) -> list[str]:
    publish = answer["publish"]
    if publish == "error":
        return ["bad order configuration"]
    found = ["ordered" if publish["order"] else "not ordered", "changed" if answer["changed"] else "same"]
    found += ["static"] if answer["endpoints"] else []
    found += ["static and ordered"] if answer["endpoints"] and "orderTopicConf" in route else []
    found += [] if publish["queues"] else ["nothing to send to"]
    found += [] if answer["subscribe"] else ["nothing to read from"]
    found += ["several clusters"] if len({broker["cluster"] for broker in route["brokerDatas"]}) > 1 else []
    return found


def test_random_routes_give_the_queues_that_the_java_client_sees(release: Release, processes: Processes) -> None:
    five = release.version.startswith("5.")
    routes = Routes(random.Random(SEED), five)
    home = processes.home("route-info")
    command = release.java("RouteInfo", home)
    console = Console(processes.start(f"RouteInfo {release.version}", command, home=home, steered=True))
    assert console.hear(START_TIMEOUT_S)[0] == "ready"

    pairs = []
    for _ in range(ROUTES):
        older = routes.route()
        route = routes.changed(older)
        pairs.append((route, written(route), written(older)))
        console.tell("\t".join((TOPIC, *pairs[-1][1:])))

    seen: Counter[str] = Counter()
    for route, text, older_text in pairs:
        answer = ours(text, older_text)
        assert answer == theirs(console.hear(ANSWER_TIMEOUT_S)[0]), f"{release.version}: {text}\nolder: {older_text}"
        seen.update(kinds(answer, route))

    expected = {"ordered", "not ordered", "bad order configuration", "changed", "same", "nothing to send to"}
    expected |= {"nothing to read from", "several clusters"} | ({"static", "static and ordered"} if five else set())
    assert set(seen) == expected, seen
    assert min(seen.values()) >= 5, seen
