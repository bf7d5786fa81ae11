"""Makes the TLS context of new connections from the settings, and reloads it when certificate files change.

As in Java, the certificate and key are reloaded once both have changed, trusted certificates when they change.
Open connections keep the context that they started with.

A deliberate difference: Java's test mode is on by default, and uses a self-signed certificate even if a certificate is
configured. Here the test mode is off by default, and a configured certificate is used; without one, a client that wants
TLS is refused and the log says what to set.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from ...config import properties
from ...config.settings import Settings, options
from ...errors import RemoteProtocolError, StartError
from .x509 import CertificateId, end_of_certificates, end_of_lists, revoked_in

logger = logging.getLogger(__name__)

WATCH_S: Final = 1.0

# Names in RocketMQ's TLS properties file -> settings.
JAVA_NAMES: Final[Mapping[str, str]] = {
    "tls.server.certPath": "tls_server_cert_path",
    "tls.server.keyPath": "tls_server_key_path",
    "tls.server.keyPassword": "tls_server_key_password",
    "tls.server.trustCertPath": "tls_server_trust_cert_path",
    "tls.server.need.client.auth": "tls_server_need_client_auth",
    "tls.server.authClient": "tls_server_auth_client",
    "tls.test.mode.enable": "tls_test_mode_enable",
}
# As in Java, these have no effect in the file. Java reads them from system properties.
_NOT_IN_FILE: Final = {"tls.server.mode": "tlsServerMode", "tls.config.file": "tlsConfigFile"}
_OF_CLIENTS: Final = ("tls.client.", "tls.enable")
_OPENSSL_S: Final = 20


class TlsFiles(NamedTuple):
    """The settings that a TLS context is made from, named as in Settings without ``tls_server_``."""

    cert_path: str = ""
    key_path: str = ""
    key_password: str = ""
    trust_cert_path: str = ""
    crl_path: str = ""
    need_client_auth: str = "none"
    auth_client: bool = False


Stamp = tuple[int, int, int]
"""Identifies one state of a file: it differs after the file is written or replaced."""


def stamp(path: str) -> Stamp:
    """Read the current stamp of a file; OSError: the file is not there, or may not be read."""
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size, status.st_ino


class Tls:
    """Decides whether and how new connections of this worker use TLS.

    Raises:
        StartError: settings contradict each other, or a file cannot be used; the message says what to do.
    """

    def __init__(self, settings: Settings, *, look_at: Callable[[str], Stamp] = stamp) -> None:
        self.mode = settings.tls_server_mode
        self.enforcing = self.mode == "enforcing"  # whether a connection without TLS is refused
        self._look_at = look_at
        self._context: ssl.SSLContext | None = None
        self._files = TlsFiles()
        self._stamps: dict[str, Stamp] = {}
        self._unseen: set[str] = set()
        self._changed: set[str] = set()
        self._reload_for = ""
        self._complaint = ""
        self.ends: Mapping[str, float] = {}
        """When the files in use expire, in seconds since 1970; keys: certificate (with its chain), trusted, revoked."""
        self.revoked: frozenset[CertificateId] = frozenset()
        """Certificates that tlsServerCrlPath revokes."""
        if self.mode != "disabled":
            self._start(_with_java_file(settings))

    def context_for_new(self) -> ssl.SSLContext:
        """The context for a connection that starts TLS now; RemoteProtocolError: there is none, with the reason."""
        if self._context is None:
            why = (
                "tlsServerMode is disabled"
                if self.mode == "disabled"
                else "this server has no certificate: set tlsServerCertPath and tlsServerKeyPath"
            )
            raise RemoteProtocolError(f"a TLS hello, but {why}", closes=True)
        return self._context

    def _start(self, settings: Settings) -> None:
        files = self._files = TlsFiles(*(getattr(settings, f"tls_server_{name}") for name in TlsFiles._fields))
        if bool(files.cert_path) != bool(files.key_path):
            missing = "tlsServerKeyPath" if files.cert_path else "tlsServerCertPath"
            raise StartError(f"TLS: a certificate needs its key and a key its certificate: {missing} is not set")
        if files.need_client_auth == "require" and not files.auth_client:
            raise StartError(
                "TLS: tlsServerNeedClientAuth=require without tlsServerAuthClient=true would accept any "
                "certificate: set tlsServerAuthClient=true and tlsServerTrustCertPath, or tlsServerNeedClientAuth=none"
            )
        if files.need_client_auth == "require" and not self.enforcing:
            raise StartError(
                f"TLS: tlsServerNeedClientAuth=require with tlsServerMode={self.mode} would still serve clients that "
                "do not use TLS: set tlsServerMode=enforcing, or tlsServerNeedClientAuth=optional while clients move"
            )
        if files.crl_path and not (files.auth_client and files.need_client_auth != "none"):
            raise StartError(
                "TLS: tlsServerCrlPath revokes nothing while no client is asked for its certificate: set "
                "tlsServerAuthClient=true, and tlsServerNeedClientAuth=optional or require"
            )
        if not files.cert_path:
            self._start_without_certificate(settings)
            return
        paths = (files.cert_path, files.key_path, files.trust_cert_path, files.crl_path)
        for path in dict.fromkeys(filter(None, paths)):
            self._look(path)
        self._context = make_context(files)
        self.revoked = read_revoked(files.crl_path)
        self.ends = _ends(files)
        logger.info("TLS is %s", self.mode)

    def _start_without_certificate(self, settings: Settings) -> None:
        if not settings.tls_test_mode_enable:
            if self.enforcing:
                raise StartError(
                    "TLS: tlsServerMode=enforcing needs a certificate: set tlsServerCertPath and tlsServerKeyPath"
                )
            return
        if self._files.need_client_auth != "none":
            raise StartError(
                "TLS: checking clients (tlsServerNeedClientAuth) with a certificate of the test mode protects nothing: "
                "set tlsServerCertPath and tlsServerKeyPath"
            )
        self._context = _self_signed()
        logger.warning(
            "TLS is %s with a self-signed certificate of the test mode, which proves nothing (tlsTestModeEnable)",
            self.mode,
        )

    async def watch(self, revoked: Callable[[frozenset[CertificateId]], object] = lambda revoked: None) -> None:
        """Check the files every second. Runs until cancelled; returns at once if there are no files.

        Args:
            revoked: called with all revoked certificates when there are new ones.
        """
        while self._context is not None and (self._stamps or self._unseen):
            await asyncio.sleep(WATCH_S)
            before = self.revoked
            # in a thread: the files may be on a slow disk
            await asyncio.to_thread(self.look)
            if self.revoked - before:
                revoked(self.revoked)

    def look(self) -> None:
        """Reload changed files; if they cannot be used, keep the current context and try again next time."""
        files = self._files
        changed = {path for path in (*self._stamps, *self._unseen) if self._look(path)}
        pair = {files.cert_path, files.key_path}
        self._changed |= changed & pair
        if files.trust_cert_path in changed:
            self._reload_for = "the trust certificate"
        if files.crl_path in changed:
            self._reload_for = "the list of revoked certificates"
        if files.cert_path and self._changed >= pair:
            self._changed.clear()
            self._reload_for = "the certificate and private key"
        if not self._reload_for:
            return
        try:
            self._context, self.revoked = make_context(files), read_revoked(files.crl_path)
        except StartError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                logger.error("%s; new connections use the certificate that was loaded before", error)
            return
        self.ends = _ends(files)
        logger.info("TLS: %s changed, reloaded for new connections", self._reload_for)
        self._reload_for = self._complaint = ""

    def _look(self, path: str) -> bool:
        """Whether this file has changed since the last check; False if it cannot be read."""
        try:
            now = self._look_at(path)
        except OSError as error:
            if path not in self._unseen:
                self._unseen.add(path)
                logger.warning("TLS: cannot watch %s: %s", path, error.strerror or error)
            return False
        self._unseen.discard(path)
        before = self._stamps.get(path)
        self._stamps[path] = now
        return now != before


def make_context(files: TlsFiles) -> ssl.SSLContext:
    """Make a server context from certificate files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # a renegotiation costs the server much more than the client
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        # always with a password function: without one OpenSSL would prompt at the terminal
        context.load_cert_chain(files.cert_path, files.key_path, lambda: files.key_password)
    except (OSError, ValueError) as error:
        raise StartError(
            f"TLS: cannot use the certificate {files.cert_path} with the key {files.key_path}: {_why(error)}"
        ) from error
    if files.auth_client and files.need_client_auth != "none":
        required = files.need_client_auth == "require"
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        if files.trust_cert_path:
            _load(context, "trust certificates", files.trust_cert_path)
        else:  # as in Java
            logger.warning("TLS: clients are checked against this system's certificates: set tlsServerTrustCertPath")
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        if files.crl_path:
            _load(context, "list of revoked certificates", files.crl_path)
            context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    return context


