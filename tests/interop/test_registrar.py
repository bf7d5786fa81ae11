"""BrokerRegistrar beside a real broker with the same settings: the same words on the wire, the same picture of it.

A real broker registers, through a tap, at a Java name server of its release and at ours; then it ends, and a
registrar that was told the same takes its place, address and all.
"""

import asyncio
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from bench.servers.processes import Processes, wait_until
from mqregistry.client.broker.registrar import BrokerConfig, BrokerRegistrar, Pace, TopicTable
from mqregistry.model import DataVersion, TopicConfig

from .conftest import ALL, VERSIONS, release_or_skip
from .name_servers import JavaNameServers, NameServer, OurNameServers
from .rocketmq import BROKER_NAME, Admin, Broker, Release
from .tap import Frame, Tap
from .wire import WireClient

# The first test may have to fetch a release; every wait has a deadline of its own.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

REGISTER_BROKER, UNREGISTER_BROKER, QUERY_DATA_VERSION, BROKER_HEARTBEAT = 103, 104, 322, 904
GET_ALL_TOPICS = 206
COMPLETE_S = 60
EXIT_S = 40
NEW_TOPIC = "made-later"


@dataclass(frozen=True)
class Scenario:
    """One broker's settings, in its words and in ours."""

    name: str
    versions: str
    """What its release's number starts with."""
    properties: Mapping[str, object]
    config: Mapping[str, Any]
    also_sends: int | None = None
    """The code that it sends from time to time besides registrations."""
    in_every_run: bool = False


SCENARIOS = [
    Scenario(
        "asks first, read only",
        "4.",
        {"forceRegister": False, "brokerPermission": 4},
        {"force_register": False, "broker_permission": 4},
        also_sends=QUERY_DATA_VERSION,
        in_every_run=True,
    ),
    Scenario(
        "acting master",
        "5.",
        {"enableSlaveActingMaster": True, "compatibleWithOldNameSrv": False},
        {"enable_slave_acting_master": True, "compatible_with_old_name_srv": False},
        also_sends=BROKER_HEARTBEAT,
        in_every_run=True,
    ),
    Scenario("compressed", "4.", {"compressedRegister": True}, {"compressed_register": True}),
    Scenario(
        "acting master, old name servers",
        "5.",
        {"enableSlaveActingMaster": True, "brokerPermission": 4, "brokerNotActiveTimeoutMillis": 15_000},
        {"enable_slave_acting_master": True, "broker_permission": 4, "broker_not_active_timeout_ms": 15_000},
        also_sends=QUERY_DATA_VERSION,
    ),
    Scenario("asks first", "5.", {"forceRegister": False}, {"force_register": False}, also_sends=QUERY_DATA_VERSION),
]


@dataclass
class Seen:
    """What one broker sent to one name server, and what that then told others."""

    registration: Frame
    one_topic: Frame
    also: Frame | None
    goodbye: Frame
    answers: list[tuple[int, Mapping[str, str], bytes]]
    picture: Mapping[str, Any]
    printed: Mapping[str, Any] = field(default_factory=dict)


def runs() -> Iterator[Any]:
    for version in VERSIONS:
        for scenario in SCENARIOS:
            if version.startswith(scenario.versions) and (ALL or scenario.in_every_run):
                yield pytest.param(version, scenario, id=f"{version}-{scenario.name}")


@pytest.mark.parametrize(("release", "scenario"), list(runs()), indirect=["release"])
def test_registrar_is_known_as_the_java_broker_is(
    release: Release, scenario: Scenario, processes: Processes, admin: Admin
) -> None:
    others = [version for version in VERSIONS if version != release.version] if ALL else []
    servers = [java(version).start(processes) for version in (release.version, *others)]
    servers.append(OurNameServers().start(processes))
    broker, theirs = watch_broker(processes, release, scenario, servers, admin)
    ours = asyncio.run(watch_registrar(broker, scenario, theirs, servers, admin))
    names = [f"Java {version}" for version in (release.version, *others)] + ["ours"]
    for server, of_java, of_registrar in zip(names, theirs, ours, strict=True):
        for what in ("registration", "one_topic", "also", "goodbye"):
            assert words(getattr(of_registrar, what)) == words(getattr(of_java, what)), f"{what} at {server}"
        assert of_registrar.answers == of_java.answers, server
        assert of_registrar.picture == of_java.picture, server
        assert of_registrar.printed == of_java.printed, server
    # Our name server and the Java one of the release say the same, too.
    assert ours[0].printed == ours[-1].printed


