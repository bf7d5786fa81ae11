"""Reads what a verified client certificate says of its owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..auth.caller import Certificate
from .revocation import id_of


def read_certificate(shown: Mapping[str, Any], der: bytes) -> Certificate:
    """The names by which a certificate's owner may be known, and by what its CA may revoke it.

    Args:
        shown, der: both forms in which :meth:`ssl.SSLObject.getpeercert` gives it.
    """
    alternatives = shown.get("subjectAltName", ())
    names = [f"URI:{value}" for kind, value in alternatives if kind == "URI"]
    names += [f"DNS:{value.lower()}" for kind, value in alternatives if kind == "DNS"]
    names += [f"CN:{value}" for rdn in shown.get("subject", ()) for kind, value in rdn if kind == "commonName"]
    return Certificate(tuple(dict.fromkeys(names)), id_of(der))