def _load(context: ssl.SSLContext, what: str, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        raise StartError(f"TLS: cannot use the {what} {path}: {_why(error)}") from error


def read_revoked(path: str) -> frozenset[CertificateId]:
    """The certificates that a file revokes; none without a file."""
    if not path:
        return frozenset()
    try:
        return revoked_in(Path(path).read_bytes())
    except (OSError, ValueError, IndexError, StopIteration) as error:
        raise StartError(f"TLS: cannot read the list of revoked certificates {path}: {_why(error)}") from error


def _ends(files: TlsFiles) -> dict[str, float]:
    """When the first entry of each file expires; files that cannot be read are left out."""
    found: dict[str, float] = {}
    kinds = (
        ("certificate", files.cert_path, end_of_certificates),
        ("trusted", files.trust_cert_path, end_of_certificates),
        ("revoked", files.crl_path, end_of_lists),
    )
    for kind, path, end_of in kinds:
        try:
            end = end_of(Path(path).read_bytes()) if path else None
        except (OSError, ValueError, IndexError, StopIteration) as error:
            logger.warning("TLS: cannot tell when %s ends: %s", path, _why(error))
            continue
        if end is not None:
            found[kind] = end
    return found


def _self_signed() -> ssl.SSLContext:
    import tempfile  # only the test mode needs it

    with tempfile.TemporaryDirectory(prefix="mqregistry-tls-") as folder:
        made = TlsFiles(cert_path=f"{folder}/cert.pem", key_path=f"{folder}/key.pem")
        command = [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", "/CN=mqregistry test mode", "-days", "3650", "-keyout", made.key_path, "-out", made.cert_path,
        ]  # fmt: skip
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=_OPENSSL_S)
        except (OSError, subprocess.SubprocessError) as error:
            raise StartError(
                f"TLS: tlsTestModeEnable needs the openssl command, which failed ({error}): "
                "install it, or set tlsServerCertPath and tlsServerKeyPath"
            ) from error
        return make_context(made)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        # an SSLError has no reason when the file is not PEM or the key's password is wrong
        return error.reason or "not PEM, or a wrong password"
    return getattr(error, "strerror", None) or str(error)


