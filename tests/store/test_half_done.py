"""Redis rolls nothing back: whatever makes a script fail must show before its first write.

Every script runs in a copy that counts its calls of Redis and notes them. A call can fail for the type of its key
(which this registry did not write then), for the memory that it needs (Redis refuses only a first write for that), and
for what a user may not do. So after the first write there is no call on a key whose type was not looked at before;
and a script whose call fails before, at each place in turn, leaves everything as it was.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from mqregistry.auth.changes import add_user, drop_secret, remove_user, set_mode
from mqregistry.auth.policy import Mode, Policy
from mqregistry.auth.refused import Last, RefusedKind
from mqregistry.auth.rights import Role
from mqregistry.auth.users import Secret, User
from mqregistry.errors import RegistryError
from mqregistry.model import QueueData
from mqregistry.store import scripts
from mqregistry.store.auth.policies import PolicyStore
from mqregistry.store.auth.refusals import RefusalStore
from tests.topology.everything import use_everything

from .bed import registration

TRACED = """
local real, trace = redis, {}
local fail_at, at = tonumber(real.call("GET", "FAIL") or "0"), 0
local function noted(kind, command, key, ...)
  at = at + 1
  trace[#trace + 1] = kind .. " " .. command .. " " .. (key or "")
  if at == fail_at then
    error("injected", 0)
  end
  if key == nil then
    return real[kind](command)
  end
  return real[kind](command, key, ...)
end
local redis = setmetatable({
  call = function(...) return noted("call", ...) end,
  pcall = function(...) return noted("pcall", ...) end,
}, {__index = real})
local function script()
SOURCE
end
local done, reply = pcall(script)
real.call("RPUSH", "TRACES", cjson.encode({name = "NAME", calls = trace}))
if not done then
  return real.error_reply(tostring(type(reply) == "table" and reply.err or reply))
end
return reply
"""
WRITES = {
    "HSET", "HDEL", "HINCRBY", "SADD", "SREM", "ZADD", "ZREM", "XADD", "XTRIM", "SET", "DEL", "UNLINK", "RENAME",
    "RPUSH",
}  # fmt: skip
ANY_TYPE = {"SET", "RENAME", "DEL", "UNLINK", "EXISTS", "TYPE", "TIME"}


@pytest.fixture
def traced(bed, monkeypatch):
    """The same namespace, with scripts that note what they call; what they noted."""
    copies = {}
    for name, script in bed.store._scripts.items():
        source = (
            TRACED.replace("NAME", name)
            .replace("FAIL", bed.key("fail_at"))
            .replace("TRACES", bed.key("traces"))
            .replace("SOURCE", script.source)  # the last: it may have one of these words
        )
        sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
        copies[name] = script._replace(source=source, sha=sha)
    monkeypatch.setattr(bed.store, "_scripts", copies)
    return bed


async def traces(bed) -> list[dict[str, Any]]:
    found = [msgspec.json.decode(text) for text in await bed.redis("LRANGE", bed.key("traces"), 0, -1)]
    await bed.redis("DEL", bed.key("traces"))
    return found


def first_write(calls: list[str]) -> int:
    return next((at for at, call in enumerate(calls) if call.split(" ")[1] in WRITES), len(calls))


async def test_no_script_writes_before_it_has_looked_at_the_types_of_all_its_keys(traced):
    await use_everything(traced)
    found = await traces(traced)
    assert {trace["name"] for trace in found} >= scripts.load().keys() - {"init_namespace"}
    unseen = set()
    for trace in found:
        calls = [call.split(" ", 2) for call in trace["calls"]]
        begins = first_write(trace["calls"])
        looked_at = {key for _, _, key in calls[: begins + 1]}
        for kind, command, key in calls[begins + 1 :]:
            if kind == "call" and command not in ANY_TYPE and key not in looked_at:
                unseen.add((trace["name"], command, key.removeprefix(traced.prefix)))
    assert unseen == set()


MADE = registration("10.0.0.2:1", "broker-b", topics=["t1", "t2", "t3"], filter_servers=["f"])
BOSS = User("boss", roles=(Role.ADMIN,), secrets=(Secret("id-1", "key-number-1"), Secret("id-2", "key-number-2")))
OTHER = User("other", secrets=(Secret("id-3", "key-number-3"),))
OPERATIONS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "register": lambda bed: bed.fe1.register(MADE),
    "register_changed": lambda bed: bed.fe1.register(registration(topics=["t1", "t9"], counter=2)),
    "unregister": lambda bed: bed.routes.unregister_broker("c1", "10.0.0.1:10911", "broker-a"),
    "close": lambda bed: bed.fe1.close(registration(), connection="10.0.0.1:10911"),
    "wipe": lambda bed: bed.routes.set_write_perm("broker-a", "wipe"),
    "delete_topic": lambda bed: bed.routes.delete_topic("t1"),
    "register_topic": lambda bed: bed.routes.register_topic("t7", [("broker-a", QueueData(4, 4, 6))]),
    "put_kv": lambda bed: bed.kv.put("ns", "k", "2"),
    "delete_kv": lambda bed: bed.kv.delete("ns", "k"),
    "give_back_kv": lambda bed: bed.give_back("kv", "ns", [("k", "3"), ("k2", "4")], ["other"], known=99),
    "give_back_config": lambda bed: bed.give_back("config", "", [("a", "3")], known=99),
    "give_back_queues": lambda bed: bed.give_back(
        "queues", "broker-a", [("t8", '{"r":1,"w":1,"p":6,"f":0}')], ["t1"], known=99
    ),
    "give_back_removal": lambda bed: bed.give_back("remove", "c1|10.0.0.1:10911", [("99999999999999", "")], known=99),
    "set_config": lambda bed: bed.kv.set_config({"a": "2"}),
    "expire": lambda bed: bed.leases.expire(10),
    "reap": lambda bed: bed.leases.reap(10),
    "release": lambda bed: bed.leases.release("w1"),
    "renew": lambda bed: bed.leases.renew("w1"),
    "add_user": lambda bed: PolicyStore(bed.store).change(lambda policy: add_user(policy, User("new"))),
    "remove_user": lambda bed: PolicyStore(bed.store).change(lambda policy: remove_user(policy, "other")),
    "drop_secret": lambda bed: PolicyStore(bed.store).change(lambda policy: drop_secret(policy, "boss", "id-1")),
    "enforce": lambda bed: PolicyStore(bed.store).change(lambda policy: set_mode(policy, Mode.ENFORCE)),
    "restore_auth": lambda bed: PolicyStore(bed.store).restore(Policy(Mode.ENFORCE, 99_999_999_999_999, [OTHER])),
    "note_auth_used": lambda bed: PolicyStore(bed.store).note_used([("boss", "id-1"), ("other", "id-3")]),
    "note_refused": lambda bed: RefusalStore(bed.store).note(
        "fe1", Mode.OBSERVE, [(RefusedKind.unproved(f"u{i}", "unknown_user"), 1, Last()) for i in range(3)]
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_script_that_fails_before_it_writes_leaves_everything_as_it_was(traced, operation):
    """A call fails, each in turn, and the same operation then succeeds as if nothing had been."""
    await traced.leases.renew("w1")
    r = await traced.register()
    await traced.kv.put("ns", "k", "1")
    policies = PolicyStore(traced.store)
    await policies.change(lambda policy: add_user(add_user(policy, BOSS), OTHER))
    await policies.note_used([("boss", "id-1"), ("other", "id-3")])
    await traced.let_pass(60_000)
    if operation == "reap":
        await traced.fe2.register(r)
        await traced.fe2.close(r)
        await traced.redis("DEL", traced.key("lease:w1"))
    elif operation == "expire":
        await traced.let_pass(100_000)
    elif operation == "renew":
        await traced.move_clock(1000)
    await traces(traced)
    before = await traced.dump()
    for place in itertools.count(1):
        await traced.redis("SET", traced.key("fail_at"), place)
        with pytest.raises(RegistryError, match="injected"):
            await OPERATIONS[operation](traced)
        await traced.redis("DEL", traced.key("fail_at"))
        calls = (await traces(traced))[-1]["calls"]
        assert len(calls) == place
        assert await traced.dump() == before, f"the last of {calls} failed"
        if first_write(calls) == place - 1:
            break  # what comes after it is the other test's
    assert place > 2
    await OPERATIONS[operation](traced)
    await traces(traced)
    assert await traced.dump() != before
    assert await traced.replay() == await traced.contents()
