"""Two teams on one name server, as docs/security.md has it: neither touches what is the other's."""

from __future__ import annotations

import secrets

import pytest

from mqregistry.auth.rights import Kind, Right, Role
from mqregistry.auth.users import Effect, Rule
from mqregistry.protocol.watch import ROUTE_WATCH

from .auth_bed import Caller, Rules, broker_user, in_force, refused_with, user
from .harness import Broker, FrontEnd

PAY = broker_user("pay-broker", "pay-1", cluster="pay")
SHOP = broker_user("shop-broker", "*", cluster="shop")
ALLOW, DENY = Effect.ALLOW, Effect.DENY
OPS = user("shop-ops", Role.CLIENT, rules=(Rule(ALLOW, (Right.PERM, Right.TOPIC_WRITE), Kind.CLUSTER, "shop"),))
BOUND = broker_user("bound-broker", "bound-*", cluster="shop")


@pytest.fixture(params=["5.x", "4.8"])
def place(redis_url, request):
    rules = Rules(redis_url, f"t-{secrets.token_hex(6)}", request.param)
    policy = rules.begin("enforce", PAY, SHOP, OPS, BOUND)
    front_end = FrontEnd(redis_url, rules.namespace, compat=request.param)
    try:
        in_force(front_end, policy)
        yield front_end, rules
    finally:
        front_end.close()
        rules.close()


@pytest.fixture
def callers(place):
    front_end, _ = place
    found = {name: Caller(front_end.port, name) for name in ("pay-broker", "shop-broker", "shop-ops", "bound-broker")}
    yield found
    for one in found.values():
        one.close()


def pay(**more):
    return Broker("pay-1", "127.0.0.1:10911", cluster="pay", topics=["pay-orders", "pay-bills"], **more)


def shop(name="shop-1", port=10921, **more):
    return Broker(name, f"127.0.0.1:{port}", cluster="shop", **({"topics": ["shop-a", "shop-b"]} | more))


def test_each_team_works_in_its_own_cluster(callers, place):
    assert callers["pay-broker"].register(pay()).code == 0
    assert callers["shop-broker"].register(shop()).code == 0
    assert callers["shop-broker"].register(shop()).code == 0, "a heartbeat"
    ops = callers["shop-ops"]
    is_48 = place[0].settings.compat == "4.8"
    for code in (205,) if is_48 else (205, 327):
        assert ops.request(code, {"brokerName": "shop-1"}).code == 0
        refused_with(ops.request(code, {"brokerName": "pay-1"}), "perm")
    assert ops.request(216, {"topic": "shop-a", "clusterName": "shop"}).code == 0
    refused_with(ops.request(216, {"topic": "pay-orders"}))


def test_a_topic_that_both_have_is_deleted_in_ones_own_cluster_alone(callers, place):
    assert callers["pay-broker"].register(pay()).code == 0
    assert callers["shop-broker"].register(shop(topics=["pay-orders", "x"])).code == 0
    reply = callers["shop-ops"].request(216, {"topic": "pay-orders", "clusterName": "shop"})
    # 4.8 deletes a topic everywhere, whatever cluster is named
    assert reply.code == (16 if place[0].settings.compat == "4.8" else 0)
    route = callers["pay-broker"].request(105, {"topic": "pay-orders"})
    assert b"pay-1" in route.body


def test_a_name_that_a_rule_names_is_kept_for_its_cluster(callers):
    """Nobody takes it while its brokers are away; then it would be theirs no more."""
    refused_with(callers["shop-broker"].register(shop("pay-1")), "cluster:pay")
    assert callers["pay-broker"].register(pay()).code == 0


def test_a_name_is_in_the_cluster_that_it_was_registered_in_first(callers, place):
    _, rules = place
    assert callers["shop-broker"].register(shop("free")).code == 0
    policy = rules.edit("pay-broker", rules=broker_user("x", "*", cluster="pay").rules)
    in_force(place[0], policy)
    is_48 = place[0].settings.compat == "4.8"
    for code in (104, 322) if is_48 else (104, 322, 904):
        refused_with(
            callers["pay-broker"].request(
                code, {"clusterName": "pay", "brokerName": "free", "brokerAddr": "127.0.0.1:10921", "brokerId": "0"}
            )
        )
    refused_with(callers["pay-broker"].register(Broker("free", "127.0.0.1:10931", cluster="pay")), "cluster:shop")
    body = b'{"queueDatas":[{"brokerName":"free","readQueueNums":4,"writeQueueNums":4,"perm":0}]}'
    if not is_48:
        refused_with(callers["pay-broker"].request(217, {"topic": "shop-a"}, body))


def test_rules_say_which_topics_a_broker_may_bring(callers, place):
    """Off by default: each of these rules is one that an operator makes."""
    front_end, rules = place
    bound = callers["bound-broker"]
    broker = shop("bound-1", 10941, topics=["shop-a", "pay-orders"])
    assert bound.register(broker).code == 0
    deny = Rule(DENY, (Right.REGISTER,), Kind.TOPIC, "pay-*")
    in_force(front_end, rules.edit("bound-broker", rules=(*BOUND.rules, deny)))
    refused_with(bound.register(broker), "topic:pay-orders")
    assert bound.register(shop("bound-1", 10941, topics=["shop-a", "shop-c"], counter=2)).code == 0
    allow = Rule(ALLOW, (Right.REGISTER,), Kind.TOPIC, "shop-*")
    in_force(front_end, rules.edit("bound-broker", rules=(*BOUND.rules, allow)))
    refused_with(bound.register(shop("bound-1", 10941, topics=["shop-a", "other"], counter=3)), "topic:other")
    assert bound.register(shop("bound-1", 10941, topics=["shop-a", "shop-d"], counter=4)).code == 0
    body = b'{"queueDatas":[{"brokerName":"bound-1","readQueueNums":4,"writeQueueNums":4,"perm":6}]}'
    if front_end.settings.compat != "4.8":
        refused_with(bound.request(217, {"topic": "other"}, body))
        assert bound.request(217, {"topic": "shop-e"}, body).code == 0


def test_the_members_of_a_broker_are_shown_to_who_may_see_its_cluster(callers, place):
    front_end, rules = place
    assert callers["pay-broker"].register(pay()).code == 0
    denied = Rule(DENY, (Right.LIST,), Kind.CLUSTER, "pay")
    in_force(front_end, rules.edit("shop-ops", rules=(*OPS.rules, denied)))
    if front_end.settings.compat == "4.8":
        return
    ask = {"brokerName": "pay-1", "clusterName": "shop"}
    refused_with(callers["shop-ops"].request(901, ask), "cluster:pay")
    assert callers["shop-broker"].request(901, ask).code == 0
    reply = callers["shop-ops"].request(ROUTE_WATCH, {"holdMillis": "0"}, b'["pay-orders"]')
    assert reply.code == 0
