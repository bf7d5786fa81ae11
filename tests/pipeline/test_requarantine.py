"""``pipeline requarantine``: what a release could not read is taken in by one that can."""

from __future__ import annotations

import msgspec
import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from mqregistry.pipeline import jobs
from mqregistry.pipeline.backfill import backfill
from mqregistry.pipeline.bronze.log import last_position
from mqregistry.pipeline.past import travel
from mqregistry.pipeline.redis_stream import entries
from mqregistry.pipeline.redis_stream.stream import GapError
from tests.cli.conftest import command, env, home  # noqa: F401 - fixtures
from tests.pipeline.streams import EPOCH, START_MS
from tests.pipeline.test_run import bronze_rows, settings


def older(monkeypatch):
    """Let some changes be unknown."""
    read = entries.decode_change

    def decode(value):
        if b'"value": "newer"' in value:
            raise msgspec.DecodeError("this release does not know such a change")
        return read(value)

    monkeypatch.setattr(entries, "decode_change", decode)
    monkeypatch.setattr(entries, "decode", lambda stream, value: decode(value))


@pytest.mark.parametrize("accepted", [False, True])
def test_a_newer_release_reads_it(bed, lake, command, monkeypatch, accepted):  # noqa: F811
    options = ("--lake", lake.root, "--namespace", bed.namespace)
    with monkeypatch.context() as patch:
        older(patch)
        bed.changes(3)
        jobs.run(None, lake, settings(bed), once=True)
        bed.changes(1, value="newer")
        bed.changes(2)
        bed.changes(1, value="newer")
        bed.add({"x": b"1"}, ids=[f"{START_MS + 75}-0"])
        bed.client.sadd(f"mq:{{{bed.namespace}}}:kv", "a")  # what a snapshot finds
        with pytest.raises(GapError, match="change 4 is missing"):
            jobs.run(None, lake, settings(bed), once=True)
        if accepted:
            jobs.run(None, lake, settings(bed, accept_gap=True), once=True)
        assert last_position(lake, "changes", bed.namespace, EPOCH).unread == 2
    told = command("pipeline", "requarantine", *options).stdout
    assert told == "2 entries read and taken into bronze, 1 still in quarantine\n"
    assert len(bronze_rows(lake, "changes", bed.namespace, EPOCH)) == 7
    at = last_position(lake, "changes", bed.namespace, EPOCH)
    assert (at.seq, at.unread) == (7, 1)
    if accepted:
        list(backfill(None, lake, bed.namespace, EPOCH))
    bed.changes(1)
    assert jobs.run(None, lake, settings(bed), once=True).seq == 8
    [past] = travel.all_pasts(lake, bed.namespace)
    assert past.content.holes == ()
    assert command("pipeline", "requarantine", *options).stdout.startswith("0 entries read")
    assert "nothing of namespace" in command("pipeline", "requarantine", *options[:2], "--namespace", "x").stdout
