"""A lake of before the Delta tables, moved: the same tables as one that was written today."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

from mqregistry.cli import cli
from mqregistry.events.changes import decode_change
from mqregistry.pipeline import gold, silver
from mqregistry.pipeline.bronze.log import last_position
from mqregistry.pipeline.lake import snapshot
from mqregistry.pipeline.lake.lake import Lake, LakeError
from mqregistry.pipeline.lake.schema import BRONZE, QUARANTINE
from tests.pipeline.test_lake import figures
from tests.pipeline.world import World, entries, write_bronze


def old_lake(root, place, found, ms):
    """As it was written then: batches of twenty changes, and an entry that could not be read."""
    schema = BRONZE["changes"]

    def write(path, rows, schema):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), root / path)

    def commit(log, number, content):
        (root / "commits" / log).mkdir(parents=True, exist_ok=True)
        (root / "commits" / log / f"{number:09d}.json").write_text(json.dumps(content))

    commit(f"snapshots/{place}", 0, {"seq": 0, "ms": ms, "last_id": "0-0", "rows": 0, "compat": "5.x"})
    for number in range(0, len(found), 20):
        rows = []
        for entry_id, e in found[number : number + 20]:
            change, (id_ms, id_n) = decode_change(e.encode()), map(int, entry_id.split("-"))
            values = (id_ms, id_n, change.seq, change.ms, change.type, change.part, change.parts, e)
            rows.append(dict(zip(schema.names, values, strict=True)))
        log = f"bronze/changes/{place}"
        write(f"{log}/batch={number // 20:09d}/day=2026-01-01/part.snappy.parquet", rows, schema)
        commit(log, number // 20, {"rows": len(rows), "quarantined": 0, "first_id": found[number][0], "unread": 0,
                                   "last_id": f"{rows[-1]['id_ms']}-{rows[-1]['id_n']}", "first_seq": rows[0]["seq"],
                                   "last_seq": rows[-1]["seq"]})  # fmt: skip
    bad = {"stream": "lookups", "id_ms": ms, "id_n": 7, "reason": "no JSON", "raw": b"{"}
    write(f"quarantine/lookups/{place}/batch=000000000/part.parquet", [bad],
          pa.schema([pa.field("stream", pa.string()), *QUARANTINE]))  # fmt: skip
    last = {"rows": 0, "quarantined": 1, "last_id": f"{ms}-7", "first_seq": None, "last_seq": None, "unread": 0}
    commit(f"bronze/lookups/{place}", 0, last)


def test_a_lake_of_before_is_moved_by_a_command(run, store, tmp_path):
    run(World(store, 4).run(80))
    found = run(entries(store))
    whole, moved = Lake(str(tmp_path / "whole")), Lake(str(tmp_path / "moved"))
    taken = run(snapshot.take_async(store.url, store.namespace, whole))
    write_bronze(whole, store.namespace, taken.epoch, 0, found)
    silver.advance(None, whole, store.namespace, taken.epoch)
    gold.refresh(None, whole, store.namespace, taken.epoch)
    place = f"namespace={store.namespace}/epoch={taken.epoch}"
    old_lake(tmp_path / "old", place, found, taken.ms)
    with pytest.raises(LakeError, match=r"is of before the Delta tables: 'mqregistry pipeline move"):
        Lake(str(tmp_path / "old")).try_to_write()
    for _ in range(2):  # a repetition finds everything there
        done = CliRunner().invoke(cli, ["pipeline", "move", str(tmp_path / "old"), "--lake", moved.root])
        assert done.exit_code == 0, done.output + repr(done.exception)
        assert done.output.endswith(f"1 epoch moved to {moved.root}\n")
        assert figures(moved, store.namespace, taken.epoch) == figures(whole, store.namespace, taken.epoch)
    [file] = moved.table("quarantine").files(stream="lookups")
    assert file.low["id_n"] == 7
    for stream, last_id in (("changes", found[-1][0]), ("lookups", f"{taken.ms}-7")):
        assert str(last_position(moved, stream, store.namespace, taken.epoch).id) == last_id
