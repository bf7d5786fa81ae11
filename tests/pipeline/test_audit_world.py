"""What happened at random is the same in Redis, in the replay and in silver."""

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

from mqregistry.pipeline import silver
from mqregistry.pipeline.lake import snapshot
from mqregistry.pipeline.past.audit import audit
from tests.pipeline.world import World, entries, write_bronze


@pytest.mark.parametrize("seed", [20, 21, 22])  # 21: an address expires in one cluster and lives on in another
def test_the_history_of_a_random_world_is_that_of_redis(store, run, lake, redis_url, seed):
    run(World(store, seed).run(60))
    epoch = run(snapshot.take_async(redis_url, store.namespace, lake)).epoch
    write_bronze(lake, store.namespace, epoch, 0, run(entries(store)))
    silver.advance(None, lake, store.namespace, epoch)
    assert audit(None, redis_url, store.namespace, lake).differences == []