def java(version: str) -> JavaNameServers:
    return JavaNameServers(lambda: release_or_skip(version), version)


def watch_broker(
    processes: Processes, release: Release, scenario: Scenario, servers: list[NameServer], admin: Admin
) -> tuple[Broker, list[Seen]]:
    """Run a real broker until it has said everything."""
    with ExitStack() as stack:
        taps = [stack.enter_context(Tap(server.port)) for server in servers]
        broker = Broker(processes, release, ";".join(tap.addr for tap in taps), scenario.properties)
        broker.start()
        for tap in taps:
            wait_until(
                "it has registered and is answered", lambda tap=tap: complete(tap, scenario.also_sends), COMPLETE_S
            )
        admin.run("updateTopic", servers[0].addr, "-b", broker.addr, "-t", NEW_TOPIC, "-r", "4", "-w", "4")
        for tap, server in zip(taps, servers, strict=True):
            wait_until("the new topic is registered", lambda tap=tap: answered(tap, new_topic(tap)), COMPLETE_S)
            wait_until("the new topic is known", lambda server=server: route(server, NEW_TOPIC), COMPLETE_S)
        pictures = [picture(server) for server in servers]
        printed = [told(admin, server) for server in servers]
        broker.process.terminate(EXIT_S)
        return broker, [seen(tap, scenario, *shown) for tap, *shown in zip(taps, pictures, printed, strict=True)]


async def watch_registrar(
    broker: Broker, scenario: Scenario, theirs: list[Seen], servers: list[NameServer], admin: Admin
) -> list[Seen]:
    """Run a registrar in the broker's place until it has said everything, too."""
    first = theirs[0].registration
    config = BrokerConfig(
        broker_name=BROKER_NAME,
        broker_addr=broker.addr,
        ha_server_addr=f"127.0.0.1:{broker.port + 1}",
        version=first.header["version"],
        **scenario.config,
    )
    table = topic_table(first, scenario)
    with ExitStack() as stack:
        taps = [stack.enter_context(Tap(server.port)) for server in servers]
        name_servers = ";".join(tap.addr for tap in taps)
        async with BrokerRegistrar(config, table, name_servers, pace=Pace(0.5, 0.5)) as registrar:
            assert all(result.ok for result in registrar.results.values()), registrar.results
            for tap in taps:
                await until("it has said the usual", lambda tap=tap: complete(tap, scenario.also_sends))
            table.put_topic(NEW_TOPIC, 4, 4)
            for tap, server in zip(taps, servers, strict=True):
                await until("the new topic is registered", lambda tap=tap: answered(tap, new_topic(tap)))
                await until("the new topic is known", lambda server=server: route(server, NEW_TOPIC))
            pictures = [await asyncio.to_thread(picture, server) for server in servers]
            printed = [await asyncio.to_thread(told, admin, server) for server in servers]
        assert set(registrar.unregistered.values()) == {""}, registrar.unregistered
        return [seen(tap, scenario, *shown) for tap, *shown in zip(taps, pictures, printed, strict=True)]


async def until(what: str, probe: Any) -> None:
    await asyncio.to_thread(wait_until, what, probe, COMPLETE_S)


