"""Stock peers of other releases, known in every way that there is, where rules are enforced.

With the right key, certificate or address all works as without rules. When it counts no more, peers are told so with
code 16, and the routes that were there stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from bench.servers.processes import Processes, wait_until
from mqregistry.auth import changes
from mqregistry.auth.policy import Policy
from mqregistry.auth.rights import Role
from mqregistry.auth.users import Secret
from mqregistry.events.changes import BrokerRegistered, decode_change
from tests.certificates import Authority
from tests.server.auth_bed import Rules, broker_user, secret_of, user
from tests.server.serving import Serving

from .auth_peers import AdminWithKey, play_mqadmin, signing, tables
from .broker_kinds import BINARY_HEADERS
from .conftest import built_or_skip, ended_with_test, release_or_skip
from .go_client import GoClient, build
from .name_servers import OURS, REGISTER_TIMEOUT_S, Kind
from .rocketmq import CLUSTER, Broker, Client, Release, SteeredClient
from .wire import route_addresses

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900), pytest.mark.xdist_group("auth_ways")]

BUILT_IN_TOPIC = "SELF_TEST_TOPIC"
FLOW_TIMEOUT_S = 60
REFUSED = "CODE: 16"
ELSEWHERE = ("10.255.0.0/16",)


class Place:
    """A front end that enforces rules, and brokers, each with a user and a brokerName of its own."""

    def __init__(self, serving: Serving, rules: Rules, processes: Processes) -> None:
        self.serving, self.rules, self.processes = serving, rules, processes
        self.addr = f"127.0.0.1:{serving.port}"
        self.brokers: dict[str, Broker] = {}
        # Kept: what a thread started dies with it.
        self._threads = ThreadPoolExecutor(4)

    def put_in_force(self, policy: Policy) -> None:
        wait_until("it is in force", lambda: self.serving.metrics()["auth_revision"] == policy.revision, 20)

    def start(self, brokers: Mapping[str, tuple[Release, dict[str, object]]]) -> None:
        """Start these brokers side by side; they are registered when this returns."""
        for name, (release, properties) in brokers.items():
            of_its_own: dict[str, object] = {"brokerName": name}
            self.brokers[name] = Broker(self.processes, release, self.addr, properties | of_its_own)
        list(self._threads.map(Broker.start, self.brokers.values()))
        wait_until("all are registered", self.is_whole, REGISTER_TIMEOUT_S)

    def is_whole(self) -> bool:
        """Whether the routes name every broker."""
        addresses = {broker.addr for broker in self.brokers.values()}
        return route_addresses(self.serving.port, BUILT_IN_TOPIC) == addresses

    def refuse_all(self, step: Callable[[Policy, str], Policy]) -> None:
        """Take from every broker's user what the broker is known by, or comes from, with one change.

        Every broker writes into its log that it was refused, and all routes stay as they are.
        """
        already = {name: broker.process.logged().count(REFUSED) for name, broker in self.brokers.items()}
        self.put_in_force(self.rules.change(*(lambda policy, one=one: step(policy, one) for one in self.brokers)))
        before = tables(self.rules)
        for name, broker in self.brokers.items():
            wait_until(
                f"{name} wrote that it was refused",
                lambda name=name, broker=broker: broker.process.logged().count(REFUSED) > already[name],
                REGISTER_TIMEOUT_S,
            )
        assert tables(self.rules) == before
        assert self.rules.names("brokers") == {*self.brokers}


def place_in(
    folder: Path, redis_url: str, processes: Processes, users: list[object], **settings: object
) -> Iterator[Place]:
    serving = Serving(folder, redis_url, **settings)
    rules = Rules(redis_url, serving.namespace)
    place = Place(serving, rules, processes)
    try:
        place.put_in_force(rules.begin("enforce", *users))  # type: ignore[arg-type]
        yield place
    finally:
        serving.close()
        rules.close()


@pytest.fixture(scope="module")
def newest(under_test: Kind) -> Release:
    if under_test.name != OURS:
        pytest.skip("no other name server has rules")
    return release_or_skip("5.5.0")


@pytest.fixture(scope="module")
def signed(newest: Release, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Brokers of 5.5.0 that sign JSON and binary headers, and compressed bodies."""
    names = ("json", "binary", "compressed")
    users = [broker_user(name, name, CLUSTER) for name in names]
    users += [user("ops", Role.OPERATOR), user("app", Role.CLIENT)]
    folder = tmp_path_factory.mktemp("auth-signed")
    for processes in ended_with_test(folder):
        for place in place_in(folder, redis_url, processes, list(users)):
            compressed = signing("compressed", secret_of("compressed")) | {"compressedRegister": True}
            binary = newest.with_properties(BINARY_HEADERS)
            place.start(
                {
                    "json": (newest, signing("json", secret_of("json"))),
                    "binary": (binary, signing("binary", secret_of("binary"))),
                    "compressed": (newest, compressed),
                }
            )
            yield place


def test_brokers_of_5_5_0_that_sign_in_every_form_register_as_themselves(signed: Place) -> None:
    assert not signed.rules.refused()
    assert owners(signed) == {name: name for name in signed.brokers}
    for name, broker in signed.brokers.items():
        assert REFUSED not in broker.process.logged(), name


def owners(place: Place) -> dict[str, str | None]:
    """brokerName -> user, by the events of registrations."""
    stream = place.rules.redis.xrange(f"mq:{{{place.rules.namespace}}}:changes")
    events = [decode_change(fields[b"e"]) for _, fields in stream]
    return {event.broker_name: event.by.user for event in events if isinstance(event, BrokerRegistered) and event.by}


