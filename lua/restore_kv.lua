--[[ restore_kv: a Redis that came back with less gets its KV configuration from a front end that still has it
  KEYS[1] meta       HASH
  ARGV[1] up_since   ms; once for each outage: the first front end wins
  ARGV[2...] triples of kvNamespace, key, value; an empty key with an empty value stands for the namespace
  DERIVED kv, kv:<kvNamespace>
  RETURNS {seq, keys restored}; what is there already is newer, and stays
  EVENTS  kv_put for each restored namespace (without a key) and key
  REPEAT  no effect      COST O(triples) ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
if call("HGET", KEYS[1], "kv_restored_at") == ARGV[1] then
  return {seq, 0}
end
expect("set", P .. "kv")
for i = 2, #ARGV, 3 do
  expect("hash", P .. "kv:" .. ARGV[i])
end
call("HSET", KEYS[1], "kv_restored_at", ARGV[1])
local restored = 0
for i = 2, #ARGV, 3 do
  local namespace, name, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if call("SADD", P .. "kv", namespace) == 1 then
    emit("kv_put", ',"kv_namespace":' .. cjson.encode(namespace))
  end
  if name ~= "" or value ~= "" then
    if call("HSETNX", P .. "kv:" .. namespace, name, value) == 1 then
      restored = restored + 1
      emit("kv_put", ',"kv_namespace":' .. cjson.encode(namespace) .. ',"key":' .. cjson.encode(name)
        .. ',"value":' .. cjson.encode(value))
    end
  end
end
return {seq, restored}
