"""``auth check``: whether the rules would allow a request, and which users may come from any address."""

from __future__ import annotations

import click

from ...auth.changes import find_user
from ...auth.decide import decide
from ...auth.policy import Mode, Policy
from ...auth.rights import WRITING, Resource, Right
from ...auth.users import ANONYMOUS, User, is_not_bound
from ...auth.words import parse_resource, parse_rights
from ...networks import parse_address
from ...store.auth.policies import PolicyStore
from ...store.store import Store
from .. import FAILED, complete_names, output
from ..target import target_command
from .arguments import complete_resources, complete_rights


@click.command()
@click.argument("name", metavar="[USER]", required=False, shell_complete=complete_names.users)
@click.argument("action", metavar="[ACTION]", required=False, shell_complete=complete_rights)
@click.argument("resources", metavar="[RESOURCE]...", nargs=-1, shell_complete=complete_resources)
@click.option("--from", "source", metavar="ADDRESS", help="The address that the request comes from.")
@target_command
async def check(
    store: Store, name: str | None, action: str | None, resources: tuple[str, ...], source: str | None, as_json: bool
) -> None:
    """Tell whether USER may do ACTION on every RESOURCE, and if not, which command would allow it.

    USER may be "anonymous". ACTION is a right. Without RESOURCE: on everything. Ends with 0 if it is allowed,
    with 1 if not, in every mode.

    Without USER: list the users that may change something from any address, because no --from binds them.
    """
    if name is None:
        _show_who_is_not_bound(await PolicyStore(store).read(), as_json=as_json)
        return
    if action is None:
        raise click.UsageError("say which right: mqregistry auth check USER ACTION [RESOURCE]...")
    address = parse_address(source) if source else None
    if source and address is None:
        raise click.UsageError(f"--from {source!r}: expected an address, e.g. 10.1.2.3")
    right, on = _words(action, resources)
    policy = await PolicyStore(store).read()
    user = None if name == ANONYMOUS else find_user(policy, name)
    decision = decide(policy, user, right, on, address)
    if as_json:
        output.json_line({
            "allowed": decision.allowed, "reason": decision.reason, "user": decision.user_name, "right": right,
            "resources": [str(one) for one in on], "mend": decision.mend, "mode": policy.mode,
            "bound": user is None or not is_not_bound(user),
        })  # fmt: skip
    elif decision.allowed:
        click.echo("allowed")
        if right in WRITING and user is not None and is_not_bound(user):
            click.echo(_binds(user), err=True)
    else:
        output.show(f"not allowed: {decision.text}")
        if decision.mend:
            output.show(decision.mend)
        if policy.mode is not Mode.ENFORCE:
            click.echo(f"the mode is {policy.mode}: the request is done anyway", err=True)
    if not decision.allowed:
        raise click.exceptions.Exit(FAILED)


def _show_who_is_not_bound(policy: Policy, *, as_json: bool) -> None:
    found = [user for _, user in sorted(policy.users.items()) if is_not_bound(user)]
    if as_json:
        output.json_line({"not_bound": [user.name for user in found], "mode": policy.mode})
        return
    for user in found:
        output.show(_binds(user))
    if not found:
        click.echo("every user who may change something is bound to an address")


def _binds(user: User) -> str:
    return (
        f"{user.name} is not bound to an address: its key may be used from anywhere: "
        f"mqregistry auth user set {user.name} --from NETWORK"
    )


def _words(action: str, resources: tuple[str, ...]) -> tuple[Right, tuple[Resource, ...]]:
    try:
        places = [parse_resource(text) for text in resources if text != "*"]
        rights = {right for kind, _ in places or [(None, "")] for right in parse_rights([action], kind)}
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if len(rights) != 1:
        raise click.UsageError(f"{action!r} is several rights: {', '.join(sorted(rights))}; ask for one of them")
    return rights.pop(), tuple(Resource(kind, name) for kind, name in places if kind is not None)
