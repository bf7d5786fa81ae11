"""Finds where the history that Redis has now leaves the one that a view knows."""

from __future__ import annotations

from typing import NamedTuple

from ...events.changes import Change
from ...follow.follow import Loaded
from ...store.change_reader import chain_of, read_back
from ...store.store import Store
from .view import View


class Since(NamedTuple):
    """What Redis has changed since its history left the known one. whole: all of it; else some of it is not known."""

    changes: list[Change]
    whole: bool


async def find_fork(tail_store: Store, view: View, loaded: Loaded, *, is_lost: bool) -> Since | None:
    """Find the last change that both histories have; None: Redis has lost nothing of what the view knew.

    Args:
        is_lost: it has lost changes for certain, although its stream may not show it any more.
    """
    history, same = view.history, loaded.epoch == view.epoch
    if same and not is_lost and view.last_entry is not None:
        found = await chain_of(tail_store, view.last_entry.entry_id)
        if found and found == history.chain(view.last_entry.seq):
            return None
    since: list[Change] = []
    if same and loaded.seq < view.seq and history.chain(loaded.seq) == loaded.follow.chain:
        return Since(since, whole=True)
    async for parts in read_back(tail_store):
        for change in reversed(parts):
            if change.seq > loaded.seq:
                continue  # it came meanwhile, and is read with the next ones
            if same and change.chain and history.chain(change.seq) == change.chain:
                return None if change.seq == view.seq else Since(since[::-1], whole=True)
            since.append(change)
    first_seq = since[-1].seq if since else loaded.seq + 1
    if same and not is_lost and loaded.seq >= view.seq and first_seq > view.seq:
        return None  # what was known was trimmed
    return Since(since[::-1], whole=first_seq == 1)
