--[[ delete_kv: delete one key of the KV configuration (102); its namespace stays, even if it is empty
  KEYS[1] meta          HASH
  ARGV[1] kv_namespace
  ARGV[2] key
  DERIVED kv:<kvNamespace>, kv_sizes
  RETURNS {"OK", seq}
  EVENTS  kv_deleted, when it was there
  REPEAT  no effect      COST O(1)
  SOURCE  KVConfigManager.deleteKVConfig; docs/semantics.md 34 ]]
--- @include "include/open"
--- @include "include/emit"
--- @include "include/kv_size"
local key = P .. "kv:" .. ARGV[1]
local old = call("HGET", key, ARGV[2])
if old then
  call("HDEL", key, ARGV[2])
  smaller(ARGV[1], ARGV[2], old)
  emit("kv_deleted", ',"kv_namespace":' .. cjson.encode(ARGV[1]) .. ',"key":' .. cjson.encode(ARGV[2]))
end
return {"OK", seq}
