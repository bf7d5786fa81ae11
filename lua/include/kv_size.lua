--[[ kv_size: limits of the KV configuration: number of KV namespaces, and keys and bytes of one and of all of them
  GIVES  no_room(kv_namespace, key, old, value) -> why the value may not be stored, or nil and the new size;
         old is the present value, false = none.
         no_namespace(kv_namespace) -> why the namespace may not be made, or nil.
         save_size(kv_namespace, size); smaller(kv_namespace, key, old): subtracts a deleted key.
         A size is the bytes of keys and values. The HASH kv_sizes has the sizes; a missing size is counted ]]
--- @include "include/expect"
--- @include "include/collect"
local MOST_VALUE_BYTES, MOST_BYTES, MOST_KEYS = 64 * 1024, 16 * 1024 * 1024, 20000
local MOST_NAMESPACES = 1000
-- The limits of all KV namespaces together: every front end has all in memory, and every snapshot reads all.
local MOST_ALL_BYTES, MOST_ALL_KEYS = 64 * 1024 * 1024, 200000
expect("hash", P .. "kv_sizes")

local function counted(kv_namespace)
  local bytes, cursor = 0, "0"
  repeat
    local page = call("HSCAN", P .. "kv:" .. kv_namespace, cursor, "COUNT", 100)
    cursor = page[1]
    for i = 1, #page[2] do
      bytes = bytes + #page[2][i]
    end
    page = nil
    collect()
  until cursor == "0"
  return bytes
end

local function size_of(kv_namespace)
  return tonumber(string.match(call("HGET", P .. "kv_sizes", kv_namespace) or "", "^%d+"))
end

local function save_size(kv_namespace, size)
  call("HSET", P .. "kv_sizes", kv_namespace, int(math.max(0, size)))
end

local function smaller(kv_namespace, key, old)
  local size = size_of(kv_namespace)
  if size then
    save_size(kv_namespace, size - #key - #old)
  end
end

local function no_namespace(kv_namespace)
  if call("SCARD", P .. "kv") >= MOST_NAMESPACES and call("SISMEMBER", P .. "kv", kv_namespace) == 0 then
    return "there are at most " .. MOST_NAMESPACES .. " KV namespaces, this would be one more"
  end
end

local function no_room(kv_namespace, key, old, value)
  if #value > MOST_VALUE_BYTES then
    return "a value has at most " .. MOST_VALUE_BYTES .. " bytes, this one has " .. #value
  elseif not old and call("HLEN", P .. "kv:" .. kv_namespace) >= MOST_KEYS then
    return "a namespace has at most " .. MOST_KEYS .. " keys, this one has as many"
  end
  local size, added = size_of(kv_namespace) or counted(kv_namespace), #value - #(old or "") + (old and 0 or #key)
  if added > 0 and size + added > MOST_BYTES then
    return "a namespace has at most " .. MOST_BYTES .. " bytes of keys and values, this one has " .. int(size)
  end
  if added > 0 then
    local sizes, bytes = call("HVALS", P .. "kv_sizes"), 0
    for i = 1, #sizes do
      bytes = bytes + tonumber(string.match(sizes[i], "^%d+"))
    end
    if bytes + added > MOST_ALL_BYTES then
      return "all KV namespaces have at most " .. MOST_ALL_BYTES .. " bytes of keys and values, and they have "
        .. int(bytes)
    end
  end
  if not old then
    local names, keys = call("SMEMBERS", P .. "kv"), 0
    for i = 1, #names do
      keys = keys + call("HLEN", P .. "kv:" .. names[i])
    end
    if keys >= MOST_ALL_KEYS then
      return "all KV namespaces have at most " .. MOST_ALL_KEYS .. " keys, and they have as many"
    end
  end
  return nil, size + added
end