def test_mqadmin_5_5_0_with_the_right_key_writes_and_with_others_not(signed: Place, newest: Release) -> None:
    play_mqadmin(AdminWithKey(signed.processes, newest), signed.addr, signed.rules, signed.brokers)


def sends(client: SteeredClient, count: int) -> None:
    """So many more messages, none of them twice."""
    target = client.counts().acknowledged + count
    client.send(count)
    wait_until("all are acknowledged", lambda: client.counts().acknowledged == target, FLOW_TIMEOUT_S)
    assert client.counts().failures == 0, client.counts()


def is_refused(client: SteeredClient) -> None:
    """It finds no route, and its log says why."""
    client.send(1)
    wait_until("it fails", lambda: client.counts().failures, FLOW_TIMEOUT_S)
    wait_until(
        "it wrote what the name server said",
        lambda: REFUSED in client.process.logged() and "none of this user's secrets" in client.process.logged(),
        FLOW_TIMEOUT_S,
    )
    assert client.counts().acknowledged == 0
    client.end()


def test_the_go_client_with_credentials(signed: Place) -> None:
    """It asks for routes every 30 s. It is refused under way as the Java client is, and keeps its routes."""
    driver = built_or_skip(build)
    client = GoClient(signed.processes, driver, signed.addr, "go_right", ("app", secret_of("app")))
    sends(client, 100)
    is_refused(GoClient(signed.processes, driver, signed.addr, "go_wrong", ("app", "a wrong secret")))
    is_refused_under_way(signed, client)
    sends(client, 10)
    client.end()


def is_refused_under_way(signed: Place, client: SteeredClient) -> None:
    """The client's secret is dropped while it works: it writes so, and its messages arrive all the same."""
    app = signed.rules.read().users["app"]
    assert REFUSED not in client.process.logged()
    signed.put_in_force(signed.rules.edit("app", secrets=(Secret("new", "another-secret"),)))
    try:
        wait_until("it is refused", lambda: REFUSED in client.process.logged(), FLOW_TIMEOUT_S)
        sends(client, 10)
    finally:
        signed.put_in_force(signed.rules.edit("app", secrets=app.secrets))


def test_the_java_client_with_an_acl_hook(signed: Place, newest: Release) -> None:
    """It asks for routes each second. When its secret is dropped under way, it is refused, and keeps its routes."""

    def start(topic: str, secret_key: str) -> Client:
        return Client(signed.processes, newest, signed.addr, topic, credentials=("app", secret_key))

    client = start("java_right", secret_of("app"))
    sends(client, 100)
    assert client.wait_for_all(FLOW_TIMEOUT_S).received == 100
    is_refused(start("java_wrong", "a wrong secret"))
    is_refused_under_way(signed, client)
    assert client.wait_for_all(FLOW_TIMEOUT_S).received == 110
    client.end()


def test_brokers_of_5_5_0_with_a_wrong_key_are_told_so_and_their_routes_stay(signed: Place) -> None:
    secrets = {name: signed.rules.read().users[name].secrets for name in signed.brokers}
    signed.refuse_all(lambda policy, name: edited(policy, name, secrets=(Secret(f"not-{name}", "another-secret"),)))
    wait_until(
        "auth observe shows all",
        lambda: (
            {(name, "wrong_signature") for name in signed.brokers}
            <= {(row.kind.user, row.kind.reason) for row in signed.rules.refused()}
        ),
        20,
    )
    signed.put_in_force(
        signed.rules.change(
            *(lambda policy, name=name: edited(policy, name, secrets=secrets[name]) for name in secrets)
        )
    )


def edited(policy: Policy, name: str, **fields: object) -> Policy:
    return changes.edit_user(policy, name, lambda one: msgspec.structs.replace(one, **fields))


def test_brokers_of_4_8_0_are_known_by_certificate_and_by_network(
    under_test: Kind, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """They cannot sign. One shows a certificate, the other comes from a network; each only from where ``from`` says."""
    if under_test.name != OURS:
        pytest.skip("no other name server has rules")
    old = release_or_skip("4.8.0")
    folder = tmp_path_factory.mktemp("auth-old")
    authority = Authority(folder, "authority")
    server, peer = authority.sign("server"), authority.sign("peer", names="DNS:broker.example")
    loopback = ("127.0.0.0/8",)
    users = [
        broker_user("cert", "cert", CLUSTER, key=None, certificates=("DNS:broker.example",), sources=loopback),
        broker_user("net", "net", CLUSTER, key=None, networks=("127.0.0.1/32",), sources=loopback),
    ]
    secure = old.with_properties(
        {
            "tls.enable": "true", "tls.test.mode.enable": "false", "tls.client.authServer": "true",
            "tls.client.trustCertPath": authority.cert, "tls.client.certPath": peer.cert,
            "tls.client.keyPath": peer.key, "tls.server.certPath": peer.cert, "tls.server.keyPath": peer.key,
        }
    )  # fmt: skip
    settings = {
        "tls_server_mode": "permissive", "tls_server_cert_path": server.cert, "tls_server_key_path": server.key,
        "tls_server_need_client_auth": "optional", "tls_server_auth_client": "true",
        "tls_server_trust_cert_path": authority.cert,
    }  # fmt: skip
    for processes in ended_with_test(folder):
        for place in place_in(folder, redis_url, processes, list(users), **settings):
            place.start({"cert": (secure, {}), "net": (old, {})})
            assert owners(place) == {"cert": "cert", "net": "net"}
            assert not place.rules.refused()
            place.refuse_all(lambda policy, name: edited(policy, name, sources=ELSEWHERE))
