--[[ put_kv: store one key of the KV configuration (100)
  KEYS[1] meta          HASH
  ARGV[1] kv_namespace
  ARGV[2] key
  ARGV[3] has_value     "0": Java stores a null, which reads as not there, but makes the namespace exist
  ARGV[4] value
  DERIVED kv, kv:<kvNamespace>
  RETURNS {"OK", seq}
  EVENTS  kv_put, when anything changed
  REPEAT  no effect      COST O(1)
  SOURCE  KVConfigManager.putKVConfig; semantics 34 ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
local key = P .. "kv:" .. ARGV[1]
expect("set", P .. "kv")
expect("hash", key)
local changed = call("SADD", P .. "kv", ARGV[1]) == 1
local value = nil
if ARGV[3] == "1" then
  value = ARGV[4]
  if call("HGET", key, ARGV[2]) ~= value then
    call("HSET", key, ARGV[2], value)
    changed = true
  end
else
  changed = call("HDEL", key, ARGV[2]) == 1 or changed
end
if changed then
  emit("kv_put", ',"kv_namespace":' .. cjson.encode(ARGV[1]) .. ',"key":' .. cjson.encode(ARGV[2])
    .. (value and (',"value":' .. cjson.encode(value)) or ""))
end
return {"OK", seq}
