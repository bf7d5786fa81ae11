"""Stock brokers and mqadmin where rules are enforced: with the right key all works, with others nothing changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest

from bench.servers.processes import Processes, wait_until
from mqregistry.auth.rights import Role
from tests.server.auth_bed import Rules, broker_user, secret_of, user
from tests.server.serving import Serving

from .name_servers import OURS, REGISTER_TIMEOUT_S, Kind
from .rocketmq import BROKER_NAME, CLUSTER, START_TIMEOUT_S, Admin, Broker, Client, Console, Release
from .wire import route_addresses

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

BUILT_IN_TOPIC = "SELF_TEST_TOPIC"
FLOW_TIMEOUT_S = 60
PROVIDER = "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"


class AdminWithKey(Admin):
    """mqadmin with ``conf/tools.yml``; access_key None: without."""

    def __init__(self, processes: Processes, release: Release, access_key: str | None, secret_key: str = "") -> None:
        super().__init__(processes, release)
        self._credentials = access_key, secret_key

    @cached_property
    def _console(self) -> Console:
        home = self._processes.home(f"mqadmin-{self._release.version}")
        access_key, secret_key = self._credentials
        if access_key is not None:
            (home / "conf").mkdir()
            (home / "conf" / "tools.yml").write_text(f"accessKey: {access_key}\nsecretKey: {secret_key}\n")
        command = self._release.java("AdminConsole", home)
        console = Console(self._processes.start("mqadmin", command, home=home, steered=True))
        console.hear(START_TIMEOUT_S)
        return console


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
            credentials = {"accessKey": "broker", "secretKey": secret_key or secret_of("broker")}
            properties = {
                "innerClientAuthenticationCredentials": json.dumps(credentials),
                "authenticationMetadataProvider": PROVIDER,
            }
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
    admins = {
        "right": AdminWithKey(place.processes, place.release, "ops", secret_of("ops")),
        "wrong": AdminWithKey(place.processes, place.release, "ops", "a wrong secret"),
        "none": AdminWithKey(place.processes, place.release, None),
    }
    listed = [(CLUSTER, BROKER_NAME, 0, broker.addr)]
    before = place.rules.kept(events=False)
    for who in ("wrong", "none"):
        said = admins[who].run("wipeWritePerm", place.addr, "-b", BROKER_NAME)
        assert "no permission" in said, said
        said = admins[who].run("updateKvConfig", place.addr, "-s", "N", "-k", "k", "-v", "v")
        assert "no permission" in said, said
        after = place.rules.kept(events=False)
        assert {name: value for name, value in after.items() if name.startswith(("topic:", "kv", "broker:"))} == {
            name: value for name, value in before.items() if name.startswith(("topic:", "kv", "broker:"))
        }
    assert admins["none"].clusters(place.addr) == listed, "who does not sign may read"
    assert admins["right"].clusters(place.addr) == listed
    said = admins["right"].run("wipeWritePerm", place.addr, "-b", BROKER_NAME)
    assert "wipe write perm of broker[broker-a] in name server" in said, said
    said = admins["right"].run("updateKvConfig", place.addr, "-s", "N", "-k", "k", "-v", "v")
    assert "create or update kv config to namespace success" in said, said
    # settings are for admins
    said = admins["right"].run("updateNamesrvConfig", place.addr, "-k", "productEnvName", "-v", "x")
    assert "no permission" in said, said
