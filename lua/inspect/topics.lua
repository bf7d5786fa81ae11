--[[ topics: every topic with its brokerNames; read only, for redis-cli
    mqregistry redis-cli --eval lua/inspect/topics.lua 'mq:{default}:meta' , 'order*' 100
    mqregistry redis-cli EVAL_RO "$(cat lua/inspect/topics.lua)" 1 'mq:{default}:meta'            # Redis 7 and Valkey
  KEYS[1] meta     of the namespace
  ARGV[1] pattern  as of SCAN; default: all topics
  ARGV[2] most     int   topics that are shown; default 1000
  RETURNS lines: "<topic>: <brokerName>, <brokerName>"; at the end what is not shown
  COST    O(topics) if few match, else O(most) ]]
local P, pattern, most = string.sub(KEYS[1], 1, -5), ARGV[1] or "*", tonumber(ARGV[2] or "1000")
local topics, cursor = {}, "0"
repeat
  local page = redis.call("SSCAN", P .. "topics", cursor, "MATCH", pattern, "COUNT", 500)
  cursor = page[1]
  for i = 1, #page[2] do
    topics[#topics + 1] = page[2][i]
  end
until cursor == "0" or #topics > most
table.sort(topics)
local lines = {}
for i = 1, math.min(#topics, most) do
  local names = redis.call("SMEMBERS", P .. "topic:" .. topics[i])
  table.sort(names)
  lines[i] = topics[i] .. ": " .. table.concat(names, ", ")
end
if #topics > most then
  lines[#lines + 1] = "... and more; " .. redis.call("SCARD", P .. "topics") .. " topics in all"
end
local arriving, leaving = redis.call("HKEYS", P .. "arriving"), redis.call("HVALS", P .. "leaving")
if #arriving + #leaving > 0 then
  lines[#lines + 1] = "... not done yet, a sweeper does it: " .. #arriving .. " brokerNames are being entered, "
    .. #leaving .. " are being taken out"
end
return lines
