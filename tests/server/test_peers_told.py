"""A worker tells where its brokers' connections come from: when that has changed, and never otherwise."""

from __future__ import annotations

import msgspec
import pytest

from mqregistry.events.changes import BrokerExpired
from mqregistry.server.counting.counters import Closed
from mqregistry.server.view.view import Applied
from mqregistry.store import keys

from .here import Here, Peer


class Connection(Peer):
    """A connection of a broker with an address of its own."""

    def __init__(self, channels, address):
        self.channel, self.address, self.via = channels.new_channel(), address, ""
        self.last_caller = None
        self.closed_as, self.was_reset = Closed.CLIENT, False

    def close(self, closed_as, reason):
        pass


@pytest.fixture
def here(runner, redis_url, namespace):
    here = Here(redis_url, namespace)
    runner.run(here.__aenter__())
    yield here
    runner.run(here.__aexit__())


async def told(here):
    """What Redis has of the peers, which is taken away, so that the next look shows what was written since."""
    key = keys.peers(here.store.namespace)
    text = await here.store.client.hget(key, here.channels.incarnation)
    await here.store.client.delete(key)
    return None if text is None else {who: peer[0] for who, peer in msgspec.json.decode(text).items()}


async def test_peers_are_written_when_a_connection_changed_and_only_then(here):
    channels, renew = here.channels, here.lease_loop.renew
    first, second = Connection(channels, "10.0.0.1:1"), Connection(channels, "10.0.0.1:2")
    await renew()
    await told(here)
    channels.registered("c1|a:1", first, 1)
    channels.touched("c1|b:1", first)
    await renew()
    assert await told(here) == {"c1|a:1": "10.0.0.1:1", "c1|b:1": "10.0.0.1:1"}
    channels.registered("c1|a:1", first, 2)
    channels.touched("c1|b:1", second)
    await renew()
    assert await told(here) is None, "nothing has changed"
    channels.registered("c1|a:1", second, 3)
    await renew()
    assert (await told(here))["c1|a:1"] == "10.0.0.1:2"
    channels.closed(first)
    await renew()
    assert await told(here) == {"c1|a:1": "10.0.0.1:2"}
    channels.applied(Applied(BrokerExpired(seq=9, ms=1, who="c1|a:1"), (), None))
    await renew()
    assert await told(here) == {}


async def test_after_a_lost_lease_peers_are_written_again(here):
    here.channels.registered("c1|a:1", Connection(here.channels, "10.0.0.1:1"), 1)
    for _ in range(2):
        await here.lease_loop.renew()
    await told(here)
    await here.store.client.delete(keys.lease(here.store.namespace, here.channels.incarnation))
    for _ in range(2):  # the first finds it lost
        await here.lease_loop.renew()
    assert await told(here) == {"c1|a:1": "10.0.0.1:1"}
