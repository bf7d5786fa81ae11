"""What ``auth allow`` and ``auth deny`` have in common: their arguments, and the change of a user's rules."""

from __future__ import annotations

from typing import Final

import click

from ...auth import changes
from ...auth.users import ANONYMOUS, Effect
from ...store.auth.policies import PolicyStore
from ...store.store import Store
from .. import output
from ..options import together
from .arguments import complete_resources, complete_rights, from_option, parse_rules, user_argument

rule_arguments: Final = together(
    user_argument,
    click.argument("rights", shell_complete=complete_rights),
    click.argument("resources", metavar="[RESOURCE]...", nargs=-1, shell_complete=complete_resources),
    from_option,
    click.option(
        "--remove", is_flag=True, help="Instead, remove these rights from the user's rules on these resources."
    ),
)


async def change_rules(
    store: Store, effect: Effect, *, name: str, rights: str, resources: tuple[str, ...], sources: tuple[str, ...],
    remove: bool, as_json: bool,
) -> None:  # fmt: skip
    """Add or remove the rules that a command line names, and print the user's rules."""
    rules = parse_rules(effect, rights, resources, sources)
    change = changes.remove_rules if remove else changes.add_rules
    policy = await PolicyStore(store).change(lambda policy: change(policy, name, rules))
    left = policy.users[name].rules if name in policy.users else ()
    who = "anonymous callers" if name == ANONYMOUS else name
    lines = [f"{who}: {changes.rule_text(rule)}" for rule in left] or [f"{who}: no rules"]
    output.answer(as_json, {"name": name, "rules": left}, *lines)
