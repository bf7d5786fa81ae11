"""What a stranger can do to a cluster: attack x who x mode. In enforce nothing, and every attempt is noted.

Every cell has a broker, a topic and a KV namespace of its own, so that all cells of a mode share one front end.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import signal
from collections import Counter
from typing import NamedTuple

import pytest

from mqregistry.auth.policy import Mode
from mqregistry.auth.refused import RefusedSummary
from mqregistry.auth.rights import Kind, Right, Role
from mqregistry.auth.users import Effect, Rule
from mqregistry.protocol.codes import RequestCode

from .auth_bed import Caller, Rules, broker_user, in_force, user, without_events
from .harness import Broker, FrontEnd, wait_until

numbers = itertools.count(1)


class Who(NamedTuple):
    """Who attacks: the AccessKey and secret key that he signs with; why he is refused, and as whom."""

    access_key: str | None
    secret_key: str | None
    reason: str
    user: str


WHO = {
    "anonymous": Who(None, None, "no_rule", "anonymous"),
    "client": Who("client", None, "no_rule", "client"),
    "other-broker": Who("other", None, "no_rule", "other"),
    "wrong-key": Who("victim", "a wrong secret", "wrong_signature", "victim"),
    "admins-name": Who("root", "a wrong secret", "wrong_signature", "root"),
    "unknown-user": Who("nobody", None, "unknown_access_key", "nobody"),
    "disabled-admin": Who("fired", None, "disabled", "fired"),
    "dropped-secret": Who("rotated", "the-old-secret", "wrong_signature", "rotated"),
}
# Of another tenant: in their own cluster both may do what they like.
TENANTS = {
    "tenants-broker": Who("tenant", None, "no_rule", "tenant"),
    "tenants-operator": Who("tenant-ops", None, "no_rule", "tenant-ops"),
}
# The rights of a broker on the same brokerNames as the victim, and so all that is left is whose the broker is.
TWIN = Who("twin", None, "not_owner", "twin")

USERS = (
    broker_user("victim", "v*"),
    broker_user("twin", "v*"),
    broker_user("other", "o*"),
    broker_user("tenant", "*", cluster="c2"),
    user("tenant-ops", Role.CLIENT, rules=(Rule(Effect.ALLOW, (Right.PERM, Right.TOPIC_WRITE), Kind.CLUSTER, "c2"),)),
    user("client", Role.CLIENT),
    user("fired", Role.ADMIN, enabled=False),
    user("rotated", Role.ADMIN, key="the-new-secret"),
)


class Cell:
    """One victim, and a connection of the attacker."""

    def __init__(self, front_end: FrontEnd, rules: Rules, who: Who) -> None:
        self.number = next(numbers)
        self.hung_up = False
        self.broker = Broker(
            f"v{self.number}",
            f"127.0.0.1:{20_000 + self.number}",
            topics=dict.fromkeys((self.topic, "more"), (4, 4, 2)),
        )
        self.kv = {"namespace": f"N{self.number}", "key": "k"}
        self.rules, self.front_end, self.who = rules, front_end, who
        self.victim = Caller(front_end.port, "victim")
        self.admin = Caller(front_end.port, "root")
        self.attacker = Caller(front_end.port, who.access_key, who.secret_key)

    def begin(self) -> None:
        """The tables before the attack."""
        assert self.victim.register(self.broker).code == 0
        assert self.admin.request(100, {**self.kv, "value": "v"}).code == 0

    @property
    def topic(self) -> str:
        return f"topic-{self.number}"

    def is_noted(self, row: RefusedSummary, mode: Mode) -> bool:
        """Whether this is the attempt of this cell; of one kind in all cells is a 318, which is on everything, and what
        a tenant does to another cluster."""
        names = {"broker": self.broker.name, "topic": self.topic, "kv": self.kv["namespace"]}
        named = {f"{kind}:{name}" for kind, name in names.items()} | {f"topic:evil-{self.number}"}
        return (
            (row.kind.user, row.kind.reason, row.mode) == (self.who.user, self.who.reason, mode)
            and (
                bool(named & set(row.kind.resources))
                or row.kind.right is Right.CONFIG_WRITE
                or (self.who in TENANTS.values() and row.kind.resources == ("cluster:c1",))
            )
            and (row.last.source, bool(row.last.how)) == ("127.0.0.1", True)
        )

    def hang_up(self) -> None:
        """Close the attacker's connection, and wait until all that follows from that is done.

        Closes are told to Redis in their order: when that of a broker that came later has had its effect, it is done.
        """
        self.attacker.close()
        self.hung_up = True
        last = Broker(f"v-last-{self.number}", f"127.0.0.1:{40_000 + self.number}", topics=["last", "last-too"])
        with Caller(self.front_end.port, "victim") as other:
            assert other.register(last).code == 0
        wait_until(lambda: last.name not in self.rules.names("brokers"), "the broker that came last is gone")

    def close(self) -> None:
        for one in (self.victim, self.admin, self.attacker):
            one.close()


def register_elsewhere(cell: Cell, **ext: str) -> int:
    return cell.attacker.register(
        Broker(cell.broker.name, f"127.0.0.1:{30_000 + cell.number}", topics=["evil", "evil-too"], counter=9, **ext)
    ).code


def register_in_another_cluster(cell: Cell, **ext: str) -> int:
    """The victim's brokerName, said to be in the tenant's cluster."""
    evil = Broker(cell.broker.name, f"127.0.0.1:{30_000 + cell.number}", cluster="c2", topics=["evil", "evil-too"],
                  counter=9)  # fmt: skip
    fields, body = evil.registration()
    return cell.attacker.request(103, fields | ext, body).code


def of_another_cluster(code: int, **ext: str):
    """A request that says that the victim is in the tenant's cluster."""

    def attack(cell: Cell) -> int:
        broker = cell.broker
        fields = {"clusterName": "c2", "brokerName": broker.name, "brokerAddr": broker.addr, "brokerId": "0"}
        return cell.attacker.request(code, fields | ext).code

    return attack


