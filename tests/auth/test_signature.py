"""The signature of RocketMQ's ACL: its vectors, its forms, and that every bit counts but for what it cannot see."""

from __future__ import annotations

import base64
import hmac

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mqregistry.auth.signature import SigningKey, access_key_of, content_of, matching_key, sign

ACCESS, SECRET = "rocketmq2", "12345678"
KEY = SigningKey(SECRET)

VECTORS = [
    ({"topic": "TopicTest"}, "GeeGoP9mRvDhoVp4PD5omX0prgE="),  # 105
    ({"brokerName": "broker-a"}, "OWag5wTlWGeWX2wVHlu6flz8V30="),  # 205
    ({}, "Ou1T58RIcyZWaTIwzkhJZWn/Zvs="),  # 106, 206, 319
]


@pytest.mark.parametrize(("fields", "signature"), VECTORS)
def test_signatures_of_rocketmqs_sample_account(fields, signature):
    fields = fields | {"AccessKey": ACCESS}
    assert sign(SECRET, fields) == signature
    assert matching_key([KEY], fields | {"Signature": signature}) == 0


def test_values_are_signed_in_the_order_of_java_strings():
    # U+10000 is D800 DC00 in UTF-16, and so before U+FB01, U+FF21 and U+FFFF; upper case is before _ and lower case
    fields = {"\uffff": "7", "\ufb01": "5", "\U00010000": "4", "b": "3", "_": "2", "B": "1", "\uff21": "6"}
    assert content_of(fields) == b"1234567"
    assert content_of({"b": "3", "_": "2", "B": "1"}) == b"123"


def test_half_of_a_surrogate_pair_is_signed_as_java_writes_it():
    assert content_of({"a": "x\ud800y", "b": "ü"}) == b"x?y\xc3\xbc"


def test_the_body_is_signed_as_it_was_sent():
    fields = {"AccessKey": ACCESS}
    signature = sign(SECRET, fields, b"\x00\xffbody")
    expected = hmac.digest(SECRET.encode(), ACCESS.encode() + b"\x00\xffbody", "sha1")
    assert base64.b64decode(signature) == expected
    assert matching_key([KEY], fields | {"Signature": signature}, b"\x00\xffbody") == 0
    assert matching_key([KEY], fields | {"Signature": signature}, b"\x00\xffBody") is None


ZONE = {"__ZONE_NAME": "z1", "__ZONE_MODE": "true"}


@pytest.mark.parametrize("added", [ZONE, {"__ZONE_NAME": "z1"}, {"__ZONE_MODE": "false"}])
def test_zone_fields_may_be_signed_or_not(added):
    """Clients of 5.x add them after signing, brokers before."""
    fields = {"topic": "TopicTest", "AccessKey": ACCESS}
    for signed in (fields, fields | added):
        assert matching_key([KEY], fields | added | {"Signature": sign(SECRET, signed)}) == 0


def test_a_security_token_may_be_signed_or_not():
    """The client for Go leaves it out."""
    fields = {"topic": "TopicTest", "AccessKey": ACCESS}
    token = {"SecurityToken": "a token"}
    for signed in (fields, fields | token):
        assert matching_key([KEY], fields | token | {"Signature": sign(SECRET, signed)}) == 0


def test_no_other_field_may_be_left_out():
    fields = {"topic": "TopicTest", "AccessKey": ACCESS}
    for more in (
        {"acceptStandardJsonOnly": "true"},
        {"__ZONE": "z1"},
        ZONE | {"x": "1"},
        ZONE | {"SecurityToken": "t"},
    ):
        assert matching_key([KEY], fields | more | {"Signature": sign(SECRET, fields)}) is None


def test_either_of_two_keys_fits_and_is_named():
    keys = [SigningKey("old secret"), SigningKey("new secret")]
    fields = {"topic": "T", "AccessKey": ACCESS} | ZONE
    for number, secret in enumerate(("old secret", "new secret")):
        assert matching_key(keys, fields | {"Signature": sign(secret, fields)}) == number
    assert matching_key(keys, fields | {"Signature": sign("another", fields)}) is None
    assert matching_key([], fields | {"Signature": sign("old secret", fields)}) is None


@pytest.mark.parametrize("signature", [None, "", " ", "=", "ü", "\ud800", "Ou1T58RIcyZWaTIwzkhJZWn/Zvs"])
def test_a_signature_that_is_none_fits_nothing(signature):
    fields = {"AccessKey": ACCESS} | ({} if signature is None else {"Signature": signature})
    assert matching_key([KEY], fields) is None


def test_base64_that_decodes_to_the_signature_is_not_enough():
    good = sign(SECRET, {"AccessKey": ACCESS})
    assert good.endswith("s=")
    for other in (good[:-2] + "t=", good + "\n", good + "=", " " + good, good.replace("/", "_")):
        assert matching_key([KEY], {"AccessKey": ACCESS, "Signature": other}) is None


