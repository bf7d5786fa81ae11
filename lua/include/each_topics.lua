--[[ each_topics: all topics of a brokerName, some hundreds at a time
  NEEDS  open, collect
  GIVES  each_topics(broker_name, use): calls use(topics) with lists of 250, the last one shorter; a topic may come
         twice. The names of one list are let go before the next one comes (collect). use must not
         change broker-topics:<brokerName>.
  USED BY remove_who, queue_data ]]
local TOPICS_AT_ONCE = 250 -- half an event

local function each_topics(name, use)
  local key, cursor, rest = P .. "broker-topics:" .. name, "0", {}
  repeat
    local page = call("SSCAN", key, cursor, "COUNT", TOPICS_AT_ONCE)
    cursor = page[1]
    for i = 1, #page[2] do
      rest[#rest + 1] = page[2][i]
      if #rest == TOPICS_AT_ONCE then
        use(rest)
        rest = {}
      end
    end
    page = nil
    collect()
  until cursor == "0"
  if #rest > 0 then
    use(rest)
  end
end
