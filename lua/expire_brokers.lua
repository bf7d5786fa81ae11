--[[ expire_brokers: remove brokers whose heartbeat is overdue
  KEYS[1] meta       HASH
  ARGV[1] limit      int   brokers a call, 1..1000
  ARGV[2] topics     int   topics that lose write permission a call; those of a brokerName with more in parts, by later
                     calls (include/wiping)
  DERIVED every table of the namespace
  RETURNS {seq, next deadline (ms, "" = none), now (ms), heard 0|1, more 0|1, who...}: those that were
          removed. more: the limits were reached, or topics are left: call again.
          heard 0: no process that hears brokers renews its lease; nobody is removed, and next deadline says when to
          look again
  EVENTS  broker_expired, one for each place one stood in; write_perm_set where an earlier removal left topics
  REPEAT  no effect      COST O(limit + topics)
  SOURCE  RouteInfoManager.scanNotActiveBroker; grace: include/seen, include/keep_seen ]]
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
--- @include "include/remove_who"
--- @include "include/seen"
local LOOK_AGAIN_MS = 1000
local limit, most, removed, more = math.min(1000, tonumber(ARGV[1])), tonumber(ARGV[2]), {}, false
room = most
if not heard then
  more = not wipe_names()
  local somebody = call("EXISTS", P .. "deadlines") == 1
  return {seq, somebody and int(now_ms + LOOK_AGAIN_MS) or "", int(now_ms), 0, more and 1 or 0}
end
local due = call("ZRANGEBYSCORE", P .. "deadlines", "-inf", int(now_ms), "LIMIT", 0, limit)
for i = 1, #due do
  local topics = topics_of(due[i])
  if topics > room and topics <= most and #removed > 0 then
    more = true -- the next call has room for it
    break
  end
  remove_who(due[i], "broker_expired")
  removed[#removed + 1] = due[i]
end
-- wipes have a call of their own: they look at the types of keys, which has to be before the first write
more = #removed > 0 and call("EXISTS", P .. "wiping") == 1 or #removed == 0 and not wipe_names()
  or more or #due == limit
local first = call("ZRANGE", P .. "deadlines", 0, 0, "WITHSCORES")
return {seq, first[2] or "", int(now_ms), 1, more and 1 or 0, unpack(removed)}
