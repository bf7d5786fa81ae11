--[[ disconnected: decide when a broker that has no connection any more is removed
  GIVES  disconnect(who, at_once): to be called when the last channel entry of a broker was deleted. If a connection of
         the broker closed after its last heartbeat, it has one heartbeat period and LATE_MS for its next heartbeat,
         counted from the close or from the end of the last gap (include/seen). Then expire_brokers removes it, or at
         its deadline if that is earlier. If no connection closed, only the deadline counts. at_once: the broker ended.
         The period is BEAT_MS, or the time between the last heartbeats (period_ms) if that is longer. ]]
--- @include "include/expect"
local BEAT_MS, LATE_MS = 30000, 5000
expect("zset", P .. "disconnected")

local function disconnect(who, at_once)
  local live = call("HMGET", P .. "live:" .. who, "closed_at", "period_ms", "timeout_ms")
  if live[1] then
    local closed_at = tonumber(live[1])
    local since = closed_at > now_ms and up_since or math.max(closed_at, up_since) -- first case: the clock went back
    local period = math.max(BEAT_MS, math.min(tonumber(live[2] or "0"), tonumber(live[3]) / 2))
    call("ZADD", P .. "disconnected", at_once and 0 or int(since + period + LATE_MS), who)
  end
end
