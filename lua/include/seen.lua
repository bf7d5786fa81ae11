--[[ seen: can brokers be heard at this moment? read only
  NEEDS  open
  GIVES  SEEN_GAP_MS (three lease renewals), seen_ms (when a process that hears brokers last renewed its lease),
         up_since (ms, when the last gap between such renewals ended), heard: a renewal came within SEEN_GAP_MS.
         Those who hear brokers are the workers of front ends, and brokers' processes that write to Redis themselves.
         A sweeper does not: while it runs alone, silence says nothing about a broker, so nobody is removed for silence
         unless heard. After the clock went back heard is false too, until a renewal has corrected seen_ms (keep_seen).
  USED BY renew_lease, expire_brokers, reap_worker ]]
local SEEN_GAP_MS = 3000
-- Redis TIME may differ by some milliseconds after a failover: that is no step back of the clock
local STEP_BACK_MS = 100
local kept = call("HMGET", KEYS[1], "seen_ms", "up_since")
local seen_ms, up_since = tonumber(kept[1] or "0"), tonumber(kept[2] or "0")
local heard = now_ms <= seen_ms + SEEN_GAP_MS and now_ms >= seen_ms - STEP_BACK_MS
