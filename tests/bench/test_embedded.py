"""The servers beside each other: the day that they are given, the table that is printed."""

from bench.costs import churn
from bench.costs.churn import Day
from bench.costs.embedded import servers_here, show
from mqregistry.embedded import find_server
from mqregistry.store.snapshot import read_tables


async def test_a_day_changes_topics_and_leaves_as_many_at_every_broker(store, monkeypatch):
    monkeypatch.setattr(churn, "BEATS_AN_HOUR", 20)
    day = Day(store, clusters=2, brokers=3, topics=50)
    await day.begin()
    _, before = await read_tables(store)
    await day.hour(0)
    _, after = await read_tables(store)
    assert len(before.topics.keys() - after.topics.keys()) == len(after.topics.keys() - before.topics.keys()) == 2
    assert {len(names) for names in after.topics.values()} == {3}
    assert after.brokers.keys() == before.brokers.keys() == {broker.name for broker in day.brokers}
    memory = await day.memory()
    assert 0 < memory.used < memory.resident


def test_each_server_is_beside_the_first(capsys):
    servers = servers_here([find_server()])
    assert len(set(servers.values())) == len(servers) > 0
    first, other = "Redis 6.2.14 (libc)", "Valkey 9.1.2 (libc)"
    show({first: {"storm, s": [2.0, 4.0, 9.0]}, other: {"storm, s": [5.0, 6.0, 1.0]}})
    assert capsys.readouterr().out.splitlines()[-1] == "| storm, s | 4 | 5 (1.25) |"
