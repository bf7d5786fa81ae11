"""``auth deny``: what a user may not do."""

from __future__ import annotations

from typing import Any

import click

from ...auth.users import Effect
from ...store.store import Store
from ..target import target_command
from .rules import change_rules, rule_arguments


@click.command()
@rule_arguments
@target_command
async def deny(store: Store, **words: Any) -> None:
    """Deny USER these RIGHTS on each RESOURCE, even if another rule allows them. The words are those of 'auth allow'.

    A read that no rule allows is still allowed, unless a rule denies it to the user "anonymous": every caller that does
    not prove who it is.
    """
    await change_rules(store, Effect.DENY, **words)
