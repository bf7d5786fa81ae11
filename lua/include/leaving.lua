--[[ leaving: brokerNames that are gone, and whose queue data is taken away in parts
  The row of such a name is gone, and the change stream has said so: the name has no queue data any more. What is left
  of it in topic:<topic> and broker-topics:<brokerName> counts for nobody. Whoever reads queue data passes over it
  (leaving_names), and register_broker has it taken away before the name comes back.
  NEEDS  open, expect, in_chunks, emptied, collect
  GIVES  room: topics that this script may still take away, so that it takes no more than some 30 ms of Redis
         drop_cells(name, topics): takes the name's queue data of these topics away, and topics that nobody else has
         leave(name): the name is gone, and has more topics than there is room for
         clear_name(name): takes away as much as there is room for -> whether that was all
         clear_names(): the same of all such names -> whether that was all
         An older release knows no such names, and may register one again at that moment. Then what is left stays.
  USED BY remove_who, expire_brokers, clear_broker ]]
local room = 3000
local LEAVE_AT_ONCE = 250 -- see each_topics
expect("hash", P .. "leaving")
expect("set", P .. "topics")

local function drop_cells(name, topics)
  local topic_prefix, pcall, keys = P .. "topic:", redis.pcall, {}
  for i = 1, #topics do
    local key = topic_prefix .. topics[i]
    keys[i] = key
    pcall("HDEL", key, name) -- a key that is not a hash holds nothing of this broker: it must not stop the removal
  end
  in_chunks("SREM", P .. "topics", emptied(topics, keys))
end

local function leave(name)
  call("HSET", P .. "leaving", name, int(now_ms))
end

local function clear_name(name)
  local topics_key, pcall, gone = P .. "broker-topics:" .. name, redis.pcall, call("EXISTS", P .. "broker:" .. name) == 0
  local cursor = "0" -- of this call alone: after a failover it would mean other topics
  while gone and call("EXISTS", topics_key) == 1 do
    if room <= 0 then
      return false
    end
    local page = pcall("SSCAN", topics_key, cursor, "COUNT", math.min(room, LEAVE_AT_ONCE))
    if page.err then -- a key that is no set says nothing of topics
      break
    end
    cursor = page[1]
    local topics = {unpack(page[2], 1, math.min(room, #page[2]))} -- a small set comes whole
    if #topics > 0 then
      drop_cells(name, topics)
      pcall("SREM", topics_key, unpack(topics))
    end
    room = room - #topics
    page, topics = nil, nil
    collect()
  end
  call("HDEL", P .. "leaving", name)
  return true
end

local function clear_names()
  local names = call("HKEYS", P .. "leaving")
  for i = 1, #names do
    if not clear_name(names[i]) then
      return false
    end
  end
  return true
end
