--[[ topic_sets: the SETs topic:<topic> (the brokerNames that have the topic) and topics (all topics)
  GIVES  try: as call, but a key of another type is no error
         enter(broker_name, flat): adds topics to the sets; flat is topic, queue data, topic, ...
         gained(broker_name, flat, count): to be called after HSET stored flat, with count new topics
         lost(broker_name, topics): to be called after the queue data of these topics was deleted
         leave(broker_name): deletes all queue data of a brokerName
         More than AT_ONCE topics would cost Redis too much time at once (a microsecond each): tidy_topics enters or
         removes them later. "arriving" has the brokerNames that gained many topics; leaving:<number> is the queue data
         of a brokerName that left.
         The sets are only an index, and queue data decides: a member without queue data does not count. So a key of
         another type in the place of a set does not stop registrations. ]]
--- @include "include/expect"
local AT_ONCE = 64
local try = redis.pcall
expect("hash", P .. "arriving", P .. "leaving")

local function enter(broker_name, flat)
  local topics = {}
  for i = 1, #flat, 2 do
    topics[#topics + 1] = flat[i]
    try("SADD", P .. "topic:" .. flat[i], broker_name)
  end
  try("SADD", P .. "topics", unpack(topics))
end

local function gained(broker_name, flat, count)
  if count > AT_ONCE then
    call("HSET", P .. "arriving", broker_name, "")
  else
    enter(broker_name, flat)
  end
end

local function lost(broker_name, topics)
  for i = 1, #topics do
    local key = P .. "topic:" .. topics[i]
    if try("SREM", key, broker_name) == 1 and call("EXISTS", key) == 0 then
      try("SREM", P .. "topics", topics[i])
    end
  end
  if call("EXISTS", P .. "queues:" .. broker_name) == 0 then
    call("HDEL", P .. "arriving", broker_name) -- it left before its new topics were entered
  end
end

local function leave(broker_name)
  local key, number = P .. "queues:" .. broker_name, int(seq + 1)
  call("HDEL", P .. "arriving", broker_name)
  local count = try("HLEN", key)
  if type(count) == "number" and count > AT_ONCE then
    try("RENAME", key, P .. "leaving:" .. number)
    call("HSET", P .. "leaving", number, broker_name)
  elseif type(count) == "number" then
    lost(broker_name, try("HKEYS", key))
  end
  call("UNLINK", key)
end
