"""One real Redis per test process, a namespace per test, and ``async def`` tests without a plugin."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import os
import secrets
import tempfile
from pathlib import Path

import hypothesis
import pytest
import redis

from mqregistry.embedded import EmbeddedRedis
from mqregistry.store.store import Store
from mqregistry.testing.in_memory_redis import InMemoryRedis
from tests.store.bed import Bed
from tests.waiting import PATIENT_MS

# CI takes the default, with the same examples each time: new ones are looked for where somebody can follow up.
# HYPOTHESIS_PROFILE=long is for a machine that has the night.
hypothesis.settings.register_profile(
    "default", max_examples=100, stateful_step_count=30, deadline=None, derandomize="CI" in os.environ
)
hypothesis.settings.register_profile(
    "quick", max_examples=20, stateful_step_count=20, deadline=None, derandomize="CI" in os.environ
)
hypothesis.settings.register_profile(
    "long",
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "3000")),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


# A busy disk must not hold up a test. Redis writes to its file before it answers then; with "everysec" it does so up to
# two seconds later while the disk is slow to sync, and a test that kills Redis finds less than was acknowledged.
NO_FSYNC = ("--appendfsync", "no")
PIPELINE = Path(__file__).parent / "pipeline"
# The one that is below, once a test has asked for it.
SERVERS: list[EmbeddedRedis] = []


# The namespaces of tests are new in a Redis that nobody emptied: an unknown topic is denied
# at once. Tests of the contrary say so.
os.environ.setdefault("MQREGISTRY_FRESH", "true")
Store.__init__.__kwdefaults__["fresh"] = True
Store.__init__.__kwdefaults__["timeout_ms"] = PATIENT_MS


def pytest_addoption(parser):
    parser.addoption(
        "--in-memory", action="store_true",
        help="fakeredis in the place of a Redis; REAL_REDIS in tests/conftest.py is left out",
    )  # fmt: skip


@pytest.fixture(scope="session")
def redis_server():
    """The Redis of this test process (of each xdist worker); its folder is short, for the sake of the socket."""
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder), extra=NO_FSYNC) as server:
        SERVERS.append(server)
        yield server
        SERVERS.remove(server)


@pytest.fixture(scope="session")
def redis_url(request):
    if not request.config.getoption("--in-memory"):
        yield request.getfixturevalue("redis_server").url
        return
    with contextlib.closing(InMemoryRedis()) as server:
        yield server.url


@pytest.fixture(scope="module", autouse=True)
def nothing_left_for_the_next_module():
    """Empty the Redis of this process: who looks for a namespace's keys looks through all that are there."""
    yield
    for server in SERVERS:
        with redis.Redis.from_url(server.url) as client:
            client.flushall()


@pytest.fixture(scope="module")
def own_redis():
    """A Redis that the tests of one module may empty, configure, and measure."""
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder)) as server:
        yield server


@pytest.fixture
def namespace():
    """A name that no other test has."""
    return f"t{secrets.token_hex(5)}"


@pytest.fixture
def runner():
    """The event loop of one test; async fixtures and the test itself share it."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def run(runner):
    """Run one coroutine to its end, from a test that is no coroutine itself."""
    return runner.run


@pytest.fixture
def compat():
    """Of the test's namespace; a module of tests may say another."""
    return "5.x"


@pytest.fixture
def store(runner, redis_url, namespace, compat):
    """The test's namespace, ready to use."""
    store = Store(redis_url, namespace, compat=compat)
    runner.run(store.connect())
    yield store
    runner.run(store.close())


@pytest.fixture
def bed(store):
    """The same with what tests of scripts need."""
    return Bed(store)


# What is left out with --in-memory, and why; registry/testing/in_memory_redis.py says what fakeredis cannot do.
REAL_REDIS = {
    "a server of its own, which is restarted, configured, measured or reached by other processes":
        {"redis_server", "own_redis", "front_end", "front_end_with"},
    "thousands of scripts or topics": {
        "test_machine.py", "test_auth_machine.py", "test_streams_random.py", "test_budgets.py", "test_many_topics.py",
        "test_concurrent.py", "test_crafted_names.py", "test_register_steps.py", "test_topic_history.py",
        "test_snapshot_during_writes_and_the_changes_since_give_the_final_tables",
        "test_writes_between_any_two_pages_are_made_good_by_the_changes",
    },
    "servers that are started, and the time that a script may take": {
        "test_embedded.py", "test_embedded_data.py",
        "test_a_redis_that_pauses_again_and_again_still_expires_who_is_silent",
    },
    "MEMORY USAGE, and streams as a server cuts them": {"test_streams.py"},
    "the order in which a server answers the fields of a HASH": {"test_half_done.py"},
}  # fmt: skip


def needs_real_redis(item):
    names = {*getattr(item, "fixturenames", ()), item.path.name, getattr(item, "originalname", item.name)}
    return any(names & needed for needed in REAL_REDIS.values())


def pytest_collection_modifyitems(config, items):
    if config.getoption("--in-memory"):
        left_out = [item for item in items if needs_real_redis(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        if inspect.iscoroutinefunction(getattr(item, "obj", None)) and "runner" not in item.fixturenames:
            item.fixturenames.insert(0, "runner")
        if item.get_closest_marker("spark") and PIPELINE not in item.path.parents:
            raise pytest.UsageError(f"{item.nodeid} is marked spark, and make test looks for these in {PIPELINE} only")


def pytest_configure():
    """Modules and tests are made until all are collected; to look for garbage among them takes a fifth of that time."""
    gc.disable()


def pytest_collection_finish():
    """Leave what thousands of tests have imported out of each collection of garbage: it took a quarter of a second."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure():
    """What is left out to the end DuckDB takes for a leak, and says so in forty lines."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run an ``async def`` test on the test's own event loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    pyfuncitem.funcargs["runner"].run(pyfuncitem.obj(**arguments))
    return True
