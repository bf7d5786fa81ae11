"""A request that is refused, or would be: what the peer is told, and what an operator sees."""

from __future__ import annotations

import shlex
from typing import Final, NamedTuple, Self

from ...auth.decision import Decision
from ...auth.requests import Need
from ...auth.users import User
from ...names import printable
from .caller import UNKNOWN_ACCESS_KEY, WRONG_SIGNATURE, Caller, How, Origin, Unproven

# Reasons besides those of a decision, and of a signature that does not fit.
NEEDS_TLS: Final = "needs_tls"
BROKER_ADDR: Final = "broker_addr"
NOT_OWNER: Final = "not_owner"
UNDECIDED: Final = "undecided"

REASONS: Final = (UNKNOWN_ACCESS_KEY, WRONG_SIGNATURE, NEEDS_TLS, BROKER_ADDR, NOT_OWNER, UNDECIDED)

# Names come from the peer, and may have megabytes.
_NAME_CHARS: Final = 255
_TEXT_CHARS: Final = 1000


class Refusal(NamedTuple):
    """Why a request is refused.

    reason: one word; also a label of metrics. user: the name that it is known by, or claims; "" = none.
    right, resource: what it needs; ``*`` = on everything. address: of the client.
    text: what the peer is told. mend: the command that would allow it; "" = none would.
    """

    reason: str
    user: str
    how: How
    right: str
    resource: str
    address: str
    text: str
    mend: str = ""

    @classmethod
    def of_decision(cls, decision: Decision, how: How, origin: Origin) -> Self:
        """What the rules refuse."""
        user = "" if decision.user is None else decision.user.name
        text = f"{decision.text}{_proxied(origin)}"
        return cls._bounded(
            decision.reason, user, how, decision.right, decision.resource, origin, text, decision.mend
        )  # fmt: skip

    @classmethod
    def of_signature(cls, unproven: Unproven, need: Need | None, origin: Origin) -> Self:
        """A signature that does not fit; whether the rules would allow the request is not looked at."""
        name = unproven.access_key[:_NAME_CHARS]
        if unproven.reason == UNKNOWN_ACCESS_KEY:
            missing, mend = "no user has this AccessKey", f"user add {shlex.quote(name)}"
        else:
            missing, mend = "the signature is by none of this user's secrets", f"secret list {shlex.quote(name)}"
        right, resource = _shown(need)
        text = f"the AccessKey {name} from {origin.address} proves nothing: {missing}"
        return cls._bounded(
            unproven.reason, name, How.SIGNATURE, right, resource, origin, text, f"mqregistry auth {mend}"
        )  # fmt: skip

    @classmethod
    def of_caller(
        cls, reason: str, caller: Caller, need: Need, origin: Origin, missing: str, mend: str = ""
    ) -> Self:  # fmt: skip
        """What is refused although the rules allow it."""
        who = "nobody known (anonymous)" if caller.user is None else f"user {caller.name}"
        right, resource = _shown(need)
        text = f"{who} has no right {right} on {resource} from {origin.address}: {missing}{_proxied(origin)}"
        return cls._bounded(reason, caller.name, caller.how, right, resource, origin, text, mend)

    @classmethod
    def undecided(cls, origin: Origin, why: str) -> Self:
        """A decision that failed."""
        return cls._bounded(UNDECIDED, "", How.ANONYMOUS, "", "*", origin, f"the decision failed: {why}", "")

    @classmethod
    def _bounded(
        cls, reason: str, user: str, how: How, right: str, resource: str, origin: Origin, text: str, mend: str
    ) -> Self:  # fmt: skip
        # a command that is cut off, or that acts on a terminal, is proposed to nobody
        if len(mend) > _TEXT_CHARS or printable(mend) != mend:
            mend = ""
        resource = printable(resource[:_TEXT_CHARS])
        text = printable(text[:_TEXT_CHARS]) + ("..." if len(text) > _TEXT_CHARS else "")
        return cls(reason, user, how, right, resource, origin.address, f"no permission: {text}", mend)


def from_here(user: User, *addresses: str) -> str:
    """The command that binds a user to these addresses, besides those that it is bound to."""
    networks = dict.fromkeys((*user.sources, *(address or "ADDRESS" for address in addresses)))
    return f"mqregistry auth user set {shlex.quote(user.name)}" + "".join(
        f" --from {shlex.quote(network)}" for network in networks
    )


def _shown(need: Need | None) -> tuple[str, str]:
    if need is None:
        return "", "*"
    return need.right, " ".join(map(str, need.resources[:10])) or "*"


def _proxied(origin: Origin) -> str:
    """Why the address is not known although the connection names one."""
    if origin.via and not origin.source:
        return f" (the PROXY header of {origin.via} does not count: proxyProtocolFrom does not name it)"
    return ""
