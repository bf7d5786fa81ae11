"""``audit``: who changed what; who deleted topic X yesterday, and what was its route before?"""

from __future__ import annotations

import csv
import io
import json
import os
import socket
from datetime import datetime

import pytest
import redis

from mqregistry.events.by import By, this_process
from mqregistry.store import keys
from mqregistry.store.config_writes import KvStore
from mqregistry.store.route_writes import Channel, RouteStore
from mqregistry.store.store import Store
from tests.store.bed import Bed, registration

ALICE = By("signature", "alice", "10.0.0.9:50123", "10.0.0.2:443", "ns1:9876")
ADMIN = By("anonymous", peer="10.0.0.7:51234", front_end="ns1:9876")
BY_ALICE = "alice (signature) from 10.0.0.9:50123 via 10.0.0.2:443 at ns1:9876"
BROKER = By("anonymous", peer="10.0.0.1:40001", front_end="ns1:9876")


@pytest.fixture
def target(redis_url, namespace, run):
    """A namespace in which alice wiped a broker and somebody at 10.0.0.7 deleted a topic."""

    async def make():
        async with Store(redis_url, namespace) as store:
            await store.connect()
            bed = Bed(store)
            r = registration(topics={"orders": (4, 8, 6), **{f"t{n}": (1, 1, 6) for n in range(1100)}})
            prepared = await bed.fe1.prepare(r)
            channel = Channel("fe", "w/1")
            assert (await bed.routes.register_broker(r, prepared.diff, channel=channel, by=BROKER)).status == "OK"
            await bed.routes.set_write_perm("broker-a", "wipe", by=ALICE)
            await bed.routes.delete_topic("orders", by=ADMIN)
            await bed.kv.put("ns", "key", "value", by=ALICE)

    run(make())
    return {"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace}


def lines(result):
    """Without date and number, which differ."""
    return [line if line.startswith(" ") else line[35:] for line in result.stdout.splitlines()]


def test_every_change_is_shown_with_who_caused_it(command, target):
    shown = command("audit", **target)
    assert [(line.partition(";")[0], line.rpartition("; by ")[2]) for line in lines(shown)] == [
        ("broker_registered   c1/broker-a id 0 10.0.0.1:10911", "anonymous from 10.0.0.1:40001 at ns1:9876"),
        ("write_perm_set      broker-a", BY_ALICE),
        ("topic_deleted       orders at broker-a", "anonymous from 10.0.0.7:51234 at ns1:9876"),
        ("kv_put              ns/key = value", BY_ALICE),
    ]
    assert "; new; 1101 topic(s): orders, t0, t1, t2, t3 and 1096 more;" in shown.stdout
    assert shown.stderr == ""


def test_one_command_says_who_deleted_a_topic_and_what_its_route_was(command, target):
    assert lines(command("audit", "--topic", "orders", **target))[-6:] == [
        f"write_perm_set      broker-a; 1 topic(s): orders; by {BY_ALICE}",
        "    before  broker-a  4 read, 8 write, 6 RW; 10.0.0.1:10911 id 0",
        "    after   broker-a  4 read, 8 write, 4 R; 10.0.0.1:10911 id 0",
        "topic_deleted       orders at broker-a; by anonymous from 10.0.0.7:51234 at ns1:9876",
        "    before  broker-a  4 read, 8 write, 4 R; 10.0.0.1:10911 id 0",
        "    after   no route",
    ]


def test_the_route_before_is_known_although_the_stream_lost_the_registration(command, target, redis_url, namespace):
    with redis.Redis.from_url(redis_url) as client:
        for entry_id, _ in client.xrange(keys.changes(namespace), count=5):  # registration and wipe
            client.xdel(keys.changes(namespace), entry_id)
    shown = command("audit", "--topic", "orders", **target)
    assert lines(shown) == [
        "topic_deleted       orders at broker-a; by anonymous from 10.0.0.7:51234 at ns1:9876",
        "    before  broker-a  4 read, 8 write, 4 R; 10.0.0.1:10911 id 0",
        "    after   no route",
    ]
    assert "the stream begins at 20" in shown.stderr


def test_for_programs_every_line_is_json(command, target):
    found = [json.loads(line) for line in command("audit", "--json", **target).stdout.splitlines()]
    assert [change["by"]["how"] for change in found] == ["anonymous", "signature", "anonymous", "signature"]
    assert len(found[0]["topics"]) == 1101
    *_, last = map(json.loads, command("audit", "--topic", "orders", "--json", **target).stdout.splitlines())
    assert last["change"]["by"] == json.loads(ADMIN.encoded())
    assert last["before"] == {
        "broker-a": {
            "queue_data": {"r": 4, "w": 8, "p": 4, "f": 0, "b": [4, 8, 6, 0]},
            "cluster": "c1",
            "addrs": {"0": "10.0.0.1:10911"},
        }
    }
    assert last["after"] == {}


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        (("--user", "alice"), ["write_perm_set", "kv_put"]),
        (("--user", "bob"), []),
        (("--peer", "10.0.0.7"), ["topic_deleted"]),
        (("--peer", "10.0.0.7:51234"), ["topic_deleted"]),
        (("--peer", "10.0.0.7:5"), []),
        (("--peer", "10.0.0.2"), ["write_perm_set", "kv_put"]),
        (("--broker", "broker-a"), ["broker_registered", "write_perm_set", "topic_deleted"]),
        (("--broker", "broker-a", "--user", "alice"), ["write_perm_set"]),
        (("--topic", "orders", "--user", "alice"), ["write_perm_set"]),
        (("--topic", "t7", "--broker", "broker-a", "-n", "1"), ["write_perm_set"]),
        (("-n", "1"), ["kv_put"]),
        (("-n", "0"), ["broker_registered", "write_perm_set", "topic_deleted", "kv_put"]),
        (("--since", "-1h"), ["broker_registered", "write_perm_set", "topic_deleted", "kv_put"]),
    ],
)
def test_what_is_shown_can_be_chosen(command, target, options, kinds):
    shown = command("audit", *options, **target)
    assert [line.split()[0] for line in lines(shown) if not line.startswith(" ")] == kinds
    if not kinds:
        assert "no change in the stream matches" in shown.stderr
    if "1" in options:
        assert "these are the last 1; -n says how many are shown" in shown.stderr


