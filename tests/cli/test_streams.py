"""``mqregistry streams``: the journal as an operator sees it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from mqregistry.cli import cli
from mqregistry.cli.read.watch import line
from mqregistry.events.changes import StreamAlarm
from mqregistry.store.streams import StreamStore

from ..store.bed import acknowledge


async def fill(bed):
    await bed.register()
    for number in range(10):
        await bed.kv.put("n", "k", str(number))
    streams = StreamStore(bed.store)
    entries = await bed.store.client.xrange(bed.key("changes"))
    await acknowledge(streams, "spark", {"changes": entries[6][0].decode(), "heartbeats": "0-0"})
    await acknowledge(streams, "gone", {"changes": "0-0"})
    await bed.redis("HSET", bed.key("config"), "changesMaxEntries", "7000")
    return entries[6][0].decode()


@pytest.fixture
def streams(redis_url, namespace):
    def call(*arguments):
        done = CliRunner().invoke(cli, ["streams", *arguments, "--redis", redis_url, "--namespace", namespace])
        return done.exit_code, done.output

    return call


def test_it_shows_lengths_ages_limits_and_who_reads(run, bed, streams):
    acknowledged = run(fill(bed))
    code, output = streams()
    assert code == 0
    lines = [line.split() for line in output.splitlines()]
    by_name = {tuple(words[:2]): words for words in lines}
    assert lines[0] == ["STREAM", "ENTRIES", "SIZE", "OLDEST", "KEPT", "FOR", "READERS"]
    changes = by_name["changes", "11"]
    assert " ".join(changes).endswith("7000 or 168h00m or 64 MiB 14000 or 128 MiB"), "with the shared configuration"
    assert by_name["heartbeats", "1"][2] == "-"
    assert by_name["lookups", "0"]
    assert lines[4] == ["READER", "STREAM", "ACKNOWLEDGED", "BEHIND", "BEHIND", "BY", "HEARD", "STATE"]
    assert by_name["spark", "changes"][2:4] == [acknowledged, "4"]
    assert by_name["spark", "changes"][-1] == "ok"
    assert by_name["gone", "changes"][2:4] == ["0-0", "11"]
    assert by_name["spark", "heartbeats"][2:4] == ["0-0", "1"]


def test_a_short_distance_is_counted_and_a_long_one_estimated(run, bed, streams, monkeypatch):
    async def uneven():
        ids = [f"{ms}-0" for ms in (1000, 2000, *range(10_000, 10_005))]
        for entry_id in ids:
            await bed.store.client.xadd(bed.key("heartbeats"), {"e": "{}"}, id=entry_id)
        await acknowledge(StreamStore(bed.store), "spark", {"heartbeats": ids[1]})

    run(uneven())
    assert run(StreamStore(bed.store).survey()).readers["spark"].positions["heartbeats"].behind == 6, "by the times"
    assert streams()[1].splitlines()[-1].split()[3] == "5"
    monkeypatch.setattr("mqregistry.store.streams.COUNTED", 4)
    assert streams()[1].splitlines()[-1].split()[3] == "~6"


def test_json_is_for_programs(run, bed, streams):
    run(fill(bed))
    code, output = streams("--json")
    found = json.loads(output)
    assert code == 0
    assert found["streams"]["changes"]["entries"] == 11
    assert found["readers"]["spark"]["positions"]["changes"]["behind"] == 4


def test_forgetting_a_reader(run, bed, streams):
    run(fill(bed))
    code, output = streams("--forget", "gone")
    assert code == 0
    assert "gone" not in output
    assert set(run(StreamStore(bed.store).survey()).readers) == {"spark"}
    code, output = streams("--forget", "gone")
    assert (code, output) == (1, "Error: there is no reader 'gone'; there are: spark\n")


def test_without_readers_it_says_what_that_means(run, bed, streams):
    assert streams()[1].splitlines()[-1] == (
        "no reader has acknowledged anything: entries above the limits are deleted"
    )


def test_watch_tells_of_alarms():
    alarm = StreamAlarm(seq=1, ms=0, alarm="near", reader="spark", stream="changes", ignorable=True)
    silent = StreamAlarm(seq=1, ms=0, alarm="silent", reader="spark", ignorable=True)
    assert line(alarm).endswith("stream_alarm        reader spark: near on changes")
    assert line(silent).endswith("stream_alarm        reader spark: silent")
