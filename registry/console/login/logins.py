"""Logs users in and out: cookies, sessions, failed tries; open pages load again when rules or sessions change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ...auth.decision import Reason
from ...auth.policy import Policy
from ...auth.users import User
from ...names import printable
from ...networks import Address, Networks, parse_address
from ...operators.language import in_english, marked, say
from ...store.store import Store
from ..state import State
from .proof import Proven, prove
from .rules import Rules
from .sessions import Sessions
from .tries import Tries
from .viewer import LoggedIn

logger = logging.getLogger(__name__)

_COOKIE: Final = "mqconsole"
_SECURE: Final = "__Host-"  # browsers keep such a cookie only from https, for this very host
_WRONG: Final = marked("The name or the secret is not right.")


class LoginAnswer(NamedTuple):
    """The answer to a try to log in."""

    opened: Sequence[tuple[Logins, str]] = ()  # for each new session: its namespace's logins, and its cookie's value
    text: str = ""  # why there is no session, as the page says it
    wait_s: float = 0.0  # how long until this address may try again


class Logins:
    """The login of one namespace of a console.

    ``all``: the logins of all namespaces of this console. A secret is tried in each of them, so that the answer does
    not show which namespaces exist; failed tries are counted for all of them together.

    Args:
        root_path: the path of the cookie over HTTP; over HTTPS the cookie is for the whole host.
        port: the port of this console. It is in the cookie's name: other consoles on this machine have other cookies.
    """

    def __init__(self, store: Store, state: State, *, root_path: str = "", port: int = 0) -> None:
        self.rules = Rules(store, self._use)
        self.sessions = Sessions()
        self.tries = Tries()
        self._guesses = Tries()  # tries that were wrong here, and right in another namespace
        self.port = port
        self.namespace = store.namespace
        self.all: Sequence[Logins] = (self,)
        self._state = state
        self._root_path = root_path

    @staticmethod
    def join(logins: Sequence[Logins]) -> None:
        """Make the namespaces of one console share their login."""
        for one in logins:
            one.all, one.tries = logins, logins[0].tries

    def viewer(self, request: Request) -> LoggedIn | None:
        """The viewer who sends a request; None: no session."""
        used = "hx-request" not in request.headers and request.scope["path"] != "/events"
        for name in (self._cookie(True), self._cookie(False)):
            value = request.cookies.get(name)
            session = self.sessions.find(value, self.rules.policy, used=used) if value else None
            if session is not None:
                return LoggedIn(
                    session, lambda: self.rules.policy, lambda one: self.sessions.is_on(one, self.rules.policy),
                    peer=request.scope.get("client"), via=request.scope.get("via"),
                )  # fmt: skip
        return None

    async def log_in(self, request: Request, name: str, secret: str) -> LoginAnswer:
        """Try a name and a secret. The log has the name only if a user has it, and never the secret."""
        source = source_of(request)
        if not self.tries.wait_s(source):
            await asyncio.gather(*(one.rules.look() for one in self.all))  # so a new secret works at once
        wait_s = self.tries.wait_s(source)  # no await until failed(): simultaneous tries are all counted
        if wait_s > 0:
            logger.warning("too many wrong logins from %s: none is checked for %d s", _where(request), wait_s)
            return LoginAnswer(text=say("Too many tries from your address were wrong."), wait_s=wait_s)
        is_user = any(name in one.rules.policy.users for one in self.all)
        slow_s = self.tries.slow_s(source, name) if is_user else 0.0
        if slow_s:
            logger.warning("too many wrong logins as user %s: those from new addresses wait", printable(name))
            self.tries.failed(source, name)  # before the wait: simultaneous tries are all counted
            await asyncio.sleep(slow_s)
        proven = [(one, one._prove(source, name, secret)) for one in self.all]
        if not any(found for _, found in proven):
            if not slow_s:
                self.tries.failed(source, name if is_user else "")
            who = f"user {printable(name)}" if is_user else "an unknown user"
            logger.warning("a wrong login as %s from %s", who, _where(request))
            return LoginAnswer(text=say(_WRONG))
        opened, refused = [], ""
        for one, found in proven:
            if found is None:
                if name in one.rules.policy.users:
                    one._guesses.failed(source)
                continue
            self.tries.let_in(source, found.user.name)
            with in_english():
                why = _why_out(found.user, source)
            if why:
                logger.warning("user %s is not let in from %s: %s", printable(name), _where(request), why)
                refused = refused or say("You are not let in: {why}.", why=_why_out(found.user, source))
                continue
            before = one.viewer(request)
            if before is not None:
                one.sessions.end(before.session)
            opened.append((one, one.sessions.open(found.user.name, found.secret_id)[0]))
            logger.info("user %s logged in from %s%s", printable(name), _where(request), one._to())
        return LoginAnswer(opened, "" if opened else refused)

    def _prove(self, source: Address | None, name: str, secret: str) -> Proven | None:
        """The user of this namespace with this name and secret; None: there is none.

        A secret that is wrong here and right in another namespace is no failed try. So an administrator of the other
        namespace could make users there to guess secrets of users here. Therefore, after too many tries of this kind
        from an address, every try from it fails here for a while.
        """
        return None if self._guesses.wait_s(source) else prove(self.rules.policy, name, secret)

    def log_out(self, request: Request) -> None:
        """End the session of a request."""
        viewer = self.viewer(request)
        if viewer is not None:
            self.sessions.end(viewer.session)
            self._tell()
            logger.info("user %s logged out from %s%s", printable(viewer.name), _where(request), self._to())

    def _to(self) -> str:
        """The namespace for the log, if the console has several."""
        return f" (namespace {self.namespace})" if len(self.all) > 1 else ""

    def give(self, request: Request, response: Response, value: str) -> None:
        """Put the session into a cookie that no script can read, and that browsers do not send from other sites."""
        secure = request.headers.get("origin", "").startswith("https://")  # to this console, or to a proxy before it
        response.set_cookie(self._cookie(secure), value, **self._about(secure))

    def take(self, response: Response) -> None:
        """Delete the cookie in the browser."""
        for secure in (True, False):
            response.delete_cookie(self._cookie(secure), **self._about(secure))

    def _cookie(self, secure: bool) -> str:
        of = f"-{self.namespace}" if len(self.all) > 1 else ""
        return f"{_SECURE if secure else ''}{_COOKIE}-{self.port}{of}"

    def _about(self, secure: bool) -> dict[str, Any]:
        path = "/" if secure else self._root_path or "/"
        return {"path": path, "secure": secure, "httponly": True, "samesite": "strict"}

    def _use(self, policy: Policy) -> None:
        for session in self.sessions.review(policy):
            logger.info("the session of user %s is over: the rules changed", printable(session.user_name))
        self._tell()

    def _tell(self) -> None:
        """Make open pages load again: their users may have lost the right to see them."""
        self._state.wake_listeners()


def source_of(request: Request) -> Address | None:
    """The address of a browser, as rules see it."""
    client = request.scope.get("client")
    return parse_address(client[0]) if client else None


def _where(request: Request) -> str:
    return str(source_of(request) or "an unknown address")


def _why_out(user: User, source: Address | None) -> str:
    """Why a user may not log in from this address; "" if he may."""
    if not user.enabled:
        return say("the user is disabled ({code})", code=Reason.DISABLED)
    if user.sources and not Networks(user.sources).has(source):
        at = source or say("an unknown address")
        return say("the user may do nothing from {address} ({code})", address=at, code=Reason.USER_SOURCE)
    return ""
