"""The limits over the wire: what clients see in each mode, who counts as whom, and what is never limited."""

from __future__ import annotations

import contextlib
import socket
import struct

import pytest
import redis

from mqregistry.protocol.command import Command, encode_command
from mqregistry.server.net.proxy_protocol import V2_START

from .harness import Broker, Client

BALANCER = "127.0.0.1"


def named(port: int, header: bytes) -> Client:
    """A client behind a balancer that sends this PROXY header first."""
    client = Client(port)
    client.socket.sendall(header)
    return client


def v1(host: str) -> bytes:
    family = "TCP6" if ":" in host else "TCP4"
    return f"PROXY {family} {host} {host} 5000 9876\r\n".encode()


LOCAL = V2_START + b"\x20\x00\x00\x00"
ALL_LIMITED = {"unlimited_addresses": "", "rate_burst_seconds": 1}


def put(client: Client, number: int):
    return client.request(100, {"namespace": "ns", "key": f"k{number}", "value": "v"})


@pytest.mark.parametrize("mode", ["off", "observe", "enforce"])
def test_admin_writes_over_the_limit(front_end_with, mode):
    front_end = front_end_with(limit_admin_writes=mode, address_admin_writes_per_second=2, **ALL_LIMITED)
    with front_end.client() as client:
        replies = [put(client, number) for number in range(60)]
        refused = [reply for reply in replies if reply.code != 0]
        assert bool(refused) == (mode == "enforce")
        assert {reply.code for reply in refused} <= {2}
        for reply in refused:
            assert "more than 2 writes of tools a second of 127.0.0.1 (addressAdminWritesPerSecond=2," in reply.remark
        stored = client.request(219, {"namespace": "ns"})
        assert stored.body.count(b'"k') == 60 - len(refused)
        assert client.route("none").code == 17  # the connection goes on
    exceeded = 'rate_exceeded_total{limit="addressAdminWritesPerSecond"}'
    if mode == "off":
        front_end.wait_until(lambda: front_end.status.get("counters"), "it has told its counters")
        assert front_end.counter(exceeded) == 0
    else:
        front_end.wait_until(lambda: front_end.counter(exceeded), "what is over the limit is counted")
        assert ("not refused" in front_end.log) == (mode == "observe")
        assert front_end.log.count("summary_log") == 1


@pytest.mark.parametrize("mode", ["off", "observe", "enforce"])
def test_new_connections_over_the_limit(front_end_with, mode):
    front_end = front_end_with(limit_new_connections=mode, address_new_connections_per_second=1, **ALL_LIMITED)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(front_end.client()) for _ in range(12)]
        open_now = [client for client in clients if answers(client)]
    # one a second, and none is refused for what another had refused
    assert (len(open_now) < 12) == (mode == "enforce")
    assert open_now
    seen, refused = (f'rate_{name}_total{{limit="addressNewConnectionsPerSecond"}}' for name in ("seen", "refused"))
    front_end.wait_until(lambda: front_end.counter(seen) == (0 if mode == "off" else 12), "they are counted")
    assert front_end.counter(refused) == 12 - len(open_now)
    assert ("not refused" in front_end.log) == (mode == "observe")


def answers(client: Client) -> bool:
    try:
        return client.route("none").code == 17
    except (AssertionError, OSError):  # it hung up
        return False


@pytest.mark.parametrize("mode", ["off", "observe", "enforce"])
def test_open_connections_over_the_limit(front_end_with, mode):
    front_end = front_end_with(limit_connections=mode, address_connections=3, **ALL_LIMITED)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(front_end.client()) for _ in range(5)]
        assert [answers(client) for client in clients] == [True] * 3 + [mode != "enforce"] * 2
        clients[0].close()
        front_end.wait_until(
            lambda: front_end.poll().get("connections") == (4 if mode != "enforce" else 2), "one is closed"
        )
        with front_end.client() as another:
            assert answers(another)


