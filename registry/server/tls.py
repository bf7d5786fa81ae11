"""TLS on the name server port: what the settings say, the context of new connections, and the files it is made of.

As in Java the certificate and key are read anew once both have changed, and the certificates that clients are
checked against once they have. Connections that are open go on with what they began with.

Where this differs from Java, on purpose: Java's test mode, which is on by default, makes a certificate that protects
from nobody, even when a certificate is configured. Here a configured certificate is used; without any, a client that
wants TLS is refused and the log says what to set; and the test mode has to be asked for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from registry import properties
from registry.config import Settings, options
from registry.errors import RemoteProtocolError, StartError

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
# What Java reads from system properties only; in the file it has no effect there either.
_NOT_IN_FILE: Final = {"tls.server.mode": "tlsServerMode", "tls.config.file": "tlsConfigFile"}
_OF_CLIENTS: Final = ("tls.client.", "tls.enable")
_OPENSSL_S: Final = 20


class TlsFiles(NamedTuple):
    """What a context is made of; the names are those of the settings."""

    cert_path: str = ""
    key_path: str = ""
    key_password: str = ""
    trust_cert_path: str = ""
    need_client_auth: str = "none"
    auth_client: bool = False


class _Stamp(NamedTuple):
    """Changes whenever a file is written or replaced."""

    modified_ns: int
    size: int
    inode: int


def stamp(path: str) -> _Stamp:
    """How a file looks now.

    Raises:
        OSError: it is not there, or may not be looked at.
    """
    status = os.stat(path)
    return _Stamp(status.st_mtime_ns, status.st_size, status.st_ino)


class Tls:
    """Whether and how new connections of this worker speak TLS.

    Raises:
        StartError: the settings cannot be followed; the message says which, and what to do.
    """

    def __init__(self, settings: Settings, *, look_at: Callable[[str], _Stamp] = stamp) -> None:
        self.mode = settings.tls_server_mode
        self._look_at = look_at
        self._context: ssl.SSLContext | None = None
        self._files = TlsFiles()
        self._stamps: dict[str, _Stamp] = {}
        self._unseen: set[str] = set()
        self._changed: set[str] = set()
        self._reload_for = ""
        self._complaint = ""
        if self.mode != "disabled":
            self._start(_with_java_file(settings))

    @property
    def enforcing(self) -> bool:
        """Whether a connection without TLS is refused."""
        return self.mode == "enforcing"

    def context_for_new(self) -> ssl.SSLContext:
        """What a connection that comes now is to use.

        Raises:
            RemoteProtocolError: it asks for TLS, and there is none.
        """
        if self._context is None:
            why = (
                "tlsServerMode is disabled"
                if self.mode == "disabled"
                else "this server has no certificate: set tlsServerCertPath and tlsServerKeyPath"
            )
            raise RemoteProtocolError(f"a TLS hello, and {why}", closes=True)
        return self._context

    def _start(self, settings: Settings) -> None:
        files = self._files = TlsFiles(*(getattr(settings, f"tls_server_{name}") for name in TlsFiles._fields))
        if bool(files.cert_path) != bool(files.key_path):
            missing = "tlsServerKeyPath" if files.cert_path else "tlsServerCertPath"
            raise StartError(f"TLS: a certificate and its key come together: {missing} is not set")
        if files.need_client_auth == "require" and not files.auth_client:
            raise StartError(
                "TLS: tlsServerNeedClientAuth=require without tlsServerAuthClient=true would take any certificate at "
                "all: set tlsServerAuthClient=true and tlsServerTrustCertPath, or tlsServerNeedClientAuth=none"
            )
        if not files.cert_path:
            self._start_without_certificate(settings)
            return
        for path in dict.fromkeys(filter(None, (files.cert_path, files.key_path, files.trust_cert_path))):
            self._look(path)
        self._context = make_context(files)
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
                "TLS: checking clients (tlsServerNeedClientAuth) with a certificate of the test mode makes no sense: "
                "set tlsServerCertPath and tlsServerKeyPath"
            )
        self._context = _self_signed()
        logger.warning(
            "TLS is %s with a certificate made just now, which protects from nobody (tlsTestModeEnable)", self.mode
        )

    # files that change

    async def watch(self) -> None:
        """Look at the files every second. Until cancelled, or at once if there are none."""
        while self._context is not None and (self._stamps or self._unseen):
            await asyncio.sleep(WATCH_S)
            # not in the event loop: the files may lie on a slow disk
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Load again what has changed; keep what there is if that cannot be used, and try again next time."""
        files = self._files
        changed = {path for path in (*self._stamps, *self._unseen) if self._look(path)}
        pair = {files.cert_path, files.key_path}
        self._changed |= changed & pair
        if files.trust_cert_path in changed:
            self._reload_for = "the trust certificate"
        if files.cert_path and self._changed >= pair:
            self._changed.clear()
            self._reload_for = "the certificate and private key"
        if not self._reload_for:
            return
        try:
            self._context = make_context(files)
        except StartError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                logger.error("%s; new connections go on with what was loaded before", error)
            return
        logger.info("TLS: %s changed, loaded again for new connections", self._reload_for)
        self._reload_for = self._complaint = ""

    def _look(self, path: str) -> bool:
        """Whether this file has changed since the last look; one that cannot be looked at has not."""
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
    """What connections are to use.

    Raises:
        StartError: a file that cannot be read, a key that is not the certificate's, a wrong password, ...
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # asked for again and again, it would cost us much and the client little
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        # never without a password function: OpenSSL would ask at the terminal
        context.load_cert_chain(files.cert_path, files.key_path, lambda: files.key_password)
    except (OSError, ValueError) as error:
        raise StartError(
            f"TLS: cannot use the certificate {files.cert_path} with the key {files.key_path}: {_why(error)}"
        ) from error
    if files.auth_client and files.need_client_auth != "none":
        required = files.need_client_auth == "require"
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        _load_trust(context, files.trust_cert_path)
    return context


def _load_trust(context: ssl.SSLContext, path: str) -> None:
    if not path:
        # as in Java
        logger.warning("TLS: clients are checked against this system's certificates: set tlsServerTrustCertPath")
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        return
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        raise StartError(f"TLS: cannot use the trust certificates {path}: {_why(error)}") from error


def _self_signed() -> ssl.SSLContext:
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
        # an SSLError without a reason is about the text of the file, or the password of the key
        return error.reason or "not PEM, or a wrong password"
    return getattr(error, "strerror", None) or str(error)


def _with_java_file(settings: Settings) -> Settings:
    """With what RocketMQ's TLS properties file says; the environment and flags go before it.

    Raises:
        StartError: it cannot be read, or a value is not allowed.
    """
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
