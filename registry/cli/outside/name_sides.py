"""Reads the arguments of ``compare``: which sides they name."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final, NamedTuple

import click

from ...client.addresses import NameServerAddresses
from ...errors import ConfigError
from ...operators.instants import parse_instant
from ...store.connection.url import parse_url, without_password
from ..options import read_settings
from .sides import NameServerSide, RedisSide, Side, TablesSide

EXPECTED: Final = (
    "a side is host:port or host:port;host:port (each server is a side), redis://host:port[/db][#namespace] (also "
    "rediss, unix, redis+sentinel, redis+cluster), or lake@TIME[#namespace] with a TIME such as 14:03 or -2h"
)
_LAKE: Final = "lake@"


class Ways(NamedTuple):
    """How sides are reached. ``namespace``: for a side without #NAME; None: the namespace in the settings."""

    timeout_s: float
    tls: ssl.SSLContext | None
    namespace: str | None
    lake: str
    config_file: Path | None


async def find_sides(arguments: tuple[str, ...], ways: Ways) -> list[Side]:
    """The sides that the arguments name; each server of an address list is a side.

    Raises:
        click.UsageError: an argument is no side, or there are fewer than two sides, or one is named twice.
        PeerUnavailable: a name cannot be looked up. LakeError: the lake does not know that instant.
    """
    sides: list[Side] = []
    for argument in arguments:
        try:
            sides += await _sides(argument, ways)
        except (ConfigError, ValueError) as error:
            raise click.UsageError(f"{_shown(argument)}: {error}\n{EXPECTED}") from error
    names = [side.name for side in sides]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise click.UsageError(f"{twice} is named twice: name different sides")
    if len(sides) < 2:
        raise click.UsageError(f"{len(sides)} side to compare: name at least two; {EXPECTED}")
    return sides


async def _sides(argument: str, ways: Ways) -> list[Side]:
    rest, hash_, named = argument.partition("#")
    is_lake = argument.startswith(_LAKE)
    if is_lake or ("://" in argument and not argument.startswith(("http://", "https://"))):
        settings = read_settings({"namespace": (named if hash_ else None) or ways.namespace}, ways.config_file)
        namespace = settings.namespace
        if is_lake:
            from ..read.lake_tables import read_tables_at

            at_ms = parse_instant(rest.removeprefix(_LAKE))
            tables = read_tables_at(at_ms, ways.lake, {"namespace": namespace}, ways.config_file)
            return [TablesSide(f"{rest}#{namespace}", tables, settings.compat)]
        parse_url(rest)
        name = f"{without_password(rest)}#{namespace}"
        return [RedisSide(rest, namespace, name, timeout_ms=round(ways.timeout_s * 1000))]
    return [
        NameServerSide(address, timeout_s=ways.timeout_s, tls=ways.tls)
        for address in await NameServerAddresses(argument).refresh()
    ]


def _shown(argument: str) -> str:
    is_url = "://" in argument and not argument.startswith(("http://", "https://", _LAKE))
    return without_password(argument) if is_url or "@" in argument else argument