def test_a_refused_registration_is_stored_later_and_an_unchanged_one_is_never_refused(front_end_with):
    front_end = front_end_with(limit_writes="enforce", address_writes_per_second=1, **ALL_LIMITED)
    broker = Broker()
    with front_end.client() as client:
        assert client.register(broker).code == 0
        for counter in range(2, 60):
            reply = client.register(broker, counter=counter, topics={f"new{counter}": (1, 1, 6)})
            if reply.code != 0:
                break
        assert reply.code == 2
        assert "more than 1 writes a second of 127.0.0.1 (addressWritesPerSecond=1," in reply.remark
        assert client.route(f"new{counter}").code == 17
        front_end.wait_until(lambda: client.register(broker).code == 0, "the same is stored when there is a token")
        assert client.route(f"new{counter}").code == 0
        assert all(client.register(broker).code == 0 for _ in range(50))  # unchanged


def test_a_refused_registration_is_a_sign_of_life(front_end_with, redis_url):
    """A broker whose changes are refused again and again does not expire."""
    front_end = front_end_with(limit_writes="enforce", address_writes_per_second=1, **ALL_LIMITED)
    broker, moved = Broker(), False
    with front_end.client() as client, redis.Redis.from_url(redis_url) as admin:

        def deadline_ms():
            return admin.zscore(f"mq:{{{front_end.settings.namespace}}}:deadlines", broker.who)

        assert client.register(broker).code == 0
        for counter in range(2, 100):
            before_ms = deadline_ms()
            if client.register(broker, counter=counter, topics={f"t{counter}": (1, 1, 6)}).code == 2:
                moved = moved or deadline_ms() > before_ms
        assert moved


def test_new_brokers_over_the_limit(front_end_with):
    front_end = front_end_with(limit_new_brokers="enforce", address_new_brokers_per_second=2, **ALL_LIMITED)
    with front_end.client() as client:
        brokers = [Broker(f"broker-{n}", f"127.0.0.1:{20_000 + n}") for n in range(40)]
        replies = [client.register(broker) for broker in brokers]
        taken = [broker for broker, reply in zip(brokers, replies, strict=True) if reply.code == 0]
        assert {reply.code for reply in replies} == {0, 2}
        assert all("new brokers a second of 127.0.0.1" in reply.remark for reply in replies if reply.code)
        for broker in taken:  # those that are there may change what they like
            assert client.register(broker, counter=2, topics={"more": (1, 1, 6)}).code == 0
        body = client.request(106).body
        assert body.count(b'"brokerName"') == len(taken)


@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_lookups_and_heartbeats_are_never_limited(front_end_with, mode):
    front_end = front_end_with(
        **{f"limit_{kind}": mode for kind in ("connections", "new_connections", "writes", "admin_writes")},
        limit_new_brokers=mode, address_writes_per_second=1, address_admin_writes_per_second=1, **ALL_LIMITED,
    )  # fmt: skip
    broker = Broker()
    touch = {"clusterName": broker.cluster, "brokerAddr": broker.addr, "brokerName": broker.name, "brokerId": "0"}
    with front_end.client() as client:
        assert client.register(broker).code == 0
        assert {client.route("topic1").code for _ in range(50)} == {0}
        assert {client.register(broker).code for _ in range(50)} == {0}
        assert {client.request(904, touch).code for _ in range(50)} == {0}
        version = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
        assert {client.request(322, touch, version).code for _ in range(50)} == {0}

    def answered():
        counted = front_end.poll().get("counters", {})
        return sum(number for name, number in counted.items() if name.startswith("requests_total{"))

    front_end.wait_until(lambda: answered() >= 200, "it has told its counters")
    assert front_end.counter('rate_exceeded_total{limit="addressWritesPerSecond"}') == 0


def test_shared_settings_change_the_limits_at_once(front_end_with):
    front_end = front_end_with(config_allow_list="limitAdminWrites;addressAdminWritesPerSecond", **ALL_LIMITED)
    with front_end.client() as client:
        assert {put(client, n).code for n in range(30)} == {0}
        changed = client.request(318, body=b"limitAdminWrites=enforce\naddressAdminWritesPerSecond=1\n")
        assert changed.code == 0
        assert 2 in {put(client, n).code for n in range(30)}
        front_end.wait_until(
            lambda: client.request(318, body=b"limitAdminWrites=off\n").code == 0, "a token is there for this one"
        )
        assert {put(client, n).code for n in range(30)} == {0}


