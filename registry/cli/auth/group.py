"""``auth``: the group of the commands about who may do what."""

from __future__ import annotations

import click

from ..lazy_group import LazyGroup


@click.group(
    cls=LazyGroup,
    words="auth",
    modules={
        name: f"mqregistry.cli.auth.{name}" for name in ("mode", "user", "secret", "allow", "deny", "observe", "check")
    }
    | {"import": "mqregistry.cli.auth.import_"},
)
def auth() -> None:
    """Who may do what at the name server: users, their secrets and rules, and whether rules are enforced.

    These commands need a Redis login that may use the keys mqauth:*, as the login of front ends.
    """