@pytest.mark.parametrize(
    ("fields", "access_key"),
    [
        (None, None), ({}, None), ({"topic": "T"}, None), ({"AccessKey": ""}, None), ({"AccessKey": " \t"}, None),
        ({"AccessKey": "", "Signature": "x"}, None), ({"Signature": "x"}, None), ({"AccessKey": "a"}, "a"),
        ({"AccessKey": " a"}, " a"),
    ],
)  # fmt: skip
def test_who_claims_to_have_signed(fields, access_key):
    assert access_key_of(fields) == access_key


def test_a_key_shows_its_text_nowhere():
    key = SigningKey("a very secret text")
    assert "secret" not in repr(key) + str(key)
    assert not hasattr(key, "__dict__")


texts = st.text(st.characters(codec="utf-8"), max_size=8)
field_names = st.sampled_from(
    ["topic", "brokerName", "clusterName", "brokerAddr", "brokerId", "Á", "\U00010000"]
) | st.text("abcXYZ_", min_size=1, max_size=4)
requests = st.dictionaries(field_names, texts, max_size=5).map(lambda fields: fields | {"AccessKey": ACCESS})


@given(requests, st.binary(max_size=40), st.text(min_size=1, max_size=30))
def test_what_is_signed_fits(fields, body, secret):
    signed = fields | {"Signature": sign(secret, fields, body)}
    assert matching_key([SigningKey(secret)], signed, body) == 0


def flipped(data: bytes, bit: int) -> bytes:
    at, shift = divmod(bit % (8 * len(data)), 8)
    return data[:at] + bytes([data[at] ^ (1 << shift)]) + data[at + 1 :]


@given(requests, st.binary(min_size=1, max_size=40), st.data())
def test_one_bit_changed_is_refused(fields, body, data):
    """In a value, in the body, in the secret key, in the signature."""
    signature = sign(SECRET, fields, body)
    signed, bit = fields | {"Signature": signature}, data.draw(st.integers(0, 1 << 16))
    assert matching_key([KEY], signed, flipped(body, bit)) is None
    other_secret = flipped(SECRET.encode(), bit).decode("latin-1")
    assert matching_key([SigningKey(other_secret)], signed, body) is None
    other_signature = flipped(signature.encode(), bit).decode("latin-1")
    assert matching_key([KEY], signed | {"Signature": other_signature}, body) is None
    name = data.draw(st.sampled_from([name for name in sorted(fields) if fields[name]] or ["AccessKey"]))
    units = fields[name].encode("utf-16-be")
    other_value = flipped(units, bit).decode("utf-16-be", "surrogatepass")
    # half of a surrogate pair and a question mark are the same bytes, in Java as well
    assume(other_value.encode(errors="replace") != fields[name].encode(errors="replace"))
    assert matching_key([KEY], signed | {name: other_value}, body) is None


@given(requests, st.binary(max_size=40), field_names, texts.filter(bool))
def test_a_field_that_is_added_or_dropped_is_refused(fields, body, name, value):
    assume(fields.get(name) != value)
    signed = {"Signature": sign(SECRET, fields, body)}
    other = fields | {name: value}
    assume(content_of(other) + body != content_of(fields) + body)
    assert matching_key([KEY], other | signed, body) is None
    dropped = {"Signature": sign(SECRET, other, body)}
    assert matching_key([KEY], fields | dropped, body) is None


BLIND = [
    # (what the scheme cannot see, signed fields and body, other fields and body that the signature fits)
    ("the code", {"topic": "T"}, b"", {"topic": "T"}, b""),
    ("the name of a field", {"topic": "T"}, b"", {"brokerName": "T"}, b""),
    ("bytes between two fields", {"namespace": "ab", "key": "c"}, b"", {"namespace": "b", "key": "ca"}, b""),
    ("bytes between the last field and the body", {"x": "end"}, b"body", {"x": "e"}, b"ndbody"),
    ("empty values", {"topic": "T"}, b"", {"topic": "T", "empty": ""}, b""),
    ("zone fields", {"topic": "T"}, b"", {"topic": "T", "__ZONE_NAME": "z9", "__ZONE_MODE": "true"}, b""),
    ("a security token", {"topic": "T"}, b"", {"topic": "T", "SecurityToken": "any"}, b""),
    ("which unpaired surrogate", {"topic": "\ud800"}, b"", {"topic": "\udfff"}, b""),
    ("an unpaired surrogate and a question mark", {"topic": "\ud800"}, b"", {"topic": "?"}, b""),
    ("a request without fields", {}, b"T", {"topic": "T"}, b""),
]


@pytest.mark.parametrize(
    ("fields", "body", "other", "other_body"), [row[1:] for row in BLIND], ids=[r[0] for r in BLIND]
)
def test_what_the_scheme_cannot_see(fields, body, other, other_body):
    """docs/security.md lists these; rights make up for them."""
    access = {"AccessKey": ACCESS}
    signature = {"Signature": sign(SECRET, fields | access, body)}
    assert matching_key([KEY], other | access | signature, other_body) == 0
