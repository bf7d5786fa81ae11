--[[ tidy_topics: bring the sets of topics in line with the topics that brokerNames gained and lost, some with each call
  If no such topics are left, it checks random topics and repairs their sets: somebody may have deleted a key by hand.
  KEYS[1] meta      HASH
  ARGV[1] topics    int   about how many topics this call enters or removes
  ARGV[2] pause_ms  int   the least pause between two calls, of all callers together
  DERIVED arriving, leaving, leaving:<number>, topics, topic:<topic>, brokers, queues:<brokerName>
  RETURNS {seq, more 0|1, repaired entries}
  EVENTS  none: the sets are only an index
  REPEAT  no effect      COST O(topics) ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/collect"
--- @include "include/rest"
--- @include "include/topic_sets"
local TOPICS_AT_ONCE = 250
local SAMPLE, MEMBERS = 50, 4
local room = tonumber(ARGV[1])
expect("set", P .. "topics", P .. "brokers")

local function really_lost(broker_name, topics)
  local without, data = {}, try("HMGET", P .. "queues:" .. broker_name, unpack(topics))
  for i = 1, #topics do
    if data[i] == false then -- else it came back, or the key is of another type
      without[#without + 1] = topics[i]
    end
  end
  lost(broker_name, without)
  return #without
end

local function tidy_leaving()
  local found, cursor = call("HRANDFIELD", P .. "leaving", 1, "WITHVALUES"), "0"
  while #found > 0 and room > 0 do
    local key, topics = P .. "leaving:" .. found[1], {}
    -- HSCAN: HRANDFIELD would take longer with every page that is deleted from the HASH
    local page = try("HSCAN", key, cursor, "COUNT", math.min(TOPICS_AT_ONCE, room))
    page = page.err and {"0", {}} or page -- a key of another type
    for i = 1, #page[2], 2 do
      topics[#topics + 1] = page[2][i]
    end
    cursor = page[1]
    if #topics > 0 then
      really_lost(found[2], topics)
      try("HDEL", key, unpack(topics))
      room = room - #topics
    elseif cursor == "0" then -- the HASH is empty
      call("UNLINK", key)
      call("HDEL", P .. "leaving", found[1])
      found = call("HRANDFIELD", P .. "leaving", 1, "WITHVALUES")
    end
    page, topics = nil, nil
    collect()
  end
  return #found == 0
end

local function tidy_arriving()
  local found = call("HRANDFIELD", P .. "arriving", 1, "WITHVALUES")
  while #found > 0 and room > 0 do
    local key, cursor = P .. "queues:" .. found[1], cursor_of(found[2])
    repeat
      local page = try("HSCAN", key, cursor, "COUNT", TOPICS_AT_ONCE)
      page = page.err and {"0", {}} or page -- a key of another type
      cursor, room = page[1], room - #page[2] / 2 - 1
      if #page[2] > 0 then
        enter(found[1], page[2])
      end
      page = nil
      collect()
    until cursor == "0" or room <= 0
    if cursor == "0" then
      call("HDEL", P .. "arriving", found[1])
      found = call("HRANDFIELD", P .. "arriving", 1, "WITHVALUES")
    else
      call("HSET", P .. "arriving", found[1], rest_of(cursor))
    end
  end
  return #found == 0
end

local function mend_some()
  local mended, name = 0, call("SRANDMEMBER", P .. "brokers")
  local topics = name and try("HRANDFIELD", P .. "queues:" .. name, SAMPLE) or {}
  for i = 1, #topics do
    mended = mended + (tonumber(try("SADD", P .. "topic:" .. topics[i], name)) or 0)
      + (tonumber(try("SADD", P .. "topics", topics[i])) or 0)
  end
  topics = call("SRANDMEMBER", P .. "topics", SAMPLE)
  for i = 1, #topics do
    local key = P .. "topic:" .. topics[i]
    local members = try("SRANDMEMBER", key, MEMBERS)
    for j = 1, #members do
      mended = mended + really_lost(members[j], {topics[i]})
    end
    if call("EXISTS", key) == 0 then
      mended = mended + call("SREM", P .. "topics", topics[i])
    end
  end
  return mended
end

local tidied_ms = tonumber(call("HGET", KEYS[1], "tidied_ms") or "0")
if call("EXISTS", P .. "leaving", P .. "arriving") == 0 then
  return {seq, 0, mend_some()}
elseif now_ms >= tidied_ms and now_ms < tidied_ms + tonumber(ARGV[2]) then
  return {seq, 1, 0}
end
call("HSET", KEYS[1], "tidied_ms", int(now_ms))
local done = tidy_leaving() and tidy_arriving()
return {seq, done and 0 or 1, 0}
