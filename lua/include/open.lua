--[[ open: the first include of every script, which all other includes use
  KEYS[1] is the namespace's meta HASH, "mq:{<namespace>}:meta".
  GIVES  call, P (key prefix), now_ms (Redis TIME), epoch, seq, config_rev, int(number), seen_ms and up_since
         (include/seen), stream_limits ("<changes> <heartbeats> <lookups>", the most entries of each stream, which
         trim_streams stored). An error reply, before any write, if there is no namespace (Redis came back empty) ]]
local call = redis.call
local P = string.sub(KEYS[1], 1, -5)
local meta = call("HMGET", KEYS[1], "epoch", "seq", "config_rev", "clock_offset_ms", "stream_limits",
  "seen_ms", "up_since")
if not meta[1] then
  return redis.error_reply("MQUNINIT namespace " .. P .. " is not initialised")
end
local epoch, seq, config_rev = meta[1], tonumber(meta[2]), meta[3]
local stream_limits = meta[5] or "1000000 400000 100000"
local seen_ms, up_since = tonumber(meta[6] or "0"), tonumber(meta[7] or "0")
local time = call("TIME")
-- clock_offset_ms moves the clock of a whole namespace: for tests, and for `simulate` when it writes a past day
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000) + (tonumber(meta[4] or "0"))

local function int(number)
  return string.format("%.0f", number)
end
