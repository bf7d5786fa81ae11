"""Every container of a worker that has more in it after a stranger has left than before is bounded.

The worker's objects are walked, so a container that somebody adds is found without being named here.
"""

from __future__ import annotations

import asyncio
import gc
import types
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from mqregistry.auth.policy import Mode, Policy
from mqregistry.auth.signature import sign
from mqregistry.protocol.command import Command, Encoding, encode_command
from mqregistry.protocol.watch import ROUTE_WATCH
from mqregistry.request_rights import REQUESTS
from mqregistry.server.auth.authorization import Authorization
from mqregistry.server.auth.tally import Tally
from mqregistry.server.net.connection import ServerConnection

from .auth_bed import ADMIN, user
from .pair import Pair, Wire
from .test_request_rights import EVERY_FIELD

MANY = 10_500
GROWS = 1000

# What is kept of strangers, by the name of the attribute that holds it, and its bound.
BOUNDED = {
    "_missing": 10_001,  # LookupCounts: names asked for in vain, until the next report
    "_clients": 1_000,  # LookupCounts: names whose askers are reported
    "_untold": 300, "_told": 3000,  # Tally: kinds of refusals
    "_full_at_ns": 10_000,  # TokenBuckets: addresses and users
    "more": 1001,  # SummaryLog: addresses and "others", until the next summary
    "_known": 20_000,  # LookupCache: lookups by their bytes
    "_rules": 10_000, "_keys": 10_000, "_named_networks": 10_000,  # of users that there are
}  # fmt: skip


def containers(*roots: Any) -> dict[tuple[int, str], Any]:
    """Every container that these objects lead to, with the attribute that it is in."""
    found: dict[tuple[int, str], Any] = {}
    seen: set[int] = set()
    todo = [(root, "") for root in roots]
    while todo:
        one, name = todo.pop()
        if id(one) in seen or isinstance(one, (type, types.ModuleType, types.FunctionType, str, bytes, int, float)):
            continue
        seen.add(id(one))
        if isinstance(one, (dict, set, list, deque, frozenset)):
            found[id(one), name] = one
            items = [*one.keys(), *one.values()] if isinstance(one, dict) else list(one)
            todo += [(item, name) for item in items]
            continue
        if isinstance(one, types.MethodType):
            todo.append((one.__self__, name))
        slots = [slot for cls in type(one).__mro__ for slot in getattr(cls, "__slots__", ()) if isinstance(slot, str)]
        for attribute in {*slots, *getattr(one, "__dict__", {})}:
            try:
                todo.append((getattr(one, attribute), attribute))
            except AttributeError:
                continue
    return found


def frame(code: int, ext: dict[str, str], body: bytes = b"", encoding: Encoding = Encoding.JSON) -> bytes:
    return encode_command(
        Command(code=code, opaque=1, version=479, ext_fields=ext, body=body, encoding=encoding)
    )  # fmt: skip


class FromAnywhere(Wire):
    """A connection from an address of its own."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def get_extra_info(self, name: str) -> Any:
        address = f"10.{self.number >> 16}.{self.number >> 8 & 255}.{self.number & 255}", 1
        return address if name == "peername" else None


def of_code(code: int):
    """A request of this code; all that it names is made up."""

    def make(number: int) -> bytes:
        ext = {name: f"{value}-{number}" for name, value in EVERY_FIELD.items()} | {"brokerId": "0"}
        body = b'["made-up-%d"]' % number if code == ROUTE_WATCH else b""
        return frame(code, ext | {"holdMillis": "60000", "epoch": "", "seq": "-1"}, body)

    return make


def unknown_code(number: int) -> bytes:
    return frame(100_000 + number, {})


def unknown_access_key(number: int) -> bytes:
    ext = {"topic": "t", "AccessKey": f"nobody-{number}", "Signature": "x"}
    return frame(105, ext)


def wrong_signature(number: int) -> bytes:
    ext = {"brokerName": f"b-{number}", "AccessKey": f"user-{number % 300}"}
    return frame(205, ext | {"Signature": sign(f"guess-{number}", ext)})


REQUESTS_OF_STRANGERS = {
    **{f"code {code}": of_code(code) for code in sorted(REQUESTS)},
    "unknown codes": unknown_code, "unknown keys": unknown_access_key, "wrong signatures": wrong_signature,
}  # fmt: skip


@pytest.mark.parametrize("mode", list(Mode), ids=str)
@pytest.mark.parametrize("make", REQUESTS_OF_STRANGERS.values(), ids=REQUESTS_OF_STRANGERS)
async def test_nothing_is_kept_of_who_has_left_but_what_is_bounded(make, mode, caplog):
    caplog.set_level("ERROR")
    side = Pair(unlimited_addresses="", limit_admin_writes="enforce", limit_writes="observe").quick
    context, connections = side.front_end, side.connections
    store: Any = SimpleNamespace()
    tally = Tally(store, store, "fe")
    if mode is not Mode.OFF:
        users = [ADMIN, *(user(f"user-{number}") for number in range(300))]
        context.authorize(
            Authorization(
                Policy(mode, 1, users), tally, require_tls=False, tables=context, failures=context.rates.failures
            )
        )
    before = {key: len(one) for key, one in containers(context, connections, tally).items()}
    for number in range(MANY):
        connection, wire = ServerConnection(connections), FromAnywhere(number)
        connection.connection_made(wire)
        connections.count(connection)
        connection.data_received(make(number))
        if connection._writes.task is not None:
            await connection._writes.task
        connection.connection_lost(None)
    await asyncio.sleep(0)
    gc.collect()
    for (where, name), one in containers(context, connections, tally).items():
        if len(one) - before.get((where, name), 0) >= GROWS or ((where, name) not in before and len(one) >= GROWS):
            assert len(one) <= BOUNDED.get(name, 0), f"{name} has {len(one)} entries of strangers who have left"
    assert context.in_flight == connections.held.bytes == len(context.watches) == 0
    assert connections.all == {side.connection}
