--[[ delete_topic: take a topic out of the tables (216)
  KEYS[1] meta      HASH
  ARGV[1] topic
  ARGV[2] cluster   only from the brokers of this cluster; "" = everywhere
  DERIVED topic:<topic>, topics, broker-topics:<brokerName>, broker:<brokerName>, cluster:<cluster>
  RETURNS {"OK", seq, brokerNames it was taken from}
  EVENTS  topic_deleted, when anything was there
  REPEAT  no effect      COST O(brokerNames of the topic)
  SOURCE  RouteInfoManager.deleteTopic ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/emptied"
--- @include "include/leaving_names"
local topic = ARGV[1]
local names, leaving, taken = call("HKEYS", P .. "topic:" .. topic), leaving_names() or {}, {}
for i = 1, #names do
  if not leaving[names[i]] and (ARGV[2] == "" or call("SISMEMBER", P .. "cluster:" .. ARGV[2], names[i]) == 1) then
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
local rev, listed = int(seq + 1), {}
for i = 1, #taken do
  call("HDEL", P .. "topic:" .. topic, taken[i])
  call("SREM", P .. "broker-topics:" .. taken[i], topic)
  call("HSET", P .. "broker:" .. taken[i], "rev", rev)
  listed[i] = cjson.encode(taken[i])
end
if #emptied({topic}, {P .. "topic:" .. topic}) == 1 then
  call("SREM", P .. "topics", topic)
end
emit("topic_deleted", ',"topic":' .. cjson.encode(topic) .. ',"rev":' .. rev
  .. ',"broker_names":[' .. table.concat(listed, ",") .. "]")
return {"OK", seq, #taken}
