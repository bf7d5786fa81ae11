"""Options of commands that speak TLS to name servers."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from .options import together

_FILE: Final = click.Path(path_type=Path, dir_okay=False, exists=True)

_OPTIONS: Final = together(
    click.option("--tls", is_flag=True, help="TLS, without checking the name server's certificate."),
    click.option("--tls-ca", type=_FILE, metavar="FILE",
                 help="TLS; a CA in this file must have signed the name server's certificate (PEM)."),
    click.option("--tls-cert", type=_FILE, metavar="FILE", help="TLS; show name servers this certificate (PEM)."),
    click.option("--tls-key", type=_FILE, metavar="FILE", help="The key of --tls-cert, unless it is in that file."),
)  # fmt: skip


def tls_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--tls``, ``--tls-ca``, ``--tls-cert`` and ``--tls-key``; the command is called with ``tls``: an SSLContext,
    or None.
    """

    @functools.wraps(function)
    def with_context(
        *arguments: Any, tls: bool, tls_ca: Path | None, tls_cert: Path | None, tls_key: Path | None, **options: Any
    ) -> Any:
        return function(*arguments, tls=client_context(tls, tls_ca, tls_cert, tls_key), **options)

    return _OPTIONS(with_context)


def client_context(tls: bool, ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Make the context that the options ask for; None: no TLS.

    Like Java's clients, it does not check the name in a certificate, as most name servers are given by address.

    Raises:
        click.UsageError: a file that is not what its option needs.
    """
    if key is not None and cert is None:
        raise click.UsageError(f"--tls-key {key}: say which certificate it belongs to, with --tls-cert FILE")
    if not tls and ca is None and cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if ca is None:
        context.verify_mode = ssl.CERT_NONE
    else:
        try:
            context.load_verify_locations(ca)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise click.UsageError(
                f"--tls-ca {ca}: {_reason(error)}; expected PEM: -----BEGIN CERTIFICATE-----"
            ) from error
    if cert is not None:
        try:
            # Without a password, openssl would ask for one at the terminal.
            context.load_cert_chain(cert, key, password="")
        except (OSError, ValueError) as error:
            raise click.UsageError(
                f"--tls-cert {cert}{f' --tls-key {key}' if key else ''}: {_reason(error)}; expected a PEM certificate "
                "and the PEM key that belongs to it, not encrypted"
            ) from error
    return context


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
