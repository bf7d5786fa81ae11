--[[ disconnected: a broker without a connection: it may be alive or dead
  GIVES  disconnect(who, at_once): its last channel entry is gone. If one of its connections was seen closing since its
         last beat, it is removed (expire_brokers) unless it beats within one period of its beats and LATE_MS after that
         close, or after the last gap (include/seen). It is also removed at its deadline. at_once: it is known to be gone.
         The period is BEAT_MS; for another registerNameServerPeriod the time between its last beats (period_ms). ]]
--- @include "include/expect"
local BEAT_MS, LATE_MS = 30000, 5000
expect("zset", P .. "disconnected")

local function disconnect(who, at_once)
  local live = call("HMGET", P .. "live:" .. who, "closed_at", "period_ms", "timeout_ms")
  if live[1] then
    local closed_at = tonumber(live[1])
    local since = closed_at > now_ms and up_since or math.max(closed_at, up_since) -- the clock may have gone back
    local period = math.max(BEAT_MS, math.min(tonumber(live[2] or "0"), tonumber(live[3]) / 2))
    call("ZADD", P .. "disconnected", at_once and 0 or int(since + period + LATE_MS), who)
  end
end
