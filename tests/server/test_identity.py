"""Who is taken for whom over a real connection: certificates, lists of revoked ones, balancers, networks."""

from __future__ import annotations

import pytest

from mqregistry.auth.rights import Role
from mqregistry.config.settings import Settings
from mqregistry.errors import StartError
from mqregistry.server.net.tls import Tls
from mqregistry.server.net.x509 import id_of, read_certificate, revoked_in
from tests.certificates import Authority, replace

from .auth_bed import Caller, Rules, broker_user, in_force, refused_with, user
from .harness import Broker
from .test_tls import TlsClient, assert_refused, checking, of, trusting

KNOWN = "URI:spiffe://prod/broker-a,DNS:Broker-A.example,IP:127.0.0.1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"), "ca")


@pytest.fixture(scope="module")
def server(authority):
    return authority.sign("server")


@pytest.fixture(scope="module")
def known(authority):
    return authority.sign("broker-a", names=KNOWN)


@pytest.fixture
def rules(redis_url, namespace):
    rules = Rules(redis_url, namespace)
    yield rules
    rules.close()


class Start:
    """Starts a front end that decides by some rules."""

    def __init__(self, front_end_with, rules):
        self._start, self.rules = front_end_with, rules

    def __call__(self, *users, mode="enforce", **settings):
        policy = self.rules.begin(mode, *users)
        front_end = self._start(namespace=self.rules.namespace, **settings)
        in_force(front_end, policy)
        return front_end


@pytest.fixture
def start(front_end_with, rules):
    return Start(front_end_with, rules)


# certificates


@pytest.mark.parametrize("name", ["URI:spiffe://prod/broker-a", "DNS:broker-a.example", "CN:broker-a"])
def test_a_verified_certificate_says_who_it_is(start, authority, server, known, name):
    front_end = start(
        broker_user("alice", "broker-a", key=None, certificates=(name,)),
        **of(server), **checking(authority, "optional"),
    )  # fmt: skip
    stranger = authority.sign("stranger")
    with TlsClient(front_end.port, trusting(authority, known)) as client:
        assert client.register(Broker()).code == 0
        refused_with(client.register(Broker("broker-b", "127.0.0.1:2")), "user alice", "register", "broker:broker-b")
        refused_with(client.request(318, None, b"productEnvName=x"), "user alice", "config.write on *")
    with TlsClient(front_end.port, trusting(authority, stranger)) as client:
        refused_with(client.register(Broker()), "nobody known (anonymous)")
        assert client.request(106).code == 0
    with TlsClient(front_end.port, trusting(authority)) as client, front_end.client() as plain:
        refused_with(client.register(Broker()), "anonymous")
        refused_with(plain.register(Broker()), "anonymous")


def test_a_certificate_that_nobody_verifies_says_nothing(start, authority, server, known):
    front_end = start(broker_user("alice", "broker-a", key=None, certificates=("CN:broker-a",)), **of(server))
    with TlsClient(front_end.port, trusting(authority, known)) as client:
        refused_with(client.register(Broker()), "anonymous")


def test_a_certificate_that_a_user_loses_ends_its_connections(start, rules, authority, server, known):
    alice = broker_user("alice", "broker-a", key=None, certificates=("CN:broker-a",))
    front_end = start(alice, **of(server), **checking(authority, "optional"))
    with TlsClient(front_end.port, trusting(authority, known)) as client, front_end.client() as other:
        assert client.register(Broker()).code == 0
        assert other.route("topic1").code == 0
        rules.edit("alice", certificates=())
        assert client.closed()
        front_end.wait_until(lambda: other.route("topic1").code == 17, "its broker is gone with it")
        front_end.wait_until(lambda: "the certificate is not that of user alice any more" in front_end.log, "why")


# revoked certificates


