"""The state of the tables that a worker serves, compared with Redis, and the findings that change this state."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class Seen(Enum):
    """What the follower and the lease loop find out about Redis; :class:`Freshness` says what follows.

    ``LOADED``: the tables were read. ``IN_STEP``: a lease renewal shows that the view has every change of Redis, and
    the change stream can be read. ``BROKERS_AWAITED``: the same, but after a loss some brokers may still have to
    register again.
    ``UNHEARD``: the change stream cannot be read, or Redis answered a renewal with an error. ``CONTRADICTED``: Redis is
    in another state than the view, or entries of the change stream are missing. ``UNANSWERED``, ``ANSWERED``: Redis did
    not answer, or answered, a lease renewal.
    """

    LOADED = "loaded"
    BROKERS_AWAITED = "brokers awaited"
    IN_STEP = "in step"
    UNHEARD = "unheard"
    CONTRADICTED = "contradicted"
    UNANSWERED = "unanswered"
    ANSWERED = "answered"


class Freshness(Enum):
    """How the tables that this worker serves compare with what Redis holds.

    Known routes are answered in every state but LOADING. A topic that is not in the tables gets code 17 (does not
    exist) only in FRESH, and code 1 in other states: after code 17 clients drop their route, after code 1 they keep it.

    ========== ================================================== ======================================
    state      what is served                                     left for
    ========== ================================================== ======================================
    LOADING    nothing: the tables were never read; not ready     STALE when LOADED
    STALE      what Redis held when it was last seen              REBUILDING, AWAY; FRESH when IN_STEP;
                                                                  AWAITING when BROKERS_AWAITED
    FRESH      what Redis holds                                   REBUILDING, AWAY; STALE when UNHEARD;
                                                                  AWAITING when BROKERS_AWAITED
    REBUILDING what was known; the tables are read again, and     AWAY; STALE when LOADED
               Redis gets back what it lost
    AWAITING   what Redis holds; after a loss some brokers may    REBUILDING, AWAY; FRESH when IN_STEP;
               still have to register their topics again          STALE when UNHEARD
    AWAY       what was known; writes fail at once                STALE when ANSWERED
    ========== ================================================== ======================================

    From every state that has tables, CONTRADICTED leads to REBUILDING and UNANSWERED to AWAY. In AWAY only ANSWERED has
    an effect. A rebuild or a loss that was found meanwhile stays noted in the follower and the view, and the renewal
    that ends AWAY finds it again.
    """

    LOADING = "loading"
    STALE = "stale"
    FRESH = "fresh"
    REBUILDING = "rebuilding"
    AWAITING = "awaiting"
    AWAY = "away"

    def after(self, seen: Seen) -> Freshness:
        """The state after this finding."""
        return _NEXT[self].get(seen, self)

    @property
    def redis_answers(self) -> bool:
        """Whether a write is worth trying: Redis answered the last lease renewal."""
        return self not in (Freshness.LOADING, Freshness.AWAY)


_ANYWHERE: Final = {Seen.CONTRADICTED: Freshness.REBUILDING, Seen.UNANSWERED: Freshness.AWAY}
_NEXT: Final[Mapping[Freshness, Mapping[Seen, Freshness]]] = {
    Freshness.LOADING: {Seen.LOADED: Freshness.STALE},
    Freshness.STALE: {Seen.IN_STEP: Freshness.FRESH, Seen.BROKERS_AWAITED: Freshness.AWAITING, **_ANYWHERE},
    Freshness.FRESH: {Seen.UNHEARD: Freshness.STALE, Seen.BROKERS_AWAITED: Freshness.AWAITING, **_ANYWHERE},
    Freshness.REBUILDING: {Seen.LOADED: Freshness.STALE, **_ANYWHERE},
    Freshness.AWAITING: {Seen.IN_STEP: Freshness.FRESH, Seen.UNHEARD: Freshness.STALE, **_ANYWHERE},
    Freshness.AWAY: {Seen.ANSWERED: Freshness.STALE},
}
