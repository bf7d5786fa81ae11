"""Decisions of one worker, without a network: who asks, what counts first, what is kept, and what a failure means."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mqregistry.auth.policy import Mode, Policy
from mqregistry.auth.rights import Kind, Resource, Right, Role
from mqregistry.auth.signature import SigningKey, sign
from mqregistry.auth.users import Effect, Rule, Secret, User
from mqregistry.protocol.command import Command
from mqregistry.server.auth import authorization as module
from mqregistry.server.auth.authorization import Authorization
from mqregistry.server.auth.caller import NO_CERTIFICATE, NOBODY, Certificate, How
from mqregistry.server.auth.proofs import VERIFIED_FOR_S
from mqregistry.server.limits.failures import Failures

from .auth_bed import ADMIN, broker_user, secret_of, user

HOST = "10.1.2.3"
REGISTRATION = {"clusterName": "c1", "brokerName": "broker-a", "brokerAddr": f"{HOST}:10911", "brokerId": "0"}


class Noted:
    """A tally that keeps what it is told."""

    def __init__(self):
        self.allowed_times, self.refusals, self.used = 0, [], []

    def allowed(self):
        self.allowed_times += 1

    def refused(self, refusal, *, enforced):
        self.refusals.append((refusal, enforced))

    def signed(self, caller):
        self.used.append((caller.name, caller.secret_id))


def sender(source=HOST, *, tls=True, names=(), via="", address=""):
    return SimpleNamespace(
        address=address or f"{source}:4711", source=source, via=via, is_tls=tls,
        certificate=Certificate(tuple(names)) if names else NO_CERTIFICATE,
        caller=None, last_caller=None, own_caller=None, verified=None, looked=None,
    )  # fmt: skip


class NoTables:
    """Nothing is known of the tables."""

    def cluster_of(self, broker_name):
        return None

    def clusters_with(self, topic, cluster):
        return ()


class Desk:
    """An authorization, and what it noted."""

    def __init__(self, *users, mode=Mode.ENFORCE, require_tls=True):
        self.noted, self.now_s = Noted(), 100.0
        self.policy = Policy(mode, 7, [ADMIN, *users])
        self.authorization = Authorization(
            self.policy, self.noted, require_tls=require_tls, tables=NoTables(), failures=Failures(str, str),
            clock=lambda: self.now_s,
        )  # fmt: skip

    def read(self, code, ext=None, body=b"", by=None):
        return self.authorization.of_read(Command(code=code, ext_fields=ext, body=body), by or sender())

    def write(self, code, ext=None, body=b"", by=None):
        command = Command(code=code, ext_fields=ext, body=body)
        return asyncio.run(self.authorization.of_write(command, by if by is not None else sender()))


def signed(name, ext=None, body=b"", key=None):
    fields = {**(ext or {}), "AccessKey": name}
    return fields | {"Signature": sign(key or secret_of(name), fields, body)}


ALICE = broker_user("alice", "broker-a")


# who asks


def test_a_signature_counts_before_a_certificate_and_that_before_a_network():
    by_certificate = broker_user("cert", "broker-a", key=None, certificates=("URI:spiffe://x/b", "DNS:b.x", "CN:b"))
    by_network = broker_user("net", "broker-a", key=None, networks=("10.1.0.0/16",))
    desk = Desk(ALICE, by_certificate, by_network)
    names = ("URI:spiffe://x/b", "DNS:b.x", "CN:b")
    for source, shown, ext, name, how in (
        (HOST, names, signed("alice", REGISTRATION), "alice", How.SIGNATURE),
        (HOST, names, REGISTRATION, "cert", How.CERTIFICATE),
        (HOST, ("CN:somebody", "CN:b"), REGISTRATION, "cert", How.CERTIFICATE),
        (HOST, ("CN:somebody",), REGISTRATION, "net", How.NETWORK),
        (HOST, (), REGISTRATION, "net", How.NETWORK),
        (HOST, names, REGISTRATION | {"AccessKey": " ", "Signature": "x"}, "cert", How.CERTIFICATE),
    ):
        connection = sender(source, names=shown)
        assert desk.write(103, ext, by=connection) is None
        assert (connection.caller.name, connection.caller.how) == (name, how)
        assert connection.last_caller == connection.caller
    connection = sender("10.2.0.1")
    assert desk.write(103, REGISTRATION, by=connection) is not None
    assert connection.caller == NOBODY._replace(refused=True)


@pytest.mark.parametrize(("name", "reason"), [("alice", "wrong_signature"), ("nobody", "unknown_access_key")])
def test_a_wrong_signature_is_not_tried_as_something_weaker(name, reason):
    net = broker_user("net", "broker-a", key=None, networks=("10.1.0.0/16",), certificates=("CN:b",))
    desk = Desk(ALICE, net)
    wrong = signed(name, REGISTRATION, key="a wrong secret")
    connection = sender(names=("CN:b",))
    for refusal in (desk.write(103, wrong, by=connection), desk.read(105, wrong | {"topic": "T"}, by=connection)):
        assert refusal.kind.reason == reason
        assert name in refusal.text
    assert connection.caller.name == ""
    observing = Desk(ALICE, net, mode=Mode.OBSERVE)
    assert observing.write(103, wrong, by=connection) is None
    assert (connection.caller.name, connection.caller.refused) == ("", True)
    assert observing.noted.refusals[0][0].kind.reason == reason


def test_either_of_two_secrets_is_taken_and_the_one_that_is_used_is_noted():
    both = User("alice", roles=(Role.ADMIN,), secrets=(Secret("old", "first-secret"), Secret("new", "second-secret")))
    desk = Desk(both)
    for key, secret_id in (("first-secret", "old"), ("second-secret", "new")):
        assert desk.read(106, signed("alice", key=key)) is None
        assert desk.noted.used[-1] == ("alice", secret_id)
    assert desk.read(106, signed("alice", key="third-secret")).kind.reason == "wrong_signature"


# what is allowed


def test_whoever_reads_is_served_and_nobody_writes_without_a_right():
    desk = Desk(user("client", Role.CLIENT))
    for ext in (None, signed("client")):
        for code in (101, 105, 106, 206, 219, 224, 304, 311, 312, 313, 319, 901):
            assert desk.read(code, ext) is None
        for code in (100, 102, 103, 104, 205, 216, 217, 318, 322, 327, 904):
            assert desk.write(code, ext).kind.reason == "no_rule", code
    assert {enforced for _, enforced in desk.noted.refusals} == {True}


@pytest.mark.parametrize(
    ("more", "kv_is_read"),
    [
        ({"rules": (Rule(Effect.DENY, (Right.ROUTE,), Kind.TOPIC, "orders"),)}, True),
        ({"enabled": False}, False),
        ({"sources": ("10.9.0.0/16",)}, False),
    ],
)
def test_what_is_taken_from_anonymous_is_taken_from_whoever_is_not_known(more, kv_is_read):
    desk = Desk(user("anonymous", key=None, **more), ALICE)
    assert desk.read(105, {"topic": "orders"}) is not None
    assert (desk.read(101, {"namespace": "ns", "key": "k"}) is None) == kv_is_read
    assert desk.read(105, signed("alice", {"topic": "bills"})) is None


def test_an_unknown_code_is_for_the_handler_to_refuse():
    assert Desk().write(9999) is None
    assert Desk().write(9999, signed("root", key="a wrong one")).kind.reason == "wrong_signature"


def test_when_only_observed_everything_works_and_is_noted():
    desk = Desk(mode=Mode.OBSERVE)
    assert desk.write(205, {"brokerName": "broker-a"}) is None
    ((refusal, enforced),) = desk.noted.refusals
    assert (refusal.kind.user, refusal.kind.right, refusal.kind.resources) == (
        "anonymous",
        "perm",
        ("broker:broker-a",),
    )
    assert not enforced


@pytest.mark.parametrize(
    ("denied", "resource", "refused"),
    [((Right.TOPIC_WRITE,), "T", True), ((Right.TOPIC_WRITE,), "other", False), ((Right.REGISTER,), "T", False)],
)
def test_one_of_several_needs_is_enough_unless_a_rule_denies_one(denied, resource, refused):
    rules = (
        Rule(Effect.ALLOW, (Right.TOPIC_WRITE,), Kind.CLUSTER, "c1"),
        Rule(Effect.DENY, denied, Kind.TOPIC if Right.TOPIC_WRITE in denied else Kind.BROKER, resource),
    )
    desk = Desk(user("ops", rules=rules))
    refusal = desk.write(216, signed("ops", {"topic": "T", "clusterName": "c1"}))
    assert (refusal is not None) == refused
    if refused:
        assert refusal.kind.reason == "denied"
    assert desk.write(216, signed("ops", {"topic": "T"})) is not None


# TLS, addresses


@pytest.mark.parametrize(
    ("source", "tls", "networks", "allowed"),
    [
        (HOST, True, {}, True), (HOST, False, {}, False), ("127.0.0.1", False, {}, True), ("::1", False, {}, True),
        ("::ffff:127.0.0.1", False, {}, True), ("", False, {}, False), ("", True, {}, True),
        (HOST, False, {"sources": ("10.0.0.0/8",)}, True), (HOST, False, {"networks": ("10.1.2.3/32",)}, True),
        (HOST, False, {"networks": ("10.1.2.4/32",)}, False),
    ],
)  # fmt: skip
def test_rights_that_write_need_tls_or_loopback_or_a_network_that_names_the_user(source, tls, networks, allowed):
    admin = user("ops", Role.OPERATOR, **networks)
    ext = signed("ops", {"brokerName": "broker-a"})
    desk = Desk(admin)
    refusal = desk.write(205, ext, by=sender(source, tls=tls))
    assert (refusal is None) == allowed
    if refusal is not None and source:
        assert refusal.kind.reason == "needs_tls"
        assert refusal.mend.startswith("mqregistry auth user set ops --from ")
    assert desk.read(106, signed("ops"), by=sender(source, tls=tls)) is None
    assert Desk(admin, require_tls=False).write(205, ext, by=sender(source, tls=tls)) is None


@pytest.mark.parametrize(
    ("addr", "more", "allowed"),
    [
        (f"{HOST}:10911", {}, True), (f"::ffff:{HOST}:10911", {}, True), (f"[::ffff:{HOST}]:10911", {}, True),
        ("10.1.2.4:10911", {}, False), ("10.9.9.9:10911", {"sources": ("10.0.0.0/8",)}, True),
        ("10.9.9.9:10911", {"networks": ("10.9.0.0/16",)}, True),
        ("192.168.0.1:10911", {"sources": ("10.0.0.0/8",)}, False),
        ("b.example:10911", {}, False), ("B.Example:10911", {"certificates": ("DNS:b.example",)}, True),
        ("b.example:10911", {"certificates": ("CN:b.example",)}, False), (HOST, {}, False), (":10911", {}, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("code", [103, 104, 322, 904])
def test_a_broker_speaks_for_its_own_address_or_one_that_it_is_bound_to(code, addr, more, allowed):
    desk = Desk(broker_user("alice", "broker-a", **more))
    refusal = desk.write(code, signed("alice", REGISTRATION | {"brokerAddr": addr}))
    assert (refusal is None) == allowed
    if refusal is not None:
        assert refusal.kind.reason == "broker_addr"
        assert addr in refusal.text


def test_who_comes_through_a_proxy_that_does_not_count_has_no_address():
    net = user("net", Role.ADMIN, key=None, networks=("10.0.0.0/8",))
    desk = Desk(net)
    through = sender("", via="10.0.0.1:5", address=f"{HOST}:1")
    refusal = desk.write(318, by=through)
    assert refusal.kind.user == "anonymous"
    assert "the PROXY header of 10.0.0.1:5 does not count: proxyProtocolFrom does not name it" in refusal.text
    assert desk.write(318, by=sender(HOST, via="10.0.0.1:5")) is None


def test_static_topics_for_other_broker_names_need_the_right_on_them():
    desk, connection = Desk(ALICE), sender()
    command = Command(code=103, ext_fields=signed("alice", REGISTRATION))
    assert asyncio.run(desk.authorization.of_write(command, connection)) is None
    refusal = desk.authorization.of_content(connection, [Resource(Kind.BROKER, "broker-b")])
    assert refusal.kind.resources == ("broker:broker-b",)
    assert desk.authorization.of_content(connection, [Resource(Kind.BROKER, "broker-a")]) is None


# failures


@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.OBSERVE])
def test_a_decision_that_fails_refuses(mode, monkeypatch, caplog):
    def fail(*arguments):
        raise ZeroDivisionError("a defect")

    desk = Desk(mode=mode)
    monkeypatch.setattr(module, "decide_any", fail)
    for refusal in (desk.read(106, signed("root")), desk.write(205)):
        assert (refusal is not None) == (mode is Mode.ENFORCE)
    assert [refusal.kind.reason for refusal, _ in desk.noted.refusals] == ["undecided"] * 2
    assert "the decision on request 205 (WIPE_WRITE_PERM_OF_BROKER) of " in caplog.text


def test_what_the_peer_is_told_is_bounded_and_acts_on_no_terminal():
    desk = Desk()
    for name in ("x" * 5_000_000, "\x1b[2J\nforged", "\u202e", "a;rm -rf /;", "$(reboot)", "--help"):
        for refusal in (
            desk.write(205, {"brokerName": name}),
            desk.write(205, {"brokerName": "b", "AccessKey": name, "Signature": "x"}),
        ):
            assert len(refusal.text) < 1100
            assert refusal.text.isprintable()
            assert len(refusal.mend) < 1100
            assert refusal.mend.isprintable() or not refusal.mend
            assert "$(reboot)" not in refusal.mend or "'" in refusal.mend


# what is not looked at again


def test_the_signature_of_a_repeated_registration_is_verified_once_a_minute(monkeypatch):
    looked = []
    real = SigningKey.sign
    monkeypatch.setattr(SigningKey, "sign", lambda self, *arguments: looked.append(1) or real(self, *arguments))
    desk, connection = Desk(ALICE), sender()
    ext = signed("alice", REGISTRATION, b"body")
    looked.clear()
    for _ in range(5):
        assert desk.write(103, ext, b"body", by=connection) is None
        assert connection.caller.name == "alice"
        assert connection.caller.digest
    assert len(looked) == 1
    desk.now_s += VERIFIED_FOR_S - 0.1
    assert desk.write(103, ext, b"body", by=connection) is None
    assert len(looked) == 1
    desk.now_s += 0.2
    assert desk.write(103, ext, b"body", by=connection) is None
    assert len(looked) == 2
    # another connection, another content, and another policy begin anew
    assert desk.write(103, ext, b"body", by=sender()) is None
    assert len(looked) == 3
    assert desk.write(103, ext, b"other", by=connection).kind.reason == "wrong_signature"
    assert len(looked) == 4
    after = Desk()
    assert after.write(103, ext, b"body", by=connection).kind.reason == "unknown_access_key"


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ENFORCE])
def test_a_repeated_registration_is_decided_once_by_each_policy_and_counted_each_time(monkeypatch, mode):
    decided = []
    real = module.decide_any
    monkeypatch.setattr(module, "decide_any", lambda *args: decided.append(1) or real(*args))
    desk, connection = Desk(ALICE, mode=mode), sender()
    for _ in range(3):
        assert (desk.write(103, REGISTRATION, b"body", by=connection) is None) == (mode is Mode.OBSERVE)
        assert connection.caller.refused
    assert (len(decided), len(desk.noted.refusals)) == (1, 3)
    ext = signed("alice", REGISTRATION, b"body")
    for _ in range(3):  # another caller
        assert desk.write(103, ext, b"body", by=connection) is None
        assert not connection.caller.refused
    assert (len(decided), desk.noted.allowed_times) == (2, 3)
    desk.write(103, {**REGISTRATION, "brokerName": "broker-z"}, b"body", by=connection)
    desk.write(103, REGISTRATION, b"body", by=connection)
    desk.write(103, REGISTRATION, b"body", by=sender())
    Desk(ALICE, mode=mode).write(103, REGISTRATION, b"body", by=connection)
    assert len(decided) == 6


def test_a_wrong_signature_is_not_remembered_as_right():
    desk, connection = Desk(ALICE), sender()
    for _ in range(3):
        wrong = signed("alice", REGISTRATION, b"body", key="a wrong secret")
        assert desk.write(103, wrong, b"body", by=connection).kind.reason == "wrong_signature"
    assert desk.write(103, signed("alice", REGISTRATION, b"body"), b"body", by=connection) is None
    # the digest leaves the signature out: on this connection the same registration needs none for a minute
    assert desk.write(103, signed("alice", REGISTRATION, b"body", key="x" * 9), b"body", by=connection) is None
    assert (
        desk.write(103, signed("alice", REGISTRATION, b"body", key="x" * 9), b"body").kind.reason == "wrong_signature"
    )


BOUND = user("bound", sources=("10.0.0.0/8",))
RULED = user("ruled", rules=(Rule(Effect.DENY, (Right.ROUTE,), Kind.TOPIC, "T", ("10.1.0.0/16",)),))
KEEPS = [
    ("nobody", sender(), {"topic": "open"}, True),
    ("nobody, on a topic that a rule denies to somebody", sender(), {}, False),
    ("a user by signature", sender(), signed("client", {"topic": "T"}), True),
    (
        "a user by signature whose connection is a user's",
        sender(names=("CN:b",)),
        signed("client", {"topic": "T"}),
        True,
    ),
    ("a user by certificate", sender(names=("CN:b",)), {"topic": "open"}, True),
    ("a user by network", sender("10.7.0.1"), {"topic": "open"}, True),
    ("a user by network, on a topic that a rule denies to somebody", sender("10.7.0.1"), {}, False),
    ("a user who may come from some networks only", sender(), signed("bound", {"topic": "T"}), False),
    ("a user with a rule for some networks", sender("9.9.9.9"), signed("ruled", {"topic": "T"}), False),
    ("a wrong signature", sender(), signed("client", {"topic": "T"}, key="x" * 9), False),
]


@pytest.mark.parametrize(("connection", "ext", "keeps"), [row[1:] for row in KEEPS], ids=[row[0] for row in KEEPS])
@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.OBSERVE])
def test_a_lookup_is_kept_only_if_it_is_allowed_to_whoever_sends_its_bytes(mode, connection, ext, keeps):
    known = user("cert", key=None, certificates=("CN:b",), networks=("10.7.0.0/16",))
    desk = Desk(user("client"), BOUND, RULED, known, mode=mode)
    connection.own_caller = None
    desk.read(105, {"topic": "T"} | ext, by=connection)
    assert desk.authorization.keeps == keeps
    desk.read(206, signed("client", key="x" * 9))
    assert not desk.authorization.keeps


def test_nothing_is_kept_while_anonymous_is_denied_something_from_somewhere():
    nobody = User("anonymous", rules=(Rule(Effect.DENY, (Right.ROUTE,), Kind.TOPIC, "T", ("10.1.0.0/16",)),))
    desk = Desk(user("client"), nobody)
    assert desk.read(105, {"topic": "T"}) is not None
    for ext in ({"topic": "T"}, signed("client", {"topic": "T"})):
        desk.read(105, ext, by=sender("10.2.0.1"))
        assert not desk.authorization.keeps


# who is closed when rules change


@pytest.mark.parametrize(
    ("before", "after", "ext", "names", "why"),
    [
        (ALICE, ALICE, signed("alice"), (), ""),
        (ALICE, None, signed("alice"), (), "is gone"),
        (ALICE, broker_user("alice", "broker-a", enabled=False), signed("alice"), (), "is disabled"),
        (ALICE, broker_user("alice", "broker-a", key=None), signed("alice"), (), ""),
        (ALICE, user("alice"), signed("alice"), (), ""),
        (user("c", certificates=("CN:b",)), user("c"), {}, ("CN:b",), "the certificate is not that of user c any more"),
        (user("c", certificates=("CN:b",)), user("c", certificates=("CN:b", "CN:x")), {}, ("CN:b",), ""),
        (user("c", networks=("10.0.0.0/8",)), user("c", enabled=False), {}, (), "is disabled"),
    ],
)  # fmt: skip
def test_whose_connections_are_closed(before, after, ext, names, why):
    connection = sender(names=names)
    Desk(before).read(106, ext, by=connection)
    found = Desk(*([after] if after else [])).authorization.why_out(connection)
    assert found.endswith(why) if why else found == ""
