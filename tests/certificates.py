"""Certificates made with the openssl command, for tests."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest


class Pair(NamedTuple):
    """A certificate and its key, both PEM files."""

    cert: Path
    key: Path

    def put_at(self, cert: Path, key: Path | None = None) -> None:
        """Become these files' content, as a certificate manager does it: whole files, renamed."""
        replace(cert, self.cert)
        if key is not None:
            replace(key, self.key)

    @property
    def der(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self.cert.read_text())


def replace(target: Path, source: Path) -> None:
    partial = target.with_name(target.name + ".partial")
    shutil.copyfile(source, partial)
    partial.replace(target)


class Authority:
    """Signs certificates."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self.name = name
        self.pair = _make(folder, name, "-addext", "basicConstraints=critical,CA:TRUE")

    @property
    def cert(self) -> Path:
        return self.pair.cert

    def sign(self, name: str, *, password: str = "") -> Pair:
        return _make(
            self._folder, name,
            "-CA", str(self.pair.cert), "-CAkey", str(self.pair.key),
            "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=IP:127.0.0.1",
            password=password,
        )  # fmt: skip


def _make(folder: Path, name: str, *options: str, password: str = "") -> Pair:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command to make certificates with")
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    hidden = ["-passout", f"pass:{password}"] if password else ["-nodes"]
    done = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2",
         "-subj", f"/CN={name}", "-keyout", str(pair.key), "-out", str(pair.cert), *hidden, *options],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return pair
