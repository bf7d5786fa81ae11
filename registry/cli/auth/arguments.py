"""Arguments and options that the commands of ``auth`` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import click

from ...auth.changes import canonical_certificate
from ...auth.rights import KINDS, Kind, Right, Role
from ...auth.users import Effect, Rule
from ...auth.words import parse_resource, parse_rights
from ...networks import canonical_network
from .. import complete_names
from ..options import together

user_argument: Final = click.argument("name", metavar="USER", shell_complete=complete_names.users)


def _each(parse: Callable[[str], str]) -> Callable[[click.Context, click.Parameter, Sequence[str]], tuple[str, ...]]:
    """The callback of an option that may be given several times."""

    def parse_all(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> tuple[str, ...]:
        try:
            return tuple(dict.fromkeys(map(parse, texts)))
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return parse_all


from_option: Final = click.option(
    "--from", "sources", multiple=True, metavar="NETWORK", callback=_each(canonical_network),
    help="Only for requests that come from this network, e.g. 10.1.0.0/16. May be given several times.",
)  # fmt: skip

# The options that describe a user, for 'auth user add' and 'auth user set'.
user_options: Final = together(
    click.option(
        "--role", "roles", multiple=True, type=click.Choice([role.value for role in Role]),
        callback=lambda _, __, texts: tuple(role for role in Role if role in texts),
        help="Rights that belong together; may be given several times.",
    ),
    click.option(
        "--certificate", "certificates", multiple=True, metavar="NAME", callback=_each(canonical_certificate),
        help="A name in the user's client certificate: URI:spiffe://..., DNS:broker-a.example or CN:broker-a.",
    ),
    click.option(
        "--network", "networks", multiple=True, metavar="NETWORK", callback=_each(canonical_network),
        help="A caller from this network that shows neither signature nor certificate is this user.",
    ),
    from_option,
)  # fmt: skip


def complete_rights(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete rights, also after a comma."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{right}" for right in (*Right, "all") if right.startswith(last)]


def complete_resources(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete kinds of resources, and after the colon their names in the registry."""
    kind, colon, name = incomplete.partition(":")
    if not colon:
        return [f"{kind}:" for kind in Kind if kind.startswith(incomplete)]
    complete = {
        "topic": complete_names.topics, "cluster": complete_names.clusters,
        "broker": complete_names.broker_names, "kv": complete_names.kv_namespaces,
    }.get(kind)  # fmt: skip
    return [f"{kind}:{found}" for found in complete(ctx, param, name)] if complete else []


def parse_rules(effect: Effect, rights: str, resources: Sequence[str], sources: tuple[str, ...]) -> list[Rule]:
    """The rules that the words of a command mean, one for each resource.

    Raises:
        click.UsageError: a word is unknown, or a needed resource is missing.
    """
    words = rights.split(",")
    try:
        if not resources:
            found = parse_rights(words, None)
            if any(KINDS[right] for right in found):
                raise click.UsageError(
                    "say on what: " + ", ".join(f"{kind}:NAME" for kind in Kind) + ", or '*' for everything"
                )
            return [Rule(effect, found, sources=sources)]
        places = [parse_resource(text) for text in resources]
        return [Rule(effect, parse_rights(words, kind), kind, pattern, sources) for kind, pattern in places]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
