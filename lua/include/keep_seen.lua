--[[ keep_seen: notice that nobody watched for a while, and grant grace
  NEEDS  open
  GIVES  keep_seen() -> up_since (ms): no broker is removed for silence before up_since + its own timeout.
         A gap of more than three lease renewals, or time that went backwards, sets up_since to now. After
         a step back, deadlines that lie further away than one timeout are drawn in.
  USED BY renew_lease, expire_brokers, reap_worker ]]
local SEEN_GAP_MS = 3000

local function keep_seen()
  local kept = call("HMGET", KEYS[1], "seen_ms", "up_since")
  local seen, up_since = tonumber(kept[1] or "0"), tonumber(kept[2] or "0")
  if now_ms < seen - 100 then
    local deadlines = call("ZRANGE", P .. "deadlines", 0, -1, "WITHSCORES")
    for i = 1, #deadlines, 2 do
      local timeout = tonumber(call("HGET", P .. "live:" .. deadlines[i], "timeout_ms") or "0")
      if tonumber(deadlines[i + 1]) > now_ms + timeout then
        call("ZADD", P .. "deadlines", int(now_ms + timeout), deadlines[i])
      end
    end
    up_since = now_ms
  elseif now_ms > seen + SEEN_GAP_MS then
    up_since = now_ms
  end
  if up_since == now_ms then
    call("HSET", KEYS[1], "seen_ms", int(now_ms), "up_since", int(now_ms))
  elseif now_ms > seen then
    call("HSET", KEYS[1], "seen_ms", int(now_ms))
  end
  return up_since
end
