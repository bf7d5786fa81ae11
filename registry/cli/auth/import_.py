"""``auth import``: makes users from RocketMQ's own access lists."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import click
import msgspec

from ...auth import changes
from ...auth.plain_acl import BadFile, read_list
from ...auth.policy import Policy
from ...auth.users import User
from ...names import printable
from ...store.auth.policies import PolicyStore, new_secret
from ...store.snapshot import read_head
from ...store.store import Store
from .. import output
from ..target import target_command


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@target_command
async def import_(store: Store, file: Path, dry_run: bool, as_json: bool) -> None:
    """Make the users of FILE, all or none. FILE: a broker's plain_acl.yml, or 'users' and 'acls' in words of ACL 2.0.

    A user that exists already stays as it is, so a second import changes nothing. Notes name what cannot be imported.
    """
    try:
        listed = read_list(_decode(file))
    except BadFile as error:
        raise click.ClickException(f"{file}: {error}") from error
    now_ms = (await read_head(store)).now_ms
    users = [
        User(one.name, one.enabled, one.roles, one.rules, (new_secret(now_ms, one.secret),) if one.secret else ())
        for one in listed.accounts
    ]

    def add(policy: Policy) -> Policy:
        for user in users:
            if user.name not in policy.users:
                policy = changes.add_user(policy, user)
                for secret in user.secrets:
                    changes.check_given_key(secret.key, f"user {user.name!r}: ")
        return policy

    policies = PolicyStore(store)
    before = await policies.read()
    if dry_run:
        add(before)
    else:
        await policies.change(add)
    added = [user for user in users if user.name not in before.users]
    there = [user.name for user in users if user.name in before.users]
    if as_json:
        output.json_page({"dry_run": dry_run, "added": [user.name for user in added], "there_already": there,
                          "notes": listed.notes})  # fmt: skip
        return
    lines = [f"{user.name}: {_what(user)}" for user in added]
    lines += [f"{name}: exists already, not changed" for name in there]
    output.show(*lines, f"{len(added)} {'would be ' if dry_run else ''}added, {len(there)} there already")
    for note in listed.notes:
        click.echo(printable(f"note: {note}"), err=True)


def _what(user: User) -> str:
    facts = [*user.roles, *map(changes.rule_text, user.rules), *([] if user.enabled else ["disabled"])]
    return "; ".join((*facts, "with a secret" if user.secrets else "without a secret"))


def _decode(file: Path) -> Any:
    """The contents of a YAML or JSON file. YAML's scalars stay texts, so that a secret of digits is no number.

    Raises:
        BadFile: it is neither. The message does not quote the file, which holds secrets.
    """
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".json":
            return msgspec.json.decode(text)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise BadFile(f"it cannot be read: {error}") from None
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise BadFile(
            "YAML needs a library: pip install 'mqregistry[yaml]', or write the file as JSON (.json)"
        ) from None
    try:
        return yaml.load(text, yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        line = f" (line {error.problem_mark.line + 1})" if error.problem_mark else ""
        raise BadFile(f"it is no YAML: {error.problem}{line}") from None
    except yaml.YAMLError:
        raise BadFile("it is no YAML") from None
