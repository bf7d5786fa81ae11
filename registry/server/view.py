"""What this worker knows: the tables, the answers already encoded, and how far and how fresh that is.

Nothing here waits or talks to anybody. The follower feeds it; the handlers read it.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Collection
from typing import Final

from msgspec import UNSET

from registry import change as kinds
from registry.behaviour import FIVE, Behaviour
from registry.change import Change
from registry.errors import StoreUnavailable
from registry.model import TopicRoute
from registry.protocol.bodies import encode_cluster_info, encode_route
from registry.route import in_zone, pick_up_route
from registry.server.watches import RouteWatches
from registry.tables import Tables


class KeptAnswer:
    """An encoded route, and how often it was given since somebody last set that to 0.

    body: None when it has to be made anew. That is also how whoever holds on to this learns of a change: it is never
    exchanged for another one while its topic exists.
    """

    __slots__ = ("asked", "body")  # counting takes a third of the time that a Struct needs for it

    def __init__(self, body: bytes | None, asked: int = 0) -> None:
        self.body = body
        self.asked = asked


class View:
    """The tables as served, with their encoded routes.

    exact: follows Redis to the letter; what registrations are compared with.
    served: what lookups see. The same object, except after Redis came back with less than before: until the
        grace is over, ``served`` then keeps what was known and takes in what is new.
    seq, epoch: of ``exact``. fresh: whether a topic that is not here does not exist.
    """

    def __init__(self, behaviour: Behaviour = FIVE) -> None:
        self._live_by_cluster = behaviour.live_by_cluster
        self._old_bodies = behaviour.old_bodies
        self.exact = Tables()
        self.served = self.exact
        self.epoch = ""
        self.seq = -1
        self.loaded = False
        self.fresh = False
        self.acting_master = False
        self.order_messages = False
        # Encoded routes by topic, one dict for each JSON form; made on first use, emptied by what changes them.
        self.quoted: Final[dict[str, KeptAnswer]] = {}
        self.bare: Final[dict[str, KeptAnswer]] = {}
        self.on_gone: Callable[[str, int], object] = lambda topic, asked: None
        """Called with what a kept answer had counted when its topic is gone."""
        self.watches = RouteWatches()
        self._cluster_info: bytes | None = None
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._waiters = 0

    # reading

    def kept_route(self, topic: str, *, quoted_keys: bool) -> KeptAnswer | None:
        """The body of a 105 answer, None when there is no such topic. O(1) once it was asked for."""
        answers = self.quoted if quoted_keys else self.bare
        kept = answers.get(topic)
        if kept is None or kept.body is None:
            route = self._route(topic)
            if route is None:
                return None
            body = encode_route(route, quoted_keys=quoted_keys, topic_syn_flag=self._old_bodies)
            if kept is None:
                kept = answers[topic] = KeptAnswer(body)
            else:
                kept.body = body
        return kept

    def _route(self, topic: str) -> TopicRoute | None:
        return pick_up_route(
            self.served,
            topic,
            acting_master=self.acting_master,
            order_messages=self.order_messages,
            live_by_cluster=self._live_by_cluster,
        )

    def zone_route_body(self, topic: str, zone_name: str) -> bytes | None:
        """The same for one zone; always with bare keys, and never kept."""
        route = self._route(topic)
        return None if route is None else encode_route(in_zone(route, zone_name), quoted_keys=False)

    def cluster_info_body(self) -> bytes:
        """The body of a 106 answer."""
        if self._cluster_info is None:
            self._cluster_info = encode_cluster_info(
                self.served.brokers, self.served.clusters, acting_master=not self._old_bodies
            )
        return self._cluster_info

    # changing

    def load(self, tables: Tables, epoch: str, seq: int) -> None:
        """Serve these tables, a snapshot with every later change applied, from now on."""
        self.exact = self.served = tables
        self.follow_from(epoch, seq)
        self.loaded = True
        self.forget_answers()

    def load_beside(self, tables: Tables, epoch: str, seq: int) -> None:
        """Follow these tables, but go on serving what was known, with what is new in them taken in."""
        self.exact = tables  # self.served is still what exact was before, or what was merged before that
        merge_tables(self.served, tables)
        self.follow_from(epoch, seq)
        self.forget_answers()

    @property
    def beside(self) -> bool:
        """Whether more is served than Redis has."""
        return self.served is not self.exact

    def end_beside(self) -> None:
        """The grace is over: serve exactly what Redis has."""
        self.served = self.exact
        self.forget_answers()

    def follow_from(self, epoch: str, seq: int) -> None:
        """Take over another position. Whoever waits for a seq of another epoch will never see it."""
        if self.epoch and (epoch != self.epoch or seq < self.seq):
            self._fail_waiting()
        self.epoch, self.seq = epoch, seq
        self._wake()
        self.watches.follow_from(epoch, seq)

    def apply(self, change: Change) -> None:
        """Apply one event, the next in order."""
        touched = self.exact.apply(change)
        self.drop_answers(touched, may_be_gone=_takes_topics(change))
        if self.served is not self.exact:
            touched = {*touched, *apply_beside(self.served, change)}
            self.drop_answers(touched)
        self.watches.changed(touched, change.seq)
        if change.type != kinds.WRITE_PERM_SET:
            self._cluster_info = None

    def applied(self, seq: int) -> None:
        """Every event up to this one is in; wakes who waited for it."""
        self.seq = seq
        if self._waiting:
            self._wake()

    def drop_answers(self, topics: Collection[str], *, may_be_gone: bool = True) -> None:
        """Forget the encoded routes of these topics; may_be_gone: some of them may not exist any more."""
        for answers in (self.quoted, self.bare):
            if answers and not may_be_gone:
                for kept in map(answers.get, topics):
                    if kept is not None:
                        kept.body = None
            elif answers:
                for topic in topics:
                    if topic in answers:
                        self._drop_answer(answers, topic)

    def _drop_answer(self, answers: dict[str, KeptAnswer], topic: str) -> None:
        kept = answers[topic]
        kept.body = None
        if topic not in self.served.topics:
            del answers[topic]
            if kept.asked:
                self.on_gone(topic, kept.asked)

    def forget_answers(self) -> None:
        """Forget every encoded answer."""
        self.drop_answers(list(self.quoted))
        self.drop_answers(list(self.bare))
        self._cluster_info = None
        self.watches.all_changed()

    # answers after effect

    async def wait_for(self, seq: int, timeout_s: float) -> None:
        """Return once every change up to ``seq`` is in this view.

        Raises:
            StoreUnavailable: not within timeout_s, or the registry lost that change meanwhile.
        """
        if seq <= self.seq:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiters += 1
        heapq.heappush(self._waiting, (seq, self._waiters, future))
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            raise StoreUnavailable(
                f"the change with seq {seq} was made, but its event did not come in {timeout_s} s"
            ) from None

    def _wake(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.seq:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)

    def _fail_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for _, _, future in waiting:
            if not future.done():
                future.set_exception(StoreUnavailable("Redis came back without this change; repeat it"))


def _takes_topics(change: Change) -> bool:
    return change.type != kinds.BROKER_REGISTERED or change.row is None or bool(change.dropped)


def merge_tables(known: Tables, new: Tables) -> None:
    """Take everything of ``new`` into ``known``; what only ``known`` has stays."""
    for cluster, names in new.clusters.items():
        known.clusters.setdefault(cluster, set()).update(names)
    for name in new.brokers:
        _merge_row(known, new, name)
    for topic, queue_datas in new.topics.items():
        for name, queue_data in queue_datas.items():
            known.set_queue_data(topic, name, queue_data)
    known.filter_servers.update(new.filter_servers)
    for topic, mappings in new.mappings.items():
        known.mappings.setdefault(topic, {}).update(mappings)
    for kv_namespace, table in new.kv.items():
        known.kv.setdefault(kv_namespace, {}).update(table)
    known.config.update(new.config)


def _merge_row(known: Tables, new: Tables, name: str) -> None:
    row, old = new.brokers[name], known.brokers.get(name)
    addrs = dict(old.broker_addrs) if old else {}
    taken = set(row.broker_addrs.values())
    addrs = {broker_id: addr for broker_id, addr in addrs.items() if addr not in taken} | row.broker_addrs
    known.brokers[name] = type(row)(row.cluster, addrs, row.zone_name, row.enable_acting_master, row.rev)


def apply_beside(known: Tables, change: Change) -> Collection[str]:
    """Apply an event to tables that hold more than the event's writer knew of.

    Additions and explicit changes count as ever. A removal takes only the address that it names: that its row
    is empty in a Redis that lost the others does not mean that they are gone.
    """
    name = change.broker_name
    old = known.brokers.get(name)
    touched = set(known.broker_topics.get(name, ()))
    if change.type in kinds.REMOVALS:
        if old is None or change.addr is None or change.row is UNSET:
            return ()
        addrs = {broker_id: addr for broker_id, addr in old.broker_addrs.items() if addr != change.addr}
        if not addrs:
            return known.drop_broker(name)
        known.brokers[name] = type(old)(old.cluster, addrs, old.zone_name, old.enable_acting_master, old.rev)
        return touched
    affected = known.apply(change)
    row = known.brokers.get(name)
    if old is not None and row is not None and row is not old:
        taken = set(row.broker_addrs.values())
        addrs = {broker_id: addr for broker_id, addr in old.broker_addrs.items() if addr not in taken}
        known.brokers[name] = type(row)(
            row.cluster, addrs | row.broker_addrs, row.zone_name, row.enable_acting_master, row.rev
        )
    return touched.union(affected)
