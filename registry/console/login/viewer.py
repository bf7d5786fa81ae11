"""Knows who looks at a page, and decides what he may see and do, by the same code and rules as front ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from starlette.requests import Request

from ...auth.decide import decide_any
from ...auth.decision import MISSING, Decision, Reason
from ...auth.policy import Policy
from ...auth.rights import Need, Right
from ...errors import RegistryError
from ...events.by import CONSOLE, By
from ...events.changes import Change
from ...networks import parse_address
from ...operators.language import say
from .needs import Needs, needs_of_change
from .sessions import Session


class Refused(RegistryError):
    """The viewer lacks a right; the message says which."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(_refusal(decision))
        self.mend = decision.mend


def _refusal(decision: Decision) -> str:
    """``Decision.text`` in the language of the page."""
    user = decision.user
    return say(
        "{who} has no right {right} on {resource} from {address}: {why}", right=decision.right,
        who=say("nobody known (anonymous)") if user is None else say("user {name}", name=user.name),
        resource=decision.resource, address=decision.source or say("an unknown address"),
        why=say(MISSING[decision.reason]),
    )  # fmt: skip


class Viewer:
    """The viewer of a console without a login: its operator, who may do what the console's Redis login may."""

    name = ""

    def __init__(self, token: str) -> None:
        self.token = token  # proves that a page of this console made a form

    @property
    def rules(self) -> str:
        """The revision of the rules in force; empty: no rules."""
        return ""

    def decide(self, needs: Needs) -> Decision | None:
        """The decision on these needs, of which one is enough; None: everything is allowed."""
        return None

    def check(self, needs: Needs) -> None:
        """Raise Refused if this is not allowed."""
        decision = self.decide(needs) if needs else None
        if decision is not None and not decision.allowed:
            raise Refused(decision)

    def may(self, needs: Needs) -> bool:
        """Whether the viewer has one of these rights."""
        decision = self.decide(needs) if needs else None
        return decision is None or decision.allowed

    def check_may_give(self) -> None:
        """Raise Refused if the viewer lacks any right: only a user who may do everything may give rights to others."""
        for right in Right:
            self.check((Need(right),))

    def may_see(self, change: Change) -> bool:
        """Whether every part of a change may be shown."""
        return True

    def by(self) -> By | None:
        """The author of this viewer's changes; None: this process, and the user who runs it."""
        return None

    def is_on(self) -> bool:
        """Whether open pages may still be shown."""
        return True


class LoggedIn(Viewer):
    """A user who logged in.

    Args:
        policy: gives the rules in force. goes_on: whether a session is still valid. peer: host and port of the browser.
        via: host and port of the proxy that named the browser's address.
    """

    def __init__(
        self, session: Session, policy: Callable[[], Policy], goes_on: Callable[[Session], bool], *,
        peer: tuple[str, int] | None = None, via: tuple[str, int] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(session.token)
        self.name = session.user_name
        self.session = session
        self._policy = policy
        self._goes_on = goes_on
        self._peer, self._via = peer, via

    @property
    def rules(self) -> str:
        """The revision of the rules in force."""
        return str(self._policy().revision)

    def decide(self, needs: Needs) -> Decision:
        """The decision of the rules; a user who was removed may do nothing."""
        policy = self._policy()
        user = policy.users.get(self.name)
        if user is None:  # without a user the rules would decide on anonymous, who may read
            return Decision(False, Reason.DISABLED, needs[0].right)
        return decide_any(policy, user, needs, parse_address(self._peer[0]) if self._peer else None)

    def may_see(self, change: Change) -> bool:
        """Whether each part of a change may be shown."""
        return all(self.may(needs) for needs in needs_of_change(change))

    def by(self) -> By:
        """The user, and the address of his browser."""
        return By(CONSOLE, self.name, _shown(self._peer), via=_shown(self._via))

    def is_on(self) -> bool:
        """Whether the session is not over."""
        return self._goes_on(self.session)


def viewer_of(request: Request) -> Viewer:
    """The viewer of a request; the endpoint (app.py) has set it."""
    return cast(Viewer, request.state.viewer)


def _shown(address: tuple[str, int] | None) -> str | None:
    if address is None:
        return None
    host = str(parse_address(address[0]) or "unknown")  # a proxy may have passed on anything
    port = address[1]
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port}" if port else shown
