"""Bronze's commits: a batch and the position in the stream after it are one write to Delta's log."""

from __future__ import annotations

from collections.abc import Iterable

from mqregistry.events.journal import Stream

from ..lake.files import File
from ..lake.lake import NONE, Lake, State, owner
from ..redis_stream.ranges import EntryId, Position
from .entries import BronzeBatch, Part, whole_batch


def _app(stream: Stream, namespace: str, epoch: str) -> str:
    return f"bronze/{stream}/{namespace}/{epoch}"


def last_batch(lake: Lake, stream: Stream, namespace: str, epoch: str) -> tuple[int, Position | None]:
    """The number of a stream's last batch, and the last entry that it brought; NONE and None: nothing yet."""
    app = _app(stream, namespace, epoch)
    names = (app, f"{app}#ms", f"{app}#n", f"{app}#seq", f"{app}#unread")
    number, ms, n, seq, unread = lake.table(f"bronze/{stream}").versions(*names)
    return number, None if number == NONE else Position(EntryId(ms, n), seq, unread)


def last_position(lake: Lake, stream: Stream, namespace: str, epoch: str) -> Position | None:
    """The last entry of a stream that bronze has; None: nothing yet."""
    return last_batch(lake, stream, namespace, epoch)[1]


def commit_batch(
    lake: Lake, stream: Stream, namespace: str, epoch: str, number: int, parts: Iterable[Part], before: Position
) -> BronzeBatch:
    """Let the parts of a batch count.

    Args:
        before: the position after batch ``number - 1``, which these parts follow.

    Raises:
        GapError: a change is missing in it.
        OtherWriter: another run committed a batch of this number.
    """
    parts = list(parts)
    batch = whole_batch(stream, parts, before)
    bad_files = [file for part in parts for file in part.bad_files]
    if bad_files:  # first, and in the place of what a run wrote that was killed here
        place = {**owner(namespace, epoch), "stream": stream, "batch": str(number)}
        table = lake.table("quarantine")
        app = f"quarantine/{stream}/{namespace}/{epoch}"
        table.commit(bad_files, app, table.version(app) + 1, replaced=place)
    _commit(lake, stream, namespace, epoch, number, batch.end, [file for part in parts for file in part.files])
    return batch


def commit_again(
    lake: Lake, stream: Stream, namespace: str, epoch: str, number: int, end: Position, part: Part
) -> None:
    """Let count what was read again of quarantine, as a batch of its own; the rest takes the place of all there.

    Args:
        end: the position in the stream, which goes on where it was.

    Raises:
        OtherWriter: another run committed a batch of this number.
    """
    _commit(lake, stream, namespace, epoch, number, end, part.files)
    table, app = lake.table("quarantine"), f"quarantine/{stream}/{namespace}/{epoch}"
    place = {**owner(namespace, epoch), "stream": stream}
    table.commit(part.bad_files, app, table.version(app) + 1, replaced=place)


def restart(
    lake: Lake, stream: Stream, namespace: str, epoch: str, at: Position, *, first_ms: int | None = None
) -> None:
    """Let the next batch begin after ``at``, whatever was read before: after a gap that was accepted.

    Args:
        first_ms: when the first entry behind the gap was written; what was before it and after bronze's last entry is
            remembered as lost.
    """
    number, before = last_batch(lake, stream, namespace, epoch)
    if before is not None and first_ms is not None and before.id.ms < first_ms:
        known, part = lost(lake, stream, namespace, epoch), f"lost_{stream}"
        if (before.id.ms, first_ms) not in known:
            state = lake.state(part, namespace, epoch)
            content = {"lost": [*known, (before.id.ms, first_ms)]}
            lake.set_state(part, namespace, epoch, State(state.number + 1 if state else 0, content))
    _commit(lake, stream, namespace, epoch, number + 1, at, [])


def lost(lake: Lake, stream: Stream, namespace: str, epoch: str) -> list[tuple[int, int]]:
    """From when to when (ms) entries of a stream are missing in bronze, because a gap was accepted."""
    state = lake.state(f"lost_{stream}", namespace, epoch)
    return [(begin, end) for begin, end in state.content["lost"]] if state else []


def _commit(
    lake: Lake, stream: Stream, namespace: str, epoch: str, number: int, end: Position, files: list[File]
) -> None:
    app = _app(stream, namespace, epoch)
    more = {f"{app}#ms": end.id.ms, f"{app}#n": end.id.n, f"{app}#seq": end.seq, f"{app}#unread": end.unread}
    lake.table(f"bronze/{stream}").commit(files, app, number, more=more)
