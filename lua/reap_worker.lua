--[[ reap_worker: clean up after worker processes whose lease ran out
  KEYS[1] meta       HASH
  ARGV[1] limit      int   brokers a call, 1..1000
  ARGV[2] topics     int   topics that lose write permission a call; those of a brokerName with more are left to
                     expire_brokers (include/wiping)
  ARGV[3] sweeper    the id of the caller, "" = it tells nothing of itself
  ARGV[4] process    what it tells of itself (JSON, include/processes)
  DERIVED every table of the namespace
  RETURNS {seq, more 0|1, reaped entries, who...}: those that were removed
  EVENTS  broker_reaped for a broker that has no connection left, if one of them was seen closing
  REPEAT  no effect      COST O(workers + processes + limit + topics)
  SOURCE  After an outage nothing is reaped until every worker had the time to renew, and nothing at all while nobody
          hears brokers (include/seen). For front ends "direct:..." see include/give_up ]]
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
room = tonumber(ARGV[2])
--- @include "include/remove_who"
--- @include "include/give_up"
--- @include "include/seen"
--- @include "include/processes"
check_processes()
local function tell_sweeper()
  if ARGV[3] ~= "" then
    tell_process(ARGV[3], ARGV[4])
    forget_old_processes()
  end
end
local SETTLE_MS = 10000
if not heard or now_ms < up_since + SETTLE_MS then
  tell_sweeper()
  return {seq, 0, 0}
end
local limit, removed = math.min(1000, tonumber(ARGV[1])), {}
local incarnations, entries, more = call("SMEMBERS", P .. "leases"), 0, false
for i = 1, #incarnations do
  local incarnation = incarnations[i]
  if call("EXISTS", P .. "lease:" .. incarnation) == 0 then
    local taken
    taken, more = give_up(incarnation, limit - entries, removed)
    entries = entries + taken
    if more then
      break
    end
    call("SREM", P .. "leases", incarnation)
  end
end
tell_sweeper()
return {seq, more and 1 or 0, entries, unpack(removed)}
