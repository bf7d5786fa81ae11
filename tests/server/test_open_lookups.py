"""Kept lookups are answered to everybody who may ask for them, and to nobody else, however he is known."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from mqregistry.auth.decide import decide
from mqregistry.auth.policy import Mode, Policy
from mqregistry.auth.rights import Kind, Resource, Right, Role
from mqregistry.auth.users import ANONYMOUS, Effect, Rule
from mqregistry.networks import parse_address
from mqregistry.protocol.command import Command, encode_command
from mqregistry.server.auth.authorization import Authorization
from mqregistry.server.auth.caller import Certificate
from mqregistry.server.auth.open_lookups import OpenLookups
from mqregistry.server.auth.tally import Tally
from mqregistry.server.limits.failures import Failures
from mqregistry.server.net.connection import ServerConnection

from .auth_bed import ADMIN, user
from .pair import Pair, Wire, fill
from .test_authorization import NoTables

PATTERNS = (None, "*", "pay-*", "*-x", "pay-a", "or*rs", "orders")
TOPICS = ("pay-a", "pay-x", "orders", "TopicA", "", "ors")


def rules(draw: random.Random):
    return tuple(
        Rule(
            draw.choice(list(Effect)), (draw.choice((Right.ROUTE, Right.LIST)),),
            *((Kind.TOPIC, pattern) if pattern else ()), sources=draw.choice(((), ("10.1.0.0/16",))),
        )
        for pattern in draw.choices(PATTERNS, k=draw.randrange(3))
    )  # fmt: skip


def test_what_is_open_is_allowed_to_all_who_may_ask():
    draw, asked = random.Random(1), 0
    for _ in range(3000):
        users = [
            user(
                f"u{number}", *draw.choices(list(Role), k=draw.randrange(2)), rules=rules(draw),
                sources=draw.choice(((), ("10.1.0.0/16",))), enabled=draw.random() < 0.8,
            )
            for number in range(3)
        ]  # fmt: skip
        anonymous = user(ANONYMOUS, key=None, rules=tuple(r for r in rules(draw) if r.effect is Effect.DENY))
        policy = Policy(Mode.ENFORCE, 1, [*users, anonymous])
        lookups = OpenLookups(policy)
        for topic in filter(lookups.has, TOPICS):
            for who in (*policy.users.values(), None):
                for source in ("10.1.2.3", "10.9.9.9", None):
                    address = source and parse_address(source)
                    if lookups.may_ask(who, address):
                        asked += 1
                        on = (Resource(Kind.TOPIC, topic),) if topic else ()
                        assert decide(policy, who, Right.ROUTE, on, address).allowed
    assert asked > 10_000


def lookup(topic: str) -> bytes:
    return encode_command(Command(code=105, opaque=7, version=479, ext_fields={"topic": topic}))


def deny(pattern: str) -> Rule:
    return Rule(Effect.DENY, (Right.ROUTE,), Kind.TOPIC, pattern)


class From(Wire):
    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = host

    def get_extra_info(self, name: str) -> Any:
        return (self.host, 1) if name == "peername" else None


USERS = (
    ADMIN, user("by-network", networks=("10.1.0.0/16",)), user("by-certificate", certificates=("CN:app",)),
    user("denied", networks=("10.2.0.0/16",), rules=(deny("orders"),)),
    user("denied-all", networks=("10.3.0.0/16",), rules=(deny("*"),)),
    user("elsewhere", networks=("10.4.0.0/16",), sources=("10.9.0.0/16",)),
    user("disabled", networks=("10.5.0.0/16",), enabled=False),
    user(ANONYMOUS, key=None, rules=(deny("pay-*"),)),
)  # fmt: skip


def side(mode: Mode = Mode.ENFORCE):
    side = Pair().quick
    fill(side.view.tables, ("TopicA", "orders"))
    side.front_end.authorize(authorization(Policy(mode, 1, USERS)))
    return side


def authorization(policy: Policy):
    store: Any = SimpleNamespace()
    tally = Tally(store, store, "fe")
    return Authorization(policy, tally, require_tls=True, tables=NoTables(), failures=Failures(str, str))


def connected(side, host: str, certificate: str = "") -> tuple[ServerConnection, From]:
    wire = From(host)
    connection = ServerConnection(side.connections)
    connection.connection_made(wire)
    if certificate:
        connection.certificate = Certificate((certificate,))
    return connection, wire


@pytest.mark.parametrize(
    "who", [("10.8.0.1",), ("10.1.0.1",), ("10.8.0.1", "CN:app"), ("10.2.0.1",)],
    ids=["anonymous with an unrelated rule", "network", "certificate", "an unrelated rule"],
)  # fmt: skip
async def test_lookups_of_everybody_become_known(who):
    one = side()
    connection, wire = connected(one, *who)
    for _ in range(10):
        connection.data_received(lookup("TopicA"))
    assert one.front_end.counters.lookups_known >= 6
    assert len(set(wire.written)) == 1


@pytest.mark.parametrize(
    ("host", "topic"), [("10.2.0.1", "orders"), ("10.3.0.1", "TopicA"), ("10.4.0.1", "TopicA"), ("10.5.0.1", "TopicA")]
)
async def test_nobody_gets_what_was_kept_of_others_and_is_denied_to_him(host, topic):
    one = side()
    for asked in ("10.8.0.1", "10.1.0.1"):
        connection, wire = connected(one, asked)
        for _ in range(10):
            connection.data_received(lookup(topic))
        assert b'"code":0' in wire.written[-1]
    connection, wire = connected(one, host)
    connection.data_received(encode_command(Command(code=206, opaque=7, version=479)))  # which he may, if enabled
    for asked in ("TopicA", "orders", topic, topic, topic):
        connection.data_received(lookup(asked))
        assert asked != topic or b'"code":16' in wire.written[-1]


async def test_other_rules_end_what_was_kept():
    one = side()
    connection, wire = connected(one, "10.1.0.1")
    for _ in range(10):
        connection.data_received(lookup("TopicA"))
    denied = user("by-network", networks=("10.1.0.0/16",), rules=(deny("Topic*"),))
    one.front_end.authorize(authorization(Policy(Mode.ENFORCE, 2, [ADMIN, denied])))
    connection.data_received(lookup("TopicA"))
    assert b'"code":16' in wire.written[-1]
