"""``redis-cli``: runs Redis's own command line on the Redis that holds the tables."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import click

from ...store.connection.blocking import open_blocking_client
from ...store.connection.errors import mapped_errors
from ...store.connection.url import RedisAddress, parse_url
from ..options import config_file_option, setting_options
from ..target import find_target

_QUOTED: Final = {ord(char): "\\" + shown for char, shown in zip('\\"\n\r\t\a\b', '\\"nrtab', strict=True)}
_TEXTS: Final = frozenset({
    ("CLIENT", "LIST"), ("CLIENT", "INFO"), ("CLUSTER", "NODES"), ("CLUSTER", "INFO"), ("LATENCY", "DOCTOR"),
    ("LATENCY", "GRAPH"), ("MEMORY", "DOCTOR"), ("MEMORY", "MALLOC-STATS"),
})  # fmt: skip
_STATUS: Final = ("PING", "TYPE")
_TLS_FILES: Final = (("ssl_ca_certs", "--cacert"), ("ssl_certfile", "--cert"), ("ssl_keyfile", "--key"))


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@setting_options("redis")
@config_file_option
def redis_cli(arguments: tuple[str, ...], config_file: Path | None, **flags: Any) -> None:
    """Run redis-cli on the Redis that holds the tables: the one of the 'up' that runs here, or of --redis.

    ARGUMENTS go to redis-cli unchanged; without ARGUMENTS it asks for commands. If redis-cli is not installed, this
    sends one command by itself (or --scan, with --pattern and --count, or --eval), and shows the reply as redis-cli
    does.

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
    words = _without_redis_cli(arguments)
    with mapped_errors(words.command[0] if words.command else "SCAN"):
        client = open_blocking_client(
            address, timeout_ms=settings.redis_timeout_ms, raw=[word.upper() for word in words.command[:1]]
        )
        try:
            if words.scans:
                for key in client.scan_iter(match=words.pattern, count=words.at_a_time):
                    click.echo(key if words.is_raw else quoted(key))
            else:
                reply = client.execute_command(*words.command)
                if words.is_raw or is_text(words.command):
                    click.echo(raw_reply(reply))
                elif reply == b"OK" or words.command[0].upper() in _STATUS:
                    click.echo(reply)
                else:
                    click.echo("\n".join(reply_lines(reply)))
        finally:
            client.close()


class _Words(NamedTuple):
    """The parsed arguments, where redis-cli is missing. command: a Redis command with its arguments; () for --scan."""

    command: tuple[str, ...]
    is_raw: bool
    scans: bool = False
    pattern: str | None = None
    at_a_time: int = 10


def _without_redis_cli(arguments: tuple[str, ...]) -> _Words:
    """Parse the few supported options of redis-cli, and the command after them."""
    is_raw, left = not sys.stdout.isatty(), list(arguments)
    scans, pattern, count = False, None, 10
    while left and left[0].startswith("-"):
        match option := left.pop(0):
            case "--raw" | "--no-raw":
                is_raw = option == "--raw"
            case "--scan":
                scans = True
            case "--eval" if left and not scans:
                return _Words(_script(*left), is_raw)
            case "--pattern" if left:
                pattern = left.pop(0)
            case "--count" if left and left[0].isdecimal():
                count = int(left.pop(0))
            case _:
                raise click.ClickException(
                    f"redis-cli is not installed here, and {option} needs it: give one Redis command, "
                    "or --scan [--pattern PATTERN] [--count N], or --eval FILE KEY... , ARG...; --raw, --no-raw"
                )
    if scans == bool(left):
        raise click.ClickException(
            "redis-cli is not installed here: give one Redis command, or --scan [--pattern PATTERN]"
        )
    return _Words(tuple(left), is_raw, scans, pattern, count)


def _script(file: str, *words: str) -> tuple[str, ...]:
    """The ``EVAL`` command for ``--eval``: the file of a script, keys, a comma, arguments."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error
    at = words.index(",") if "," in words else len(words)
    return ("EVAL", text, str(at), *words[:at], *words[at + 1 :])


def is_text(command: Sequence[str]) -> bool:
    """Whether the reply is a text for people, which redis-cli prints as it is."""
    words = tuple(word.upper() for word in command[:2])
    return words[0] in ("INFO", "LOLWUT") or words in _TEXTS


def raw_reply(reply: Any) -> bytes:
    """A reply as redis-cli shows it to a program: each value on a line, unchanged."""
    if isinstance(reply, list | tuple):
        return b"\n".join(map(raw_reply, reply))
    if reply is None:
        return b""
    return reply if isinstance(reply, bytes) else str(reply).encode()


def find_redis_cli() -> str | None:
    """The path of redis-cli: in the folder of this Python (a virtual environment), else on PATH."""
    beside = Path(sys.executable).parent
    return shutil.which("redis-cli", path=str(beside)) or shutil.which("redis-cli")


def connection_options(address: RedisAddress, timeout_ms: int) -> tuple[list[str], str]:
    """What redis-cli needs to reach this Redis.

    Args:
        timeout_ms: the longest wait for a Sentinel, which names the master.

    Returns:
        options of redis-cli, and the password for its environment: other users of the machine see its arguments.

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
    """A reply as redis-cli shows it on a terminal: texts are quoted, so that no byte of them controls the terminal."""
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
        yield quoted(reply)
    else:
        yield str(reply)


def quoted(text: bytes) -> str:
    """A text as redis-cli shows it: between quotes, with escapes for bytes that are not printable ASCII."""
    return (
        '"' + "".join(_QUOTED.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in text) + '"'
    )