def test_new_connections_with_a_revoked_certificate_are_refused_and_open_ones_closed(
    start, authority, server, known, tmp_path
):
    other = authority.sign("broker-b")
    revoked = tmp_path / "revoked.pem"
    replace(revoked, authority.revoke())
    front_end = start(
        broker_user("alice", "broker-a", key=None, certificates=("CN:broker-a",)),
        broker_user("bob", "broker-b", key=None, certificates=("CN:broker-b",)),
        **of(server), **checking(authority, "optional"), tls_server_crl_path=str(revoked),
    )  # fmt: skip
    with (
        TlsClient(front_end.port, trusting(authority, known)) as alice,
        TlsClient(front_end.port, trusting(authority, other)) as bob,
        TlsClient(front_end.port, trusting(authority)) as nobody,
    ):
        assert alice.register(Broker()).code == 0
        assert bob.register(Broker("broker-b", "127.0.0.1:2", topics=["b", "b2"])).code == 0
        replace(revoked, authority.revoke(known))
        assert alice.closed()
        front_end.wait_until(lambda: "its certificate was revoked" in front_end.log, "the log says why")
        assert_refused(front_end.port, trusting(authority, known))
        assert bob.route("b").code == nobody.route("b").code == 0
    with TlsClient(front_end.port, trusting(authority, other)) as bob:
        assert bob.route("b").code in (0, 17)


def test_a_list_that_cannot_be_read_leaves_the_one_before_in_force(start, authority, server, known, tmp_path):
    revoked = tmp_path / "revoked.pem"
    replace(revoked, authority.revoke(known))
    front_end = start(**of(server), **checking(authority, "optional"), tls_server_crl_path=str(revoked))
    (tmp_path / "new").write_text("no list")
    (tmp_path / "new").replace(revoked)
    front_end.wait_until(lambda: "cannot use the list of revoked certificates" in front_end.log, "it is told")
    assert_refused(front_end.port, trusting(authority, known))


def test_a_list_without_checked_certificates_is_a_mistake(authority, server):
    crl = authority.revoke()
    with pytest.raises(StartError, match="tlsServerCrlPath revokes nothing while no client is asked"):
        Tls(Settings(**of(server), tls_server_crl_path=str(crl)))
    with pytest.raises(StartError, match=r"cannot use the list of revoked certificates /nowhere: No such file"):
        Tls(Settings(**of(server), **checking(authority, "optional"), tls_server_crl_path="/nowhere"))


def test_revoked_certificates_are_found_by_issuer_and_number(authority, known, tmp_path):
    other, elsewhere = authority.sign("other"), Authority(tmp_path, "elsewhere")
    text = authority.revoke(known).read_bytes()
    assert revoked_in(text) == {id_of(known.der)}
    assert id_of(other.der) not in revoked_in(text)
    assert revoked_in(authority.revoke().read_bytes()) == set()
    both = text + b"between\n" + elsewhere.revoke(other).read_bytes()
    assert {one.serial for one in revoked_in(both)} == {id_of(known.der).serial, id_of(other.der).serial}
    assert id_of(other.der) not in revoked_in(both), "it is another CA's number"
    many = [authority.sign(f"many-{number}") for number in range(3)]
    assert revoked_in(authority.revoke(*many).read_bytes()) == {id_of(one.der) for one in many}


