"""Says why a request is refused: the error text for the peer, and the command that would allow the request."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Final, NamedTuple, Self

from ...auth.decision import Decision
from ...auth.refused import MOST_CHARACTERS, MOST_RESOURCES, RefusedKind
from ...auth.rights import Need
from ...auth.users import ANONYMOUS
from ...names import printable
from .caller import UNKNOWN_ACCESS_KEY, Caller, How, Origin, Unproven

# The reason of a decision that failed.
UNDECIDED: Final = "undecided"

_TEXT_CHARS: Final = 1000


class Refusal(NamedTuple):
    """Why a request is refused."""

    kind: RefusedKind  # requests of one kind are counted together
    how: How  # how the sender is known
    source: str  # the client's address
    words: Callable[[], tuple[str, str]]  # makes text and command: only when needed, which is seldom in mode observe

    @property
    def text(self) -> str:
        """The text of the answer to the peer."""
        text = self.words()[0]
        return f"no permission: {printable(text[:_TEXT_CHARS])}{'...' if len(text) > _TEXT_CHARS else ''}"

    @property
    def mend(self) -> str:
        """The command that would allow the request; "" = no command would."""
        mend = self.words()[1]
        # never propose a command that is cut off, or that has control characters
        return mend if len(mend) <= _TEXT_CHARS and printable(mend) == mend else ""

    @classmethod
    def of_decision(cls, decision: Decision, how: How, origin: Origin) -> Self:
        """Make a refusal of a decision that denies."""
        return cls(
            RefusedKind.of(decision), how, origin.source,
            lambda: (f"{decision.text}{_proxied(origin)}", decision.mend),
        )  # fmt: skip

    @classmethod
    def of_signature(cls, unproven: Unproven, origin: Origin) -> Self:
        """Make a refusal of a wrong signature."""
        name = unproven.access_key[:MOST_CHARACTERS]
        missing, mend = unproven.why or "the signature is by none of this user's secrets", ""
        if unproven.reason == UNKNOWN_ACCESS_KEY:
            missing, mend = "no user has this AccessKey", f"mqregistry auth user add {shlex.quote(name)}"
        text = f"the AccessKey {name} from {origin.address} proves nothing: {missing}"
        kind = RefusedKind.unproved(name, unproven.reason)
        return cls(kind, How.SIGNATURE, origin.source, lambda: (text, mend))

    @classmethod
    def of_caller(
        cls, reason: str, caller: Caller, need: Need, origin: Origin, missing: str,
        mend: Callable[[], str] = str,
    ) -> Self:  # fmt: skip
        """Make a refusal of a request whose sender has the right, but which fails another check.

        Args:
            reason: the failed check. missing: what the check asks for. mend: makes the command that would allow it.
        """
        resources = tuple(str(one)[:MOST_CHARACTERS] for one in need.resources[:MOST_RESOURCES])
        kind = RefusedKind(caller.name or ANONYMOUS, need.right, resources, reason)

        def words() -> tuple[str, str]:
            who = "nobody known (anonymous)" if caller.user is None else f"user {caller.name}"
            on = " ".join(resources) or "*"
            text = f"{who} has no right {need.right} on {on} from {origin.address}: {missing}{_proxied(origin)}"
            return text, mend()

        return cls(kind, caller.how, origin.source, words)

    @classmethod
    def undecided(cls, origin: Origin, why: str) -> Self:
        """Make a refusal of a decision that failed."""
        kind = RefusedKind(ANONYMOUS, None, (), UNDECIDED)
        return cls(kind, How.ANONYMOUS, origin.source, lambda: (f"the decision failed: {why}", ""))


def _proxied(origin: Origin) -> str:
    """Say that the client's address is not known because its PROXY header is not believed."""
    if origin.via and not origin.source:
        return f" (the PROXY header of {origin.via} does not count: proxyProtocolFrom does not name it)"
    return ""
