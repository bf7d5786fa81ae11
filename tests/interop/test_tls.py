"""A stock broker, producer, consumer and mqadmin that speak TLS with the name server, and with each other."""

import ssl

import pytest

from bench.servers.processes import Processes, wait_until
from tests.certificates import Authority, Pair

from .name_servers import OURS, REGISTER_TIMEOUT_S, Kind
from .rocketmq import BROKER_NAME, CLUSTER, Admin, Broker, Client, Release
from .wire import WireClient, addresses

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

FLOW_TIMEOUT_S = 60
BUILT_IN_TOPIC = "SELF_TEST_TOPIC"


class SecureWireClient(WireClient):
    """Over TLS."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port)
        self._socket = context.wrap_socket(self._socket, server_hostname="127.0.0.1")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Pair:
    return authority.sign("server")


@pytest.fixture(scope="module")
def peer(authority: Authority) -> Pair:
    return authority.sign("peer")


@pytest.fixture(scope="module")
def context(authority: Authority, peer: Pair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.cert)
    context.load_cert_chain(peer.cert, peer.key)
    return context


@pytest.fixture
def settings(under_test: Kind, server: Pair) -> dict[str, object]:
    if under_test.name != OURS:
        pytest.skip("the settings are ours")
    return {"tlsServerMode": "enforcing", "tlsServerCertPath": server.cert, "tlsServerKeyPath": server.key}


def wait_until_registered(port: int, context: ssl.SSLContext, broker: Broker) -> None:
    with SecureWireClient(port, context) as client:
        wait_until(
            f"{broker.addr} is registered",
            lambda: broker.addr in addresses(client.route(BUILT_IN_TOPIC)),
            REGISTER_TIMEOUT_S,
        )


def test_stock_broker_with_tls_switched_on_registers(
    under_test: Kind,
    release: Release,
    processes: Processes,
    settings: dict[str, object],
    context: ssl.SSLContext,
) -> None:
    """As most have it: nothing but tls.enable, which trusts any server."""
    name_server = under_test.start(processes, settings)
    broker = Broker(processes, release.with_properties({"tls.enable": "true"}), name_server.addr)
    broker.start()
    wait_until_registered(name_server.port, context, broker)
    with SecureWireClient(name_server.port, context) as client:
        broker.process.kill()
        wait_until("its route is gone", lambda: client.route(BUILT_IN_TOPIC) is None, within_s=3)


def test_messages_flow_where_everybody_shows_a_certificate(
    under_test: Kind,
    release: Release,
    processes: Processes,
    settings: dict[str, object],
    authority: Authority,
    peer: Pair,
    context: ssl.SSLContext,
) -> None:
    name_server = under_test.start(
        processes,
        settings
        | {
            "tlsServerNeedClientAuth": "require",
            "tlsServerAuthClient": "true",
            "tlsServerTrustCertPath": authority.cert,
        },
    )
    secure = release.with_properties(
        {
            "tls.enable": "true",
            "tls.test.mode.enable": "false",
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": authority.cert,
            "tls.client.certPath": peer.cert,
            "tls.client.keyPath": peer.key,
            "tls.server.certPath": peer.cert,
            "tls.server.keyPath": peer.key,
        },
    )
    broker = Broker(processes, secure, name_server.addr)
    broker.start()
    wait_until_registered(name_server.port, context, broker)

    assert Admin(processes, secure).clusters(name_server.addr) == [(CLUSTER, BROKER_NAME, 0, broker.addr)]

    client = Client(processes, secure, name_server.addr, "secured")
    client.send(200)
    counts = client.wait_for_all(FLOW_TIMEOUT_S)
    assert (counts.acknowledged, counts.received) == (200, 200), counts