@pytest.mark.parametrize("text", [b"", b"no list", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"])
def test_a_file_without_a_list_revokes_nothing(text):
    assert revoked_in(text) == set()


@pytest.mark.parametrize("body", [b"AAA", b"MIIB", b"!!!!", b"MAA=", b"MAIwAA==", b""])
def test_a_list_that_is_broken_is_an_error(body):
    with pytest.raises((ValueError, StopIteration, IndexError)):
        revoked_in(b"-----BEGIN X509 CRL-----\n" + body + b"\n-----END X509 CRL-----\n")


def test_names_in_certificates():
    found = read_certificate(
        {
            "subject": ((("countryName", "CH"),), (("commonName", "b"), ("commonName", "B"))),
            "subjectAltName": (("DNS", "B.Example"), ("URI", "spiffe://X/b"), ("IP Address", "1.1.1.1"), ("DNS", "c")),
        },
        bytes.fromhex("3009300702010530003000"),
    )
    assert found.names == ("URI:spiffe://X/b", "DNS:b.example", "DNS:c", "CN:b", "CN:B")


# balancers and networks


def behind(front_end, header, *, source="127.0.0.1"):
    caller = Caller(front_end.port, source=source)
    caller.socket.sendall(header)
    return caller


FROM_NET = b"PROXY TCP4 10.7.0.1 127.0.0.1 4711 9876\r\n"


@pytest.mark.parametrize(
    ("listed", "source", "counts"),
    [("127.0.0.0/30", "127.0.0.2", True), ("127.0.0.2;10.0.0.0/8", "127.0.0.2", True), ("", "127.0.0.2", False),
     ("127.0.0.0/30", "127.0.0.9", False), ("10.0.0.0/8", "127.0.0.2", False)],
)  # fmt: skip
def test_the_address_in_a_proxy_header_counts_only_from_listed_balancers(start, listed, source, counts):
    operator = user("ops", Role.OPERATOR, key=None, networks=("10.7.0.0/16",))
    near = user("near", Role.OPERATOR, key=None, networks=("127.0.0.0/8",))
    front_end = start(operator, near, proxy_protocol_from=listed)
    with behind(front_end, FROM_NET, source=source) as client:
        reply = client.request(100, {"namespace": "N", "key": "k", "value": "v"})
        if counts:
            assert reply.code == 0
        else:
            refused_with(reply, "anonymous", "an unknown address", f"the PROXY header of {source}")
    with Caller(front_end.port, source=source) as direct:
        assert direct.request(100, {"namespace": "N", "key": "k", "value": "v"}).code == 0


def test_a_proxy_header_that_counts_and_names_a_stranger_makes_a_stranger(start):
    near = user("near", Role.OPERATOR, key=None, networks=("127.0.0.0/8",))
    front_end = start(near, proxy_protocol_from="127.0.0.1")
    with behind(front_end, FROM_NET) as client:
        refused_with(client.request(100, {"namespace": "N", "key": "k", "value": "v"}), "anonymous", "10.7.0.1")


def test_old_brokers_are_known_by_their_network(start):
    """4.8 neither signs nor, without settings, shows a certificate."""
    front_end = start(broker_user("old", "broker-a", key=None, networks=("127.0.0.2/32",)))
    with Caller(front_end.port, source="127.0.0.2", version=373) as broker, front_end.client() as other:
        assert broker.register(Broker(addr="127.0.0.2:10911")).code == 0
        refused_with(broker.register(Broker(addr="127.0.0.1:10911")), "the broker address 127.0.0.1:10911")
        refused_with(other.register(Broker(addr="127.0.0.1:10911")), "anonymous")


def test_lookups_known_by_their_bytes_are_decided_for_each_connection(start, rules):
    """Denied to anonymous, allowed to whoever comes from a network: the same bytes, two answers."""
    from mqregistry.auth import changes
    from mqregistry.auth.rights import Kind, Right
    from mqregistry.auth.users import Effect, Rule

    reader = user("reader", key=None, networks=("127.0.0.2/32",),
                  rules=(Rule(Effect.ALLOW, (Right.ROUTE,), Kind.TOPIC, "topic1"),))  # fmt: skip
    front_end = start(broker_user("alice", "broker-a"), reader, user("client"))
    with (
        Caller(front_end.port, "alice") as alice, Caller(front_end.port) as nobody,
        Caller(front_end.port, source="127.0.0.2") as near, Caller(front_end.port, "client") as client,
        Caller(front_end.port, "client", "a wrong secret") as wrong,
    ):  # fmt: skip
        assert alice.register(Broker()).code == 0
        for _ in range(6):
            assert (nobody.route("topic1").code, near.route("topic1").code, client.route("topic1").code) == (0, 0, 0)
            assert wrong.route("topic1").code == 16
        front_end.wait_until(lambda: front_end.counter('lookups_total{result="found"}') == 18, "they are counted")
        policy = rules.change(
            lambda policy: changes.add_rules(
                policy, "anonymous", [Rule(Effect.DENY, (Right.ROUTE,), Kind.TOPIC, "topic*")]
            )
        )
        in_force(front_end, policy)
        for _ in range(4):
            assert (nobody.route("topic1").code, near.route("topic1").code, client.route("topic1").code) == (16, 0, 16)
        policy = rules.set_mode("off")
        in_force(front_end, policy)
        for one in (nobody, near, client, wrong):
            assert [one.route("topic1").code for _ in range(4)] == [0] * 4
        policy = rules.set_mode("enforce")
        in_force(front_end, policy)
        assert (nobody.route("topic1").code, near.route("topic1").code, client.route("topic1").code) == (16, 0, 16)
        assert wrong.route("topic1").code == 16
