--[[ delete_topic: take a topic out of the tables (216)
  It searches the queue data of all brokerNames, some thousands with each call: topic:<topic> may lack a brokerName that
  has just registered ("arriving" in include/topic_sets).
  KEYS[1] meta      HASH
  ARGV[1] topic
  ARGV[2] cluster   only from the brokers of this cluster; "" = everywhere
  ARGV[3] limit     int   about how many brokerNames this call takes the topic from
  ARGV[4] rest      "" in the first call; then the rest that the previous call returned
  ARGV[5] owner     the caller and his checked resources, see include/owner
  DERIVED brokers, queues:<brokerName>, broker:<brokerName>, cluster:<cluster>, topic:<topic>, topics
  RETURNS {"OK", seq, brokerNames it was taken from, rest}; rest "": no brokerName is left, else call again with it
          {"ASK", seq, resource, ...}: resources of its brokers for which the right was not checked; this call changed
          nothing, see include/owner
  EVENTS  topic_deleted, when a brokerName had the topic; it has the deleted queue data of at most 500 brokerNames, of
          more brokerNames none
  REPEAT  no effect      COST O(limit), and half a microsecond for each brokerName
  SOURCE  RouteInfoManager.deleteTopic ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/collect"
--- @include "include/rest"
--- @include "include/owner"
--- @include "include/topic_sets"
local NAMES_AT_ONCE = 250
local MOST_LOOKED_AT = 10000
local topic, limit = ARGV[1], tonumber(ARGV[3])
local cursor, looked_at, count, packed = cursor_of(ARGV[4]), 0, 0, {}
local asks
expect("set", P .. "brokers")
if ARGV[2] ~= "" then
  expect("set", P .. "cluster:" .. ARGV[2])
end
repeat
  local page, taken = call("SSCAN", P .. "brokers", cursor, "COUNT", NAMES_AT_ONCE), {}
  table.sort(page[2])
  for i = 1, #page[2] do
    local name = page[2][i]
    local key = P .. "queues:" .. name
    local data = try("HGET", key, topic)
    if type(data) == "table" then
      expect("hash", key)
    end
    if data and (ARGV[2] == "" or call("SISMEMBER", P .. "cluster:" .. ARGV[2], name) == 1) then
      expect("hash", P .. "broker:" .. name)
      taken[#taken + 1] = name
      taken[#taken + 1] = data
      asks = asks or ARGV[5] ~= ""
        and ask_for(ARGV[5], {"cluster:" .. (call("HGET", P .. "broker:" .. name, "cluster") or "")})
    end
  end
  cursor, looked_at, count = page[1], looked_at + #page[2], count + #taken / 2
  packed[#packed + 1] = #taken > 0 and cmsgpack.pack(taken) or nil
  page, taken = nil, nil
  collect()
until cursor == "0" or count >= limit or looked_at >= MOST_LOOKED_AT
if asks then
  return asks
end
if count == 0 then
  return {"OK", seq, 0, rest_of(cursor)}
end
local MOST_BEFORE = 500 -- a default topic may be at 10,000 brokerNames
local rev, listed, before = int(seq + 1), {}, {}
for part = 1, #packed do
  local taken, items = cmsgpack.unpack(packed[part]), {}
  for i = 1, #taken, 2 do
    local name = taken[i]
    local quoted = cjson.encode(name)
    call("HDEL", P .. "queues:" .. name, topic)
    lost(name, {topic})
    call("HSET", P .. "broker:" .. name, "rev", rev)
    items[#items + 1] = quoted
    if count <= MOST_BEFORE then
      before[#before + 1] = quoted .. ":" .. taken[i + 1]
    end
  end
  listed[part] = table.concat(items, ",")
  taken, items = nil, nil
  collect()
end
emit("topic_deleted", ',"topic":' .. cjson.encode(topic) .. ',"rev":' .. rev
  .. ',"broker_names":[' .. table.concat(listed, ",") .. "]"
  .. (#before > 0 and (',"before":{' .. table.concat(before, ",") .. "}") or ""))
return {"OK", seq, count, rest_of(cursor)}
