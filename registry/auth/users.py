"""Users with their rules and secrets, as values and as JSON.

JSON with a member that this release does not know is refused, because the member may restrict something.
"""

from __future__ import annotations

import enum
from typing import Final, NoReturn

import msgspec

from ..errors import RegistryError
from .rights import ROLES, WRITING, Kind, Right, Role

ANONYMOUS: Final = "anonymous"
"""The name for senders that prove no user. A user of this name has only rules that deny reading rights."""
MOST_SECRETS: Final = 2
"""The most secrets of a user: an old one and a new one, while programs change to the new one."""


class Effect(enum.StrEnum):
    """The effect of a rule. A rule that denies wins over all rules that allow."""

    ALLOW = "allow"
    DENY = "deny"


class BadPolicy(RegistryError):
    """Redis has a policy that this release cannot read."""


class Secret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A secret key that a user signs with."""

    id: str  # its public name, random and unique
    key: str  # the secret itself, which is never shown
    created_ms: int = 0

    def __repr__(self) -> str:
        return f"Secret(id={self.id!r}, key=..., created_ms={self.created_ms})"


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"sources": "from"}):
    """Allows or denies rights on the resources of one kind whose name matches a pattern."""

    effect: Effect
    rights: tuple[Right, ...]
    kind: Kind | None = None  # None: on everything, and the pattern is *
    pattern: str = "*"  # a name; * in it stands for any characters
    sources: tuple[str, ...] = ()  # networks; if there are any, the rule is only for requests from them

    @property
    def resource(self) -> str:
        """The rule's resource as commands write it: ``topic:orders-*``, or ``*`` for everything."""
        return "*" if self.kind is None else f"{self.kind}:{self.pattern}"


class User(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"sources": "from"}):
    """A user of the registry: a person, a client or a broker."""

    name: str  # also the AccessKey in its requests
    enabled: bool = True
    roles: tuple[Role, ...] = ()
    rules: tuple[Rule, ...] = ()
    secrets: tuple[Secret, ...] = ()
    certificates: tuple[str, ...] = ()  # URI:..., DNS:..., CN:...: names in its client certificates
    networks: tuple[str, ...] = ()  # senders from these networks without signature and certificate are this user
    sources: tuple[str, ...] = ()  # networks; if there are any, the user may do nothing from other addresses

    @property
    def is_able_admin(self) -> bool:
        """Whether the user can act as admin: it has the role, is enabled, and can be proved."""
        known_by = self.secrets or self.certificates or self.networks
        return self.enabled and Role.ADMIN in self.roles and bool(known_by)


def is_not_bound(user: User) -> bool:
    """Whether a user may change something from any address: then a stolen secret or certificate is enough."""
    if not user.enabled or user.sources or not (user.secrets or user.certificates):
        return False
    allowed = (rule for rule in user.rules if rule.effect is Effect.ALLOW and not rule.sources)
    rights = {right for rule in allowed for right in rule.rights}.union(*(ROLES[role] for role in user.roles))
    return not WRITING.isdisjoint(rights)


def only_denies(user: User) -> bool:
    """Whether the user has nothing but rules that deny, as the user anonymous must."""
    return user == User(user.name, rules=user.rules) and all(rule.effect is Effect.DENY for rule in user.rules)


_decoder = msgspec.json.Decoder(User)


def encode_user(user: User) -> bytes:
    """Encode a user, with its secrets, for Redis."""
    return msgspec.json.encode(user)


def decode_user(name: str, data: bytes) -> User:
    """Decode a user from Redis. BadPolicy: this release cannot read it; the message has no secret."""
    try:
        user = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _refuse(name, str(error))
    if user.name != name:
        _refuse(name, "it is stored under another name")
    return user


def _refuse(name: str, why: str) -> NoReturn:
    raise BadPolicy(
        f"user {name!r} is not stored as this release stores users ({why}): use the release that stored it"
    ) from None