def _with_java_file(settings: Settings) -> Settings:
    """Apply RocketMQ's TLS properties file to the settings; environment variables and flags take precedence."""
    path = settings.tls_config_file
    if not path or (settings.source("tls_config_file") == "default" and not Path(path).is_file()):
        return settings
    try:
        entries = properties.parse(Path(path).read_bytes())
    except OSError as error:
        raise StartError(f"TLS: cannot read tlsConfigFile {path}: {error.strerror or error}") from error
    except properties.PropertiesSyntaxError as error:
        raise StartError(f"TLS: {path}:{error.line}: {error}") from error
    values: dict[str, Any] = {}
    for entry in entries:
        if entry.key in _NOT_IN_FILE:
            logger.warning(
                "%s:%d: %s has no effect in this file: see %s", path, entry.line, entry.key, _NOT_IN_FILE[entry.key]
            )
            continue
        name = JAVA_NAMES.get(entry.key)
        if name is None:
            if not entry.key.startswith(_OF_CLIENTS):
                logger.warning("%s:%d: unknown key %r", path, entry.line, entry.key)
            continue
        if settings.source(name).startswith(("environment ", "flag ")):
            continue
        option = options()[name]
        text = entry.value.lower() if option.about.choices else entry.value
        try:
            values[name] = option.parse(text)
        except ValueError:
            raise StartError(f"TLS: {path}:{entry.line}: {entry.key}: expected {option.allowed}") from None
    return msgspec.structs.replace(settings, **values)
