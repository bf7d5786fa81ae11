"""What the protocol does in slices, done at once."""

from __future__ import annotations

from mqregistry.protocol import registration
from mqregistry.protocol.bodies import register
from mqregistry.protocol.lenient_json import quoting_integer_keys
from mqregistry.protocol.slices import finish


def decode_register_body(body, **form):
    return finish(register.decoding(body, **form))


def decode_registration(*request, mappings):
    return finish(registration.decoding(*request, mappings=mappings))


def quote_integer_keys(data):
    return finish(quoting_integer_keys(data))