def test_only_what_was_since_a_time(command, target, redis_url, namespace):
    with redis.Redis.from_url(redis_url) as client:
        (last, _), *_ = client.xrevrange(keys.changes(namespace), count=1)
    ms = int(last.split(b"-")[0])
    shown = command("audit", "--since", datetime.fromtimestamp((ms + 1) / 1000).isoformat(), **target)
    assert (shown.stdout, shown.stderr) == ("", "no change in the stream matches\n")


def test_only_what_was_up_to_a_time(command, target, redis_url, namespace):
    with redis.Redis.from_url(redis_url) as client:
        entries = client.xrange(keys.changes(namespace))
    first_ms, last_ms = (int(entry_id.split(b"-")[0]) for entry_id, _ in (entries[0], entries[-1]))

    def kinds(until_ms, *options):
        until = datetime.fromtimestamp(until_ms / 1000).isoformat()
        return [
            json.loads(line)
            for line in command("audit", "--json", "--until", until, *options, **target).stdout.splitlines()
        ]

    assert [change["type"] for change in kinds(last_ms)] == [
        "broker_registered", "write_perm_set", "topic_deleted", "kv_put",
    ]  # fmt: skip
    assert kinds(first_ms - 1) == []
    assert {change["ms"] for change in kinds(first_ms)} == {first_ms}
    assert kinds(first_ms - 1, "--topic", "orders") == []
    assert [one["change"]["type"] for one in kinds(last_ms, "--topic", "orders")][-1] == "topic_deleted"
    wrong = command("audit", "--since", "-1h", "--until", "-2h", expect=2, **target)
    assert "is before --since" in wrong.output


