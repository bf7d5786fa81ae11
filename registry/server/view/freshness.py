"""How far the tables that a worker serves can be trusted: one state, and everything that moves it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class Seen(Enum):
    """What the follower and the lease loop find out about Redis; each moves the state as :class:`Freshness` says.

    LOADED: the tables were read, and Redis holds everything that was known. LESS_THERE: Redis holds less than is
    served, because it lost changes and the grace after that is not over. IN_STEP: a lease renewal says that Redis
    has the seq of the view, and the change stream is heard. UNHEARD: the change stream is not heard, or a renewal
    failed without saying that Redis is away. CONTRADICTED: Redis is in another state than the view, or the change
    stream has a gap. UNANSWERED, ANSWERED: Redis did not answer, or answered, a lease renewal.
    """

    LOADED = "loaded"
    LESS_THERE = "less there"
    IN_STEP = "in step"
    UNHEARD = "unheard"
    CONTRADICTED = "contradicted"
    UNANSWERED = "unanswered"
    ANSWERED = "answered"


class Freshness(Enum):
    """How the tables that this worker serves compare with what Redis holds.

    Known routes are answered in every state but LOADING. A topic that is not in the tables gets code 17 (does not
    exist) in FRESH alone, in the others code 1: clients that get 17 drop a good route, on other errors they keep it.

    ========== ================================================== ======================================
    state      what is served                                     left for
    ========== ================================================== ======================================
    LOADING    nothing: the tables were never read; not ready     STALE when LOADED
    STALE      what Redis held when it was last seen              FRESH when IN_STEP, MERGED when
                                                                  LESS_THERE, REBUILDING, AWAY
    FRESH      what Redis holds                                   STALE when UNHEARD, MERGED when
                                                                  LESS_THERE, REBUILDING, AWAY
    REBUILDING what was known; the tables are read again          STALE when LOADED, MERGED when
                                                                  LESS_THERE, AWAY
    MERGED     what Redis holds, and what it lost, until the      FRESH when IN_STEP (the grace is over),
               brokers had time to register again                 REBUILDING, AWAY
    AWAY       what was known; writes fail at once                STALE when ANSWERED
    ========== ================================================== ======================================

    From every state that has tables, CONTRADICTED leads to REBUILDING and UNANSWERED to AWAY. AWAY does not react
    to other findings. They are not lost: a requested rebuild stays noted in the follower, a loss in the merged view.
    The renewal that ends AWAY reports both again.
    """

    LOADING = "loading"
    STALE = "stale"
    FRESH = "fresh"
    REBUILDING = "rebuilding"
    MERGED = "merged"
    AWAY = "away"

    def after(self, seen: Seen) -> Freshness:
        """The next state; the same one when ``seen`` changes nothing."""
        return _NEXT[self].get(seen, self)

    @property
    def redis_answers(self) -> bool:
        """Whether a write is worth trying: Redis answered the last lease renewal."""
        return self not in (Freshness.LOADING, Freshness.AWAY)


_ANYWHERE: Final = {Seen.CONTRADICTED: Freshness.REBUILDING, Seen.UNANSWERED: Freshness.AWAY}
_NEXT: Final[Mapping[Freshness, Mapping[Seen, Freshness]]] = {
    Freshness.LOADING: {Seen.LOADED: Freshness.STALE},
    Freshness.STALE: {Seen.IN_STEP: Freshness.FRESH, Seen.LESS_THERE: Freshness.MERGED, **_ANYWHERE},
    Freshness.FRESH: {Seen.UNHEARD: Freshness.STALE, Seen.LESS_THERE: Freshness.MERGED, **_ANYWHERE},
    Freshness.REBUILDING: {Seen.LOADED: Freshness.STALE, Seen.LESS_THERE: Freshness.MERGED, **_ANYWHERE},
    Freshness.MERGED: {Seen.IN_STEP: Freshness.FRESH, **_ANYWHERE},
    Freshness.AWAY: {Seen.ANSWERED: Freshness.STALE},
}
