"""Reads and changes the policy of a namespace: users, rules, secrets and the mode.

The pure functions of :mod:`mqregistry.auth.changes` compute the new policy and check it as a whole. The script stores
it only if Redis still has the old revision, so a concurrent change cannot make the check wrong.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ...auth.policy import Mode, Policy
from ...auth.users import Secret, encode_user
from ...errors import StoreUnavailable
from .. import keys
from ..store import Store

_CHANGED: Final = "changed:"
_ATTEMPTS: Final = 20
_PAIRS_PER_CALL: Final = 500
_KEY_CHARACTERS: Final = string.ascii_letters + string.digits
_KEY_LENGTH: Final = 32  # 190 bits


def new_secret(now_ms: int, key: str | None = None) -> Secret:
    """A secret with a random key, or with this key."""
    chosen = key if key is not None else "".join(secrets.choice(_KEY_CHARACTERS) for _ in range(_KEY_LENGTH))
    return Secret(secrets.token_hex(6), chosen, now_ms)


class PolicyStore:
    """The policy of one namespace."""

    def __init__(self, store: Store) -> None:
        self._read_plain = store.read
        self._call = store.call
        self._namespace = store.namespace

    async def read(self) -> Policy:
        """The policy now; BadPolicy: a later release wrote it in a form that this release cannot read."""
        return Policy.decode(*await self._read())

    async def is_enforced(self) -> bool:
        """Whether the mode is enforce; also for a login without the right to read the policy."""
        (mode,) = await self._read_plain(("HGET", keys.meta(self._namespace), "auth_mode"))
        return bool(mode == b"enforce")

    async def revision(self) -> int:
        """The revision of the policy in Redis; also for a login without the right to read the policy."""
        (revision,) = await self._read_plain(("HGET", keys.meta(self._namespace), "auth_revision"))
        return int(revision or 0)

    async def change(self, change: Callable[[Policy], Policy]) -> Policy:
        """Change the policy, and return the new policy.

        Args:
            change: computes the new policy from the old, like the functions of :mod:`mqregistry.auth.changes`. It is
                called again if somebody else changed the policy meanwhile.

        Raises:
            RefusedChange: ``change`` refused; Redis is unchanged.
        """
        for _ in range(_ATTEMPTS):
            before = await self.read()
            after = change(before)
            users = {name: encode_user(user) for name, user in after.users.items() if before.users.get(name) != user}
            users |= dict.fromkeys(before.users.keys() - after.users.keys(), b"")
            if after.mode is before.mode and not users:
                return before
            revision = await self._send(before.revision, after.mode, users)
            if revision is not None:
                changed = {**before.changed, **dict.fromkeys(users, revision)}
                if after.mode is not before.mode:
                    changed[""] = revision
                return Policy(after.mode, revision, after.users.values(), changed, before.forgotten)
        raise StoreUnavailable(
            f"namespace {self._namespace!r}: somebody else changes users all the time; nothing was changed, try again"
        )

    async def switch_off(self) -> int:
        """Set the mode off, even if this release cannot read the rules; returns the revision."""
        for _ in range(_ATTEMPTS):
            mode, revision, *_ = await self._read()
            if mode == Mode.OFF:
                return revision
            new_revision = await self._send(revision, Mode.OFF, {})
            if new_revision is not None:
                return new_revision
        raise StoreUnavailable(f"namespace {self._namespace!r}: somebody else changes users all the time; try again")

    async def restore(self, policy: Policy) -> int:
        """Write back the changes of this policy that Redis lost: for each user, and for the mode, the last change wins.

        Returns:
            the revision in Redis now; it is not the policy's revision if Redis has changes that this policy lacks.
        """
        users = {name: encode_user(user) for name, user in policy.users.items()}
        names = policy.users.keys() | policy.changed.keys() - {""}
        flat = [part for name in sorted(names) for part in (name, users.get(name, b""), policy.changed.get(name, 0))]
        mode_changed = policy.changed.get("", 0)
        return int((await self._call("restore_auth", policy.revision, policy.mode.value, mode_changed, *flat))[1])

    async def note_used(self, used: Iterable[tuple[str, str]]) -> None:
        """Store that secrets were used just now: (user, id of the secret) each."""
        flat = [part for pair in used for part in pair]
        for first in range(0, len(flat), _PAIRS_PER_CALL * 2):
            await self._call("note_auth_used", *flat[first : first + _PAIRS_PER_CALL * 2])

    async def _read(self) -> tuple[str, int, dict[str, bytes], dict[str, int], int]:
        """The arguments of :meth:`Policy.decode`."""
        revision, mode, users, fields = await self._call("read_auth")
        kept = _by_name(fields)
        changed = {name.removeprefix(_CHANGED): int(at) for name, at in kept.items() if name.startswith(_CHANGED)}
        return mode.decode(), int(revision), _by_name(users), changed, int(kept.get("forgotten", -1))

    async def _send(self, revision: int, mode: Mode, users: Mapping[str, bytes]) -> int | None:
        """Send a change; returns the new revision. None: ``revision`` is no longer the one in Redis.

        ``users``: changed user -> its JSON, b"": it was removed.
        """
        flat: list[Any] = [part for pair in users.items() for part in pair]
        reply = await self._call("change_auth", revision, mode.value, *flat)
        return int(reply[1]) if reply[0] == b"OK" else None


def _by_name(flat: Sequence[bytes]) -> dict[str, bytes]:
    return dict(zip((name.decode() for name in flat[::2]), flat[1::2], strict=True))
