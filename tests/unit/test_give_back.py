"""What Redis lost twice, before the first loss was given back."""

from __future__ import annotations

from mqregistry.errors import StoreUnavailable
from mqregistry.events.changes import KvDeleted, KvPut
from mqregistry.server.view.loading import GiveBack
from mqregistry.store.config_writes import Restored
from mqregistry.tables.tables import Tables


class FakeKvStore:
    def __init__(self):
        self.away = True
        self.restored = []
        self.config = {}

    async def restore(self, position, kv, *, since):
        if self.away:
            raise StoreUnavailable("away")
        assert since == f"0-{position}"
        self.restored.append((position, {name: dict(table) for name, table in kv.items()}))
        return Restored(len(kv), 9)

    async def set_config(self, changes):
        self.config.update(changes)


def tables(kv, config):
    known = Tables()
    known.kv, known.config = kv, config
    return known


async def test_a_second_loss_gives_back_what_the_first_has_left_and_newer_values_win():
    store, there = FakeKvStore(), Tables()
    first = GiveBack(store, "1-0", "0-1-0", tables({"ns": {"a": "1", "b": "1"}}, {"x": "1", "y": "1"}), None)
    assert not await first.is_done(there)
    first.applied(KvPut(7, 1, kv_namespace="ns", key="b", value="2"))
    first.applied(KvPut(8, 1, kv_namespace="other"))
    second = GiveBack(store, "2-0", "0-2-0", tables({"ns": {"b": "2"}, "other": {}}, {"y": "2"}), first)
    store.away = False
    there.config = {"y": "3"}
    assert await second.is_done(there)
    assert store.restored == [("2-0", {"ns": {"a": "1", "b": "2"}, "other": {}})]
    assert store.config == {"x": "1"}, "what Redis has is newer"


async def test_what_redis_has_older_is_given_back_newer_and_what_is_changed_after_the_loss_is_not_undone():
    store, known = FakeKvStore(), tables({"ns": {"a": "2", "b": "2", "c": "2"}}, {})
    give_back = GiveBack(store, "1-0", "0-1-0", known, None)
    there = known.kv["ns"]  # served from now on: what Redis holds is merged into it
    there |= {"a": "1", "b": "3", "gone": "1"}
    del there["c"]
    give_back.applied(KvPut(7, 1, kv_namespace="ns", key="a", value="1", restored=True))
    give_back.applied(KvPut(8, 1, kv_namespace="ns", key="b", value="3"))
    give_back.applied(KvDeleted(9, 1, kv_namespace="ns", key="c"))
    store.away = False
    assert await give_back.is_done(known)
    assert store.restored == [("1-0", {"ns": {"a": "2", "b": "3"}})]


async def test_a_second_loss_gives_back_what_was_newer_than_the_first_left():
    store = FakeKvStore()
    first = GiveBack(store, "1-0", "0-1-0", tables({"ns": {"a": "2"}}, {}), None)
    first.applied(KvPut(7, 1, kv_namespace="ns", key="b", value="1"))
    second = GiveBack(store, "2-0", "0-2-0", tables({"ns": {"a": "1", "b": "1", "deleted": "1"}}, {}), first)
    store.away = False
    assert await second.is_done(Tables())
    assert store.restored == [("2-0", {"ns": {"a": "2", "b": "1"}})]


async def test_a_failure_is_said_once(caplog):
    store = FakeKvStore()
    give_back = GiveBack(store, "1-0", "0-1-0", tables({"ns": {"a": "1"}}, {}), None)
    for _ in range(3):
        assert not await give_back.is_done(Tables())
    store.away = False
    assert await give_back.is_done(Tables())
    assert caplog.text.count("not given back") == 1
    assert caplog.text.count("1 keys of the KV configuration were given back") == 1


async def test_it_is_known_when_tables_have_what_was_given_back():
    store = FakeKvStore()
    give_back = GiveBack(store, "1-0", "0-1-0", tables({"ns": {"a": "1"}}, {}), None)
    assert not await give_back.is_done(Tables())
    assert not give_back.is_in(1 << 40)
    store.away = False
    assert await give_back.is_done(Tables())
    assert not give_back.is_in(8)
    assert give_back.is_in(9)
