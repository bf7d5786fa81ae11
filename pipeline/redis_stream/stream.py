"""Reads all entries of one stream of one namespace in Redis; a missing entry is an error (:class:`GapError`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from mqregistry.errors import RegistryError
from mqregistry.events import journal
from mqregistry.store.connection.blocking import BlockingStream, Entry, open_blocking_client
from mqregistry.store.connection.schema import check_schema
from mqregistry.store.connection.url import PASSWORD_VARIABLE, parse_url, without_password

from .entries import Page, entry_id, page, seq_of
from .ranges import OLDEST, UNKNOWN, Density, EntryId, Position, find_seq, parse_id

PAGE_ENTRIES: Final = 2000
_PAGE_BYTES: Final = 4 << 20  # about; an entry of 500 topics has 25 kB
_FIRST_PAGE: Final = 200
_SAMPLE: Final = 64
_TIMEOUT_MS: Final = 10_000
HOW_ON: Final = (
    "The lake stays right up to that entry. To go on from a new snapshot of the tables: "
    "'mqregistry pipeline run --accept-gap'"
)
OTHER_LAKE: Final = "The lake stays as it is; begin another lake: --lake DIR"


class GapError(RegistryError):
    """Redis lacks entries that the pipeline has not read yet, or has lost entries that the pipeline has read."""


class OtherPast(GapError):
    """Redis has other changes under numbers that the pipeline has read: no snapshot joins the two histories."""


class Login:
    """The URL and password of a Redis; its repr shows no password."""

    def __init__(self, url: str, password: str | None = None) -> None:
        self._url = url
        # read now: Spark's executors have another environment
        self._password = password or os.environ.get(PASSWORD_VARIABLE) or None
        parse_url(url, self._password)  # a wrong URL is an error now, not at the first connection

    def connect(self) -> Any:
        """Connect; stream commands of this client return what Redis sent, unparsed."""
        address = parse_url(self._url, self._password)
        return open_blocking_client(address, timeout_ms=_TIMEOUT_MS, raw=BlockingStream.RAW)

    def __repr__(self) -> str:
        return without_password(self._url)


class StreamHead(NamedTuple):
    """The state of a stream at one moment. ``first``: None when it is empty. ``max_deleted``: None before Redis 7."""

    epoch: str
    seq: int  # the namespace's last change, read a moment before the rest
    exists: bool
    first: Entry | None
    last_generated: EntryId
    max_deleted: EntryId | None

    @property
    def first_id(self) -> EntryId | None:
        """The id of the oldest entry."""
        return entry_id(self.first) if self.first else None


class Stream:
    """One stream of one namespace, read without a gap.

    Every method raises StoreUnavailable when Redis does not answer, and StoreError when its answer is an error or has a
    form that this project does not write.
    """

    def __init__(self, login: Login, namespace: str, name: journal.Stream) -> None:
        self.name = name
        self._commands = BlockingStream(login.connect, namespace, name, str(login))
        self.key = self._commands.key
        self._login = login
        self._namespace = namespace
        self._numbered = name == "changes"

    def close(self) -> None:
        """Close the connection to Redis."""
        self._commands.close()

    def epoch(self) -> tuple[str, int]:
        """The namespace's epoch and its last change.

        Raises:
            GapError: there is no such namespace.
            StoreError: the namespace has a schema that this release does not know.
        """
        meta = self._commands.meta()
        if meta is None:
            raise GapError(
                f"there is no namespace {self._namespace!r} in the Redis at {self._login}: no front end has served "
                "it yet, or Redis came back empty; is it another --namespace, or another --redis?"
            )
        epoch, seq, schema = meta
        check_schema(self._namespace, schema)
        return epoch, seq

    def head(self) -> StreamHead:
        """The state of the stream now."""
        epoch, seq = self.epoch()
        info = self._commands.info()
        if info is None:
            return StreamHead(epoch, seq, False, None, OLDEST, None)
        deleted = parse_id(info.max_deleted) if info.max_deleted else None
        return StreamHead(epoch, seq, True, info.first, parse_id(info.last_generated), deleted)

    def at_or_before(self, limit: EntryId) -> Position:
        """The last entry that is not after ``limit``; OLDEST when there is none."""
        unread, count, end = 0, 1, str(limit)
        at: EntryId | None = None
        while True:
            found = self._commands.range_back(end, count)
            for entry in found:
                at = at or entry_id(entry)
                if not self._numbered:
                    return Position(at)
                seq = seq_of(entry)
                if seq != UNKNOWN:
                    return Position(at, seq, unread)
                unread += 1
            if len(found) < count:
                return Position(at or OLDEST, UNKNOWN, unread)
            count, end = 100, f"({found[-1][0].decode()}"

    def last(self) -> Position:
        """The newest entry of the stream."""
        return self.at_or_before(EntryId(2**63 - 1, 0))

    def check(self, start: Position, epoch: str, head: StreamHead) -> None:
        """Check that the stream still holds every entry after ``start``.

        Raises:
            GapError: entries are missing.
        """
        here = f"{self.key} at {self._login}"
        if head.epoch != epoch:
            raise GapError(
                f"{here} is of another registry: its epoch is {head.epoch}, the pipeline was reading epoch {epoch} "
                f"up to {_shown(start)}; Redis came back empty, or this is a different Redis. "
                f"Run 'mqregistry pipeline run' again: it begins the history of {head.epoch} beside the old one"
            )
        if start.id == OLDEST and start.seq == UNKNOWN:
            return
        if not head.exists:
            if self._numbered and start.seq == head.seq:
                return
            raise GapError(f"{here} is gone: it was deleted after {_shown(start)}. {HOW_ON}")
        if head.last_generated < start.id:
            kind = OtherPast if self._numbered else GapError
            raise kind(
                f"{here} ends at {head.last_generated}, before {_shown(start)}, up to which it was read: Redis came "
                f"back with an earlier state. {OTHER_LAKE if self._numbered else HOW_ON}"
            )
        first = head.first_id
        if first is not None and first <= start.id:
            self._check_same(start, here)
            return
        if self._numbered and start.seq != UNKNOWN:
            seq = seq_of(head.first) if head.first else head.seq + 1
            if seq == UNKNOWN or 0 <= seq - start.seq - 1 <= start.unread:
                return  # if the first entry cannot be read, the reader finds out
            lost = f"{seq - start.seq - 1} changes"
        else:
            if start.id == OLDEST or start.id in (head.last_generated, head.max_deleted):
                return
            lost, seq = "entries", UNKNOWN
        begins = f"begins at {_shown(Position(first, seq))}" if first else f"is empty after {head.last_generated}"
        raise GapError(
            f"{here} was trimmed ahead of the pipeline: it was read up to {_shown(start)} and now {begins}, so {lost} "
            f"in between are lost. {HOW_ON}"
        )

    def _check_same(self, start: Position, here: str) -> None:
        """Check that the entry at ``start`` is the one that was read."""
        if not self._numbered or start.seq == UNKNOWN:
            return
        found = self.at_or_before(start.id)
        if found.id != start.id and found.seq >= start.seq:
            raise OtherPast(
                f"{here} has change {found.seq} at {found.id}, and was read up to {_shown(start)}: Redis came back "
                f"with an earlier state, and has had other changes since. {OTHER_LAKE}"
            )

    def after(self, start: Position, count: int, end: Position) -> Position:
        """An entry about ``count`` entries after ``start`` (in ``changes`` at most ``count``), or ``end``."""
        if start.id >= end.id:
            return end
        first = self._commands.range(f"({start.id}", str(end.id), 1)
        if not first:
            return end
        first_id = entry_id(first[0])
        if self._numbered:
            first_seq = seq_of(first[0]) if start.seq == UNKNOWN else start.seq + 1
            if UNKNOWN in (first_seq, end.seq):
                return end
            wanted = first_seq + count - 1
            if end.seq <= wanted:
                return end
            low = Position(EntryId(first_id.ms - 1, 0), first_seq - 1)
            found = find_seq(self.at_or_before, low, end, wanted, slack=count // 20)
            return found if found.id > start.id else self.at_or_before(first_id)
        density = self._density(first_id, end)
        return end if density.total <= count else self._moment(density.moment(count), start, end)

    def cut(self, start: Position, end: Position, parts: int, least: int) -> list[Position]:
        """The ends of at most ``parts`` ranges from ``start`` to ``end``, with about ``least`` entries or more each."""
        ends: list[Position] = []
        if self._numbered and UNKNOWN not in (start.seq, end.seq):
            total = end.seq - start.seq
            parts = max(1, min(parts, total // least))
            at = start
            for part in range(1, parts):
                at = self.after(at, start.seq + total * part // parts - at.seq, end)
                ends.append(at)
        else:
            first = self._commands.range(f"({start.id}", str(end.id), 1)
            density = self._density(entry_id(first[0]) if first else end.id, end)
            parts = max(1, min(parts, int(density.total) // least))
            for part in range(1, parts):
                ends.append(self._moment(density.moment(density.total * part / parts), start, end))
        return [*sorted({at for at in ends if start.id < at.id < end.id}), end]

    def _density(self, first: EntryId, end: Position) -> Density:
        def sample(begin: int, last: int) -> list[int]:
            return [entry_id(entry).ms for entry in self._commands.range(str(begin), str(last), _SAMPLE)]

        return Density(sample, first.ms, end.id.ms, size=_SAMPLE, most=self._commands.length())

    def _moment(self, ms: int, start: Position, end: Position) -> Position:
        found = self.at_or_before(EntryId(ms, 2**63 - 1))
        return found if start.id < found.id < end.id else end

    def read(self, start: Position, end: Position, epoch: str, first: EntryId | None = None) -> Iterator[Page]:
        """Every entry after ``start`` up to ``end`` (an entry), in pages.

        Args:
            first: the id that the first entry must have; None: any.

        Raises:
            GapError: entries were removed meanwhile, or the numbers of changes have a hole.
        """
        at, seq, unread = start.id, start.seq, start.unread
        count = _FIRST_PAGE
        while at < end.id:
            entries = self._commands.range(f"({at}", str(end.id), count)
            if not entries or (first is not None and entry_id(entries[0]) != first):
                break
            first = None
            found = page(self.name, entries)
            if seq == UNKNOWN:  # without numbers: nothing is lost if the stream still has the entry before these
                self.check(Position(at), epoch, self.head())
            at = entry_id(entries[-1])
            if self._numbered:
                seq, unread = self._follow(entries, found.seqs, seq, unread)
            size = sum(len(entry[1][-1]) for entry in entries) / len(entries)
            count = max(1, min(PAGE_ENTRIES, int(_PAGE_BYTES / (size + 1))))
            yield found
        self.check(Position(OLDEST), epoch, self.head())  # checks only the epoch
        if at != end.id:
            raise GapError(
                f"{self.key} at {self._login} lost entries while it was read from {start.id} to {end.id}: after {at} "
                f"{'there are none' if first is None else f'{first} is not there'}. {HOW_ON}"
            )

    def _follow(self, entries: list[Entry], seqs: list[int], seq: int, unread: int) -> tuple[int, int]:
        """Check that the numbers go on after ``seq`` and ``unread`` unreadable changes; returns both, updated."""
        if seq != UNKNOWN and seqs == list(range(seq + 1, seq + 1 + len(seqs))):
            return seqs[-1], 0
        for entry, number in zip(entries, seqs, strict=True):
            if number == UNKNOWN:
                unread += 1
                continue
            if seq != UNKNOWN and not 0 <= number - seq - 1 <= unread:
                where = f"{self.key} at {self._login}"
                follows = f"entry {entry[0].decode()} is change {number}, the one before is {seq}"
                if number <= seq:
                    raise OtherPast(
                        f"{where} holds changes twice, or out of order: {follows}. Redis came back with an earlier "
                        f"state, and has had other changes since. {OTHER_LAKE}"
                    )
                raise GapError(f"{where} holds changes without {seq + 1} to {number - 1}: {follows}. {HOW_ON}")
            seq, unread = number, 0
        return seq, unread


def _shown(position: Position) -> str:
    number = f" (change {position.seq})" if position.seq != UNKNOWN else ""
    return f"{position.id}{number}"
