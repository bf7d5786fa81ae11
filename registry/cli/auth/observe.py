"""``auth observe``: who was refused, or would be, and which rule mends it."""

from __future__ import annotations

import click

from ...auth.decide import decide
from ...auth.policy import Policy
from ...auth.refused import RefusedSummary
from ...networks import parse_address
from ...server.auth.refusal import BROKER_ADDR, NEEDS_TLS, from_here
from ...store.auth.policies import PolicyStore
from ...store.auth.refusals import RefusalStore
from ...store.snapshot import read_head
from ...store.store import Store
from .. import output
from ..target import target_command
from .mode import is_allowed_now, user_now
from .secret import age


@click.command()
@click.option("-n", "--number", type=click.IntRange(min=1), default=50, show_default=True, metavar="N",
              help="Show the N that were seen last.")  # fmt: skip
@target_command
async def observe(store: Store, number: int, as_json: bool) -> None:
    """Show the requests that rules refuse, or would with the mode 'enforce', and the command that would allow each.

    Front ends note them, 2,000 kinds at most. Names in them come from whoever sent the request: allow what you know.
    """
    policy = await PolicyStore(store).read()
    rows = await RefusalStore(store).summary()
    left = [row for row in rows if not is_allowed_now(policy, row)]
    if as_json:
        output.json_page([
            {**_json(row), "allowed_now": row not in left, "mend": mend(policy, row)} for row in rows[:number]
        ])  # fmt: skip
        return
    if left:
        now_ms = (await read_head(store)).now_ms
        click.echo(output.table(
            ("USER", "RIGHT", "ON", "FROM", "WHY", "TIMES", "LAST", "MENDED BY"),
            [
                (row.kind.user, row.kind.right or "", " ".join(row.kind.resources) or ("*" if row.kind.right else ""),
                 row.last.source, row.kind.reason, row.count, age(now_ms, row.last_ms), mend(policy, row))
                for row in left[:number]
            ],
            right=("TIMES",),
        ))  # fmt: skip
    more, allowed = len(left) - number, len(rows) - len(left)
    facts = [f"{more} more: -n shows more"] if more > 0 else []
    facts += [f"{allowed} that were refused are allowed by now"] if allowed else []
    if not left:
        facts.insert(0, f"the mode is {policy.mode}; no request was seen that the rules do not allow")
    for fact in facts:
        click.echo(fact, err=True)


def mend(policy: Policy, row: RefusedSummary) -> str:
    """The command that would allow it under the rules of now; "": none would, or none is needed."""
    kind = row.kind
    if kind.right is None:
        return ""
    user = user_now(policy, row)
    if user is not None and kind.reason == NEEDS_TLS:
        return from_here(user, row.last.source)
    if user is not None and kind.reason == BROKER_ADDR:
        return from_here(user, row.last.source, "BROKER_ADDRESS")
    return decide(policy, user, kind.right, kind.parsed_resources(), parse_address(row.last.source)).mend


def _json(row: RefusedSummary) -> dict[str, object]:
    return {
        "user": row.kind.user, "right": row.kind.right, "resources": row.kind.resources, "reason": row.kind.reason,
        "source": row.last.source, "how": row.last.how, "mode": row.mode, "count": row.count,
        "first_ms": row.first_ms, "last_ms": row.last_ms,
    }  # fmt: skip
