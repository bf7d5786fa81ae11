"""``redis-cli``: Redis's own command line on the Redis that holds the tables, wherever that is."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import click

from ...store.connection.blocking import open_blocking_client
from ...store.connection.errors import mapped_errors
from ...store.connection.url import RedisAddress, parse_url
from ..options import config_file_option, setting_options
from ..target import find_target

_TLS_FILES: Final = (("ssl_ca_certs", "--cacert"), ("ssl_certfile", "--cert"), ("ssl_keyfile", "--key"))


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@setting_options("redis")
@config_file_option
def redis_cli(arguments: tuple[str, ...], config_file: Path | None, **flags: Any) -> None:
    """Run redis-cli on the Redis that holds the tables: that of the 'up' that runs here, or of --redis.

    ARGUMENTS go to redis-cli as they are, without any it asks for commands. Where redis-cli is not installed, one
    command is sent without it, and its reply is shown as redis-cli would.

    \b
    mqregistry redis-cli SMEMBERS 'mq:{default}:brokers'
    """  # noqa: D301 (\\b is for click)
    settings = find_target(flags, config_file)
    address = parse_url(settings.redis)
    program = find_redis_cli()
    if program is not None:
        options, password = connection_options(address, settings.redis_timeout_ms)
        environment = dict(os.environ) | ({"REDISCLI_AUTH": password} if password else {})
        sys.stdout.flush()
        os.execve(program, [program, *options, *arguments], environment)
    if not arguments or arguments[0].startswith("-"):
        raise click.ClickException("redis-cli is not installed here: give one Redis command, without options")
    with mapped_errors(arguments[0]):
        client = open_blocking_client(address, timeout_ms=settings.redis_timeout_ms, raw=[arguments[0].upper()])
        try:
            reply = client.execute_command(*arguments)
        finally:
            client.close()
    click.echo("\n".join(reply_lines(reply)))


def find_redis_cli() -> str | None:
    """The path of a redis-cli: beside this Python, as in a virtual environment, else on PATH."""
    beside = Path(sys.executable).parent
    return shutil.which("redis-cli", path=str(beside)) or shutil.which("redis-cli")


def connection_options(address: RedisAddress, timeout_ms: int) -> tuple[list[str], str]:
    """What redis-cli needs to reach this Redis.

    Args:
        timeout_ms: of the question to the Sentinels, which name the master.

    Returns:
        options of redis-cli, and the password, which belongs into its environment: other users of the machine see
        a program's arguments.

    Raises:
        StoreUnavailable: no Sentinel answers.
    """
    parts, login = urlsplit(address.url), address.login
    options = dict(parse_qsl(parts.query))
    database = str(address.database)
    if address.form == "sentinel":
        with mapped_errors("asking the Sentinels for the master"):
            client = open_blocking_client(address, timeout_ms=timeout_ms)
            host, port = client.connection_pool.get_master_address()
        found = ["-h", str(host), "-p", str(port)]
    elif address.form == "cluster":
        host, port = address.hosts[0]
        found = ["-c", "-h", host, "-p", str(port)]
    elif parts.scheme == "unix":
        found, database = ["-s", unquote(parts.path)], options.get("db", "0")
    else:
        found = ["-h", parts.hostname or "localhost", "-p", str(parts.port or 6379)]
        database = parts.path.strip("/") or options.get("db", "0")
    if database != "0":
        found += ["-n", database]
    if parts.username:
        found += ["--user", unquote(parts.username)]
    if parts.scheme.startswith("rediss"):
        found.append("--tls")
        found += [part for key, flag in _TLS_FILES if key in options for part in (flag, options[key])]
        found += ["--insecure"] if options.get("ssl_cert_reqs") == "none" else []
    return found, unquote(parts.password) if parts.password else str(login.get("password") or "")


def reply_lines(reply: Any) -> Iterator[str]:
    """A reply as redis-cli shows it on a terminal: texts quoted, so that no byte of a key or value acts on it."""
    if isinstance(reply, list | tuple):
        if not reply:
            yield "(empty array)"
        width = len(str(len(reply)))
        for number, item in enumerate(reply, 1):
            mark = f"{number:>{width}}) "
            for line, text in enumerate(reply_lines(item)):
                yield (" " * len(mark) if line else mark) + text
    elif reply is None:
        yield "(nil)"
    elif isinstance(reply, int):
        yield f"(integer) {reply}"
    elif isinstance(reply, bytes):
        yield '"' + "".join(_shown(character) for character in reply.decode("utf-8", "surrogateescape")) + '"'
    else:
        yield str(reply)


def _shown(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character if character.isprintable() else character.encode("unicode_escape").decode()
