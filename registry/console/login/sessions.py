"""Keeps who is logged in: sessions in the memory of this process, each known by a random value in a cookie.

Only the digest of the value is kept. A restarted console knows no session: everybody must log in again.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Final

from ...auth.policy import Policy

# A session ends when its user did nothing for this time. Automatic refreshes of a page do not count.
IDLE_S: Final = 3600.0
LONGEST_S: Final = 12 * 3600.0  # a session ends after this time in any case
MOST_OF_A_USER: Final = 20
MOST: Final = 2000


class Session:
    """One login of one user in one browser."""

    __slots__ = ("over", "secret_id", "since_s", "token", "used_s", "user_name")

    def __init__(self, user_name: str, secret_id: str, now_s: float) -> None:
        self.user_name = user_name
        self.secret_id = secret_id  # the id of the secret that the user logged in with
        self.since_s = self.used_s = now_s
        self.token = secrets.token_urlsafe(32)  # proves that a page of this session made a form
        self.over = False


class Sessions:
    """All sessions of this console."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: dict[bytes, Session] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, user_name: str, secret_id: str) -> tuple[str, Session]:
        """Begin a session; returns the value for the cookie. If there are too many, the oldest end."""
        value = secrets.token_urlsafe(32)
        session = Session(user_name, secret_id, self._clock())
        self._sessions[_digest(value)] = session
        of_user = [one for one in self._sessions.values() if one.user_name == user_name]
        for one in of_user[:-MOST_OF_A_USER]:
            self.end(one)
        while len(self._sessions) > MOST:
            self.end(next(iter(self._sessions.values())))
        return value, session

    def find(self, value: str, policy: Policy, *, used: bool) -> Session | None:
        """The session of a cookie; None: there is none, or it is over.

        ``used``: the user did something, so the idle time begins again.
        """
        session = self._sessions.get(_digest(value))
        if session is None or not self.is_on(session, policy):
            return None
        if used:
            session.used_s = self._clock()
        return session

    def is_on(self, session: Session, policy: Policy) -> bool:
        """Whether a session is still valid; an invalid one is ended."""
        if not session.over and self._has_ended(session, policy):
            self.end(session)
        return not session.over

    def review(self, policy: Policy) -> list[Session]:
        """End the sessions that are over under these rules, and return them."""
        gone = [session for session in self._sessions.values() if self._has_ended(session, policy)]
        for session in gone:
            self.end(session)
        return gone

    def end(self, session: Session) -> None:
        """End a session: its cookie is no longer valid."""
        session.over = True
        for key, one in self._sessions.items():
            if one is session:
                del self._sessions[key]
                return

    def _has_ended(self, session: Session, policy: Policy) -> bool:
        """Whether the user or the secret is gone, or the session is too old."""
        now, user = self._clock(), policy.users.get(session.user_name)
        if user is None or not user.enabled or all(secret.id != session.secret_id for secret in user.secrets):
            return True
        return now - session.since_s > LONGEST_S or now - session.used_s > IDLE_S


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "replace")).digest()
