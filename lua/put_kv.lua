--[[ put_kv: store one key of the KV configuration (100)
  KEYS[1] meta          HASH
  ARGV[1] kv_namespace
  ARGV[2] key
  ARGV[3] has_value     "0": the value is null. Afterwards the KV namespace exists, but not the key, as in Java
  ARGV[4] value
  DERIVED kv, kv:<kvNamespace>, kv_sizes
  RETURNS {"OK", seq}
          {"REFUSED", seq, why}: over a limit of include/kv_size; nothing was stored
  EVENTS  kv_put, when anything changed
  REPEAT  no effect      COST O(KV namespaces); also O(keys of this KV namespace) if kv_sizes has no size for it
  SOURCE  KVConfigManager.putKVConfig; docs/semantics.md 34 ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/kv_size"
local key = P .. "kv:" .. ARGV[1]
expect("set", P .. "kv")
expect("hash", key)
local value, old, why, size = nil, call("HGET", key, ARGV[2]), no_namespace(ARGV[1]), nil
if not why and ARGV[3] == "1" then
  value = ARGV[4]
  why, size = no_room(ARGV[1], ARGV[2], old, value)
end
if why then
  return {"REFUSED", seq, why}
end
local changed = call("SADD", P .. "kv", ARGV[1]) == 1
if old ~= (value or false) then
  changed = true
  if value then
    call("HSET", key, ARGV[2], value)
    save_size(ARGV[1], size)
  else
    call("HDEL", key, ARGV[2])
    smaller(ARGV[1], ARGV[2], old)
  end
end
if changed then
  emit("kv_put", ',"kv_namespace":' .. cjson.encode(ARGV[1]) .. ',"key":' .. cjson.encode(ARGV[2])
    .. (value and (',"value":' .. cjson.encode(value)) or ""))
end
return {"OK", seq}
