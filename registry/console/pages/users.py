"""Users, what each may do, and the requests that were refused, each with the action that allows it."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ...auth.changes import rule_text
from ...auth.mending import is_allowed_now, mend_of, still_refused
from ...auth.policy import Mode, Policy
from ...auth.refused import RefusedSummary
from ...auth.users import User
from ...operators.language import say
from ...operators.previews import Mistaken, Preview
from ...store.auth.policies import PolicyStore
from ...store.auth.refusals import RefusalStore
from ...store.store import Store
from ..context import Console, paged
from ..locale.commands import in_namespace
from ..twins import Twin

_REFUSED: Final = 100


class UserRow(NamedTuple):
    """A user. rules: in the form of commands. secrets: how many. sources: the only networks that it may come from."""

    name: str
    enabled: bool
    roles: list[str]
    rules: list[str]
    secrets: int
    certificates: list[str]
    networks: list[str]
    sources: list[str]


class RefusedRow(NamedTuple):
    """Requests of one kind that the rules refused, or would refuse."""

    user: str
    right: str | None  # None: the user was not authenticated
    resources: list[str]
    reason: str
    source: str
    mode: Mode
    times: int
    first_ms: int
    last_ms: int
    mend: str  # the command that would allow them
    key: str  # names them in the address of the action that allows them; empty: there is no such action


TWIN: Final = Twin(
    "Users with their rules, and requests that the rules refuse.",
    {"mode": Mode, "revision": int, "rows": list[UserRow], "count": int, "number": int, "pages": int,
     "refused": list[RefusedRow], "more": int, "allowed": int},
    ("filter", "page"),
)  # fmt: skip


async def users(console: Console, request: Request) -> Response:
    """The page of users, their rules and refused requests."""
    text = request.query_params.get("filter", "").strip()
    store = console.state.store
    policy, refused = await PolicyStore(store).read(), await RefusalStore(store).summary()
    found = [user for name, user in sorted(policy.users.items()) if text.lower() in name.lower()]
    refused_now = still_refused(policy, refused)
    left = [row for row in refused_now if text.lower() in row.kind.user.lower()]
    shown = paged(request, found)
    shown["rows"] = [_row(one) for one in shown["rows"]]
    return await console.page(
        request, "users.html", mode=policy.mode, revision=policy.revision, filter=text,
        refused=[_refused(policy, row, store.namespace) for row in left[:_REFUSED]], more=max(0, len(left) - _REFUSED),
        allowed=len(refused) - len(refused_now), **shown,
    )  # fmt: skip


def _row(user: User) -> UserRow:
    return UserRow(
        user.name, user.enabled, [*user.roles], [rule_text(one) for one in user.rules], len(user.secrets),
        [*user.certificates], [*user.networks], [*user.sources],
    )  # fmt: skip


def _refused(policy: Policy, row: RefusedSummary, namespace: str) -> RefusedRow:
    kind, mend = row.kind, mend_of(policy, row)
    return RefusedRow(
        kind.user, kind.right, [*kind.resources], kind.reason, row.last.source, row.mode, row.count, row.first_ms,
        row.last_ms, in_namespace(mend.command, namespace), "" if mend.change is None else _key(row),
    )  # fmt: skip


def _key(row: RefusedSummary) -> str:
    return hashlib.sha256(msgspec.json.encode(row.kind)).hexdigest()[:32]


async def allow(store: Store, key: str) -> Preview:
    """Add the rule that allows refused requests; ``key``: of a :class:`RefusedRow`."""
    policy, refused = await PolicyStore(store).read(), await RefusalStore(store).summary()
    row = next((one for one in refused if _key(one) == key), None)
    if row is None:
        raise Mistaken(say("this request is not among the refused ones any more; the page Users lists those"))
    what = say(
        "{user}: {right} on {resources}", user=row.kind.user, right=row.kind.right or say("any right"),
        resources=" ".join(row.kind.resources) or say("everything"),
    )  # fmt: skip
    allowed = say("{what} is allowed", what=what)
    if is_allowed_now(policy, row):
        return Preview([], None, allowed, {"mend": ""})
    mend = mend_of(policy, row)
    command = in_namespace(mend.command, store.namespace)
    if mend.change is None:
        hint = f": {command}" if command else ""
        raise Mistaken(say("{what}: no rule for an existing user would allow this", what=what) + hint)
    lines = [
        say(
            "{what}, which was refused ({reason}), last from {address}, becomes allowed", what=what,
            reason=row.kind.reason, address=row.last.source or say("an unknown address"),
        ),
        say("as with {command}", command=command),
        say("the names in it come from the program that sent the request: allow what you know"),
    ]  # fmt: skip
    change = mend.change
    return Preview(lines, lambda: PolicyStore(store).change(change), allowed, {"mend": command})
