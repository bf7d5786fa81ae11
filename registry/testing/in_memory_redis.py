"""Runs a Redis in this process: fakeredis, and what the registry's scripts need but fakeredis lacks.

fakeredis (2.40.0) differs from Redis in these points; this module corrects the first five:

- ``cmsgpack``, ``bit`` and ``redis.sha1hex``, which Redis offers to every script, are missing; ``lua_modules`` takes
  only names that ``require`` finds on the machine.
- ``INFO`` is an unknown command, for clients and for scripts.
- ``cjson.encode`` makes ``[]`` of an empty table; Redis makes ``{}``.
- ``HRANDFIELD key count`` of an absent key answers nil; Redis answers an empty list.
- Each EVALSHA compiles its script, and then collects all garbage of the Lua state, which takes half of the time.
- Each command of a script goes from Lua to Python and back. A registration of 10,000 topics takes a third of a second
  instead of 10 ms, so tests that measure times, and tests of very large tables, need a real Redis.
- ``MEMORY USAGE`` is unknown, and there are no memory limits: the trim of streams by bytes needs a real Redis.
- A HyperLogLog has the type set; in Redis it is a string.
- There is no persistence, no replication, no ACL for the commands of scripts, and no other process reaches it: tests of
  rights, crashes, restarts, Sentinel and Cluster need real servers (``REAL_REDIS`` in tests/conftest.py names them).
"""

from __future__ import annotations

import hashlib
import itertools
import os
from typing import Any, Final

try:
    from fakeredis import FakeAsyncRedis, FakeServer
    from fakeredis._commands import command
    from fakeredis.aioredis import AsyncFakeSocket, FakeAsyncRedisConnection, FakeReader, FakeWriter
except ImportError as error:  # the extra "testing" has it
    raise ImportError(
        f"{error}: the registry in this process needs fakeredis with Lua: pip install 'mqregistry[testing]'"
    ) from error

from ..store.connection.in_this_process import OPENERS

# The scripts pack only arrays, of strings and numbers; they read all items as strings.
_MODULES: Final = rb"""
bit = {}
local function operation(of)
  return function(a, b)
    local result, place = 0, 1
    a, b = a % 2^32, (b or 0) % 2^32
    for _ = 1, 32 do
      if of(a % 2, b % 2) then
        result = result + place
      end
      a, b, place = math.floor(a / 2), math.floor(b / 2), place * 2
    end
    return result >= 2^31 and result - 2^32 or result
  end
end
bit.band = operation(function(a, b) return a + b == 2 end)
bit.bor = operation(function(a, b) return a + b > 0 end)
bit.bxor = operation(function(a, b) return a + b == 1 end)
bit.bnot = operation(function(a) return a == 0 end)

local encode = cjson.encode
function cjson.encode(value)
  if type(value) ~= "table" then
    return encode(value)
  end
  local parts = {}
  if #value > 0 then
    for i = 1, #value do
      parts[i] = cjson.encode(value[i])
    end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  for name, member in pairs(value) do
    parts[#parts + 1] = encode(tostring(name)) .. ":" .. cjson.encode(member)
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

cmsgpack = {}
local function big_endian(number, bytes)
  local text = ""
  for _ = 1, bytes do
    text, number = string.char(number % 256) .. text, math.floor(number / 256)
  end
  return text
end
function cmsgpack.pack(items)
  local parts = {"\221" .. big_endian(#items, 4)}
  for i = 1, #items do
    local text = tostring(items[i])
    parts[#parts + 1] = "\219" .. big_endian(#text, 4) .. text
  end
  return table.concat(parts)
end
function cmsgpack.unpack(packed)
  local at = 1
  local function number(bytes)
    local value = 0
    for i = at, at + bytes - 1 do
      value = value * 256 + string.byte(packed, i)
    end
    at = at + bytes
    return value
  end
  local sizes = {[217] = 1, [218] = 2, [219] = 4, [196] = 1, [197] = 2, [198] = 4}
  local kind, items = number(1), {}
  local count = kind == 220 and number(2) or kind == 221 and number(4) or kind - 144
  for i = 1, count do
    local head = number(1)
    local size = sizes[head] and number(sizes[head]) or head - 160
    items[i] = string.sub(packed, at, at + size - 1)
    at = at + size
  end
  return items
end
"""

_INFO: Final = b"""# Server
redis_version:7.0.0
run_id:0000000000000000000000000000000000000000
redis_mode:standalone
# Clients
connected_clients:1
# Memory
used_memory:0
maxmemory:0
maxmemory_policy:noeviction
# Persistence
loading:0
aof_enabled:1
aof_last_write_status:ok
rdb_last_bgsave_status:ok
# Replication
role:master
connected_slaves:0
# Cluster
cluster_enabled:0
"""

_numbers = itertools.count()


class _Lua:
    """The Lua state of a server, which compiles each script once, and collects garbage in its own time."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._compiled: dict[bytes | str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def execute(self, source: bytes | str) -> Any:
        """Run a script, but not the garbage collection that fakeredis asks for after each script."""
        if source == "collectgarbage()":
            return None
        if source not in self._compiled:
            self._compiled[source] = self._runtime.compile(source)
        return self._compiled[source]()


class _FakeSocket(AsyncFakeSocket):
    def _get_server_runtime(self, server: FakeServer) -> Any:
        runtime = super()._get_server_runtime(server)
        if not isinstance(runtime, _Lua):
            runtime.execute(_MODULES)
            runtime.globals()[b"redis"][b"sha1hex"] = lambda text: hashlib.sha1(text).hexdigest().encode()
            state: Any = server  # fakeredis keeps the Lua state in this object
            state._lua_expected_globals |= {b"bit", b"cmsgpack"}
            runtime = state._lua_runtime = _Lua(runtime)
        return runtime

    def hrandfield(self, key: Any, *args: bytes) -> Any:
        found = super().hrandfield(key, *args)
        return [] if found is None and args else found

    @command(name="INFO", fixed=(), repeat=(bytes,))
    def info(self, *sections: bytes) -> bytes:
        return _INFO.replace(b"\n", b"\r\n")


class _FakeConnection(FakeAsyncRedisConnection):
    async def _connect(self) -> None:
        self._sock = _FakeSocket(self._server, self.db, client_class=self._client_class, client_info=self._client_info)
        self._reader, self._writer = FakeReader(self._sock), FakeWriter(self._sock)


class InMemoryRedis:
    """A Redis in this process; ``Store(...)`` in this process takes its ``url``, until :meth:`close`."""

    def __init__(self) -> None:
        self._server = FakeServer(version=(7, 0), server_type="redis")
        self.url = f"unix:///in-memory-{os.getpid()}-{next(_numbers)}"
        OPENERS[self.url] = self._open

    def close(self) -> None:
        """Drop this Redis, with its data."""
        OPENERS.pop(self.url, None)

    def _open(self) -> Any:
        return FakeAsyncRedis(server=self._server, connection_class=_FakeConnection)
