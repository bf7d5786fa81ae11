"""``broker wipe``, ``restore``, ``forget`` and ``topic delete``, ``set``: preview, confirmation, effect, author."""

from __future__ import annotations

import json

import pytest

from mqregistry.cli.write import confirm as module
from mqregistry.events.by import this_process
from mqregistry.model import QueueData
from mqregistry.operators.maintenance import maintained
from mqregistry.store import keys
from mqregistry.store.snapshot import read_tables
from mqregistry.store.store import Store
from tests.store.bed import Bed


@pytest.fixture
def world(redis_url, namespace, run):
    """Two broker names, one with a slave; looks at tables and events."""
    world = World(redis_url, namespace, run)
    run(world.make())
    return world


class World:
    def __init__(self, redis_url, namespace, run):
        self.redis_url, self.namespace, self.run = redis_url, namespace, run
        self.target = {"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace}

    async def make(self):
        async with Store(self.redis_url, self.namespace) as store:
            await store.connect()
            bed = Bed(store)
            topics = {"orders": (8, 8, 6), "bills": (4, 4, 6), "log": (1, 1, 4)}
            await bed.register("10.0.0.1:10911", "broker-a", 0, topics=topics)
            await bed.register("10.0.0.2:10911", "broker-a", 1, topics=topics, counter=1)
            await bed.register("10.0.0.3:10911", "broker-b", 0, "c2", topics={"orders": (8, 8, 6), "own": (1, 1, 6)})

    def look(self):
        """The tables, and the events since they were made."""

        async def read():
            async with Store(self.redis_url, self.namespace) as store:
                return (await read_tables(store))[1], await Bed(store).events()

        tables, events = self.run(read())
        return tables, [event for event in events if event.type != "broker_registered"]


@pytest.fixture
def answer(monkeypatch):
    """Somebody at a terminal who answers so."""

    def give(yes):
        asked = []
        monkeypatch.setattr(module.click, "confirm", lambda text: asked.append(text) or yes)
        monkeypatch.setattr(module, "sys", Terminal)
        return asked

    return give


class Terminal:
    class stdin:
        @staticmethod
        def isatty():
            return True


def test_wipe_shows_what_loses_its_write_bit_and_does_it(command, world):
    told = command("broker", "wipe", "broker-a", "--yes", **world.target).stdout
    assert told.splitlines() == [
        "broker name broker-a of cluster c1, 10.0.0.1:10911, 10.0.0.2:10911",
        "2 topics lose the write bit: bills, orders",
        "broker-a: 2 topics wiped",
    ]
    tables, (event,) = world.look()
    assert {topic: datas["broker-a"].perm for topic, datas in tables.topics.items() if "broker-a" in datas} == {
        "orders": 4, "bills": 4, "log": 4,
    }  # fmt: skip
    assert (event.type, event.by) == ("write_perm_set", this_process("cli"))
    assert "has no topic with the write bit" in command("broker", "wipe", "broker-a", **world.target).stdout
    assert len(world.look()[1]) == 1


def perms(world, name="broker-a"):
    return {topic: datas[name].perm for topic, datas in world.look()[0].topics.items() if name in datas}


def test_restore_puts_back_what_the_wipe_took_alone(command, world):
    before = perms(world)
    assert before["log"] == 4
    command("broker", "wipe", "broker-a", "-y", **world.target)
    told = command("broker", "restore", "broker-a", "-y", **world.target).stdout.splitlines()
    assert told[1].startswith("the last wipe was at ")
    assert told[2:] == [
        "2 topics get the write bit back: bills, orders",
        "1 topic stays without it: no wipe took it: log",
        "broker-a: 2 topics restored; without write permission: log; --all gives permission 6 to every topic",
    ]
    assert perms(world) == before
    again = command("broker", "restore", "broker-a", **world.target).stdout
    assert "broker-a: no wipe took the missing write permissions; without write permission: log" in again


def test_restore_after_two_wipes_puts_back_what_both_took(command, world):
    before = perms(world)
    command("broker", "wipe", "broker-a", "-y", **world.target)
    command("topic", "set", "orders", "broker-a=8:8:6", "-y", **world.target)
    command("broker", "wipe", "broker-a", "-y", **world.target)
    command("broker", "restore", "broker-a", "-y", **world.target)
    assert perms(world) == before


def test_restore_leaves_what_was_set_without_write_permission_after_the_wipe(command, world):
    command("broker", "wipe", "broker-a", "-y", **world.target)
    command("topic", "set", "orders", "broker-a=8:8:0", "-y", **world.target)
    command("broker", "restore", "broker-a", "-y", **world.target)
    assert perms(world) == {"orders": 0, "bills": 6, "log": 4}


def test_restore_leaves_what_an_earlier_restore_did_not_give(command, world):
    command("broker", "wipe", "broker-a", "-y", **world.target)
    command("broker", "restore", "broker-a", "--all", "-y", **world.target)
    assert set(perms(world).values()) == {6}
    command("topic", "set", "log", "broker-a=1:1:4", "-y", **world.target)
    command("broker", "wipe", "broker-a", "-y", **world.target)
    command("broker", "restore", "broker-a", "-y", **world.target)
    assert perms(world) == {"orders": 6, "bills": 6, "log": 4}


def test_restore_does_not_guess_what_the_stream_has_no_more(command, world):
    command("broker", "wipe", "broker-a", "-y", **world.target)

    async def trim():
        async with Store(world.redis_url, world.namespace) as store:
            await store.client.xtrim(keys.changes(store.namespace), maxlen=0, approximate=False)

    world.run(trim())
    told = command("broker", "restore", "broker-a", **world.target).stdout
    assert "without write permission: bills, log, orders; --all gives permission 6 to every topic" in told
    assert set(perms(world).values()) == {4}


def test_drain_without_front_ends_wipes_and_notes_why_until_restore(command, world):
    before = perms(world)
    told = command(
        "broker", "drain", "broker-a", "-y", "--reason", "kernel update", "--for", "1h", **world.target
    ).stdout.splitlines()
    assert told[0].startswith("broker-a is in maintenance from now on, until ")
    assert told[0].endswith(": kernel update")
    assert told[-1].startswith("drained: ")
    tables, events = world.look()
    one = maintained(tables.kv)["broker-a"]
    assert (one.reason, one.until_ms - one.since_ms) == ("kernel update", pytest.approx(3_600_000, abs=5_000))
    assert one.by == str(this_process("cli"))
    assert [event.type for event in events] == ["kv_put", "write_perm_set"]
    back = command("broker", "restore", "broker-a", "-y", **world.target).stdout
    assert f"its maintenance ends: it was {one}" in back
    assert (perms(world), maintained(world.look()[0].kv)) == (before, {})


def test_restore_all_gives_permission_6_to_every_topic(command, world):
    command("broker", "wipe", "broker-a", "-y", **world.target)
    told = command("broker", "restore", "broker-a", "--all", "-y", **world.target).stdout.splitlines()
    assert told[1:] == ["3 topics with permission 4 R get 6 RW: bills, log, orders", "broker-a: 3 topics restored"]
    tables, (_, event) = world.look()
    assert {datas["broker-a"].perm for datas in tables.topics.values() if "broker-a" in datas} == {6}
    assert event.by == this_process("cli")
    assert "every topic has permission 6 RW" in command("broker", "restore", "broker-a", "--all", **world.target).stdout
    assert "every topic can be written to" in command("broker", "restore", "broker-a", **world.target).stdout


def test_forget_removes_every_address_and_says_which_topics_have_no_route_then(command, world):
    told = command("broker", "forget", "broker-a", "-y", **world.target).stdout.splitlines()
    assert told[1].startswith("will be removed: 10.0.0.1:10911 id 0, last heard ")
    assert told[1].endswith("; it registers again if it is alive")
    assert told[3:] == [
        "3 topics lose the route to it", "2 topics of these will have no route at all: bills, log",
        "broker-a: 2 addresses and 3 topics forgotten",
    ]  # fmt: skip
    tables, events = world.look()
    assert (set(tables.brokers), set(tables.topics)) == ({"broker-b"}, {"orders", "own"})
    assert [(event.type, event.by) for event in events] == [("broker_unregistered", this_process("cli"))] * 2


@pytest.mark.parametrize(
    "arguments",
    [("broker", "wipe", "broker-a"), ("broker", "restore", "broker-a", "--all"), ("broker", "forget", "broker-a"),
     ("broker", "drain", "broker-a"),
     ("topic", "delete", "orders"), ("topic", "set", "orders", "broker-a=1:1")],
)  # fmt: skip
def test_nothing_is_done_unless_it_is_wanted(command, world, answer, arguments):
    before = world.look()[0].contents()
    refused = command(*arguments, expect=1, **world.target)
    assert "nothing was changed: there is no terminal to ask at; --yes does it without asking" in refused.output
    assert "--json cannot ask you: add --yes" in command(*arguments, "--json", expect=2, **world.target).output
    asked = answer(yes=False)
    assert "nothing was changed" in command(*arguments, expect=1, **world.target).output
    assert asked == ["Do it?"]
    tables, events = world.look()
    assert (tables.contents(), events) == (before, [])
    answer(yes=True)
    command(*arguments, **world.target)
    assert world.look()[1]


def test_results_for_programs(command, world):
    def result(*arguments):
        return json.loads(command(*arguments, "--yes", "--json", **world.target).stdout)

    assert result("broker", "wipe", "broker-a") == {"broker_name": "broker-a", "topics": ["bills", "orders"]}
    assert result("broker", "restore", "broker-a") == {
        "broker_name": "broker-a", "topics": ["bills", "orders"], "stay": ["log"],
    }  # fmt: skip
    assert result("broker", "drain", "broker-a") == {
        "broker_name": "broker-a", "done": True, "waiting": 0, "addresses": [], "not_known": [],
    }  # fmt: skip
    assert result("broker", "restore", "broker-a", "--all")["topics"] == ["bills", "log", "orders"]
    assert result("topic", "delete", "own") == {
        "topic": "own",
        "before": {"broker-b": {"r": 1, "w": 1, "p": 6, "f": 0}},
    }
    assert result("topic", "set", "own", "broker-a=2:3:4")["changed"] == {"broker-a": {"r": 2, "w": 3, "p": 4, "f": 0}}
    gone = result("broker", "forget", "broker-b")
    assert gone == {"broker_name": "broker-b", "addrs": ["10.0.0.3:10911"], "topics": ["orders"],
                    "topics_without_route": []}  # fmt: skip


def test_delete_shows_the_route_that_goes(command, world):
    told = command("topic", "delete", "orders", "-y", **world.target).stdout.splitlines()
    assert told[0] == "topic orders"
    assert told[2].split()[:4] == ["broker-a", "c1", "8", "8"]
    assert told[-5:] == [
        "it will be removed from all of these broker names",
        "comes back with the next registration, within 30 s as a rule, also at an unchanged data version, while it is "
        "at live brokers: broker-a, broker-b; delete it there, which also deletes it here:",
        "  mqadmin deleteTopic -n HOST:PORT -c c1 -t orders", "  mqadmin deleteTopic -n HOST:PORT -c c2 -t orders",
        "topic orders deleted at broker-a, broker-b",
    ]  # fmt: skip
    tables, (event,) = world.look()
    assert "orders" not in tables.topics
    assert (event.type, event.by) == ("topic_deleted", this_process("cli"))


def test_a_deleted_topic_comes_back_as_the_preview_says(command, world):
    command("topic", "delete", "orders", "-y", **world.target)

    async def register_again():
        async with Store(world.redis_url, world.namespace) as store:
            await store.connect()
            topics = {"orders": (8, 8, 6), "bills": (4, 4, 6), "log": (1, 1, 4)}
            await Bed(store).register("10.0.0.1:10911", "broker-a", 0, topics=topics)

    world.run(register_again())  # at the data version that it had
    assert set(world.look()[0].topics["orders"]) == {"broker-a"}


def test_nothing_is_said_of_brokers_that_are_gone(command, world):
    async def leave():
        async with Store(world.redis_url, world.namespace) as store:
            await store.connect()
            await Bed(store).let_pass(3_600_000)

    world.run(leave())
    assert "comes back" not in command("topic", "delete", "orders", "-y", **world.target).stdout


def test_delete_in_one_cluster_alone(command, world):
    told = command("topic", "delete", "orders", "--cluster", "c2", "-y", **world.target).stdout
    assert "broker-a" not in told
    assert set(world.look()[0].topics["orders"]) == {"broker-a"}
    none = command("topic", "delete", "orders", "--cluster", "c2", expect=1, **world.target)
    assert "topic orders is not in cluster 'c2', but at broker-a" in none.output


def test_set_gives_queues_and_keeps_the_other_broker_names(command, world):
    told = command("topic", "set", "orders", "broker-a=16:8", "broker-b=8:8:6", "-y", **world.target).stdout
    assert told.splitlines() == [
        "topic orders", "broker-a: 16 read, 8 write, 6 RW, was 8 read, 8 write, 6 RW", "topic orders set at broker-a",
    ]  # fmt: skip
    tables, (event,) = world.look()
    assert tables.topics["orders"] == {"broker-a": QueueData(16, 8, 6, 0, (8, 8, 6, 0)), "broker-b": QueueData(8, 8, 6)}
    assert (event.type, event.by) == ("topic_registered", this_process("cli"))
    assert "has these queues already" in command("topic", "set", "orders", "broker-a=16:8", **world.target).stdout
    assert "topic new, which is new" in command("topic", "set", "new", "broker-a=1:1", "-y", **world.target).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("broker", "wipe", "broker-c"), 1, "no broker name 'broker-c'; did you mean broker-"),
        (("broker", "forget", "x"), 1, "no broker name 'x'; there is broker-a, broker-b"),
        (("topic", "delete", "order"), 1, "no topic 'order'; did you mean orders?"),
        (("topic", "set", "orders", "broker-x=1:1"), 1, "no broker name 'broker-x'; did you mean broker-"),
        (("topic", "set", "orders", "broker-a"), 2, "expected BROKER_NAME=READ:WRITE[:PERM]"),
        (("topic", "set", "orders", "broker-a=1:1:9"), 2, "expected BROKER_NAME=READ:WRITE[:PERM]"),
        (("topic", "set", "a\nb", "broker-a=1:1"), 2, "has a control character"),
        (("topic", "set", "orders"), 2, "Missing argument"),
    ],
)
def test_what_cannot_be_done_says_why(command, world, arguments, code, reason):
    assert reason in command(*arguments, "--yes", expect=code, **world.target).output
    assert world.look()[1] == []


def test_with_4_8_a_broker_name_is_forgotten_and_a_cluster_is_refused(command, redis_url, namespace, run):
    async def make():
        async with Store(redis_url, namespace, compat="4.8") as store:
            await store.connect()
            bed = Bed(store)
            await bed.register()
            await bed.register("10.0.0.2:10911", broker_id=1)

    async def look():
        async with Store(redis_url, namespace, compat="4.8") as store:
            return (await read_tables(store))[1]

    run(make())
    target = {"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace}
    refused = command("topic", "delete", "t1", "--cluster", "c1", "-y", expect=2, **target)
    assert "a namespace with compat 4.8 deletes a topic everywhere" in refused.output
    told = command("topic", "delete", "t1", "-y", **target).stdout
    assert "comes back when their data version changes, while it is at live brokers: broker-a" in told
    assert "2 addresses and 1 topic forgotten" in command("broker", "forget", "broker-a", "-y", **target).stdout
    tables = run(look())
    assert (tables.brokers, tables.topics) == ({}, {})
