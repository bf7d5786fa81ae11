"""With a lake the console knows what Redis forgot, as a plain replay does; and it shows the report."""

from __future__ import annotations

import os
import random
import tempfile
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

from mqregistry.cli.read.lake_tables import LakePast
from mqregistry.console.past import NotKnown
from mqregistry.console.report import ReportSource
from mqregistry.embedded import EmbeddedRedis
from mqregistry.errors import StartError
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.past.travel import ask
from mqregistry.store.snapshot import read_head
from mqregistry.store.store import Store
from tests.conftest import NO_FSYNC
from tests.pipeline.plain_lake import PlainSilver
from tests.pipeline.world import Model, entries, plain, whole_changes
from tests.store.bed import Bed

from .conftest import open_site
from .test_past import operate

NAMESPACE = "travelled"
PER_EPOCH = 250


class Recorder:
    """What 'mqregistry pipeline run' keeps of one epoch, and a plain replay of the same entries."""

    def __init__(self, lake, store):
        self.lake, self.store = lake, store
        self.found = []
        self.number = 0

    async def begin(self):
        head = await read_head(self.store)
        self.epoch, self.silver = head.epoch, PlainSilver(begin_ms=head.now_ms)

    async def record(self, store):
        new = await entries(store, self.found[-1][0] if self.found else "-")
        self.silver.take([e for _, e in new])
        self.silver.write(self.lake, NAMESPACE, self.epoch, number=self.number)
        self.found += new
        self.number += 1

    def model(self):
        return Model(whole_changes(self.found))


async def change(bed, rng, count):
    """Random operations, and the clock of Redis is set back in between."""
    for _ in range(3):
        await operate(bed, rng, count // 3)
        await bed.move_clock(-rng.randrange(300))


def instants(model, rng, count):
    first, last = model.moments[0], model.moments[-1]
    return [rng.choice(model.moments) + rng.choice((-1, 0, 0, 1)) if rng.random() < 0.5 else rng.randint(first, last)
            for _ in range(count)]  # fmt: skip


async def assert_all_agree(site, recorder, wanted):
    """Console, lake and replay; returns at how many instants."""
    model, compared = recorder.model(), 0
    first, last = model.moments[0], model.moments[-1]
    for ms, tables, _ in model.walk([min(max(ms, first), last) for ms in wanted]):
        expected = plain(tables)
        then = await site.console.past.at(ms)
        assert plain(then.tables) == expected, ms
        if not then.of_lake:
            of_lake = ask(recorder.lake, NAMESPACE, ms, lambda past, at=ms: past.tables(at))
            assert plain(of_lake) == expected, ms
        compared += 1
    return compared


@pytest.mark.timeout(400)  # 22 s of work, most of it in the lake's files
async def test_console_lake_and_replay_agree_at_500_instants_across_a_restart_and_an_epoch(tmp_path):
    rng = random.Random(11)
    lake = Lake(str(tmp_path / "lake"))
    known = LakePast(str(tmp_path / "lake"), NAMESPACE)
    with tempfile.TemporaryDirectory(prefix="mq") as folder:
        server = EmbeddedRedis(Path(folder), extra=NO_FSYNC)
        with server:
            async with Store(server.url, NAMESPACE) as store:
                await store.connect()
                bed = Bed(store)
                recorder = Recorder(lake, store)
                await recorder.begin()
                await change(bed, rng, 60)
                async with open_site(store, tmp_path / "checkpoints") as site:
                    await site.until_seen((await bed.head()).seq)
                    await site.console.past.write_now()
        with server:
            async with Store(server.url, NAMESPACE) as store:
                await store.connect()
                bed = Bed(store)
                async with open_site(store, tmp_path / "checkpoints", lake=known) as site:
                    await change(bed, rng, 60)
                    await recorder.record(store)
                    await site.until_seen((await bed.head()).seq)
                    await site.console.past.write_now()
                    wanted = instants(recorder.model(), rng, PER_EPOCH)
                    compared = await assert_all_agree(site, recorder, wanted[:50])  # as the stream has it
                    old, old_last = site.console.state.epoch, recorder.model().moments[-1]

                    await bed.redis("FLUSHALL")
                    await store.connect()
                    bed = Bed(store)
                    await bed.move_clock(old_last + 60_000 - await bed.now_ms())
                    later = Recorder(lake, store)
                    await later.begin()
                    await change(bed, rng, 60)
                    await later.record(store)
                    await site.until_epoch(old)
                    await site.until_seen((await bed.head()).seq)
                    compared += await assert_all_agree(site, recorder, wanted[50:])  # as the lake has it
                    compared += await assert_all_agree(site, later, instants(later.model(), rng, PER_EPOCH))
                    assert compared == 2 * PER_EPOCH

                    at = str(wanted[-1])
                    assert "as the lake of the pipeline has it" in await site.get("/brokers", at=at)
                    assert "The stream does not reach back so far" in await site.get("/topic", name="t1", at=at)
                    text = await site.get("/topics")
                    assert "where the stream begins" in text
                    assert f'min="{min(recorder.model().moments[0], known.since_ms())}"' in text
                    with pytest.raises(NotKnown, match=r"The lake does not know it: .* was created again"):
                        await site.console.past.at(old_last + 30_000)
                # without the lake it is said since when the past is known, and what would know more
                async with open_site(store, tmp_path / "checkpoints") as site:
                    text = await site.get("/brokers", 404, at=at)
                    assert "the past is known since then" in text
                    assert "the console shows them with --lake" in text


def test_why_there_is_no_report_is_said_by_the_process_that_should_make_it(tmp_path):
    with pytest.raises(StartError, match="has no figures of namespace 'default'; it has none at all"):
        LakePast(str(tmp_path), "default").report()


async def test_a_report_that_was_made_is_shown_with_its_age(bed, tmp_path):
    file = tmp_path / "report.html"
    async with open_site(bed.store, tmp_path / "c", report=ReportSource(file, None)) as site:
        assert f"pipeline report --namespace {bed.store.namespace} --out" in await site.get("/report")
        assert "There is no report" in await site.get("/report/page", 404)
        file.write_text("<h1>of <b>mine</b></h1>")
        os.utime(file, (time.time() - 7260,) * 2)
        assert "Made 2h01m ago" in await site.get("/report")
        assert await site.get("/report/page") == "<h1>of <b>mine</b></h1>"


async def test_without_a_report_it_is_said_how_to_get_one(site):
    text = await site.get("/report")
    assert "start it with --lake DIR" in text
    assert "<iframe" not in text
    assert 'href="/report"' in await site.get("/streams")
