--[[ delete_topic: take a topic out of the tables (216)
  KEYS[1] meta      HASH
  ARGV[1] topic
  ARGV[2] cluster   only from the brokers of this cluster; "" = everywhere
  DERIVED topic:<topic>, topics, broker-topics:<brokerName>, broker:<brokerName>, cluster:<cluster>
  RETURNS {"OK", seq, brokerNames it was taken from}
  EVENTS  topic_deleted, when anything was there; with the queue data that it had, unless at more than 500 brokerNames
  REPEAT  no effect      COST O(brokerNames of the topic)
  SOURCE  RouteInfoManager.deleteTopic ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/emptied"
local topic = ARGV[1]
local names, taken = call("HKEYS", P .. "topic:" .. topic), {}
for i = 1, #names do
  if ARGV[2] == "" or call("SISMEMBER", P .. "cluster:" .. ARGV[2], names[i]) == 1 then
    taken[#taken + 1] = names[i]
  end
end
if #taken == 0 then
  return {"OK", seq, 0}
end
expect("set", P .. "topics")
for i = 1, #taken do
  expect("hash", P .. "broker:" .. taken[i])
  expect("set", P .. "broker-topics:" .. taken[i])
end
local MOST_BEFORE = 500 -- as many topics as an event has: a default topic may be at 10,000 brokerNames
local rev, listed, before = int(seq + 1), {}, {}
for i = 1, #taken do
  if #taken <= MOST_BEFORE then
    before[i] = cjson.encode(taken[i]) .. ":" .. call("HGET", P .. "topic:" .. topic, taken[i])
  end
  call("HDEL", P .. "topic:" .. topic, taken[i])
  call("SREM", P .. "broker-topics:" .. taken[i], topic)
  call("HSET", P .. "broker:" .. taken[i], "rev", rev)
  listed[i] = cjson.encode(taken[i])
end
if #emptied({topic}, {P .. "topic:" .. topic}) == 1 then
  call("SREM", P .. "topics", topic)
end
emit("topic_deleted", ',"topic":' .. cjson.encode(topic) .. ',"rev":' .. rev
  .. ',"broker_names":[' .. table.concat(listed, ",") .. "]"
  .. (#before > 0 and (',"before":{' .. table.concat(before, ",") .. "}") or ""))
return {"OK", seq, #taken}
