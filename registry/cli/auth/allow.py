"""``auth allow``: what a user may do."""

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
async def allow(store: Store, **words: Any) -> None:
    """Allow USER these RIGHTS on each RESOURCE.

    RIGHTS: route, list, kv.read, kv.write, config.read, config.write, register, perm, topic.write, or all; several
    with commas. Words of ACL 2.0 such as Pub,Sub work too. RESOURCE: topic:NAME, cluster:NAME, broker:NAME,
    kv:NAMESPACE, with * for any characters; or * for everything.
    """
    await change_rules(store, Effect.ALLOW, **words)
