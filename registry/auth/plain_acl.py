"""Reads RocketMQ's own lists of users: plain_acl.yml of ACL 1.0, and users and acls of ACL 2.0.

Rights at brokers (publish, subscribe, groups) become rights on the requests that clients then send to a name server,
such as lookups of routes. Rights without such a request, or that would allow more here, are left out, with a note.
The caller decodes the file, with every scalar as a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ..errors import RegistryError
from ..networks import canonical_network
from .rights import Kind, Right, Role
from .users import Effect, Rule
from .words import parse_resource, parse_rights

_RETRY_TOPIC: Final = "%RETRY%"
_PERMS: Final = {
    "PUB": Effect.ALLOW, "SUB": Effect.ALLOW, "PUB|SUB": Effect.ALLOW, "SUB|PUB": Effect.ALLOW, "DENY": Effect.DENY,
}  # fmt: skip
_SECTIONS: Final = ("globalWhiteRemoteAddresses", "accounts", "users", "acls")
_IGNORED: Final = ("dataVersion",)  # a broker writes it after updateAclConfig


class BadFile(RegistryError):
    """A list of users cannot be read; the message names the place in the file."""


class Account(NamedTuple):
    """One user of the list. secret None: the list has no secret."""

    name: str
    secret: str | None = None
    enabled: bool = True
    roles: tuple[Role, ...] = ()
    rules: tuple[Rule, ...] = ()

    def __repr__(self) -> str:
        return f"Account({self.name!r})"


class ListedAccounts(NamedTuple):
    """The users of a list, and notes on the parts that were left out."""

    accounts: list[Account]
    notes: list[str]


def read_list(content: Any) -> ListedAccounts:
    """The users of a file of ACL 1.0 (``accounts``), of ACL 2.0 (``users`` and ``acls``), or of both.

    Raises:
        BadFile: the file has a fault; the message names the place and what was expected, and contains no secret.
    """
    top = _table("the file", content)
    if not {"accounts", "users"} & top.keys():
        raise BadFile("it has neither 'accounts' (plain_acl.yml of ACL 1.0) nor 'users' (ACL 2.0)")
    if unknown := top.keys() - {*_SECTIONS, *_IGNORED}:
        raise BadFile(f"{', '.join(sorted(map(str, unknown)))}: expected only {', '.join(_SECTIONS)}")
    notes: list[str] = []
    if white := _texts("globalWhiteRemoteAddresses", top.get("globalWhiteRemoteAddresses")):
        notes.append(
            f"globalWhiteRemoteAddresses ({', '.join(white)}) is left out: nobody gets by without showing who he is; "
            "a user can be known by its network instead: auth user set NAME --network"
        )
    accounts = [_account(place, entry, notes) for place, entry in _entries(top, "accounts")]
    accounts += [_user(place, entry) for place, entry in _entries(top, "users")]
    by_name: dict[str, Account] = {}
    for account in accounts:
        if account.name in by_name:
            raise BadFile(f"two users have the name {account.name!r}")
        by_name[account.name] = account
    for place, entry in _entries(top, "acls"):
        name, rules = _acl(place, entry, notes)
        if name not in by_name:
            raise BadFile(f"{place}: there is no user {name!r} among 'users'")
        account = by_name[name]
        by_name[name] = account._replace(rules=(*account.rules, *rules))
    return ListedAccounts(list(by_name.values()), notes)


def _account(place: str, entry: Mapping[str, Any], notes: list[str]) -> Account:
    """One account of plain_acl.yml (PlainAccessConfig)."""
    name = _text(place, entry, "accessKey")
    place = f"{place} ({name})"
    _only(place, entry, ("accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm",
                         "defaultGroupPerm", "topicPerms", "groupPerms"))  # fmt: skip
    if entry.get("whiteRemoteAddress"):
        notes.append(
            f"{name}: whiteRemoteAddress is left out: in ACL 1.0 it lets in without a signature; "
            "--from restricts where a user may come from, --network makes it known by its address"
        )
    admin = str(entry.get("admin") or "false").lower()
    if admin not in ("true", "false"):
        raise BadFile(f"{place}: admin is {admin!r}, expected true or false")
    roles = [Role.ADMIN] if admin == "true" else []
    rules: list[Rule] = []
    # A default DENY denies nothing here: anonymous may read routes, so the user could read them without a signature.
    if _perm(place, "defaultTopicPerm", entry.get("defaultTopicPerm") or "DENY") is Effect.ALLOW and not roles:
        roles = [Role.CLIENT]
    for key, prefix in (("topicPerms", ""), ("groupPerms", _RETRY_TOPIC)):
        for text in _texts(f"{place}.{key}", entry.get(key)):
            topic, equals, perm = (part.strip() for part in text.partition("="))
            if not equals or not topic:
                raise BadFile(f"{place}.{key}: {text!r}, expected NAME=PUB|SUB")
            rules.append(Rule(_perm(place, f"{key}.{topic}", perm), (Right.ROUTE,), Kind.TOPIC, prefix + topic))
    _perm(place, "defaultGroupPerm", entry.get("defaultGroupPerm") or "DENY")
    return Account(name, _text(place, entry, "secretKey"), True, tuple(roles), _merged(rules))


def _user(place: str, entry: Mapping[str, Any]) -> Account:
    """One user of ACL 2.0 (UserInfo)."""
    name = _text(place, entry, "username")
    place = f"{place} ({name})"
    _only(place, entry, ("username", "password", "userType", "userStatus"))
    kind = str(entry.get("userType") or "Normal").lower()
    status = str(entry.get("userStatus") or "enable").lower()
    if kind not in ("super", "normal") or status not in ("enable", "disable"):
        raise BadFile(f"{place}: userType is Super or Normal, userStatus enable or disable")
    secret = _text(place, entry, "password") if entry.get("password") else None
    return Account(name, secret, status == "enable", (Role.ADMIN,) if kind == "super" else ())


def _acl(place: str, entry: Mapping[str, Any], notes: list[str]) -> tuple[str, tuple[Rule, ...]]:
    """The name and rules of one user of ACL 2.0 (AclInfo)."""
    _only(place, entry, ("subject", "policies"))
    subject = _text(place, entry, "subject")
    kind, _, name = subject.partition(":")
    if kind.lower() != "user" or not name:
        raise BadFile(f"{place}: subject {subject!r}, expected User:NAME")
    rules: list[Rule] = []
    for at, policy in enumerate(_list(f"{place}.policies", entry.get("policies"))):
        inner = f"{place}.policies[{at}]"
        _only(inner, _table(inner, policy), ("policyType", "entries"))
        by_default = str(policy.get("policyType") or "Custom").lower() == "default"
        for number, one in enumerate(_list(f"{inner}.entries", policy.get("entries"))):
            spot = f"{inner}.entries[{number}]"
            rules += _entry_rules(spot, _table(spot, one), by_default, lambda note: notes.append(f"{name}: {note}"))
    return name, _merged(rules)


def _entry_rules(place: str, entry: Mapping[str, Any], by_default: bool, note: Callable[[str], None]) -> Iterator[Rule]:
    """The rules of one entry (PolicyEntryInfo)."""
    _only(place, entry, ("resource", "actions", "sourceIps", "decision"))
    resource = _text(place, entry, "resource")
    decision = _text(place, entry, "decision").lower()
    if decision not in ("allow", "deny"):
        raise BadFile(f"{place}: decision {decision!r}, expected Allow or Deny")
    word, _, pattern = resource.partition(":")
    word = word.lower()
    if by_default and decision == "deny":
        return note(f"{resource} denied by default is left out: what no rule allows is not allowed anyway")
    if word == "namespace":
        return note(f"{resource} is left out: to a name server, a namespace is only the beginning of topics' names")
    if word == "group":  # a consumer of the group asks for the route of its retry topic
        resource, actions = f"topic:{_RETRY_TOPIC}{pattern}", ["Sub"]
    else:
        resource = "*" if word == "any" or resource.lower() == "cluster:*" else resource
        actions = _texts(f"{place}.actions", entry.get("actions"))
    try:
        kind, name = parse_resource(resource)
        # no request at a name server lists one topic
        words = [one for one in actions if kind is not Kind.TOPIC or one.lower() != "list"]
        found = parse_rights(words, kind)
        sources = tuple(canonical_network(one) for one in _texts(f"{place}.sourceIps", entry.get("sourceIps")))
    except ValueError as error:
        raise BadFile(f"{place}: {error}") from None
    if word == "cluster":  # the settings of name servers belong to no cluster
        found = tuple(right for right in found if right is not Right.CONFIG_WRITE)
    if not actions:
        raise BadFile(f"{place}: actions are missing")
    if found:
        yield Rule(Effect(decision), found, kind, name, sources)
    if kind is Kind.CLUSTER and Right.REGISTER in found and decision == "allow":
        yield Rule(Effect.ALLOW, (Right.REGISTER,), Kind.BROKER, "*", sources)


def _merged(rules: list[Rule]) -> tuple[Rule, ...]:
    """Each rule once, in the order of the list."""
    return tuple(dict.fromkeys(rules))


def _perm(place: str, key: str, text: Any) -> Effect:
    found = _PERMS.get(str(text).replace(" ", "").upper())
    if found is None:
        raise BadFile(f"{place}: {key} is {text!r}, expected {', '.join(_PERMS)}")
    return found


def _entries(top: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for at, entry in enumerate(_list(key, top.get(key))):
        yield f"{key}[{at}]", _table(f"{key}[{at}]", entry)


def _table(place: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadFile(f"{place}: expected a table of keys")
    return value


def _list(place: str, value: Any) -> list[Any]:
    if value is None or value == "":
        return []
    if not isinstance(value, list):
        raise BadFile(f"{place}: expected a list")
    return value


def _texts(place: str, value: Any) -> list[str]:
    found = _list(place, value)
    if any(not isinstance(one, str) for one in found):
        raise BadFile(f"{place}: expected a list of texts")
    return [one.strip() for one in found]


def _text(place: str, entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise BadFile(f"{place}: {key} is missing, or no text")
    return value.strip()


def _only(place: str, entry: Mapping[str, Any], known: tuple[str, ...]) -> None:
    if unknown := entry.keys() - {*known}:
        raise BadFile(f"{place}: unknown {', '.join(sorted(map(str, unknown)))}; expected {', '.join(known)}")
