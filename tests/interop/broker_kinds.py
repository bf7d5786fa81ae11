"""Brokers whose operators chose another way to register: compressed, with binary headers, or in parts."""

from dataclasses import dataclass

from bench.servers.processes import Processes

from .name_servers import JavaNameServers, Kind, NameServer, wait_for_registration
from .rocketmq import Broker, Release

COMPRESSED, BINARY, SPLIT = "compressed", "binary", "split"
BINARY_HEADERS = {"rocketmq.serialize.type": "ROCKETMQ"}


@dataclass(frozen=True)
class Kinds:
    """Brokers by kind, each under a name of its own, and their name servers."""

    brokers: dict[str, Broker]
    name_server: NameServer
    """Of all brokers."""
    forgetful: NameServer
    """Of the binary broker; its setting is to forget topics that a registration no longer has."""
    java: NameServer
    """In the list of all brokers."""
    at_java: set[str]
    """The kinds that it takes."""


def start_kinds(under_test: Kind, release: Release, processes: Processes) -> Kinds:
    five = release.version.startswith("5.")
    name_server = under_test.start(processes)
    forgetful = under_test.start(processes, {"deleteTopicWithBrokerRegistration": True})
    java = JavaNameServers(lambda: release, release.version).start(processes)
    settings: dict[str, dict[str, object]] = {COMPRESSED: {"compressedRegister": True}, BINARY: {}}
    at_java = {BINARY} if five else {COMPRESSED, BINARY}
    if five:
        # Every broker has more topics of its own than that.
        settings[SPLIT] = {"enableSplitRegistration": True, "splitRegistrationSize": 3}
        at_java.add(SPLIT)
    brokers = {}
    for kind, properties in settings.items():
        servers = [name_server, java] + [forgetful] * (kind == BINARY)
        brokers[kind] = Broker(
            processes,
            release.with_properties(BINARY_HEADERS) if kind == BINARY else release,
            ";".join(server.addr for server in servers),
            # Without its timers a 5.x broker fails to delete a topic.
            properties | {"brokerName": kind, "timerWheelEnable": True},
        )
        brokers[kind].start()
    for kind, broker in brokers.items():
        wait_for_registration(name_server, broker)
        if kind in at_java:
            wait_for_registration(java, broker)
    wait_for_registration(forgetful, brokers[BINARY])
    return Kinds(brokers, name_server, forgetful, java, at_java)
