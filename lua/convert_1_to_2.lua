--[[ convert_1_to_2: bring a namespace of schema 1 into the form of schema 2, a step with each call
  Schema 1 had its queue data by topic: topic:<topic> HASH (brokerName -> queue data), topics SET, broker-topics:<brokerName>
  SET, and in leaving HASH the brokerNames whose queue data counts for nobody. From the first step to the last the
  schema is "1>2", on which neither release starts. Everything but queue data stays as it is, and no event is told: the
  tables hold the same.
  KEYS[1] meta        HASH
  ARGV[1] most        int   cells a call, about: one topic is moved whole
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
local TOPICS_AT_ONCE = 500
local SWEEPER_SILENT_MS = 10000 -- it tells of itself every second, and every five while its sweeps fail
local most = tonumber(ARGV[1])
local schema = call("HGET", KEYS[1], "schema")
local form, auth = string.match(schema, "^([%d>]+)(.*)$")
if form == "2" then
  return {"OK", 0, 0}
elseif form ~= "1" and form ~= "1>2" then
  return redis.error_reply("MQSCHEMA namespace " .. P .. " has schema version " .. schema .. ", not 1")
end

local running = {"RUNNING"}
for _, incarnation in ipairs(call("SMEMBERS", P .. "leases")) do
  if call("EXISTS", P .. "lease:" .. incarnation) == 1 then
    running[#running + 1] = incarnation
  end
end
local told = call("HGETALL", P .. "processes")
for i = 1, #told, 2 do
  if string.find(told[i + 1], '"kind":"sweeper"', 1, true)
    and math.abs(now_ms - tonumber(string.match(told[i + 1], "^%d+"))) < SWEEPER_SILENT_MS then
    running[#running + 1] = told[i]
  end
end
if #running > 1 then
  return {unpack(running, 1, math.min(#running, 100))}
end

expect("set", P .. "topics", P .. "brokers")
expect("hash", P .. "leaving", P .. "wiping")
local topics, rows, cells, is_there = call("SRANDMEMBER", P .. "topics", TOPICS_AT_ONCE), {}, 0, {}
while #rows < #topics and cells < most do
  local key = P .. "topic:" .. topics[#rows + 1]
  expect("hash", key)
  local row = call("HGETALL", key)
  rows[#rows + 1], cells = row, cells + #row / 2
  for i = 1, #row, 2 do
    local name = row[i]
    if is_there[name] == nil then
      is_there[name] = call("EXISTS", P .. "broker:" .. name) == 1
      expect("hash", P .. "queues:" .. name)
    end
  end
end
local names, gone, wiping = {}, {}, {}
local is_last = call("SCARD", P .. "topics") == #rows
if is_last then
  names, gone, wiping = call("SMEMBERS", P .. "brokers"), call("HKEYS", P .. "leaving"), call("HKEYS", P .. "wiping")
end

call("HSET", KEYS[1], "schema", "1>2" .. auth)
for i = 1, #rows do
  for j = 1, #rows[i], 2 do
    if is_there[rows[i][j]] then
      call("HSET", P .. "queues:" .. rows[i][j], topics[i], rows[i][j + 1])
    end
  end
  call("UNLINK", P .. "topic:" .. topics[i])
  call("SREM", P .. "topics", topics[i])
end
if is_last then
  for _, some in ipairs({names, gone}) do
    for i = 1, #some do
      call("UNLINK", P .. "broker-topics:" .. some[i])
    end
  end
  for i = 1, #wiping do
    call("HSET", P .. "wiping", wiping[i], "anew") -- the cursor was that of another key (include/rest)
  end
  call("UNLINK", P .. "leaving")
  call("HSET", KEYS[1], "schema", "2" .. auth)
end
return {"OK", #rows, is_last and 0 or 1}
