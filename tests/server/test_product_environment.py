"""Cluster-test mode: topics that are not here are asked of the product environment (D15: only lookups are)."""

from __future__ import annotations

import json
import secrets
import socket
from contextlib import contextmanager, suppress

import pytest

from mqregistry.protocol import lenient_json
from tests.client.address_servers import FakeAddressServer

from .harness import Broker

PRODUCT = Broker("broker-p", "127.0.0.1:10931", cluster="product", topics=["product-topic", "both"])
HERE = Broker("broker-h", "127.0.0.1:10911", topics=["here", "both"])
# How long one that was away is not asked.
SOON = {"server.requests.product_environment.AWAY_S": 0.5}


class SilentServer:
    """Takes connections and never answers."""

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self._taken = []
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        return self

    def __exit__(self, *_):
        for one in (self._listener, *self._taken):
            one.close()

    @property
    def connections(self):
        """How many there were."""
        with suppress(BlockingIOError):
            while True:
                self._taken.append(self._listener.accept()[0])
        return len(self._taken)


@contextmanager
def dead_address():
    """A port that nobody listens on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def product(front_end_with):
    """A front end of another environment, with a broker."""
    front_end = front_end_with(namespace=f"product-{secrets.token_hex(6)}")
    with front_end.client() as connection:
        assert connection.register(PRODUCT).code == 0
        yield front_end


def address_of(front_end):
    return f"127.0.0.1:{front_end.port}"


@pytest.fixture
def cluster_test(front_end_with):
    return lambda addresses, **settings: front_end_with(
        cluster_test=True, product_env_namesrv_addr=addresses, **settings
    )


def broker_names(reply):
    assert reply.code == 0, reply.remark
    return sorted(data["brokerName"] for data in lenient_json.loads(reply.body)["brokerDatas"])


def test_an_unknown_topic_is_looked_up_in_the_product_environment(product, cluster_test):
    front_end = cluster_test(address_of(product))
    with front_end.client() as client:
        assert client.register(HERE).code == 0
        assert broker_names(client.route("here")) == ["broker-h"]
        assert broker_names(client.route("both")) == ["broker-h"]
        assert broker_names(client.route("product-topic")) == ["broker-p"]
        unknown = client.route("nowhere")
        assert unknown.code == 17
        assert unknown.remark.startswith("No topic route info in name server for the topic: nowhere\n")
        with product.client() as direct:
            assert client.route("product-topic").body == direct.route("product-topic").body


def test_only_lookups_go_there(product, cluster_test):
    front_end = cluster_test(address_of(product))
    with front_end.client() as client:
        assert client.register(HERE).code == 0
        clusters = lenient_json.loads(client.request(106).body)["clusterAddrTable"]
        assert clusters == {"c1": ["broker-h"]}
        assert client.request(9999).code == 3
        assert client.request(105).code == 17
        assert client.request(105, {"topic": ""}).code == 17


def test_old_clients_get_bare_keys_and_zones_are_filtered(product, cluster_test):
    zoned = Broker("broker-z", "127.0.0.1:10941", cluster="product", topics=["zoned", "other"], __ZONE_NAME="z1")
    front_end = cluster_test(address_of(product))
    with product.client() as broker, front_end.client(version=317) as old, front_end.client() as new:
        assert broker.register(zoned).code == 0
        assert b'{0:"127.0.0.1:10931"}' in old.route("product-topic").body
        assert b'{"0":"127.0.0.1:10931"}' in new.route("product-topic").body
        for zone, left in (("z1", ["broker-z"]), ("z2", [])):
            reply = new.request(105, {"topic": "zoned", "__ZONE_NAME": zone, "__ZONE_MODE": "true"})
            assert broker_names(reply) == left


def test_routes_carry_the_order_configuration_even_with_order_message_enable_off(product, cluster_test):
    front_end = cluster_test(address_of(product))
    with front_end.client() as client:
        client.register(HERE)
        client.request(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "here", "value": "broker-h:4"})
        assert json.loads(client.route("here").body)["orderTopicConf"] == "broker-h:4"


def test_another_address_is_asked_when_one_is_dead_or_silent(product, cluster_test):
    with dead_address() as dead, SilentServer() as silent:
        front_end = cluster_test(f"{dead};{silent.address};{address_of(product)}")
        with front_end.client() as client:
            assert broker_names(client.route("product-topic")) == ["broker-p"]
            assert broker_names(client.route("both")) == ["broker-p"]
            assert silent.connections <= 1, "from then on the one that answered is asked first"


def test_a_product_environment_that_cannot_be_reached_is_code_17(cluster_test):
    with dead_address() as dead:
        front_end = cluster_test(dead)
        with front_end.client() as client:
            assert client.route("product-topic").code == 17
    front_end.wait_until(lambda: "environment center is away" in front_end.log, "it is logged")


def test_it_is_found_again(cluster_test, product):
    front_end = cluster_test(address_of(product), constants=SOON)
    with front_end.client() as client:
        assert client.route("product-topic").code == 0
        product.kill()
        front_end.wait_until(lambda: client.route("product-topic").code == 17, "it is away")
        product.start()
        front_end.wait_until(lambda: client.route("product-topic").code == 0, "it is back")
    front_end.wait_until(lambda: "environment center is back" in front_end.log, "it is logged")


def test_lookups_of_known_topics_do_not_wait_for_a_silent_product_environment(cluster_test):
    with SilentServer() as silent:
        front_end = cluster_test(silent.address)
        with front_end.client() as client, front_end.client() as other:
            assert client.register(HERE).code == 0
            asked = client.send(105, {"topic": "product-topic"})
            known = client.send(105, {"topic": "here"})
            assert client.receive().opaque == known, "the view answers at once, also on the same connection"
            assert other.route("here").code == 0
            answer = client.receive()
            assert (answer.opaque, answer.code) == (asked, 17)
            assert client.route("another").code == 17
            assert silent.connections == 1, "nobody waits again for who did not answer just now"


def test_the_product_environment_is_found_through_an_address_server(product, front_end_with):
    with FakeAddressServer("127.0.0.1:1") as addresses:
        front_end = front_end_with(
            cluster_test=True, product_env_namesrv_domain=addresses.domain, product_env_name="my product",
            constants=SOON,
        )  # fmt: skip
        with front_end.client() as client:
            assert client.register(HERE).code == 0
            assert client.route("here").code == 0
            assert addresses.asked == [], "nobody asked for anything unknown"
            assert client.route("product-topic").code == 17
            assert set(addresses.asked) == {"/rocketmq/nsaddr-my%20product?nofix=1"}
            addresses.text = address_of(product)  # what it names was away: it is asked again
            front_end.wait_until(lambda: client.route("product-topic").code == 0, "it is found")
            asked = len(addresses.asked)
            addresses.status = 500
            assert client.route("both").code == 0
            assert client.route("nowhere").code == 17
            assert len(addresses.asked) == asked, "what it said counts for a while"
            assert client.request(318, None, b"productEnvName=evil\n").code == 0
            assert client.route("another").code == 17
            assert "evil" not in str(addresses.asked)
    front_end.wait_until(lambda: "environment my product is away" in front_end.log, "it is logged")


def test_without_an_address_every_unknown_topic_is_code_17(cluster_test):
    front_end = cluster_test("")
    with front_end.client() as client:
        assert client.route("product-topic").code == 17
        assert client.register(HERE).code == 0
        assert client.route("here").code == 0
    front_end.wait_until(lambda: "clusterTest without productEnvNamesrvAddr" in front_end.log, "it is logged")


def test_two_that_ask_each_other_end(front_end_with, cluster_test):
    """A mistake of the operator costs time, not the front ends."""
    one = front_end_with(namespace=f"t-{secrets.token_hex(6)}")
    other = cluster_test(address_of(one))
    one.settings = cluster_test(address_of(other)).settings
    one.kill()
    one.start()
    with one.client() as client:
        assert client.route("nowhere").code == 17


def test_lookups_are_counted_once(product, cluster_test):
    front_end = cluster_test(address_of(product))
    with front_end.client() as client:
        client.route("product-topic")
        client.route("nowhere")
    found, not_found = ('lookups_total{result="found"}', 'lookups_total{result="not_found"}')
    front_end.wait_until(lambda: (front_end.counter(found), front_end.counter(not_found)) == (1, 1), "one of each")
