"""``auth mode``: whether rules are enforced."""

from __future__ import annotations

import click

from ...auth import changes
from ...auth.mending import still_refused
from ...auth.policy import Mode
from ...auth.refused import RefusedSummary
from ...operators.words import counted
from ...store.auth.policies import PolicyStore
from ...store.auth.refusals import RefusalStore
from ...store.store import Store
from .. import output
from ..target import target_command
from ..write.confirm import confirm, yes_option

_SHOWN_KINDS = 10
_MEANINGS = {
    Mode.OFF: "everybody may do everything",
    Mode.OBSERVE: "everybody may do everything; what rules would refuse is noted ('auth observe')",
    Mode.ENFORCE: "what no rule allows is refused",
}


@click.command()
@click.argument("mode", type=click.Choice([mode.value for mode in Mode]), required=False)
@yes_option
@target_command
async def mode(store: Store, mode: str | None, yes: bool, as_json: bool) -> None:
    """Show or set the MODE of authentication.

    \b
    off      everybody may do everything
    observe  the same; what rules would refuse is noted
    enforce  what no rule allows is refused; needs an admin, and asks you first if seen requests would be refused
    """  # noqa: D301 (\\b is for click)
    policies = PolicyStore(store)
    if mode == Mode.OFF:  # without reading the rules: this must work even if they cannot be read
        await policies.switch_off()
        output.answer(as_json, {"mode": Mode.OFF}, f"off: {_MEANINGS[Mode.OFF]}")
        return
    policy = await policies.read()
    before = policy.mode
    refused = still_refused(policy, await RefusalStore(store).summary())
    if mode is not None:
        wanted = Mode(mode)
        if wanted is Mode.ENFORCE and before is not Mode.ENFORCE and refused:
            changes.set_mode(policy, wanted)  # raises without an admin, before the question
            confirm(*_would_be_refused(refused), yes=yes, as_json=as_json)
        policy = await policies.change(lambda policy: changes.set_mode(policy, wanted))
        refused = still_refused(policy, refused)
    was = f" (was {before})" if policy.mode is not before else ""
    output.answer(
        as_json,
        {"mode": policy.mode, "before": before, "revision": policy.revision, "users": len(policy.users),
         "admins": policy.able_admins(), "refused_kinds": len(refused)},
        f"{policy.mode}{was}: {_MEANINGS[policy.mode]}",
        f"{len(policy.users)} users; admins: {', '.join(policy.able_admins()) or 'none'}",
    )  # fmt: skip
    if refused and policy.mode is not Mode.OFF and not as_json:
        click.echo(
            f"{len(refused)} kinds of requests that were seen are not allowed: mqregistry auth observe", err=True
        )


def _would_be_refused(refused: list[RefusedSummary]) -> list[str]:
    """The most frequent kinds of requests that would be refused, as lines above the question."""
    most = sorted(refused, key=lambda row: -row.count)[:_SHOWN_KINDS]
    more = [f"  {len(refused) - len(most)} more: mqregistry auth observe"] if len(refused) > len(most) else []
    return [
        f"{counted(len(refused), 'kind')} of requests that were seen would be refused:",
        *(
            f"  {row.kind.user}: {row.kind.right or row.kind.reason} on {' '.join(row.kind.resources) or '*'}, "
            f"{counted(row.count, 'time')}, last from {row.last.source}"
            for row in most
        ),
        *more,
    ]
