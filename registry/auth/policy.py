"""The policy of a namespace: all its users and its mode, by which front ends decide on requests.

:mod:`.changes` changes a policy and refuses wrong changes; :meth:`Policy.decode` checks a policy from Redis again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from ipaddress import ip_network

from ..networks import Address
from .compiled import UserRules, compile_rules
from .rights import READING, Kind, Right
from .users import ANONYMOUS, BadPolicy, Effect, User, decode_user, only_denies


class Mode(enum.StrEnum):
    """What front ends do with a request that the rules refuse.

    ``OFF``: no rule is checked. ``OBSERVE``: the request is reported and executed. ``ENFORCE``: the request is refused.
    """

    OFF = "off"
    OBSERVE = "observe"
    ENFORCE = "enforce"


class Policy:
    """The users and the mode of one namespace at one moment; immutable."""

    __slots__ = (
        "_by_certificate", "_by_network", "_everybody", "_rules", "anonymous", "changed", "forgotten", "mode",
        "reserved", "revision", "users",
    )  # fmt: skip

    def __init__(
        self, mode: Mode = Mode.OFF, revision: int = 0, users: Iterable[User] = (),
        changed: Mapping[str, int] | None = None, forgotten: int = -1,
    ) -> None:  # fmt: skip
        self.mode = mode
        # rises with every change: the policy with the higher revision is in force
        self.revision = revision
        # user -> the revision that last changed or removed it; "" is the mode
        self.changed: Mapping[str, int] = changed or {}
        # a user without an entry in ``changed`` was removed at this revision or before, or never existed
        self.forgotten = forgotten
        self.users: Mapping[str, User] = {user.name: user for user in users}
        self.anonymous = self.users.get(ANONYMOUS) or User(ANONYMOUS)
        self._by_certificate = {name: user for user in self.users.values() for name in user.certificates}
        self._by_network: dict[tuple[int, int], dict[int, User]] = {}  # (version, prefix length) -> address -> user
        for user in self.users.values():
            for text in user.networks:
                network = ip_network(text)
                table = self._by_network.setdefault((network.version, network.prefixlen), {})
                table[int(network.network_address)] = user
        self._by_network = dict(sorted(self._by_network.items(), reverse=True))  # the longest prefix first
        self._rules: dict[str, tuple[User, UserRules]] = {}
        self.reserved = _reserved(self.users.values())
        """BrokerName in a rule without a pattern -> the clusters in the rules of the same users. While no table has the
        brokerName, a user that may register only in other clusters cannot register it."""
        denied = {right for rule in self.anonymous.rules for right in rule.rights}
        self._everybody = READING - denied

    @classmethod
    def decode(
        cls, mode: str, revision: int, users: Mapping[str, bytes], changed: Mapping[str, int], forgotten: int
    ) -> Policy:
        """Decode the policy in Redis.

        Raises:
            BadPolicy: this release cannot read it; the message has no secret.
        """
        try:
            known_mode = Mode(mode)
        except ValueError:
            raise BadPolicy(f"authentication has the mode {mode!r}, which this release does not know") from None
        decoded = []
        for name, data in users.items():
            user = decode_user(name, data)
            try:
                compile_rules(user)
                if name == ANONYMOUS and not only_denies(user):
                    raise ValueError("nobody can be given a right under this name")
                for text in user.networks:
                    ip_network(text)
            except ValueError as error:
                raise BadPolicy(f"user {name!r}: {error}") from None
            decoded.append(user)
        return cls(known_mode, revision, decoded, changed, forgotten)

    def lost_by(self, other: Policy) -> list[str]:
        """The users ("" for the mode) with a later change in this policy than in the other."""
        return [name for name, at in self.changed.items() if at > other.changed.get(name, other.forgotten)]

    def by_access_key(self, access_key: str) -> User | None:
        """The user that signs with this AccessKey; None: no user does."""
        return None if access_key == ANONYMOUS else self.users.get(access_key)

    def by_certificate(self, names: Iterable[str]) -> User | None:
        """The user of a verified certificate, by its first name that belongs to a user; None: there is none.

        Args:
            names: ``URI:...`` of the SAN, then ``DNS:...`` of the SAN, then ``CN:...`` of the subject.
        """
        return next((user for name in names if (user := self._by_certificate.get(name)) is not None), None)

    def by_source(self, address: Address | None) -> User | None:
        """The user with the smallest network that contains this address; None: there is none."""
        if address is None:
            return None
        number, version, bits = int(address), address.version, address.max_prefixlen
        for (of_version, prefix), table in self._by_network.items():
            if of_version == version:
                shift = bits - prefix
                found = table.get(number >> shift << shift)
                if found is not None:
                    return found
        return None

    def able_admins(self) -> list[str]:
        """The names of the users that can act as admin (:attr:`User.is_able_admin`)."""
        return [user.name for user in self.users.values() if user.is_able_admin]

    def rules_of(self, user: User) -> UserRules:
        """The user's compiled rules and roles; made on first use."""
        of, rules = self._rules.get(user.name, (None, None))
        if rules is None or of is not user:  # a request may still hold a user of the policy before this one
            rules = compile_rules(user, self._everybody)
            self._rules[user.name] = user, rules
        return rules


def _reserved(users: Iterable[User]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for user in users:
        named: dict[Kind | None, list[str]] = {}
        for rule in user.rules:
            if rule.effect is Effect.ALLOW and Right.REGISTER in rule.rights and "*" not in rule.pattern:
                named.setdefault(rule.kind, []).append(rule.pattern)
        for name in named.get(Kind.BROKER, ()):
            found[name] = tuple(dict.fromkeys((*found.get(name, ()), *named.get(Kind.CLUSTER, ()))))
    return found
