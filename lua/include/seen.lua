--[[ seen: can heartbeats of brokers reach Redis at this moment? read only
  They can while a worker of a front end, or a broker's process that writes to Redis itself, renews its lease. A time
  without such renewals is a gap: in a gap, silence says nothing about a broker.
  include/open gives seen_ms, the time of the last renewal, and up_since, the end of the last gap.
  GIVES  heard: whether a renewal came within SEEN_GAP_MS, the time of three renewals. After a step back of the clock it
         is false until the next renewal.
         good_ms: the time from which deadlines are counted: the clock of Redis, or in a gap its last renewal. The
         renewal that ends the gap moves all deadlines by its length (keep_seen).
         gap_since(known): whether a gap began or ended since a lease renewal that returned known as up_since; false for
         "". Then Redis may have stood still while a call of that process waited in its socket. ]]
local SEEN_GAP_MS = 3000
-- After a failover TIME may be some milliseconds earlier: this is no step back of the clock.
local STEP_BACK_MS = 100
local heard = now_ms <= seen_ms + SEEN_GAP_MS and now_ms >= seen_ms - STEP_BACK_MS
local good_ms = (heard or seen_ms == 0) and now_ms or seen_ms
local function gap_since(known)
  return known ~= "" and (not heard or up_since ~= tonumber(known))
end
