"""Reports of requests that were refused, or that mode enforce would refuse; without secrets and bodies."""

from __future__ import annotations

from typing import Final

import msgspec

from .decision import Decision
from .policy import Mode
from .rights import Kind, Resource, Right
from .users import ANONYMOUS

MOST_CHARACTERS: Final = 255
"""The longest name in a report: anybody may send any name without proof."""
MOST_RESOURCES: Final = 10
MANY_NAMES: Final = "many_names"
"""The reason of the kind that counts requests with invented names together, after the first few of each address."""

# Reasons besides :class:`Reason`: the rules allow these requests.
NEEDS_TLS: Final = "needs_tls"
BROKER_ADDR: Final = "broker_addr"
NOT_OWNER: Final = "not_owner"


class RefusedKind(msgspec.Struct, frozen=True):
    """Refused requests that are counted together."""

    user: str  # the proved user; if the proof failed, the claimed user
    # right, resources: as in the decision; right None: the proof failed, so there was no decision
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
        """The kind of a request whose signature or certificate proves no user."""
        return cls(claimed[:MOST_CHARACTERS], None, (), reason)

    @classmethod
    def of_many(cls, kind: RefusedKind) -> RefusedKind:
        """The kind that counts requests with invented names together (MANY_NAMES)."""
        return cls(ANONYMOUS, kind.right, (), MANY_NAMES)

    def parsed_resources(self) -> tuple[Resource, ...]:
        """The resources as values, for a new decision."""
        pairs = (text.partition(":") for text in self.resources)
        return tuple(Resource(Kind(kind), name) for kind, _, name in pairs)


class Last(msgspec.Struct, frozen=True):
    """The last request of a kind: its address, and how the user was proved."""

    source: str = ""
    how: str = ""


class RefusedSummary(msgspec.Struct, frozen=True):
    """All requests of a kind until now."""

    count: int
    first_ms: int
    last_ms: int
    mode: Mode
    last: Last
    kind: RefusedKind


class RefusedEntry(msgspec.Struct, frozen=True):
    """An entry of the stream refusals: requests of a kind that one front end reported together."""

    ms: int
    front_end: str
    mode: Mode
    count: int
    kind: RefusedKind
    last: Last
