"""What happened at random is the same in Redis, in the replay and in silver."""

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from mqregistry.pipeline.past.audit import audit
from tests.pipeline.test_run import once
from tests.pipeline.world import World

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", [21])  # an address expires in one cluster and lives on in another
def test_the_history_of_a_random_world_is_that_of_redis(spark, store, run, lake, redis_url, seed):
    run(World(store, seed).run(60))
    once(spark, lake, store)
    assert audit(spark, redis_url, store.namespace, lake).differences == []
