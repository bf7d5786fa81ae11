"""Certificates made with the openssl command, for tests."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
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
        # Python 3.13 and later believe no authority without the second
        what = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign")
        self.pair = _make(folder, name, *(word for extension in what for word in ("-addext", extension)))

    @property
    def cert(self) -> Path:
        return self.pair.cert

    def sign(self, name: str, *, password: str = "", names: str = "IP:127.0.0.1") -> Pair:
        """A certificate; names: its subjectAltName, as openssl wants it."""
        return _make(
            self._folder, name,
            "-CA", str(self.pair.cert), "-CAkey", str(self.pair.key),
            "-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"subjectAltName={names}",
            password=password,
        )  # fmt: skip

    def revoke(self, *pairs: Pair) -> Path:
        """A list of these certificates as revoked, PEM."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        serials = [_openssl("x509", "-in", str(pair.cert), "-noout", "-serial").strip().split("=")[1] for pair in pairs]
        entries = [f"R\t400101000000Z\t250101000000Z\t{serial}\tunknown\t/CN={serial}\n" for serial in serials]
        (folder / "index.txt").write_text("".join(entries))
        (folder / "ca.conf").write_text(
            f"[ca]\ndefault_ca=d\n[d]\ndatabase={folder}/index.txt\ndefault_md=sha256\ndefault_crl_days=2\n"
        )
        made = folder / "revoked.pem"
        _openssl("ca", "-gencrl", "-config", str(folder / "ca.conf"), "-cert", str(self.pair.cert),
                 "-keyfile", str(self.pair.key), "-out", str(made))  # fmt: skip
        return made


def _openssl(*arguments: str) -> str:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _make(folder: Path, name: str, *options: str, password: str = "") -> Pair:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on PATH to make certificates with: apt-get install openssl")
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    hidden = ["-passout", f"pass:{password}"] if password else ["-nodes"]
    done = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2",
         "-subj", f"/CN={name}", "-keyout", str(pair.key), "-out", str(pair.cert), *hidden, *options],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return pair
