"""Reads what a verified client certificate says of its owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..auth.caller import Certificate


def read_certificate(shown: Mapping[str, Any]) -> Certificate:
    """The names by which a certificate's owner may be known, and the number by which its CA may revoke it.

    Args:
        shown: as :meth:`ssl.SSLObject.getpeercert` gives it.
    """
    alternatives = shown.get("subjectAltName", ())
    names = [f"{kind}:{value}" for wanted in ("URI", "DNS") for kind, value in alternatives if kind == wanted]
    names += [f"CN:{value}" for rdn in shown.get("subject", ()) for kind, value in rdn if kind == "commonName"]
    return Certificate(tuple(dict.fromkeys(names)), int(shown.get("serialNumber", "0"), 16))