def test_nobody_lifts_the_limits_over_the_wire_unless_allowed(front_end_with):
    with front_end_with().client() as client:
        reply = client.request(318, body=b"limitWrites=off\n")
        assert reply.code == 16
        assert "a limited client could lift the limit" in reply.remark


# the PROXY protocol


def test_behind_a_trusted_balancer_each_client_has_its_own_limit(front_end_with):
    front_end = front_end_with(
        proxy_protocol_from=BALANCER, limit_admin_writes="enforce", limit_connections="enforce", address_connections=2,
        address_admin_writes_per_second=1, **ALL_LIMITED,
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        greedy = stack.enter_context(named(front_end.port, v1("10.1.2.3")))
        codes = [put(greedy, n).code for n in range(40)]
        assert codes[0] == 0
        assert 2 in codes
        assert "of 10.1.2.3 (" in wait_for_refusal(greedy).remark
        others = [stack.enter_context(named(front_end.port, v1(f"10.1.3.{n}"))) for n in range(5)]
        assert {put(other, n).code for n, other in enumerate(others)} == {0}
        # 10.1.2.3 may have two connections, the others one more each
        assert answers(stack.enter_context(named(front_end.port, v1("10.1.2.3"))))
        assert not answers(stack.enter_context(named(front_end.port, v1("10.1.2.3"))))
        assert answers(stack.enter_context(named(front_end.port, v1("10.1.3.1"))))
        # what a balancer asks for itself (LOCAL) is its own
        assert [answers(stack.enter_context(named(front_end.port, LOCAL))) for _ in range(3)] == [True, True, False]


def wait_for_refusal(client: Client):
    for n in range(100):
        reply = put(client, n)
        if reply.code == 2:
            return reply
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("believed", ["", "10.0.0.0/8"])
def test_an_address_that_a_stranger_names_is_not_believed(front_end_with, believed):
    front_end = front_end_with(
        proxy_protocol_from=believed, limit_connections="enforce", address_connections=3, **ALL_LIMITED
    )
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(named(front_end.port, v1(f"10.1.3.{n}"))) for n in range(5)]
        assert [answers(client) for client in clients] == [True] * 3 + [False] * 2


def test_what_a_stranger_holds_is_not_spread_over_the_addresses_that_it_names(front_end_with):
    """Memory runs out: the address that holds too much of it goes first, not the largest frame of another."""
    front_end = front_end_with()
    frame_bytes = 15 << 20
    # of a registration: other requests are refused by their headers
    head = encode_command(Command(code=103, opaque=1, version=479, ext_fields={}))[4:]
    with contextlib.ExitStack() as stack:
        honest = stack.enter_context(
            contextlib.closing(socket.create_connection((BALANCER, front_end.port), 10, ("127.0.0.2", 0)))
        )
        honest.sendall(struct.pack(">i", frame_bytes + 100_000))
        honest.sendall(head + b"x" * (frame_bytes + 50_000))
        front_end.wait_until(lambda: front_end.poll().get("held_bytes", 0) > frame_bytes, "it holds the most")
        for number in range(18):
            greedy = stack.enter_context(named(front_end.port, v1(f"10.1.3.{number}")))
            with contextlib.suppress(OSError):  # it was dropped
                greedy.socket.sendall(struct.pack(">i", frame_bytes + 1))
                greedy.socket.sendall(head + b"x" * (frame_bytes - len(head)))
        front_end.wait_until(lambda: "all clients together hold more" in front_end.log, "somebody goes")
        honest.settimeout(0.2)
        with pytest.raises(TimeoutError):  # it is still connected
            honest.recv(1)


def test_refused_connections_leave_no_trace(front_end_with):
    front_end = front_end_with(limit_connections="enforce", address_connections=1, **ALL_LIMITED)
    with front_end.client() as first:
        assert answers(first)
        for _ in range(30):
            with front_end.client(timeout_s=20) as client:
                assert not answers(client)
    front_end.wait_until(lambda: front_end.poll().get("connections") == 0, "all are gone")
    with front_end.client() as client:
        assert answers(client)
    assert front_end.log.count("open connections") == 1
