"""``auth user``: the users, and how each proves that a request is its own."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from ...auth import changes
from ...auth.rights import Kind, Right, Role
from ...auth.users import Effect, Rule, User
from ...store.auth.policies import PolicyStore
from ...store.auth.refusals import read_last_use
from ...store.snapshot import read_head
from ...store.store import Store
from .. import complete_names, output
from ..target import target_command
from .arguments import user_argument, user_options
from .secret import age, secret_rows

_LISTS = ("roles", "certificates", "networks", "from")


@click.group()
def user() -> None:
    """Make, show and change users. The name of a user is also the AccessKey that its requests are signed with."""


@user.command()
@click.argument("name", metavar="USER")
@user_options
@click.option("--cluster", "clusters", multiple=True, metavar="PATTERN", shell_complete=complete_names.clusters,
              help="With --role broker: the cluster that it may register in.")  # fmt: skip
@click.option("--broker", "brokers", multiple=True, metavar="PATTERN", shell_complete=complete_names.broker_names,
              help="With --role broker: the brokerName that it may register as.")  # fmt: skip
@target_command
async def add(
    store: Store, name: str, clusters: tuple[str, ...], brokers: tuple[str, ...], as_json: bool, **fields: Any
) -> None:
    """Make USER. After that, 'auth secret add' gives it a secret.

    A broker: mqregistry auth user add broker-a --role broker --cluster c1 --broker broker-a
    """
    is_broker = Role.BROKER in fields["roles"]
    if is_broker != bool(clusters and brokers) or (not is_broker and (clusters or brokers)):
        raise click.UsageError(
            "a broker may register only itself: --role broker needs --cluster and --broker, both need --role broker"
        )
    rules = [Rule(Effect.ALLOW, (Right.REGISTER,), Kind.CLUSTER, pattern) for pattern in clusters]
    rules += [Rule(Effect.ALLOW, (Right.REGISTER,), Kind.BROKER, pattern) for pattern in brokers]
    made = User(name, rules=tuple(dict.fromkeys(rules)), **fields)
    policy = await PolicyStore(store).change(lambda policy: changes.add_user(policy, made))
    output.answer(as_json, user_json(policy.users[name]), f"{name}: added")
    if not (as_json or made.certificates or made.networks):
        click.echo(f"give it a secret: mqregistry auth secret add {name}", err=True)


@user.command("set")
@user_argument
@user_options
@click.option("--clear", multiple=True, type=click.Choice(_LISTS), help="Remove all values of this kind from the user.")
@target_command
async def set_(store: Store, name: str, clear: tuple[str, ...], as_json: bool, **fields: Any) -> None:
    """Change USER. Each given option replaces all values that the user had for it."""
    given: dict[str, Any] = {key: value for key, value in fields.items() if value}
    for key in clear:
        field = "sources" if key == "from" else key
        if field in given:
            raise click.UsageError(f"--clear {key}: another option sets them")
        given[field] = ()
    if not given:
        raise click.UsageError("say what to change: --role, --certificate, --network, --from or --clear")
    await _edit(store, name, as_json, "changed", **given)


@user.command()
@user_argument
@target_command
async def enable(store: Store, name: str, as_json: bool) -> None:
    """Accept requests of USER again, after 'disable'."""
    await _edit(store, name, as_json, "enabled", enabled=True)


@user.command()
@user_argument
@target_command
async def disable(store: Store, name: str, as_json: bool) -> None:
    """Refuse everything that USER asks for, and close its connections; its secrets and rules stay."""
    await _edit(store, name, as_json, "disabled", enabled=False)


async def _edit(store: Store, name: str, as_json: bool, done: str, **fields: Any) -> None:
    policy = await PolicyStore(store).change(
        lambda policy: changes.edit_user(policy, name, lambda user: msgspec.structs.replace(user, **fields))
    )
    output.answer(as_json, user_json(policy.users[name]), f"{name}: {done}")


@user.command()
@user_argument
@target_command
async def remove(store: Store, name: str, as_json: bool) -> None:
    """Remove USER with its secrets and rules."""
    await PolicyStore(store).change(lambda policy: changes.remove_user(policy, name))
    output.answer(as_json, {"name": name, "removed": True}, f"{name}: removed")


@user.command("list")
@target_command
async def list_(store: Store, as_json: bool) -> None:
    """Show every user that the registry knows."""
    policy = await PolicyStore(store).read()
    used = await read_last_use(store)
    now_ms = (await read_head(store)).now_ms
    users = [policy.users[name] for name in sorted(policy.users)]
    output.listing(
        as_json, [user_json(one, used) for one in users], ("USER", "STATE", "ROLES", "RULES", "KNOWN BY", "SIGNED"),
        (
            (one.name, _state(one), ", ".join(one.roles), len(one.rules) or "", _known_by(one),
             age(now_ms, max((used.get(secret.id, 0) for secret in one.secrets), default=0)))
            for one in users
        ),
        right=("RULES",), none="there is no user: mqregistry auth user add NAME --role admin makes the first",
    )  # fmt: skip


@user.command()
@user_argument
@target_command
async def show(store: Store, name: str, as_json: bool) -> None:
    """Show USER: its rules, and how it proves who it is; of its secrets only the ids."""
    found = changes.find_user(await PolicyStore(store).read(), name)
    used = await read_last_use(store)
    if as_json:
        output.json_page(user_json(found, used))
        return
    now_ms = (await read_head(store)).now_ms
    facts = [("user", found.name), ("state", _state(found)), ("roles", ", ".join(found.roles) or "none")]
    facts += [("rule", changes.rule_text(rule)) for rule in found.rules]
    facts += [
        ("secret", f"{secret_id}, made {made}" + (f", last used {last}" if last else ", never used"))
        for _, secret_id, made, last in secret_rows([found], used, now_ms)
    ]
    facts += [("certificate", one) for one in found.certificates]
    facts += [("network", one) for one in found.networks]
    facts += [("from", one) for one in found.sources]
    output.show(*(f"{label:<12}{value}" for label, value in facts))


def user_json(user: User, used: dict[str, int] | None = None) -> dict[str, Any]:
    """A user as JSON, without the secrets themselves."""
    return {
        "name": user.name, "enabled": user.enabled, "roles": user.roles, "rules": user.rules,
        "secrets": [
            {"id": secret.id, "created_ms": secret.created_ms, "last_used_ms": (used or {}).get(secret.id)}
            for secret in user.secrets
        ],
        "certificates": user.certificates, "networks": user.networks, "from": user.sources,
    }  # fmt: skip


def _state(user: User) -> str:
    return "enabled" if user.enabled else "disabled"


def _known_by(user: User) -> str:
    facts = [f"{len(user.secrets)} secret{'s' if len(user.secrets) > 1 else ''}"] if user.secrets else []
    return ", ".join((*facts, *user.certificates, *user.networks))
