--[[ read_broker: what a registration of one brokerName is compared with, read only
  For writers that keep no view of all the tables. Everything is of one moment; whoever pages through many topics
  keeps the first page's rev: any change of the row or of its queue data since then has moved it, and
  register_broker notices.
  KEYS[1] meta         HASH
  ARGV[1] broker_name
  ARGV[2] topics       number of topics that follow
  ARGV[3] names        "1": the names of all its topics are wanted
  ARGV[4...] topics, then pairs of static topic and brokerName
  DERIVED broker:<brokerName>, topic:, broker-topics:<brokerName>, mapping:, config, kv:ORDER_TOPIC_CONFIG
  RETURNS {epoch, seq, config_rev, flat HASH of the row, queue data or nil of each topic, JSON or nil of each pair,
           all topics or {}, flat HASH of the shared configuration, flat HASH of the order configuration,
           1 if that was ever used, else 0}
  EVENTS  none
  REPEAT  the same      COST O(topics asked for) ]]
--- @include "include/open"
local name, count = ARGV[1], tonumber(ARGV[2])
local row, queue_datas, mappings = call("HGETALL", P .. "broker:" .. name), {}, {}
local has_topics = #row > 0 -- what is left of a name that is gone counts for nobody (include/leaving)
for i = 4, 3 + count do
  queue_datas[#queue_datas + 1] = has_topics and call("HGET", P .. "topic:" .. ARGV[i], name)
end
for i = 4 + count, #ARGV, 2 do
  mappings[#mappings + 1] = call("HGET", P .. "mapping:" .. ARGV[i], ARGV[i + 1])
end
local names = ARGV[3] == "1" and has_topics and call("SMEMBERS", P .. "broker-topics:" .. name) or {}
return {epoch, seq, config_rev, row, queue_datas, mappings, names,
  call("HGETALL", P .. "config"), call("HGETALL", P .. "kv:ORDER_TOPIC_CONFIG"),
  call("SISMEMBER", P .. "kv", "ORDER_TOPIC_CONFIG")}
