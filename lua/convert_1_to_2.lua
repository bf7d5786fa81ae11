--[[ convert_1_to_2: bring a namespace of schema 1 into the form of schema 2, a step with each call
  Schema 1 had its queue data by topic: topic:<topic> HASH (brokerName -> queue data), topics SET, broker-topics:<brokerName>
  SET, and in leaving HASH the brokerNames whose queue data counts for nobody. From the first step to the last the
  schema is "1>2", on which neither release starts. Everything but queue data stays as it is, and no event is told: the
  tables hold the same.
  KEYS[1] meta        HASH
  ARGV[1] most        int   cells a call, about; one topic is moved whole
  ARGV[2] alone       "1": no other process can reach this Redis, and leases are of processes that have ended
  DERIVED queues:<brokerName>, topic:<topic>, topics, broker-topics:<brokerName>, leaving, wiping; broker:<brokerName>,
          brokers, leases, lease:<incarnation>, processes
  RETURNS {"OK", topics moved, more 0|1}
          {"RUNNING", id...}: workers and sweepers of the older release run; nothing was written
          an error "MQSCHEMA ...": it is of neither schema
  EVENTS  none
  REPEAT  goes on where the call before ended; no effect on schema 2
  COST    O(most), and of the widest topic; the last call O(brokerNames) ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/collect"
local CELLS_AT_ONCE, TOPICS_AT_ONCE = 250, 50
local SWEEPER_SILENT_MS = 10000 -- it tells of itself every second, and every five while its sweeps fail
local most, alone = tonumber(ARGV[1]), ARGV[2] == "1"
local schema = call("HGET", KEYS[1], "schema")
local form, auth = string.match(schema, "^([%d>]+)(.*)$")
if form == "2" then
  return {"OK", 0, 0}
elseif form ~= "1" and form ~= "1>2" then
  return redis.error_reply("MQSCHEMA namespace " .. P .. " has schema version " .. schema .. ", not 1")
end

local running = {"RUNNING"}
for _, incarnation in ipairs(alone and {} or call("SMEMBERS", P .. "leases")) do
  if call("EXISTS", P .. "lease:" .. incarnation) == 1 then
    running[#running + 1] = incarnation
  end
end
local told = alone and {} or call("HGETALL", P .. "processes")
for i = 1, #told, 2 do
  if string.find(told[i + 1], '"kind":"sweeper"', 1, true)
    and tonumber(string.match(told[i + 1], "^%d+")) > now_ms - SWEEPER_SILENT_MS then
    running[#running + 1] = told[i]
  end
end
if #running > 1 then
  return {unpack(running, 1, math.min(#running, 100))}
end

expect("set", P .. "topics", P .. "brokers")
expect("hash", P .. "leaving", P .. "wiping")
call("HSET", KEYS[1], "schema", "1>2" .. auth)
local cells, moved = 0, 0

local function move(topic)
  local key, cursor = P .. "topic:" .. topic, "0"
  repeat
    local page = call("HSCAN", key, cursor, "COUNT", CELLS_AT_ONCE)
    local flat = page[2]
    for i = 1, #flat, 2 do
      if call("EXISTS", P .. "broker:" .. flat[i]) == 1 then
        call("HSET", P .. "queues:" .. flat[i], topic, flat[i + 1])
      end
    end
    cells, cursor = cells + #flat / 2, page[1]
    page, flat = nil, nil
    collect()
  until cursor == "0"
  call("UNLINK", key)
  call("SREM", P .. "topics", topic)
  moved = moved + 1
end

repeat
  local topics = call("SRANDMEMBER", P .. "topics", TOPICS_AT_ONCE)
  for i = 1, #topics do
    if cells >= most then
      return {"OK", moved, 1}
    end
    move(topics[i])
  end
until #topics == 0

local function forget_topics(name)
  call("UNLINK", P .. "broker-topics:" .. name)
end
local cursor = "0"
repeat
  local page = call("SSCAN", P .. "brokers", cursor, "COUNT", CELLS_AT_ONCE)
  cursor = page[1]
  for i = 1, #page[2] do
    forget_topics(page[2][i])
  end
  page = nil
  collect()
until cursor == "0"
for _, name in ipairs(call("HKEYS", P .. "leaving")) do
  forget_topics(name)
end
call("UNLINK", P .. "leaving")
for _, name in ipairs(call("HKEYS", P .. "wiping")) do
  call("HSET", P .. "wiping", name, "anew") -- the cursor was that of another key (include/rest)
end
call("HSET", KEYS[1], "schema", "2" .. auth)
return {"OK", moved, 0}
