--[[ expire_brokers: remove brokers whose heartbeat is overdue
  KEYS[1] meta       HASH
  ARGV[1] limit      int   brokers a call, 1..1000
  DERIVED every table of the namespace
  RETURNS {seq, next deadline (ms, "" = none), now (ms), who...}: those that were removed
  EVENTS  broker_expired, one for each place one stood in
  REPEAT  no effect      COST O(limit * topics)
  SOURCE  RouteInfoManager.scanNotActiveBroker; grace: include/keep_seen ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/hash"
--- @include "include/in_chunks"
--- @include "include/row_json"
--- @include "include/emptied"
--- @include "include/queue_data"
--- @include "include/emit_topics"
--- @include "include/remove_who"
--- @include "include/keep_seen"
local up_since = keep_seen()
local removed = {}
local due = call("ZRANGEBYSCORE", P .. "deadlines", "-inf", int(now_ms), "LIMIT", 0, ARGV[1])
for i = 1, #due do
  local timeout = tonumber(call("HGET", P .. "live:" .. due[i], "timeout_ms") or "0")
  if now_ms >= up_since + timeout then
    remove_who(due[i], "broker_expired")
    removed[#removed + 1] = due[i]
  else
    call("ZADD", P .. "deadlines", int(up_since + timeout), due[i])
  end
end
local first = call("ZRANGE", P .. "deadlines", 0, 0, "WITHSCORES")
return {seq, first[2] or "", int(now_ms), unpack(removed)}
