--[[ release_channels: a draining worker gives up its channels, and then its lease; a sweeper that ends has neither, and
  what it told of itself goes
  KEYS[1] meta         HASH
  ARGV[1] incarnation  of the worker, or the sweeper's id
  ARGV[2] limit        int   brokers a call, 1..1000
  ARGV[3] topics       int   topics that lose write permission a call; those of a brokerName with more are left to
                       expire_brokers (include/wiping)
  DERIVED every table of the namespace
  RETURNS {seq, more 0|1}
  EVENTS  broker_reaped, as with reap_worker: for a broker that has no connection left, if one of them was seen
          closing. The other brokers live on: they come back through another front end
  REPEAT  no effect      COST O(limit + topics) ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/hash"
--- @include "include/row_json"
--- @include "include/collect"
--- @include "include/rest"
--- @include "include/queue_data"
--- @include "include/emit_topics"
--- @include "include/wiping"
--- @include "include/topic_sets"
room = tonumber(ARGV[3])
--- @include "include/remove_who"
--- @include "include/give_up"
--- @include "include/processes"
expect("set", P .. "leases", P .. "held:" .. ARGV[1])
check_processes()
local _, more = give_up(ARGV[1], tonumber(ARGV[2]), {})
if not more then
  call("DEL", P .. "lease:" .. ARGV[1])
  call("SREM", P .. "leases", ARGV[1])
  forget_process(ARGV[1])
end
return {seq, more and 1 or 0}
