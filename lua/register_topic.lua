--[[ register_topic: give a topic queues at brokers that are known (217)
  KEYS[1] meta      HASH
  ARGV[1] topic
  ARGV[2...] pairs of brokerName and queue data
  DERIVED topic:<topic>, topics, broker-topics:<brokerName>, broker:<brokerName>
  RETURNS {"OK", seq, brokerNames written}: as in Java, an unknown brokerName ends it: a new topic is then not
          stored at all, an existing one keeps what came before
  EVENTS  topic_registered, when anything changed
  REPEAT  no effect      COST O(pairs)
  SOURCE  RouteInfoManager.registerTopic (5.x); docs/semantics.md 37 ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/leaving_names"
local topic, key = ARGV[1], P .. "topic:" .. ARGV[1]
local last = #ARGV
expect("hash", key)
expect("set", P .. "topics")

local function is_there()
  local names, leaving = call("HKEYS", key), leaving_names() or {}
  for i = 1, #names do
    if not leaving[names[i]] then
      return true
    end
  end
  return false
end

for i = 2, #ARGV, 2 do
  if call("EXISTS", P .. "broker:" .. ARGV[i]) == 0 then
    last = is_there() and i - 1 or 1
    break
  end
  expect("hash", P .. "broker:" .. ARGV[i])
  expect("set", P .. "broker-topics:" .. ARGV[i])
end
local names, final = {}, {}
for i = 2, last, 2 do
  if not final[ARGV[i]] then
    names[#names + 1] = ARGV[i]
  end
  final[ARGV[i]] = ARGV[i + 1] -- a brokerName that comes twice: the last one counts
end
local changed, rev = {}, int(seq + 1)
for i = 1, #names do
  local name = names[i]
  if call("HGET", key, name) ~= final[name] then
    call("HSET", key, name, final[name])
    call("SADD", P .. "topics", topic)
    call("SADD", P .. "broker-topics:" .. name, topic)
    call("HSET", P .. "broker:" .. name, "rev", rev)
    changed[#changed + 1] = cjson.encode(name) .. ":" .. final[name]
  end
end
if #changed > 0 then
  emit("topic_registered", ',"topic":' .. cjson.encode(topic) .. ',"rev":' .. rev
    .. ',"queue_datas":{' .. table.concat(changed, ",") .. "}")
end
return {"OK", seq, math.max(0, math.floor((last - 1) / 2))}