def high_state_version(cell: Cell) -> int:
    evil = Broker(cell.broker.name, f"127.0.0.1:{30_000 + cell.number}", topics=["evil", "evil-too"], counter=9)
    ext, body = evil.registration()
    ext.pop("bodyCrc32")
    body = body.replace(b'"stateVersion": 0', b'"stateVersion": 9000000000000000000')
    assert b"9000000000000000000" in body
    return cell.attacker.request(103, ext, body).code


def copy_and_hang_up(cell: Cell) -> int:
    code = cell.attacker.register(cell.broker).code
    cell.hang_up()
    return code


def touch_and_hang_up(code: int):
    def attack(cell: Cell) -> int:
        broker = cell.broker
        found = cell.attacker.request(
            code, {"clusterName": broker.cluster, "brokerName": broker.name, "brokerAddr": broker.addr, "brokerId": "0"}
        ).code
        cell.hang_up()
        return found

    return attack


def unregister(cell: Cell) -> int:
    broker = cell.broker
    return cell.attacker.request(
        104, {"clusterName": broker.cluster, "brokerName": broker.name, "brokerAddr": broker.addr, "brokerId": "0"}
    ).code


def register_topic(cell: Cell) -> int:
    body = b'{"queueDatas":[{"brokerName":"%b","readQueueNums":9,"writeQueueNums":9,"perm":6}]}'
    return cell.attacker.request(217, {"topic": f"evil-{cell.number}"}, body % cell.broker.name.encode()).code


def silence_topic(cell: Cell) -> int:
    """The victim's queues of its own topic, without a permission."""
    body = b'{"queueDatas":[{"brokerName":"%b","readQueueNums":4,"writeQueueNums":4,"perm":0}]}'
    return cell.attacker.request(217, {"topic": cell.topic}, body % cell.broker.name.encode()).code


class Attack(NamedTuple):
    """works: with authentication off it changes the tables. owned: it speaks for a broker."""

    run: object
    works: bool = True
    owned: bool = False


ATTACKS = {
    "103-elsewhere": Attack(register_elsewhere, owned=True),
    "103-state-version": Attack(high_state_version, owned=True),
    "103-copy-and-hang-up": Attack(copy_and_hang_up, owned=True),
    # in every mode a heartbeat takes no channel from a connection that is there
    "904-and-hang-up": Attack(touch_and_hang_up(904), works=False, owned=True),
    "322-and-hang-up": Attack(touch_and_hang_up(322), works=False, owned=True),
    "104": Attack(unregister, owned=True),
    "103-another-cluster": Attack(register_in_another_cluster),
    "103-another-cluster-id-1": Attack(lambda cell: register_in_another_cluster(cell, brokerId="1")),
    "103-another-cluster-id-minus-1": Attack(lambda cell: register_in_another_cluster(cell, brokerId="-1")),
    "103-another-cluster-acting-master": Attack(
        lambda cell: register_in_another_cluster(cell, brokerId="1", enableActingMaster="true")
    ),
    "104-another-cluster": Attack(of_another_cluster(104)),
    "104-another-cluster-own-address": Attack(of_another_cluster(104, brokerAddr="127.0.0.1:9"), works=False),
    "322-another-cluster": Attack(of_another_cluster(322), works=False),
    "904-another-cluster": Attack(of_another_cluster(904), works=False),
    "217-silenced": Attack(silence_topic),
    "205": Attack(lambda cell: cell.attacker.request(205, {"brokerName": cell.broker.name}).code),
    "327": Attack(lambda cell: cell.attacker.request(327, {"brokerName": cell.broker.name}).code),
    "216": Attack(lambda cell: cell.attacker.request(216, {"topic": cell.topic}).code),
    "216-of-a-cluster": Attack(
        lambda cell: cell.attacker.request(216, {"topic": cell.topic, "clusterName": "c1"}).code
    ),
    "217": Attack(register_topic),
    "100": Attack(lambda cell: cell.attacker.request(100, {**cell.kv, "value": "evil"}).code),
    "102": Attack(lambda cell: cell.attacker.request(102, cell.kv).code),
    "318": Attack(lambda cell: cell.attacker.request(318, None, b"productEnvName=evil%d" % cell.number).code),
}  # fmt: skip


