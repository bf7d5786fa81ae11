"""Makes and checks the signatures with which RocketMQ's ACL proves who sends a request.

The signature is the HMAC-SHA1 of the values of all header fields, in the order of their names, and of the body. So it
proves that the sender has the secret key, and not which request he meant: docs/security.md lists what it cannot see.

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

# Clients and mqadmin of 5.x add these after signing, brokers of 5.x before.
_ZONE: Final = frozenset({"__ZONE_NAME", "__ZONE_MODE"})
# The client for Go leaves the token unsigned.
_TOKEN: Final = frozenset({SECURITY_TOKEN})


class SigningKey:
    """A secret key, prepared for many signatures; it shows its text nowhere."""

    __slots__ = ("_hmac",)

    def __init__(self, secret_key: str) -> None:
        # the secret may be shorter than HMAC wants: it is the one that the peers have
        self._hmac = hmac.new(secret_key.encode(errors="replace"), digestmod="sha1")

    def sign(self, content: bytes, body: bytes = b"") -> bytes:
        """The signature in Base64. 4 µs, and 1.4 ms for each MB of body."""
        made = self._hmac.copy()
        made.update(content)
        if body:
            made.update(body)  # not joined: bodies may have megabytes
        return base64.b64encode(made.digest())


def access_key_of(fields: Mapping[str, str] | None) -> str | None:
    """The access key of the signer; None when nobody signed.

    A blank key means no user: the client for C++ signs with it when it has no key.
    """
    access_key = fields.get(ACCESS_KEY) if fields else None
    return access_key if access_key is not None and access_key.strip() else None


def content_of(fields: Mapping[str, str], without: Collection[str] = ()) -> bytes:
    """What is signed of a request besides its body: its values, in the order of the fields' names.

    Args:
        fields: its extFields. without: fields that count as absent, besides the signature.
    """
    names = [name for name in fields if name != SIGNATURE and name not in without]
    if len(names) > 1:
        # Java compares UTF-16 units; for ASCII that is the order of Python
        names.sort(key=None if all(map(str.isascii, names)) else _utf16)
    # Java writes half of a surrogate pair as a question mark, too
    return "".join([fields[name] for name in names]).encode(errors="replace")


def sign(secret_key: str, fields: Mapping[str, str], body: bytes = b"") -> str:
    """The signature of a request with these extFields (the access key among them) and this body."""
    return SigningKey(secret_key).sign(content_of(fields), body).decode()


def matching_key(keys: Sequence[SigningKey], fields: Mapping[str, str], body: bytes = b"") -> int | None:
    """Which of these keys signed a request; None: none of them did.

    Every key and every form is compared in constant time. A correct signature takes one HMAC in most cases, a wrong
    one at most three for each key.
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
