"""Keeps the encoded answers to lookups (105) and cluster info (106) until a change touches them.

There is one answer for each topic and JSON form. It is encoded when a client first asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from ...behaviour import FIVE, Behaviour
from ...events.changes import WritePermSet
from ...model import TopicRoute
from ...protocol.bodies.route import encode_cluster_info, encode_route
from ...tables.pick_up_route import pick_up_route
from ...tables.zone_filter import in_zone
from .view import Applied, View


class KeptAnswer:
    """An encoded route. ``asked``: how often it was the answer; LookupCounts takes this count, and sets it to 0.

    LookupCache has the same object, so it is never replaced while its topic exists.
    """

    __slots__ = ("asked", "body")  # no msgspec.Struct: counting in it would take three times as long

    def __init__(self, body: bytes | None, asked: int = 0) -> None:
        self.body = body  # None: the route has changed, and must be encoded again
        self.asked = asked


class RouteAnswers:
    """The encoded answers of one worker; listens to the view.

    ``quoted``, ``bare``: kept routes by topic, in standard JSON, and in fastjson's JSON with bare number keys.
    ``on_gone``: called with a removed topic and the ``asked`` of its kept answer.
    """

    def __init__(self, view: View, behaviour: Behaviour = FIVE) -> None:
        self._view = view
        self._live_by_cluster = behaviour.live_by_cluster
        self._old_bodies = behaviour.old_bodies
        self._acting_master = self._order_messages = False
        self.quoted: Final[dict[str, KeptAnswer]] = {}
        self.bare: Final[dict[str, KeptAnswer]] = {}
        self._cluster_info: bytes | None = None
        self.on_gone: Callable[[str, int], object] = lambda topic, asked: None

    def kept_route(self, topic: str, *, quoted_keys: bool) -> KeptAnswer | None:
        """The answer to a 105, with its body; None: there is no such topic. O(1) after the first call."""
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

    def note_asked(self, ext_fields: Mapping[str, str] | None, asked: Callable[[KeptAnswer], object]) -> None:
        """Call ``asked`` with a kept answer of the topic that a lookup asked for, in whatever JSON form."""
        topic = (ext_fields or {}).get("topic", "")
        if topic in self._view.tables.topics:
            asked(self.quoted.get(topic) or self.bare.get(topic) or self.quoted.setdefault(topic, KeptAnswer(None)))

    def _route(self, topic: str) -> TopicRoute | None:
        return pick_up_route(
            self._view.tables,
            topic,
            acting_master=self._acting_master,
            order_messages=self._order_messages,
            live_by_cluster=self._live_by_cluster,
        )

    def zone_route_body(self, topic: str, zone_name: str) -> bytes | None:
        """Encode the route of a 105 with a zone filter: always with bare number keys, and never kept."""
        route = self._route(topic)
        return None if route is None else encode_route(in_zone(route, zone_name), quoted_keys=False)

    def cluster_info_body(self) -> bytes:
        """The body of a 106 answer."""
        if self._cluster_info is None:
            served = self._view.tables
            self._cluster_info = encode_cluster_info(
                served.brokers, served.clusters, acting_master=not self._old_bodies
            )
        return self._cluster_info

    def configure(self, *, acting_master: bool, order_messages: bool) -> bool:
        """Encode by these settings; if they differ from those before, forget all kept answers and return True."""
        wanted = acting_master, order_messages
        if (self._acting_master, self._order_messages) == wanted:
            return False
        self._acting_master, self._order_messages = wanted
        self.invalidate_all()
        return True

    def applied(self, applied: Applied) -> None:
        """Forget the answers that this change touched."""
        self.invalidate(applied.topics)
        if not isinstance(applied.change, WritePermSet):
            self._cluster_info = None

    def replaced(self, epoch: str, seq: int) -> None:
        """Forget every answer: the view has loaded the tables again."""
        self.invalidate_all()

    def invalidate(self, topics: Collection[str]) -> None:
        """Forget the encoded routes of these topics; the next lookup encodes them again."""
        served = self._view.tables.topics
        for answers in (self.quoted, self.bare):
            for topic in topics if answers else ():
                kept = answers.get(topic)
                if kept is not None:
                    kept.body = None
                    if topic not in served:
                        del answers[topic]
                        if kept.asked:
                            self.on_gone(topic, kept.asked)

    def invalidate_all(self) -> None:
        """Forget all kept answers, of topics and of the cluster info."""
        self.invalidate(list({**self.quoted, **self.bare}))
        self._cluster_info = None
