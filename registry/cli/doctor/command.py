"""``doctor``: runs all checks of Redis, this machine and the registry, and shows what they found."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from ...config.settings import DEFAULT, Settings
from ...errors import ConfigError
from ...store.connection.fitness import Finding, State
from .. import FAILED, output
from ..options import config_file_option, read_settings, set_option, setting_options
from ..run.state_files import find_running
from . import machine
from .registry import registry_findings

_ORDER: Final[tuple[State, ...]] = ("wrong", "warning", "ok")


@click.command()
@setting_options("redis", "namespace", "bind_address", "listen_port", "http_port", "compat")
@set_option
@config_file_option
@click.option("--pipeline", is_flag=True, help="Also look for what 'mqregistry pipeline' needs: packages, and Java.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
def doctor(config_file: Path | None, pipeline: bool, as_json: bool, **flags: Any) -> None:
    """Check Redis, this machine and the registry: say what is wrong, and what to do.

    Run it on the machine of a front end, with the options, environment and file that 'mqregistry serve' gets. If they
    name no Redis, it checks the 'mqregistry up' that runs here. It changes nothing.

    Ends with 1 when something is wrong; with 0 when all is ok, or there are only warnings.
    """
    settings = _target(read_settings(flags, config_file))
    findings = [machine.release(), machine.open_files(settings), *machine.tls(settings)]
    here: set[int] = set()
    if settings.redis:
        try:
            of_registry, here = asyncio.run(registry_findings(settings))
        except ConfigError as error:  # the URL is wrong
            raise click.UsageError(str(error)) from error
        findings += of_registry
    else:
        findings.append(machine.embedded_server())
    findings += machine.ports(settings, here)
    if pipeline:
        findings += machine.pipeline()
    worst = next(state for state in _ORDER if any(finding.state == state for finding in findings))
    if as_json:
        output.json_page({"state": worst, "findings": findings})
    else:
        _show(findings)
    if worst == "wrong":
        raise SystemExit(FAILED)


def _target(settings: Settings) -> Settings:
    """The settings; with Redis, namespace and ports of the ``up`` that runs here, unless they name another Redis."""
    running = [one for one in find_running() if settings.redis in ("", one.redis)]
    if not running:
        return settings
    one = next((one for one in running if one.kind == "up"), running[0])
    found = {"redis": one.redis, "namespace": one.namespace, "bind_address": one.host, "listen_port": one.port,
             "http_port": one.http_port}  # fmt: skip
    given = {name: value for name, value in found.items() if settings.source(name) == DEFAULT}
    return msgspec.structs.replace(settings, **given)


def _show(findings: list[Finding]) -> None:
    checks = max(len(finding.check) for finding in findings)
    for finding in findings:
        begin = f"{finding.state:7}  {finding.check:{checks}}  "
        output.show(begin + finding.found)
        for what, text in (("expected", finding.expected), ("to do", finding.advice)):
            if text:
                output.show(f"{'':{len(begin)}}{what}: {text}")
    counts = {state: sum(finding.state == state for finding in findings) for state in _ORDER}
    click.echo(", ".join(f"{count} {state}" for state, count in counts.items()))
