"""Changes a policy: each function returns a new policy, or refuses the change with a message that says what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from ..errors import RegistryError
from ..names import fault_of_name
from ..networks import canonical_network
from .policy import Mode, Policy
from .rights import KINDS, READING, Right
from .users import ANONYMOUS, MOST_SECRETS, Rule, Secret, User, only_denies

MOST_USERS: Final = 10_000
MOST_RULES: Final = 500
"""The most rules of a user. A decision looks at every rule about the requested right."""
MOST_NAMES: Final = 100
"""The most certificates, and the most networks, of one user or rule."""
SECRET_CHARACTERS: Final = (7, 256)
"""The shortest and the longest secret. ACL 1.0 of brokers also needs more than six characters."""
GIVEN_SECRET: Final = (16, 8)
"""The fewest characters, and the fewest different characters, of a secret that a person chose."""
_SECRET: Final = re.compile(r"[!-~]+")
_CERTIFICATE: Final = re.compile(r"(URI|DNS|CN):(.+)", re.S)


class RefusedChange(RegistryError):
    """A change of users, rules or the mode was refused; nothing was changed."""


def add_user(policy: Policy, user: User) -> Policy:
    """Make a user with these roles and rules."""
    if user.name == ANONYMOUS:
        raise RefusedChange(f"{ANONYMOUS!r} stands for everybody who is not known: it can only be denied something")
    if user.name in policy.users:
        raise RefusedChange(
            f"there is a user {user.name!r} already: change it with 'auth user set', 'auth allow' and 'auth secret'"
        )
    return _with_user(policy, user)


def edit_user(policy: Policy, name: str, edit: Callable[[User], User]) -> Policy:
    """Replace a user by what ``edit`` returns; ``edit`` must keep the name."""
    return _with_user(policy, edit(find_user(policy, name)))


def remove_user(policy: Policy, name: str) -> Policy:
    """Remove a user with its secrets and rules."""
    find_user(policy, name)
    users = (user for user in policy.users.values() if user.name != name)
    return _checked(policy, Policy(policy.mode, policy.revision, users))


def add_secret(policy: Policy, name: str, secret: Secret) -> Policy:
    """Give a user one more secret; an old secret stays valid until it is removed."""
    user = find_user(policy, name)
    if len(user.secrets) >= MOST_SECRETS:
        ids = ", ".join(one.id for one in user.secrets)
        raise RefusedChange(f"user {name!r} has two secrets already ({ids}): drop the one that nobody uses any more")
    if any(one.key == secret.key for one in user.secrets):
        raise RefusedChange(f"user {name!r} has this secret already")
    return edit_user(policy, name, lambda user: msgspec.structs.replace(user, secrets=(*user.secrets, secret)))


def drop_secret(policy: Policy, name: str, secret_id: str) -> Policy:
    """Take a secret from a user."""
    user = find_user(policy, name)
    left = tuple(one for one in user.secrets if one.id != secret_id)
    if len(left) == len(user.secrets):
        ids = ", ".join(one.id for one in user.secrets) or "none"
        raise RefusedChange(f"user {name!r} has no secret {secret_id!r}; its secrets: {ids}")
    return edit_user(policy, name, lambda user: msgspec.structs.replace(user, secrets=left))


def add_rules(policy: Policy, name: str, rules: Iterable[Rule]) -> Policy:
    """Add rules to a user. Rules of the same effect, resource and networks become one."""
    user = policy.anonymous if name == ANONYMOUS else find_user(policy, name)
    found = list(user.rules)
    for rule in rules:
        at = next((i for i, one in enumerate(found) if _same_place(one, rule)), None)
        if at is None:
            found.append(msgspec.structs.replace(rule, rights=_sorted(rule.rights)))
        else:
            found[at] = msgspec.structs.replace(found[at], rights=_sorted((*found[at].rights, *rule.rights)))
    return _with_user(policy, msgspec.structs.replace(user, rules=tuple(found)))


def remove_rules(policy: Policy, name: str, rules: Iterable[Rule]) -> Policy:
    """Take rights from a user's rules on the same resources; a rule without rights is removed.

    Raises:
        RefusedChange: the user has no such rule; the message names its rules.
    """
    user = policy.anonymous if name == ANONYMOUS else find_user(policy, name)
    found = list(user.rules)
    for rule in rules:
        at = next((i for i, one in enumerate(found) if _same_place(one, rule)), None)
        if at is None or not {*rule.rights} & {*found[at].rights}:
            there = "; ".join(map(rule_text, user.rules)) or "none"
            raise RefusedChange(f"user {name!r} has no rule {rule_text(rule)!r}; its rules: {there}")
        left = {*found[at].rights} - {*rule.rights}
        found[at : at + 1] = [msgspec.structs.replace(found[at], rights=_sorted(left))] if left else []
    if name == ANONYMOUS and not found:
        return remove_user(policy, name)
    return _with_user(policy, msgspec.structs.replace(user, rules=tuple(found)))


def set_mode(policy: Policy, mode: Mode) -> Policy:
    """Set the mode: off, observe (refused requests are only reported) or enforce."""
    return _checked(policy, Policy(mode, policy.revision, policy.users.values()))


def find_user(policy: Policy, name: str) -> User:
    """The user of this name. RefusedChange: there is none; the message proposes a similar name."""
    user = policy.users.get(name)
    if user is None:
        closest = difflib.get_close_matches(name, policy.users, n=1)
        hint = f"; did you mean {closest[0]!r}?" if closest else "; 'auth user list' shows all"
        raise RefusedChange(f"there is no user {name!r}{hint}")
    return user


def rule_text(rule: Rule) -> str:
    """A rule as the command that makes it has it: ``allow route topic:orders-*``."""
    at = "".join(f" --from {network}" for network in rule.sources)
    return f"{rule.effect} {','.join(rule.rights)} {rule.resource}{at}"


def canonical_certificate(text: str) -> str:
    """The stored form of a name in certificates (``DNS:a.example``); ValueError: the text has no such form."""
    match = _CERTIFICATE.fullmatch(text)
    if match is None or fault_of_name(text):
        raise ValueError(f"{text!r}: expected URI:..., DNS:... (of the SAN) or CN:... (of the subject)")
    kind, name = match.groups()
    return f"DNS:{name.lower()}" if kind == "DNS" else text


def _with_user(policy: Policy, user: User) -> Policy:
    users = {**policy.users, user.name: user}
    return _checked(policy, Policy(policy.mode, policy.revision, users.values()))


def _checked(before: Policy, after: Policy) -> Policy:
    """Refuse a policy that is wrong, or has no admin who can act."""
    for name, user in after.users.items():
        if before.users.get(name) is not user:
            _check_user(user)
    _check_unique(after)
    if len(after.users) > MOST_USERS:
        raise RefusedChange(f"there are {MOST_USERS} users already, which is the most: remove some")
    if after.mode is Mode.ENFORCE and not after.able_admins():
        if before.mode is Mode.ENFORCE and before.able_admins():
            raise RefusedChange(_LAST_ADMIN)
        raise RefusedChange(
            "'enforce' needs an admin first, or nobody could change anything over the network: "
            "mqregistry auth user add NAME --role admin; mqregistry auth secret add NAME"
        )
    if after.mode is Mode.OBSERVE and before.mode is Mode.OBSERVE and before.able_admins() and not after.able_admins():
        raise RefusedChange(_LAST_ADMIN)
    return after


_LAST_ADMIN: Final = (
    "this would leave no admin that is enabled and has a secret, certificate or network: make another admin first "
    "(or switch authentication off: mqregistry auth mode off)"
)


def _check_user(user: User) -> None:
    fault = fault_of_name(user.name)
    if not fault and (re.search(r"\s", user.name) or user.name.startswith("-")):
        fault = "has a blank, or begins with -"
    if fault:
        raise RefusedChange(f"the user's name {user.name!r} {fault}")
    if user.name == ANONYMOUS and not only_denies(user):
        raise RefusedChange(f"{ANONYMOUS!r} stands for everybody who is not known: it can only be denied something")
    if user.name == ANONYMOUS and any({*rule.rights} - READING for rule in user.rules):
        raise RefusedChange(f"{ANONYMOUS!r} may not write anyway: only {', '.join(sorted(READING))} can be denied")
    for what, number, most in (
        ("rules", len(user.rules), MOST_RULES), ("secrets", len(user.secrets), MOST_SECRETS),
        ("certificates", len(user.certificates), MOST_NAMES), ("networks", len(user.networks), MOST_NAMES),
        ("networks that it may come from", len(user.sources), MOST_NAMES),
    ):  # fmt: skip
        if number > most:
            raise RefusedChange(f"user {user.name!r} has {number} {what}, at most {most} are allowed")
    for secret in user.secrets:
        check_secret_key(secret.key)
    for rule in user.rules:
        _check_rule(rule)
    try:
        for text in user.certificates:
            if canonical_certificate(text) != text:
                raise ValueError(f"{text!r} is not in the form that is stored")
        for text in (*user.networks, *user.sources, *(one for rule in user.rules for one in rule.sources)):
            if canonical_network(text) != text:
                raise ValueError(f"{text!r} is not in the form that is stored")
    except ValueError as error:
        raise RefusedChange(f"user {user.name!r}: {error}") from None


def check_secret_key(key: str) -> None:
    """Refuse a secret that clients and brokers cannot use. The message does not contain it."""
    least, most = SECRET_CHARACTERS
    if not least <= len(key) <= most or not _SECRET.fullmatch(key):
        raise RefusedChange(
            f"a secret has {least} to {most} printable ASCII characters and no blank; this one has {len(key)}"
            + ("" if _SECRET.fullmatch(key) else ", others among them")
        )


def check_given_key(key: str, whose: str = "") -> None:
    """Refuse a secret that a person chose and others guess easily (``12345678``). The message does not contain it."""
    check_secret_key(key)
    least, different = GIVEN_SECRET
    if len(key) < least or len(set(key)) < different:
        raise RefusedChange(
            f"{whose}a secret that is given has at least {least} characters, {different} of them different; this one "
            f"has {len(key)}, and {len(set(key))} different ones. 'mqregistry auth secret add USER' makes one"
        )


def _check_rule(rule: Rule) -> None:
    text = rule_text(rule)
    if not rule.rights:
        raise RefusedChange(f"rule {text!r} names no right")
    if rule.kind is None:
        if rule.pattern != "*":
            raise RefusedChange(f"rule {text!r} has a pattern, but no kind of resource")
        return
    if fault := fault_of_name(rule.pattern):
        raise RefusedChange(f"the pattern of rule {text!r} {fault}")
    if len(rule.sources) > MOST_NAMES:
        raise RefusedChange(f"rule {text!r} names more than {MOST_NAMES} networks")
    for right in rule.rights:
        if rule.kind not in KINDS[right]:
            expected = " or ".join((*(f"{kind}:NAME" for kind in sorted(KINDS[right])), "'*'"))
            raise RefusedChange(f"rule {text!r}: {right} can be on {expected}, not on {rule.kind}")


def _check_unique(policy: Policy) -> None:
    """Refuse a certificate name, network or secret of two users: it must identify one user."""
    owners: dict[str, str] = {}
    for user in policy.users.values():
        for what in (*user.certificates, *(f"network {one}" for one in user.networks),
                     *(f"secret {one.id}" for one in user.secrets)):  # fmt: skip
            owner = owners.setdefault(what, user.name)
            if owner != user.name:
                raise RefusedChange(f"{what} belongs to user {owner!r}: it cannot be {user.name!r}'s as well")


def _same_place(one: Rule, other: Rule) -> bool:
    return (one.effect, one.kind, one.pattern, one.sources) == (other.effect, other.kind, other.pattern, other.sources)


def _sorted(rights: Iterable[Right]) -> tuple[Right, ...]:
    return tuple(right for right in Right if right in {*rights})
