--[[ reap_worker: clean up after worker processes whose lease ran out
  KEYS[1] meta       HASH
  ARGV[1] limit      int   brokers a call, 1..1000
  DERIVED every table of the namespace
  RETURNS {seq, more 0|1, reaped entries, who...}: those that were removed
  EVENTS  broker_reaped for a broker none of whose connections is left, and of which one was seen closing
  REPEAT  no effect      COST O(workers + limit * topics)
  SOURCE  design section 5. After an outage nothing is reaped until every worker had the time to renew.
          A front end "direct:..." is a broker's own process, which writes to Redis itself: where a front end's death
          says nothing about its brokers, this one's is the close of the broker's connection. ]]
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
local SETTLE_MS = 10000
if now_ms < keep_seen() + SETTLE_MS then
  return {seq, 0, 0}
end
local limit, entries, removed = tonumber(ARGV[1]), 0, {}
local incarnations = call("SMEMBERS", P .. "leases")
for i = 1, #incarnations do
  local incarnation = incarnations[i]
  if call("EXISTS", P .. "lease:" .. incarnation) == 0 then
    local held = P .. "held:" .. incarnation
    while entries < limit do
      local who = call("SPOP", held)
      if not who then
        break
      end
      entries = entries + 1
      local key = P .. "channels:" .. who
      local channels = hash(key)
      for front_end, channel in pairs(channels) do
        if string.match(channel, "^[^/]*") == incarnation then
          call("HDEL", key, front_end)
          if string.sub(front_end, 1, 7) == "direct:" and call("EXISTS", P .. "live:" .. who) == 1 then
            call("HSET", P .. "live:" .. who, "closed_at", int(now_ms))
          end
        end
      end
      if call("EXISTS", key) == 0 and call("HEXISTS", P .. "live:" .. who, "closed_at") == 1 then
        remove_who(who, "broker_reaped")
        removed[#removed + 1] = who
      end
    end
    if call("EXISTS", held) == 0 then
      call("SREM", P .. "leases", incarnation)
    end
  end
end
return {seq, entries >= limit and 1 or 0, entries, unpack(removed)}
