"""The one state of the view: what moves it, and what it never does."""

from __future__ import annotations

import re
from inspect import cleandoc

from hypothesis import given
from hypothesis import strategies as st

from mqregistry.server.view.freshness import Freshness, Seen

F = Freshness
MOVES = {
    (F.LOADING, Seen.LOADED): F.STALE,
    (F.STALE, Seen.IN_STEP): F.FRESH,
    (F.STALE, Seen.BROKERS_AWAITED): F.AWAITING,
    (F.FRESH, Seen.UNHEARD): F.STALE,
    (F.FRESH, Seen.BROKERS_AWAITED): F.AWAITING,
    (F.REBUILDING, Seen.LOADED): F.STALE,
    (F.AWAITING, Seen.IN_STEP): F.FRESH,
    (F.AWAITING, Seen.UNHEARD): F.STALE,
    (F.AWAY, Seen.ANSWERED): F.STALE,
    **{(state, Seen.CONTRADICTED): F.REBUILDING for state in (F.STALE, F.FRESH, F.REBUILDING, F.AWAITING)},
    **{(state, Seen.UNANSWERED): F.AWAY for state in (F.STALE, F.FRESH, F.REBUILDING, F.AWAITING)},
}


def test_these_and_no_other_findings_move_it():
    for state in F:
        for seen in Seen:
            assert state.after(seen) is MOVES.get((state, seen), state), (state, seen)


def test_the_table_in_the_docstring_names_every_state_and_where_it_leads():
    rows = cleandoc(F.__doc__).split("=\n")[2].split("\n===")[0]
    documented, state = {}, None
    for line in rows.splitlines():
        if line[:1].strip():
            state = documented.setdefault(line.split()[0], set())
        state |= F.__members__.keys() & re.findall(r"\w+", line[62:])
    assert documented == {
        one.name: {after.name for (state, _), after in MOVES.items() if state is one and after is not one} for one in F
    }


@given(st.lists(st.sampled_from(Seen)))
def test_a_topic_is_denied_only_after_a_renewal_in_step_that_nothing_followed(history):
    state = F.LOADING
    for seen in history:
        state = state.after(seen)
    if state is F.FRESH:
        assert Seen.LOADED in history
        since = history[len(history) - 1 - history[::-1].index(Seen.IN_STEP) :]
        assert not {Seen.UNHEARD, Seen.CONTRADICTED, Seen.UNANSWERED, Seen.BROKERS_AWAITED} & set(since)
    assert state.redis_answers == (state not in (F.LOADING, F.AWAY))