@pytest.fixture(scope="module", params=list(Mode), ids=str)
def mode(request):
    return request.param


@pytest.fixture(scope="module")
def place(redis_url, mode):
    """A front end in this mode, the rules of its namespace, and how often whom was refused why."""
    rules = Rules(redis_url, f"t-{secrets.token_hex(6)}")
    policy = rules.begin(mode, *USERS)
    front_end, attempts = FrontEnd(redis_url, rules.namespace), Counter()
    try:
        in_force(front_end, policy)
        yield front_end, rules, attempts
        front_end.kill(signal.SIGTERM)
        counted = Counter()
        for row in rules.refused():
            counted[row.kind.user, row.kind.reason] += row.count
        assert counted == attempts, "every attempt is noted, and nothing else"
    finally:
        front_end.close()
        rules.close()


@pytest.fixture
def cell(place, who):
    front_end, rules, _ = place
    with contextlib.closing(Cell(front_end, rules, who)) as cell:
        cell.begin()
        yield cell


def carry_out(place, cell: Cell, mode: Mode, who: Who, attack: Attack) -> None:
    front_end, rules, attempts = place
    kept = rules.kept()
    before = kept, without_events(kept)
    code = attack.run(cell)
    after = rules.kept(events=not cell.hung_up)
    if mode is Mode.ENFORCE:
        assert code == 16
        assert after == before[cell.hung_up], "the tables changed"
    else:
        assert code == 0
        if attack.works:
            assert after != before[cell.hung_up], "it is no attack: nothing changed although nobody stops it"
    if mode is Mode.OFF:
        return
    attempts[who.user, who.reason] += 1
    if who.reason not in ("wrong_signature", "unknown_access_key"):  # these are of one kind in all cells
        front_end.wait_until(lambda: any(cell.is_noted(row, mode) for row in rules.refused()), "it is noted at once")


@pytest.mark.parametrize("who", (WHO | TENANTS).values(), ids=WHO | TENANTS)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_attack(place, cell, mode, who, attack):
    carry_out(place, cell, mode, who, attack)


@pytest.mark.parametrize("who", [TWIN], ids=["twin"])
@pytest.mark.parametrize("attack", [one for one in ATTACKS.values() if one.owned],
                         ids=[name for name, one in ATTACKS.items() if one.owned])  # fmt: skip
def test_attack_by_a_broker_of_the_same_rights(place, cell, mode, who, attack):
    """Two users for one brokerName: neither speaks for the other's process while that lives."""
    carry_out(place, cell, mode, who, attack)


@pytest.mark.parametrize("who", [TWIN], ids=["twin"])
def test_a_broker_speaks_for_no_other_address(place, cell, mode, who):
    """The brokerAddr of a registration is the connection's own."""
    before = cell.rules.kept()
    for addr in ("127.0.0.7:10911", "10.0.0.1:10911", "broker.example:10911", "[::1]:10911", "nonsense", "::1"):
        code = cell.attacker.register(Broker(f"v-far-{cell.number}", addr)).code
        assert code == (16 if mode is Mode.ENFORCE else 0), addr
        if mode is not Mode.OFF:
            place[2]["twin", "broker_addr"] += 1
    assert (cell.rules.kept() == before) == (mode is Mode.ENFORCE)


@pytest.mark.parametrize("who", [WHO["client"]], ids=["client"])
def test_the_signature_of_a_lookup_is_worth_no_deletion(place, cell, mode, who):
    """Byte for byte it is a valid signature of 216 of the same topic: the right decides."""
    signed = cell.attacker.signed({"topic": cell.topic}, b"")
    before = cell.rules.kept()
    cell.attacker.access_key = None
    assert cell.attacker.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, signed).code == 0
    code = cell.attacker.request(RequestCode.DELETE_TOPIC_IN_NAMESRV, signed).code
    assert code == (16 if mode is Mode.ENFORCE else 0)
    if mode is not Mode.OFF:
        place[2]["client", "no_rule"] += 1
    assert (cell.rules.kept() == before) == (mode is Mode.ENFORCE)
