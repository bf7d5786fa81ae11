"""``auth observe``: which requests are refused, or would be, and the command that would allow each."""

from __future__ import annotations

import click
import msgspec

from ...auth.mending import mend_of, still_refused
from ...store.auth.policies import PolicyStore
from ...store.auth.refusals import RefusalStore
from ...store.snapshot import read_head
from ...store.store import Store
from .. import output
from ..target import target_command
from .secret import age


@click.command()
@click.option("-n", "--number", type=click.IntRange(min=1), default=50, show_default=True, metavar="N",
              help="Show the N kinds that were seen last.")  # fmt: skip
@target_command
async def observe(store: Store, number: int, as_json: bool) -> None:
    """Show the requests that rules refuse, or would refuse in mode 'enforce', and the command that allows each.

    Front ends note at most 2,000 kinds of requests. The senders chose the names in them: allow only what you know.
    """
    policy = await PolicyStore(store).read()
    rows = await RefusalStore(store).summary()
    left = still_refused(policy, rows)
    if as_json:
        output.json_page([
            {**msgspec.structs.asdict(row.kind), "source": row.last.source, "how": row.last.how, "mode": row.mode,
             "count": row.count, "first_ms": row.first_ms, "last_ms": row.last_ms, "allowed_now": row not in left,
             "mend": mend_of(policy, row).command}
            for row in rows[:number]
        ])  # fmt: skip
        return
    if left:
        now_ms = (await read_head(store)).now_ms
        click.echo(output.table(
            ("USER", "RIGHT", "ON", "FROM", "WHY", "TIMES", "LAST", "MENDED BY"),
            [
                (row.kind.user, row.kind.right or "", " ".join(row.kind.resources) or ("*" if row.kind.right else ""),
                 row.last.source, row.kind.reason, row.count, age(now_ms, row.last_ms), mend_of(policy, row).command)
                for row in left[:number]
            ],
            right=("TIMES",),
        ))  # fmt: skip
    more, allowed = len(left) - number, len(rows) - len(left)
    facts = [f"{more} more: -n shows more"] if more > 0 else []
    facts += [f"{allowed} refused before, allowed now"] if allowed else []
    if not left:
        facts.insert(0, f"the mode is {policy.mode}; no request was seen that the rules do not allow")
    for fact in facts:
        click.echo(fact, err=True)
