--[[ delete_kv: delete one key of the KV configuration (102); its namespace stays, if only empty
  KEYS[1] meta          HASH
  ARGV[1] kv_namespace
  ARGV[2] key
  DERIVED kv:<kvNamespace>
  RETURNS {"OK", seq}
  EVENTS  kv_deleted, when it was there
  REPEAT  no effect      COST O(1)
  SOURCE  KVConfigManager.deleteKVConfig; semantics 34 ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
if call("HDEL", P .. "kv:" .. ARGV[1], ARGV[2]) == 1 then
  emit("kv_deleted", ',"kv_namespace":' .. cjson.encode(ARGV[1]) .. ',"key":' .. cjson.encode(ARGV[2]))
end
return {"OK", seq}
