"""Rules change while 200 clients and 32 brokers work over signed connections to two front ends.

Each change is in force at both within a second, and nobody who is right is refused once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec
import pytest

from mqregistry.auth import changes
from mqregistry.auth.policy import Policy
from mqregistry.auth.rights import Kind, Right, Role
from mqregistry.auth.users import Effect, Rule, Secret
from mqregistry.protocol.codes import RequestCode

from .auth_bed import Rules, broker_user, secret_of, user
from .harness import Broker, wait_until
from .many import CLOSED, Many, Peer

CLIENTS, CLIENT_USERS, BROKERS = 200, 20, 32
IN_FORCE_S = 1.0
NO_PERMISSION = 16
LOOKUP = RequestCode.GET_ROUTEINFO_BY_TOPIC


@pytest.fixture
def rules(redis_url, namespace):
    rules = Rules(redis_url, namespace)
    yield rules
    rules.close()


def lookups(port: int, name: str, secret_key: str = "", topic: str = "common", *, period_s: float = 0.4) -> Peer:
    return Peer(port, name, secret_key or secret_of(name), LOOKUP, {"topic": topic}, period_s=period_s)


class Site:
    """Peers of two front ends, and how long each change took, at best, until it was in force everywhere."""

    def __init__(self, rules: Rules, peers: Sequence[Peer]) -> None:
        self.rules, self.peers = rules, peers
        self.took_s: dict[str, float] = {}

    def of(self, *names: str) -> list[Peer]:
        return [peer for peer in self.peers if peer.access_key in names]

    def takes(self, what: str, steps: Sequence[Callable[[Policy], Policy]], peers: Sequence[Peer], code: int) -> None:
        """Make a change, and see when these peers are first answered with nothing but this code."""
        self.rules.change(*steps)
        changed_s = time.monotonic()
        wait_until(lambda: all(peer.answers[-1].sent_s > changed_s + IN_FORCE_S for peer in peers), f"{what}: answers")
        after = [answer for peer in peers for answer in peer.answers if answer.sent_s > changed_s]
        assert any(answer.code == code for answer in after), (what, Counter(answer.code for answer in after))
        others_s = [answer.sent_s - changed_s for answer in after if answer.code not in (code, CLOSED)]
        self.took_s[what] = min(max(others_s, default=0.0), self.took_s.get(what, 60.0))


def test_every_change_is_in_force_within_a_second_and_nobody_who_is_right_is_refused(rules, front_end_with, namespace):
    clients = [f"client-{n}" for n in range(CLIENT_USERS)]
    brokers = {f"user-{n}": Broker(f"b-{n}", f"127.0.0.1:{11_000 + n}", topics=["common", f"only-{n}"])
               for n in range(BROKERS)}  # fmt: skip
    names = [*clients, *brokers]
    rules.begin(
        "enforce",
        *(user(name, Role.CLIENT) for name in clients),
        *(broker_user(name, broker.name) for name, broker in brokers.items()),
    )
    ports = [front_end_with(namespace=namespace).port for _ in range(2)]
    registering = [
        Peer(port, name, secret_of(name), RequestCode.REGISTER_BROKER, *broker.registration())
        for name, broker in brokers.items() for port in ports
    ]  # fmt: skip
    with Many(registering) as fleet:
        wait_until(lambda: all(peer.answers for peer in fleet.peers), "every broker is registered")
        asking = [lookups(ports[n % 2], clients[n // 2 % CLIENT_USERS]) for n in range(CLIENTS)]
        probes_new = [lookups(port, "client-0", "new-of-client-0", period_s=0.02) for port in ports]
        probes_old = [lookups(port, "client-0", period_s=0.02) for port in ports]
        with Many(asking), Many([*probes_new, *probes_old]) as probes:
            site = Site(rules, [*registering, *asking])
            wait_until(lambda: all(peer.answers for peer in [*asking, *probes.peers]), "every client asks")
            rotate(site, names, probes_old, "id", probes_new, "new")
            play_changes(site)
            secrets = ["new", "newer", "newest", "last"]
            for old, new in pairwise(secrets):  # a busy machine may take a second for itself
                if max(site.took_s.values()) >= IN_FORCE_S:
                    for peers, secret in ((probes_old, old), (probes_new, new)):
                        for peer in peers:
                            peer.secret_key = f"{secret}-of-client-0"
                    rotate(site, names, probes_old, old, probes_new, new)
                    play_changes(site)
    wrong = {peer.access_key for peer in site.of("client-1", "client-2", "user-1", "user-2")}
    for peer in site.peers:
        if peer.access_key not in wrong:
            codes = Counter(answer.code for answer in peer.answers)
            assert set(codes) == {0}, (peer.access_key, codes, [one for one in peer.answers if one.code][:2])
    assert max(site.took_s.values()) < IN_FORCE_S, site.took_s
    assert len([peer for peer in asking if len(peer.answers) > 5]) == CLIENTS


def rotate(
    site: Site, names: Sequence[str], probes_old: Sequence[Peer], old: str, probes_new: Sequence[Peer], new: str
) -> None:
    """Give each of these users a new secret, have all sign with it, and drop the old one."""
    more = {name: Secret(f"{new}-{name}", f"{new}-of-{name}") for name in names}
    site.takes(
        "a second secret for each",
        [lambda policy, name=name: changes.add_secret(policy, name, more[name]) for name in names],
        probes_new, 0,
    )  # fmt: skip
    for peer in site.peers:
        peer.secret_key = f"{new}-of-{peer.access_key}"
    switched_s = time.monotonic()
    wait_until(lambda: all(peer.answers[-1].sent_s > switched_s for peer in site.peers), "all sign with it")
    site.takes("the first secrets dropped",
               [lambda policy, name=name: changes.drop_secret(policy, name, f"{old}-{name}") for name in names],
               probes_old, NO_PERMISSION)  # fmt: skip


def play_changes(site: Site) -> None:
    """Disable two users, and enable them; take a right from two others, and give it back."""

    def edit(name: str, **fields: object) -> Callable[[Policy], Policy]:
        return lambda policy: changes.edit_user(policy, name, lambda one: msgspec.structs.replace(one, **fields))

    gone = ("client-1", "user-1")
    site.takes("disabled", [edit(name, enabled=False) for name in gone], site.of(*gone), NO_PERMISSION)
    assert all(CLOSED in {answer.code for answer in peer.answers} for peer in site.of(*gone)), "they were hung up on"
    site.takes("enabled", [edit(name, enabled=True) for name in gone], site.of(*gone), 0)
    denied = {
        "client-2": Rule(Effect.DENY, (Right.ROUTE,), Kind.TOPIC, "com*"),
        "user-2": Rule(Effect.DENY, (Right.REGISTER,), Kind.BROKER, "b-2"),
    }
    site.takes("denied", [lambda policy, name=name, rule=rule: changes.add_rules(policy, name, [rule])
                          for name, rule in denied.items()], site.of(*denied), NO_PERMISSION)  # fmt: skip
    site.takes("allowed", [lambda policy, name=name, rule=rule: changes.remove_rules(policy, name, [rule])
                           for name, rule in denied.items()], site.of(*denied), 0)  # fmt: skip
