--[[ each_topics: all topics of a brokerName, some hundreds at a time
  NEEDS  open, collect
  GIVES  each_topics(broker_name, use, cursor, most) -> the cursor to go on with, "0": those were all. Calls use(topics)
         with lists of 250, the last one shorter; a topic may come twice. The names of one list are let go before the
         next one comes (collect). use must not change broker-topics:<brokerName>. cursor: of SSCAN, nil begins; most:
         stop after about so many topics, nil never.
  USED BY remove_who, queue_data ]]
local TOPICS_AT_ONCE = 250 -- half an event

local function each_topics(name, use, cursor, most)
  local key, rest, used = P .. "broker-topics:" .. name, {}, 0
  cursor = cursor or "0"
  repeat
    local page = call("SSCAN", key, cursor, "COUNT", TOPICS_AT_ONCE)
    cursor, used = page[1], used + #page[2]
    for i = 1, #page[2] do
      rest[#rest + 1] = page[2][i]
      if #rest == TOPICS_AT_ONCE then
        use(rest)
        rest = {}
      end
    end
    page = nil
    collect()
  until cursor == "0" or (most and used >= most)
  if #rest > 0 then
    use(rest)
  end
  return cursor
end
