--[[ set_config: change the shared run-time configuration (318)
  KEYS[1] meta      HASH
  ARGV[1...] pairs of key and value
  DERIVED config
  RETURNS {"OK", seq, config_rev}
  EVENTS  config_set, when anything changed
  REPEAT  no effect      COST O(pairs) ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
expect("hash", P .. "config")
local changed = {}
for i = 1, #ARGV, 2 do
  if call("HGET", P .. "config", ARGV[i]) ~= ARGV[i + 1] then
    call("HSET", P .. "config", ARGV[i], ARGV[i + 1])
    changed[#changed + 1] = cjson.encode(ARGV[i]) .. ":" .. cjson.encode(ARGV[i + 1])
  end
end
if #changed > 0 then
  -- every digest taken under the old settings is worth nothing now: heartbeat compares this number
  config_rev = call("HINCRBY", KEYS[1], "config_rev", 1)
  emit("config_set", ',"config_rev":' .. config_rev .. ',"config":{' .. table.concat(changed, ",") .. "}")
end
return {"OK", seq, config_rev}
