"""Rules change while brokers and clients work, and while Redis is away.

They are in force at once; nobody who is right is refused once, and nobody who is wrong gets in.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from bench.servers.processes import free_port
from mqregistry.auth import changes
from mqregistry.auth.policy import Mode
from mqregistry.auth.rights import Kind, Right, Role
from mqregistry.auth.users import Effect, Rule, Secret
from mqregistry.server.process.authentication import WHAT_STRANGERS_MAY

from .auth_bed import Caller, Rules, broker_user, in_force, refused_with, secret_of, user
from .fleet import Beating
from .harness import Broker, FrontEnd, wait_until

LIFE_MS = 6000


class SignedBeating(Beating):
    """A broker that signs with the secret that it is told to."""

    def __init__(self, name: str, broker: Broker, ports: list[int], **options: float) -> None:
        self.name, self.secret_key = name, secret_of(name)
        super().__init__(broker, ports, **options)

    def connect(self, port: int) -> Caller:
        return Caller(port, self.name, self.secret_key)

    def use(self, secret_key: str) -> None:
        """Sign with another secret from the next round on."""
        with self._round:
            self.secret_key = secret_key
            for client in self._clients.values():
                client.secret_key = secret_key  # type: ignore[attr-defined]


class Asking:
    """Somebody who sends the same requests again and again, over a connection to each front end."""

    def __init__(self, front_ends: list[FrontEnd], act, **who) -> None:
        self.codes: Counter[int | str] = Counter()
        self.remarks: list[str] = []
        self.who, self._act, self._stop = who, act, threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(one.port,), daemon=True) for one in front_ends]
        for thread in self._threads:
            thread.start()

    def _run(self, port: int) -> None:
        client = None
        while not self._stop.is_set():
            try:
                client = client or Caller(port, **self.who)
                reply = self._act(client)
                self.codes[reply.code] += 1
                if reply.code:
                    self.remarks.append(f"{reply.code}: {reply.remark}")
            except (OSError, AssertionError) as error:
                self.codes[type(error).__name__] += 1
                client = client and client.close()
            self._stop.wait(0.02)
        if client is not None:
            client.close()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@contextlib.contextmanager
def going_on(*parts):
    """These, until the end of the block."""
    try:
        yield parts
    finally:
        for part in parts:
            part.stop()


def brokers_of(count):
    return [Broker(f"broker-{n}", f"127.0.0.1:{11_000 + n}", topics=["common", f"only-{n}"]) for n in range(count)]


def users_of(brokers):
    return [broker_user(f"user-{broker.name}", broker.name) for broker in brokers]


@pytest.fixture
def rules(redis_url, namespace):
    rules = Rules(redis_url, namespace)
    yield rules
    rules.close()


@pytest.fixture
def two(front_end_with, namespace):
    """Starts two front ends of the namespace, of one worker each."""
    return lambda **settings: [front_end_with(namespace=namespace, **settings) for _ in range(2)]


# changes


def test_every_change_is_in_force_everywhere_within_a_second_and_nobody_right_is_refused(rules, two):
    brokers = brokers_of(6)
    probe = user("probe", Role.OPERATOR)
    rules.begin("enforce", *users_of(brokers), user("client", Role.CLIENT), probe)
    front_ends = two()
    ports = [one.port for one in front_ends]
    fleet = [SignedBeating(f"user-{broker.name}", broker, ports, period_s=0.1) for broker in brokers]
    clients = [Asking(front_ends, lambda client: client.route("common"), access_key=key) for key in ("client", None)]
    took_s: dict[str, float] = {}

    def takes(what: str, change, holds) -> None:
        """Make a change; it is in force when this holds at every front end."""
        change()
        began = time.monotonic()
        wait_until(lambda: all(holds(one) for one in front_ends), what)
        took_s[what] = min(time.monotonic() - began, took_s.get(what, 60.0))

    def play() -> None:
        takes("disabled", lambda: rules.edit("probe", enabled=False), lambda one: writes(one) == 16)
        takes("enabled", lambda: rules.edit("probe", enabled=True), lambda one: writes(one) == 0)
        denied = Rule(Effect.DENY, (Right.KV_WRITE,), Kind.KV, "N")
        takes("denied", lambda: rules.change(lambda policy: changes.add_rules(policy, "probe", [denied])),
              lambda one: writes(one) == 16)  # fmt: skip
        takes("allowed", lambda: rules.change(lambda policy: changes.remove_rules(policy, "probe", [denied])),
              lambda one: writes(one) == 0)  # fmt: skip
        takes("role taken", lambda: rules.edit("probe", roles=()), lambda one: writes(one) == 16)
        takes("mode observe", lambda: rules.set_mode("observe"), lambda one: writes(one) == 0)
        takes("mode enforce", lambda: rules.set_mode("enforce"), lambda one: writes(one) == 16)
        takes("mode off", lambda: rules.set_mode("off"), lambda one: writes(one, "a wrong secret") == 0)
        takes("enforce again", lambda: rules.set_mode("enforce"), lambda one: writes(one) == 16)
        takes("removed", lambda: rules.change(lambda policy: changes.remove_user(policy, "probe")),
              lambda one: writes(one) == 16)  # fmt: skip

    def writes(front_end: FrontEnd, key: str | None = None) -> int:
        """The code; -1: it was disabled just now, and the connection closed before the answer."""
        with Caller(front_end.port, "probe", key) as client, contextlib.suppress(OSError):
            client.send(100, {"namespace": "N", "key": "k", "value": "v"})
            reply = client.receive()
            return reply.code if reply else -1
        return -1

    for member in fleet:
        wait_until(lambda m=member: m.welcome, "every broker is registered")
    for client in clients:
        wait_until(lambda c=client: c.codes[0] > 0, "and its routes are found")
        client.codes.clear()
        client.remarks.clear()
    with going_on(*fleet, *clients):
        for number, member in enumerate(fleet):  # rotation without a gap
            name, new = member.name, f"another-secret-{number}"
            rules.change(lambda policy, name=name, new=new, number=number: changes.add_secret(
                policy, name, Secret(f"new-{number}", new)))  # fmt: skip
            in_force(front_ends[0], rules.read())
            in_force(front_ends[1], rules.read())
            member.use(new)
            beats = member.answers[0]
            wait_until(lambda m=member, beats=beats: m.answers[0] > beats + 4, "it beats with the new secret")
            rules.change(lambda policy, name=name: changes.drop_secret(policy, name, f"id-{name}"))
        assert all(writes(one) == 0 for one in front_ends)
        play()
        for _ in range(3):  # a busy machine may take a second for itself
            if max(took_s.values()) >= 1:
                rules.change(lambda policy: changes.add_user(policy, probe))
                wait_until(lambda: all(writes(one) == 0 for one in front_ends), "it may write again")
                play()
        for member in fleet:
            beats = member.answers[0]
            wait_until(lambda m=member, beats=beats: m.answers[0] > beats + 4, "brokers go on")
    for member in fleet:
        assert set(member.answers) == {0}, member.answers
    for client in clients:
        assert set(client.codes) == {0}, client.remarks[:3]
    assert max(took_s.values()) < 1, took_s


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (lambda rules: rules.edit("alice", enabled=False), "user alice is disabled"),
        (lambda rules: rules.change(lambda policy: changes.remove_user(policy, "alice")), "user alice is gone"),
    ],
    ids=["disabled", "removed"],
)
@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_open_connections_of_who_is_no_user_any_more_are_closed(rules, two, mode, end, why):
    rules.begin(mode, broker_user("alice", "broker-a"), broker_user("bob", "broker-b"))
    front_ends = two()
    with (
        Caller(front_ends[0].port, "alice") as writes, Caller(front_ends[1].port, "alice") as reads,
        Caller(front_ends[0].port, "bob") as bob, front_ends[0].client() as nobody,
    ):  # fmt: skip
        assert writes.register(Broker()).code == 0
        assert bob.register(Broker("broker-b", "127.0.0.1:2")).code == 0
        assert reads.request(106).code == nobody.route("topic1").code == 0
        in_force(front_ends[0], end(rules))
        in_force(front_ends[1], rules.read())
        if mode == "enforce":
            assert writes.closed()
            assert reads.closed()
            front_ends[0].wait_until(lambda: why in front_ends[0].log, "the log says why")
            wait_until(lambda: set(rules.names("brokers")) == {"broker-b"}, "its broker is gone")
        else:
            assert writes.register(Broker(counter=2)).code == reads.request(106).code == 0
        assert bob.register(Broker("broker-b", "127.0.0.1:2", counter=2)).code == 0
        assert nobody.request(106).code == 0


def test_a_dropped_secret_refuses_and_the_new_one_goes_on_over_the_same_connection(rules, two):
    rules.begin("enforce", broker_user("alice", "broker-a"))
    (front_end, _) = two()
    with Caller(front_end.port, "alice") as broker:
        assert broker.register(Broker()).code == 0
        rules.change(lambda policy: changes.add_secret(policy, "alice", Secret("new", "another-secret")))
        in_force(front_end, rules.change(lambda policy: changes.drop_secret(policy, "alice", "id-alice")))
        refused_with(broker.register(Broker()), "the AccessKey alice", "by none of this user's secrets")
        broker.secret_key = "another-secret"
        assert broker.register(Broker()).code == 0
        assert broker.route("topic1").code == 0


def test_the_use_of_a_secret_is_noted(rules, front_end_with, namespace):
    rules.begin("enforce", user("ops", Role.OPERATOR))
    front_end = front_end_with(namespace=namespace, constants={"server.auth.tally._SUMMARY_EVERY_S": 0.3})
    with Caller(front_end.port, "ops") as client:
        assert client.request(106).code == 0
    wait_until(lambda: b"id-ops" in rules.redis.hgetall(f"mqauth:{{{rules.namespace}}}:used"), "it is noted")
    assert set(rules.redis.hgetall(f"mqauth:{{{rules.namespace}}}:used")) == {b"id-ops"}


def test_the_use_of_a_secret_is_noted_while_its_lookups_are_known_by_their_bytes(rules, front_end_with, namespace):
    """They are answered without a decision: an operator who sees no use drops a secret that somebody uses."""
    rules.begin("enforce", broker_user("alice", "broker-a"), user("app", Role.CLIENT))
    often = {f"server.auth.tally.{name}": 0.3 for name in ("USED_EVERY_S", "_SUMMARY_EVERY_S")}
    front_end = front_end_with(namespace=namespace, constants=often)
    used = f"mqauth:{{{namespace}}}:used"
    with Caller(front_end.port, "alice") as alice:
        assert alice.register(Broker()).code == 0
        with going_on(Asking([front_end], lambda client: client.route("topic1"), access_key="app")) as (asking,):
            wait_until(lambda: asking.codes[0] > 40, "its lookups are known")
            for _ in range(3):
                rules.redis.delete(used)
                wait_until(lambda: rules.redis.hexists(used, "id-app"), "its use is noted")
    assert set(asking.codes) == {0}


# Redis away


def evict(broker: Broker):
    ext = {"clusterName": "c1", "brokerName": broker.name, "brokerAddr": broker.addr, "brokerId": "0"}
    return lambda client: client.request(104, ext)


@pytest.mark.parametrize("kind", ["killed", "paused", "cut_off", "restarted_empty"])
def test_while_redis_is_away_and_when_it_is_back_nobody_gets_in_and_nobody_is_locked_out(
    own_redis, front_end_with, namespace, kind
):
    brokers = brokers_of(2)
    rules = Rules(own_redis.url, namespace)
    before = rules.begin("enforce", *users_of(brokers))
    settings = {
        "url": own_redis.url, "namespace": namespace, "redis_timeout_ms": 500, "broker_channel_expired_time_ms": LIFE_MS
    }  # fmt: skip
    front_ends = [front_end_with(**settings) for _ in range(2)]
    fleet = [SignedBeating(f"user-{b.name}", b, [f.port for f in front_ends], period_s=0.2) for b in brokers]
    for member in fleet:
        wait_until(lambda m=member: m.welcome, "every broker is registered")
    victim = brokers[0]
    strangers = [
        Asking(front_ends, evict(victim)),
        Asking(front_ends, evict(victim), access_key="user-broker-0", secret_key="a wrong secret"),
        Asking(front_ends, evict(victim), access_key="user-broker-1"),
        Asking(front_ends, lambda client: client.request(216, {"topic": "common"})),
    ]
    with going_on(*fleet, *strangers):
        end = getattr(own_redis, kind)()
        for front_end in front_ends:
            front_end.wait_until(lambda f=front_end: f.poll().get("redis_away"), "it noticed")
        for stranger in strangers:
            tries = stranger.codes[16]
            wait_until(lambda s=stranger, tries=tries: s.codes[16] > tries + 20, "it goes on trying")
        end()
        for front_end in front_ends:
            front_end.wait_until(lambda f=front_end: not f.poll().get("redis_away", True), "Redis is back")
        wait_until(lambda: rules.read() and rules.read().mode is Mode.ENFORCE, "the rules are given back")
        for member in fleet:
            beats = member.answers[0]
            wait_until(lambda m=member, beats=beats: m.answers[0] > beats + 4, "brokers register again")
        for stranger in strangers:
            tries = stranger.codes[16]
            wait_until(lambda s=stranger, tries=tries: s.codes[16] > tries + 20, "it goes on trying")
    for stranger in strangers:
        assert set(stranger.codes) <= {16}, stranger.remarks[:3]
    for member in fleet:
        assert member.answers[16] == 0, member.answers
    after = rules.read()
    assert (after.users, after.mode) == (before.users, before.mode)
    rules.close()


# rules that cannot be read


def break_rules(rules: Rules) -> bytes:
    """Have a user in Redis that a later release wrote; returns what was there."""
    key = f"mqauth:{{{rules.namespace}}}:users"
    there = rules.redis.hget(key, "root")
    rules.redis.hset(key, "root", json.dumps(json.loads(there) | {"later": True}))
    return there


def serve(redis_url, namespace, *more):
    return subprocess.run(
        [sys.executable, "-P", "-m", "mqregistry", "serve", "--redis", redis_url, "--namespace", namespace,
         "--host", "127.0.0.1", "--port", str(free_port()), "--http-port", "0", *more],
        capture_output=True, text=True, timeout=60, env={k: v for k, v in os.environ.items() if "MQREG" not in k},
    )  # fmt: skip


def test_enforced_rules_that_cannot_be_read_stop_the_start_with_253(rules, redis_url, namespace):
    rules.begin("enforce")
    break_rules(rules)
    done = serve(redis_url, namespace)
    assert done.returncode == 253, done.stderr
    assert "the rules of this namespace are enforced, and cannot be read: user 'root' is not stored as" in done.stderr
    assert "mqregistry auth mode off" in done.stderr
    assert secret_of("root") not in done.stderr + done.stdout


def test_a_redis_login_that_may_not_read_enforced_rules_stops_the_start(own_redis, namespace):
    rules = Rules(own_redis.url, namespace)
    rules.begin("enforce")
    own_redis.client().execute_command("ACL", "SETUSER", "limited", "on", ">pass", "~mq:*", "+@all")
    done = serve(own_redis.url.replace("unix://", "unix://limited:pass@"), namespace)
    assert done.returncode == 253, done.stderr
    assert "enforced, and cannot be read" in done.stderr
    rules.close()


def test_observed_rules_that_cannot_be_read_are_told_of_and_come_into_force_when_they_can(
    rules, front_end_with, namespace
):
    rules.begin("observe", user("ops", Role.OPERATOR))
    there = break_rules(rules)
    front_end = front_end_with(namespace=namespace)
    assert "cannot be read, nothing is decided: user 'root' is not stored as" in front_end.log
    with front_end.client() as client:
        assert client.request(100, {"namespace": "N", "key": "k", "value": "v"}).code == 0
        rules.redis.hset(f"mqauth:{{{namespace}}}:users", "root", there)
        in_force(front_end, rules.set_mode("enforce"))
        refused_with(client.request(100, {"namespace": "N", "key": "k", "value": "v"}), "anonymous")


def test_who_never_read_rules_that_are_enforced_now_lets_nobody_write(rules, front_end_with, namespace):
    rules.begin("observe")
    break_rules(rules)
    front_end = front_end_with(namespace=namespace)
    rules.redis.hset(f"mqauth:{{{namespace}}}:policy", "mode", "enforce")
    rules.redis.hset(f"mq:{{{namespace}}}:meta", "auth_mode", "enforce")
    with front_end.client() as client, Caller(front_end.port, "root") as admin:
        wait_until(
            lambda: client.request(100, {"namespace": "N", "key": "k", "value": "v"}).code == 16, "nobody writes"
        )
        assert admin.request(102, {"namespace": "N", "key": "k"}).code == 16
        assert client.request(106).code == 0


def test_rules_that_cannot_be_read_any_more_leave_the_last_ones_in_force(rules, front_end_with, namespace):
    rules.begin("enforce", user("ops", Role.OPERATOR))
    front_end = front_end_with(namespace=namespace)
    break_rules(rules)
    rules.redis.hincrby(f"mqauth:{{{namespace}}}:policy", "revision", 5)
    rules.redis.hincrby(f"mq:{{{namespace}}}:meta", "auth_revision", 5)
    front_end.wait_until(lambda: "those that were read last go on" in front_end.log, "it is told")
    with front_end.client() as client, Caller(front_end.port, "ops") as ops:
        for _ in range(3):
            refused_with(client.request(100, {"namespace": "N", "key": "k", "value": "v"}), "anonymous")
            assert ops.request(100, {"namespace": "N", "key": "k", "value": "v"}).code == 0


# off


@pytest.mark.parametrize(
    ("host", "warned"),
    [("0.0.0.0", True), ("10.0.0.1", True), ("::", True), ("127.0.0.1", False), ("::1", False), ("localhost", False)],
)
def test_off_where_strangers_may_come_from_is_warned_of(rules, front_end_with, namespace, host, warned):
    rules.begin("off")
    front_end = front_end_with(namespace=namespace, bind_address=host)  # as it says; it listens on loopback
    off, observe = (WHAT_STRANGERS_MAY % (mode, host, front_end.settings.listen_port) for mode in ("off", "observe"))
    assert (off in front_end.log) == warned
    in_force(front_end, rules.set_mode("observe"))
    front_end.wait_until(lambda: front_end.log.count(observe) == warned, "it is said of observe, too")
    in_force(front_end, rules.edit("root", networks=("10.0.0.0/8",)))
    in_force(front_end, rules.set_mode("off"))
    front_end.wait_until(lambda: front_end.log.count(off) == 2 * warned, "it is said again")
    assert front_end.log.count(observe) == warned, "once, whatever rules change"
