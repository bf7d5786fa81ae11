--[[ route: where a topic is, under RocketMQ's names; read only, for redis-cli
    mqregistry redis-cli --eval lua/inspect/route.lua 'mq:{default}:meta' , topic1
    mqregistry redis-cli EVAL_RO "$(cat lua/inspect/route.lua)" 1 'mq:{default}:meta' topic1      # Redis 7 and Valkey
  KEYS[1] meta   of the namespace
  ARGV[1] topic
  RETURNS lines: the topic's queueDatas, brokerDatas and filterServerTable, like TopicRouteData; one line if no
          brokerName has the topic
  COST    O(brokerNames that have the topic, or have just registered) ]]
local P, topic, lines = string.sub(KEYS[1], 1, -5), ARGV[1], {ARGV[1]}
local function add(indent, text)
  lines[#lines + 1] = string.rep("  ", indent) .. text
end

local names, seen = {}, {}
for _, some in ipairs({redis.call("SMEMBERS", P .. "topic:" .. topic), redis.call("HKEYS", P .. "arriving")}) do
  for _, name in ipairs(some) do
    local data = not seen[name] and redis.call("HGET", P .. "queues:" .. name, topic)
    seen[name] = true
    if data then
      names[#names + 1] = {name, cjson.decode(data)}
    end
  end
end
table.sort(names, function(a, b) return a[1] < b[1] end)

local filters = {}
add(1, "queueDatas")
for i = 1, #names do
  local data = names[i][2]
  add(2, string.format("brokerName=%s readQueueNums=%d writeQueueNums=%d perm=%d topicSysFlag=%d",
    names[i][1], data.r, data.w, data.p, data.f))
end
add(1, "brokerDatas")
for i = 1, #names do
  local flat, row, addrs = redis.call("HGETALL", P .. "broker:" .. names[i][1]), {}, {}
  for j = 1, #flat, 2 do
    row[flat[j]] = flat[j + 1]
    if string.match(flat[j], "^-?%d+$") then
      addrs[#addrs + 1] = flat[j] .. "=" .. flat[j + 1]
    end
  end
  table.sort(addrs)
  add(2, "cluster=" .. (row.cluster or "") .. " brokerName=" .. names[i][1]
    .. " brokerAddrs={" .. table.concat(addrs, ", ") .. "}"
    .. " enableActingMaster=" .. (row.acting == "1" and "true" or "false")
    .. (row.zone and " zoneName=" .. row.zone or ""))
  for j = 1, #addrs do
    local addr = string.match(addrs[j], "=(.*)$")
    local list = redis.call("LRANGE", P .. "filter:" .. (row.cluster or "") .. "|" .. addr, 0, -1)
    if #list > 0 then
      filters[#filters + 1] = addr .. "=[" .. table.concat(list, ", ") .. "]"
    end
  end
end
add(1, "filterServerTable")
for i = 1, #filters do
  add(2, filters[i])
end
return #names > 0 and lines or {topic .. ": no brokerName has this topic"}