def test_nothing_changed_yet(command, redis_url, namespace, run):
    async def make():
        async with Store(redis_url, namespace) as store:
            await store.connect()

    run(make())
    shown = command("audit", **{"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace})
    assert (shown.stdout, shown.stderr) == ("", "nothing was changed yet: the stream of changes is empty\n")


def test_foreign_text_does_not_act_on_the_terminal(command, target, redis_url, namespace, run):
    async def write():
        async with Store(redis_url, namespace) as store:
            await KvStore(store).put("ns", "k", "v", by=By("certificate", "x\x1b[2J\nforged", "unix:\x1b]0;"))

    run(write())
    for options in ((), ("--user", "x\x1b[2J\nforged")):
        shown = command("audit", "-n", "1", *options, **target).stdout
        assert shown.count("\n") == 1
        assert "\x1b" not in shown
        assert r'by "x\u001b[2J\nforged" (certificate) from "unix:\u001b]0;"' in shown


def test_commands_are_authors_themselves(command, target, redis_url, namespace, run):
    command("kv", "put", "ns", "mine", "1", "--yes", **target)
    command("kv", "delete", "ns", "mine", "--yes", **target)
    me = this_process("cli")
    shown = lines(command("audit", "--peer", socket.gethostname(), **target))
    assert [line.split("; ")[0] for line in shown] == ["kv_put              ns/mine = 1", "kv_deleted          ns/mine"]
    assert all(line.endswith(f"by {me.user} (cli) on {socket.gethostname()}/{os.getpid()}") for line in shown)


def test_events_of_an_older_release_name_nobody(command, target, redis_url, namespace):
    with redis.Redis.from_url(redis_url) as client:
        event = {"seq": 999, "ms": 1_700_000_000_000, "type": "kv_deleted", "kv_namespace": "ns", "key": "k"}
        client.xadd(keys.changes(namespace), {"e": json.dumps(event)})
    assert lines(command("audit", "-n", "1", **target)) == ["kv_deleted          ns/k"]
    assert lines(command("audit", "--user", "alice", "-n", "1", **target))[0].startswith("kv_put")


def refuse(redis_url, namespace, *entries):
    """As lua/note_refused does."""
    with redis.Redis.from_url(redis_url) as client:
        for entry in entries:
            client.xadd(f"mqauth:{{{namespace}}}:refusals", {"e": json.dumps(entry)})


def test_denied_lists_what_was_refused(command, target, redis_url, namespace):
    assert "no request was refused" in command("audit", "--denied", **target).stderr
    kind = {"user": "", "right": "topic.write", "resources": ["topic:orders"], "reason": "no_rule"}
    last = {"source": "10.0.0.7:51234", "how": "anonymous"}
    one = {"ms": 1_700_000_000_000, "front_end": "fe1", "mode": "enforce", "count": 3, "kind": kind, "last": last}
    unproved = {"user": "bob\x1b", "right": None, "resources": [], "reason": "wrong_signature"}
    two = one | {"mode": "observe", "count": 1, "kind": unproved, "last": {}}
    refuse(redis_url, namespace, one, two)
    shown = command("audit", "--denied", **target).stdout.splitlines()
    assert [line[25:] for line in shown] == [
        "refused 3 times: topic.write topic:orders (no_rule); by anonymous from 10.0.0.7:51234 at fe1",
        'would be refused once: any right (wrong_signature); by "bob\\u001b" (not proved) at fe1',
    ]
    found = json.loads(command("audit", "--denied", "--peer", "10.0.0.7", "--json", **target).stdout)
    assert (found["count"], found["kind"]["reason"]) == (3, "no_rule")
    assert len(command("audit", "--denied", "--user", "bob\x1b", **target).stdout.splitlines()) == 1
    assert "these are the last 1" in command("audit", "--denied", "-n", "1", **target).stderr
    assert "cannot filter requests" in command("audit", "--denied", "--topic", "orders", expect=2, **target).output


def test_a_refusal_that_a_later_release_wrote_is_an_error_that_says_so(command, target, redis_url, namespace):
    refuse(redis_url, namespace, {"what": 1})
    error = command("audit", "--denied", expect=1, **target)
    assert "use the release that wrote them" in str(error.exception)


async def test_route_store_writes_for_this_process_by_default(store):
    bed = Bed(store)
    await bed.register()
    await RouteStore(store).delete_topic("t1")
    assert (await bed.events())[-1].by == this_process("direct")


def test_changes_as_csv(command, target):
    shown = command("audit", "--csv", "--user", "alice", **target)
    head, *rows = csv.reader(io.StringIO(shown.stdout))
    assert head[:5] == ["seq", "time", "type", "what", "how"]
    assert [(row[2], row[4], row[5]) for row in rows] == [
        ("write_perm_set", "signature", "alice"), ("kv_put", "signature", "alice"),
    ]  # fmt: skip
    of_topic = command("audit", "--csv", "--topic", "orders", "-n", "1", **target)
    assert [row[2] for row in csv.reader(io.StringIO(of_topic.stdout))] == ["type", "topic_deleted"]
    assert "--csv writes changes" in command("audit", "--csv", "--json", expect=2, **target).stderr
