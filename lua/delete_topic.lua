--[[ delete_topic: take a topic out of the tables (216)
  KEYS[1] meta      HASH
  ARGV[1] topic
  ARGV[2] cluster   only from the brokers of this cluster; "" = everywhere
  ARGV[3] limit     int   brokerNames a call, about
  DERIVED topic:<topic>, topics, broker-topics:<brokerName>, broker:<brokerName>, cluster:<cluster>
  RETURNS {"OK", seq, brokerNames it was taken from, more 0|1}; more: the limit was reached, call again
  EVENTS  topic_deleted, when anything was there; with the queue data that it had, unless at more than 500 brokerNames
  REPEAT  no effect      COST O(limit); with a cluster also O(brokerNames of the topic)
  SOURCE  RouteInfoManager.deleteTopic ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/emptied"
--- @include "include/leaving_names"
--- @include "include/collect"
local NAMES_AT_ONCE = 250
local topic, key, limit = ARGV[1], P .. "topic:" .. ARGV[1], tonumber(ARGV[3])
local cursor, count, packed, leaving = "0", 0, {}, leaving_names() or {}
expect("set", P .. "topics")
expect("hash", key)
repeat
  local page, taken = call("HSCAN", key, cursor, "COUNT", NAMES_AT_ONCE), {}
  for i = 1, #page[2], 2 do
    local name = page[2][i]
    if not leaving[name]
      and (ARGV[2] == "" or call("SISMEMBER", P .. "cluster:" .. ARGV[2], name) == 1) then
      expect("hash", P .. "broker:" .. name)
      expect("set", P .. "broker-topics:" .. name)
      taken[#taken + 1] = name
    end
  end
  cursor, count = page[1], count + #taken
  packed[#packed + 1] = #taken > 0 and cmsgpack.pack(taken) or nil
  page, taken = nil, nil
  collect()
until cursor == "0" or count >= limit
if count == 0 then
  return {"OK", seq, 0, 0}
end
local MOST_BEFORE = 500 -- as many topics as an event has: a default topic may be at 10,000 brokerNames
local rev, listed, before = int(seq + 1), {}, {}
for part = 1, #packed do
  local taken, items = cmsgpack.unpack(packed[part]), {}
  for i = 1, #taken do
    if count <= MOST_BEFORE then
      before[#before + 1] = cjson.encode(taken[i]) .. ":" .. call("HGET", key, taken[i])
    end
    call("HDEL", key, taken[i])
    call("SREM", P .. "broker-topics:" .. taken[i], topic)
    call("HSET", P .. "broker:" .. taken[i], "rev", rev)
    items[i] = cjson.encode(taken[i])
  end
  listed[part] = table.concat(items, ",")
  taken, items = nil, nil
  collect()
end
if #emptied({topic}, {key}) == 1 then
  call("SREM", P .. "topics", topic)
end
emit("topic_deleted", ',"topic":' .. cjson.encode(topic) .. ',"rev":' .. rev
  .. ',"broker_names":[' .. table.concat(listed, ",") .. "]"
  .. (#before > 0 and (',"before":{' .. table.concat(before, ",") .. "}") or ""))
return {"OK", seq, count, cursor ~= "0" and 1 or 0}
