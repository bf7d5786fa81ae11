--[[ read_broker: read the part of the tables that a registration of one brokerName is compared with, read only
  For writers that have no view (copy) of all tables. A caller that reads many topics in pages sends the rev of the
  first page to register_broker: every later change of the row or its queue data changes rev, and register_broker
  answers RETRY.
  KEYS[1] meta         HASH
  ARGV[1] broker_name
  ARGV[2] topics       number of topics that follow
  ARGV[3...] topics, then pairs of static topic and brokerName
  DERIVED broker:<brokerName>, queues:<brokerName>, mapping:, config, kv
  RETURNS {epoch, seq, config_rev, flat HASH of the row, queue data or nil of each topic, JSON or nil of each pair,
           flat HASH of the shared configuration, 1 if there ever was an order configuration, else 0}
  EVENTS  none
  REPEAT  the same      COST O(topics asked for) ]]
--- @include "include/open"
local name, count = ARGV[1], tonumber(ARGV[2])
local row, queue_datas, mappings = call("HGETALL", P .. "broker:" .. name), {}, {}
if count > 0 then
  queue_datas = call("HMGET", P .. "queues:" .. name, unpack(ARGV, 3, 2 + count))
end
for i = 3 + count, #ARGV, 2 do
  mappings[#mappings + 1] = call("HGET", P .. "mapping:" .. ARGV[i], ARGV[i + 1])
end
return {epoch, seq, config_rev, row, queue_datas, mappings,
  call("HGETALL", P .. "config"), call("SISMEMBER", P .. "kv", "ORDER_TOPIC_CONFIG")}
