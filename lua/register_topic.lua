--[[ register_topic: give a topic queues at brokers that are known (217)
  KEYS[1] meta      HASH
  ARGV[1] topic
  ARGV[2] owner     the caller and his checked resources, see include/owner
  ARGV[3...] pairs of brokerName and queue data
  DERIVED brokers, queues:<brokerName>, broker:<brokerName>, topic:<topic>, topics
  RETURNS {"OK", seq, number of pairs that were used}: as in Java, these are the pairs before the first unknown
          brokerName; if there is an unknown brokerName, and the topic is new, no pair is used
          {"ASK", seq, resource, ...}: nothing was changed, see include/owner
  EVENTS  topic_registered, when anything changed
  REPEAT  no effect      COST O(pairs); with an unknown brokerName also half a microsecond for each brokerName
  SOURCE  RouteInfoManager.registerTopic (5.x); docs/semantics.md 37 ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/collect"
--- @include "include/keep_registered"
--- @include "include/owner"
--- @include "include/topic_sets"
local NAMES_AT_ONCE = 250
local topic, last = ARGV[1], #ARGV
expect("set", P .. "brokers")

local function is_there()
  local cursor = "0"
  repeat
    local page = call("SSCAN", P .. "brokers", cursor, "COUNT", NAMES_AT_ONCE)
    for i = 1, #page[2] do
      if try("HEXISTS", P .. "queues:" .. page[2][i], topic) == 1 then
        return true
      end
    end
    cursor, page = page[1], nil
    collect()
  until cursor == "0"
  return false
end

local asks = {}
for i = 3, #ARGV, 2 do
  if call("EXISTS", P .. "broker:" .. ARGV[i]) == 0 then
    last = is_there() and i - 1 or 2
    break
  end
  expect("hash", P .. "broker:" .. ARGV[i], P .. "queues:" .. ARGV[i])
  asks[#asks + 1] = "cluster:" .. (call("HGET", P .. "broker:" .. ARGV[i], "cluster") or "")
end
asks = ask_for(ARGV[2], asks)
if asks then
  return asks
end
local names, final = {}, {}
for i = 3, last, 2 do
  if not final[ARGV[i]] then
    names[#names + 1] = ARGV[i]
  end
  final[ARGV[i]] = ARGV[i + 1] -- a brokerName that comes twice: the last one counts
end
local changed, rev = {}, int(seq + 1)
for i = 1, #names do
  local name = names[i]
  local key = P .. "queues:" .. name
  local before = call("HGET", key, topic)
  local data = keep_registered(final[name], before)
  if before ~= final[name] and before ~= data then
    if call("HSET", key, topic, data) == 1 then
      enter(name, {topic, data})
    end
    call("HSET", P .. "broker:" .. name, "rev", rev)
    changed[#changed + 1] = cjson.encode(name) .. ":" .. data
  end
end
if #changed > 0 then
  emit("topic_registered", ',"topic":' .. cjson.encode(topic) .. ',"rev":' .. rev
    .. ',"queue_datas":{' .. table.concat(changed, ",") .. "}")
end
return {"OK", seq, math.max(0, math.floor((last - 2) / 2))}
