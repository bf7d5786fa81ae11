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
-- The effect of a registration depends on these keys. A change of one of them changes config_rev; then the script
-- heartbeat answers DIFF, and every registration is decoded again. Other keys do not need this.
local DECIDES = {deleteTopicWithBrokerRegistration = true, brokerChannelExpiredTimeMs = true}
local changed, voids = {}, false
for i = 1, #ARGV, 2 do
  if call("HGET", P .. "config", ARGV[i]) ~= ARGV[i + 1] then
    call("HSET", P .. "config", ARGV[i], ARGV[i + 1])
    changed[#changed + 1] = cjson.encode(ARGV[i]) .. ":" .. cjson.encode(ARGV[i + 1])
    voids = voids or DECIDES[ARGV[i]]
  end
end
if #changed > 0 then
  if voids then
    config_rev = call("HINCRBY", KEYS[1], "config_rev", 1)
  end
  emit("config_set", ',"config_rev":' .. config_rev .. ',"config":{' .. table.concat(changed, ",") .. "}")
end
return {"OK", seq, config_rev}
