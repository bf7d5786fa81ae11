"""Options that commands share, made from the table of settings, and the settings that they give."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ..config.in_force import in_force
from ..config.java_keys import KNOWN_TO_JAVA
from ..config.option import Option
from ..config.settings import Settings, options, options_by_key
from ..config.sources import build, default_data_dir
from ..errors import ConfigError, NoNamespace, RegistryError, StartError
from ..queued_output import queue_output

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _parser(option: Option) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    def parse(ctx: click.Context, param: click.Parameter, text: str | None) -> Any:
        if text is None:
            return None
        try:
            return option.parse(text)
        except ValueError:
            raise click.BadParameter(f"{text!r}: expected {option.allowed}", ctx, param) from None

    return parse


def together(*options: Callable[[Any], Any]) -> Callable[[_Function], _Function]:
    """Several options as one decorator; help has them in this order."""

    def decorate(function: _Function) -> _Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def setting_options(*names: str) -> Callable[[_Function], _Function]:
    """Flags for these settings; None where a flag is not given."""
    return together(*map(_setting_option, names))


def _setting_option(name: str) -> Callable[[Any], Any]:
    if name == "sweep":
        help_text = "Run no sweeper here, because 'mqregistry sweep' runs elsewhere. [env: MQREGISTRY_SWEEP=false]"
        return click.option("--no-sweep", name, flag_value=False, type=bool, default=None, help=help_text)
    option = options()[name]
    metavar = option.about.metavar or "|".join(option.about.choices) or name.split("_")[-1].upper()
    help_text = f"{option.about.help} [env: {option.variables[0]}]"
    return click.option(option.flag, name, default=None, metavar=metavar, callback=_parser(option), help=help_text)


config_file_option: Final = click.option(
    "-c", "--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), envvar="MQREGISTRY_CONFIG",
    help="Properties file, as a Java NameServer takes it. [env: MQREGISTRY_CONFIG]",
)  # fmt: skip
no_wait_option: Final = click.option(
    "--no-wait", is_flag=True, help="End with 253 when Redis is away at the start, instead of waiting for it."
)
print_option: Final = click.option(
    "-p", "--print-config", is_flag=True, help="Print every effective setting and its source, and end."
)
lake_option: Final = click.option(
    "--lake", default=lambda: str(default_data_dir(os.environ) / "lake"), metavar="DIR", envvar="MQREGISTRY_LAKE",
    help="Folder of the pipeline's tables. [env: MQREGISTRY_LAKE]  "
    "[default: lake in the data folder, $XDG_DATA_HOME/mqregistry or ~/.local/share/mqregistry]",
)  # fmt: skip


def also_option(more: str) -> Callable[[_Function], _Function]:
    """``--also NAMESPACE``, as ``others``; ``more``: the end of its help, about what the command does with them."""
    return click.option(
        "--also", "others", multiple=True, metavar="NAMESPACE", callback=_namespaces,
        help=f"A further namespace of the same Redis; may be repeated. {more}",
    )  # fmt: skip


def _namespaces(ctx: click.Context, param: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    parse = _parser(options()["namespace"])
    return tuple(parse(ctx, param, name) for name in names)


def _assigned(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """The callback of ``--set``: attribute -> value."""
    values = {}
    known = options_by_key()
    for text in texts:
        key, equals, value = text.partition("=")
        option = known.get(key)
        if not equals or option is None:
            import difflib  # only a mistake needs it

            closest = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {closest[0]}?" if option is None and closest else ""
            raise click.BadParameter(f"{text!r}: expected KEY=VALUE with a key that -p shows{hint}", ctx, param)
        if option.about.secret:
            raise click.BadParameter(
                f"{key} would be visible in the process list: set {option.variables[0]}, or {key}=... in a file for -c",
                ctx, param,
            )  # fmt: skip
        try:
            values[option.name] = option.parse(value)
        except ValueError:
            raise click.BadParameter(f"{text!r}: expected {option.allowed}", ctx, param) from None
    return values


set_option: Final = click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", callback=_assigned,
    help="Any other setting, by its key in the properties file (-p lists them): --set tlsServerMode=enforcing",
)  # fmt: skip


def start_settings(
    flags: Mapping[str, Any],
    config_file: Path | None,
    *,
    print_config: bool = False,
    defaults: Mapping[str, Any] | None = None,
    redis_of: Callable[[Settings], str] = lambda settings: settings.redis,
) -> Settings:
    """The settings of a command that starts something; a wrong one is a StartError. With ``-p``, print them and end.

    ``redis_of``: the URL of the Redis whose shared configuration ``-p`` shows; "" where there is none.
    """
    if not print_config:
        queue_output()
    settings = _build(flags, config_file, StartError, defaults)
    if config_file is not None:
        click.echo(f"load config properties file OK, {config_file}")
    if print_config:
        print_settings(_in_force(settings, redis_of(settings)))
        raise SystemExit(0)
    return settings


def read_settings(flags: Mapping[str, Any], config_file: Path | None) -> Settings:
    """The settings of a command that starts nothing; a wrong one is a UsageError."""
    return _build(flags, config_file, click.UsageError)


def _build(
    flags: Mapping[str, Any], config_file: Path | None, wrong: Callable[[str], Exception],
    defaults: Mapping[str, Any] | None = None,
) -> Settings:  # fmt: skip
    given = dict(flags)
    assigned = given.pop("assignments", None)
    try:
        return build(flags=given, assigned=assigned, config_file=config_file, defaults=defaults, warn=_warn)
    except ConfigError as error:
        raise wrong(str(error)) from error


def _warn(text: str) -> None:
    click.echo(f"mqregistry: warning: {text}", err=True)


def _in_force(settings: Settings, redis: str) -> Settings:
    """The settings for ``-p``, with the shared configuration if a Redis answers."""
    if not redis:
        _warn("the shared configuration is not included: no Redis is named, and none runs in the data folder")
        return in_force(settings, {})
    from ..store.snapshot import read_shared_config
    from ..store.store import open_existing

    async def read() -> dict[str, str]:
        async with open_existing(redis, settings.namespace, timeout_ms=settings.redis_timeout_ms) as store:
            return await read_shared_config(store)

    shared: dict[str, str] = {}
    try:
        shared = asyncio.run(read())
    except NoNamespace:  # no front end has served it, so nothing was set
        pass
    except RegistryError as error:
        _warn(f"the shared configuration is not included: {error}")
    return in_force(settings, shared)


def print_settings(settings: Settings) -> None:
    """Print ``key=value  (source)``, one on a line, in the order of the table; then the file's keys without effect."""
    from ..store.connection.url import without_password

    for option in options().values():
        value = getattr(settings, option.name)
        if option.name == "http_port":
            value = settings.effective_http_port
        text = option.show(value)
        if option.name == "redis":
            text = without_password(text)
        click.echo(f"{option.key}={text}  ({settings.source(option.name)})")
    for key, text in settings.without_effect.items():
        click.echo(f"{key}={text}  (no effect: {KNOWN_TO_JAVA[key].why})")
