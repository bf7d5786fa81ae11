"""Options that commands share, made from the table of settings; and the settings made from them."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from registry.config import Option, Settings, build, options, options_by_key, with_shared
from registry.errors import ConfigError, RegistryError, StartError

_Function = TypeVar("_Function", bound=Callable[..., Any])

DEFAULT_LAKE: Final = "~/.local/share/mqregistry/lake"

# Settings that are a switch on the command line: name -> (flag, what its presence means, help).
_SWITCHES: Final[Mapping[str, tuple[str, bool, str]]] = {
    "sweep": ("--no-sweep", False, "Run no sweeper here, where 'mqregistry sweep' runs. [env: MQREGISTRY_SWEEP=false]")
}


def _parser(option: Option) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    def parse(ctx: click.Context, param: click.Parameter, text: str | None) -> Any:
        if text is None:
            return None
        try:
            return option.parse(text)
        except ValueError:
            raise click.BadParameter(f"{text!r}: expected {option.allowed}", ctx, param) from None

    return parse


def setting_options(*names: str) -> Callable[[_Function], _Function]:
    """Flags for these settings; None where a flag is not given."""

    def decorate(function: _Function) -> _Function:
        for name in reversed(names):
            option = options()[name]
            help_text = f"{option.about.help} [env: {option.variables[0]}]"
            if name in _SWITCHES:
                flag, value, help_text = _SWITCHES[name]
                function = click.option(flag, name, flag_value=value, type=bool, default=None, help=help_text)(function)
                continue
            function = click.option(
                option.flag, name, default=None, metavar=_metavar(option), callback=_parser(option), help=help_text
            )(function)
        return function

    return decorate


def _metavar(option: Option) -> str:
    if option.about.choices:
        return "|".join(option.about.choices)
    return {"redis": "URL", "data_dir": "DIR", "log_file": "FILE"}.get(option.name, option.name.split("_")[-1].upper())


def config_file_option(function: _Function) -> _Function:
    """``-c``."""
    return click.option(
        "-c",
        "--config",
        "config_file",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="MQREGISTRY_CONFIG",
        help="Properties file, as a Java NameServer takes it. [env: MQREGISTRY_CONFIG]",
    )(function)


def lake_option(function: _Function) -> _Function:
    """``--lake``: where the pipeline's tables are."""
    return click.option(
        "--lake",
        default=DEFAULT_LAKE,
        metavar="DIR",
        envvar="MQREGISTRY_LAKE",
        show_default=True,
        help="Folder (or URI: s3a, hdfs, ...) of the pipeline's tables. [env: MQREGISTRY_LAKE]",
    )(function)


def spark_options(function: _Function) -> _Function:
    """``--master`` and ``--driver-memory``, of every command that starts Spark."""
    function = click.option(
        "--driver-memory", default="2g", show_default=True, metavar="SIZE", help="Memory of Spark's driver."
    )(function)
    return click.option(
        "--master",
        default="local[*]",
        show_default=True,
        metavar="MASTER",
        help="Where Spark runs: local[N], spark://HOST:PORT, k8s://... (under spark-submit its own --master counts).",
    )(function)


def set_option(function: _Function) -> _Function:
    """``--set KEY=VALUE``: every setting that has no flag of its own."""
    return click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_assigned,
        help="Any other setting, by its key in the properties file (-p lists them): --set tlsServerMode=enforcing",
    )(function)


def _assigned(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """Attribute -> value."""
    values = {}
    known = options_by_key()
    for text in texts:
        key, equals, value = text.partition("=")
        option = known.get(key)
        if not equals or option is None:
            closest = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {closest[0]}?" if option is None and closest else ""
            raise click.BadParameter(f"{text!r}: expected KEY=VALUE with a key that -p shows{hint}", ctx, param)
        if option.about.secret:
            raise click.BadParameter(
                f"{key} would stand in the process list: set {option.variables[0]}, or {key}=... in a file for -c",
                ctx, param,
            )  # fmt: skip
        try:
            values[option.name] = option.parse(value)
        except ValueError:
            raise click.BadParameter(f"{text!r}: expected {option.allowed}", ctx, param) from None
    return values


def print_option(function: _Function) -> _Function:
    """``-p``."""
    return click.option(
        "-p", "--print-config", is_flag=True, help="Print every effective setting and its source, and end."
    )(function)


def start_settings(
    flags: Mapping[str, Any],
    config_file: Path | None,
    *,
    print_config: bool = False,
    defaults: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings of a command that starts something; ends the process after ``-p``.

    Raises:
        StartError: a setting is wrong.
    """
    given = dict(flags)
    assigned = given.pop("assignments", None)
    try:
        settings = build(flags=given, assigned=assigned, config_file=config_file, defaults=defaults, warn=_warn)
    except ConfigError as error:
        raise StartError(str(error)) from error
    if config_file is not None:
        click.echo(f"load config properties file OK, {config_file}")
    if print_config:
        print_settings(_with_shared(settings))
        raise SystemExit(0)
    return settings


def read_settings(flags: Mapping[str, Any], config_file: Path | None) -> Settings:
    """The settings of a command that only looks.

    Raises:
        click.UsageError: a setting is wrong.
    """
    try:
        return build(flags=flags, config_file=config_file, warn=_warn)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def _warn(text: str) -> None:
    click.echo(f"mqregistry: warning: {text}", err=True)


def _with_shared(settings: Settings) -> Settings:
    """For -p: with what Redis has, if it answers."""
    if not settings.redis:
        return settings
    from registry.cli.reads import read_config

    try:
        return with_shared(settings, asyncio.run(read_config(settings)))
    except RegistryError as error:
        _warn(f"the shared configuration is not among these: {error}")
        return settings


def print_settings(settings: Settings) -> None:
    """``key=value  (source)``, one a line, in the order of the table."""
    from registry.store.address import without_password

    for option in options().values():
        value = getattr(settings, option.name)
        if option.name == "http_port":
            value = settings.effective_http_port
        text = option.show(value)
        if option.name == "redis":
            with contextlib.suppress(ValueError):  # a broken URL is shown as it is: it never worked
                text = without_password(text)
        click.echo(f"{option.key}={text}  ({settings.source(option.name)})")
