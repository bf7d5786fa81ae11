"""Stock brokers and mqadmin where rules are enforced: with the right key all works, with others nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.servers.processes import Processes, wait_until
from mqregistry.auth.rights import Role
from tests.server.auth_bed import Rules, broker_user, secret_of, user
from tests.server.serving import Serving

from .auth_peers import AdminWithKey, play_mqadmin, signing
from .name_servers import OURS, REGISTER_TIMEOUT_S, Kind
from .rocketmq import BROKER_NAME, CLUSTER, Broker, Client, Release
from .wire import route_addresses

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

BUILT_IN_TOPIC = "SELF_TEST_TOPIC"
FLOW_TIMEOUT_S = 60


class Place:
    """A front end that enforces rules, and a broker of a release."""

    def __init__(self, serving: Serving, rules: Rules, processes: Processes, release: Release) -> None:
        self.serving, self.rules, self.processes, self.release = serving, rules, processes, release
        self.addr = f"127.0.0.1:{serving.port}"

    @property
    def signs(self) -> bool:
        """Whether brokers of this release sign what they send to name servers."""
        return self.release.version.startswith("5.")

    def broker(self, secret_key: str = "") -> Broker:
        """It signs if it can; otherwise it is known by its network."""
        properties: dict[str, object] = {}
        if self.signs:
            properties = signing("broker", secret_key or secret_of("broker"))
        broker = Broker(self.processes, self.release, self.addr, properties)
        broker.start()
        return broker

    def is_registered(self, broker: Broker) -> bool:
        return route_addresses(self.serving.port, BUILT_IN_TOPIC) == {broker.addr}


@pytest.fixture
def place(under_test: Kind, release: Release, processes: Processes, redis_url: str, tmp_path: Path) -> Iterator[Place]:
    if under_test.name != OURS:
        pytest.skip("no other name server has rules")
    serving = Serving(tmp_path, redis_url)
    rules = Rules(redis_url, serving.namespace)
    place = Place(serving, rules, processes, release)
    known = {} if place.signs else {"key": None, "networks": ("127.0.0.1/32",)}
    policy = rules.begin("enforce", broker_user("broker", BROKER_NAME, CLUSTER, **known), user("ops", Role.OPERATOR))
    wait_until("the rules are in force", lambda: serving.metrics()["auth_revision"] == policy.revision, 20)
    try:
        yield place
    finally:
        serving.close()
        rules.close()


def test_a_broker_that_is_known_registers_and_messages_flow(place: Place) -> None:
    broker = place.broker()
    wait_until("it is registered", lambda: place.is_registered(broker), REGISTER_TIMEOUT_S)
    client = Client(place.processes, place.release, place.addr, "flows")
    client.send(200)
    counts = client.wait_for_all(FLOW_TIMEOUT_S)
    assert (counts.acknowledged, counts.received, counts.failures) == (200, 200, 0), counts
    assert not [row for row in place.rules.refused() if row.kind.user == "broker"], place.rules.refused()
    broker.process.end()
    wait_until("it left", lambda: not place.rules.names("brokers"), REGISTER_TIMEOUT_S)


def test_a_broker_with_a_wrong_key_is_told_so_and_changes_nothing(place: Place) -> None:
    if not place.signs:
        pytest.skip("it cannot sign")
    place.broker("a wrong secret")
    wait_until(
        "it was refused",
        lambda: any(row.kind.reason == "wrong_signature" for row in place.rules.refused()),
        REGISTER_TIMEOUT_S,
    )
    assert place.rules.names("brokers") == set()


def test_mqadmin_with_the_right_key_writes_and_with_others_not(place: Place) -> None:
    broker = place.broker()
    wait_until("it is registered", lambda: place.is_registered(broker), REGISTER_TIMEOUT_S)
    play_mqadmin(AdminWithKey(place.processes, place.release), place.addr, place.rules, {BROKER_NAME: broker})