def topic_table(registration: Frame, scenario: Scenario) -> TopicTable:
    """The broker's own topics, from what it registered."""
    body = registration.registration()
    if "topics" in body:
        split = [line.split(" ") for line in body["topics"]]
        topics = [TopicConfig(name, int(read), int(write), int(perm)) for name, read, write, perm, *_ in split]
        version = body["dataVersion"]
    else:
        wrapper = body["topicConfigSerializeWrapper"]
        topics = [
            TopicConfig(
                topic["topicName"], topic["readQueueNums"], topic["writeQueueNums"],
                # What a read-only broker had taken away of it: one of its topics may not be read either.
                topic["perm"] | 3 if "broker_permission" in scenario.config else topic["perm"],
                topic["topicSysFlag"],
            )
            for topic in wrapper["topicConfigTable"].values()
        ]  # fmt: skip
        version = wrapper["dataVersion"]
    assert len(topics) > 5
    now = DataVersion(version["counter"], version["timestamp"], version.get("stateVersion", 0))
    return TopicTable(topics, data_version=now)


# What was said


def topics_of(frame: Frame) -> set[str]:
    body = frame.registration()
    if "topics" in body:
        return {line.split(" ")[0] for line in body["topics"]}
    return set(body["topicConfigSerializeWrapper"]["topicConfigTable"])


def full(tap: Tap) -> Frame | None:
    return next((frame for frame in tap.frames(REGISTER_BROKER) if len(topics_of(frame)) > 1), None)


def new_topic(tap: Tap) -> Frame | None:
    return next((frame for frame in tap.frames(REGISTER_BROKER) if topics_of(frame) == {NEW_TOPIC}), None)


def answered(tap: Tap, frame: Frame | None) -> bool:
    return frame is not None and tap.answer(frame) is not None


def complete(tap: Tap, also: int | None) -> bool:
    return answered(tap, full(tap)) and (also is None or bool(tap.frames(also)))


def seen(tap: Tap, scenario: Scenario, shown: Mapping[str, Any], printed: Mapping[str, Any]) -> Seen:
    wait_until(
        "it has said goodbye", lambda: any(answered(tap, frame) for frame in tap.frames(UNREGISTER_BROKER)), EXIT_S
    )
    registration, one_topic = full(tap), new_topic(tap)
    assert registration is not None
    assert one_topic is not None
    also = tap.frames(scenario.also_sends)[0] if scenario.also_sends else None
    (goodbye,) = tap.frames(UNREGISTER_BROKER)
    answers = [answer for frame in (registration, one_topic, goodbye) if (answer := tap.answer(frame))]
    return Seen(
        registration, one_topic, also, goodbye,
        [(answer.code, answer.ext, answer.body) for answer in answers], shown, printed,
    )  # fmt: skip


def words(frame: Frame | None) -> Any:
    """What must be the same; times that go on, and a checksum that is right for its own bytes, are not."""
    if frame is None:
        return None
    header = {key: value for key, value in frame.header.items() if key not in ("language", "opaque", "extFields")}
    ext = frame.ext
    if frame.code != REGISTER_BROKER:
        return header, ext, frame.body
    assert int(ext.pop("bodyCrc32")) == zlib.crc32(frame.body) & 0x7FFF_FFFF
    body = frame.registration()
    versions = body.get("topicConfigSerializeWrapper", body)
    if "mappingDataVersion" in versions:
        versions["mappingDataVersion"]["timestamp"] = "now"
    if topics_of(frame) == {NEW_TOPIC}:
        versions["dataVersion"]["timestamp"] = "now"
    return header, ext, body


# What is seen of it


def route(server: NameServer, topic: str) -> Any:
    with WireClient(server.port) as client:
        return client.route(topic)


def picture(server: NameServer) -> dict[str, Any]:
    """Everything that the name server tells: the brokers, the topics, each topic's route."""
    with WireClient(server.port) as client:
        _, body = client.request(GET_ALL_TOPICS)
        topics = sorted(json.loads(body)["topicList"])
        return {"clusters": client.cluster_info(), "routes": {topic: client.route(topic) for topic in topics}}


def told(admin: Admin, server: NameServer) -> dict[str, Any]:
    """What mqadmin prints; of the columns that come from the broker itself, none."""
    return {
        "clusterList": admin.clusters(server.addr),
        "topicList": sorted(admin.run("topicList", server.addr).split()),
        "topicRoute": admin.route(server.addr, NEW_TOPIC),
    }
