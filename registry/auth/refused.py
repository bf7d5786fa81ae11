"""What is noted of a request that was refused, or would have been if the mode were enforce. No secret and no body."""

from __future__ import annotations

from typing import Final

import msgspec

from .decision import Decision
from .policy import Mode
from .rights import Kind, Resource, Right
from .users import ANONYMOUS

MOST_CHARACTERS: Final = 255
"""Of a name in a note: it may come from somebody who has proved nothing."""
MOST_RESOURCES: Final = 10
MANY_NAMES: Final = "many_names"
"""The reason of one row that stands for all requests with made-up names beyond some of each address."""

# Reasons besides those of a decision: the rules allow the request.
NEEDS_TLS: Final = "needs_tls"
BROKER_ADDR: Final = "broker_addr"
NOT_OWNER: Final = "not_owner"


class RefusedKind(msgspec.Struct, frozen=True):
    """Refused requests that are counted together."""

    user: str  # as it was proved, or, where the proof failed, as the request claims
    # right, resources: as decided on; right None: it was not proved who asks, so nothing was decided
    right: Right | None
    resources: tuple[str, ...]
    reason: str  # a Reason, or why the proof failed

    @classmethod
    def of(cls, decision: Decision) -> RefusedKind:
        """The kind of a request that the rules refuse."""
        resources = tuple(str(one)[:MOST_CHARACTERS] for one in decision.refused[:MOST_RESOURCES])
        return cls(decision.user_name, decision.right, resources, decision.reason)

    @classmethod
    def unproved(cls, claimed: str, reason: str) -> RefusedKind:
        """The kind of a request whose signature or certificate proves nobody."""
        return cls(claimed[:MOST_CHARACTERS], None, (), reason)

    @classmethod
    def of_many(cls, kind: RefusedKind) -> RefusedKind:
        """The kind that stands for all those with made-up names that are not counted one by one."""
        return cls(ANONYMOUS, kind.right, (), MANY_NAMES)

    def parsed_resources(self) -> tuple[Resource, ...]:
        """The resources, to decide again."""
        pairs = (text.partition(":") for text in self.resources)
        return tuple(Resource(Kind(kind), name) for kind, _, name in pairs)


class Last(msgspec.Struct, frozen=True):
    """The last request of a kind: the address that it came from, and how the user showed who he is."""

    source: str = ""
    how: str = ""


class RefusedSummary(msgspec.Struct, frozen=True):
    """All requests of a kind until now, in a namespace."""

    count: int
    first_ms: int
    last_ms: int
    mode: Mode
    last: Last
    kind: RefusedKind


class RefusedEntry(msgspec.Struct, frozen=True):
    """Some requests of a kind, as one front end reported them: an entry of the stream."""

    ms: int
    front_end: str
    mode: Mode
    count: int
    kind: RefusedKind
    last: Last
