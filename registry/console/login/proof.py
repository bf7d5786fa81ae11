"""Finds the user for a name and a secret that were typed: the user with that AccessKey, if the secret is one of his.

A wrong name takes the same work, and gives the same answer, as a wrong secret: the answer does not show who is a user.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final, NamedTuple

from ...auth.policy import Policy
from ...auth.users import MOST_SECRETS, Secret, User

# Digests under a key of this process are compared, not texts: so the time does not show how long a secret is.
_KEY: Final = secrets.token_bytes(32)
_NOBODYS: Final = Secret("", secrets.token_urlsafe(32))


class Proven(NamedTuple):
    """A user, and the id of the secret that was given."""

    user: User
    secret_id: str


def prove(policy: Policy, name: str, given: str) -> Proven | None:
    """The user of this name whose secret was given; None: no user. Disabled users are found, too."""
    user = policy.by_access_key(name)
    known = user.secrets if user is not None else ()
    digest = _digest(given)
    found: Proven | None = None
    for number in range(MOST_SECRETS):
        secret = known[number] if number < len(known) else _NOBODYS
        fits = hmac.compare_digest(_digest(secret.key), digest)
        if fits and user is not None and secret is not _NOBODYS:
            found = Proven(user, secret.id)
    return found


def _digest(text: str) -> bytes:
    return hmac.digest(_KEY, text.encode("utf-8", "replace"), "sha256")
