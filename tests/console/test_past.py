"""Time travel in the console is what a replay of every change says, at any instant; else it says why not."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from mqregistry.console.checkpoints import Checkpoints, StreamPlace, decode_tables, encode_tables
from mqregistry.console.past import NotKnown
from mqregistry.embedded import EmbeddedRedis
from mqregistry.store.store import Store
from mqregistry.tables.tables import Tables
from tests.conftest import NO_FSYNC
from tests.store.bed import Bed

from .conftest import open_site, unlinked


class Model:
    """Every change that was ever made, and the tables at any instant by applying all of them again."""

    def __init__(self, bed):
        self.bed, self.changes = bed, []

    async def look(self):
        self.changes += await self.bed.events()

    def at(self, ms):
        tables = Tables()
        for change in self.changes:
            if change.ms > ms:
                break
            tables.apply(change)
        return tables.contents()


async def operate(bed, rng, count):
    """Random operations, with time in between."""
    for _ in range(count):
        number = rng.randrange(6)
        topics = [f"t{n}" for n in rng.sample(range(30), rng.randint(2, 12))]
        match rng.randrange(8):
            case 0 | 1 | 2 | 3:
                await bed.register(
                    f"10.0.0.{number}:10911", f"broker-{number % 3}", number // 3, topics=topics,
                    counter=rng.randrange(1000), timestamp=rng.randrange(10**6),
                )  # fmt: skip
            case 4:
                await bed.routes.delete_topic(rng.choice(topics), "")
            case 5:
                await bed.kv.put("ns", rng.choice(topics), str(rng.random()))
            case 6:
                await bed.routes.unregister_broker("c1", f"10.0.0.{number}:10911", f"broker-{number % 3}", number // 3)
            case 7:
                await bed.routes.set_write_perm(f"broker-{number % 3}", rng.choice(["wipe", "add"]))
        if rng.random() < 0.5:
            await bed.let_pass(rng.randrange(1, 400))


async def compare_at_instants(site, model, rng, count):
    first, last = model.changes[0].ms, model.changes[-1].ms
    times = sorted({change.ms for change in model.changes})
    for _ in range(count):
        ms = rng.choice(times) + rng.choice((-1, 0, 1)) if rng.random() < 0.5 else rng.randint(first, last)
        if ms < first:
            continue
        then = await site.console.past.at(ms)
        assert then.tables.contents() == model.at(ms), ms


@pytest.mark.parametrize("seed", range(2))
async def test_any_instant_is_what_a_replay_says(bed, tmp_path, seed):
    rng, model = random.Random(seed), Model(bed)
    await operate(bed, rng, 40)
    async with open_site(bed.store, tmp_path) as site:
        for _ in range(3):
            await operate(bed, rng, 20)
            await model.look()
            await site.until_seen(model.changes[-1].seq)
            await site.console.past.write_now()  # as each hour
            await compare_at_instants(site, model, rng, 40)
        assert len(site.console.past._checkpoints().places()) >= 3


async def test_behind_a_trimmed_stream_it_is_known_from_the_first_checkpoint_on(bed, tmp_path):
    rng, model = random.Random(5), Model(bed)
    await operate(bed, rng, 30)
    async with open_site(bed.store, tmp_path) as site:
        await model.look()
        await site.until_seen(model.changes[-1].seq)
        await site.console.past.write_now()
        middle = model.changes[-1]
        await bed.let_pass(500)
        await operate(bed, rng, 30)
        await model.look()
        await site.until_seen(model.changes[-1].seq)
        # only what follows the checkpoint is left
        length = await bed.redis("XLEN", bed.key("changes"))
        await bed.redis("XTRIM", bed.key("changes"), "MAXLEN", length - middle.seq)
        model_late = [change for change in model.changes if change.seq > middle.seq]
        for change in model_late[::5]:
            assert (await site.console.past.at(change.ms)).tables.contents() == model.at(change.ms)
        with pytest.raises(NotKnown, match=r"no checkpoint is older\. 'mqregistry pipeline run' keeps changes longer"):
            await site.console.past.at(model.changes[0].ms)
        text = await site.get("/brokers", 404, at=str(model.changes[0].ms))
        assert "the past is known since then" in text
        # one change more is gone: the checkpoint has no successor, and counts no longer
        await bed.redis("XTRIM", bed.key("changes"), "MAXLEN", length - middle.seq - 1)
        with pytest.raises(NotKnown):
            await site.console.past.at(model_late[0].ms)


async def test_a_restart_keeps_the_past_and_a_new_epoch_begins_another(tmp_path):
    rng = random.Random(7)
    with tempfile.TemporaryDirectory(prefix="mq") as folder:
        server = EmbeddedRedis(Path(folder), extra=NO_FSYNC)
        with server:
            async with Store(server.url, "restarted") as store:
                await store.connect()
                bed = Bed(store)
                model = Model(bed)
                await operate(bed, rng, 30)
                await model.look()
                async with open_site(store, tmp_path) as site:
                    await site.until_seen(model.changes[-1].seq)
                    await site.console.past.write_now()
                    epoch = site.console.state.epoch
        with server:
            async with Store(server.url, "restarted") as store:
                await store.connect()
                model.bed = bed = Bed(store)
                async with open_site(store, tmp_path) as site:
                    assert site.console.state.epoch == epoch
                    await compare_at_instants(site, model, rng, 40)
                    before = model.changes[-1].ms
                    await bed.redis("FLUSHALL")
                    await store.connect()
                    model = Model(Bed(store))
                    model.bed.store = store
                    await operate(model.bed, rng, 30)
                    await model.look()
                    await site.until_epoch(epoch)
                    await site.until_seen(model.changes[-1].seq)
                    assert site.console.state.tables.contents() == (await model.bed.tables()).contents()
                    await compare_at_instants(site, model, rng, 40)
                    with pytest.raises(NotKnown, match="or Redis was emptied before"):
                        await site.console.past.at(min(before, model.changes[0].ms - 1))


async def test_an_instant_that_has_not_come_is_not_known(site, bed):
    await bed.register()
    with pytest.raises(NotKnown, match="has not come yet"):
        await site.console.past.at(await bed.now_ms() + 60_000)


async def test_checkpoints_hold_everything(bed):
    await operate(bed, random.Random(3), 60)
    await bed.register(filter_servers=["10.0.0.9:1"], mappings={"t1": ("broker-a", '{"a":1}')}, topics=["t1", "t2"])
    await bed.kv.set_config({"orderMessageEnable": "true"})
    tables = await bed.tables()
    again = decode_tables(encode_tables(tables))
    assert again.contents() == tables.contents()
    assert again.config_rev == tables.config_rev


def test_a_checkpoint_that_is_no_whole_file_is_passed_over(tmp_path):
    checkpoints = Checkpoints(tmp_path, "redis://x", "default", "e")

    place = StreamPlace(5, 1, "5-0")
    checkpoints.write(place, encode_tables(Tables())[:-3])
    assert checkpoints.places() == [place]
    assert checkpoints.read(place) is None
    assert (checkpoints.folder.stat().st_mode & 0o777) == 0o700


async def test_pages_show_the_instant_that_is_asked_for(site, bed):
    await bed.register(topics=["orders", "bills"])
    await bed.kv.put("ns", "k", "old")
    (*_, put) = await bed.events()
    await bed.let_pass(5000)
    await bed.kv.put("ns", "k", "new")
    await bed.routes.delete_topic("bills", "")
    await bed.register("10.0.0.2:10911", "broker-b", topics=["orders", "other"])
    head = await bed.head()
    await site.until_seen(head.seq)
    at = str(put.ms + 1)
    assert ">old<" in await site.get("/kv", at=at)
    assert ">new<" in await site.get("/kv")
    assert "broker-b" not in await site.get("/brokers", at=at)
    assert "broker-b" in await site.get("/brokers")
    assert ">bills<" in await site.get("/topics", at=at)
    assert ">bills<" not in await site.get("/topics")
    text = await site.get("/topic", name="bills", at=at)
    assert "8 read" in text or "broker-a" in text
    compared = unlinked(await site.get("/compare", at=at))
    assert "bills at broker-a" in compared
    assert "ns / k" in compared
    assert "Nothing differs" in await site.get("/compare", **{"at": at, "and": at})
