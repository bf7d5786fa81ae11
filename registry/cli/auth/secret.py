"""``auth secret``: secrets that users sign with. A secret is shown once. No command takes a secret as an argument."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping

import click

from ...auth import changes
from ...auth.users import User
from ...store.auth.policies import PolicyStore, new_secret
from ...store.auth.refusals import read_last_use
from ...store.snapshot import read_head
from ...store.store import Store
from .. import complete_names, output
from ..target import target_command
from .arguments import user_argument


@click.group()
def secret() -> None:
    """Give users secrets, take them away, and see which are in use. A user has at most two: an old and a new one."""


@secret.command()
@user_argument
@click.option("--stdin", is_flag=True, help="Take the secret from stdin instead of making one.")
@target_command
async def add(store: Store, name: str, stdin: bool, as_json: bool) -> None:
    """Make a secret for USER and print it. It is never shown again.

    An older secret of the user stays valid until 'auth secret drop'.
    """
    given = _read_secret() if stdin else None
    if given is not None:
        changes.check_given_key(given)
    made = new_secret((await read_head(store)).now_ms, given)
    policy = await PolicyStore(store).change(lambda policy: changes.add_secret(policy, name, made))
    others = [one.id for one in policy.users[name].secrets if one.id != made.id]
    if as_json:
        output.json_line({"user": name, "id": made.id} | ({} if stdin else {"secret": made.key}))
        return
    if not stdin:
        click.echo(made.key)
    kept = f"; {others[0]} stays valid until: mqregistry auth secret drop {name} {others[0]}" if others else ""
    click.echo(f"secret {made.id} of {name}{'' if stdin else ', not shown again'}{kept}", err=True)


def _read_secret() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("secret", hide_input=True, err=True))
    return sys.stdin.readline().rstrip("\r\n")


@secret.command()
@user_argument
@click.argument("secret_id", metavar="ID", shell_complete=complete_names.secret_ids)
@target_command
async def drop(store: Store, name: str, secret_id: str, as_json: bool) -> None:
    """Take the secret ID from USER: requests signed with it are refused from now on."""
    await PolicyStore(store).change(lambda policy: changes.drop_secret(policy, name, secret_id))
    output.answer(as_json, {"user": name, "id": secret_id, "dropped": True}, f"secret {secret_id} of {name}: dropped")


@secret.command("list")
@click.argument("name", metavar="[USER]", required=False, shell_complete=complete_names.users)
@target_command
async def list_(store: Store, name: str | None, as_json: bool) -> None:
    """Show the ids of secrets, and when each was last used."""
    policy = await PolicyStore(store).read()
    users = [policy.users[one] for one in sorted(policy.users)] if name is None else [changes.find_user(policy, name)]
    used = await read_last_use(store)
    now_ms = (await read_head(store)).now_ms
    told = [
        {"user": user.name, "id": one.id, "created_ms": one.created_ms, "last_used_ms": used.get(one.id)}
        for user in users for one in user.secrets
    ]  # fmt: skip
    output.listing(
        as_json, told, ("USER", "ID", "MADE", "LAST USED"), secret_rows(users, used, now_ms),
        none="there is no secret: mqregistry auth secret add USER makes one",
    )  # fmt: skip


def secret_rows(users: Iterable[User], used: Mapping[str, int], now_ms: int) -> Iterator[tuple[str, str, str, str]]:
    """User, id, age and last use of every secret."""
    for user in users:
        for one in user.secrets:
            yield user.name, one.id, age(now_ms, one.created_ms), age(now_ms, used.get(one.id, 0))


def age(now_ms: int, ms: int) -> str:
    """How long ago ``ms`` was; "" if it is 0, which stands for "never"."""
    return f"{output.duration(max(0, now_ms - ms))} ago" if ms else ""
